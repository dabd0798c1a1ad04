// Traces of threads as kernels run, their requests counted block by block, and the JSON of the sums.
#include "tests/cuda_on_host/profile/recorder.h"

#include <dlfcn.h>

#include <algorithm>
#include <sstream>
#include <stdexcept>
#include <tuple>

namespace torch_hrr::cuda_on_host::profile {

uint64_t Profile::bytes_of_arguments_and_results() const {
  uint64_t bytes = 0;
  for (const BufferCounts& buffer : buffers) {
    bytes += buffer.role != Role::kTable && buffer.role != Role::kWorkspace ? buffer.bytes : 0;
  }
  return bytes;
}

uint64_t Profile::bytes_once() const {
  uint64_t sectors = 0;
  for (const BufferCounts& buffer : buffers) {
    sectors += buffer.loaded_once + buffer.stored_once;
  }
  return sectors * kSectorBytes;
}

uint64_t Profile::bytes_all() const {
  uint64_t sectors = 0;
  for (const BufferCounts& buffer : buffers) {
    sectors += buffer.sectors[0] + buffer.sectors[1] + buffer.sectors[2];
  }
  return sectors * kSectorBytes;
}

Recorder& Recorder::instance() {
  static Recorder& recorder = *new Recorder;
  return recorder;
}

void Recorder::start(std::string op, std::string shape) {
  profile_ = {};
  profile_.op = std::move(op);
  profile_.shape = std::move(shape);
  buffers_.clear();
  observe_launches(this);
}

void Recorder::name(std::string buffer, const void* address, Role role) {
  Buffer& named = buffer_of(reinterpret_cast<std::uintptr_t>(address));
  named.counts.name = std::move(buffer);
  named.counts.role = role;
}

Profile Recorder::finish() {
  observe_launches(nullptr);
  for (auto& [address, buffer] : buffers_) {
    buffer.counts.loaded_once = static_cast<uint64_t>(std::count(buffer.loaded.begin(), buffer.loaded.end(), true));
    buffer.counts.stored_once = static_cast<uint64_t>(std::count(buffer.stored.begin(), buffer.stored.end(), true));
    profile_.buffers.push_back(std::move(buffer.counts));
  }
  buffers_.clear();
  std::sort(profile_.buffers.begin(), profile_.buffers.end(), [](const BufferCounts& a, const BufferCounts& b) {
    return std::tie(a.role, a.name, a.bytes) < std::tie(b.role, b.name, b.bytes);
  });
  return std::move(profile_);
}

void Recorder::begin_launch(const char* name, const void* kernel, dim3 grid, dim3 block, std::size_t shared_bytes) {
  KernelCounts counts;
  counts.name = name;
  Dl_info symbol;
  if (dladdr(kernel, &symbol) != 0 && symbol.dli_sname != nullptr) {
    counts.symbol = symbol.dli_sname;
  }
  counts.grid = grid;
  counts.block = block;
  counts.shared_bytes = shared_bytes;
  profile_.launches.push_back(std::move(counts));
  nodes_.clear();
  in_thread_ = false;
}

void Recorder::begin_block(const void* shared, int threads) {
  shared_ = reinterpret_cast<std::uintptr_t>(shared);
  threads_ = threads;
  traces_.resize(std::max(traces_.size(), static_cast<std::size_t>(threads)));
  calls_.resize(traces_.size());
  for (Trace& trace : traces_) {
    trace.clear();
  }
  for (Calls& calls : calls_) {
    calls.chain.assign(1, 0);
    calls.from.clear();
  }
}

void Recorder::enter_thread(int rank) {
  rank_ = rank;
  in_thread_ = true;
}

void Recorder::leave_thread() {
  in_thread_ = false;
}

void Recorder::barrier() {
  ++profile_.launches.back().barriers;
}

void Recorder::warp_operation() {
  ++profile_.launches.back().warp_operations;
}

Node Recorder::node_of(const void* block) {
  const auto next = static_cast<Node>(nodes_.size());
  return nodes_.try_emplace({calls_[static_cast<std::size_t>(rank_)].chain.back(), block}, next).first->second;
}

void Recorder::add_step(const void* block) {
  const Notes notes;
  Trace& trace = traces_[static_cast<std::size_t>(rank_)];
  trace.steps.push_back({node_of(block), static_cast<uint32_t>(trace.accesses.size())});
}

void Recorder::enter_block_of_code(const void* block) {
  if (in_thread_) {
    add_step(block);
  }
}

void Recorder::enter_function(const void* call) {
  if (in_thread_) {
    const Notes notes;
    Calls& calls = calls_[static_cast<std::size_t>(rank_)];
    const uint64_t chain = calls.chain.back() * 0x9e3779b97f4a7c15u + reinterpret_cast<std::uintptr_t>(call);
    calls.chain.push_back(chain);
    calls.from.push_back(call);
  }
}

// What the caller does after the call is a step of its own.
void Recorder::leave_function() {
  if (in_thread_) {
    Calls& calls = calls_[static_cast<std::size_t>(rank_)];
    const void* const call = calls.from.back();
    calls.from.pop_back();
    calls.chain.pop_back();
    add_step(call);
  }
}

void Recorder::access(const void* address, std::size_t bytes, Action action) {
  if (!in_thread_) {
    return;
  }
  TracedAccess access;
  access.address = reinterpret_cast<std::uintptr_t>(address);
  access.bytes = static_cast<uint32_t>(bytes);
  access.action = action;
  const std::size_t shared_bytes = profile_.launches.back().shared_bytes;
  if (access.address - shared_ < shared_bytes) {
    access.memory = Memory::kShared;
  } else if (allocation_of(access.address).second != 0) {
    access.memory = Memory::kGlobal;
  } else {
    return;  // the thread's own stack, parameters of the launch on its caller's, and constants of the program
  }
  const Notes notes;
  traces_[static_cast<std::size_t>(rank_)].accesses.push_back(access);
}

Recorder::Buffer& Recorder::buffer_of(std::uintptr_t address) {
  const auto [begin, bytes] = allocation_of(address);
  if (bytes == 0) {
    throw std::logic_error("profile: this address is in no allocation");
  }
  Buffer& buffer = buffers_[begin];
  if (buffer.loaded.empty()) {
    buffer.counts.name = "other";
    buffer.counts.bytes = bytes;
    buffer.loaded.resize(divided_up(bytes, kSectorBytes));
    buffer.stored.resize(buffer.loaded.size());
  }
  return buffer;
}

void Recorder::count(const std::vector<TracedAccess>& traced) {
  const TracedAccess& first = traced.front();
  const Request request(traced.begin(), traced.end());
  const bool shared = first.memory == Memory::kShared;
  Requests& sum = profile_.launches.back().requests[static_cast<int>(first.memory)][static_cast<int>(first.action)];
  ++sum.requests;
  sum.lanes += request.size();
  for (const Access& access : request) {
    sum.bytes += access.bytes;
  }
  sum.units += shared ? shared_wavefronts(request) : touched_sectors(request).size();
  sum.least_units += shared ? least_wavefronts(request) : least_sectors(request);
  if (first.action == Action::kAtomic) {
    sum.deepest = std::max<uint64_t>(sum.deepest, pile_up(request));
  }
  if (shared) {
    return;
  }
  for (const std::uintptr_t sector : touched_sectors(request)) {
    const std::uintptr_t address = sector * kSectorBytes;
    Buffer& buffer = buffer_of(address);
    const std::size_t index = (address - allocation_of(address).first) / kSectorBytes;
    ++buffer.counts.sectors[static_cast<int>(first.action)];
    (first.action == Action::kLoad ? buffer.loaded : buffer.stored)[index] = true;
  }
}

void Recorder::end_block() {
  const Notes notes;
  traces_.resize(static_cast<std::size_t>(threads_));
  flow_.observe(traces_);
  for (int first = 0; first < threads_; first += kLanes) {
    std::vector<const Trace*> lanes;
    for (int rank = first; rank < std::min(first + kLanes, threads_); ++rank) {
      lanes.push_back(&traces_[static_cast<std::size_t>(rank)]);
    }
    walk_warp(lanes, flow_, [&](const std::vector<TracedAccess>& request) { count(request); });
  }
}

namespace {

const char* const kActions[] = {"load", "store", "atomic"};

void write(std::ostream& json, const Requests& sum) {
  json << "{\"requests\": " << sum.requests << ", \"lanes\": " << sum.lanes << ", \"bytes\": " << sum.bytes
       << ", \"units\": " << sum.units << ", \"least\": " << sum.least_units << ", \"deepest\": " << sum.deepest << "}";
}

void write(std::ostream& json, const dim3& shape) {
  json << "[" << shape.x << ", " << shape.y << ", " << shape.z << "]";
}

}  // namespace

std::string to_json(const Profile& profile) {
  std::ostringstream json;
  json << "{\"op\": \"" << profile.op << "\", \"shape\": \"" << profile.shape << "\", \"launches\": [";
  const char* separator = "";
  for (const KernelCounts& launch : profile.launches) {
    json << separator << "{\"name\": \"" << launch.name << "\", \"symbol\": \"" << launch.symbol << "\", \"grid\": ";
    write(json, launch.grid);
    json << ", \"block\": ";
    write(json, launch.block);
    json << ", \"shared_bytes\": " << launch.shared_bytes << ", \"barriers\": " << launch.barriers
         << ", \"warp_operations\": " << launch.warp_operations;
    for (const Memory memory : {Memory::kGlobal, Memory::kShared}) {
      for (int action = 0; action < 3; ++action) {
        json << ", \"" << (memory == Memory::kGlobal ? "global_" : "shared_") << kActions[action] << "\": ";
        write(json, launch.of(memory, static_cast<Action>(action)));
      }
    }
    json << "}";
    separator = ", ";
  }
  json << "], \"buffers\": [";
  separator = "";
  const char* const roles[] = {"argument", "result", "state", "table", "workspace"};
  for (const BufferCounts& buffer : profile.buffers) {
    json << separator << "{\"name\": \"" << buffer.name << "\", \"role\": \"" << roles[static_cast<int>(buffer.role)]
         << "\", \"bytes\": " << buffer.bytes << ", \"loaded_once\": " << buffer.loaded_once
         << ", \"stored_once\": " << buffer.stored_once;
    for (int action = 0; action < 3; ++action) {
      json << ", \"" << kActions[action] << "\": " << buffer.sectors[action];
    }
    json << "}";
    separator = ", ";
  }
  json << "]}";
  return json.str();
}

}  // namespace torch_hrr::cuda_on_host::profile
