// What one memory request of a warp costs: 32-byte sectors of global memory, wavefronts of shared memory.
//
// A request is what the active lanes of a warp ask for in one instruction. Formulas: CUDA C++ Best Practices Guide,
// "Coalesced Access to Global Memory" and "Shared Memory Banks"; the phases of wide accesses as Nsight Compute counts.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace torch_hrr::cuda_on_host::profile {

constexpr std::uintptr_t kSectorBytes = 32;
constexpr std::uintptr_t kBankBytes = 4;
constexpr std::size_t kBanks = 32;

struct Access {
  std::uintptr_t address = 0;
  uint32_t bytes = 0;
};

// The accesses of the active lanes, in the order of the lanes.
using Request = std::vector<Access>;

inline std::size_t divided_up(std::size_t a, std::size_t b) {
  return (a + b - 1) / b;
}

// Bytes that at least one lane touches.
inline std::size_t distinct_bytes(Request request) {
  std::sort(request.begin(), request.end(), [](const Access& a, const Access& b) { return a.address < b.address; });
  std::size_t bytes = 0;
  std::uintptr_t end = 0;
  for (const Access& access : request) {
    const std::uintptr_t first = std::max(access.address, end);
    const std::uintptr_t last = access.address + access.bytes;
    if (last > first) {
      bytes += last - first;
      end = last;
    }
  }
  return bytes;
}

// The distinct units of `unit` bytes that the request touches, ascending.
inline std::vector<std::uintptr_t> touched_units(const Access* first, const Access* last, std::uintptr_t unit) {
  std::vector<std::uintptr_t> units;
  for (; first != last; ++first) {
    for (std::uintptr_t u = first->address / unit; u <= (first->address + first->bytes - 1) / unit; ++u) {
      units.push_back(u);
    }
  }
  std::sort(units.begin(), units.end());
  units.erase(std::unique(units.begin(), units.end()), units.end());
  return units;
}

inline std::vector<std::uintptr_t> touched_sectors(const Request& request) {
  return touched_units(request.data(), request.data() + request.size(), kSectorBytes);
}

inline std::size_t least_sectors(const Request& request) {
  return divided_up(distinct_bytes(request), kSectorBytes);
}

// Passes over the 32 banks. Accesses of 8 bytes go half a warp at a time, of 16 bytes a quarter; within such a phase
// the busiest bank decides. One element that all lanes read takes one pass.
inline std::size_t shared_wavefronts(const Request& request) {
  const bool broadcast = std::all_of(request.begin(), request.end(),
                                     [&](const Access& access) { return access.address == request.front().address; });
  if (broadcast) {
    return 1;
  }
  const std::size_t lanes = 32 / divided_up(std::max(request.front().bytes, 4u), kBankBytes);
  std::size_t wavefronts = 0;
  for (std::size_t first = 0; first < request.size(); first += lanes) {
    std::array<std::size_t, kBanks> words{};
    const Access* const phase = request.data() + first;
    for (const std::uintptr_t word :
         touched_units(phase, phase + std::min(lanes, request.size() - first), kBankBytes)) {
      ++words[word % kBanks];
    }
    wavefronts += *std::max_element(words.begin(), words.end());
  }
  return wavefronts;
}

inline std::size_t least_wavefronts(const Request& request) {
  return divided_up(distinct_bytes(request), kBanks * kBankBytes);
}

// The most lanes on one address: atomics on one address follow one another.
inline std::size_t pile_up(const Request& request) {
  std::vector<std::uintptr_t> addresses;
  for (const Access& access : request) {
    addresses.push_back(access.address);
  }
  std::sort(addresses.begin(), addresses.end());
  std::size_t most = 0;
  for (auto first = addresses.begin(); first != addresses.end();) {
    const auto last = std::upper_bound(first, addresses.end(), *first);
    most = std::max(most, static_cast<std::size_t>(last - first));
    first = last;
  }
  return most;
}

}  // namespace torch_hrr::cuda_on_host::profile
