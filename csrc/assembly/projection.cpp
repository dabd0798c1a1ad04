// _project_ and _stimulus_counts_: the rounds of a batch of brains whose state is a list of tensors.
#include <ATen/Parallel.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <vector>

#include "csrc/assembly/gap_tables.h"
#include "csrc/assembly/rounds.h"
#include "csrc/checks.h"
#include "csrc/rows.h"
#include "kernels/assembly/tables.h"

namespace torch_hrr::assembly {
namespace {

using at::Tensor;

// Reads a state list in its order (torch_hrr/assembly/_state.py writes it), checking every tensor as it goes.
class StateReader {
 public:
  StateReader(at::TensorList state, c10::List<int64_t> layout, c10::ArrayRef<double> rates)
      : state_(state), layout_(layout.vec()), rates_(rates) {}

  int64_t integer() {
    TORCH_CHECK(integers_ < layout_.size(), "_project_: layout must describe the state, got ", layout_.size(),
                " numbers");
    return layout_[integers_++];
  }
  double rate() {
    TORCH_CHECK(floats_ < rates_.size(), "_project_: rates must belong to the layout, got ", rates_.size(), " numbers");
    return rates_[floats_++];
  }
  const Tensor& tensor(const char* name, at::ScalarType type, at::IntArrayRef sizes) {
    TORCH_CHECK(tensors_ < state_.size(), "_project_: state must hold the tensors of its layout, got ", state_.size());
    const Tensor& tensor = state_[tensors_++];
    TORCH_CHECK(tensor.defined() && tensor.layout() == at::kStrided && tensor.is_contiguous() &&
                    tensor.scalar_type() == type && tensor.sizes() == sizes && tensor.device().is_cpu(),
                "_project_: ", name, " must be a contiguous CPU tensor of ", type, " and sizes ", sizes, ", got ",
                tensor.defined() ? c10::str(tensor.scalar_type(), " ", tensor.sizes(), " on ", tensor.device())
                                 : "an undefined one");
    return tensor;
  }
  // A tensor that may be absent: then it has no elements.
  const Tensor* optional(const char* name, at::ScalarType type, at::IntArrayRef sizes) {
    TORCH_CHECK(tensors_ < state_.size(), "_project_: state must hold the tensors of its layout, got ", state_.size());
    if (state_[tensors_].defined() && state_[tensors_].numel() == 0 && product_of(sizes) != 0) {
      ++tensors_;
      return nullptr;
    }
    return &tensor(name, type, sizes);
  }
  // The size of a dimension of the tensor that comes next.
  int64_t next_size(int64_t dim) const {
    return tensors_ < state_.size() && state_[tensors_].defined() && state_[tensors_].dim() > dim
               ? state_[tensors_].size(dim)
               : -1;
  }
  void finish() const {
    TORCH_CHECK(tensors_ == state_.size() && integers_ == layout_.size() && floats_ == rates_.size(),
                "_project_: state must hold the tensors of its layout and no more");
  }

