// Convolutions of images whose channels are neighbours, and their gradients, by minimal filtering; see filtering.h.
//
// A filter of R S x R S taps with stride S is one of R x R with stride 1 over images of which S x S pixels are one, and
// have S S times as many channels. The outputs are cut into tiles. Inputs are carried over to N x N numbers a tile and
// channel, of which those at the same place make N N matrices (tiles, channels) that are multiplied by those of the
// filters. Gradients go the same way backwards, so they are those of what was computed.
//
// All but one of the N x N numbers of a tile in one colour are zeros. Of images of bytes, which have such tiles, rows of
// zeros are left out: three quarters of them on Pong.

#pragma once

#include <cstdint>
#include <cstring>
#include <system_error>
#include <thread>
#include <type_traits>
#include <vector>

#include "channels.h"
#include "filtering.h"

namespace {

struct Convolution {
  int64_t n_images, height, width, channels, out_height, out_width, units, stride, padding;

  long of_image() const { return height * width * channels; }
  long of_output() const { return out_height * out_width * units; }
};

constexpr long kTiles = 100;  // of the images that are computed together: what belongs to them stays in the cache

// N N matrices that begin at different places of the cache.
class Matrices {
 public:
  float* place(long n_matrices, long rows, long columns) {
    rows_ = rows, columns_ = columns;
    step = rows * columns;
    if (step % 256 == 0) step += kLanes;
    numbers_.resize((n_matrices * step + kLanes - 1) / kLanes);
    return start = reinterpret_cast<float*>(numbers_.data());
  }
  Matrix operator[](int which) const { return of(which, rows_, columns_); }
  // One of fewer rows and columns that lies in its place.
  Matrix of(int which, long rows, long columns) const { return {start + which * step, rows, columns, columns, 1}; }
  void fill_with_zeros() { std::memset(start, 0, numbers_.size() * sizeof(Vector)); }

  float* start = nullptr;
  long step = 0;

 private:
  std::vector<Vector> numbers_;
  long rows_ = 0, columns_ = 0;
};

// The rows of tiles in the N N matrices of inputs and outputs.
struct Rows {
  std::vector<int> of_tiles;  // (tiles, N N); the one behind the last where a row of zeros was left out
  std::vector<long> counts;   // of those that there are
};

// What a thread computes with.
struct Room {
  Matrices inputs, outputs, kept_filters, kept_gradients, filter_gradients;
  std::vector<float> bias_gradients;
  Rows rows;
  Channels pixels, units;  // of S pixels beside each other, and of outputs
};

struct Rooms {
  Matrices filters, turned_filters;
  std::vector<Room> of_threads;
};

inline Rooms& rooms() {
  static thread_local Rooms own;
  return own;
}

template <int N, int R>
class Filtered {
 public:
  Filtered(const Convolution& own, long n_threads)
      : own_(own),
        rooms_(rooms()),
        down_((own.out_height + kOut - 1) / kOut),
        across_((own.out_width + kOut - 1) / kOut),
        chunk_(own.stride * own.channels),
        padded_chunk_((chunk_ + kLanes - 1) / kLanes * kLanes),
        depth_(own.stride * padded_chunk_),
        at_once_(down_ * across_ < kTiles ? kTiles / (down_ * across_) : 1),
        n_blocks_((own.n_images + at_once_ - 1) / at_once_),
        n_threads_(n_threads < n_blocks_ ? n_threads : n_blocks_) {
    if (static_cast<long>(rooms_.of_threads.size()) < n_threads_) rooms_.of_threads.resize(n_threads_);
  }

  // out = scale x * weight + bias, no less than 0 where it is rectified.
  template <class Number>
  void forward(const Number* x, const float* weight, float scale, const float* bias, bool is_rectified, float* out) {
    carry_filters(weight, scale, rooms_.filters);
    in_threads([&](Room& own, long i, long n) {
      carry_inputs(x + i * own_.of_image(), n, own);
      const long depth = own_.stride * own.pixels.count();
      const Matrices& filters = kept_rows(rooms_.filters, own.pixels, own_.stride, own.kept_filters);
      for (int k = 0; k < N * N; ++k) {
        const long n_rows = own.rows.counts[k];
        by_panels(own.inputs.of(k, n_rows, depth), filters[k], nullptr, own.outputs.of(k, n_rows, own_.units));
      }
      bring_outputs<kLeavesOut<Number>>(own, n, bias, is_rectified, out + i * own_.of_output());
    });
  }

