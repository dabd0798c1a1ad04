// Several steps of a field on the CPU, channel by channel; compiled once per instruction set.
#include "kernels/field/evolve_channels.h"

#include <type_traits>

#include "kernels/field/lines.h"
#include "kernels/registry.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN
namespace {

// The lanes of two vectors, one after the other, from number kFrom on.
template <int kFrom>
struct From {
  static constexpr int of(int j, int) {
    return j + kFrom;
  }
};
template <int kValue>
using Constant = std::integral_constant<int, kValue>;

// As a field of storage type S would hold them.
template <typename S>
KERNEL_HOST_DEVICE FieldLanes<S> rounded(FieldLanes<S> value) {
  if constexpr (sizeof(S) == 2) {
    return widen(S{}, narrow(S{}, value));
  } else {
    return value;
  }
}
template <typename S>
KERNEL_HOST_DEVICE void store_rounded(FieldLanes<S> value, bool streams, S* target) {
  if constexpr (sizeof(S) == 2) {
    const Bits16 block = narrow(S{}, value);
    __builtin_memcpy(static_cast<void*>(target), &block, sizeof(block));
  } else {
    streams ? stream(value, target) : value.store(target);
  }
}

// The row of zeros at the end of a plane.
template <typename T>
void clear_row_beyond(const EvolveChannels& p, T* plane) {
  __builtin_memset(static_cast<void*>(plane + p.height * p.width), 0, static_cast<size_t>(p.width) * sizeof(T));
}

// The steps of volumes, some in a pass. Level t is the volume after t of them, of which the planes that the next level
// reads are kept. Level 0 is the volume itself; so is the last level, whose planes follow so far behind those that are
// read that they may take their place.
template <typename S>
class ChannelSteps {
 public:
  using T = compute_t<S>;

  static int64_t scratch(const EvolveChannels& p) {
    const int64_t planes = kept_planes(p) + first_planes(p) + 1;
    return planes * LineScratch::bytes(p.plane_elements(), sizeof(T));
  }

  ChannelSteps(const EvolveChannels& params, void* memory) : p_(params), plane_(params.plane_elements()) {
    LineScratch scratch(memory);
    const int64_t planes = kept_planes(p_);
    levels_ = scratch.take<T>(planes * plane_);
    first_planes_ = scratch.take<T>(first_planes(p_) * plane_);
    T* const zeros = scratch.take<T>(plane_);
    __builtin_memset(static_cast<void*>(zeros), 0, static_cast<size_t>(plane_) * sizeof(T));
    zeros_ = zeros;
    for (int64_t i = 0; i < planes; ++i) {
      clear_row_beyond(p_, levels_ + i * plane_);
    }
  }

  void run(T* volume) {
    volume_ = volume;
    const int64_t passes = p_.passes();
    for (int64_t pass = 0; pass < passes; ++pass) {
      steps_ = p_.steps / passes + (pass < p_.steps % passes ? 1 : 0);
      run_pass();
    }
  }

 private:
  static int64_t kept_planes(const EvolveChannels& p) {
    return (p.most_steps() - 1) * EvolveChannels::kKept;
  }
  // Planes at the begin of a circle that are still to be read when they have been replaced.
  static int64_t first_planes(const EvolveChannels& p) {
    return p.boundary == Boundary::kCircular ? p.most_steps() : 0;
  }
  bool circular() const {
    return p_.boundary == Boundary::kCircular;
  }

  // A level goes two planes on as soon as the level before has done so. In a circle, levels before the last have
  // planes beyond both ends, one fewer from level to level.
  void run_pass() {
    if (circular()) {
      __builtin_memcpy(first_planes_, volume_, static_cast<size_t>(steps_ * plane_) * sizeof(T));
    }
    for (int64_t next = circular() ? 1 - steps_ : 0; next - (steps_ - 1) < p_.depth; next += 2) {
      for (int64_t level = 1; level <= steps_; ++level) {
        const int64_t more = circular() ? steps_ - level : 0;
        const int64_t first = next - (level - 1);
        const int64_t begin = first < -more ? -more : first;
        const int64_t end = first + 2 < p_.depth + more ? first + 2 : p_.depth + more;
        if (end - begin == 2) {
          make_planes<2>(level, begin);
        } else if (end - begin == 1) {
          make_planes<1>(level, begin);
        }
      }
    }
  }

