# CUDA kernels and their bindings, added to target torch_hrr.
#
# TORCH_HRR_CUDA_ARCHITECTURES ("8.0;9.0+PTX") becomes CMAKE_CUDA_ARCHITECTURES ("80-real;90"): real code for each, PTX
# for +PTX.
string(REPLACE " " ";" cuda_arch_list "${TORCH_HRR_CUDA_ARCHITECTURES}")
set(CMAKE_CUDA_ARCHITECTURES "")
foreach(arch IN LISTS cuda_arch_list)
  if(NOT arch MATCHES "^([0-9]+)\\.([0-9]+a?)(\\+PTX)?$")
    message(FATAL_ERROR "torch_hrr: TORCH_CUDA_ARCH_LIST must hold entries like 8.0 or 9.0+PTX, got '${arch}'")
  endif()
  if(CMAKE_MATCH_3)
    list(APPEND CMAKE_CUDA_ARCHITECTURES "${CMAKE_MATCH_1}${CMAKE_MATCH_2}")
  else()
    list(APPEND CMAKE_CUDA_ARCHITECTURES "${CMAKE_MATCH_1}${CMAKE_MATCH_2}-real")
  endif()
endforeach()

set(CMAKE_CUDA_COMPILER "${TORCH_HRR_NVCC}")
enable_language(CUDA)
# CMake 3.25 does not know that nvcc 13 has C++20.
if(NOT DEFINED CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
endif()
find_package(CUDAToolkit REQUIRED)

file(GLOB TORCH_HRR_CUDA_SOURCES CONFIGURE_DEPENDS kernels/*/*.cu)
add_library(hrr_cuda_kernels OBJECT ${TORCH_HRR_CUDA_SOURCES})
set_target_properties(hrr_cuda_kernels PROPERTIES CUDA_STANDARD 20 CUDA_STANDARD_REQUIRED ON)
target_include_directories(hrr_cuda_kernels PRIVATE "${CMAKE_CURRENT_SOURCE_DIR}")
target_include_directories(hrr_cuda_kernels SYSTEM PRIVATE "${TORCH_HEADERONLY_INCLUDE}")
# Contraction off, as on the CPU.
target_compile_options(hrr_cuda_kernels PRIVATE $<$<COMPILE_LANGUAGE:CUDA>:-fmad=false --expt-relaxed-constexpr -Xfatbin=-compress-all
                                                -Xcompiler=-fvisibility=hidden>)

file(GLOB TORCH_HRR_CUDA_BINDINGS CONFIGURE_DEPENDS csrc/*/cuda/*.cpp)
target_sources(torch_hrr PRIVATE ${TORCH_HRR_CUDA_BINDINGS} $<TARGET_OBJECTS:hrr_cuda_kernels>)
target_include_directories(torch_hrr SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS})
target_link_libraries(torch_hrr PRIVATE "${TORCH_HRR_TORCH_ROOT}/lib/libc10_cuda.so" CUDA::cudart)
target_compile_definitions(torch_hrr PRIVATE TORCH_HRR_WITH_CUDA)

# The wheels' CUDA runtime, beside torch: a program without Python loads this library before torch has loaded it.
get_target_property(torch_hrr_rpath torch_hrr INSTALL_RPATH)
file(GLOB torch_hrr_cudart RELATIVE "${TORCH_HRR_TORCH_ROOT}/lib" "${TORCH_HRR_TORCH_ROOT}/../nvidia/*/lib/libcudart.so*")
list(GET torch_hrr_rpath 0 torch_hrr_torch_libraries)
foreach(cudart IN LISTS torch_hrr_cudart)
  get_filename_component(directory "${cudart}" DIRECTORY)
  list(APPEND torch_hrr_rpath "${torch_hrr_torch_libraries}/${directory}")
endforeach()
list(REMOVE_DUPLICATES torch_hrr_rpath)
set_target_properties(torch_hrr PROPERTIES INSTALL_RPATH "${torch_hrr_rpath}")
