// Convolutions of compiled updates and their gradients; see convolutions.h and convolutions.py.

#include "convolutions.h"

#include "tensors.h"

namespace {

struct Method {
  int64_t points, taps, n_threads;
};

// What the functions that torch calls have in common. Images are (B, C, H, W) with their channels side by side in memory, float32
// or bytes that count `scale` each; filters are (units, channels, kernel, kernel).
struct Call {
  TensorView x, weight, bias, gradient, out;
  Convolution convolution;
  Method method;
  float scale;
  bool is_of_bytes;
};

// Reads images, and says whether their channels lie side by side and nothing between them: 0, or 1 for an error.
int32_t read_images(Tensor images, TensorView* to) {
  if (const int32_t error = read(images, to)) return error;
  const int64_t width = to->sizes[3], channels = to->sizes[1];
  const int64_t expected[] = {to->sizes[2] * width * channels, 1, width * channels, channels};
  for (int i = 0; i < 4; ++i)
    if (to->sizes[i] != 1 && to->strides[i] != expected[i]) return 1;
  return 0;
}

int32_t read_call(Tensor x, Tensor weight, int64_t stride, int64_t padding, int64_t points, int64_t n_threads,
                  double scale, Call* call) {
  int32_t dtype = 0;
  if (const int32_t error = read_images(x, &call->x)) return error;
  if (const int32_t error = read(weight, &call->weight)) return error;
  if (const int32_t error = aoti_torch_get_dtype(x, &dtype)) return error;
  const int64_t *images = call->x.sizes, *filters = call->weight.sizes, kernel = filters[2];
  call->convolution = {images[0], images[2], images[3], images[1], (images[2] + 2 * padding - kernel) / stride + 1,
                       (images[3] + 2 * padding - kernel) / stride + 1, filters[0], stride, padding};
  call->method = {points, kernel / stride, n_threads};
  call->scale = static_cast<float>(scale);
  call->is_of_bytes = dtype == aoti_torch_dtype_uint8();
  return 0;
}

int32_t make_images(int64_t n, int64_t channels, int64_t height, int64_t width, Tensor* made, TensorView* view) {
  const int64_t sizes[] = {n, channels, height, width}, strides[] = {height * width * channels, 1, width * channels, channels};
  return make(4, sizes, strides, made, view);
}

// Calls with the convolution for the numbers of points and taps; 1, for an error, where it was not built.
template <class Use>
int32_t with_filtered(const Convolution& convolution, const Method& method, Use use) {
  switch (10 * method.points + method.taps) {
    case 42: use(Filtered<4, 2>(convolution, method.n_threads)); return 0;
    case 43: use(Filtered<4, 3>(convolution, method.n_threads)); return 0;
    case 63: use(Filtered<6, 3>(convolution, method.n_threads)); return 0;
    default: return 1;
  }
}

int32_t gradients(Tensor gradient, Tensor x, Tensor weight, Tensor* out, int64_t stride, int64_t padding, int64_t points,
                  int64_t n_threads, double scale, Tensor* of_x, Tensor* of_weight, Tensor* of_bias) {
  Call call;
  TensorView to_x{}, to_weight, to_bias;
  if (const int32_t error = read_call(x, weight, stride, padding, points, n_threads, scale, &call)) return error;
  if (const int32_t error = read_images(gradient, &call.gradient)) return error;
  if (out != nullptr) {
    if (const int32_t error = read_images(*out, &call.out)) return error;
  }
  const Convolution& own = call.convolution;
  if (of_x != nullptr) {
    if (const int32_t error = make_images(own.n_images, own.channels, own.height, own.width, of_x, &to_x)) return error;
  }
  const int64_t kernel = call.weight.sizes[2], one = 1;
  const int64_t strides[] = {own.channels * kernel * kernel, kernel * kernel, kernel, 1};
  if (const int32_t error = make(4, call.weight.sizes, strides, of_weight, &to_weight)) return error;
  if (const int32_t error = make(1, call.weight.sizes, &one, of_bias, &to_bias)) return error;
  return with_filtered(own, call.method, [&](auto filtered) {
    const float* rectified = out == nullptr ? nullptr : call.out.numbers();
    const auto run = [&](const auto* images) {
      filtered.backward(call.gradient.numbers(), rectified, images, call.weight.numbers(), call.scale, to_x.numbers(),
                        to_weight.numbers(), to_bias.numbers());
    };
    call.is_of_bytes ? run(static_cast<const uint8_t*>(call.x.data)) : run(call.x.numbers());
  });
}

}  // namespace

extern "C" {
int32_t native_convolution(Tensor x, Tensor weight, Tensor* bias, int64_t stride, int64_t padding, int64_t points,
                           int64_t n_threads, double scale, int32_t is_rectified, Tensor* result) {
  Call call;
  if (const int32_t error = read_call(x, weight, stride, padding, points, n_threads, scale, &call)) return error;
  if (bias != nullptr) {
    if (const int32_t error = read(*bias, &call.bias)) return error;
  }
  const Convolution& own = call.convolution;
  if (const int32_t error = make_images(own.n_images, own.units, own.out_height, own.out_width, result, &call.out)) return error;
  return with_filtered(own, call.method, [&](auto filtered) {
    const float* added = bias == nullptr ? nullptr : call.bias.numbers();
    const auto run = [&](const auto* images) {
      filtered.forward(images, call.weight.numbers(), call.scale, added, is_rectified != 0, call.out.numbers());
    };
    call.is_of_bytes ? run(static_cast<const uint8_t*>(call.x.data)) : run(call.x.numbers());
  });
}

int32_t native_convolution_gradients(Tensor gradient, Tensor x, Tensor weight, Tensor* out, int64_t stride,
                                     int64_t padding, int64_t points, int64_t n_threads, Tensor* of_x, Tensor* of_weight, Tensor* of_bias) {
  return gradients(gradient, x, weight, out, stride, padding, points, n_threads, 1.0, of_x, of_weight, of_bias);
}

int32_t native_convolution_filter_gradients(Tensor gradient, Tensor x, Tensor weight, Tensor* out, int64_t stride,
                                            int64_t padding, int64_t points, int64_t n_threads, double scale, Tensor* of_weight,
                                            Tensor* of_bias) {
  return gradients(gradient, x, weight, out, stride, padding, points, n_threads, scale, nullptr, of_weight, of_bias);
}
}

// The same without gradients, for networks that act: x (B, H, W, C), out (B, H', W', O), both without gaps.
struct Rectified {
  Convolution convolution;
  Method method;
  const float *x, *weight, *bias;
  float* out;
};

extern "C" int32_t rectified_convolution(const Rectified* own) {
  return with_filtered(own->convolution, own->method,
                       [&](auto filtered) { filtered.forward(own->x, own->weight, 1.0f, own->bias, true, own->out); });
}
