// Gradients of a field in every instruction set, bit by bit against the formula element by element.
#include "kernels/field/gradient.h"

#include <tuple>

#include "oracle.h"

namespace torch_hrr::kernels {
namespace {

using Shape = std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t>;
// Channels and widths below, at and above whole vectors; axes of one and two.
const std::vector<Shape> kShapes = {{1, 1, 1, 1, 1},  {1, 2, 2, 2, 1},  {2, 1, 3, 5, 3},  {1, 3, 1, 2, 16},
                                    {1, 2, 3, 4, 17}, {1, 3, 40, 3, 8}, {2, 3, 3, 3, 33}, {1, 2, 2, 37, 1}};

// Element by element, in the order of sums that gradient.h promises.
template <typename S>
class Reference {
 public:
  using T = compute_t<S>;

  explicit Reference(const GradientParams& params) : p_(params) {}

  // Of result `part` of an item.
  S at(int64_t item, int64_t part, const int64_t (&place)[3], int64_t channel) const {
    const auto scale = static_cast<T>(p_.scale());
    if (p_.kind == GradientKind::kTransposed) {
      return static_cast<S>(scale * transposed(item, place, channel));
    }
    const auto derivative = [&](int axis) {
      return scale * sum(place, axis, [&](const int64_t(&at)[3]) { return load(item, at, channel); });
    };
    return static_cast<S>(p_.kind == GradientKind::kDerivatives
                              ? derivative(static_cast<int>(part))
                              : gradient_norm(derivative(0), derivative(1), derivative(2)));
  }

 private:
  int64_t size(int axis) const {
    const int64_t sizes[] = {p_.depth, p_.height, p_.width};
    return sizes[axis];
  }
  T load(int64_t field, const int64_t (&at)[3], int64_t channel) const {
    const int64_t place = ((field * p_.depth + at[0]) * p_.height + at[1]) * p_.width + at[2];
    return static_cast<T>(static_cast<const S*>(p_.in)[place * p_.channels + channel]);
  }
  // Sums over depth, then height, then width: the difference along one axis, smoothed along the others.
  template <typename Element>
  T sum(const int64_t (&center)[3], int changed, const Element& element) const {
    int64_t at[3];
    const auto along = [&](int axis, const auto& inner) {
      T values[3];
      for (int k = 0; k < 3; ++k) {
        const int64_t i = center[axis] + k - 1;
        at[axis] = neighbour(i, size(axis), Boundary::kReplicate);
        values[k] = inner();
      }
      return axis == changed ? difference(values[0], values[2]) : smoothed(values[0], values[1], values[2]);
    };
    return along(2, [&] { return along(1, [&] { return along(0, [&] { return element(at); }); }); });
  }
  T transposed(int64_t item, const int64_t (&place)[3], int64_t channel) const {
    const auto part = [&](int axis, int64_t width) {
      const int64_t center[] = {place[0], place[1], width};
      // Before width is summed: what one place gives.
      int64_t at[3] = {0, 0, width};
      const auto along = [&](int own, const auto& inner) {
        T values[3];
        for (int k = 0; k < 3; ++k) {
          const int64_t i = center[own] + k - 1;
          at[own] = neighbour(i, size(own), Boundary::kReplicate);
          const bool sign = own == axis && i != at[own];
          const T value = inner();
          values[k] = sign ? -value : value;
        }
        return own == axis ? difference(values[2], values[0]) : smoothed(values[0], values[1], values[2]);
      };
      return along(1, [&] { return along(0, [&] { return load(3 * item + axis, at, channel); }); });
    };
    T rest[3];
    T by_width[3];
    for (int k = 0; k < 3; ++k) {
      const int64_t i = place[2] + k - 1;
      const int64_t w = neighbour(i, p_.width, Boundary::kReplicate);
      rest[k] = part(0, w) + part(1, w);
      by_width[k] = i == w ? part(2, w) : -part(2, w);
    }
    return smoothed(rest[0], rest[1], rest[2]) + difference(by_width[2], by_width[0]);
  }

  GradientParams p_;
};

template <typename S>
class Gradient : public ::testing::Test {};
TYPED_TEST_SUITE(Gradient, StorageTypes);

template <typename S>
void expect_formula(const Shape& shape, GradientKind kind, bool normalize) {
  GradientParams params;
  std::tie(params.batch, params.depth, params.height, params.width, params.channels) = shape;
  const int64_t volume = params.depth * params.height * params.width;
  const int64_t count = params.batch * volume * params.channels;
  const int64_t given = kind == GradientKind::kTransposed ? 3 : 1;
  const int64_t made = kind == GradientKind::kDerivatives ? 3 : 1;
  const Buffer<S> source = random_values<S>(given * count, 37);
  Buffer<S> out(made * count);
  params.in = source.data();
  params.out = out.data();
  params.kind = kind;
  params.normalize = normalize;
  const auto& kernel = kernel_of<S, GradientParams>();
  Buffer<char> scratch(kernel.scratch(params));
  // In two parts, as two threads would.
  const int64_t half = params.lines() / 2;
  kernel.run(params, half, params.lines(), scratch.data());
  kernel.run(params, 0, half, scratch.data());
  const Reference<S> reference(params);
  for (int64_t i = 0; i < made * count; ++i) {
    const int64_t channel = i % params.channels;
    const int64_t width = i / params.channels % params.width;
    const int64_t height = i / params.channels / params.width % params.height;
    const int64_t depth = i / params.channels / params.width / params.height % params.depth;
    const int64_t field = i / params.channels / volume;
    const S expected = reference.at(field / made, field % made, {depth, height, width}, channel);
    ASSERT_EQ(std::memcmp(out.data() + i, &expected, sizeof(S)), 0)
        << "field " << field << ", depth " << depth << ", height " << height << ", width " << width << ", channel "
        << channel << " of " << params.channels;
  }
}

TYPED_TEST(Gradient, HasTheBitsOfTheFormula) {
  for (const Shape& shape : kShapes) {
    for (const GradientKind kind : {GradientKind::kDerivatives, GradientKind::kMagnitude, GradientKind::kTransposed}) {
      expect_formula<TypeParam>(shape, kind, true);
    }
    expect_formula<TypeParam>(shape, GradientKind::kDerivatives, false);
  }
}

}  // namespace
}  // namespace torch_hrr::kernels
