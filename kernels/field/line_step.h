// One line of a step of a field, from lines of its neighbours: the body of every loop over a field on the CPU.
#pragma once

#include "kernels/field/evolve.h"
#include "kernels/field/lines.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN

// A line is `width` places of `channels` elements of the type S; the result is of the compute type.
template <typename S>
class LineStep {
 public:
  using T = compute_t<S>;

  static int64_t scratch(const EvolveParams& p) {
    constexpr auto kSize = static_cast<int64_t>(sizeof(T));
    return (1 + kSums) * LineScratch::bytes(p.width * p.channels, kSize) +
           LineScratch::bytes((p.width + 2) * p.channels, kSize);
  }

  LineStep(const EvolveParams& params, LineScratch& scratch)
      : p_(params), channels_(params.channels), length_(params.width * params.channels) {
    T* const zeros = scratch.take<T>(length_);
    __builtin_memset(static_cast<void*>(zeros), 0, static_cast<size_t>(length_) * sizeof(T));
    zeros_ = reinterpret_cast<S*>(zeros);
    for (T*& sums : depth_sums_) {
      sums = scratch.take<T>(length_);
    }
    sums_ = scratch.take<T>((params.width + 2) * channels_) + channels_;
  }

  const S* zeros() const {
    return zeros_;
  }
  // To stream, `out` and the channels must fill whole lines of memory.
  template <bool kStream, typename Fetched>
  void run(const LinesAround<S>& lines, const LineName& name, const Fetched& ahead, T* out) {
    switch (p_.stencil) {
      case Stencil::kLaplace:
        return laplace<kStream>(lines, ahead, out);
      case Stencil::kBox:
        return mean<false, kStream>(lines, name, ahead, out);
      case Stencil::kBinomial:
        return mean<true, kStream>(lines, name, ahead, out);
    }
  }

 private:
  static constexpr int kSums = 3;

  // Place w of a line, where it may lie outside.
  template <typename E>
  const E* place_of(const E* line, const E* zeros, int64_t w) const {
    const int64_t own = neighbour(w, p_.width, p_.boundary);
    return own < 0 ? zeros : line + own * channels_;
  }

  template <bool kStream, typename Fetched>
  void laplace(const LinesAround<S>& lines, Fetched ahead, T* line) const {
    const S* const center = lines.at[1][1];
    const S* const above = lines.at[1][0];
    const S* const below = lines.at[1][2];
    const S* const front = lines.at[0][1];
    const S* const back = lines.at[2][1];
    const int64_t c = channels_;
    const T keep = static_cast<T>(p_.keep);
    const T rate = static_cast<T>(p_.rate);
    // Elements from `first` on whose left and right neighbours begin at these places.
    const auto part = [&](int64_t first, int64_t count, const S* left, const S* right) {
      T* const out = line + first;
      for_elements<S>(0, count, [&](int64_t i, const auto& load) {
        const int64_t j = first + i;
        ahead.fetch(j);
        store_lanes<kStream>(
            laplace_step(load(center + j), load(left + i) + load(right + i), load(above + j) + load(below + j),
                         load(front + j) + load(back + j), keep, rate),
            out + i);
      });
    };
    part(0, c, place_of(center, zeros_, -1), place_of(center, zeros_, 1));
    if (p_.width > 2) {
      part(c, length_ - 2 * c, center, center + 2 * c);
    }
    if (p_.width > 1) {
      part(length_ - c, c, center + length_ - 2 * c, place_of(center, zeros_, p_.width));
    }
  }

  // Sums over depth serve three lines of the result, so they are kept: of the plane that was worked on last.
  template <bool kBinomial, typename Fetched>
  const T* depth_sum(const LinesAround<S>& lines, int h, const LineName& name, Fetched ahead) {
    const int64_t height = name.height + h - 1;
    const auto slot = static_cast<size_t>((height % kSums + kSums) % kSums);
    T* const sums = depth_sums_[slot];
    if (held_[slot].plane != name.plane || held_[slot].height != height) {
      held_[slot] = {name.plane, height};
      const S* const front = lines.at[0][h];
      const S* const own = lines.at[1][h];
      const S* const back = lines.at[2][h];
      for_elements<S>(0, length_, [&](int64_t i, const auto& load) {
        ahead.fetch(i);
        store_lanes<false>(axis_sum<kBinomial>(load(front + i), load(own + i), load(back + i)), sums + i);
      });
    }
    return sums;
  }

  template <bool kBinomial, bool kStream, typename Fetched>
  void mean(const LinesAround<S>& lines, const LineName& name, Fetched ahead, T* out) {
    const T* const above = depth_sum<kBinomial>(lines, 0, name, NothingAhead{});
    const T* const own = depth_sum<kBinomial>(lines, 1, name, NothingAhead{});
    const T* const below = depth_sum<kBinomial>(lines, 2, name, ahead);
    const int64_t c = channels_;
    T* const sums = sums_;
    for_elements<S>(0, length_, [&](int64_t i, const auto& load) {
      store_lanes<false>(axis_sum<kBinomial>(load(above + i), load(own + i), load(below + i)), sums + i);
    });
    const auto fill_edge = [&](int64_t w) {
      const T* const source = place_of<T>(sums, nullptr, w);
      T* const target = sums + w * c;
      for (int64_t i = 0; i < c; ++i) {
        target[i] = source == nullptr ? T{0} : source[i];
      }
    };
    fill_edge(-1);
    fill_edge(p_.width);
    const T keep = static_cast<T>(p_.keep);
    const T rate = static_cast<T>(p_.rate);
    const S* const center = lines.at[1][1];
    for_elements<S>(0, length_, [&](int64_t i, const auto& load) {
      store_lanes<kStream>(
          mean_step<kBinomial>(load(center + i),
                               axis_sum<kBinomial>(load(sums + i - c), load(sums + i), load(sums + i + c)), keep, rate),
          out + i);
    });
  }

  const EvolveParams& p_;
  int64_t channels_;
  int64_t length_;
  S* zeros_;
  T* depth_sums_[kSums];
  LineName held_[kSums] = {{-1, 0}, {-1, 0}, {-1, 0}};
  T* sums_;
};

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
