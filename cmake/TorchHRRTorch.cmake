# Finds the torch package to build against: target torch_hrr_libtorch, TORCH_HEADERONLY_INCLUDE, TORCH_HRR_WITH_CUDA.
#
# find_package(Torch) is not used: on a CUDA torch it enables CUDA for every consumer and asks for a GPU's architecture.
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
string(REGEX MATCH "cuda[^=]*= '([0-9.]+)'" _ "${torch_version_lines}")
set(TORCH_HRR_TORCH_CUDA "${CMAKE_MATCH_1}")
message(STATUS "torch ${TORCH_HRR_TORCH_VERSION}, CUDA '${TORCH_HRR_TORCH_CUDA}'")

set(TORCH_HEADERONLY_INCLUDE "${TORCH_HRR_TORCH_ROOT}/include")
file(GLOB TORCH_HRR_NVIDIA_LIBS "${TORCH_HRR_TORCH_ROOT}/../nvidia/*/lib")

add_library(torch_hrr_libtorch INTERFACE)
target_include_directories(torch_hrr_libtorch SYSTEM INTERFACE
                           "${TORCH_HRR_TORCH_ROOT}/include" "${TORCH_HRR_TORCH_ROOT}/include/torch/csrc/api/include")
target_link_libraries(torch_hrr_libtorch INTERFACE "${TORCH_HRR_TORCH_ROOT}/lib/libtorch_cpu.so"
                                                   "${TORCH_HRR_TORCH_ROOT}/lib/libc10.so")
# libtorch_cpu needs the wheel's own CUDA libraries; without these paths the linker may find an older toolkit's.
foreach(directory IN LISTS TORCH_HRR_NVIDIA_LIBS)
  target_link_options(torch_hrr_libtorch INTERFACE "LINKER:-rpath-link,${directory}")
endforeach()
target_link_options(torch_hrr_libtorch INTERFACE "LINKER:-rpath-link,${TORCH_HRR_TORCH_ROOT}/lib")

if(NOT TORCH_HRR_CUDA MATCHES "^(0|1|AUTO)$")
  message(FATAL_ERROR "torch_hrr: TORCH_HRR_CUDA must be 0, 1 or AUTO, got '${TORCH_HRR_CUDA}'")
endif()
set(TORCH_HRR_WITH_CUDA OFF)
set(TORCH_HRR_CUDA_VERSION "none")
if(NOT TORCH_HRR_CUDA STREQUAL "0")
  find_program(TORCH_HRR_NVCC nvcc HINTS ENV CUDA_HOME PATHS /usr/local/cuda PATH_SUFFIXES bin)
  set(nvcc_release "none")
  if(TORCH_HRR_NVCC)
    execute_process(COMMAND "${TORCH_HRR_NVCC}" --version OUTPUT_VARIABLE nvcc_version)
    string(REGEX MATCH "release ([0-9.]+)" _ "${nvcc_version}")
    set(nvcc_release "${CMAKE_MATCH_1}")
  endif()
  # Toolkit and torch may differ in their minor version, not in their major one.
  string(REGEX MATCH "^[0-9]+" nvcc_major "${nvcc_release}")
  string(REGEX MATCH "^[0-9]+" torch_cuda_major "${TORCH_HRR_TORCH_CUDA}")
  if(nvcc_major AND nvcc_major STREQUAL torch_cuda_major)
    set(TORCH_HRR_WITH_CUDA ON)
    set(TORCH_HRR_CUDA_VERSION "${nvcc_release}")
    message(STATUS "torch_hrr: with CUDA, nvcc ${nvcc_release}")
  else()
    set(reason "nvcc and torch must have CUDA of one major version: nvcc has ${nvcc_release}, torch '${TORCH_HRR_TORCH_CUDA}'")
    if(TORCH_HRR_CUDA STREQUAL "1")
      message(FATAL_ERROR "torch_hrr: TORCH_HRR_CUDA=1: ${reason}")
    endif()
    message(STATUS "torch_hrr: CPU only: ${reason}")
  endif()
endif()
