// Which kernel serves rows, in words.
#include <c10/core/Device.h>
#include <c10/util/StringUtil.h>

#include <exception>
#include <string>
#include <utility>

#include "csrc/hrr/execute.h"
#include "csrc/include/torch_hrr/torch_hrr.h"
#include "kernels/fft/row_shape.h"
#include "kernels/hrr/row_plan.h"
#include "kernels/isa.h"

namespace torch_hrr::hrr {
namespace {

using kernels::RowFamily;
using kernels::RowGroup;
using kernels::RowPath;
using kernels::RowPlan;
using kernels::Storage;

// What a block of an H100 or H200 may have: of a GPU that is not here.
constexpr int64_t kUsualSharedBytes = 232448;

struct Planned {
  const char* op;
  RowFamily family;
  const char* otherwise;  // how rows go that no kernel takes
};
constexpr const char* kByFft = "by torch.fft in double (csrc/hrr/library_fft.cpp)";
constexpr const char* kByRows = "by from_spectrum and a product of rows";
constexpr Planned kPlanned[] = {
    {"bind", RowFamily::kProduct, kByFft},
    {"unbind", RowFamily::kProduct, kByFft},
    {"bind_normalize", RowFamily::kProduct, kByFft},
    {"bind_superpose", RowFamily::kProductSum, kByFft},
    {"inverse", RowFamily::kMap, kByFft},
    {"unitary", RowFamily::kMap, kByFft},
    {"bind_power", RowFamily::kPower, kByFft},
    {"multibind", RowFamily::kMultibind, kByFft},
    {"spectrum", RowFamily::kSpectrum, kByFft},
    {"from_spectrum", RowFamily::kSpectrum, kByFft},
    {"bind_spectrum", RowFamily::kSpectrumProduct, kByRows},
    {"unbind_spectrum", RowFamily::kSpectrumProduct, kByRows},
};

const Planned& planned(const std::string& op) {
  std::string known;
  for (const Planned& each : kPlanned) {
    if (op == each.op) {
      return each;
    }
    known += c10::str(known.empty() ? "" : ", ", each.op);
  }
  TORCH_CHECK_VALUE(false, "plan: op must be one of ", known, ", got ", op);
}

Storage storage_named(const std::string& dtype) {
  const std::pair<const char*, Storage> names[] = {{"float32", Storage::kFloat},
                                                   {"float64", Storage::kDouble},
                                                   {"float16", Storage::kHalf},
                                                   {"bfloat16", Storage::kBFloat16}};
  for (const auto& [name, storage] : names) {
    if (dtype == name) {
      return storage;
    }
  }
  TORCH_CHECK_TYPE(false, "plan: dtype must be float32, float64, float16 or bfloat16, got ", dtype);
}

std::string counted(int64_t count, const char* noun) {
  return c10::str(count, " ", noun, count == 1 ? "" : "s");
}

std::string matrix_of(int64_t dim, int64_t lanes) {
  const int64_t rows = kernels::matrix_rows(dim, static_cast<int>(lanes));
  return c10::str("a matrix of ", rows, " x ", dim / rows, " numbers");
}

// A row by itself on the CPU.
std::string path_on_cpu(const RowPlan& plan, const Planned& of, int64_t dim, int64_t lanes) {
  switch (plan.path) {
    case RowPath::kHalf:
      return c10::str("as ", dim / 2, " complex numbers (kernels/fft/fft.h)");
    case RowPath::kPadded:
      return c10::str("padded to ", plan.length, " numbers and folded, as ", plan.length / 2,
                      " complex numbers (kernels/fft/fft.h)");
    case RowPath::kMatrix:
      return c10::str("as ", matrix_of(dim, lanes), " (kernels/fft/matrix_transform.h)");
    case RowPath::kChirp:
      return c10::str("by Bluestein's algorithm over ", plan.length, " complex numbers (kernels/hrr/chirp_engine.h)");
    case RowPath::kHalfChirp:
      return c10::str("as ", dim / 2, " complex numbers by Bluestein's algorithm over ", plan.length,
                      " (kernels/hrr/chirp_engine.h)");
    case RowPath::kDoubleChirp:
      return c10::str("by Bluestein's algorithm in double over ", plan.length,
                      " complex numbers (kernels/hrr/chirp_engine.h)");
    default:
      return of.otherwise;
  }
}

std::string on_cpu(const Planned& of, Storage storage, int64_t dim) {
  const RowPlan plan = kernels::cpu_row_plan(of.family, storage, dim);
  const int64_t lanes = kernels::row_lanes(kernels::active_isa(), storage);
  const std::string single = path_on_cpu(plan, of, dim, lanes);
  const std::string rest = c10::str("; those out of range one by one, ", single);
  switch (plan.group) {
    case RowGroup::kLanes:
      return c10::str(lanes, " rows side by side, each in a lane (kernels/hrr/lane_rows.h)", rest);
    case RowGroup::kMatrixLanes:
      return c10::str(lanes, " rows side by side, each in a lane as ", matrix_of(dim, lanes),
                      " (kernels/hrr/matrix_lane_rows.h); the few that are left, and those out of range, one by one");
    case RowGroup::kRegisters:
      return c10::str(counted(512 / dim, "row"), " within the registers (kernels/hrr/in_register_spectrum.h)", rest);
    default:
      return plan.path == RowPath::kLibrary ? single : c10::str("one by one, ", single);
  }
}

std::string on_cuda(const Planned& of, Storage storage, int64_t dim, int64_t shared_bytes) {
  const RowPlan plan = kernels::cuda_row_plan(of.family, storage, dim, shared_bytes);
  switch (plan.path) {
    case RowPath::kHalf:
      return c10::str("as ", dim / 2, " complex numbers (kernels/fft/fft.cuh)");
    case RowPath::kPadded:
      return c10::str("padded to ", plan.length, " numbers and folded, as ", plan.length / 2,
                      " complex numbers (kernels/fft/fft.cuh)");
    case RowPath::kMixed:
      return c10::str("a block each, as ", counted(dim % 2 == 0 ? dim / 2 : dim, "complex number"),
                      " in shared memory (kernels/hrr/mixed_row.cuh)");
    case RowPath::kDoubleChirp:
      return c10::str("by Bluestein's algorithm in double over ", plan.length,
                      " complex numbers (kernels/hrr/chirp_row.cuh)");
    default:
      return of.otherwise;
  }
}

// Of the device, or of a usual one where there is none.
std::pair<int64_t, bool> shared_bytes_of([[maybe_unused]] c10::Device device) {
#if defined(TORCH_HRR_WITH_CUDA)
  if (cuda::has_devices()) {
    return {cuda::shared_bytes(device), true};
  }
#endif
  return {kUsualSharedBytes, false};
}

}  // namespace
}  // namespace torch_hrr::hrr

