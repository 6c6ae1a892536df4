// Channels of a few images that are not all zeros: in those of rectified units and of their gradients up to half of them
// are, where units are silent.

#pragma once

#include <vector>

#include "matrices.h"

namespace {

class Channels {
 public:
  // All of `count` numbers, which is a multiple of kLanes.
  void keep_all(long count) {
    strips_.assign(count / kLanes, kAll);
    number(1);
  }

  // Those of `n_channels` that are no zeros in `images`, n_numbers with the channels as neighbours, `repeated` times: all
  // of them where few are missing. Where `out` is given, numbers count as zeros beside one of those that is not above 0.
  void find(const float* images, const float* out, long n_numbers, long n_channels, long repeated) {
    if (n_channels % kLanes != 0) return keep_all((repeated * n_channels + kLanes - 1) / kLanes * kLanes);
    const long n_strips = n_channels / kLanes;
    strips_.assign(n_strips, 0);
    for (long i = 0, strip = 0; i < n_numbers; i += kLanes) {
      const Mask passes = out == nullptr ? kAll : above_zero(load(out + i, kLanes));
      strips_[strip] |= others_than_zero(passes, load(images + i, kLanes));
      if (++strip < n_strips) continue;
      strip = 0;
      if (i / n_channels % 16 == 0 && are_most()) break;
    }
    // Nor can anything be done with matrices that have no columns
    if (are_most() || are_none()) return keep_all(repeated * n_channels);
    number(repeated);
  }

  bool are_all() const { return are_all_; }
  long count() const { return count_; }
  const std::vector<long>& places() const { return places_; }  // of those that are kept

  // The strip-th kLanes numbers of a row, from or to one of those that are kept alone; the others are zeros.
  void store_strip(float* row, long strip, Vector numbers) const {
    if (are_all_) return store(row + strip * kLanes, numbers, kLanes);
    const Mask kept = strips_[strip];
    store(row + starts_[strip], compressed(kept, numbers), __builtin_popcount(kept));
  }
  Vector load_strip(const float* row, long strip) const {
    if (are_all_) return load(row + strip * kLanes, kLanes);
    const Mask kept = strips_[strip];
    return expanded(kept, load(row + starts_[strip], __builtin_popcount(kept)));
  }

 private:
  long n_found() const {
    long count = 0;
    for (const Mask strip : strips_) count += __builtin_popcount(strip);
    return count;
  }
  bool are_most() const { return 8 * n_found() > 7 * kLanes * static_cast<long>(strips_.size()); }
  bool are_none() const { return n_found() == 0; }

  void number(long repeated) {
    const long n_strips = static_cast<long>(strips_.size());
    count_ = 0;
    starts_.clear(), places_.clear();
    for (long i = 0; i < repeated * n_strips; ++i) {
      if (i >= n_strips) strips_.push_back(strips_[i - n_strips]);
      starts_.push_back(count_);
      for (long lane = 0; lane < kLanes; ++lane)
        if (strips_[i] >> lane & 1) places_.push_back(i * kLanes + lane);
      count_ = static_cast<long>(places_.size());
    }
    are_all_ = count_ == static_cast<long>(strips_.size()) * kLanes;
  }

  std::vector<Mask> strips_;  // of kLanes
  std::vector<long> starts_, places_;
  long count_ = 0;
  bool are_all_ = true;
};

}  // namespace
