// Products of powers of rows, prod_k A_k^x_k bin by bin, from packed spectra to a packed spectrum: parameters.
//
// A row's powers are sums of logarithms: ln |A_k| in the type of the rows T, float or double, and the angle in turns in
// double, which is reduced to one turn before its sine and cosine are taken in T. A bin is empty as spectral_map.h
// says; where it is so for a row of another exponent than 0, the product is 0, or NaN if another row is not finite.
// Real bins have cos(pi x) for a negative number's power.
#pragma once

#include <cstdint>

#include "kernels/rows.h"

namespace torch_hrr::kernels {

// The logarithms of a group of rows whose powers are multiplied with each other, as doubles of memory. Bins come in
// blocks, and the rows' parts of a block lie side by side, in the order in which sums read them.
struct LogarithmTable {
  static constexpr int64_t kBlock = 16;

  int64_t items = 0;  // rows of a group
  int64_t dim = 0;
  bool is_double = false;

  KERNEL_HOST_DEVICE int64_t bins() const {
    return dim / 2 + 1;
  }
  KERNEL_HOST_DEVICE int64_t blocks() const {
    return (bins() + kBlock - 1) / kBlock;
  }
  KERNEL_HOST_DEVICE int64_t place(int64_t block, int64_t item) const {
    return (block * items + item) * kBlock;
  }
  // Then come the logarithms of magnitudes, of type T, and the marks.
  KERNEL_HOST_DEVICE int64_t turns() const {
    return blocks() * items * kBlock;
  }
  // T of every bin, not 0 if it is empty in one of the rows; then, not 0 if it is negative, of every row's first bin
  // and of its last one.
  KERNEL_HOST_DEVICE int64_t marks() const {
    return turns() + (is_double ? turns() : turns() / 2);
  }
  KERNEL_HOST_DEVICE int64_t first_is_negative() const {
    return blocks() * kBlock;
  }
  KERNEL_HOST_DEVICE int64_t last_is_negative() const {
    return first_is_negative() + items;
  }
  KERNEL_HOST_DEVICE int64_t size() const {
    return marks() + last_is_negative() + items;
  }
};

// Fills tables[group] from contiguous packed spectra [groups, items, dim]; their marks are 0 before. Of a spectrum that
// is not finite all logarithms are NaN.
struct LogarithmParams {
  const void* spectra = nullptr;
  double* tables = nullptr;
  int64_t rows = 0;  // of all groups
  LogarithmTable table;
};

// out[r], contiguous packed spectra [rows, dim], with the exponents x of row r. Map operand 0 places its table, operand
// 1 its exponents. One that is not finite gives a NaN row.
struct PowerProductParams {
  const double* tables = nullptr;
  const double* exponents = nullptr;
  void* out = nullptr;
  int64_t rows = 0;
  RowMap map;
  LogarithmTable table;
};

}  // namespace torch_hrr::kernels
