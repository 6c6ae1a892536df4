// What torch offers to C, with the types it has there: torch/csrc/inductor/aoti_torch/c/shim.h.

#pragma once

#include <cstdint>

struct AtenTensorOpaque;
using Tensor = AtenTensorOpaque*;
extern "C" {
int32_t aoti_torch_get_data_ptr(Tensor tensor, void** data);
int32_t aoti_torch_get_sizes(Tensor tensor, int64_t** sizes);
int32_t aoti_torch_get_strides(Tensor tensor, int64_t** strides);
int32_t aoti_torch_get_dtype(Tensor tensor, int32_t* dtype);
int32_t aoti_torch_device_type_cpu();
int32_t aoti_torch_dtype_float32();
int32_t aoti_torch_dtype_uint8();
int32_t aoti_torch_empty_strided(int64_t n_dimensions, const int64_t* sizes, const int64_t* strides, int32_t dtype,
                                 int32_t device_type, int32_t device_index, Tensor* made);
}

namespace {

struct TensorView {
  void* data;
  int64_t *sizes, *strides;

  float* numbers() const { return static_cast<float*>(data); }
};

// 0, or an error that torch has noted.
inline int32_t read(Tensor tensor, TensorView* to) {
  if (const int32_t error = aoti_torch_get_data_ptr(tensor, &to->data)) return error;
  if (const int32_t error = aoti_torch_get_sizes(tensor, &to->sizes)) return error;
  return aoti_torch_get_strides(tensor, &to->strides);
}

// A new tensor of float32 numbers. 0, or an error that torch has noted.
inline int32_t make(int64_t n_dimensions, const int64_t* sizes, const int64_t* strides, Tensor* made, TensorView* view) {
  const int32_t error = aoti_torch_empty_strided(n_dimensions, sizes, strides, aoti_torch_dtype_float32(),
                                                 aoti_torch_device_type_cpu(), 0, made);
  return error ? error : read(*made, view);
}

}  // namespace
