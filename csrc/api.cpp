// The public C++ functions, and what the library says of itself.
#include "csrc/dispatch.h"
#include "csrc/hrr/operators.h"
#include "kernels/isa.h"

#include <torch/version.h>

#include <string>

namespace torch_hrr {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;

Tensor bind(const Tensor& a, const Tensor& b) {
  static const auto op = typed_operator<Tensor(const Tensor&, const Tensor&)>("torch_hrr::bind");
  return op.call(a, b);
}

Tensor unbind(const Tensor& bound, const Tensor& role) {
  static const auto op = typed_operator<Tensor(const Tensor&, const Tensor&)>("torch_hrr::unbind");
  return op.call(bound, role);
}

Tensor bind_normalize(const Tensor& a, const Tensor& b, double eps) {
  static const auto op = typed_operator<Tensor(const Tensor&, const Tensor&, double)>("torch_hrr::bind_normalize");
  return op.call(a, b, eps);
}

Tensor superpose(const Tensor& vectors, const OptionalTensor& weights, bool normalize, double eps) {
  static const auto op =
      typed_operator<Tensor(const Tensor&, const OptionalTensor&, bool, double)>("torch_hrr::superpose");
  return op.call(vectors, weights, normalize, eps);
}

Tensor bind_superpose(const Tensor& a, const Tensor& b, const OptionalTensor& weights, bool normalize, double eps) {
  static const auto op = typed_operator<Tensor(const Tensor&, const Tensor&, const OptionalTensor&, bool, double)>(
      "torch_hrr::bind_superpose");
  return op.call(a, b, weights, normalize, eps);
}

Tensor multibind(const Tensor& vectors) {
  static const auto op = typed_operator<Tensor(const Tensor&)>("torch_hrr::multibind");
  return op.call(vectors);
}

Tensor inverse(const Tensor& a, double eps) {
  static const auto op = typed_operator<Tensor(const Tensor&, double)>("torch_hrr::inverse");
  return op.call(a, eps);
}

Tensor unitary(const Tensor& a) {
  static const auto op = typed_operator<Tensor(const Tensor&)>("torch_hrr::unitary");
  return op.call(a);
}

Tensor bind_power(const Tensor& a, const Tensor& exponent) {
  static const auto op = typed_operator<Tensor(const Tensor&, const Tensor&)>("torch_hrr::bind_power", "Tensor");
  return op.call(a, exponent);
}

Tensor bind_power(const Tensor& a, double exponent) {
  static const auto op = typed_operator<Tensor(const Tensor&, double)>("torch_hrr::bind_power");
  return op.call(a, exponent);
}

Tensor spectrum(const Tensor& a) {
  static const auto op = typed_operator<Tensor(const Tensor&)>("torch_hrr::spectrum");
  return op.call(a);
}

Tensor from_spectrum(const Tensor& spectrum) {
  static const auto op = typed_operator<Tensor(const Tensor&)>("torch_hrr::from_spectrum");
  return op.call(spectrum);
}

Tensor bind_spectrum(const Tensor& a, const Tensor& spectrum) {
  static const auto op = typed_operator<Tensor(const Tensor&, const Tensor&)>("torch_hrr::bind_spectrum");
  return op.call(a, spectrum);
}

Tensor unbind_spectrum(const Tensor& bound, const Tensor& spectrum) {
  static const auto op = typed_operator<Tensor(const Tensor&, const Tensor&)>("torch_hrr::unbind_spectrum");
  return op.call(bound, spectrum);
}

Tensor permute(const Tensor& a, int64_t seed, int64_t power) {
  static const auto op = typed_operator<Tensor(const Tensor&, int64_t, int64_t)>("torch_hrr::permute");
  return op.call(a, seed, power);
}

std::tuple<Tensor, Tensor> k_winners(const Tensor& inputs, int64_t k, bool sorted) {
  static const auto op =
      typed_operator<std::tuple<Tensor, Tensor>(const Tensor&, c10::SymInt, bool)>("torch_hrr::k_winners");
  return op.call(inputs, k, sorted);
}

Tensor k_cap(const Tensor& inputs, int64_t k, double temperature, std::string_view surrogate, bool soft) {
  static const auto op =
      typed_operator<Tensor(const Tensor&, c10::SymInt, double, c10::string_view, bool)>("torch_hrr::k_cap");
  return op.call(inputs, k, temperature, surrogate, soft);
}

void bind_out(Tensor& out, const Tensor& a, const Tensor& b) {
  static const auto op = typed_operator<void(const Tensor&, const Tensor&, Tensor&)>("torch_hrr::bind", "out");
  op.call(a, b, out);
}

void unbind_out(Tensor& out, const Tensor& bound, const Tensor& role) {
  static const auto op = typed_operator<void(const Tensor&, const Tensor&, Tensor&)>("torch_hrr::unbind", "out");
  op.call(bound, role, out);
}

void bind_normalize_out(Tensor& out, const Tensor& a, const Tensor& b, double eps) {
  static const auto op =
      typed_operator<void(const Tensor&, const Tensor&, double, Tensor&)>("torch_hrr::bind_normalize", "out");
  op.call(a, b, eps, out);
}

void superpose_out(Tensor& out, const Tensor& vectors, const OptionalTensor& weights, bool normalize, double eps) {
  static const auto op =
      typed_operator<void(const Tensor&, const OptionalTensor&, bool, double, Tensor&)>("torch_hrr::superpose", "out");
  op.call(vectors, weights, normalize, eps, out);
}

Tensor connectome_inputs(const Tensor& winners, int64_t n, double p, int64_t seed, int64_t fiber, int64_t brain) {
  static const auto op = typed_operator<Tensor(const Tensor&, c10::SymInt, double, int64_t, int64_t, int64_t)>(
      "torch_hrr::connectome_inputs");
  return op.call(winners, n, p, seed, fiber, brain);
}

namespace hrr {

using Gradients = std::tuple<Tensor, Tensor>;

Gradients bind_backward(const Tensor& grad, const Tensor& a, const Tensor& b) {
  static const auto op =
      typed_operator<Gradients(const Tensor&, const Tensor&, const Tensor&)>("torch_hrr::_bind_backward");
  return op.call(grad, a, b);
}

Gradients unbind_backward(const Tensor& grad, const Tensor& bound, const Tensor& role) {
  static const auto op =
      typed_operator<Gradients(const Tensor&, const Tensor&, const Tensor&)>("torch_hrr::_unbind_backward");
  return op.call(grad, bound, role);
}

Gradients bind_normalize_backward(const Tensor& grad, const Tensor& a, const Tensor& b, double eps) {
  static const auto op = typed_operator<Gradients(const Tensor&, const Tensor&, const Tensor&, double)>(
      "torch_hrr::_bind_normalize_backward");
  return op.call(grad, a, b, eps);
}

}  // namespace hrr
}  // namespace torch_hrr

const char* torch_hrr_build_info() {
  static const std::string info = [] {
    std::string text = std::string("version=") + TORCH_HRR_VERSION + "\ntorch=" + TORCH_VERSION +
                       "\ncuda=" + TORCH_HRR_CUDA_VERSION + "\n";
    try {
      return text + "isa=" + torch_hrr::kernels::isa_name(torch_hrr::kernels::active_isa()) + "\n";
    } catch (const std::exception& error) {
      return text + "error=" + error.what() + "\n";
    }
  }();
  return info.c_str();
}
