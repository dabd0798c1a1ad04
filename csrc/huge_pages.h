// Memory in large pages, of which it takes few to fill it.
#pragma once

#include <cstddef>

namespace torch_hrr {

// Asks for large pages where memory that has not been touched holds whole ones: a hint, which may be refused.
void prefer_huge_pages(const void* memory, size_t bytes);

}  // namespace torch_hrr
