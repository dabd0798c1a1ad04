// The operators and shapes that are counted: each shapes_*.cpp adds its system's.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "tests/cuda_on_host/profile/recorder.h"

namespace torch_hrr::cuda_on_host::profile {

void profile_hrr(std::vector<Profile>& all);
void profile_hrr_spectra(std::vector<Profile>& all);
void profile_hrr_bins(std::vector<Profile>& all);
void profile_hrr_mixed(std::vector<Profile>& all);
void profile_assembly(std::vector<Profile>& all);
void profile_encoding(std::vector<Profile>& all);
void profile_field(std::vector<Profile>& all);
void profile_hierarchy(std::vector<Profile>& all);

// Whether the operator was asked for.
bool is_wanted(const std::string& op);

struct NamedArray {
  std::string name;
  const void* address;
  Role role = Role::kArgument;
};

template <typename Launches>
void profile(std::vector<Profile>& all, const std::string& op, const std::string& shape,
             const std::vector<NamedArray>& arrays, const Launches& launches) {
  if (!is_wanted(op)) {
    return;
  }
  Recorder& recorder = Recorder::instance();
  recorder.start(op, shape);
  for (const NamedArray& array : arrays) {
    recorder.name(array.name, array.address, array.role);
  }
  launches();
  all.push_back(recorder.finish());
}

// "64x1024"
template <typename... Sizes>
std::string shape_of(int64_t first, Sizes... others) {
  return (std::to_string(first) + ... + ("x" + std::to_string(others)));
}

inline std::vector<float> normal_elements(int64_t count, unsigned seed) {
  std::mt19937 generator(seed);
  std::normal_distribution<float> normal;
  std::vector<float> elements(static_cast<std::size_t>(count));
  for (float& element : elements) {
    element = normal(generator);
  }
  return elements;
}

}  // namespace torch_hrr::cuda_on_host::profile
