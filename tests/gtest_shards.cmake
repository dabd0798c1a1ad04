# What most test files include: precompiled, as reading them takes longer than compiling a short file.
set(gtest_headers <gtest/gtest.h> <algorithm> <functional> <random> <string> <vector>)

# Runs a GoogleTest program in a few processes: one a test would spend more time on starting than on testing.
#
# add_gtest_shards(<name> <program> <shards> [ENVIRONMENT <variable>=<value>...]) adds the tests <name>.0, <name>.1, ...
function(add_gtest_shards name program shards)
  cmake_parse_arguments(ARG "" "" "ENVIRONMENT" ${ARGN})
  if(CMAKE_CROSSCOMPILING)
    # An emulator takes some twenty times as long.
    math(EXPR shards "${shards} * 8")
  endif()
  math(EXPR last "${shards} - 1")
  foreach(shard RANGE ${last})
    # The times of single tests, which tests/report.py prints.
    set(times "${CMAKE_BINARY_DIR}/reports/cpp/${name}.${shard}.xml")
    add_test(NAME ${name}.${shard} COMMAND ${program} --gtest_brief=1 --gtest_output=xml:${times})
    set_tests_properties(
      ${name}.${shard} PROPERTIES TIMEOUT 600 ENVIRONMENT "GTEST_TOTAL_SHARDS=${shards};GTEST_SHARD_INDEX=${shard};${ARG_ENVIRONMENT}")
  endforeach()
endfunction()