  T* plane_at(int64_t level, int64_t d) const {
    if (level > 0 && level < steps_) {
      constexpr int64_t kKept = EvolveChannels::kKept;
      return levels_ + ((level - 1) * kKept + (d + steps_ * kKept) % kKept) * plane_;
    }
    return d < 0           ? volume_ + (d + p_.depth) * plane_
           : d >= p_.depth ? first_planes_ + (d - p_.depth) * plane_
                           : volume_ + d * plane_;
  }
  const T* source_at(int64_t level, int64_t d) const {
    if (circular()) {
      return plane_at(level, d);
    }
    const int64_t own = neighbour(d, p_.depth, p_.boundary);
    return own < 0 ? zeros_ : plane_at(level, own);
  }

  template <int kPlanes>
  void make_planes(int64_t level, int64_t first) const {
    switch (p_.stencil) {
      case Stencil::kLaplace:
        return make_planes<kPlanes, Stencil::kLaplace>(level, first);
      case Stencil::kBox:
        return make_planes<kPlanes, Stencil::kBox>(level, first);
      case Stencil::kBinomial:
        return make_planes<kPlanes, Stencil::kBinomial>(level, first);
    }
  }
  // Steps are faster by a quarter at a width of 32 where it is a constant.
  template <int kPlanes, Stencil kStencil>
  void make_planes(int64_t level, int64_t first) const {
    switch (p_.width) {
      case 16:
        return make_planes<kPlanes, kStencil, 16>(level, first);
      case 32:
        return make_planes<kPlanes, kStencil, 32>(level, first);
      case 64:
        return make_planes<kPlanes, kStencil, 64>(level, first);
      default:
        return make_planes<kPlanes, kStencil, 0>(level, first);
    }
  }

  // Vectors one after the other of what is added along the width: the field, or its sums along the other axes.
  struct Across {
    FieldLanes<S> before, own, after;
  };

