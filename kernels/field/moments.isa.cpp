// Moments of a field's channels on the CPU; compiled once per instruction set.
#include "kernels/field/moments.h"

#include "kernels/field/lines.h"
#include "kernels/registry.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN
namespace {

// Vectors of channels that go through the places together, so that sums do not wait for one another.
constexpr int kTogether = 4;

// Of kCount vectors L of channels; element j of place i is at field + i * channels + j.
template <int kCount, typename L, typename S, typename Load>
void moments_of(const MomentsParams& p, const S* field, int places, const Load& load, compute_t<S>* out) {
  using T = compute_t<S>;
  constexpr int kLanes = static_cast<int>(sizeof(L) / sizeof(T));
  const auto store = [](L value, T* target) { __builtin_memcpy(target, &value, sizeof(value)); };
  const auto at = [&](int place, int k) { return load(field + place * p.channels + k * kLanes); };
  L mean[kCount];
  Deviations<L> found[kCount];
  for (int k = 0; k < kCount; ++k) {
    mean[k] = lanes_of<L>(0);
    found[k] = {lanes_of<L>(0), lanes_of<L>(0), lanes_of<L>(0)};
  }
  for (int i = 0; i < places; ++i) {
    for (int k = 0; k < kCount; ++k) {
      mean[k] = mean[k] + at(i, k);
    }
  }
  const L count = lanes_of<L>(static_cast<T>(places));
  for (int k = 0; k < kCount; ++k) {
    mean[k] = mean[k] / count;
  }
  const L limit = lanes_of<L>(static_cast<T>(p.small));
  for (int i = 0; i < places; ++i) {
    for (int k = 0; k < kCount; ++k) {
      found[k].add(at(i, k), mean[k], limit);
    }
  }
  for (int k = 0; k < kCount; ++k) {
    T* const target = out + k * kLanes;
    store(mean[k], target);
    store(found[k].squares, target + p.channels);
    store(found[k].largest, target + 2 * p.channels);
    store(found[k].small, target + 3 * p.channels);
  }
}

template <typename S>
void moments_rows(const MomentsParams& p, int64_t begin, int64_t end, void*) {
  constexpr int64_t W = kFieldLanes<S>;
  const auto vector = [](const S* source) { return load_lanes(source); };
  const auto one = [](const S* source) { return load_number(source); };
  for (int64_t row = begin; row < end; ++row) {
    const S* const field = static_cast<const S*>(p.field) + p.first_place(row) * p.channels;
    auto* const out = static_cast<compute_t<S>*>(p.out) + row * kMoments * p.channels;
    const int places = p.places_of(row);
    int64_t c = 0;
    for (; c + kTogether * W <= p.channels; c += kTogether * W) {
      moments_of<kTogether, FieldLanes<S>>(p, field + c, places, vector, out + c);
    }
    for (; c + W <= p.channels; c += W) {
      moments_of<1, FieldLanes<S>>(p, field + c, places, vector, out + c);
    }
    for (; c < p.channels; ++c) {
      moments_of<1, compute_t<S>>(p, field + c, places, one, out + c);
    }
  }
}

template <typename S>
constexpr RowKernel<MomentsParams> kMomentsOf = {[](const MomentsParams& p) { return kMomentPlaces * p.channels; },
                                                 [](const MomentsParams&) { return int64_t{0}; }, moments_rows<S>};

}  // namespace

KERNEL_REGISTER_BY_STORAGE(RowKernel<MomentsParams>, kMomentsOf)

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
