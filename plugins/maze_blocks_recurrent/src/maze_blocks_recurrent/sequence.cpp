// The recurrences of sequence_arrays.py. Arrays are float32, without gaps, time-major: T steps of B sequences, H units.

#include <algorithm>
#include <vector>

#include "arithmetic.h"

namespace {

constexpr long kBlock = 32;

// R rows and 32 columns of z += x w, in registers.
template <int R>
inline void add_block(float* z, long z_row, const float* x, long x_row, const float* w, long n_in, long n_out) {
  float sum[R][kBlock];
  for (int r = 0; r < R; ++r)
    for (long j = 0; j < kBlock; ++j) sum[r][j] = z[r * z_row + j];
  for (long k = 0; k < n_in; ++k) {
    const float* row = w + k * n_out;
    for (int r = 0; r < R; ++r) {
      const float factor = x[r * x_row + k];
      for (long j = 0; j < kBlock; ++j) sum[r][j] += factor * row[j];
    }
  }
  for (int r = 0; r < R; ++r)
    for (long j = 0; j < kBlock; ++j) z[r * z_row + j] = sum[r][j];
}

// z (B, n_out) += x (B, n_in) w (n_in, n_out); rows of z and x are z_row and x_row numbers apart.
void add_product(float* z, long z_row, const float* x, long x_row, const float* w, long n_rows, long n_in, long n_out) {
  const long whole = n_out / kBlock * kBlock;
  for (long j = 0; j < whole; j += kBlock) {
    long b = 0;
    for (; b + 4 <= n_rows; b += 4) add_block<4>(z + b * z_row + j, z_row, x + b * x_row, x_row, w + j, n_in, n_out);
    for (; b + 2 <= n_rows; b += 2) add_block<2>(z + b * z_row + j, z_row, x + b * x_row, x_row, w + j, n_in, n_out);
    for (; b < n_rows; ++b) add_block<1>(z + b * z_row + j, z_row, x + b * x_row, x_row, w + j, n_in, n_out);
  }
  if (whole == n_out) return;
  for (long b = 0; b < n_rows; ++b)
    for (long k = 0; k < n_in; ++k)
      for (long j = whole; j < n_out; ++j) z[b * z_row + j] += x[b * x_row + k] * w[k * n_out + j];
}

// What step t starts from: the state before it, or zeros where an episode begins.
void begin_step(float* before, const float* state, const float* keep, long n_rows, long size) {
  for (long b = 0; b < n_rows; ++b)
    for (long k = 0; k < size; ++k) before[b * size + k] = state[b * size + k] * keep[b];
}

}  // namespace

