// Prints, as JSON, the block and the shared memory of every launch of every kernel, without a GPU.
//
// Calls the CUDA entry points for every storage type, length and choice, as the operators do, over a runtime that only
// records. Pointers are never followed: the launch code of a GPU cannot follow them either.
#include <cstdint>
#include <cstdio>
#include <exception>
#include <functional>
#include <initializer_list>
#include <string>
#include <vector>

#include "kernels/assembly/rounds_launch.h"
#include "kernels/assembly/soft_cap.h"
#include "kernels/assembly/winners.h"
#include "kernels/cuda/philox_fill.h"
#include "kernels/encoding/rotation.h"
#include "kernels/field/control.h"
#include "kernels/field/evolve.h"
#include "kernels/field/gradient.h"
#include "kernels/field/moments.h"
#include "kernels/hierarchy/competition.h"
#include "kernels/hierarchy/plastic_backward.h"
#include "kernels/hierarchy/plastic_tangent.h"
#include "kernels/hrr/chirp_rows.h"
#include "kernels/hrr/packed_spectrum.h"
#include "kernels/hrr/quantized_launch.h"
#include "kernels/hrr/spectral_map.h"
#include "kernels/hrr/superposition.h"
#include "tests/cuda_launches/cuda_runtime.h"

namespace torch_hrr::kernels {
namespace {

constexpr int64_t kRows = 1000;
constexpr Storage kStorages[] = {Storage::kFloat, Storage::kDouble, Storage::kHalf, Storage::kBFloat16};
constexpr Element kElements[] = {Element::kFloat,    Element::kDouble, Element::kHalf,
                                 Element::kBFloat16, Element::kInt32,  Element::kInt64};
constexpr Product kProducts[] = {Product::kConvolution, Product::kCorrelation};
constexpr SpectralMap kMaps[] = {
    SpectralMap::kInverse,         SpectralMap::kCutInverse,      SpectralMap::kUnitary,      SpectralMap::kPower,
    SpectralMap::kInverseBackward, SpectralMap::kUnitaryJacobian, SpectralMap::kPowerBackward};

// Not null, aligned like device memory, never read.
template <typename T>
T* somewhere() {
  alignas(256) static unsigned char memory[256];
  return reinterpret_cast<T*>(memory);
}

template <typename Params>
Params shaped(int64_t dim) {
  Params params;
  params.rows = kRows;
  params.dim = dim;
  return params;
}

CudaCall call_of(Storage storage = Storage::kFloat) {
  return {.storage = storage, .workspace = somewhere<void>()};
}

// As planned for a device with so much shared memory.
template <typename Params>
void queue_planned(Storage storage, Params params, int64_t shared_bytes) {
  params.plan = cuda_row_plan(family_of(params), storage, params.dim, shared_bytes);
  params.plan.twiddles = params.plan.table = somewhere<void>();
  // Rows of Bluestein's algorithm are in double.
  const bool is_double = params.plan.path == RowPath::kDoubleChirp;
  if (params.plan.path != RowPath::kLibrary && (!is_double || storage == Storage::kDouble)) {
    queue(call_of(storage), params);
  }
}

void launch_rows_of(Storage storage, int64_t dim, int64_t shared_bytes) {
  for (const Product product : kProducts) {
    auto binding = shaped<BindParams>(dim);
    auto backward = shaped<BindBackwardParams>(dim);
    backward.grad_a = backward.grad_b = somewhere<void>();
    auto of_bins = shaped<SpectrumBindParams>(dim);
    binding.product = backward.product = of_bins.product = product;
    queue_planned(storage, binding, shared_bytes);
    queue_planned(storage, backward, shared_bytes);
    queue_planned(storage, of_bins, shared_bytes);
  }
  auto record = shaped<BindSuperposeParams>(dim);
  record.items = 3;
  queue_planned(storage, record, shared_bytes);
  for (const SpectralMap kind : kMaps) {
    for (const void* const direction :
         {static_cast<const void*>(nullptr), static_cast<const void*>(somewhere<int>())}) {
      auto map = shaped<SpectralMapParams>(dim);
      map.kind = kind;
      map.v = direction;
      queue_planned(storage, map, shared_bytes);
    }
  }
  auto multibind = shaped<MultibindParams>(dim);
  multibind.items = 3;
  queue_planned(storage, multibind, shared_bytes);
  for (const bool inverse : {false, true}) {
    auto packed = shaped<PackedSpectrumParams>(dim);
    packed.inverse = inverse;
    queue_planned(storage, packed, shared_bytes);
  }
}

void launch_hrr() {
  for (const Storage storage : kStorages) {
    for (int64_t dim = 1; dim <= 16384; ++dim) {
      launch_rows_of(storage, dim, 0);
      launch_rows_of(storage, dim, device_shared_bytes());
    }
    for (const int64_t dim : {1, 7, 64, 1000, 1024, 10000, 100000}) {
      for (const int64_t items : {1, 2, 8, 100, 1000, 100000}) {
        auto params = shaped<SuperpositionParams>(dim);
        params.items = items;
        queue(call_of(storage), params);
      }
    }
  }
  for (const Storage storage : kStorages) {
    auto params = shaped<QuantizeParams>(1000);
    params.storage = storage;
    queue(call_of(), params);
    for (const int64_t dim : {999, 1000}) {
      for (const int64_t count : {1, 100}) {
        DeviceCleanupParams cleanup;
        cleanup.items = 100000;
        cleanup.dim = dim;
        cleanup.count = count;
        cleanup.storage = storage;
        cleanup.is_double = storage == Storage::kDouble;
        queue(call_of(), cleanup);
        cleanup.thresholds = somewhere<void>();
        queue(call_of(), cleanup);
      }
    }
  }
  for (const SpectralMap map : kMaps) {
    auto params = shaped<LibraryBinsParams>(10000);
    params.count = 5001;
    params.kind = map;
    queue(call_of(), params);
  }
}

void launch_winners_and_caps() {
  for (const Element element : kElements) {
    for (const int64_t n : {10, 1000, 100000, 10000000}) {
      for (const int64_t rows : {int64_t{1}, kRows}) {
        WinnersParams params;
        params.rows = rows;
        params.n = params.row_stride = n;
        params.k = 5;
        params.element = element;
        queue(call_of(), params);
      }
    }
    queue(call_of(), WinnerKeysParams{somewhere<void>(), somewhere<int64_t>(), 5, element});
  }
  for (const Storage storage : kStorages) {
    for (const CapShape shape : {CapShape::kSigmoid, CapShape::kLaplace}) {
      for (const CapResult result : {CapResult::kSoft, CapResult::kJacobian}) {
        SoftCapParams params;
        params.rows = kRows;
        params.n = 1000;
        params.k = 30;
        params.storage = storage;
        params.shape = shape;
        params.result = result;
        queue(call_of(), params);
      }
    }
  }
}

DeviceGapTables gap_tables(bool two_level) {
  DeviceGapTables tables;
  tables.tables = somewhere<GapTables>();
  tables.width = kLeastWidth;
  tables.two_level = two_level;
  tables.empty = false;
  return tables;
}

// An area of n neurons with every kind of history, and one that is fixed; between them fibers of every kind.
void launch_brains(bool two_level, int64_t n) {
  DeliverLaunch deliver;
  deliver.gaps = gap_tables(two_level);
  deliver.row_count = 10;
  deliver.n = 1000;
  queue(call_of(), deliver);
  StimulusLaunch counts;
  counts.n = 1000;
  queue(call_of(), counts);

  std::vector<Area> areas(2);
  for (Area& area : areas) {
    area.n = n;
    area.k = 30;
    area.capacity = 100;
  }
  areas[0].bias = somewhere<int64_t>();
  areas[0].last_win = somewhere<int32_t>();
  // Small areas with ties by key go the way of large ones.
  areas[0].keyed_ties = n > 4096;
  areas[1].fixed = true;
  std::vector<Fiber> fibers;
  std::vector<DeviceGapTables> gaps;
  for (const bool procedural : {false, true}) {
    for (const int32_t target : {0, 1}) {
      Fiber fiber;
      fiber.source = 1 - target;
      fiber.target = target;
      fiber.factor = 1.1f;
      fiber.scale = somewhere<double>();
      fiber.sums = somewhere<int64_t>();
      fiber.connectome = procedural ? somewhere<GapTables>() : nullptr;
      fibers.push_back(fiber);
      gaps.push_back(procedural ? gap_tables(two_level) : DeviceGapTables());
    }
  }
  Stimulus stimulus;
  stimulus.factor = 1.1f;
  RoundsLaunch params;
  params.brains = 2;
  params.rounds = 2;
  params.areas = areas.data();
  params.area_count = static_cast<int64_t>(areas.size());
  params.fibers = fibers.data();
  params.gaps = gaps.data();
  params.fiber_count = static_cast<int64_t>(fibers.size());
  params.stimuli = &stimulus;
  params.stimulus_count = 1;
  params.progress = somewhere<int64_t>();
  queue(call_of(), params);
}

void launch_sinusoids() {
  // Few frequencies, and more than one launch's parameters hold.
  for (const int64_t dim : {64, 10000}) {
    const std::vector<uint64_t> numbers(static_cast<size_t>(dim));
    const TurnArrays turns{numbers.data(), numbers.data(), numbers.data()};
    for (const Storage storage : kStorages) {
      for (const bool interleaved : {false, true}) {
        TableParams table;
        table.sinusoid = shaped<SinusoidParams>(dim);
        table.sinusoid.interleaved = interleaved;
        table.table_storage = storage;
        queue(call_of(storage), table.sinusoid, turns);
        queue(call_of(storage), table.sinusoid, HeldFrequencies());
        queue(call_of(storage), table, turns);
        AngleGradientParams gradient;
        gradient.sinusoid = table.sinusoid;
        gradient.grad_storage = storage;
        queue(call_of(storage), gradient, HeldFrequencies());
        RotationParams rotation;
        rotation.x = rotation.out = somewhere<void>();
        rotation.positions = table.sinusoid.positions;
        rotation.dim = rotation.turned = dim;
        rotation.interleaved = interleaved;
        queue(call_of(storage), rotation, turns);
        queue(call_of(storage), rotation, HeldFrequencies());
      }
    }
  }
}

void launch_gradients() {
  for (const int64_t channels : {1, 3, 64}) {
    GradientParams params;
    params.batch = 2;
    params.depth = params.height = params.width = 22;
    params.channels = channels;
    for (const Storage storage : kStorages) {
      for (const GradientKind kind :
           {GradientKind::kDerivatives, GradientKind::kMagnitude, GradientKind::kTransposed}) {
        params.kind = kind;
        queue(call_of(storage), params);
      }
    }
  }
}

void launch_moments_of_all_types() {
  MomentsParams params;
  params.items = 2;
  params.places = 1000;
  params.channels = 3;
  for (const Storage storage : kStorages) {
    queue(call_of(storage), params);
  }
}

void launch_controls() {
  ControlParams params;
  params.rows = 3;
  params.sizes[0] = params.sizes[1] = params.sizes[2] = 8;
  params.maps = params.channels = 8;
  for (const Storage storage : {Storage::kFloat, Storage::kDouble}) {
    queue(call_of(storage), params);
  }
}

void launch_layers() {
  // Rows in 4 to 32 registers and in memory, or of coupled units; one sample and several.
  for (const Storage storage : {Storage::kFloat, Storage::kDouble}) {
    for (const int64_t batch : {1, 4}) {
      for (const int64_t size : {128, 256, 512, 1024, 2048}) {
        PlasticParams params;
        params.learners = 1;
        params.ticks = 1000;
        params.batch = batch;
        params.units = 800;
        params.size = size;
        CompetingParams competing;
        competing.scan = params;
        queue(call_of(storage), competing);
        for (const LearningRule rule : {LearningRule::kOja, LearningRule::kGha}) {
          params.rule = rule;
          queue(call_of(storage), params);
          PlasticBackwardParams backward;
          backward.scan = params;
          for (void* const grad_inputs : {somewhere<void>(), static_cast<void*>(nullptr)}) {
            backward.grad_inputs = grad_inputs;
            queue(call_of(storage), backward);
          }
          PlasticTangentParams tangent;
          tangent.scan = params;
          queue(call_of(storage), tangent);
        }
      }
    }
  }
}

void launch_fields() {
  launch_gradients();
  launch_moments_of_all_types();
  launch_controls();
  // One step, and several that stay in shared memory.
  for (const int64_t steps : {1, 10}) {
    for (const int64_t channels : {1, 3, 64}) {
      for (const int64_t size : {5, 22, 64}) {
        EvolveParams params;
        params.batch = 2;
        params.depth = params.height = params.width = size;
        params.channels = channels;
        for (const Storage storage : kStorages) {
          for (const Stencil stencil : {Stencil::kLaplace, Stencil::kBox}) {
            for (const double noise : {0.0, 0.1}) {
              params.stencil = stencil;
              params.noise = noise;
              queue(call_of(storage), params, EvolveNumbers(), steps);
            }
          }
        }
      }
    }
  }
}

void launch_everything() {
  launch_hrr();
  launch_sinusoids();
  launch_fields();
  launch_layers();
  launch_winners_and_caps();
  // The way of small areas, and of large ones.
  for (const int64_t n : {1000, 100000}) {
    launch_brains(false, n);
    launch_brains(true, n);
  }
  PhiloxFillParams fill;
  fill.words = 1000;
  queue(call_of(), fill);
}

}  // namespace
}  // namespace torch_hrr::kernels

int main() {
  using namespace torch_hrr;
  try {
    kernels::launch_everything();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "cuda_launches: %s\n", error.what());
    return 1;
  }
  std::printf("{\n  \"kernels\": [");
  const char* separator = "\n";
  for (const std::string& kernel : cuda_launches::registered_kernels()) {
    std::printf("%s    \"%s\"", separator, kernel.c_str());
    separator = ",\n";
  }
  std::printf("\n  ],\n  \"launches\": [");
  separator = "\n";
  for (const cuda_launches::Launch& launch : cuda_launches::launches()) {
    std::printf("%s    {\"kernel\": \"%s\", \"threads\": %d, \"shared\": %zu}", separator, launch.kernel.c_str(),
                launch.threads, launch.shared_bytes);
    separator = ",\n";
  }
  std::printf("\n  ]\n}\n");
  return 0;
}
