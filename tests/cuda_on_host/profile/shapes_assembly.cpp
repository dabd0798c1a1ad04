// The kernels of assemblies as the operators launch them.
#include "tests/cuda_on_host/shim.h"

#include "kernels/assembly/connectome.cuh"
#include "kernels/assembly/launch_winners.cuh"
#include "kernels/assembly/soft_cap.cuh"
#include "kernels/cuda/philox_fill.cuh"
#include "tests/cuda_on_host/assembly_brain.h"
#include "tests/cuda_on_host/profile/shapes.h"

namespace torch_hrr::cuda_on_host::profile {

namespace {

using namespace torch_hrr::kernels;

template <typename S>
void profile_winners(std::vector<Profile>& all, const std::string& type, int64_t rows, int64_t n, int64_t k) {
  const std::vector<float> normal = normal_elements(rows * n, 1);
  std::vector<S> input;
  input.reserve(normal.size());  // what is named is what is allocated
  for (const float x : normal) {
    input.push_back(static_cast<S>(std::is_integral_v<S> ? x * 1e6f : x));
  }
  auto values = poisoned<S>(static_cast<std::size_t>(rows * k));
  auto indices = poisoned<int64_t>(static_cast<std::size_t>(rows * k));
  WinnersParams params;
  params.input = input.data();
  params.values = values.data();
  params.indices = indices.data();
  params.rows = rows;
  params.n = n;
  params.k = k;
  params.row_stride = n;
  const WinnersPlan plan = winners_plan(rows, n);
  auto workspace = poisoned<unsigned char>(static_cast<std::size_t>(WinnersWorkspace<S>::bytes(rows, plan)));
  profile(
      all, "k_winners " + type, shape_of(rows, n) + " k" + std::to_string(k),
      {{"input", input.data()}, {"values", values.data(), Role::kResult}, {"indices", indices.data(), Role::kResult}},
      [&] {
        launch_winners_rows<S>(params, plan, workspace.data(), HostLauncher{}, kWinnersThreads, kMaxGridX,
                               kMaxSharedBytes);
      });
}

void profile_soft_cap(std::vector<Profile>& all, int64_t rows, int64_t n, int64_t k, CapResult result) {
  const std::vector<float> inputs = normal_elements(rows * n, 1);
  const std::vector<float> v = normal_elements(rows * n, 2);
  auto out = poisoned<float>(inputs.size());
  SoftCapParams params;
  params.inputs = inputs.data();
  params.v = v.data();
  params.out = out.data();
  params.rows = rows;
  params.n = n;
  params.k = k;
  params.map.ndim = 1;
  params.map.sizes[0] = rows;
  params.map.strides[0][0] = n;
  params.map.strides[1][0] = n;
  params.storage = Storage::kFloat;
  params.result = result;
  std::vector<NamedArray> arrays = {{"inputs", inputs.data()}, {"out", out.data(), Role::kResult}};
  if (result != CapResult::kSoft) {
    arrays.push_back({"v", v.data()});
  }
  profile(all, result == CapResult::kSoft ? "k_cap soft" : "k_cap soft backward",
          shape_of(rows, n) + " k" + std::to_string(k), arrays,
          [&] { launch_soft_cap_with(params, kMaxSharedBytes, HostLauncher{}); });
}

void profile_philox(std::vector<Profile>& all, int64_t words) {
  auto out = poisoned<uint32_t>(static_cast<std::size_t>(words));
  PhiloxFillParams params;
  params.out = out.data();
  params.words = words;
  profile(all, "philox_fill", std::to_string(words), {{"out", out.data(), Role::kResult}}, [&] {
    host_launch("philox_fill", philox_fill_kernel, grid_for((words + 3) / 4, 256), dim3(256), 0, Schedule{}, params);
  });
}

// As k_winners sorts its results: by keys.
void profile_winner_keys(std::vector<Profile>& all, int64_t count) {
  const std::vector<float> values = normal_elements(count, 1);
  auto keys = poisoned<int64_t>(values.size());
  profile(all, "k_winners keys", std::to_string(count),
          {{"values", values.data()}, {"keys", keys.data(), Role::kResult}},
          [&] { launch_winner_keys_of<float>(values.data(), count, keys.data(), HostLauncher{}); });
}

// How many of `size` neurons of a stimulus have a synapse with each neuron.
void profile_stimulus_counts(std::vector<Profile>& all, int64_t n, int64_t size, double p) {
  std::vector<uint64_t> thresholds(static_cast<std::size_t>(binomial_capacity(size, p)));
  auto counts = poisoned<int32_t>(static_cast<std::size_t>(n));
  StimulusLaunch params;
  make_binomial_table(size, p, thresholds.data(), params.table);
  params.key = 5;
  params.n = n;
  params.counts = counts.data();
  profile(all, "stimulus_counts", "n" + std::to_string(n) + " size" + std::to_string(size),
          {{"counts", counts.data(), Role::kResult}, {"thresholds", thresholds.data(), Role::kTable}},
          [&] { launch_stimulus_counts_with(params, HostLauncher{}); });
}

// The inputs of n neurons from `fired` neurons of a random graph of density p.
void profile_connectome_inputs(std::vector<Profile>& all, int64_t n, int64_t fired, double p) {
  GapTables tables;
  make_gap_tables(p, tables);
  // As csrc uploads them.
  const std::vector<GapTables> uploaded(1, tables);
  std::vector<int64_t> rows;
  for (int64_t i = 0; i < fired; ++i) {
    rows.push_back(i * (n / fired));
  }
  std::vector<int32_t> counts(static_cast<std::size_t>(n));
  DeliverLaunch params;
  params.gaps = DeviceGapTables(tables, uploaded.data());
  params.key = 5;
  params.rows = rows.data();
  params.row_count = fired;
  params.n = n;
  params.counts = counts.data();
  profile(all, "connectome_inputs", "n" + std::to_string(n) + " fired" + std::to_string(fired),
          {{"rows", rows.data()}, {"counts", counts.data(), Role::kResult}, {"gaps", uploaded.data(), Role::kTable}},
          [&] { launch_deliver_with(params, HostLauncher{}); });
}

namespace testing = kernels::assembly_testing;

// Two areas that excite each other and themselves, as those of docs' examples: their first rounds.
testing::Model two_areas(const testing::AreaModel& first, const testing::AreaModel& second, double p) {
  testing::Model model;
  model.areas = {first, second};
  model.fibers = {{0, 0, p}, {0, 1, p}, {1, 0, p}, {1, 1, p}};
  model.stimuli = {{0, 8}};
  return model;
}

void profile_rounds(std::vector<Profile>& all, const testing::Model& model, int64_t count) {
  constexpr int64_t kRounds = 3;
  testing::Memory memory(model);
  memory.slots = {400, 400};
  memory.chunks = {1000, 1000, 1000, 1000};
  testing::Brains brains(model, count, memory);
  testing::RoundsHost host;
  host.threads = kMaxBlockXY;
  host.shared_limit = kMaxSharedBytes;
  std::vector<NamedArray> arrays;
  const auto name = [&](const std::string& array, const auto& values, Role role = Role::kState) {
    arrays.push_back({array, values.data(), role});
  };
  for (std::size_t a = 0; a < brains.areas.size(); ++a) {
    const std::string of = " of area " + std::to_string(a);
    name("winners" + of, brains.areas[a].winners);
    name("slot_of" + of, brains.areas[a].slot_of);
    name("neuron_of" + of, brains.areas[a].neuron_of);
    name("won" + of, brains.areas[a].won);
    if (model.areas[a].bias_step != 0) {
      name("bias" + of, brains.areas[a].bias);
    }
    if (model.areas[a].refractory_period != 0) {
      name("last_win" + of, brains.areas[a].last_win);
      name("penalties" + of, brains.areas[a].penalties, Role::kTable);
    }
  }
  for (std::size_t f = 0; f < brains.fibers.size(); ++f) {
    const std::string of = " of fiber " + std::to_string(f);
    const testing::FiberArrays& fiber = brains.fibers[f];
    name("gaps" + of, fiber.tables, Role::kTable);
    name("counts" + of, fiber.counts);
    name("delivered" + of, fiber.delivered);
    name("head" + of, fiber.head);
    name("length" + of, fiber.length);
    name("next" + of, fiber.next);
    name("target" + of, fiber.target);
    name("weight" + of, fiber.weight);
    name("known" + of, fiber.known);
    if (model.fibers[f].every_round) {
      name("scale" + of, fiber.scale);
      name("sums" + of, fiber.sums);
    }
  }
  name("counts of the stimulus", brains.stimuli[0].counts, Role::kTable);
  name("weight of the stimulus", brains.stimuli[0].weight);
  const testing::AreaModel& area = model.areas[0];
  profile(all, "project rounds",
          shape_of(count, static_cast<int64_t>(model.areas.size()), area.n) + " k" + std::to_string(area.k) + " " +
              std::to_string(kRounds) + " rounds",
          arrays, [&] { brains.run(kRounds, host); });
}

}  // namespace

void profile_assembly(std::vector<Profile>& all) {
  profile_winners<float>(all, "float", 8, 4096, 100);
  profile_winners<float>(all, "float", 1, 100000, 1000);
  profile_winners<int64_t>(all, "int64", 8, 4096, 100);
  profile_winners<double>(all, "double", 8, 4096, 100);
  profile_winners<BFloat16>(all, "bfloat16", 8, 4096, 100);
  profile_winner_keys(all, 800);
  profile_soft_cap(all, 2, 10000, 100, CapResult::kSoft);
  profile_soft_cap(all, 2, 10000, 100, CapResult::kJacobian);
  profile_soft_cap(all, 1, 50000, 500, CapResult::kSoft);
  profile_connectome_inputs(all, 100'000, 300, 0.01);
  profile_stimulus_counts(all, 10'000, 100, 0.05);
  profile_philox(all, 1 << 16);
  profile_rounds(all, two_areas({2000, 45}, {2000, 45}, 0.05), 1);
  // Large areas with all that an area may have.
  testing::AreaModel refracted{5000, 70};
  refracted.bias_step = kFixedOne;
  refracted.refractory_period = 3;
  refracted.inhibition = kFixedOne;
  refracted.keyed_ties = true;
  testing::Model large = two_areas(refracted, {5000, 70}, 0.02);
  large.fibers[1].every_round = true;
  profile_rounds(all, large, 1);
}

}  // namespace torch_hrr::cuda_on_host::profile
