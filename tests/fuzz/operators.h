// Any bytes as a call of an operator, and what must hold for every call.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace torch_hrr::fuzz {

struct Outcome {
  std::string call;  // the operator's name, empty if the bytes describe tensors that cannot be made
  std::string arguments;
  std::string error;  // what the operator raised, empty if it returned
  std::string fault;  // what must not be, empty if nothing
};

// Calls the operator that the bytes name. tests/fuzz/corpus.py writes the same format.
//
//   u8 operator, of all that are registered in alphabetical order
//   u8 derivative: 0 none, 1 reverse, 2 twice, 3 forward
//   then every argument of its schema:
//   Tensor    u8 layout, u8 dtype, u8 rank, u8 a dimension (from 240 on in kSizes), u8 values, then what these need
//   Tensor?   u8, even if absent, then the tensor
//   int       8 bytes      float  8 bytes      bool  u8      str  u8 length and characters
//   int?, ScalarType?      u8, even if absent, then an int
//   lists     u8 length, then the elements
//
// Missing bytes are zero. The call must
//   * return, or raise one of torch's errors whose message starts with the operator's name;
//   * give the same bits when it is repeated, and raise the same error;
//   * write only into arguments that its schema marks, and into nothing when it raises;
//   * return on Meta whatever it returns on the CPU, with the same sizes and dtypes.
Outcome call(const uint8_t* data, size_t size);

}  // namespace torch_hrr::fuzz
