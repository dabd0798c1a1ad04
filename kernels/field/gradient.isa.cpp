// Gradients of a field on the CPU; compiled once per instruction set.
#include "kernels/field/gradient.h"

#include "kernels/field/lines.h"
#include "kernels/registry.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN
namespace {

constexpr int kAxes = 3;
constexpr int kLines = 3;

template <typename S>
class GradientLine {
 public:
  using T = compute_t<S>;

  GradientLine(const GradientParams& params, void* memory)
      : p_(params), length_(params.width * params.channels), scale_(static_cast<T>(params.scale())) {
    LineScratch scratch(memory);
    for (T*& line : sums_) {
      line = scratch.take<T>(padded(p_)) + p_.channels;
    }
    for (T*& line : lines_) {
      line = scratch.take<T>(length_);
    }
    for (DepthSums& sums : depth_sums_) {
      sums = {scratch.take<T>(length_), scratch.take<T>(length_)};
    }
  }
  static int64_t scratch(const GradientParams& p) {
    constexpr auto kSize = static_cast<int64_t>(sizeof(T));
    return kAxes * LineScratch::bytes(padded(p), kSize) +
           (kAxes + 2 * kLines) * LineScratch::bytes(p.width * p.channels, kSize);
  }

  void run(const FieldLine& at, bool streams) {
    switch (p_.kind) {
      case GradientKind::kDerivatives:
        return derivatives(at, streams);
      case GradientKind::kMagnitude:
        return magnitude(at, streams);
      case GradientKind::kTransposed:
        return transposed(at, streams);
    }
  }

 private:
  static int64_t padded(const GradientParams& p) {
    return (p.width + 2) * p.channels;
  }
  // The line of a place, which may lie outside.
  const S* line_of(int64_t field, int64_t depth, int64_t height) const {
    const int64_t d = neighbour(depth, p_.depth, Boundary::kReplicate);
    const int64_t h = neighbour(height, p_.height, Boundary::kReplicate);
    return static_cast<const S*>(p_.in) + ((field * p_.depth + d) * p_.height + h) * length_;
  }
  S* target_of(int64_t field, const FieldLine& at) const {
    return static_cast<S*>(p_.out) + ((field * p_.depth + at.depth) * p_.height + at.height) * length_;
  }
  void store_line(const T* line, bool streams, S* target) const {
    write_elements(line, length_, streams, target);
  }
  // What lies beyond the first and the last place: the element there, or its negative.
  void pad(T* line, T sign) const {
    for (int64_t i = 0; i < p_.channels; ++i) {
      line[i - p_.channels] = sign * line[i];
      line[length_ + i] = sign * line[length_ - p_.channels + i];
    }
  }

  // Smoothed over depth, and the change along it: they serve three lines of the result, so they are kept for the plane
  // that was worked on last.
  struct DepthSums {
    T* smooth;
    T* change;
  };
  DepthSums depth_sums(const FieldLine& at, int h) {
    const LineName name = {at.item * p_.depth + at.depth, at.height + h - 1};
    const auto slot = static_cast<size_t>((name.height % kLines + kLines) % kLines);
    const DepthSums sums = depth_sums_[slot];
    if (held_[slot].plane != name.plane || held_[slot].height != name.height) {
      held_[slot] = name;
      const S* const before = line_of(at.item, at.depth - 1, name.height);
      const S* const own = line_of(at.item, at.depth, name.height);
      const S* const after = line_of(at.item, at.depth + 1, name.height);
      const Ahead<S> ahead = {after + length_, after + p_.height * length_};
      for_elements<S>(0, length_, [&](int64_t i, const auto& load) {
        ahead.fetch(i);
        store_lanes<false>(smoothed(load(before + i), load(own + i), load(after + i)), sums.smooth + i);
        store_lanes<false>(difference(load(before + i), load(after + i)), sums.change + i);
      });
    }
    return sums;
  }

  void sum_over_depth_and_height(const FieldLine& at) {
    const DepthSums above = depth_sums(at, 0);
    const DepthSums own = depth_sums(at, 1);
    const DepthSums below = depth_sums(at, 2);
    for_elements<T>(0, length_, [&](int64_t i, const auto& load) {
      const auto first = load(above.smooth + i);
      const auto last = load(below.smooth + i);
      store_lanes<false>(smoothed(load(above.change + i), load(own.change + i), load(below.change + i)), sums_[0] + i);
      store_lanes<false>(difference(first, last), sums_[1] + i);
      store_lanes<false>(smoothed(first, load(own.smooth + i), last), sums_[2] + i);
    });
    for (T* const line : sums_) {
      pad(line, T{1});
    }
  }

  // body(i, by_depth, by_height, by_width), vectors or numbers
  template <typename Body>
  void for_derivatives(const Body& body) const {
    const int64_t c = p_.channels;
    for_elements<T>(0, length_, [&](int64_t i, const auto& load) {
      using L = decltype(load(sums_[0]));
      const L scale = lanes_of<L>(scale_);
      const auto smooth = [&](const T* line) {
        return scale * smoothed(load(line + i - c), load(line + i), load(line + i + c));
      };
      const T* const both = sums_[2];
      body(i, smooth(sums_[0]), smooth(sums_[1]), scale * difference(load(both + i - c), load(both + i + c)));
    });
  }

