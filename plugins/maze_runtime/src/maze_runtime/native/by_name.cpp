// Functions of other libraries under the names by which compiled code looks for them; see by_name.py.
//
// Names that all of a process shall find are given to it with everything that a library is linked to. This one is linked
// to nothing: those that compute are linked to torch, whose names would then stand in the place of those of other
// libraries.

#include <cstdint>

extern "C" {
int32_t (*native_product_at)(void*, void*, void**, void**) = nullptr;
int32_t (*native_convolution_at)(void*, void*, void**, int64_t, int64_t, int64_t, int64_t, double, int32_t,
                                 void**) = nullptr;
int32_t (*native_convolution_gradients_at)(void*, void*, void*, void**, int64_t, int64_t, int64_t, int64_t, void**,
                                           void**, void**) = nullptr;
int32_t (*native_convolution_filter_gradients_at)(void*, void*, void*, void**, int64_t, int64_t, int64_t, int64_t, double,
                                                  void**, void**) = nullptr;

int32_t aoti_torch_cpu_native_product(void* left, void* right, void** bias, void** product) {
  return native_product_at(left, right, bias, product);
}

int32_t aoti_torch_cpu_native_convolution(void* x, void* weight, void** bias, int64_t stride, int64_t padding,
                                          int64_t points, int64_t n_threads, double scale, int32_t is_rectified,
                                          void** result) {
  return native_convolution_at(x, weight, bias, stride, padding, points, n_threads, scale, is_rectified, result);
}

int32_t aoti_torch_cpu_native_convolution_gradients(void* gradient, void* x, void* weight, void** out, int64_t stride,
                                                    int64_t padding, int64_t points, int64_t n_threads, void** of_x,
                                                    void** of_weight, void** of_bias) {
  return native_convolution_gradients_at(gradient, x, weight, out, stride, padding, points, n_threads, of_x, of_weight,
                                         of_bias);
}

int32_t aoti_torch_cpu_native_convolution_filter_gradients(void* gradient, void* x, void* weight, void** out,
                                                           int64_t stride, int64_t padding, int64_t points,
                                                           int64_t n_threads, double scale, void** of_weight,
                                                           void** of_bias) {
  return native_convolution_filter_gradients_at(gradient, x, weight, out, stride, padding, points, n_threads, scale,
                                                of_weight, of_bias);
}
}
