// Every operator of the library: the public contract. Names that begin with _ are private.
#include <ATen/core/enum_tag.h>
#include <torch/library.h>

TORCH_LIBRARY(torch_hrr, m) {
  const std::vector<at::Tag> tags = {at::Tag::pt2_compliant_tag};

  // Holographic reduced representations
  m.def("bind(Tensor a, Tensor b) -> Tensor", tags);
  m.def("bind.out(Tensor a, Tensor b, *, Tensor(a!) out) -> ()", tags);
  m.def("unbind(Tensor bound, Tensor role) -> Tensor", tags);
  m.def("unbind.out(Tensor bound, Tensor role, *, Tensor(a!) out) -> ()", tags);
  m.def("bind_normalize(Tensor a, Tensor b, float eps=1e-12) -> Tensor", tags);
  m.def("bind_normalize.out(Tensor a, Tensor b, float eps=1e-12, *, Tensor(a!) out) -> ()", tags);
  m.def("superpose(Tensor vectors, Tensor? weights=None, bool normalize=True, float eps=1e-12) -> Tensor", tags);
  m.def(
      "superpose.out(Tensor vectors, Tensor? weights=None, bool normalize=True, float eps=1e-12, *, "
      "Tensor(a!) out) -> ()",
      tags);
  m.def("bind_superpose(Tensor a, Tensor b, Tensor? weights=None, bool normalize=False, float eps=1e-12) -> Tensor",
        tags);
  m.def("multibind(Tensor vectors) -> Tensor", tags);
  m.def("inverse(Tensor a, float eps=0.) -> Tensor", tags);
  m.def("unitary(Tensor a) -> Tensor", tags);
  m.def("bind_power.Tensor(Tensor a, Tensor exponent) -> Tensor", tags);
  m.def("bind_power(Tensor a, float exponent) -> Tensor", tags);
  m.def("spectrum(Tensor a) -> Tensor", tags);
  m.def("from_spectrum(Tensor spectrum) -> Tensor", tags);
  m.def("bind_spectrum(Tensor a, Tensor spectrum) -> Tensor", tags);
  m.def("unbind_spectrum(Tensor bound, Tensor spectrum) -> Tensor", tags);
  m.def("permute(Tensor a, int seed, int power=1) -> Tensor", tags);
  m.def("quantize_rows(Tensor rows) -> (Tensor codes, Tensor bounds)", tags);
  m.def(
      "quantized_cleanup(Tensor query, Tensor rows, Tensor codes, Tensor bounds, Tensor? order, SymInt top_k) -> "
      "(Tensor cosines, Tensor indices)",
      tags);
  m.def("_bind_backward(Tensor grad, Tensor a, Tensor b) -> (Tensor, Tensor)", tags);
  m.def("_unbind_backward(Tensor grad, Tensor bound, Tensor role) -> (Tensor, Tensor)", tags);
  m.def("_bind_normalize_backward(Tensor grad, Tensor a, Tensor b, float eps) -> (Tensor, Tensor)", tags);
  m.def("_multibind_backward(Tensor grad, Tensor vectors) -> Tensor", tags);
  m.def("_cut_inverse(Tensor a, float eps) -> Tensor", tags);
  m.def("_inverse_backward(Tensor grad, Tensor a, float eps) -> Tensor", tags);
  m.def("_unitary_jacobian(Tensor v, Tensor a) -> Tensor", tags);
  m.def("_bind_power_log(Tensor a, Tensor exponent, int order) -> Tensor", tags);
  m.def("_bind_power_backward(Tensor grad, Tensor a, Tensor exponent) -> Tensor", tags);
  m.def("_power_product(Tensor spectra, Tensor exponents) -> Tensor", tags);

  // Assemblies of neurons
  m.def("k_winners(Tensor inputs, SymInt k, bool sorted=False) -> (Tensor values, Tensor indices)", tags);
  m.def("connectome_inputs(Tensor winners, SymInt n, float p, int seed, int fiber, int brain=0) -> Tensor", tags);
  m.def("k_cap(Tensor inputs, SymInt k, float temperature=1., str surrogate='sigmoid', bool soft=False) -> Tensor",
        tags);
  m.def("_k_cap_backward(Tensor grad, Tensor inputs, SymInt k, float temperature, str surrogate) -> Tensor", tags);
  m.def("project_(Tensor(a!)[] state, int[] layout, float[] rates, int seed) -> ()", tags);
  m.def(
      "_project_part_(Tensor(a!)[] state, Tensor(b!)[] winners, Tensor(c!)[] inputs, int[] layout, float[] rates, "
      "int[] first, int seed) -> ()",
      tags);
  m.def(
      "_connectome_counts_(Tensor(a!) counts, Tensor rows, int first, int sign, float p, int seed, int fiber, "
      "int brain=0) -> ()",
      tags);
  m.def("_stimulus_counts_(Tensor(a!) counts, int size, float p, int seed, int fiber, int first=0) -> ()", tags);

  // Sinusoids of positions
  m.def(
      "sinusoidal_encoding(Tensor positions, SymInt dim, float base=10000., float scale=1., float phase=0., "
      "str layout='interleaved', ScalarType? dtype=None) -> Tensor",
      tags);
  m.def(
      "sinusoidal_encoding.out(Tensor positions, SymInt dim, float base=10000., float scale=1., float phase=0., "
      "str layout='interleaved', ScalarType? dtype=None, *, Tensor(a!) out) -> ()",
      tags);
  m.def(
      "sinusoidal_features(Tensor positions, Tensor frequencies, Tensor? phase=None, str layout='interleaved', "
      "ScalarType? dtype=None) -> Tensor",
      tags);
  m.def(
      "sinusoidal_features.out(Tensor positions, Tensor frequencies, Tensor? phase=None, str layout='interleaved', "
      "ScalarType? dtype=None, *, Tensor(a!) out) -> ()",
      tags);
  m.def(
      "_sinusoidal_features_backward(Tensor grad, Tensor positions, Tensor frequencies, Tensor? phase, str layout) "
      "-> Tensor",
      tags);
  m.def(
      "embed_positions(Tensor tokens, Tensor table, Tensor? positions=None, int padding_idx=-1, "
      "float temperature=1., float base=10000., float scale=1., float phase=0., str layout='interleaved', "
      "ScalarType? dtype=None) -> Tensor",
      tags);
  m.def(
      "embed_positions.out(Tensor tokens, Tensor table, Tensor? positions=None, int padding_idx=-1, "
      "float temperature=1., float base=10000., float scale=1., float phase=0., str layout='interleaved', "
      "ScalarType? dtype=None, *, Tensor(a!) out) -> ()",
      tags);

  m.def(
      "rotate(Tensor x, Tensor positions, Tensor? frequencies=None, float base=10000., float scale=1., "
      "str layout='interleaved', float factor=1., SymInt? dims=None, bool inverse=False) -> Tensor",
      tags);
  m.def(
      "rotate.out(Tensor x, Tensor positions, Tensor? frequencies=None, float base=10000., float scale=1., "
      "str layout='interleaved', float factor=1., SymInt? dims=None, bool inverse=False, "
      "*, Tensor(a!) out) -> ()",
      tags);
  m.def(
      "rotate_(Tensor(a!) x, Tensor positions, Tensor? frequencies=None, float base=10000., float scale=1., "
      "str layout='interleaved', float factor=1., SymInt? dims=None, bool inverse=False) -> ()",
      tags);

  // Fields in three dimensions
  m.def(
      "field_evolve.Tensor(Tensor field, Tensor decay, Tensor diffusion, SymInt steps=1, str boundary='replicate', "
      "str stencil='laplace', float noise=0., Tensor? key=None) -> Tensor",
      tags);
  m.def(
      "field_evolve(Tensor field, float decay, float diffusion, SymInt steps=1, str boundary='replicate', "
      "str stencil='laplace', float noise=0., Tensor? key=None) -> Tensor",
      tags);
  m.def(
      "field_evolve.out(Tensor field, float decay, float diffusion, SymInt steps=1, str boundary='replicate', "
      "str stencil='laplace', float noise=0., Tensor? key=None, *, Tensor(a!) out) -> ()",
      tags);
  m.def(
      "_field_evolve_part(Tensor field, float decay, float diffusion, SymInt origin, SymInt depth, "
      "str boundary='replicate', str stencil='laplace', float noise=0., Tensor? key=None) -> Tensor",
      tags);
  m.def(
      "_field_evolve_part.out(Tensor field, float decay, float diffusion, SymInt origin, SymInt depth, "
      "str boundary='replicate', str stencil='laplace', float noise=0., Tensor? key=None, *, Tensor(a!) out) -> ()",
      tags);
  m.def("_field_moments(Tensor field, float small) -> Tensor", tags);
  m.def("_field_moments.out(Tensor field, float small, *, Tensor(a!) out) -> ()", tags);
  m.def(
      "_field_control_(Tensor(a!) field, Tensor(b!) weights, Tensor(c!) state, Tensor(d!) prediction, Tensor(e!) key, "
      "Tensor(f!) result, Tensor places, Tensor sensory, Tensor reward, Tensor ended, float decay, float diffusion, "
      "float discount, float critic_rate, float motor_rate, float correlation, float deviation, bool learns, "
      "bool discrete, bool dense) -> ()",
      tags);
  m.def("field_gradient(Tensor field, bool normalize=True) -> Tensor", tags);
  m.def("field_gradient.out(Tensor field, bool normalize=True, *, Tensor(a!) out) -> ()", tags);
  m.def("_field_gradient_backward(Tensor derivatives, bool normalize=True) -> Tensor", tags);
  m.def("gradient_magnitude(Tensor field, bool normalize=True) -> Tensor", tags);
  m.def("gradient_magnitude.out(Tensor field, bool normalize=True, *, Tensor(a!) out) -> ()", tags);

  // Layers that learn
  m.def(
      "plastic_scan(Tensor inputs, Tensor weight, str rule='oja', float lr=0.001, str activation='tanh', int every=1, "
      "Tensor? theta=None, float tau=100., float decay=0., bool normalize=False, float temperature=1., "
      "float losers=1., bool scaled=False, float power=0.) -> (Tensor, Tensor, Tensor)",
      tags);
  m.def(
      "_plastic_scan_backward(Tensor inputs, Tensor weight, Tensor? theta, Tensor? grad_outputs, Tensor? grad_weight, "
      "Tensor? grad_theta, bool for_inputs, str rule, float lr, str activation, int every, float tau, float decay, "
      "bool normalize, float temperature, float losers, bool scaled, float power) -> (Tensor, Tensor, Tensor)",
      tags);
  m.def(
      "_plastic_scan_tangent(Tensor inputs, Tensor weight, Tensor? theta, Tensor? tangent_inputs, "
      "Tensor? tangent_weight, Tensor? tangent_theta, str rule, float lr, str activation, int every, float tau, "
      "float decay, bool normalize, float temperature, float losers, bool scaled, float power) -> (Tensor, Tensor, "
      "Tensor)",
      tags);
}