extern "C" {

// gates (T, B, 4 H): contributions of inputs and biases, which become i, f, g, o. states (T, B, 2 H): h and c.
// weight (H, 4 H), keep (T, B).
void lstm_forward(long T, long B, long H, float* gates, const float* state, const float* keep, const float* weight,
                  float* states) {
  std::vector<float> before(B * 2 * H);
  for (long t = 0; t < T; ++t, gates += B * 4 * H, keep += B, states += B * 2 * H) {
    begin_step(before.data(), t ? states - B * 2 * H : state, keep, B, 2 * H);
    add_product(gates, 4 * H, before.data(), 2 * H, weight, B, H, 4 * H);
    for (long b = 0; b < B; ++b) {
      float *i = gates + b * 4 * H, *f = i + H, *g = f + H, *o = g + H;
      float *h = states + b * 2 * H, *c = h + H;
      const float* c_before = before.data() + b * 2 * H + H;
      INDEPENDENT for (long k = 0; k < 2 * H; ++k) i[k] = sigmoid(i[k]);
      INDEPENDENT for (long k = 0; k < H; ++k) g[k] = hyperbolic_tangent(g[k]);
      INDEPENDENT for (long k = 0; k < H; ++k) o[k] = sigmoid(o[k]);
      INDEPENDENT for (long k = 0; k < H; ++k) c[k] = f[k] * c_before[k] + i[k] * g[k];
      INDEPENDENT for (long k = 0; k < H; ++k) h[k] = o[k] * hyperbolic_tangent(c[k]);
    }
  }
}

// From grad (T, B, 2 H) of the states to in_gates (T, B, 4 H), gradients of the gates' arguments, and carried (B, 2 H), that
// of the first state. before (T, B, 2 H): what each step started from. weight (4 H, H).
void lstm_backward(long T, long B, long H, const float* grad, const float* gates, const float* states,
                   const float* before, const float* keep, const float* weight, float* in_gates, float* carried) {
  std::fill(carried, carried + B * 2 * H, 0.0f);
  for (long t = T - 1; t >= 0; --t) {
    for (long b = 0; b < B; ++b) {
      const long row = t * B + b;
      const float *i = gates + row * 4 * H, *f = i + H, *g = f + H, *o = g + H;
      const float *own_h = grad + row * 2 * H, *own_c = own_h + H;
      const float *c = states + row * 2 * H + H, *c_before = before + row * 2 * H + H;
      float *dh = carried + b * 2 * H, *dc = dh + H, *to = in_gates + row * 4 * H;
      INDEPENDENT for (long k = 0; k < H; ++k) {
        const float m = hyperbolic_tangent(c[k]);
        const float in_h = dh[k] + own_h[k];
        const float in_c = dc[k] + own_c[k] + in_h * o[k] * (1.0f - m * m);
        to[k] = in_c * g[k] * i[k] * (1.0f - i[k]);
        to[H + k] = in_c * c_before[k] * f[k] * (1.0f - f[k]);
        to[2 * H + k] = in_c * i[k] * (1.0f - g[k] * g[k]);
        to[3 * H + k] = in_h * m * o[k] * (1.0f - o[k]);
        dh[k] = 0.0f;
        dc[k] = in_c * f[k];
      }
    }
    add_product(carried, 2 * H, in_gates + t * B * 4 * H, 4 * H, weight, B, 4 * H, H);
    begin_step(carried, carried, keep + t * B, B, 2 * H);
  }
}

// gates (T, B, 4 H): contributions of inputs, with the biases of r and z, which become r, z, n and U h of n with its bias.
// states (T, B, H), weight (H, 3 H), bias (H,) of U h in n.
void gru_forward(long T, long B, long H, float* gates, const float* state, const float* keep, const float* weight,
                 const float* bias, float* states) {
  std::vector<float> before(B * H), product(B * 3 * H);
  for (long t = 0; t < T; ++t, gates += B * 4 * H, keep += B, states += B * H) {
    begin_step(before.data(), t ? states - B * H : state, keep, B, H);
    std::fill(product.begin(), product.end(), 0.0f);
    add_product(product.data(), 3 * H, before.data(), H, weight, B, H, 3 * H);
    for (long b = 0; b < B; ++b) {
      float *r = gates + b * 4 * H, *z = r + H, *n = z + H, *u = n + H, *h = states + b * H;
      const float *p = product.data() + b * 3 * H, *h_before = before.data() + b * H;
      INDEPENDENT for (long k = 0; k < 2 * H; ++k) r[k] = sigmoid(r[k] + p[k]);
      INDEPENDENT for (long k = 0; k < H; ++k) u[k] = p[2 * H + k] + bias[k];
      INDEPENDENT for (long k = 0; k < H; ++k) n[k] = hyperbolic_tangent(n[k] + r[k] * u[k]);
      INDEPENDENT for (long k = 0; k < H; ++k) h[k] = n[k] + z[k] * (h_before[k] - n[k]);
    }
  }
}

// From grad (T, B, H) of the states to in_inputs and in_recurrent (T, B, 3 H), gradients of what inputs and states
// contribute, and carried (B, H), that of the first state. before (T, B, H), weight (3 H, H).
void gru_backward(long T, long B, long H, const float* grad, const float* gates, const float* before, const float* keep,
                  const float* weight, float* in_inputs, float* in_recurrent, float* carried) {
  std::fill(carried, carried + B * H, 0.0f);
  for (long t = T - 1; t >= 0; --t) {
    for (long b = 0; b < B; ++b) {
      const long row = t * B + b;
      const float *r = gates + row * 4 * H, *z = r + H, *n = z + H, *u = n + H;
      const float *own = grad + row * H, *h_before = before + row * H;
      float *dh = carried + b * H, *to = in_inputs + row * 3 * H, *back = in_recurrent + row * 3 * H;
      INDEPENDENT for (long k = 0; k < H; ++k) {
        const float in_h = dh[k] + own[k];
        const float in_n = in_h * (1.0f - z[k]) * (1.0f - n[k] * n[k]);
        const float in_r = in_n * u[k] * r[k] * (1.0f - r[k]);
        const float in_z = in_h * (h_before[k] - n[k]) * z[k] * (1.0f - z[k]);
        to[k] = in_r;
        to[H + k] = in_z;
        to[2 * H + k] = in_n;
        back[k] = in_r;
        back[H + k] = in_z;
        back[2 * H + k] = in_n * r[k];
        dh[k] = in_h * z[k];
      }
    }
    add_product(carried, H, in_recurrent + t * B * 3 * H, 3 * H, weight, B, 3 * H, H);
    begin_step(carried, carried, keep + t * B, B, H);
  }
}
}
