// Memory that an operator writes.
#pragma once

#include "csrc/checks.h"

namespace torch_hrr {

// Checks that none of the first `written` tensors shares memory with itself or any other; absent ones share none.
void check_overlap(const char* op, c10::ArrayRef<Argument> arguments, size_t written);

}  // namespace torch_hrr