  // kWidth: the width, or 0 for any
  template <int kPlanes, Stencil kStencil, int64_t kWidth>
  void make_planes(int64_t level, int64_t first_plane) const {
    using L = FieldLanes<S>;
    constexpr int W = kFieldLanes<S>;
    [[maybe_unused]] constexpr bool kBinomial = kStencil == Stencil::kBinomial;
    // For each plane, whose number is a constant: an array that is indexed by a variable stays in memory.
    const auto each = [](const auto& body) {
      body(Constant<0>{});
      if constexpr (kPlanes == 2) {
        body(Constant<1>{});
      }
    };
    const T* sources[kPlanes + 2];
    T* targets[kPlanes];
    sources[0] = source_at(level - 1, first_plane - 1);
    sources[kPlanes + 1] = source_at(level - 1, first_plane + kPlanes);
    each([&](auto plane) {
      sources[plane + 1] = source_at(level - 1, first_plane + plane);
      targets[plane] = plane_at(level, first_plane + plane);
    });
    const T keep = static_cast<T>(p_.keep);
    const T rate = static_cast<T>(p_.rate);
    const int64_t width = kWidth > 0 ? kWidth : p_.width;
    const int64_t rows = p_.height;
    const int64_t before_first = neighbour(-1, width, p_.boundary);
    const int64_t after_last = neighbour(width, width, p_.boundary);
    // From the first row to the one before it, and from the last to the one after it.
    const int64_t above_first = row_beyond(-1) * width;
    const int64_t below_last = (row_beyond(rows) - (rows - 1)) * width;
    // The volume's next planes may be as far away as memory. Fetching what does not exist is harmless.
    const T* const ahead = level == 1 ? sources[kPlanes + 1] + plane_ : targets[0];
    const int64_t ahead_stride = level == 1 ? plane_ : 0;
    for (int64_t h = 0; h < rows; ++h) {
      const int64_t first = h * width;
      const int64_t above = h > 0 ? -width : above_first;
      const int64_t below = h + 1 < rows ? width : below_last;
      const auto across = [&](auto plane, int64_t i, const auto& load) {
        if constexpr (kStencil == Stencil::kLaplace) {
          return load(sources[plane + 1] + i);
        } else {
          const auto over_depth = [&](int64_t j) {
            return axis_sum<kBinomial>(load(sources[plane] + j), load(sources[plane + 1] + j),
                                       load(sources[plane + 2] + j));
          };
          return axis_sum<kBinomial>(over_depth(i + above), over_depth(i), over_depth(i + below));
        }
      };
      const auto vector = [](const T* source) { return L::load(source); };
      Across all[kPlanes];
      // What lies beyond the end of a line: nothing, the end itself, which is a lane of `own`, or the other end.
      const auto beyond = [&](auto plane, int64_t place, [[maybe_unused]] int64_t end, [[maybe_unused]] auto lane) {
        if constexpr (kStencil != Stencil::kLaplace) {
          if (place == end) {
            return L::broadcast(all[plane].own.lanes[lane()]);
          }
        }
        const auto number = [](const T* source) { return *source; };
        return L::broadcast(place < 0 ? T{0} : across(plane, first + place, number));
      };
      const auto make = [&](int64_t i) {
        each([&](auto plane) {
          const Across& own = all[plane];
          const L left = shuffle<From<W - 1>>(own.before, own.own);
          const L right = shuffle<From<1>>(own.own, own.after);
          const T* const source = sources[plane + 1] + i;
          L value;
          if constexpr (kStencil == Stencil::kLaplace) {
            value = laplace_step(own.own, left + right, vector(source + above) + vector(source + below),
                                 vector(sources[plane] + i) + vector(sources[plane + 2] + i), keep, rate);
          } else {
            value = mean_step<kBinomial>(vector(source), axis_sum<kBinomial>(left, own.own, right), keep, rate);
          }
          rounded<S>(value).store(targets[plane] + i);
          __builtin_prefetch(ahead + plane * ahead_stride + i);
        });
      };
      each([&](auto plane) {
        all[plane].own = across(plane, first, vector);
        all[plane].before = beyond(plane, before_first, 0, Constant<0>{});
      });
      int64_t j = 0;
#pragma GCC unroll 4
      for (; j + W < width; j += W) {
        each([&](auto plane) { all[plane].after = across(plane, first + j + W, vector); });
        make(first + j);
        each([&](auto plane) { all[plane] = {all[plane].own, all[plane].after, L{}}; });
      }
      each([&](auto plane) { all[plane].after = beyond(plane, after_last, width - 1, Constant<W - 1>{}); });
      make(first + j);
    }
  }

  // The row that lies there in place of one beyond the border.
  int64_t row_beyond(int64_t row) const {
    const int64_t own = neighbour(row, p_.height, p_.boundary);
    return own < 0 ? p_.height : own;
  }

  const EvolveChannels& p_;
  int64_t plane_;
  int64_t steps_ = 0;  // of the pass
  T* volume_ = nullptr;
  T* levels_;
  T* first_planes_;
  const T* zeros_;
};

template <typename S>
void evolve_channels(const EvolveChannels& p, int64_t begin, int64_t end, void* scratch) {
  ChannelSteps<S> steps(p, scratch);
  for (int64_t channel = begin; channel < end; ++channel) {
    steps.run(static_cast<compute_t<S>*>(p.volumes) + channel * p.volume_elements());
  }
}

// Where a line begins in the field and in the first volume.
struct LinePlace {
  int64_t in_field, in_volume;

