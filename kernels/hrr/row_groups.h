// Rows by the engines of their plan: the one loop over rows of all operators that multiply or map spectra on the CPU.
//
// An operator is a template Rows<S, Engine> with
//   Rows(engine, params, scratch, used)  takes its memory
//   group(r, count)                      `count` rows from r on; returns a mask of rows that left the range
//   scaled(r)                            such a row again, with scaling; of engines for one row
//   left(lane)                           where it has it, the parameters of what a lane left; else all are left
#pragma once

#include "kernels/hrr/engine_bins.h"
#include "kernels/hrr/matrix_lane_rows.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN

// Engines for one row that an operator needs.
enum class Engines {
  kProducts,  // of products, folded where their own length has no transforms
  kNative,    // of the rows' own length
  kBins,      // of the bins of rows of any length
};

template <typename S, Engines kEngines, typename Body>
void with_engine(const RowPlan& row, int64_t dim, void* scratch, const Body& body) {
  if constexpr (kEngines == Engines::kProducts) {
    with_product_engine<S>(row, dim, scratch, body);
  } else if constexpr (kEngines == Engines::kNative) {
    with_native_engine<S>(row, dim, scratch, body);
  } else {
    with_bins_engine<S>(row, dim, scratch, body);
  }
}

template <template <typename, typename> typename Rows, Engines kEngines, typename S, typename Params>
void single_rows(const Params& params, int64_t begin, int64_t end, void* scratch) {
  with_engine<S, kEngines>(params.plan, params.dim, scratch, [&](const auto& engine, int64_t used) {
    Rows<S, std::remove_cvref_t<decltype(engine)>> rows(engine, params, scratch, used);
    for (int64_t r = begin; r < end; ++r) {
      if (rows.group(r, 1) != 0) {
        rows.scaled(r);
      }
    }
  });
}

// group(r, count) for the rows from begin to end, `count` of W from r on at a time, then alone(r, lane) for every lane
// of the mask that it returns: rows that leave the range on the way.
template <int W, typename Group, typename Alone>
KERNEL_HOST_DEVICE void for_groups(int64_t begin, int64_t end, const Group& group, const Alone& alone) {
  for (int64_t r = begin; r < end; r += W) {
    const int64_t count = end - r < W ? end - r : W;
    const uint32_t beyond = group(r, count);
    for (int64_t lane = 0; beyond != 0 && lane < count; ++lane) {
      if ((beyond >> lane & 1) != 0) {
        alone(r + lane, lane);
      }
    }
  }
}

// Groups side by side. What they leave, and a last group of too few rows, goes by itself.
template <template <typename, typename> typename Rows, Engines kEngines, typename S, typename Lanes, typename Params>
void lane_rows(const Params& params, int64_t begin, int64_t end, void* scratch) {
  int64_t used = 0;
  const Lanes lanes(params.dim, scratch, used);
  Rows<S, Lanes> rows(lanes, params, scratch, used);
  void* const rest = static_cast<char*>(scratch) + used;
  const int64_t last = (end - begin) % Lanes::kRows;
  const int64_t groups_end = last < Lanes::kMinRows ? end - last : end;
  for_groups<Lanes::kRows>(
      begin, groups_end, [&](int64_t r, int64_t count) { return rows.group(r, count); },
      [&](int64_t r, int64_t lane) {
        if constexpr (requires { rows.left(lane); }) {
          single_rows<Rows, kEngines, S>(rows.left(lane), r, r + 1, rest);
        } else {
          single_rows<Rows, kEngines, S>(params, r, r + 1, rest);
        }
      });
  if (groups_end < end) {
    single_rows<Rows, kEngines, S>(params, groups_end, end, rest);
  }
}

// By the group of the plan; kMatrixLanes says whether the operator has plans of that group.
template <template <typename, typename> typename Rows, Engines kEngines, bool kMatrixLanes, typename S, typename Params>
void rows_by_plan(const Params& params, int64_t begin, int64_t end, void* scratch) {
  const RowGroup group = params.plan.group;
  if (group == RowGroup::kLanes) {
    return lane_rows<Rows, kEngines, S, LaneRows<S>>(params, begin, end, scratch);
  }
  if constexpr (kMatrixLanes) {
    if (group == RowGroup::kMatrixLanes) {
      return lane_rows<Rows, kEngines, S, MatrixLaneRows<S>>(params, begin, end, scratch);
    }
  }
  single_rows<Rows, kEngines, S>(params, begin, end, scratch);
}

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
