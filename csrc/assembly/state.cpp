// Reads and checks the tensors of a batch of brains.
#include "csrc/assembly/state.h"

#include <algorithm>
#include <array>
#include <utility>

#include "csrc/assembly/gap_tables.h"
#include "csrc/checks.h"
#include "csrc/rows.h"

namespace torch_hrr::assembly {
namespace {

using at::Tensor;

// A layout describes sizes that are known, so those of a traced tensor become constants.
bool has_sizes(const Tensor& tensor, at::IntArrayRef sizes) {
  const c10::SymIntArrayRef own = tensor.sym_sizes();
  bool same = own.size() == sizes.size();
  for (size_t i = 0; same && i < sizes.size(); ++i) {
    same = own[i].guard_int(__FILE__, __LINE__) == sizes[i];
  }
  return same;
}

class StateReader {
 public:
  StateReader(const char* op, at::TensorList tensors, at::IntArrayRef layout, c10::ArrayRef<double> rates)
      : op_(op), tensors_(tensors), layout_(layout), rates_(rates) {}
  const char* op() const {
    return op_;
  }

  int64_t integer() {
    TORCH_CHECK(integers_ < layout_.size(), op_, ": layout must describe the state, got ", layout_.size(), " numbers");
    return layout_[integers_++];
  }
  double rate() {
    TORCH_CHECK(floats_ < rates_.size(), op_, ": rates must belong to the layout, got ", rates_.size(), " numbers");
    return rates_[floats_++];
  }
  const Tensor& tensor(const char* name, at::ScalarType type, at::IntArrayRef sizes) {
    TORCH_CHECK(used_ < tensors_.size(), op_, ": state must hold the tensors of its layout, got ", tensors_.size());
    const Tensor& tensor = tensors_[used_++];
    TORCH_CHECK(tensor.defined() && tensor.layout() == at::kStrided && tensor.is_contiguous() &&
                    tensor.scalar_type() == type && has_sizes(tensor, sizes) && tensor.device() == tensors_[0].device(),
                op_, ": ", name, " must be a contiguous tensor of ", type, " and sizes ", sizes, " on the device ",
                "of the first, got ",
                tensor.defined() ? c10::str(tensor.scalar_type(), " ", tensor.sym_sizes(), " on ", tensor.device())
                                 : "an undefined one");
    return tensor;
  }
  template <typename T>
  T* data(const char* name, at::ScalarType type, at::IntArrayRef sizes) {
    const Tensor& checked = tensor(name, type, sizes);
    return checked.is_meta() ? nullptr : checked.mutable_data_ptr<T>();
  }
  // Of a tensor that may be absent: then it has no elements.
  template <typename T>
  T* optional(const char* name, at::ScalarType type, at::IntArrayRef sizes) {
    if (used_ < tensors_.size() && tensors_[used_].defined() && tensors_[used_].numel() == 0 &&
        product_of(sizes) != 0) {
      ++used_;
      return nullptr;
    }
    return data<T>(name, type, sizes);
  }
  // The size of a dimension of the tensor that comes next.
  int64_t next_size(int64_t dim) const {
    return used_ < tensors_.size() && tensors_[used_].defined() && tensors_[used_].dim() > dim
               ? tensors_[used_].sym_size(dim).guard_int(__FILE__, __LINE__)
               : -1;
  }
  void finish() const {
    TORCH_CHECK(used_ == tensors_.size() && integers_ == layout_.size() && floats_ == rates_.size(), op_,
                ": state must hold the tensors of its layout and no more");
    check_apart(op_, {tensors_});
  }