  // Gradients of x, unless that is null, as it has to be for bytes, of weight and of bias. Where `out` is given,
  // rectified outputs, the gradient passes where they are not 0.
  template <class Number>
  void backward(const float* gradient, const float* out, const Number* x, const float* weight, float scale, float* of_x,
                float* of_weight, float* of_bias) {
    if (of_x != nullptr) {
      carry_filters(weight, scale, rooms_.filters);
      turn_filters(rooms_.filters, rooms_.turned_filters);
    }
    for (long thread = 0; thread < n_threads_; ++thread) {
      Room& own = rooms_.of_threads[thread];
      own.filter_gradients.place(N * N, depth_, own_.units);
      own.filter_gradients.fill_with_zeros();
      own.bias_gradients.assign(own_.units, 0.0f);
    }
    in_threads([&](Room& own, long i, long n) {
      const long at = i * own_.of_output();
      const float* rectified = out == nullptr ? nullptr : out + at;
      carry_inputs(x + i * own_.of_image(), n, own);
      if (kLeavesOut<Number>) {
        own.units.keep_all(own_.units);
      } else {
        own.units.find(gradient + at, rectified, n * own_.of_output(), own_.units, 1);
      }
      carry_gradients<kLeavesOut<Number>>(gradient + at, rectified, n, own);
      const long depth = own_.stride * own.pixels.count();
      for (int k = 0; k < N * N; ++k) {
        const long n_rows = own.rows.counts[k];
        add_filter_gradients(k, own.inputs.of(k, n_rows, depth), own.outputs.of(k, n_rows, own.units.count()), own);
      }
      if (of_x == nullptr) return;
      const Matrices& filters = kept_rows(rooms_.turned_filters, own.units, 1, own.kept_filters);
      for (int k = 0; k < N * N; ++k)
        by_panels(own.outputs.of(k, own.rows.counts[k], own.units.count()), filters[k], nullptr, own.inputs[k]);
      std::memset(of_x + i * own_.of_image(), 0, n * own_.of_image() * sizeof(float));
      bring_input_gradients(own.inputs, n, of_x + i * own_.of_image());
    });
    Room& sum = rooms_.of_threads[0];
    for (long thread = 1; thread < n_threads_; ++thread) {
      const Room& own = rooms_.of_threads[thread];
      for (long i = 0; i < N * N * sum.filter_gradients.step; ++i)
        sum.filter_gradients.start[i] += own.filter_gradients.start[i];
      for (long i = 0; i < own_.units; ++i) sum.bias_gradients[i] += own.bias_gradients[i];
    }
    std::memcpy(of_bias, sum.bias_gradients.data(), own_.units * sizeof(float));
    bring_filter_gradients(sum.filter_gradients, scale, of_weight);
  }

 private:
  static constexpr int kOut = N - R + 1;  // outputs down and across a tile
  using Table = Filtering<N, R>;
  template <class Number>
  static constexpr bool kLeavesOut = std::is_same_v<Number, uint8_t>;

  // Calls with the room of a thread, the first of the images that are computed together, and how many these are. The
  // threads divide the images.
  template <class Call>
  void in_threads(Call call) {
    const auto run = [&](long thread) {
      Room& own = rooms_.of_threads[thread];
      const long end = n_blocks_ * (thread + 1) / n_threads_ * at_once_;
      for (long i = n_blocks_ * thread / n_threads_ * at_once_; i < end && i < own_.n_images; i += at_once_) {
        const long n = own_.n_images - i < at_once_ ? own_.n_images - i : at_once_, n_tiles = n * down_ * across_;
        own.inputs.place(N * N, n_tiles, depth_), own.outputs.place(N * N, n_tiles + 1, own_.units);
        call(own, i, n);
      }
    };
    std::vector<std::thread> others;
    long thread = 1;
    try {
      for (; thread < n_threads_; ++thread) others.emplace_back(run, thread);
    } catch (const std::system_error&) {  // the machine gives no more of them
    }
    for (; thread < n_threads_; ++thread) run(thread);
    run(0);
    for (std::thread& own : others) own.join();
  }

  // The rows of N N matrices that belong to channels that are kept, `repeated` times all channels being rows of them.
  const Matrices& kept_rows(const Matrices& all, const Channels& channels, long repeated, Matrices& kept) const {
    if (channels.are_all()) return all;
    const long n_columns = all[0].columns, n_rows = all[0].rows / repeated;
    kept.place(N * N, repeated * channels.count(), n_columns);
    for (int k = 0; k < N * N; ++k) {
      float* to = kept[k].data;
      for (long i = 0; i < repeated; ++i)
        for (const long place : channels.places()) {
          std::memcpy(to, all[k].data + (i * n_rows + place) * n_columns, n_columns * sizeof(float));
          to += n_columns;
        }
    }
    return kept;
  }

