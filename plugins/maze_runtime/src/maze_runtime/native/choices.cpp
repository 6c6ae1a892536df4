// Choices drawn from masked logits; see choices.py.

#include <cstdint>

#include "arithmetic.h"

// Each of B rows has K choices, choice k among sizes[k] whose logits stand one behind the other: (B, L), L = Σ sizes.
// noise (B, K, width) is Exp(1), width the largest of the sizes; it is overwritten. taken (B, K).
struct Choices {
  int64_t n_rows, n_choices, width;
  const int64_t* sizes;
  const float* logits;
  float* noise;
  int64_t* taken;
};

namespace {

constexpr float kTiny = 1e-20f;
constexpr float kMaskedBelow = -1e7f;

// The first of the largest numbers, or the first that is none, as NumPy has it.
inline int64_t first_largest(const float* numbers, int64_t count) {
  int64_t at = 0;
  for (int64_t i = 1; i < count; ++i) {
    if (numbers[at] != numbers[at]) break;
    if (!(numbers[i] <= numbers[at])) at = i;
  }
  return at;
}

}  // namespace

// argmax(logits − log noise) is a draw from softmax(logits). Returns 1 where a choice is masked that is taken, for then
// its row has no other; else 0.
extern "C" int32_t draw_choices(const Choices* own) {
  const float* logits = own->logits;
  float* noise = own->noise;
  int64_t* taken = own->taken;
  int32_t is_masked = 0;
  for (int64_t row = 0; row < own->n_rows; ++row) {
    for (int64_t k = 0; k < own->n_choices; ++k) {
      const int64_t size = own->sizes[k];
      INDEPENDENT for (int64_t i = 0; i < size; ++i) noise[i] = logits[i] - logarithm(noise[i] + kTiny);
      *taken = first_largest(noise, size);
      is_masked |= logits[*taken] <= kMaskedBelow;
      ++taken;
      logits += size;
      noise += own->width;
    }
  }
  return is_masked;
}
