// Products of large matrices of which whole rows or columns are zeros.
//
// The gradient of a rectifier that is silent in a whole minibatch is a column of them, and where a loss takes the lesser
// of two values, about half of the rows of the gradient of either. So are inputs that were rectified: more than half of
// the 3 136 features of Pong are zeros in a minibatch of 256 images. What is left is moved together, multiplied, and the
// rows of the product that are missing are the bias. The numbers are the same, bit for bit.

#pragma once

#include <cstring>
#include <vector>

#include "matrices.h"

namespace {

constexpr long kLarge = 3 << 19;  // multiply-adds of products in which zeros are looked for, and more

// What is left of a matrix, whose rows have no gaps, without its rows and its columns of zeros.
struct Rest {
  std::vector<long> rows, columns;
  std::vector<Mask> strips;  // of kLanes columns
  std::vector<float> numbers;

  void find_columns(const Matrix& own) {
    columns.clear(), strips.clear();
    for (long n = 0; n < own.columns; n += kLanes) {
      Mask found = 0;
      for (long m = 0; m < own.rows && found != lanes(own.columns - n); ++m) found |= others(own, m, n);
      strips.push_back(found);
      for (long lane = 0; lane < kLanes; ++lane)
        if (found >> lane & 1) columns.push_back(n + lane);
    }
  }

  void find_rows(const Matrix& own) {
    rows.clear();
    for (long m = 0; m < own.rows; ++m) {
      long n = 0;
      while (n < own.columns && others(own, m, n) == 0) n += kLanes;
      if (n < own.columns) rows.push_back(m);
    }
  }

  void keep_rows(const Matrix& own) {
    rows.resize(own.rows);
    for (long m = 0; m < own.rows; ++m) rows[m] = m;
  }

  // Of this matrix, or of another one with as many columns.
  Matrix take(const Matrix& own) {
    const long n_rows = static_cast<long>(rows.size()), n_columns = static_cast<long>(columns.size());
    numbers.resize(n_rows * n_columns + kLanes);
    float* to = numbers.data();
    for (const long m : rows)
      for (long n = 0; n < own.columns; n += kLanes) {
        const Mask found = strips[n / kLanes];
        const Vector all = load(own.data + m * own.row_step + n, own.columns - n);
        store(to, compressed(found, all), kLanes);
        to += __builtin_popcount(found);
      }
    return {numbers.data(), n_rows, n_columns, n_columns, 1};
  }

  // Which of kLanes numbers are no zeros.
  static Mask others(const Matrix& own, long m, long n) {
    return others_than_zero(load(own.data + m * own.row_step + n, own.columns - n));
  }
};

// Whether 0 times any of them is 0.
inline bool is_finite(const Matrix& matrix) {
  const Matrix own = matrix.column_step == 1 ? matrix : turned(matrix);
  for (long m = 0; m < own.rows; ++m)
    for (long n = 0; n < own.columns; n += kLanes) {
      const Vector numbers = load(own.data + m * own.row_step + n, own.columns - n);
      if (others_than_zero(numbers - numbers) != 0) return false;
    }
  return true;
}

// Whether less than seven eighths are left.
inline bool are_few(size_t left, long all) { return 8 * static_cast<long>(left) <= 7 * all; }

// The product, and a bias, without rows and columns of left that are zeros. False, with nothing done, where they are less
// than an eighth of it.
inline bool without_zeros_of_left(const Matrix& left, const Matrix& right, const float* bias, const Matrix& out) {
  static thread_local Rest rest, rest_of_right;
  static thread_local std::vector<float> rights, outs;
  const bool is_turned = left.column_step != 1;
  const Matrix own = is_turned ? turned(left) : left;
  if (own.column_step != 1 || (right.column_step != 1 && right.row_step != 1)) return false;
  rest.find_columns(own);
  rest.find_rows(own);
  if (!are_few(rest.rows.size() * rest.columns.size(), own.rows * own.columns) || !is_finite(right)) return false;
  const Matrix factors = is_turned ? turned(rest.take(own)) : rest.take(own);
  const std::vector<long>&ms = is_turned ? rest.columns : rest.rows, &ks = is_turned ? rest.rows : rest.columns;
  Matrix summed = right;  // the rows of right that are left
  if (factors.columns < left.columns && right.column_step == 1) {
    rights.resize(factors.columns * right.columns);
    summed = {rights.data(), factors.columns, right.columns, right.columns, 1};
    for (long k = 0; k < factors.columns; ++k)
      std::memcpy(summed.data + k * summed.row_step, right.data + ks[k] * right.row_step, right.columns * sizeof(float));
  } else if (factors.columns < left.columns) {
    rest_of_right.columns = ks;
    rest_of_right.strips.assign((right.rows + kLanes - 1) / kLanes, 0);
    for (const long k : ks) rest_of_right.strips[k / kLanes] |= static_cast<Mask>(1u << k % kLanes);
    rest_of_right.keep_rows(turned(right));
    summed = turned(rest_of_right.take(turned(right)));
  }
  if (factors.rows == out.rows) {
    by_panels(factors, summed, bias, out);
    return true;
  }
  outs.resize(factors.rows * out.columns);
  const Matrix products{outs.data(), factors.rows, out.columns, out.columns, 1};
  by_panels(factors, summed, bias, products);
  for (long m = 0, i = 0; m < out.rows; ++m) {
    float* to = out.data + m * out.row_step;
    if (i < factors.rows && ms[i] == m) {
      std::memcpy(to, products.data + i++ * products.row_step, out.columns * sizeof(float));
    } else if (bias != nullptr) {
      std::memcpy(to, bias, out.columns * sizeof(float));
    } else {
      std::memset(to, 0, out.columns * sizeof(float));
    }
  }
  return true;
}

// The same, without columns of right that are zeros either: the gradient of a weight is the inputs' transpose times that
// of the outputs, or the other way round.
inline bool without_zeros(const Matrix& left, const Matrix& right, const float* bias, const Matrix& out) {
  static thread_local Rest rest;
  static thread_local std::vector<float> outs;
  if (bias != nullptr || right.column_step != 1) return without_zeros_of_left(left, right, bias, out);
  rest.find_columns(right);
  if (!are_few(rest.columns.size(), right.columns) || !is_finite(left))
    return without_zeros_of_left(left, right, nullptr, out);
  rest.keep_rows(right);
  const Matrix factors = rest.take(right);
  outs.resize(out.rows * factors.columns + kLanes);
  const Matrix products{outs.data(), out.rows, factors.columns, factors.columns, 1};
  if (!without_zeros_of_left(left, factors, nullptr, products)) by_panels(left, factors, nullptr, products);
  for (long m = 0; m < out.rows; ++m) {
    const float* from = products.data + m * products.row_step;
    for (long n = 0; n < out.columns; n += kLanes) {
      const Mask found = rest.strips[n / kLanes];
      const long count = __builtin_popcount(found);
      store(out.data + m * out.row_step + n, expanded(found, load(from, count)), out.columns - n);
      from += count;
    }
  }
  return true;
}

}  // namespace
