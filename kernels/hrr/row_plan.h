// How an operator transforms its rows, decided once a call: csrc asks, and the parameters of kernels carry the answer.
//
// It depends on the operator, the length and type of rows, and the instruction set or device: on nothing of their
// batch, so that a row's bits do not either.
#pragma once

#include <cstdint>

#include "kernels/isa.h"
#include "kernels/storage.h"

namespace torch_hrr::kernels {

// What an operator needs of its rows, which decides the paths it has.
enum class RowFamily : int32_t {
  kProduct,     // bind, unbind, bind_normalize
  kGradient,    // of these
  kProductSum,  // bind_superpose
  kMap,         // of bins: unitary, inverse, ...
  kPower,       // of bins, which costs more than the transforms around it
  kMultibind,
  kMultibindBackward,
  kSpectrum,         // spectrum, from_spectrum
  kSpectrumProduct,  // bind_spectrum, unbind_spectrum
};

// How a row is transformed by itself.
enum class RowPath : int32_t {
  kLibrary,      // by no kernel: by a library's FFT, or by operators that have kernels
  kHalf,         // as D/2 complex numbers
  kPadded,       // the same after zeros for the linear convolution, which is folded at the end
  kMatrix,       // as a matrix with an odd number of rows
  kMixed,        // as D or D/2 complex numbers of any small factors, in a block's shared memory on a GPU
  kChirp,        // by Bluestein's algorithm
  kHalfChirp,    // the same of D/2 complex numbers
  kDoubleChirp,  // the same in double; on a GPU the rows are in double too
};

// Which rows are transformed side by side on the CPU; those that are left go by themselves.
enum class RowGroup : int32_t {
  kAlone,
  kLanes,        // a row in each lane
  kMatrixLanes,  // the same with the bits of kMatrix
  kRegisters,    // as many rows as 16 registers hold
};

struct RowPlan {
  RowPath path = RowPath::kLibrary;
  RowGroup group = RowGroup::kAlone;
  int64_t length = 0;  // numbers of the transform: D, the padded ones, or those of Bluestein's convolution
  // On a GPU, tables that the call brings: the twiddles of transforms of powers of two, and those of a length.
  const void* twiddles = nullptr;
  const void* table = nullptr;
};

// The family of rows that the parameters of a kernel describe; SpectralMapParams have two.
template <typename Params>
constexpr RowFamily family_of(const Params&) {
  return Params::kFamily;
}
// The factors of a row that is a product of many.
template <typename Params>
constexpr int64_t items_of(const Params& params) {
  if constexpr (requires { params.items; }) {
    return params.items;
  } else {
    return 1;
  }
}

// Lanes of the vectors that rows are transformed in on the CPU: kLanes of their compute type.
constexpr int row_lanes(Isa isa, Storage storage) {
  const int lanes = vector_bytes(isa) / (storage == Storage::kDouble ? 8 : 4);
  return lanes < 4 ? 4 : lanes;
}

// On the CPU with the instruction set in use; items as of items_of.
RowPlan cpu_row_plan(RowFamily family, Storage storage, int64_t dim, int64_t items = 1);

// On a GPU whose blocks may have so much shared memory.
RowPlan cuda_row_plan(RowFamily family, Storage storage, int64_t dim, int64_t shared_bytes);

}  // namespace torch_hrr::kernels