 private:
  at::TensorList state_;
  std::vector<int64_t> layout_;
  c10::ArrayRef<double> rates_;
  size_t tensors_ = 0;
  size_t integers_ = 0;
  size_t floats_ = 0;
};

// The part of a batched tensor that belongs to brain b.
template <typename T>
T* of_brain(const Tensor& tensor, int64_t b) {
  return tensor.mutable_data_ptr<T>() + b * (tensor.numel() / tensor.size(0));
}

struct Batch {
  std::vector<Brain> brains;
  std::vector<std::shared_ptr<const kernels::GapTables>> tables;
  Tensor progress;  // [brains, 1 + fibers]: rounds left, and chunks needed by each fiber
};

void read_area(StateReader& reader, Batch& batch) {
  const auto brains = static_cast<int64_t>(batch.brains.size());
  Area area;
  area.n = reader.integer();
  area.k = reader.integer();
  area.fixed = reader.integer() != 0;
  area.bias_step = reader.integer();
  const int64_t period = reader.integer();
  area.refractory_period = static_cast<int32_t>(period);
  TORCH_CHECK(area.n >= 0 && area.n < INT32_MAX && area.k >= 0 && area.k <= area.n && period >= 0,
              "_project_: an area must have 0 <= k <= n < 2^31 - 1, got k ", area.k, " and n ", area.n);
  const Tensor& winners = reader.tensor("winners", at::kLong, {brains, area.k});
  const Tensor& count = reader.tensor("winner_count", at::kLong, {brains});
  const Tensor& slot_of = reader.tensor("slot_of", at::kInt, {brains, area.n});
  area.capacity = reader.next_size(1);
  const Tensor& neuron_of = reader.tensor("neuron_of", at::kInt, {brains, area.capacity});
  const Tensor& won = reader.tensor("won", at::kByte, {brains, area.capacity});
  const Tensor& slots = reader.tensor("slots", at::kLong, {brains, 2});
  const Tensor* bias = reader.optional("bias", at::kLong, {brains, area.n});
  const Tensor* last_win = reader.optional("last_win", at::kInt, {brains, area.n});
  const Tensor& penalties = reader.tensor("penalties", at::kLong, {period});
  for (int64_t b = 0; b < brains; ++b) {
    Area own = area;
    own.winners = of_brain<int64_t>(winners, b);
    own.winner_count = of_brain<int64_t>(count, b);
    own.slot_of = of_brain<int32_t>(slot_of, b);
    own.neuron_of = of_brain<int32_t>(neuron_of, b);
    own.won = of_brain<uint8_t>(won, b);
    own.slots = of_brain<int64_t>(slots, b);
    own.bias = bias != nullptr ? of_brain<int64_t>(*bias, b) : nullptr;
    own.last_win = last_win != nullptr ? of_brain<int32_t>(*last_win, b) : nullptr;
    own.penalties = penalties.const_data_ptr<int64_t>();
    batch.brains[static_cast<size_t>(b)].areas.push_back(own);
  }
}

const Area& area_of(const Batch& batch, int64_t index) {
  const std::vector<Area>& areas = batch.brains[0].areas;
  TORCH_CHECK(index >= 0 && index < static_cast<int64_t>(areas.size()), "_project_: layout must name one of the ",
              areas.size(), " areas, got ", index);
  return areas[static_cast<size_t>(index)];
}

float weight_limit(double w_max) {
  return std::isfinite(w_max) ? std::min(static_cast<float>(w_max), kernels::kLargestWeight) : kernels::kLargestWeight;
}

void read_fiber(StateReader& reader, int64_t seed, Batch& batch) {
  const auto brains = static_cast<int64_t>(batch.brains.size());
  Fiber fiber;
  fiber.source = static_cast<int32_t>(reader.integer());
  fiber.target = static_cast<int32_t>(reader.integer());
  fiber.plastic = reader.integer() != 0;
  const bool procedural = reader.integer() != 0;
  const int64_t id = reader.integer();
  const double p = reader.rate();
  fiber.factor = static_cast<float>(1 + reader.rate());
  fiber.largest = weight_limit(reader.rate());
  TORCH_CHECK_VALUE(p >= 0 && p <= 1, "_project_: p must be in [0, 1], got ", p);
  const Area& source = area_of(batch, fiber.source);
  const Area& target = area_of(batch, fiber.target);
  if (procedural) {
    batch.tables.push_back(gap_tables(p));
    fiber.connectome = batch.tables.back().get();
  }
  const Tensor& counts = reader.tensor("counts", at::kInt, {brains, procedural ? target.n : 0});
  const Tensor& delivered = reader.tensor("delivered", at::kLong, {brains, source.k});
  const Tensor& delivered_count = reader.tensor("delivered_count", at::kLong, {brains});
  const Tensor& head = reader.tensor("head", at::kInt, {brains, source.capacity});
  const Tensor& length = reader.tensor("length", at::kInt, {brains, source.capacity});
  const Tensor& known = reader.tensor("known", at::kInt, {brains, source.capacity});
  fiber.chunk_capacity = reader.next_size(1);
  const Tensor& next = reader.tensor("next", at::kInt, {brains, fiber.chunk_capacity});
  const std::array<int64_t, 3> per_chunk = {brains, fiber.chunk_capacity, kernels::kEdgesPerChunk};
  const Tensor& targets = reader.tensor("target", at::kInt, per_chunk);
  const Tensor& weights = reader.tensor("weight", at::kFloat, per_chunk);
  const Tensor& chunks = reader.tensor("chunks", at::kLong, {brains});
  const Tensor* scale = reader.optional("scale", at::kDouble, {brains, target.n});
  for (int64_t b = 0; b < brains; ++b) {
    Fiber own = fiber;
    own.key = kernels::connectome_key(static_cast<uint64_t>(seed), static_cast<uint64_t>(b), static_cast<uint64_t>(id));
    own.counts = of_brain<int32_t>(counts, b);
    own.delivered = of_brain<int64_t>(delivered, b);
    own.delivered_count = of_brain<int64_t>(delivered_count, b);
    own.edges = {of_brain<int32_t>(head, b), of_brain<int32_t>(length, b), of_brain<int32_t>(next, b),
                 of_brain<int32_t>(targets, b), of_brain<float>(weights, b)};
    own.known = of_brain<int32_t>(known, b);
    own.chunks = of_brain<int64_t>(chunks, b);
    own.scale = scale != nullptr ? of_brain<double>(*scale, b) : nullptr;
    batch.brains[static_cast<size_t>(b)].fibers.push_back(own);
  }
}

void read_stimulus(StateReader& reader, Batch& batch) {
  const auto brains = static_cast<int64_t>(batch.brains.size());
  Stimulus stimulus;
  stimulus.target = static_cast<int32_t>(reader.integer());
  stimulus.plastic = reader.integer() != 0;
  stimulus.factor = static_cast<float>(1 + reader.rate());
  stimulus.largest = weight_limit(reader.rate());
  const Area& target = area_of(batch, stimulus.target);
  const Tensor& counts = reader.tensor("counts", at::kInt, {brains, target.n});
  const Tensor& weight = reader.tensor("weight", at::kFloat, {brains, target.capacity});
  for (int64_t b = 0; b < brains; ++b) {
    Stimulus own = stimulus;
    own.counts = of_brain<int32_t>(counts, b);
    own.weight = of_brain<float>(weight, b);
    batch.brains[static_cast<size_t>(b)].stimuli.push_back(own);
  }
}

// Every area has memory for the slots that the rounds left may add.
void check_slots(const Batch& batch) {
  for (size_t b = 0; b < batch.brains.size(); ++b) {
    const int64_t rounds = *of_brain<int64_t>(batch.progress, static_cast<int64_t>(b));
    for (const Area& area : batch.brains[b].areas) {
      const int64_t most = std::min(area.n, area.slots[0] + (rounds + 1) * area.k);
      TORCH_CHECK(rounds >= 0 && area.slots[0] >= 0 && area.capacity >= most,
                  "_project_: an area must have memory for ", most, " slots, got ", area.capacity);
    }
  }
}

void project(at::TensorList state, c10::List<int64_t> layout, c10::ArrayRef<double> rates, int64_t seed) {
  StateReader reader(state, std::move(layout), rates);
  Batch batch;
  const int64_t brains = reader.integer();
  TORCH_CHECK(brains >= 1, "_project_: there must be at least one brain, got ", brains);
  batch.brains.resize(static_cast<size_t>(brains));
  const int64_t areas = reader.integer();
  const int64_t fibers = reader.integer();
  const int64_t stimuli = reader.integer();
  for (int64_t a = 0; a < areas; ++a) {
    read_area(reader, batch);
  }
  for (int64_t f = 0; f < fibers; ++f) {
    read_fiber(reader, seed, batch);
  }
  for (int64_t s = 0; s < stimuli; ++s) {
    read_stimulus(reader, batch);
  }
  batch.progress = reader.tensor("progress", at::kLong, {brains, 1 + fibers});
  reader.finish();
  check_slots(batch);
  // One brain's columns, or whole brains, are shared among the threads.
  at::parallel_for(0, brains, 1, [&](int64_t begin, int64_t end) {
    for (int64_t b = begin; b < end; ++b) {
      int64_t* const progress = of_brain<int64_t>(batch.progress, b);
      *progress -= run_rounds(batch.brains[static_cast<size_t>(b)], *progress, brains == 1, progress + 1);
    }
  });
}

void stimulus_counts(Tensor& counts, int64_t size, double p, int64_t seed, int64_t fiber) {
  TORCH_CHECK_VALUE(p >= 0 && p <= 1, "_stimulus_counts_: p must be in [0, 1], got ", p);
  TORCH_CHECK_VALUE(size >= 0 && size < INT32_MAX, "_stimulus_counts_: size must be in 0..2^31 - 2, got ", size);
  TORCH_CHECK(counts.defined() && counts.scalar_type() == at::kInt && counts.dim() == 2 && counts.is_contiguous(),
              "_stimulus_counts_: counts must be a contiguous int32 tensor [brains, n]");
  std::vector<uint64_t> thresholds(static_cast<size_t>(kernels::binomial_capacity(size, p)));
  kernels::BinomialTable table;
  kernels::make_binomial_table(size, p, thresholds.data(), table);
  const int64_t n = counts.size(1);
  for (int64_t b = 0; b < counts.size(0); ++b) {
    const uint64_t key =
        kernels::connectome_key(static_cast<uint64_t>(seed), static_cast<uint64_t>(b), static_cast<uint64_t>(fiber));
    constexpr int64_t kGrain = 32768;
    at::parallel_for(0, n, kGrain, [&](int64_t begin, int64_t end) {
      kernels::assembly_kernels().stimulus_counts(table, key, begin, end, of_brain<int32_t>(counts, b));
    });
  }
}

}  // namespace
}  // namespace torch_hrr::assembly

TORCH_LIBRARY_IMPL(torch_hrr, CPU, m) {
  m.impl("_project_", torch_hrr::assembly::project);
  m.impl("_stimulus_counts_", torch_hrr::assembly::stimulus_counts);
}