namespace torch_hrr {

std::string row_plan(const std::string& op, int64_t dim, const std::string& dtype, const std::string& device) {
  const hrr::Planned& of = hrr::planned(op);
  const kernels::Storage storage = hrr::storage_named(dtype);
  TORCH_CHECK_VALUE(dim >= 1, "plan: dim must be at least 1, got ", dim);
  const c10::Device where(device);
  TORCH_CHECK_VALUE(where.is_cpu() || where.is_cuda(), "plan: device must be cpu or cuda, got ", device);
  const std::string head = c10::str(op, " of ", dtype, " rows of ", dim, " on ");
  if (where.is_cpu()) {
    return c10::str(head, "the CPU (", kernels::isa_name(kernels::active_isa()), "): ", hrr::on_cpu(of, storage, dim));
  }
  const auto [shared_bytes, is_here] = hrr::shared_bytes_of(where);
  return c10::str(head, is_here ? "this" : "a", " GPU with ", shared_bytes / 1024,
                  " KiB of shared memory a block: ", hrr::on_cuda(of, storage, dim, shared_bytes));
}

}  // namespace torch_hrr

const char* torch_hrr_row_plan(const char* op, int64_t dim, const char* dtype, const char* device) {
  thread_local std::string text;
  try {
    text = torch_hrr::row_plan(op, dim, dtype, device);
  } catch (const c10::Error& error) {
    text = c10::str("error=", error.what_without_backtrace());
  } catch (const std::exception& error) {
    text = c10::str("error=", error.what());
  }
  return text.c_str();
}
