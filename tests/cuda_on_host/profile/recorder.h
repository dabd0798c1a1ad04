// Counts what kernels ask of a GPU's memory while they run on the host.
//
//   Recorder& recorder = Recorder::instance();
//   recorder.start("bind", "64x1024");
//   recorder.name("a", a.data(), Role::kArgument);       // an allocation of operator new, by its address
//   ... host_launch(...) ...
//   const Profile profile = recorder.finish();
//
// The kernels of the launches are compiled with the instrumentation that CMakeLists.txt sets, whose calls tsan_abi.cpp
// takes. Every allocation but the recorder's begins at a multiple of 256 bytes, as cudaMalloc's, and is known here.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/cuda_on_host/profile/control_flow.h"
#include "tests/cuda_on_host/scheduler.h"

namespace torch_hrr::cuda_on_host::profile {

// Sums over the requests of one kind.
struct Requests {
  uint64_t requests = 0;
  uint64_t lanes = 0;
  uint64_t bytes = 0;  // that lanes asked for
  uint64_t units = 0;  // sectors of global memory, wavefronts of shared memory
  uint64_t least_units = 0;
  uint64_t deepest = 0;  // atomics: the most lanes of a request on one address

  double ratio() const {
    return least_units == 0 ? 1 : static_cast<double>(units) / static_cast<double>(least_units);
  }
};

// One launch.
struct KernelCounts {
  std::string name;    // as the launcher names it
  std::string symbol;  // of the kernel, mangled
  dim3 grid;
  dim3 block;
  std::size_t shared_bytes = 0;
  Requests requests[2][3];
  uint64_t barriers = 0;
  uint64_t warp_operations = 0;

  const Requests& of(Memory memory, Action action) const {
    return requests[static_cast<int>(memory)][static_cast<int>(action)];
  }
};

enum class Role { kArgument, kResult, kState, kTable, kWorkspace };  // a state is read and changed in place

struct BufferCounts {
  std::string name;
  Role role = Role::kWorkspace;
  std::size_t bytes = 0;
  uint64_t sectors[3] = {};  // of all requests, by action
  uint64_t loaded_once = 0;  // distinct sectors
  uint64_t stored_once = 0;  // by stores and atomics
};

struct Profile {
  std::string op;
  std::string shape;
  std::vector<KernelCounts> launches;
  std::vector<BufferCounts> buffers;

  uint64_t bytes_of_arguments_and_results() const;
  uint64_t bytes_once() const;  // distinct sectors of all buffers, loaded and stored
  uint64_t bytes_all() const;   // sectors of all requests
};

// While there is one, operator new gives memory of the recorder's, which no kernel asks for and nobody looks up.
struct Notes {
  Notes() {
    ++taken;
  }
  ~Notes() {
    --taken;
  }
  Notes(const Notes&) = delete;
  Notes& operator=(const Notes&) = delete;

  static inline int taken = 0;
};

class Recorder final : public LaunchObserver {
 public:
  static Recorder& instance();

  void start(std::string op, std::string shape);
  void name(std::string buffer, const void* address, Role role);
  Profile finish();

  // Called by the instrumentation.
  void enter_block_of_code(const void* block);
  void enter_function(const void* call);
  void leave_function();
  void access(const void* address, std::size_t bytes, Action action);

  void begin_launch(const char* name, const void* kernel, dim3 grid, dim3 block, std::size_t shared_bytes) override;
  void begin_block(const void* shared, int threads) override;
  void enter_thread(int rank) override;
  void leave_thread() override;
  void barrier() override;
  void warp_operation() override;
  void end_block() override;
  void end_launch() override {}

 private:
  struct Calls {
    std::vector<uint64_t> chain;
    std::vector<const void*> from;
  };
  struct Buffer {
    BufferCounts counts;
    std::vector<bool> loaded;
    std::vector<bool> stored;
  };

  void count(const std::vector<TracedAccess>& request);
  Buffer& buffer_of(std::uintptr_t address);
  Node node_of(const void* block);
  void add_step(const void* block);

  Profile profile_;
  std::map<std::uintptr_t, Buffer> buffers_;  // by the address where the allocation begins

  std::vector<Trace> traces_;  // of the block that runs, by thread
  std::vector<Calls> calls_;
  bool in_thread_ = false;
  int rank_ = 0;
  int threads_ = 0;
  std::uintptr_t shared_ = 0;
  ControlFlow flow_;
  std::map<std::pair<uint64_t, const void*>, Node> nodes_;
};

// The allocation of operator new that holds the address: where it begins and its bytes; {0, 0} if there is none.
std::pair<std::uintptr_t, std::size_t> allocation_of(std::uintptr_t address);

std::string to_json(const Profile& profile);

}  // namespace torch_hrr::cuda_on_host::profile
