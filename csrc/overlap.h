// Memory that an operator writes.
#pragma once

#include "csrc/checks.h"

namespace torch_hrr {

// Checks that `written` shares no memory with the inputs or itself.
void check_overlap(const char* op, const Argument& written, c10::ArrayRef<Argument> inputs);

}  // namespace torch_hrr
