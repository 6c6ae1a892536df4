// Products of float32 matrices in any layout, and stacks of dense layers; see products.py and dense.py.

#include <cstdint>
#include <cstring>
#include <vector>

#include "arithmetic.h"
#include "matrices.h"
#include "tensors.h"
#include "zeros.h"

namespace {

void multiply(const Matrix& left, const Matrix& right, const float* bias, const Matrix& out) {
  if (out.rows == 0 || out.columns == 0) return;
  if (left.column_step == 1 && right.columns <= kFew) {
    by_dots(left, right, bias, 0, 1, out);
  } else if (right.row_step == 1 && left.rows <= kFew) {
    by_dots(turned(right), turned(left), bias, 1, 0, turned(out));
  } else if (left.row_step == 1 && right.columns < kLanes && right.columns < left.rows && bias == nullptr) {
    // The gradient of a narrow weight: (A B)ᵀ = Bᵀ Aᵀ
    static thread_local std::vector<float> numbers;
    numbers.resize(left.rows * right.columns);
    by_panels(turned(right), turned(left), nullptr, {numbers.data(), right.columns, left.rows, left.rows, 1});
    for (long m = 0; m < out.rows; ++m)
      for (long n = 0; n < out.columns; ++n) out.data[m * out.row_step + n] = numbers[n * left.rows + m];
  } else {
    const bool is_large = left.rows * left.columns * right.columns >= kLarge;
    if (!is_large || !without_zeros(left, right, bias, out)) by_panels(left, right, bias, out);
  }
}

inline Matrix matrix_of(const TensorView& own) {
  return {own.numbers(), own.sizes[0], own.sizes[1], own.strides[0], own.strides[1]};
}

}  // namespace

// left (M, K) right (K, N) + bias (N,) or nothing, as a new tensor (M, N).
extern "C" int32_t native_product(Tensor left, Tensor right, Tensor* bias, Tensor* product) {
  TensorView of_left, of_right, of_bias, of_product;
  if (const int32_t error = read(left, &of_left)) return error;
  if (const int32_t error = read(right, &of_right)) return error;
  const int64_t sizes[] = {of_left.sizes[0], of_right.sizes[1]}, strides[] = {sizes[1], 1};
  if (const int32_t error = make(2, sizes, strides, product, &of_product)) return error;
  static thread_local std::vector<float> neighbours;
  const float* added = nullptr;
  if (bias != nullptr) {
    if (const int32_t error = read(*bias, &of_bias)) return error;
    added = of_bias.numbers();
    if (of_bias.strides[0] != 1) {
      neighbours.resize(sizes[1]);
      for (int64_t n = 0; n < sizes[1]; ++n) neighbours[n] = of_bias.numbers()[n * of_bias.strides[0]];
      added = neighbours.data();
    }
  }
  multiply(matrix_of(of_left), matrix_of(of_right), added, matrix_of(of_product));
  return 0;
}

namespace {

void activate(int64_t which, float* numbers, int64_t count) {
  switch (which) {
    case 1: INDEPENDENT for (int64_t i = 0; i < count; ++i) numbers[i] = hyperbolic_tangent(numbers[i]); break;
    case 2: INDEPENDENT for (int64_t i = 0; i < count; ++i) numbers[i] = numbers[i] < 0.0f ? 0.0f : numbers[i]; break;
    case 3: INDEPENDENT for (int64_t i = 0; i < count; ++i) numbers[i] = sigmoid(numbers[i]); break;
    default: break;
  }
}

}  // namespace

// L layers without gaps: outs[l] (B, sizes[l + 1]) = activations[l](outs[l - 1] weights[l]ᵀ + biases[l]), where outs[-1] is
// x (B, sizes[0]). A bias may be null. Activations: 0 none, 1 tanh, 2 relu, 3 sigmoid.
struct DenseLayers {
  int64_t n_rows, n_layers;
  const int64_t *sizes, *activations;
  float* x;
  float *const *weights, *const *biases, *const *outs;
};

extern "C" void dense_layers(const DenseLayers* own) {
  float* x = own->x;
  for (int64_t l = 0; l < own->n_layers; ++l) {
    const int64_t n_in = own->sizes[l], n_out = own->sizes[l + 1];
    float* out = own->outs[l];
    multiply({x, own->n_rows, n_in, n_in, 1}, {own->weights[l], n_in, n_out, 1, n_in}, own->biases[l],
             {out, own->n_rows, n_out, n_out, 1});
    activate(own->activations[l], out, own->n_rows * n_out);
    x = out;
  }
}
