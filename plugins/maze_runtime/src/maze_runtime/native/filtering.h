// Minimal filtering (Toom 1963, Cook 1966, Winograd 1980): M neighbouring outputs of a filter with R taps take
// N = M + R - 1 multiplications instead of M R. Both are polynomials, which are evaluated at N points, one of them
// infinity, and multiplied there; in two dimensions by these matrices on either side. See Lavin and Gray 2016, "Fast
// Algorithms for Convolutional Neural Networks", equation 8: Y = Aᵀ [(G g Gᵀ) ⊙ (Bᵀ d B)] A.

#pragma once

#include "matrices.h"

namespace {

template <int ROWS, int COLUMNS>
struct Coefficients {
  float at[ROWS][COLUMNS];
};

template <int ROWS, int COLUMNS>
constexpr Coefficients<COLUMNS, ROWS> turned(const Coefficients<ROWS, COLUMNS>& own) {
  Coefficients<COLUMNS, ROWS> result{};
  for (int i = 0; i < ROWS; ++i)
    for (int j = 0; j < COLUMNS; ++j) result.at[j][i] = own.at[i][j];
  return result;
}

// Those that lose the least of float32 (Barabasz et al. 2020, "Error Analysis and Improving the Accuracy of Winograd
// Convolution for Deep Neural Networks", table 3).
constexpr float kPoints[] = {0.0f, 1.0f, -1.0f, 0.5f, -2.0f};

// Bᵀ: row j holds the coefficients of the product of x - a over all points a but the j-th, or over all of them.
template <int N>
constexpr Coefficients<N, N> of_inputs() {
  Coefficients<N, N> result{};
  for (int j = 0; j < N; ++j) {
    float* own = result.at[j];
    own[0] = 1.0f;
    int degree = 0;
    for (int l = 0; l < N - 1; ++l) {
      if (l == j) continue;
      ++degree;
      for (int d = degree; d >= 0; --d) own[d] = (d > 0 ? own[d - 1] : 0.0f) - kPoints[l] * own[d];
    }
  }
  return result;
}

// G: the powers of each point, divided by its distances from the others.
template <int N, int R>
constexpr Coefficients<N, R> of_filters() {
  Coefficients<N, R> result{};
  for (int j = 0; j < N - 1; ++j) {
    float distances = 1.0f, power = 1.0f;
    for (int l = 0; l < N - 1; ++l)
      if (l != j) distances *= kPoints[j] - kPoints[l];
    for (int k = 0; k < R; ++k, power *= kPoints[j]) result.at[j][k] = power / distances;
  }
  result.at[N - 1][R - 1] = 1.0f;
  return result;
}

// Aᵀ: the powers of each point.
template <int N, int R>
constexpr Coefficients<N - R + 1, N> of_outputs() {
  Coefficients<N - R + 1, N> result{};
  for (int j = 0; j < N - 1; ++j) {
    float power = 1.0f;
    for (int i = 0; i < N - R + 1; ++i, power *= kPoints[j]) result.at[i][j] = power;
  }
  result.at[N - R][N - 1] = 1.0f;
  return result;
}

template <int N, int R>
struct Filtering {
  static constexpr auto kInputs = of_inputs<N>();
  static constexpr auto kFilters = of_filters<N, R>();
  static constexpr auto kOutputs = of_outputs<N, R>();
  static constexpr auto kInputsTurned = turned(kInputs);
  static constexpr auto kFiltersTurned = turned(kFilters);
  static constexpr auto kOutputsTurned = turned(kOutputs);
};

// The sum of from[k] times the coefficients of a row.
template <const auto& C, int COLUMNS>
inline Vector along(int row, const Vector (&from)[COLUMNS]) {
  Vector sum{};
  bool is_first = true;
  UNROLLED for (int k = 0; k < COLUMNS; ++k) {
    const float own = C.at[row][k];
    if (own == 0.0f) continue;
    sum = is_first ? own * from[k] : sum + own * from[k];  // 0 + x would be kept, for it is not x where that is -0
    is_first = false;
  }
  return sum;
}

// C from Cᵀ
template <const auto& C, int ROWS, int COLUMNS>
inline void on_both_sides(const Vector (&from)[COLUMNS][COLUMNS], Vector (&to)[ROWS][ROWS]) {
  Vector half[ROWS][COLUMNS];
  UNROLLED for (int j = 0; j < COLUMNS; ++j) {
    Vector column[COLUMNS];
    UNROLLED for (int k = 0; k < COLUMNS; ++k) column[k] = from[k][j];
    UNROLLED for (int i = 0; i < ROWS; ++i) half[i][j] = along<C>(i, column);
  }
  UNROLLED for (int i = 0; i < ROWS; ++i)
    UNROLLED for (int j = 0; j < ROWS; ++j) to[i][j] = along<C>(j, half[i]);
}

}  // namespace
