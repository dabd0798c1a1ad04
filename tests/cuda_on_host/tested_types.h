// The types of a typed suite.
#pragma once

#include <gtest/gtest.h>

#include "tests/cuda_on_host/sanitizers.h"

namespace torch_hrr::cuda_on_host {

#if defined(KERNEL_THREAD_SANITIZER)
// Who writes what, and when, depends on no type: races show with the first.
template <typename First, typename... Others>
using TestedTypes = testing::Types<First>;
#else
template <typename... All>
using TestedTypes = testing::Types<All...>;
#endif

}  // namespace torch_hrr::cuda_on_host