 private:
  const char* op_;
  at::TensorList tensors_;
  at::IntArrayRef layout_;
  c10::ArrayRef<double> rates_;
  size_t used_ = 0;
  size_t integers_ = 0;
  size_t floats_ = 0;
};

Area read_area(StateReader& reader, int64_t brains, int64_t seed, const int64_t* numbers) {
  Area area;
  area.n = reader.integer();
  area.k = reader.integer();
  area.fixed = reader.integer() != 0;
  area.bias_step = reader.integer();
  TORCH_CHECK(area.bias_step >= 0 && area.bias_step <= kernels::kLargestBias, reader.op(),
              ": a step of a bias must be in 0..", kernels::kLargestBias, ", got ", area.bias_step);
  const int64_t period = reader.integer();
  area.refractory_period = static_cast<int32_t>(period);
  area.keyed_ties = reader.integer() != 0;
  area.key_root = kernels::mix64(static_cast<uint64_t>(seed));
  area.numbers = numbers;
  area.id = static_cast<uint64_t>(reader.integer());
  TORCH_CHECK(area.n < INT32_MAX && area.k >= 1 && area.k <= area.n, reader.op(), ": an area must have 1 <= k <= n < ",
              "2^31 - 1, got k ", area.k, " and n ", area.n);
  TORCH_CHECK(period >= 0 && period < INT32_MAX, reader.op(), ": a period must be at least 0, got ", period);
  area.winners = reader.data<int64_t>("winners", at::kLong, {brains, area.k});
  area.winner_count = reader.data<int64_t>("winner_count", at::kLong, {brains});
  area.slot_of = reader.data<int32_t>("slot_of", at::kInt, {brains, area.n});
  area.capacity = reader.next_size(1);
  area.neuron_of = reader.data<int32_t>("neuron_of", at::kInt, {brains, area.capacity});
  area.won = reader.data<uint8_t>("won", at::kByte, {brains, area.capacity});
  area.slots = reader.data<int64_t>("slots", at::kLong, {brains, 2});
  area.bias = reader.optional<int64_t>("bias", at::kLong, {brains, area.n});
  area.last_win = reader.optional<int32_t>("last_win", at::kInt, {brains, area.n});
  area.penalties = reader.data<int64_t>("penalties", at::kLong, {period});
  return area;
}

// The area that the layout names, and its number.
const Area& area_at(const char* op, const Brain& brain, int64_t index, int32_t& number) {
  TORCH_CHECK(index >= 0 && index < static_cast<int64_t>(brain.areas.size()), op, ": layout must name one of the ",
              brain.areas.size(), " areas, got ", index);
  number = static_cast<int32_t>(index);
  return brain.areas[static_cast<size_t>(index)];
}

// The largest weight of a synapse: 2^24, or less where more than 2^11 synapses of that weight could fire into a neuron
// at once, so that no sum of them exceeds kLargestTerm.
float weight_limit(const char* op, double w_max, int64_t firing) {
  TORCH_CHECK_VALUE(w_max > 0, op, ": w_max must be greater than 0, got ", w_max);
  constexpr double kLargestSum = 0x1p35;
  const double largest = std::min<double>(kernels::kLargestWeight, kLargestSum / static_cast<double>(firing));
  return static_cast<float>(std::min(w_max, largest));
}

// 1 + beta; beyond any weight it is all the same.
float factor_of(const char* op, double beta) {
  TORCH_CHECK_VALUE(beta >= 0, op, ": beta must be at least 0, got ", beta);
  return static_cast<float>(std::min(1 + beta, 0x1p127));
}

Fiber read_fiber(StateReader& reader, int64_t seed, const int64_t* numbers, State& state) {
  const char* const op = reader.op();
  const int64_t brains = state.brains;
  Fiber fiber;
  const Area& source = area_at(op, state.first, reader.integer(), fiber.source);
  const Area& target = area_at(op, state.first, reader.integer(), fiber.target);
  fiber.plastic = reader.integer() != 0;
  const bool procedural = reader.integer() != 0;
  fiber.key_root = kernels::mix64(static_cast<uint64_t>(seed));
  fiber.numbers = numbers;
  fiber.id = static_cast<uint64_t>(reader.integer());
  const double p = reader.rate();
  fiber.factor = factor_of(op, reader.rate());
  fiber.largest = weight_limit(op, reader.rate(), source.k);
  TORCH_CHECK_VALUE(p >= 0 && p <= 1, op, ": p must be in [0, 1], got ", p);
  state.densities.push_back(p);
  state.tables.push_back(procedural ? gap_tables(p) : nullptr);
  fiber.connectome = state.tables.back().get();
  fiber.counts = reader.data<int32_t>("counts", at::kInt, {brains, procedural ? target.n : 0});
  fiber.delivered = reader.data<int64_t>("delivered", at::kLong, {brains, source.k});
  fiber.delivered_count = reader.data<int64_t>("delivered_count", at::kLong, {brains});
  fiber.edges.head = reader.data<int32_t>("head", at::kInt, {brains, source.capacity});
  fiber.edges.length = reader.data<int32_t>("length", at::kInt, {brains, source.capacity});
  fiber.known = reader.data<int32_t>("known", at::kInt, {brains, source.capacity});
  fiber.chunk_capacity = reader.next_size(1);
  const std::array<int64_t, 3> per_chunk = {brains, fiber.chunk_capacity, kernels::kEdgesPerChunk};
  fiber.edges.next = reader.data<int32_t>("next", at::kInt, {brains, fiber.chunk_capacity});
  fiber.edges.target = reader.data<int32_t>("target", at::kInt, per_chunk);
  fiber.edges.weight = reader.data<float>("weight", at::kFloat, per_chunk);
  fiber.chunks = reader.data<int64_t>("chunks", at::kLong, {brains});
  fiber.scale = reader.optional<double>("scale", at::kDouble, {brains, target.n});
  fiber.sums = reader.optional<int64_t>("sums", at::kLong, {brains, target.n});
  TORCH_CHECK(fiber.sums == nullptr || fiber.scale != nullptr, op, ": a fiber with sums must have scales");
  return fiber;
}

Stimulus read_stimulus(StateReader& reader, const State& state) {
  const char* const op = reader.op();
  Stimulus stimulus;
  const Area& target = area_at(op, state.first, reader.integer(), stimulus.target);
  stimulus.plastic = reader.integer() != 0;
  stimulus.factor = factor_of(op, reader.rate());
  stimulus.largest = weight_limit(op, reader.rate(), 1);
  stimulus.counts = reader.data<int32_t>("counts", at::kInt, {state.brains, target.n});
  stimulus.weight = reader.data<float>("weight", at::kFloat, {state.brains, target.capacity});
  return stimulus;
}

}  // namespace

void check_apart(const char* op, std::initializer_list<at::TensorList> lists) {
  std::vector<std::pair<const char*, const char*>> bytes;
  for (const at::TensorList tensors : lists) {
    for (const Tensor& tensor : tensors) {
      if (!tensor.is_meta() && tensor.numel() > 0) {
        const auto* const first = static_cast<const char*>(tensor.const_data_ptr());
        bytes.emplace_back(first, first + tensor.nbytes());
      }
    }
  }
  std::sort(bytes.begin(), bytes.end());
  for (size_t i = 1; i < bytes.size(); ++i) {
    TORCH_CHECK(bytes[i].first >= bytes[i - 1].second, op, ": tensors of a state must not share memory");
  }
}

kernels::RoundsLaunch State::launch(const std::vector<kernels::DeviceGapTables>& gaps) const {
  kernels::RoundsLaunch params;
  params.brains = brains;
  params.rounds = rounds;
  params.areas = first.areas.data();
  params.area_count = static_cast<int64_t>(first.areas.size());
  params.fibers = first.fibers.data();
  params.gaps = gaps.data();
  params.fiber_count = static_cast<int64_t>(first.fibers.size());
  params.stimuli = first.stimuli.data();
  params.stimulus_count = static_cast<int64_t>(first.stimuli.size());
  params.progress = progress.mutable_data_ptr<int64_t>();
  return params;
}

State read_state(const char* op, at::TensorList tensors, at::IntArrayRef layout, c10::ArrayRef<double> rates,
                 int64_t seed) {
  StateReader reader(op, tensors, layout, rates);
  State state;
  state.brains = reader.integer();
  state.rounds = reader.integer();
  TORCH_CHECK(state.brains >= 1, op, ": there must be at least one brain, got ", state.brains);
  TORCH_CHECK(state.rounds >= 0 && state.rounds < INT32_MAX, op, ": rounds must be in 0..2^31 - 2, got ", state.rounds);
  const int64_t areas = reader.integer();
  const int64_t fibers = reader.integer();
  const int64_t stimuli = reader.integer();
  TORCH_CHECK(areas >= 0 && fibers >= 0 && stimuli >= 0, op, ": layout must hold counts of at least 0, got ", areas,
              ", ", fibers, " and ", stimuli);
  const auto* const numbers = reader.optional<int64_t>("numbers", at::kLong, {state.brains});
  for (int64_t a = 0; a < areas; ++a) {
    state.first.areas.push_back(read_area(reader, state.brains, seed, numbers));
  }
  for (int64_t f = 0; f < fibers; ++f) {
    state.first.fibers.push_back(read_fiber(reader, seed, numbers, state));
  }
  for (int64_t s = 0; s < stimuli; ++s) {
    state.first.stimuli.push_back(read_stimulus(reader, state));
  }
  state.progress = reader.tensor("progress", at::kLong, {state.brains, 1 + fibers});
  reader.finish();
  return state;
}

}  // namespace torch_hrr::assembly
