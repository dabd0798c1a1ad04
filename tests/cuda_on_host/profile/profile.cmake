# cuda_on_host_profile counts what the kernels ask of a GPU's memory and writes it as JSON; cuda_on_host_tests_profile
# tests the counter.
#
# Kernels are compiled by clang with the calls of ThreadSanitizer and of block coverage, which a runtime of ours takes
# (tsan_abi.cpp). The passes are chosen so that loads and stores are those of nvcc: adjacent fields of a structure are
# joined to one access again, but no loop is vectorised or unrolled, and no two stores of different branches are merged.
set(CUDA_ON_HOST_PROFILE AUTO CACHE STRING "Count what the CUDA kernels ask of memory: AUTO, ON or OFF")
find_program(CUDA_ON_HOST_CLANG clang++-14)
find_program(CUDA_ON_HOST_OPT opt-14)
if(NOT CUDA_ON_HOST_PROFILE)
  return()
elseif(NOT CUDA_ON_HOST_CLANG OR NOT CUDA_ON_HOST_OPT)
  if(CUDA_ON_HOST_PROFILE STREQUAL "AUTO")
    message(STATUS "cuda_on_host_profile is left out: it needs clang++-14 and opt-14 (apt-get install clang-14 llvm-14)")
    return()
  endif()
  message(FATAL_ERROR "CUDA_ON_HOST_PROFILE needs clang++-14 and opt-14: apt-get install clang-14 llvm-14")
endif()

set(profile_passes
    "default<O2>,function(load-store-vectorizer,early-cse),module(tsan-module),function(tsan),module(sancov-module)")
# Accesses that a type does not align are slow to this processor, so that nothing joins them.
set(profile_compile_flags
    -std=c++20 -O2 -g1 -mtune=core2 -ffp-contract=off -fno-strict-aliasing -fno-omit-frame-pointer -fsanitize=thread
    -Xclang -disable-llvm-passes -emit-llvm -Wall -Wextra -Wno-unknown-pragmas -Wno-psabi "-I${CUDA_ON_HOST_ROOT}")
if(TORCH_HRR_WERROR)
  list(APPEND profile_compile_flags -Werror)
endif()
if(TORCH_HEADERONLY_INCLUDE)
  list(APPEND profile_compile_flags -isystem "${TORCH_HEADERONLY_INCLUDE}")
endif()
set(profile_opt_flags
    -vectorize-loops=0 -vectorize-slp=0 -unroll-runtime=0 -simplifycfg-sink-common=0
    -tsan-instrument-read-before-write=1 -sanitizer-coverage-level=2 -sanitizer-coverage-trace-pc-guard
    -sanitizer-coverage-prune-blocks=0)
set(profile_renames)
foreach(function memcpy memmove memset)
  list(APPEND profile_renames --redefine-sym ${function}=profile_${function})
endforeach()

# The instrumented object of <name>.cpp.
function(add_profiled_object name result)
  set(source "${CMAKE_CURRENT_SOURCE_DIR}/profile/${name}.cpp")
  set(base "${CMAKE_CURRENT_BINARY_DIR}/profile/${name}")
  add_custom_command(
    OUTPUT "${base}.o"
    COMMAND ${CUDA_ON_HOST_CLANG} ${profile_compile_flags} -MD -MF "${base}.d" -MT "${base}.o" -c "${source}" -o "${base}.bc"
    COMMAND ${CUDA_ON_HOST_OPT} "-passes=${profile_passes}" ${profile_opt_flags} "${base}.bc" -o "${base}.opt.bc"
    COMMAND ${CUDA_ON_HOST_CLANG} -O2 -Xclang -disable-llvm-passes -c "${base}.opt.bc" -o "${base}.o"
    COMMAND ${CMAKE_OBJCOPY} ${profile_renames} "${base}.o"
    DEPENDS "${source}"
    DEPFILE "${base}.d"
    COMMENT "Building the profiled kernels of ${name}.cpp"
    VERBATIM)
  set(${result} "${base}.o" PARENT_SCOPE)
endfunction()

file(MAKE_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}/profile")
set(profile_runtime ${CUDA_ON_HOST_RUNTIME})
foreach(file control_flow recorder tsan_abi)
  list(APPEND profile_runtime "${CMAKE_CURRENT_SOURCE_DIR}/profile/${file}.cpp")
endforeach()
add_library(cuda_on_host_profile_runtime OBJECT ${profile_runtime})
file(GLOB profiled_shapes CONFIGURE_DEPENDS "${CMAKE_CURRENT_SOURCE_DIR}/profile/shapes_*.cpp")
set(profiled_objects)
foreach(file ${profiled_shapes})
  get_filename_component(name "${file}" NAME_WE)
  add_profiled_object(${name} object)
  list(APPEND profiled_objects "${object}")
endforeach()
add_executable(cuda_on_host_profile "${CMAKE_CURRENT_SOURCE_DIR}/profile/main.cpp" ${profiled_objects}
                                    $<TARGET_OBJECTS:cuda_on_host_profile_runtime>)
target_link_libraries(cuda_on_host_profile PRIVATE ${CUDA_ON_HOST_LIBRARIES} Threads::Threads ${CMAKE_DL_LIBS})
add_profiled_object(test_counter object)
add_executable(cuda_on_host_tests_profile "${object}" $<TARGET_OBJECTS:cuda_on_host_profile_runtime>)
target_link_libraries(cuda_on_host_tests_profile PRIVATE GTest::gtest GTest::gtest_main Threads::Threads ${CMAKE_DL_LIBS})
foreach(target cuda_on_host_profile_runtime cuda_on_host_profile cuda_on_host_tests_profile)
  set_target_properties(${target} PROPERTIES LINKER_LANGUAGE CXX ENABLE_EXPORTS ON)
  target_compile_features(${target} PRIVATE cxx_std_20)
  target_include_directories(${target} PRIVATE "${CUDA_ON_HOST_ROOT}")
  if(TORCH_HEADERONLY_INCLUDE)
    target_include_directories(${target} SYSTEM PRIVATE "${TORCH_HEADERONLY_INCLUDE}")
  endif()
  target_compile_options(${target} PRIVATE -Wall -Wextra $<$<BOOL:${TORCH_HRR_WERROR}>:-Werror> -Wno-unknown-pragmas -O2 -g1)
endforeach()
add_gtest_shards(cuda_on_host_tests_profile cuda_on_host_tests_profile 1)