  void add_filter_gradients(int k, const Matrix& inputs, const Matrix& outputs, Room& own) const {
    if (inputs.rows == 0) return;
    const Matrix to = own.filter_gradients[k];
    if (own.pixels.are_all() && own.units.are_all()) return by_panels(turned(inputs), outputs, nullptr, to, true);
    own.kept_gradients.place(1, inputs.columns, outputs.columns);
    by_panels(turned(inputs), outputs, nullptr, own.kept_gradients[0]);
    const float* from = own.kept_gradients[0].data;
    for (long down = 0; down < own_.stride; ++down)
      for (const long place : own.pixels.places()) {
        float* row = to.data + (down * padded_chunk_ + place) * own_.units;
        for (long n = 0; n < own_.units; n += kLanes)
          store(row + n, load(row + n, kLanes) + own.units.load_strip(from, n / kLanes), kLanes);
        from += outputs.columns;
      }
  }

  // Calls with each input of the filters that is one vector of units: its row, and where the weight of the first of its
  // taps and units is in (units, channels, R S, R S).
  template <class Call>
  void for_each_filter(Call call) const {
    const long kernel = R * own_.stride;
    for (long down = 0; down < own_.stride; ++down)
      for (long across = 0; across < own_.stride; ++across)
        for (long c = 0; c < own_.channels; ++c)
          for (long n = 0; n < own_.units; n += kLanes)
            call(down * padded_chunk_ + across * own_.channels + c, n,
                 ((n * own_.channels + c) * kernel + down) * kernel + across);
  }

  long tap(int a, int b) const { return (a * R * own_.stride + b) * own_.stride; }
  long unit_step() const { return own_.channels * R * own_.stride * R * own_.stride; }

  void carry_filters(const float* weight, float scale, Matrices& filters) const {
    filters.place(N * N, depth_, own_.units);
    if (padded_chunk_ != chunk_) filters.fill_with_zeros();
    for_each_filter([&](long row, long n, long first) {
      Vector taps[R][R], carried[N][N];
      for (int a = 0; a < R; ++a)
        for (int b = 0; b < R; ++b)
          for (long lane = 0; lane < kLanes; ++lane)
            taps[a][b][lane] = scale * weight[first + tap(a, b) + lane * unit_step()];
      on_both_sides<Table::kFilters, N, R>(taps, carried);
      for (int k = 0; k < N * N; ++k)
        store(filters.start + k * filters.step + row * own_.units + n, carried[k / N][k % N], kLanes);
    });
  }

  void bring_filter_gradients(const Matrices& gradients, float scale, float* of_weight) const {
    for_each_filter([&](long row, long n, long first) {
      Vector carried[N][N], taps[R][R];
      for (int k = 0; k < N * N; ++k)
        carried[k / N][k % N] = load(gradients.start + k * gradients.step + row * own_.units + n, kLanes);
      on_both_sides<Table::kFiltersTurned, R, N>(carried, taps);
      for (int a = 0; a < R; ++a)
        for (int b = 0; b < R; ++b)
          for (long lane = 0; lane < kLanes; ++lane)
            of_weight[first + tap(a, b) + lane * unit_step()] = scale * taps[a][b][lane];
    });
  }

  void turn_filters(const Matrices& filters, Matrices& to) const {
    to.place(N * N, own_.units, depth_);
    for (int k = 0; k < N * N; ++k)
      for (long row = 0; row < depth_; row += kLanes)
        for (long n = 0; n < own_.units; n += kLanes) {
          Vector block[kLanes];
          UNROLLED for (long i = 0; i < kLanes; ++i)
            block[i] = load(filters[k].data + (row + i) * own_.units + n, kLanes);
          turn(block);
          UNROLLED for (long i = 0; i < kLanes; ++i) store(to[k].data + (n + i) * depth_ + row, block[i], kLanes);
        }
  }

  // Calls with each vector of each tile's inputs: the tile, how far down the stride, the image, the row and the column of
  // the first pixel, which may lie outside, and the number among those of S pixels.
  template <class Call>
  void for_each_input(long n, Call call) const {
    for (long y = 0; y < n * down_; ++y)
      for (long down = 0; down < own_.stride; ++down)
        for (long x = 0; x < across_; ++x)
          for (long c = 0; c < chunk_; c += kLanes)
            call(y * across_ + x, down, y / down_, y % down_ * kOut * own_.stride + down - own_.padding,
                 x * kOut * own_.stride - own_.padding, c);
  }

