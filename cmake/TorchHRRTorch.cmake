# Finds the torch package to build against. Sets target torch_hrr_libtorch, TORCH_HRR_TORCH_MINOR,
# TORCH_HEADERONLY_INCLUDE and, through TorchHRRCudaChoice, TORCH_HRR_WITH_CUDA.
#
# find_package(Torch) is not used: with a CUDA torch it enables CUDA for every consumer and demands an architecture.
if(NOT TORCH_HRR_TORCH_ROOT)
  find_program(TORCH_HRR_PYTHON NAMES python3 python REQUIRED)
  execute_process(
    COMMAND "${TORCH_HRR_PYTHON}" -c "import importlib.util as u; print(u.find_spec('torch').submodule_search_locations[0])"
    OUTPUT_VARIABLE TORCH_HRR_TORCH_ROOT OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET)
endif()
if(NOT EXISTS "${TORCH_HRR_TORCH_ROOT}/include/torch/library.h")
  message(FATAL_ERROR "torch_hrr: no torch package found (python3 -m pip install 'torch>=2.11,<2.16', "
                      "or pass -DTORCH_HRR_TORCH_ROOT=<site-packages>/torch)")
endif()

file(STRINGS "${TORCH_HRR_TORCH_ROOT}/version.py" torch_version_lines REGEX "^(__version__|cuda)")
string(REGEX MATCH "__version__ = '([^']+)'" _ "${torch_version_lines}")
set(TORCH_HRR_TORCH_VERSION "${CMAKE_MATCH_1}")
string(REGEX MATCH "^[0-9]+[.][0-9]+" TORCH_HRR_TORCH_MINOR "${TORCH_HRR_TORCH_VERSION}")
string(REGEX MATCH "cuda[^=]*= '([0-9.]+)'" _ "${torch_version_lines}")
set(TORCH_HRR_TORCH_CUDA "${CMAKE_MATCH_1}")
message(STATUS "torch ${TORCH_HRR_TORCH_VERSION}, CUDA '${TORCH_HRR_TORCH_CUDA}'")

set(TORCH_HEADERONLY_INCLUDE "${TORCH_HRR_TORCH_ROOT}/include")
file(GLOB TORCH_HRR_NVIDIA_LIBS "${TORCH_HRR_TORCH_ROOT}/../nvidia/*/lib")

add_library(torch_hrr_libtorch INTERFACE)
target_include_directories(torch_hrr_libtorch SYSTEM INTERFACE
                           "${TORCH_HRR_TORCH_ROOT}/include" "${TORCH_HRR_TORCH_ROOT}/include/torch/csrc/api/include")
target_link_libraries(torch_hrr_libtorch
                      INTERFACE "${TORCH_HRR_TORCH_ROOT}/lib/libtorch_cpu${CMAKE_SHARED_LIBRARY_SUFFIX}"
                                "${TORCH_HRR_TORCH_ROOT}/lib/libc10${CMAKE_SHARED_LIBRARY_SUFFIX}")
if(NOT APPLE)
  # libtorch_cpu needs the wheel's own CUDA libraries; without these paths the linker may find those of an older toolkit.
  foreach(directory IN LISTS TORCH_HRR_NVIDIA_LIBS)
    target_link_options(torch_hrr_libtorch INTERFACE "LINKER:-rpath-link,${directory}")
  endforeach()
  target_link_options(torch_hrr_libtorch INTERFACE "LINKER:-rpath-link,${TORCH_HRR_TORCH_ROOT}/lib")
endif()

include(TorchHRRCudaChoice)
