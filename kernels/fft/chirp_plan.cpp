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

// Two of the longest plans.
constexpr size_t kMaxKeptBytes = size_t{96} << 20;

struct OwnedChirp {
  ChirpPlan plan;
  ChirpTransform transform;
  std::vector<double> storage;
};
using SharedChirp = std::shared_ptr<const OwnedChirp>;

// The transform over L, divided by L, of w_lag at lag mod L for lags from -behind to ahead.
void fill_wrapped(const ChirpPlan& plan, ChirpTransform transform, int64_t behind, int64_t ahead, double* re,
                  double* im) {
  const double share = 1 / static_cast<double>(plan.length);
  for (int64_t lag = -behind; lag <= ahead; ++lag) {
    const int64_t n = lag < 0 ? -lag : lag;
    const int64_t at = lag < 0 ? plan.length + lag : lag;
    re[at] = plan.wave_re[n] * share;
    im[at] = plan.wave_im[n] * share;
  }
  std::vector<double> work(static_cast<size_t>(chirp_work(plan.length)));
  transform(plan.length, re, im, work.data());
}

SharedChirp make_chirp(int64_t dim, int64_t length, ChirpTransform transform) {
  auto owned = std::make_shared<OwnedChirp>();
  owned->transform = transform;
  ChirpPlan& plan = owned->plan;
  plan.dim = dim;
  plan.length = length;
  owned->storage.resize(static_cast<size_t>(chirp_numbers(dim, plan.length)));
  double* const wave_re = owned->storage.data();
  double* const wave_im = wave_re + dim;
  double* const to_bins = wave_im + dim;
  double* const to_row = to_bins + 2 * plan.length;
  plan.wave_re = wave_re;
  plan.wave_im = wave_im;
  plan.to_bins_re = to_bins;
  plan.to_bins_im = to_bins + plan.length;
  plan.to_row_re = to_row;
  plan.to_row_im = to_row + plan.length;
  for (int64_t n = 0; n < dim; ++n) {
    const Complex<double> root = root_of_unity(n * n % (2 * dim), 2 * dim);
    wave_re[n] = root.re;
    wave_im[n] = -root.im;
  }
  fill_wrapped(plan, transform, dim - 1, dim / 2, to_bins, to_bins + plan.length);
  fill_wrapped(plan, transform, dim / 2, dim - 1, to_row, to_row + plan.length);
  return owned;
}

// The plans used last, the latest first.
class ChirpCache {
 public:
  SharedChirp get(int64_t dim, int64_t length, ChirpTransform transform) {
    if (SharedChirp found = find(dim, length, transform)) {
      return found;
    }
    // Made without the lock: a long plan must not hold up the others. Of two threads the first keeps its own.
    const SharedChirp made = make_chirp(dim, length, transform);
    const std::lock_guard<std::mutex> lock(mutex_);
    if (SharedChirp found = find_locked(dim, length, transform)) {
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
  SharedChirp find(int64_t dim, int64_t length, ChirpTransform transform) {
    const std::lock_guard<std::mutex> lock(mutex_);
    return find_locked(dim, length, transform);
  }
  SharedChirp find_locked(int64_t dim, int64_t length, ChirpTransform transform) {
    const auto found = std::find_if(plans_.begin(), plans_.end(), [&](const SharedChirp& chirp) {
      return chirp->plan.dim == dim && chirp->plan.length == length && chirp->transform == transform;
    });
    if (found == plans_.end()) {
      return nullptr;
    }
    plans_.splice(plans_.begin(), plans_, found);
    return plans_.front();
  }
  static size_t bytes_of(const SharedChirp& chirp) {
    return chirp->storage.size() * sizeof(double);
  }

  std::mutex mutex_;
  std::list<SharedChirp> plans_;
  size_t kept_ = 0;
};

}  // namespace

ChirpLease::ChirpLease(int64_t dim, int64_t length, ChirpTransform transform) {
  // Never destroyed: threads may still run when static objects go.
  static ChirpCache& cache = *new ChirpCache();
  auto owner = std::make_unique<SharedChirp>(cache.get(dim, length, transform));
  plan_ = &(*owner)->plan;
  owner_ = owner.release();
}

ChirpLease::~ChirpLease() {
  delete static_cast<SharedChirp*>(owner_);
}

}  // namespace torch_hrr::kernels
