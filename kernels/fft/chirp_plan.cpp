// Builds and keeps the plans of chirp_plan.h.
#include "kernels/fft/chirp_plan.h"

#include <algorithm>
#include <list>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "kernels/fft/roots.h"

namespace torch_hrr::kernels {
namespace {

// Two of the longest plans in double.
constexpr size_t kMaxKeptBytes = size_t{96} << 20;

template <typename T>
struct OwnedChirp {
  ChirpPlan<T> plan;
  ChirpTransform transform;
  std::vector<T> storage;
};
template <typename T>
using SharedChirp = std::shared_ptr<const OwnedChirp<T>>;

// w_n, n < N
std::vector<Complex<double>> wave_of(int64_t points) {
  std::vector<Complex<double>> wave(static_cast<size_t>(points));
  for (int64_t n = 0; n < points; ++n) {
    const Complex<double> root = root_of_unity(n * n % (2 * points), 2 * points);
    wave[static_cast<size_t>(n)] = {root.re, -root.im};
  }
  return wave;
}

// Appends the transform over L, real parts before imaginary ones, of w_lag / L at lag mod L for lags from -behind to
// ahead.
void append_wrapped(const std::vector<Complex<double>>& wave, int64_t length, ChirpTransform transform, int64_t behind,
                    int64_t ahead, std::vector<double>& numbers) {
  const double share = 1 / static_cast<double>(length);
  std::vector<double> wrapped(static_cast<size_t>(2 * length), 0);
  for (int64_t lag = -behind; lag <= ahead; ++lag) {
    const Complex<double> w = wave[static_cast<size_t>(lag < 0 ? -lag : lag)];
    const auto at = static_cast<size_t>(lag < 0 ? length + lag : lag);
    wrapped[at] = w.re * share;
    wrapped[at + static_cast<size_t>(length)] = w.im * share;
  }
  std::vector<double> work(static_cast<size_t>(chirp_work(length)));
  transform(length, wrapped.data(), wrapped.data() + length, work.data());
  numbers.insert(numbers.end(), wrapped.begin(), wrapped.end());
}

template <typename T>
SharedChirp<T> make_chirp(ChirpShape shape, ChirpTransform transform) {
  const int64_t points = shape.points();
  const std::vector<Complex<double>> wave = wave_of(points);
  std::vector<double> numbers;
  for (const Complex<double>& w : wave) {
    numbers.push_back(w.re);
  }
  for (const Complex<double>& w : wave) {
    numbers.push_back(w.im);
  }
  append_wrapped(wave, shape.length, transform, points - 1, shape.sums() - 1, numbers);
  if (!shape.halved) {
    append_wrapped(wave, shape.length, transform, shape.sums() - 1, points - 1, numbers);
  }
  const auto roots = static_cast<int64_t>(numbers.size());
  for (const bool imaginary : {false, true}) {
    for (int64_t k = 0; shape.halved && k < (points + 1) / 2; ++k) {
      const Complex<double> root = root_of_unity(k, shape.dim);
      numbers.push_back(imaginary ? root.im : root.re);
    }
  }

  auto owned = std::make_shared<OwnedChirp<T>>();
  owned->transform = transform;
  owned->storage.assign(numbers.begin(), numbers.end());
  const T* const begin = owned->storage.data();
  ChirpPlan<T>& plan = owned->plan;
  plan.shape = shape;
  plan.wave_re = begin;
  plan.wave_im = begin + points;
  plan.to_bins_re = begin + 2 * points;
  plan.to_bins_im = plan.to_bins_re + shape.length;
  plan.to_row_re = shape.halved ? plan.to_bins_re : plan.to_bins_im + shape.length;
  plan.to_row_im = plan.to_row_re + shape.length;
  plan.size = points;
  plan.half_root_re = begin + roots;
  plan.half_root_im = plan.half_root_re + (points + 1) / 2;
  return owned;
}

// The plans used last, the latest first.
template <typename T>
class ChirpCache {
 public:
  SharedChirp<T> get(ChirpShape shape, ChirpTransform transform) {
    if (SharedChirp<T> found = find(shape, transform)) {
      return found;
    }
    // Made without the lock: a long plan must not hold up the others. Of two threads the first keeps its own.
    const SharedChirp<T> made = make_chirp<T>(shape, transform);
    const std::lock_guard<std::mutex> lock(mutex_);
    if (SharedChirp<T> found = find_locked(shape, transform)) {
      return found;
    }
    plans_.push_front(made);
    kept_ += bytes_of(made);
    while (kept_ > kMaxKeptBytes && plans_.size() > 1) {
      kept_ -= bytes_of(plans_.back());
      plans_.pop_back();
    }
    return made;
  }

 private:
  SharedChirp<T> find(ChirpShape shape, ChirpTransform transform) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return find_locked(shape, transform);
  }
  SharedChirp<T> find_locked(ChirpShape shape, ChirpTransform transform) {
    const auto found = std::find_if(plans_.begin(), plans_.end(), [&](const SharedChirp<T>& chirp) {
      return chirp->plan.shape == shape && chirp->transform == transform;
    });
    if (found == plans_.end()) {
      return nullptr;
    }
    plans_.splice(plans_.begin(), plans_, found);
    return plans_.front();
  }
  static size_t bytes_of(const SharedChirp<T>& chirp) {
    return chirp->storage.size() * sizeof(T);
  }

  std::mutex mutex_;
  std::list<SharedChirp<T>> plans_;
  size_t kept_ = 0;
};

}  // namespace

template <typename T>
ChirpLease<T>::ChirpLease(ChirpShape shape, ChirpTransform transform) {
  // Never destroyed: threads may still run when static objects go.
  static auto& cache = *new ChirpCache<T>();
  auto owner = std::make_unique<SharedChirp<T>>(cache.get(shape, transform));
  plan_ = &(*owner)->plan;
  owner_ = owner.release();
}

template <typename T>
ChirpLease<T>::~ChirpLease() {
  delete static_cast<SharedChirp<T>*>(owner_);
}

template class ChirpLease<float>;
template class ChirpLease<double>;

}  // namespace torch_hrr::kernels
