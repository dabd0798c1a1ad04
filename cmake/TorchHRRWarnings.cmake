# Warnings are errors in CI (TORCH_HRR_WERROR), never in a user's build with another compiler.
option(TORCH_HRR_WERROR "Treat warnings as errors" OFF)
set(TORCH_HRR_WARNINGS -Wall -Wextra)
if(TORCH_HRR_WERROR)
  list(APPEND TORCH_HRR_WARNINGS -Werror)
endif()
