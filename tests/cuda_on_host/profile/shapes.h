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
void profile_assembly(std::vector<Profile>& all);

// Whether the operator was asked for.
bool is_wanted(const std::string& op);

template <typename Arrays, typename Launches>
void profile(std::vector<Profile>& all, const std::string& op, const std::string& shape, const Arrays& name_arrays,
             const Launches& launches) {
  if (!is_wanted(op)) {
    return;
  }
  Recorder& recorder = Recorder::instance();
  recorder.start(op, shape);
  name_arrays(recorder);
  launches();
  all.push_back(recorder.finish());
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
