// Spectra of rows of any length on the CPU, by Bluestein's sum in double; the formulas stand in chirp_plan.h.
#pragma once

#include "kernels/fft/chirp_plan.h"
#include "kernels/hrr/engine.h"

namespace torch_hrr::kernels {
KERNEL_ISA_BEGIN

// ChirpTransform of this instruction set.
void chirp_transform(int64_t length, double* re, double* im, double* work);

template <typename S>
struct ChirpEngine {
  using T = double;
  using Operand = Split<double>;  // the bins 0 .. D/2, and room for a vector beyond the last
  static constexpr int kWidth = 4;

  const ChirpPlan& plan;
  int64_t dim;
  compute_t<S>* stage;
  double* row;
  Split<double> convolved;
  double* work;

  static int64_t scratch_bytes(int64_t dim, int operands) {
    const int64_t length = chirp_length(dim);
    const int64_t numbers = 2 * dim + 2 * length + kSplitPadding + chirp_work(length) + operands * bins_elements(dim);
    return numbers * static_cast<int64_t>(sizeof(double)) + 64 * (operands + 5);
  }
  KERNEL_HOST_DEVICE static int64_t bins_elements(int64_t dim) {
    return 2 * (dim / 2 + 1 + kSplitPadding);
  }

  KERNEL_HOST_DEVICE ChirpEngine(const ChirpPlan& the_plan, void* scratch, int64_t& used)
      : plan(the_plan), dim(the_plan.dim) {
    stage = aligned<compute_t<S>>(scratch, used, dim);
    row = aligned<double>(scratch, used, dim);
    convolved.re = aligned<double>(scratch, used, plan.length + kSplitPadding);
    convolved.im = aligned<double>(scratch, used, plan.length);
    work = aligned<double>(scratch, used, chirp_work(plan.length));
  }
  KERNEL_HOST_DEVICE Operand operand(void* scratch, int64_t& used) const {
    double* memory = aligned<double>(scratch, used, bins_elements(dim));
    return {memory, memory + bins_elements(dim) / 2};
  }

  int64_t last_bin() const {
    return dim / 2;
  }
  bool last_is_real() const {
    return dim % 2 == 0;
  }

  // The imaginary parts of the real bins.
  void clear_real(Operand bins) const {
    bins.im[0] = 0;
    if (last_is_real()) {
      bins.im[last_bin()] = 0;
    }
  }

  // The numbers from `count` on are zeros.
  void clear_from(int64_t count) const {
    for (int64_t i = count; i < plan.length; ++i) {
      convolved.re[i] = 0;
      convolved.im[i] = 0;
    }
  }

  // convolved <- convolved conv chirp, by the chirp's transform
  void convolve(const double* re, const double* im) const {
    chirp_transform(plan.length, convolved.re, convolved.im, work);
    for (int64_t i = 0; i < plan.length; ++i) {
      const Complex<double> product = multiply(Complex<double>{convolved.re[i], convolved.im[i]}, {re[i], im[i]});
      convolved.re[i] = product.re;
      convolved.im[i] = product.im;
    }
    // The inverse: parts exchanged on both sides.
    chirp_transform(plan.length, convolved.im, convolved.re, work);
  }

  // row = a row of storage type times 2^exponent; returns its squared norm.
  double widen(const S* source, int exponent) const {
    widen_row<S>(source, dim, stage);
    for (int64_t n = 0; n < dim; ++n) {
      row[n] = static_cast<double>(stage[n]);
    }
    if (exponent != 0) {
      scale_row(row, dim, exponent);
    }
    return dot<kWidth>(row, row, dim);
  }

  // The bins of a row times 2^exponent; returns the sum of |A_k|^2 over all D of them.
  double load(const S* source, int exponent, Operand bins) const {
    const double squared = widen(source, exponent);
    for (int64_t n = 0; n < dim; ++n) {
      convolved.re[n] = row[n] * plan.wave_re[n];
      convolved.im[n] = -(row[n] * plan.wave_im[n]);
    }
    clear_from(dim);
    convolve(plan.to_bins_re, plan.to_bins_im);
    for (int64_t k = 0; k <= last_bin(); ++k) {
      const Complex<double> bin =
          multiply_conjugate(Complex<double>{convolved.re[k], convolved.im[k]}, {plan.wave_re[k], plan.wave_im[k]});
      bins.re[k] = bin.re;
      bins.im[k] = bin.im;
    }
    clear_real(bins);
    return static_cast<double>(dim) * squared;
  }

  static double total(double squared) {
    return squared;
  }
  static double share() {
    return 1;
  }

  // The row of these bins, whose real ones count as such, in `row`.
  void invert(Operand bins) const {
    clear_real(bins);
    const double share = 2 / static_cast<double>(dim);
    for (int64_t k = 0; k <= last_bin(); ++k) {
      const Complex<double> turned =
          multiply(Complex<double>{bins.re[k], bins.im[k]}, {plan.wave_re[k], plan.wave_im[k]});
      convolved.re[k] = turned.re * share;
      convolved.im[k] = -(turned.im * share);
    }
    // The real bins have no mirror.
    convolved.re[0] *= 0.5;
    convolved.im[0] *= 0.5;
    if (last_is_real()) {
      convolved.re[last_bin()] *= 0.5;
      convolved.im[last_bin()] *= 0.5;
    }
    clear_from(last_bin() + 1);
    convolve(plan.to_row_re, plan.to_row_im);
    for (int64_t n = 0; n < dim; ++n) {
      row[n] = multiply_add(convolved.re[n], plan.wave_re[n], convolved.im[n] * plan.wave_im[n]);
    }
  }

  // out = the row times 2^exponent
  void store(int64_t exponent, S* out) const {
    rescale_row(row, dim, exponent);
    for (int64_t n = 0; n < dim; ++n) {
      stage[n] = static_cast<compute_t<S>>(row[n]);
    }
    narrow_row<S>(stage, dim, compute_t<S>{1}, out);
  }
};

KERNEL_ISA_END
}  // namespace torch_hrr::kernels
