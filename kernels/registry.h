// Finds the CPU kernels of the instruction set chosen for this process.
//
// A table is a plain struct of function pointers. CMake finds files named *.isa.cpp and compiles each once per
// instruction set; the last lines of such a file register its tables:
//   KERNEL_REGISTER(ConnectomeKernels, {deliver, match, stimulus_counts})
//   KERNEL_REGISTER_BY_STORAGE(RowKernel<BindParams>, kBind)   // kBind<S>: one table per storage type
// Callers write kernel_table<ConnectomeKernels>().match(...), kernel_table<RowKernel<BindParams>>(storage).run(...).
// A table that was never registered is an undefined symbol at link time.
#pragma once

#include <cstdint>

#include "kernels/isa.h"
#include "kernels/storage.h"

namespace torch_hrr::kernels {

// The usual table: a kernel that computes output rows [begin, end) from its parameters alone.
template <typename Params>
struct RowKernel {
  // The cost of a row, in elements read and written: decides how many rows form a thread's chunk.
  int64_t (*elements_per_row)(const Params&);
  // Bytes of 64-byte aligned memory for run.
  int64_t (*scratch)(const Params&);
  void (*run)(const Params&, int64_t begin, int64_t end, void* scratch);
};

// One table per storage type, in the order of Storage.
template <typename Table>
struct ByStorage {
  Table tables[4];
};

#if defined(KERNEL_ISA)

inline namespace KERNEL_ISA {
// Specialised for every table. Full specialisations are ordinary functions, which the linker never merges.
template <typename Table>
const Table& registered();
}  // namespace KERNEL_ISA

// Use both between KERNEL_ISA_BEGIN and KERNEL_ISA_END.
#define KERNEL_REGISTER(Table, ...)                   \
  template <>                                         \
  const Table& registered<Table>() {                  \
    static constexpr Table kRegistered = __VA_ARGS__; \
    return kRegistered;                               \
  }
#define KERNEL_REGISTER_BY_STORAGE(Table, entries) \
  KERNEL_REGISTER(ByStorage<Table>, {{entries<float>, entries<double>, entries<Half>, entries<BFloat16>}})

#else

namespace scalar {
template <typename Table>
const Table& registered();
}
namespace avx2 {
template <typename Table>
const Table& registered();
}
namespace avx512 {
template <typename Table>
const Table& registered();
}

// active_isa() names none that this build lacks.
template <typename Table>
const Table& registered_for([[maybe_unused]] Isa isa) {
#if defined(KERNEL_HAS_avx512)
  if (isa == Isa::kAvx512) {
    return avx512::registered<Table>();
  }
#endif
#if defined(KERNEL_HAS_avx2)
  if (isa == Isa::kAvx2) {
    return avx2::registered<Table>();
  }
#endif
  return scalar::registered<Table>();
}

template <typename Table>
const Table& kernel_table() {
  static const Table& table = registered_for<Table>(active_isa());
  return table;
}
template <typename Table>
const Table& kernel_table(Storage storage) {
  return kernel_table<ByStorage<Table> >().tables[static_cast<int>(storage)];
}

#endif

}  // namespace torch_hrr::kernels