  void derivatives(const FieldLine& at, bool streams) {
    sum_over_depth_and_height(at);
    S* targets[kAxes];
    for (int axis = 0; axis < kAxes; ++axis) {
      targets[axis] = target_of(at.item * kAxes + axis, at);
    }
    const auto into = [&](auto streamed, T* const* out) {
      for_derivatives([&](int64_t i, const auto& by_depth, const auto& by_height, const auto& by_width) {
        store_lanes<decltype(streamed)::value>(by_depth, out[0] + i);
        store_lanes<decltype(streamed)::value>(by_height, out[1] + i);
        store_lanes<decltype(streamed)::value>(by_width, out[2] + i);
      });
    };
    if constexpr (std::is_same_v<S, T>) {
      if (!streams) {
        return into(std::false_type{}, targets);
      }
      if (whole_lines()) {
        return into(std::true_type{}, targets);
      }
    }
    into(std::false_type{}, lines_);
    for (int axis = 0; axis < kAxes; ++axis) {
      store_line(lines_[axis], streams, targets[axis]);
    }
  }

  void magnitude(const FieldLine& at, bool streams) {
    sum_over_depth_and_height(at);
    S* const target = target_of(at.item, at);
    const auto into = [&](auto streamed, T* out) {
      for_derivatives([&](int64_t i, const auto& by_depth, const auto& by_height, const auto& by_width) {
        store_lanes<decltype(streamed)::value>(gradient_norm(by_depth, by_height, by_width), out + i);
      });
    };
    if constexpr (std::is_same_v<S, T>) {
      if (!streams) {
        return into(std::false_type{}, target);
      }
      if (whole_lines()) {
        return into(std::true_type{}, target);
      }
    }
    into(std::false_type{}, lines_[0]);
    store_line(lines_[0], streams, target);
  }

  // The transposed difference takes from the one before and gives to the one after; beyond the border lies the negative
  // of the nearest element. The smoothing is its own transpose.
  void transposed(const FieldLine& at, bool streams) const {
    const S* lines[kAxes][3][3];
    for (int axis = 0; axis < kAxes; ++axis) {
      for (int h = 0; h < 3; ++h) {
        for (int d = 0; d < 3; ++d) {
          lines[axis][h][d] = line_of(at.item * kAxes + axis, at.depth + d - 1, at.height + h - 1);
        }
      }
    }
    const auto sign = [](bool outside) { return outside ? T{-1} : T{1}; };
    const T front = sign(at.depth == 0);
    const T back = sign(at.depth == p_.depth - 1);
    const T above = sign(at.height == 0);
    const T below = sign(at.height == p_.height - 1);
    T* const rest = sums_[0];
    T* const by_width = sums_[1];
    for_elements<S>(0, length_, [&](int64_t i, const auto& load) {
      using L = decltype(load(lines[0][0][0]));
      const auto smooth = [&](int axis, int h) {
        return smoothed(load(lines[axis][h][0] + i), load(lines[axis][h][1] + i), load(lines[axis][h][2] + i));
      };
      const auto change = [&](int h) {
        return difference(lanes_of<L>(back) * load(lines[0][h][2] + i), lanes_of<L>(front) * load(lines[0][h][0] + i));
      };
      const L by_depth = smoothed(change(0), change(1), change(2));
      const L by_height = difference(lanes_of<L>(below) * smooth(1, 2), lanes_of<L>(above) * smooth(1, 0));
      store_lanes<false>(by_depth + by_height, rest + i);
      store_lanes<false>(smoothed(smooth(2, 0), smooth(2, 1), smooth(2, 2)), by_width + i);
    });
    pad(rest, T{1});
    pad(by_width, T{-1});
    const int64_t c = p_.channels;
    for_elements<T>(0, length_, [&](int64_t i, const auto& load) {
      using L = decltype(load(rest));
      const L own = smoothed(load(rest + i - c), load(rest + i), load(rest + i + c));
      const L change = difference(load(by_width + i + c), load(by_width + i - c));
      store_lanes<false>(lanes_of<L>(scale_) * (own + change), lines_[0] + i);
    });
    store_line(lines_[0], streams, target_of(at.item, at));
  }

  // Whether every vector of every line is one that can be streamed.
  bool whole_lines() const {
    const uintptr_t places = reinterpret_cast<uintptr_t>(p_.out) | static_cast<uintptr_t>(length_) * sizeof(S);
    return places % kLineBytes == 0;
  }

  const GradientParams& p_;
  int64_t length_;
  T scale_;
  // Sums over depth and height of one line, for its derivative by depth, by height and by width, with a place of
  // channels before the first and after the last.
  T* sums_[kAxes];
  DepthSums depth_sums_[kLines];
  LineName held_[kLines] = {{-1, 0}, {-1, 0}, {-1, 0}};
  T* lines_[kAxes];  // of results that are rounded, or shifted to stream
};

template <typename S>
void gradient_lines(const GradientParams& p, int64_t begin, int64_t end, void* scratch) {
  const int64_t bytes = p.width * p.channels * static_cast<int64_t>(sizeof(S));
  const int64_t fields = p.kind == GradientKind::kDerivatives ? kAxes : 1;
  const bool streams = p.lines() * bytes * fields >= kStreamBytes;
  GradientLine<S> line(p, scratch);
  const LineTiles tiles(p.depth, p.height, p.kind == GradientKind::kTransposed ? kAxes * bytes : bytes);
  for (int64_t index = begin; index < end; ++index) {
    line.run(tiles.at(index), streams);
  }
  if (streams) {
    finish_streaming();
  }
}

template <typename S>
constexpr RowKernel<GradientParams> kGradient = {
    [](const GradientParams& p) { return (kAxes + 1) * p.width * p.channels; }, GradientLine<S>::scratch,
    gradient_lines<S>};

}  // namespace

KERNEL_REGISTER_BY_STORAGE(RowKernel<GradientParams>, kGradient)

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