  LinePlace(const EvolveChannels& p, int64_t index)
      : in_field((p.item * p.depth * p.height + index) * p.width * p.channels + p.first_channel),
        in_volume(index / p.height * p.plane_elements() + index % p.height * p.width) {}
};

// Lines go from the field to the volumes, or back, in squares of as many places as channels.
template <typename S>
void gather_channels(const EvolveChannels& p, int64_t begin, int64_t end, void*) {
  constexpr int W = kFieldLanes<S>;
  constexpr int64_t kAhead = 32;
  const int64_t volume = p.volume_elements();
  for (int64_t index = begin; index < end; ++index) {
    const LinePlace place(p, index);
    const S* const source = static_cast<const S*>(p.field) + place.in_field;
    auto* const target = static_cast<compute_t<S>*>(p.volumes) + place.in_volume;
    for (int64_t c = 0; c < p.count; c += W) {
      if (index % p.height == 0) {
        for (int i = 0; i < W; ++i) {
          clear_row_beyond(p, target + (c + i) * volume);
        }
      }
      for (int64_t w = 0; w < p.width; w += W) {
        FieldLanes<S> rows[W];
#pragma GCC unroll 16
        for (int i = 0; i < W; ++i) {
          const S* const own = source + (w + i) * p.channels + c;
          __builtin_prefetch(own + kAhead * p.channels);
          rows[i] = load_lanes(own);
        }
        transpose(rows);
#pragma GCC unroll 16
        for (int i = 0; i < W; ++i) {
          rows[i].store(target + (c + i) * volume + w);
        }
      }
    }
  }
}

template <typename S>
void scatter_channels(const EvolveChannels& p, int64_t begin, int64_t end, void*) {
  constexpr int W = kFieldLanes<S>;
  constexpr int64_t kBytes = W * static_cast<int64_t>(sizeof(S));
  const int64_t volume = p.volume_elements();
  // A vector that does not fill a line of memory would be written by itself.
  const bool streams = kBytes == kLineBytes && p.elements() * static_cast<int64_t>(sizeof(S)) >= kStreamBytes &&
                       reinterpret_cast<uintptr_t>(p.out) % static_cast<uintptr_t>(kLineBytes) == 0;
  for (int64_t index = begin; index < end; ++index) {
    const LinePlace place(p, index);
    const auto* const source = static_cast<const compute_t<S>*>(p.volumes) + place.in_volume;
    S* const target = static_cast<S*>(p.out) + place.in_field;
    for (int64_t c = 0; c < p.count; c += W) {
      for (int64_t w = 0; w < p.width; w += W) {
        FieldLanes<S> rows[W];
#pragma GCC unroll 16
        for (int i = 0; i < W; ++i) {
          rows[i] = FieldLanes<S>::load(source + (c + i) * volume + w);
        }
        transpose(rows);
#pragma GCC unroll 16
        for (int i = 0; i < W; ++i) {
          store_rounded<S>(rows[i], streams, target + (w + i) * p.channels + c);
        }
      }
    }
  }
  if (streams) {
    finish_streaming();
  }
}

int64_t elements_of_lines(const EvolveChannels& p) {
  return 2 * p.count * p.width;
}
int64_t no_scratch(const EvolveChannels&) {
  return 0;
}

// Memory takes less of a step's time where vectors are narrower or the field is of a half type; and to round means to
// one takes longer than memory does.
template <typename S>
bool pays(const EvolveChannels& p) {
  constexpr bool kHalf = sizeof(S) == 2;
  constexpr int64_t kLeastSteps = kVectorBytes == 64 && !kHalf ? 4 : 6;
  return kVectorBytes >= 32 && !(kHalf && p.stencil != Stencil::kLaplace) && p.steps >= kLeastSteps && p.serves();
}

template <typename S>
constexpr EvolveChannelsKernels kEvolveChannels = {
    pays<S>,
    {elements_of_lines, no_scratch, gather_channels<S>},
    {[](const EvolveChannels& p) { return p.steps * p.volume_elements(); }, ChannelSteps<S>::scratch,
     evolve_channels<S>},
    {elements_of_lines, no_scratch, scatter_channels<S>}};

}  // namespace

KERNEL_REGISTER_BY_STORAGE(EvolveChannelsKernels, kEvolveChannels)

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
