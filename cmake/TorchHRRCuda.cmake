# Adds the CUDA kernels and their bindings to target torch_hrr.
include(TorchHRRArchitectures)
execute_process(COMMAND "${TORCH_HRR_NVCC}" --list-gpu-code OUTPUT_VARIABLE known_architectures)
torch_hrr_cuda_architectures(cuda_architectures "${TORCH_HRR_CUDA_ARCHITECTURES}" "${known_architectures}")
message(STATUS "torch_hrr: CUDA architectures ${cuda_architectures}")

set(CMAKE_CUDA_COMPILER "${TORCH_HRR_NVCC}")
# Set on the target below: older CMakes refuse 90a and 100f here, but not there.
set(CMAKE_CUDA_ARCHITECTURES OFF)
enable_language(CUDA)
# CMake 3.25 does not know that nvcc 13 has C++20.
if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
endif()
find_package(CUDAToolkit REQUIRED)

file(GLOB TORCH_HRR_CUDA_SOURCES CONFIGURE_DEPENDS kernels/*/*.cu)
add_library(hrr_cuda_kernels OBJECT ${TORCH_HRR_CUDA_SOURCES})
set_target_properties(hrr_cuda_kernels PROPERTIES CUDA_STANDARD 20 CUDA_STANDARD_REQUIRED ON
                                                  CUDA_ARCHITECTURES "${cuda_architectures}")
target_include_directories(hrr_cuda_kernels PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}")
target_include_directories(hrr_cuda_kernels SYSTEM PRIVATE "${TORCH_HEADERONLY_INCLUDE}")
# No contraction, as on the CPU.
target_compile_options(hrr_cuda_kernels PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-fmad=false --expt-relaxed-constexpr -Xfatbin=-compress-all
                                                -Xcompiler=-fvisibility=hidden>)

file(GLOB TORCH_HRR_CUDA_BINDINGS CONFIGURE_DEPENDS csrc/cuda/*.cpp csrc/*/cuda/*.cpp)
target_sources(torch_hrr PRIVATE ${TORCH_HRR_CUDA_BINDINGS} $<TARGET_OBJECTS:hrr_cuda_kernels>)
target_include_directories(torch_hrr SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
target_link_libraries(torch_hrr PRIVATE "${TORCH_HRR_TORCH_ROOT}/lib/libc10_cuda.so" CUDA::cudart)
target_compile_definitions(torch_hrr PRIVATE TORCH_HRR_WITH_CUDA)

# Prints what every kernel is launched with, for bench/tools/kernel_resources.py. Its own CUDA runtime, which only records,
# replaces cudart.
add_executable(cuda_launches tests/cuda_launches/main.cpp tests/cuda_launches/cuda_runtime.cpp
                             $<TARGET_OBJECTS:hrr_cuda_kernels>)
set_target_properties(cuda_launches PROPERTIES LINKER_LANGUAGE CXX CUDA_RUNTIME_LIBRARY None)
# What decides which kernels take a length.
target_link_libraries(cuda_launches PRIVATE hrr_kernels)
target_compile_options(cuda_launches PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${TORCH_HRR_WARNINGS}>)
target_include_directories(cuda_launches PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}")
target_include_directories(cuda_launches SYSTEM PRIVATE "${TORCH_HEADERONLY_INCLUDE}" ${CUDAToolkit_INCLUDE_DIRS})

# The path of the wheels' CUDA runtime, beside torch: in a program without Python, torch may not have loaded it yet.
get_target_property(torch_hrr_rpath torch_hrr INSTALL_RPATH)
file(GLOB torch_hrr_cudart RELATIVE "${TORCH_HRR_TORCH_ROOT}/lib" "${TORCH_HRR_TORCH_ROOT}/../nvidia/*/lib/libcudart.so*")
list(GET torch_hrr_rpath 0 torch_hrr_torch_libraries)
foreach(cudart IN LISTS torch_hrr_cudart)
  get_filename_component(directory "${cudart}" DIRECTORY)
  list(APPEND torch_hrr_rpath "${torch_hrr_torch_libraries}/${directory}")
endforeach()
list(REMOVE_DUPLICATES torch_hrr_rpath)
set_target_properties(torch_hrr PROPERTIES INSTALL_RPATH "${torch_hrr_rpath}")
