// Two ways to multiply float32 matrices: by panels, and by dot products.
//
// Some columns of the right matrix make a panel, some rows at a time, that stays in the nearest cache; it is packed unless
// its rows are near each other. Tiles of the result, three quarters of the registers, stay there while the rows of a panel
// pass.
// Where the result is narrower than a vector most of it would stay empty. There the numbers that are summed lie in the
// vectors, or the product is taken the other way round.

#pragma once

#include <vector>

#include "vectors.h"

namespace {

constexpr long kColumns = kRegisters / 8;          // vectors of a row of a panel: 64 numbers, or 16
constexpr long kInner = kLanes == 16 ? 128 : 256;  // rows of it, which take 32 KiB, or 16
constexpr long kTile = kRegisters * 3 / 4;         // vectors of a tile
constexpr long kFew = 4;          // rows or columns of a result that is summed up within vectors
constexpr long kSpread = 384;     // rows of the left matrix that are moved apart at once, 384 KiB at most
constexpr long kCloseRows = 128;  // numbers from row to row; further apart they would push each other out of the cache

struct Matrix {
  float* data;
  long rows, columns, row_step, column_step;
};

inline Matrix turned(const Matrix& own) {
  return {own.data, own.columns, own.rows, own.column_step, own.row_step};
}

// Rows of C vectors, `step` numbers apart.
struct Panel {
  const float* data;
  long step;
};

// R rows and C vectors of out, in registers: bias, or what is there, + left panel. Whole: the last vector is no shorter
// than the others, which spares most tiles a question at each vector.
template <int R, int C, bool IS_WHOLE>
inline void tile_of(const Matrix& left, const Panel& panel, const float* bias, const Matrix& out, bool first) {
  const auto count = [&](long at) { return IS_WHOLE ? kLanes : out.columns - at; };
  Vector sum[R][C];
  UNROLLED for (int c = 0; c < C; ++c) {
    const long at = c * kLanes;
    UNROLLED for (int r = 0; r < R; ++r) {
      if (!first) {
        sum[r][c] = load(out.data + r * out.row_step + at, count(at));
      } else if (bias != nullptr) {
        sum[r][c] = load(bias + at, count(at));
      } else {
        sum[r][c] = Vector{};
      }
    }
  }
  for (long k = 0; k < left.columns; ++k) {
    const float* column = left.data + k * left.column_step;
    const VectorAnywhere* row = reinterpret_cast<const VectorAnywhere*>(panel.data + k * panel.step);
    UNROLLED for (int r = 0; r < R; ++r) {
      const float factor = column[r * left.row_step];
      UNROLLED for (int c = 0; c < C; ++c) sum[r][c] += factor * row[c];
    }
  }
  UNROLLED for (int r = 0; r < R; ++r)
    UNROLLED for (int c = 0; c < C; ++c)
      store(out.data + r * out.row_step + c * kLanes, sum[r][c], count(c * kLanes));
}

template <int R, int C>
inline void tile(const Matrix& left, const Panel& panel, const float* bias, const Matrix& out, bool first) {
  if (out.columns >= C * kLanes) return tile_of<R, C, true>(left, panel, bias, out, first);
  tile_of<R, C, false>(left, panel, bias, out, first);
}

template <int R, int C>
void rows(Matrix left, const Panel& panel, const float* bias, Matrix out, bool first) {
  while (left.rows >= R) {
    tile<R, C>(left, panel, bias, out, first);
    left.rows -= R;
    left.data += R * left.row_step;
    out.data += R * out.row_step;
  }
  if constexpr (R > 1) {
    if (left.rows > 0) rows<R / 2, C>(left, panel, bias, out, first);
  }
}

// right (K, N) as K rows of C vectors, filled up with zeros; K is at most kInner.
template <int C>
void pack(const Matrix& right, float* panel) {
  constexpr long kWidth = C * kLanes;
  if (right.column_step == 1) {
    for (long k = 0; k < right.rows; ++k)
      for (long n = 0; n < kWidth; n += kLanes)
        store(panel + k * kWidth + n, load(right.data + k * right.row_step + n, right.columns - n), kLanes);
  } else if (right.row_step == 1) {
    for (long n = 0; n < kWidth; n += kLanes)
      for (long k = 0; k < right.rows; k += kLanes) {
        Vector block[kLanes];
        UNROLLED for (long i = 0; i < kLanes; ++i) {
          const float* column = right.data + (n + i) * right.column_step;
          block[i] = n + i < right.columns ? load(column + k, right.rows - k) : Vector{};
        }
        turn(block);
        UNROLLED for (long i = 0; i < kLanes; ++i) store(panel + (k + i) * kWidth + n, block[i], kLanes);
      }
  } else {
    for (long k = 0; k < right.rows; ++k)
      for (long n = 0; n < kWidth; ++n)
        panel[k * kWidth + n] = n < right.columns ? right.data[k * right.row_step + n * right.column_step] : 0.0f;
  }
}

// out = bias + left right, or out + left right where it is not the first; right has kInner rows at most, and C vectors a row.
template <int R, int C>
void columns(const Matrix& left, const Matrix& right, const float* bias, const Matrix& out, bool first) {
  alignas(64) static thread_local float packed[kInner * C * kLanes];
  const bool as_it_is = right.column_step == 1 && right.columns == C * kLanes && right.row_step <= kCloseRows;
  if (!as_it_is) pack<C>(right, packed);
  rows<R, C>(left, as_it_is ? Panel{right.data, right.row_step} : Panel{packed, C * kLanes}, bias, out, first);
}

// left (M, K) times a row of panels, right (K, N): out = bias + left right, or out + left right where it is not the first.
inline void by_row_of_panels(const Matrix& left, const Matrix& right, const float* bias, const Matrix& out, bool first) {
  constexpr long kWidth = kColumns * kLanes;
  for (long n = 0; n < out.columns; n += kWidth) {
    const long width = out.columns - n < kWidth ? out.columns - n : kWidth;
    const Matrix panel{right.data + n * right.column_step, right.rows, width, right.row_step, right.column_step};
    const Matrix to{out.data + n, out.rows, width, out.row_step, 1};
    const float* added = bias == nullptr ? nullptr : bias + n;
    switch ((width + kLanes - 1) / kLanes) {
      case 1: columns<12, 1>(left, panel, added, to, first); break;
      case 2: columns<kTile / 2, 2>(left, panel, added, to, first); break;
      case 3: if constexpr (kColumns > 2) columns<kTile / 3, 3>(left, panel, added, to, first); break;
      default: if constexpr (kColumns > 2) columns<kTile / 4, 4>(left, panel, added, to, first);
    }
  }
}

// Whether the numbers of a turned matrix that a tile reads push each other out of the nearest cache: those of kInner rows,
// a multiple of 256 bytes apart. With half of the rows, which wider vectors have, that costs less than to move them.
inline bool lies_in_few_places(const Matrix& left) {
  return kLanes == 8 && left.row_step == 1 && left.column_step % 64 == 0;
}

// The same numbers, a step of an odd multiple of 32 bytes apart.
inline Matrix spread(const Matrix& turned) {
  static thread_local std::vector<Vector> numbers;
  const long step = (turned.rows / kLanes | 1) * kLanes + 2 * kLanes;
  const size_t n_vectors = kInner * step / kLanes;
  if (numbers.size() < n_vectors) numbers.resize(n_vectors);  // to shrink and grow would fill it with zeros anew
  float* to = reinterpret_cast<float*>(numbers.data());
  for (long k = 0; k < turned.columns; ++k)
    for (long m = 0; m < turned.rows; m += kLanes)
      store(to + k * step + m, load(turned.data + k * turned.column_step + m, turned.rows - m), kLanes);
  return {to, turned.rows, turned.columns, 1, step};
}

// out = bias + left right, or out + left right where it adds. What is read of left between two rows of panels is little,
// and stays in a cache while the panels pass.
[[gnu::noinline]] inline void by_panels(const Matrix& left, const Matrix& right, const float* bias, const Matrix& out,
                                        bool adds = false) {
  const bool spreads = lies_in_few_places(left);
  const long most_rows = spreads ? kSpread : left.rows;
  for (long k = 0; k < left.columns; k += kInner) {
    const long inner = left.columns - k < kInner ? left.columns - k : kInner;
    const Matrix panels{right.data + k * right.row_step, inner, right.columns, right.row_step, right.column_step};
    for (long m = 0; m < left.rows; m += most_rows) {
      const long n_rows = left.rows - m < most_rows ? left.rows - m : most_rows;
      const Matrix from{left.data + m * left.row_step + k * left.column_step, n_rows, inner, left.row_step,
                        left.column_step};
      const Matrix to{out.data + m * out.row_step, n_rows, out.columns, out.row_step, 1};
      by_row_of_panels(spreads ? spread(from) : from, panels, bias, to, k == 0 && !adds);
    }
  }
}

// Rows of left by the C columns of right, numbers of both being neighbours: R rows at a time, then what is left of them.
template <int R, int C>
void dots(Matrix left, const Matrix& right, const float* bias, long bias_row_step, long bias_column_step, Matrix out) {
  for (; left.rows >= R; left.rows -= R) {
    Vector sum[kLanes] = {};
    for (long k = 0; k < left.columns; k += kLanes) {
      Vector row[R], column[C];
      UNROLLED for (int r = 0; r < R; ++r) row[r] = load(left.data + r * left.row_step + k, left.columns - k);
      UNROLLED for (int c = 0; c < C; ++c) column[c] = load(right.data + c * right.column_step + k, left.columns - k);
      UNROLLED for (int r = 0; r < R; ++r)
        UNROLLED for (int c = 0; c < C; ++c) sum[r * C + c] += row[r] * column[c];
    }
    const Vector all = sums_of(sum);
    UNROLLED for (int r = 0; r < R; ++r)
      UNROLLED for (int c = 0; c < C; ++c)
        out.data[r * out.row_step + c * out.column_step] =
            all[r * C + c] + (bias == nullptr ? 0.0f : bias[r * bias_row_step + c * bias_column_step]);
    left.data += R * left.row_step;
    out.data += R * out.row_step;
    if (bias != nullptr) bias += R * bias_row_step;
  }
  if constexpr (R > 1) {
    if (left.rows > 0) dots<R / 2, C>(left, right, bias, bias_row_step, bias_column_step, out);
  }
}

// right has kFew columns at most; the numbers of a row of left are neighbours.
inline void by_dots(const Matrix& left, Matrix right, const float* bias, long bias_row_step, long bias_column_step,
             const Matrix& out) {
  static thread_local std::vector<float> neighbours;
  if (right.row_step != 1) {
    neighbours.resize(right.rows * right.columns);
    for (long n = 0; n < right.columns; ++n)
      for (long k = 0; k < right.rows; ++k)
        neighbours[n * right.rows + k] = right.data[k * right.row_step + n * right.column_step];
    right = {neighbours.data(), right.rows, right.columns, 1, right.rows};
  }
  switch (right.columns) {
    case 1: dots<kLanes, 1>(left, right, bias, bias_row_step, bias_column_step, out); break;
    case 2: dots<kLanes / 2, 2>(left, right, bias, bias_row_step, bias_column_step, out); break;
    case 3: dots<kLanes / 4, 3>(left, right, bias, bias_row_step, bias_column_step, out); break;
    default: dots<kLanes / 4, 4>(left, right, bias, bias_row_step, bias_column_step, out);
  }
}

}  // namespace
