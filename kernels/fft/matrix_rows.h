// Numbers of rows of a matrix, known at compile time.
#pragma once

#include <cstdint>
#include <type_traits>

#include "kernels/macros.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN

// body(std::integral_constant) for the numbers of rows that matrix_rows gives
template <typename Body>
void with_rows(int64_t rows, const Body& body) {
  switch (rows) {
    case 3:
      return body(std::integral_constant<int, 3>());
    case 5:
      return body(std::integral_constant<int, 5>());
    case 7:
      return body(std::integral_constant<int, 7>());
    case 9:
      return body(std::integral_constant<int, 9>());
    case 11:
      return body(std::integral_constant<int, 11>());
    case 13:
      return body(std::integral_constant<int, 13>());
    case 15:
      return body(std::integral_constant<int, 15>());
    case 21:
      return body(std::integral_constant<int, 21>());
    case 25:
      return body(std::integral_constant<int, 25>());
    case 35:
      return body(std::integral_constant<int, 35>());
    case 49:
      return body(std::integral_constant<int, 49>());
    default:
      return body(std::integral_constant<int, 27>());
  }
}

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