  bool is_inside(long row, long column) const {
    return row >= 0 && row < own_.height && column >= 0 && column + own_.stride <= own_.width;
  }

  bool is_tile_inside(long row, long column) const {
    return is_inside(row, column) && is_inside(row + (N - 1) * own_.stride, column + (N - 1) * own_.stride);
  }

  // One vector of a tile, of which `count` numbers belong to the row of pixels.
  template <class Number>
  void carry(const Number* image, long row, long column, long c, long count, Vector (&carried)[N][N]) const {
    Vector pixels[N][N];
    const long row_step = own_.stride * own_.width * own_.channels;
    const Number* first = image + (row * own_.width + column) * own_.channels + c;
    if (is_tile_inside(row, column)) {
      UNROLLED for (int a = 0; a < N; ++a)
        UNROLLED for (int b = 0; b < N; ++b) pixels[a][b] = load(first + a * row_step + b * chunk_, count);
    } else {
      UNROLLED for (int a = 0; a < N; ++a)
        UNROLLED for (int b = 0; b < N; ++b)
          pixels[a][b] = is_inside(row + a * own_.stride, column + b * own_.stride)
                             ? load(first + a * row_step + b * chunk_, count)
                             : Vector{};
    }
    on_both_sides<Table::kInputs, N, N>(pixels, carried);
  }

  void carry_inputs(const float* x, long n, Room& room) const {
    room.rows.counts.assign(N * N, n * down_ * across_);
    room.pixels.find(x, nullptr, n * own_.of_image(), own_.channels, own_.stride);
    const long count_kept = room.pixels.count();
    for_each_input(n, [&](long tile, long down, long image, long row, long column, long c) {
      Vector carried[N][N];
      carry(x + image * own_.of_image(), row, column, c, chunk_ - c, carried);
      float* to = room.inputs.start + (tile * own_.stride + down) * count_kept;
      UNROLLED for (int k = 0; k < N * N; ++k)
        room.pixels.store_strip(to + k * room.inputs.step, c / kLanes, carried[k / N][k % N]);
    });
  }

  void carry_inputs(const uint8_t* x, long n, Room& room) const {
    Matrices& inputs = room.inputs;
    Rows& rows = room.rows;
    room.pixels.keep_all(padded_chunk_);
    const int n_tiles = static_cast<int>(n * down_ * across_);
    rows.counts.assign(N * N, 0);
    rows.of_tiles.resize(n_tiles * N * N);
    int* row_of_tile = rows.of_tiles.data();
    for (int tile = 0; tile < n_tiles; ++tile, row_of_tile += N * N) {
      const long y = tile / across_, column = tile % across_ * kOut * own_.stride - own_.padding;
      float* to[N * N];  // the next row, which stays the next if nothing is in it
      for (int k = 0; k < N * N; ++k) to[k] = inputs.start + k * inputs.step + rows.counts[k] * depth_;
      uint64_t found = 0;
      for (long down = 0; down < own_.stride; ++down)
        for (long c = 0; c < chunk_; c += kLanes) {
          Vector carried[N][N];
          const long row = y % down_ * kOut * own_.stride + down - own_.padding;
          carry(x + y / down_ * own_.of_image(), row, column, c, chunk_ - c, carried);
          UNROLLED for (int k = 0; k < N * N; ++k) {
            const Vector own = carried[k / N][k % N];
            store(to[k] + down * padded_chunk_ + c, own, kLanes);
            found |= static_cast<uint64_t>(others_than_zero(own) != 0) << k;
          }
        }
      for (int k = 0; k < N * N; ++k) row_of_tile[k] = found >> k & 1 ? static_cast<int>(rows.counts[k]++) : n_tiles;
    }
  }

  // Adds them, for tiles overlap.
  void bring_input_gradients(const Matrices& gradients, long n, float* of_x) const {
    for_each_input(n, [&](long tile, long down, long image, long row, long column, long c) {
      Vector carried[N][N], pixels[N][N];
      const long row_step = own_.stride * own_.width * own_.channels, count = chunk_ - c;
      const long place = tile * depth_ + down * padded_chunk_ + c;
      float* first = of_x + image * own_.of_image() + (row * own_.width + column) * own_.channels + c;
      UNROLLED for (int a = 0; a < N; ++a)
        UNROLLED for (int b = 0; b < N; ++b)
          carried[a][b] = load(gradients.start + (a * N + b) * gradients.step + place, kLanes);
      on_both_sides<Table::kInputsTurned, N, N>(carried, pixels);
      const bool is_tile = is_tile_inside(row, column);
      UNROLLED for (int a = 0; a < N; ++a)
        UNROLLED for (int b = 0; b < N; ++b)
          if (is_tile || is_inside(row + a * own_.stride, column + b * own_.stride)) {
            float* to = first + a * row_step + b * chunk_;
            store(to, load(to, count) + pixels[a][b], count);
          }
    });
  }

