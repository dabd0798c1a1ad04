// Steps of a field in every instruction set, bit by bit against the formula element by element.
#include "kernels/field/evolve.h"

#include <tuple>

#include "kernels/math.h"
#include "kernels/philox.h"
#include "oracle.h"

namespace torch_hrr::kernels {
namespace {

constexpr Boundary kBoundaries[] = {Boundary::kReplicate, Boundary::kZeros, Boundary::kCircular};
constexpr Stencil kStencils[] = {Stencil::kLaplace, Stencil::kBox, Stencil::kBinomial};

struct Place {
  int64_t item, depth, height, width, channel;
};

template <typename S>
class Reference {
 public:
  using T = compute_t<S>;

  explicit Reference(const EvolveParams& params) : p_(params) {}

  S at(const Place& place) const {
    T value = p_.stencil == Stencil::kLaplace ? laplace(place)
              : p_.stencil == Stencil::kBox   ? mean<false>(place)
                                              : mean<true>(place);
    if (p_.noise != 0) {
      value = value + static_cast<T>(p_.noise) * static_cast<T>(normal(place));
    }
    return static_cast<S>(value);
  }

 private:
  T load(const Place& place, int64_t depth, int64_t height, int64_t width) const {
    const int64_t d = neighbour(place.depth + depth, p_.depth, p_.boundary);
    const int64_t h = neighbour(place.height + height, p_.height, p_.boundary);
    const int64_t w = neighbour(place.width + width, p_.width, p_.boundary);
    if (d < 0 || h < 0 || w < 0) {
      return 0;
    }
    const int64_t line = ((place.item * p_.depth + d) * p_.height + h) * p_.width + w;
    return static_cast<T>(static_cast<const S*>(p_.field)[line * p_.channels + place.channel]);
  }
  T laplace(const Place& at) const {
    return laplace_step(load(at, 0, 0, 0), load(at, 0, 0, -1) + load(at, 0, 0, 1),
                        load(at, 0, -1, 0) + load(at, 0, 1, 0), load(at, -1, 0, 0) + load(at, 1, 0, 0),
                        static_cast<T>(p_.keep), static_cast<T>(p_.rate));
  }
  template <bool kBinomial>
  T mean(const Place& at) const {
    const auto over_depth = [&](int64_t h, int64_t w) {
      return axis_sum<kBinomial>(load(at, -1, h, w), load(at, 0, h, w), load(at, 1, h, w));
    };
    const auto over_height = [&](int64_t w) {
      return axis_sum<kBinomial>(over_depth(-1, w), over_depth(0, w), over_depth(1, w));
    };
    return mean_step<kBinomial>(load(at, 0, 0, 0), axis_sum<kBinomial>(over_height(-1), over_height(0), over_height(1)),
                                static_cast<T>(p_.keep), static_cast<T>(p_.rate));
  }
  float normal(const Place& at) const {
    const int64_t channel = at.item * p_.channels + at.channel;
    const auto i =
        static_cast<uint64_t>(((channel * p_.depth + at.depth) * p_.height + at.height) * p_.width + at.width);
    const PhiloxBlock words = philox4x32(philox_counter(p_.first + i / 4, 0), philox_key(p_.seed));
    const uint32_t* const pair = words.word + (i % 4 < 2 ? 0 : 2);
    const NormalPair<float> normals = normal_pair<float>(pair[0], pair[1]);
    return i % 2 == 0 ? normals.first : normals.second;
  }

  EvolveParams p_;
};

using Shape = std::tuple<int64_t, int64_t, int64_t, int64_t, int64_t>;
// Channels and widths below, at and above whole vectors; axes of one and two; volumes that 4 divides and others.
const std::vector<Shape> kShapes = {{1, 1, 1, 1, 1},  {1, 2, 2, 2, 1},  {2, 1, 3, 5, 3},  {1, 3, 1, 2, 16},
                                    {1, 2, 3, 4, 17}, {1, 3, 40, 3, 8}, {2, 3, 3, 3, 33}, {1, 2, 2, 37, 1}};

template <typename S>
class Evolve : public ::testing::Test {};
TYPED_TEST_SUITE(Evolve, StorageTypes);

template <typename S>
void expect_formula(const Shape& shape, Boundary boundary, Stencil stencil, double noise) {
  EvolveParams params;
  std::tie(params.batch, params.depth, params.height, params.width, params.channels) = shape;
  const int64_t count = params.batch * params.volume() * params.channels;
  const Buffer<S> source = random_values<S>(count, 31);
  Buffer<S> out(count);
  params.field = source.data();
  params.out = out.data();
  params.keep = 0.9;
  params.rate = 0.15;
  params.boundary = boundary;
  params.stencil = stencil;
  params.noise = noise;
  params.seed = 0x123456789abcdefu;
  params.first = 0xfffffffeu;
  const auto& kernel = kernel_of<S, EvolveParams>();
  Buffer<char> scratch(kernel.scratch(params));
  // In two parts, as two threads would.
  const int64_t half = params.lines() / 2;
  kernel.run(params, half, params.lines(), scratch.data());
  kernel.run(params, 0, half, scratch.data());
  const Reference<S> reference(params);
  const S* result = out.data();
  Place at{};
  for (at.item = 0; at.item < params.batch; ++at.item) {
    for (at.depth = 0; at.depth < params.depth; ++at.depth) {
      for (at.height = 0; at.height < params.height; ++at.height) {
        for (at.width = 0; at.width < params.width; ++at.width) {
          for (at.channel = 0; at.channel < params.channels; ++at.channel) {
            const S expected = reference.at(at);
            ASSERT_EQ(std::memcmp(result++, &expected, sizeof(S)), 0)
                << "depth " << at.depth << ", height " << at.height << ", width " << at.width << ", channel "
                << at.channel << " of " << params.channels;
          }
        }
      }
    }
  }
}

TYPED_TEST(Evolve, HasTheBitsOfTheFormula) {
  for (const Shape& shape : kShapes) {
    for (const Boundary boundary : kBoundaries) {
      for (const Stencil stencil : kStencils) {
        expect_formula<TypeParam>(shape, boundary, stencil, 0);
      }
      expect_formula<TypeParam>(shape, boundary, Stencil::kLaplace, 0.3);
    }
  }
}

TEST(Neighbour, IsTheNearestTheOtherEndOrNone) {
  for (const int64_t n : {1, 2, 5}) {
    EXPECT_EQ(neighbour(-1, n, Boundary::kReplicate), 0);
    EXPECT_EQ(neighbour(n, n, Boundary::kReplicate), n - 1);
    EXPECT_EQ(neighbour(-1, n, Boundary::kCircular), n - 1);
    EXPECT_EQ(neighbour(n, n, Boundary::kCircular), 0);
    EXPECT_EQ(neighbour(-1, n, Boundary::kZeros), -1);
    EXPECT_EQ(neighbour(n, n, Boundary::kZeros), -1);
    EXPECT_EQ(neighbour(n - 1, n, Boundary::kZeros), n - 1);
  }
}

}  // namespace
}  // namespace torch_hrr::kernels
