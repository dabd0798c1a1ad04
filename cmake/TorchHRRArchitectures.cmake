# Translates TORCH_CUDA_ARCH_LIST. Entries are those of torch, and two more words:
#
#   8.0  9.0+PTX  9.0a  10.0f    machine code for it, with +PTX its PTX too; suffixes a and f as in nvcc
#   Hopper  Ampere+Tegra+PTX     torch's names: all members; as in torch, most include PTX of the last one anyway
#   native                       the GPUs of this machine, PTX of the newest
#   release                      what wheels hold, as far as nvcc knows it: data-centre GPUs from Ampere on and desktop
#                                Blackwell; the rest of their generations run the same code, later GPUs the PTX
#
# Semicolons or blanks separate entries.

set(TORCH_HRR_RELEASE_ARCHITECTURES 8.0 9.0+PTX 10.0 12.0+PTX)

set(TORCH_HRR_NAMED_Ampere 8.0 8.6+PTX)
set(TORCH_HRR_NAMED_Ampere+Tegra 8.7)
set(TORCH_HRR_NAMED_Ada 8.9+PTX)
set(TORCH_HRR_NAMED_Hopper 9.0+PTX)
set(TORCH_HRR_NAMED_Blackwell 10.0 10.3 12.0 12.1+PTX)
set(TORCH_HRR_NAMED_Blackwell+Tegra 11.0)
set(TORCH_HRR_NAMED_Rubin 10.7+PTX)

# result = the capabilities of this machine's GPUs, such as "8.6;9.0+PTX"
function(torch_hrr_native_architectures result)
  find_program(TORCH_HRR_NVIDIA_SMI nvidia-smi NO_CACHE)
  set(capabilities "")
  if(TORCH_HRR_NVIDIA_SMI)
    execute_process(COMMAND "${TORCH_HRR_NVIDIA_SMI}" --query-gpu=compute_cap --format=csv,noheader
                    OUTPUT_VARIABLE printed RESULT_VARIABLE status ERROR_QUIET)
    if(status EQUAL 0)
      string(REGEX MATCHALL "[0-9]+[.][0-9]" capabilities "${printed}")
    endif()
  endif()
  if(NOT capabilities)
    message(FATAL_ERROR "torch_hrr: TORCH_CUDA_ARCH_LIST=native needs a GPU, and nvidia-smi finds none; name the "
                        "architectures, such as 8.0;9.0+PTX")
  endif()
  list(REMOVE_DUPLICATES capabilities)
  list(SORT capabilities COMPARE NATURAL)
  list(POP_BACK capabilities newest)
  set(${result} ${capabilities} ${newest}+PTX PARENT_SCOPE)
endfunction()

# result = CMAKE_CUDA_ARCHITECTURES for TORCH_CUDA_ARCH_LIST `text`; known: the output of nvcc --list-gpu-code.
function(torch_hrr_cuda_architectures result text known)
  set(is_known "")
  string(REGEX MATCHALL "sm_[0-9]+" is_known "${known}")
  string(REGEX REPLACE "[ \t]+" ";" entries "${text}")
  set(numbers "")
  foreach(entry IN LISTS entries)
    string(REGEX REPLACE "[+]PTX$" "" name "${entry}")
    if(entry STREQUAL "")
      continue()
    elseif(entry STREQUAL "native")
      torch_hrr_native_architectures(native)
      list(APPEND numbers ${native})
    elseif(entry STREQUAL "release")
      foreach(number IN LISTS TORCH_HRR_RELEASE_ARCHITECTURES)
        string(REGEX REPLACE "[+]PTX|[.]" "" digits "${number}")
        if("sm_${digits}" IN_LIST is_known)
          list(APPEND numbers ${number})
        endif()
      endforeach()
    elseif(DEFINED TORCH_HRR_NAMED_${name})
      list(APPEND numbers ${TORCH_HRR_NAMED_${name}})
      list(GET numbers -1 last)
      if(entry MATCHES "PTX$" AND NOT last MATCHES "PTX$")
        list(APPEND numbers "${last}+PTX")
      endif()
    elseif(entry MATCHES "^[0-9]+[.][0-9][af]?([+]PTX)?$")
      list(APPEND numbers ${entry})
    else()
      message(FATAL_ERROR "torch_hrr: TORCH_CUDA_ARCH_LIST must hold entries like 8.0, 9.0+PTX, 10.0f, Hopper, native "
                          "or release, got '${entry}'")
    endif()
  endforeach()
  # Machine code and PTX separately: 9.0 and 9.0+PTX in one list are one architecture.
  set(code "")
  set(ptx "")
  foreach(number IN LISTS numbers)
    string(REGEX MATCH "^([0-9]+)[.]([0-9])([af]?)" _ "${number}")
    set(digits "${CMAKE_MATCH_1}${CMAKE_MATCH_2}")
    set(architecture "${digits}${CMAKE_MATCH_3}")
    if(digits LESS 80)
      message(FATAL_ERROR "torch_hrr: TORCH_CUDA_ARCH_LIST asks for ${number}; the kernels need compute capability 8.0 or "
                          "later, with 99 KiB of shared memory per block")
    endif()
    if(NOT "sm_${digits}" IN_LIST is_known)
      string(REPLACE ";" ", " all "${is_known}")
      message(FATAL_ERROR "torch_hrr: TORCH_CUDA_ARCH_LIST asks for ${number}, which nvcc does not know; it knows "
                          "${all}")
    endif()
    list(APPEND code "${architecture}")
    if(number MATCHES "PTX$")
      list(APPEND ptx "${architecture}")
    endif()
  endforeach()
  if(NOT code)
    message(FATAL_ERROR "torch_hrr: TORCH_CUDA_ARCH_LIST='${text}' names no architecture that nvcc knows")
  endif()
  list(REMOVE_DUPLICATES code)
  set(architectures "")
  foreach(architecture IN LISTS code)
    if(architecture IN_LIST ptx)
      list(APPEND architectures "${architecture}")
    else()
      list(APPEND architectures "${architecture}-real")
    endif()
  endforeach()
  set(${result} "${architectures}" PARENT_SCOPE)
endfunction()
