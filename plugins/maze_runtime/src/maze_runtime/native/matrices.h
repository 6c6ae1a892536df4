// Two ways to multiply float32 matrices: by panels, and by dot products.
//
// Each 64 columns of the right matrix make a panel, 128 rows at a time, that stays in the nearest cache; it is packed
// unless its rows are near each other. Tiles of the result, 24 vectors, stay in registers while the rows of a panel pass.
// Where the result is narrower than a vector most of it would stay empty. There the numbers that are summed lie in the
// vectors, or the product is taken the other way round.

#pragma once

#include <vector>

#include "vectors.h"

namespace {

constexpr long kInner = 128;  // rows of a panel
constexpr long kColumns = 4;  // vectors of a row of it
constexpr long kFew = 4;      // rows or columns of a result that is summed up within vectors
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

// R rows and C vectors of out, in registers: bias, or what is there, + left panel.
template <int R, int C>
inline void tile(const Matrix& left, const Panel& panel, const float* bias, const Matrix& out, bool first) {
  Vector sum[R][C];
  UNROLLED for (int c = 0; c < C; ++c) {
    const long at = c * kLanes;
    UNROLLED for (int r = 0; r < R; ++r) {
      if (!first) {
        sum[r][c] = load(out.data + r * out.row_step + at, out.columns - at);
      } else if (bias != nullptr) {
        sum[r][c] = load(bias + at, out.columns - at);
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
      store(out.data + r * out.row_step + c * kLanes, sum[r][c], out.columns - c * kLanes);
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

template <int R, int C>
void columns(const Matrix& left, const Matrix& right, const float* bias, const Matrix& out, bool adds) {
  alignas(64) static thread_local float packed[kInner * C * kLanes];
  const bool as_it_is = right.column_step == 1 && right.columns == C * kLanes && right.row_step <= kCloseRows;
  for (long k = 0; k < left.columns; k += kInner) {
    const long inner = left.columns - k < kInner ? left.columns - k : kInner;
    Panel panel{right.data + k * right.row_step, right.row_step};
    if (!as_it_is) {
      pack<C>({right.data + k * right.row_step, inner, right.columns, right.row_step, right.column_step}, packed);
      panel = {packed, C * kLanes};
    }
    rows<R, C>({left.data + k * left.column_step, left.rows, inner, left.row_step, left.column_step}, panel, bias, out,
               k == 0 && !adds);
  }
}

// out = bias + left right, or out + left right where it adds.
inline void by_panels(const Matrix& left, const Matrix& right, const float* bias, const Matrix& out,
                      bool adds = false) {
  constexpr long kWidth = kColumns * kLanes;
  for (long n = 0; n < out.columns; n += kWidth) {
    const long width = out.columns - n < kWidth ? out.columns - n : kWidth;
    const Matrix own{right.data + n * right.column_step, right.rows, width, right.row_step, right.column_step};
    const Matrix to{out.data + n, out.rows, width, out.row_step, 1};
    const float* added = bias == nullptr ? nullptr : bias + n;
    switch ((width + kLanes - 1) / kLanes) {
      case 1: columns<12, 1>(left, own, added, to, adds); break;
      case 2: columns<12, 2>(left, own, added, to, adds); break;
      case 3: columns<8, 3>(left, own, added, to, adds); break;
      default: columns<6, 4>(left, own, added, to, adds);
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
    case 1: dots<16, 1>(left, right, bias, bias_row_step, bias_column_step, out); break;
    case 2: dots<8, 2>(left, right, bias, bias_row_step, bias_column_step, out); break;
    case 3: dots<4, 3>(left, right, bias, bias_row_step, bias_column_step, out); break;
    default: dots<4, 4>(left, right, bias, bias_row_step, bias_column_step, out);
  }
}

}  // namespace
