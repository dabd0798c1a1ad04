// Bluestein's sum and its transform; compiled once per instruction set.
#include "kernels/hrr/chirp_engine.h"
#include "kernels/registry.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN
namespace {

// body(width, buffers) for a plan of transforms, with the two arrays that they work in
template <typename T, typename Body>
void with_transform(const FftPlan<T>& plan, T* work, const Body& body) {
  const int64_t stride = chirp_work(plan.size) / 4;
  const Split<T> buffers[2] = {{work, work + stride}, {work + 2 * stride, work + 3 * stride}};
  with_width<T, 16>(plan.width, [&](auto width) { body(width, buffers); });
}

// Reads numbers times conj(w), from `end` on 0. A vector across `end` finds zeros behind the numbers, and tables behind
// the wave.
template <typename T, int W>
struct FromChirped {
  Split<const T> numbers;
  Split<const T> wave;
  int64_t end;
  KERNEL_HOST_DEVICE ComplexLanes<T, W> operator()(int64_t index) const {
    if (index >= end) {
      return {Simd<T, W>::broadcast(0), Simd<T, W>::broadcast(0)};
    }
    return multiply_conjugate(FromSplit<T, W>{numbers}(index), FromSplit<T, W>{wave}(index));
  }
};
// Stores numbers times a filter.
template <typename T, int W>
struct ToFiltered {
  Split<T> target;
  Split<const T> filter;
  KERNEL_HOST_DEVICE void operator()(int64_t index, ComplexLanes<T, W> value) const {
    ToSplit<T, W>{target}(index, multiply(value, FromSplit<T, W>{filter}(index)));
  }
};
// Stores numbers that come with parts exchanged, times conj(w).
template <typename T, int W>
struct ToUnchirped {
  Split<T> target;
  Split<const T> wave;
  KERNEL_HOST_DEVICE void operator()(int64_t index, ComplexLanes<T, W> value) const {
    ToSplit<T, W>{target}(index,
                          multiply_conjugate(ComplexLanes<T, W>{value.im, value.re}, FromSplit<T, W>{wave}(index)));
  }
};

}  // namespace

void chirp_transform(int64_t length, double* re, double* im, double* work) {
  const FftPlan<double>& plan = fft_plan<double>(length, kLanes<double>);
  with_transform(plan, work, [&](auto width, const auto& buffers) {
    constexpr int W = decltype(width)::value;
    transform<double, W>(plan, FromSplit<double, W>{{re, im}}, buffers, ToSplit<double, W>{{re, im}});
  });
}

template <typename T>
void chirp_sum(const ChirpPlan<T>& plan, ChirpWay way, Split<T> z, T* work) {
  const bool to_row = way == ChirpWay::kToRow;
  const ChirpShape& shape = plan.shape;
  const int64_t count = to_row ? shape.sums() : shape.points();
  for (T* const part : {z.re, z.im}) {
    for (int64_t k = count; k < shape.length && k < count + kLanes<T>; ++k) {
      part[k] = 0;
    }
  }
  const Split<const T> wave{plan.wave_re, plan.wave_im};
  const Split<const T> filter =
      to_row ? Split<const T>{plan.to_row_re, plan.to_row_im} : Split<const T>{plan.to_bins_re, plan.to_bins_im};
  const FftPlan<T>& fft = fft_plan<T>(shape.length, kLanes<T>);
  with_transform(fft, work, [&](auto width, const auto& buffers) {
    constexpr int W = decltype(width)::value;
    transform<T, W>(fft, FromChirped<T, W>{{z.re, z.im}, wave, count}, buffers, ToFiltered<T, W>{z, filter});
    // The inverse: parts exchanged on both sides.
    transform<T, W>(fft, FromSplit<T, W>{{z.im, z.re}}, buffers, ToUnchirped<T, W>{z, wave});
  });
}

template void chirp_sum(const ChirpPlan<float>&, ChirpWay, Split<float>, float*);
template void chirp_sum(const ChirpPlan<double>&, ChirpWay, Split<double>, double*);

KERNEL_REGISTER(ChirpKernels, {chirp_transform})

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
