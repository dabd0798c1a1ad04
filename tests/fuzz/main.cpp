// libFuzzer's entry; built without it, a program that calls every file of a folder and copies of it with other bytes.
#include <ATen/Parallel.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "operators.h"

#if defined(TORCH_HRR_LIBFUZZER)

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  at::set_num_threads(1);
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const torch_hrr::fuzz::Outcome outcome = torch_hrr::fuzz::call(data, size);
  if (!outcome.fault.empty()) {
    std::fprintf(stderr, "FAULT %s: %s (%s) %s\n", outcome.call.c_str(), outcome.fault.c_str(), outcome.error.c_str(),
                 outcome.arguments.c_str());
    std::abort();
  }
  return 0;
}

#else

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: %s FOLDER COPIES\n", argv[0]);
    return 2;
  }
  at::set_num_threads(1);
  struct Count {
    long returned = 0;
    long raised = 0;
  };
  std::map<std::string, Count> counts;
  long faults = 0;
  std::mt19937 random(0);
  // Sorted, so that what happens once happens again.
  const std::filesystem::directory_iterator folder(argv[1]);
  for (const auto& path : std::set<std::filesystem::path>(begin(folder), end(folder))) {
    std::ifstream file(path, std::ios::binary);
    const std::vector<char> seed((std::istreambuf_iterator<char>(file)), {});
    for (int copy = 0; copy <= std::atoi(argv[2]); ++copy) {
      std::vector<uint8_t> bytes(seed.begin(), seed.end());
      // The operator's byte stays.
      for (int left = copy == 0 || bytes.size() < 2 ? 0 : 1 + copy % 3; left > 0; --left) {
        bytes[1 + random() % (bytes.size() - 1)] = static_cast<uint8_t>(random());
      }
      const torch_hrr::fuzz::Outcome outcome = torch_hrr::fuzz::call(bytes.data(), bytes.size());
      Count& count = counts[outcome.call];
      ++(outcome.error.empty() ? count.returned : count.raised);
      if (!outcome.fault.empty()) {
        ++faults;
        std::printf("FAULT %s %s copy %d: %s (%s) %s\n", outcome.call.c_str(), path.c_str(), copy,
                    outcome.fault.c_str(), outcome.error.c_str(), outcome.arguments.c_str());
      }
    }
  }
  for (const auto& [name, count] : counts) {
    std::printf("%ld returned %ld raised %s\n", count.returned, count.raised, name.c_str());
  }
  return faults == 0 ? 0 : 1;
}

#endif