  // Calls with each tile: its number, where the first of its outputs is, and how many lie down and across.
  template <class Call>
  void for_each_tile(long n, Call call) const {
    for (long y = 0; y < n * down_; ++y)
      for (long x = 0; x < across_; ++x) {
        const long row = y % down_ * kOut, column = x * kOut;
        call(y * across_ + x, y / down_ * own_.of_output() + (row * own_.out_width + column) * own_.units,
             own_.out_height - row, own_.out_width - column);
      }
  }

  // Where the row of a tile is in each of the matrices of outputs.
  template <bool LEAVES_OUT>
  void find_rows(const Room& own, long tile, long n_units, float* (&rows)[N * N]) const {
    for (int k = 0; k < N * N; ++k) {
      const long row = LEAVES_OUT ? own.rows.of_tiles[tile * N * N + k] : tile;
      rows[k] = own.outputs.start + k * own.outputs.step + row * n_units;
    }
  }

  template <bool LEAVES_OUT>
  void bring_outputs(const Room& room, long n, const float* bias, bool is_rectified, float* out) const {
    for (int k = 0; LEAVES_OUT && k < N * N; ++k)  // the row that tiles have in the place of one that was left out
      std::memset(room.outputs[k].data + n * down_ * across_ * own_.units, 0, own_.units * sizeof(float));
    for_each_tile(n, [&](long tile, long first, long n_down, long n_across) {
      float* rows[N * N];
      find_rows<LEAVES_OUT>(room, tile, own_.units, rows);
      for (long unit = 0; unit < own_.units; unit += kLanes) {
        Vector carried[N][N], values[kOut][kOut];
        UNROLLED for (int k = 0; k < N * N; ++k) carried[k / N][k % N] = load(rows[k] + unit, kLanes);
        on_both_sides<Table::kOutputs, kOut, N>(carried, values);
        const Vector added = bias == nullptr ? Vector{} : load(bias + unit, kLanes);
        float* to = out + first + unit;
        UNROLLED for (int a = 0; a < kOut; ++a)
          UNROLLED for (int b = 0; b < kOut; ++b)
            if (a < n_down && b < n_across) {
              const Vector value = values[a][b] + added;  // NaN is no less than 0
              store(to + (a * own_.out_width + b) * own_.units,
                    is_rectified ? rectified(value) : value, kLanes);
            }
      }
    });
  }

  // They are added up to the bias's, too.
  template <bool LEAVES_OUT>
  void carry_gradients(const float* gradient, const float* out, long n, Room& room) const {
    float* of_bias = room.bias_gradients.data();
    for_each_tile(n, [&](long tile, long first, long n_down, long n_across) {
      float* rows[N * N];
      find_rows<LEAVES_OUT>(room, tile, room.units.count(), rows);
      for (long unit = 0; unit < own_.units; unit += kLanes) {
        Vector values[kOut][kOut], carried[N][N], sum = load(of_bias + unit, kLanes);
        UNROLLED for (int a = 0; a < kOut; ++a)
          UNROLLED for (int b = 0; b < kOut; ++b) {
            const long at = first + (a * own_.out_width + b) * own_.units + unit;
            values[a][b] = Vector{};
            if (a < n_down && b < n_across) {
              const Mask passes = out == nullptr ? kAll : above_zero(load(out + at, kLanes));
              values[a][b] = load_only(passes, gradient + at);
            }
            sum += values[a][b];
          }
        store(of_bias + unit, sum, kLanes);
        on_both_sides<Table::kOutputsTurned, N, kOut>(values, carried);
        UNROLLED for (int k = 0; k < N * N; ++k) {
          if (LEAVES_OUT) {
            store(rows[k] + unit, carried[k / N][k % N], kLanes);
          } else {
            room.units.store_strip(rows[k], unit / kLanes, carried[k / N][k % N]);
          }
        }
      }
    });
  }

  const Convolution own_;
  Rooms& rooms_;
  const long down_, across_;                // tiles of an image
  const long chunk_, padded_chunk_, depth_;  // numbers of S pixels beside each other, filled up; of S x S pixels
  const long at_once_, n_blocks_;            // images that are computed together, and how often
  const long n_threads_;
};

}  // namespace
