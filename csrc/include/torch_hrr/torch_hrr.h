// Operators of torch_hrr for C++ programs. They run on every device the library was built for. Where bits are said to
// be the same on every device, tests compare those of the CPU with those of the CUDA kernels run on the host.
//
// Holographic reduced representations: all are differentiable. D is the last dimension; leading dimensions broadcast as
// in torch.mul. float32, float64, float16 and bfloat16 (the half types are computed in float32); mixed types promote. A
// row that holds NaN or infinity gives a NaN row. A row's bits depend on that row, D, dtype, operator and machine
// alone: not on the batch, its neighbours, threads or layout. On CUDA, according to tests that run the kernels on the
// host, this holds for lengths that do not go through cuFFT.
//
// Wrong types raise c10::TypeError, bad values c10::ValueError, bad indices c10::IndexError, anything else c10::Error,
// before any work.
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>
#include <string>
#include <string_view>
#include <tuple>

#if defined(_WIN32)
#define TORCH_HRR_API
#else
#define TORCH_HRR_API __attribute__((visibility("default")))
#endif

namespace torch_hrr {

// c[n] = sum_m a[m] b[(n-m) mod D]: circular convolution.
TORCH_HRR_API at::Tensor bind(const at::Tensor& a, const at::Tensor& b);

// c[n] = sum_m bound[(n+m) mod D] role[m]: circular correlation, the approximate inverse of bind.
TORCH_HRR_API at::Tensor unbind(const at::Tensor& bound, const at::Tensor& role);

// bind(a, b) / max(norm2, eps), in one pass.
TORCH_HRR_API at::Tensor bind_normalize(const at::Tensor& a, const at::Tensor& b, double eps = 1e-12);

// sum_k weights[..., k] vectors[..., k, :], divided by max(norm2, eps) if normalize is set.
TORCH_HRR_API at::Tensor superpose(const at::Tensor& vectors, const std::optional<at::Tensor>& weights = std::nullopt,
                                   bool normalize = true, double eps = 1e-12);

// sum_k weights[..., k] bind(a[..., k, :], b[..., k, :]), normalised as above.
TORCH_HRR_API at::Tensor bind_superpose(const at::Tensor& a, const at::Tensor& b,
                                        const std::optional<at::Tensor>& weights = std::nullopt, bool normalize = false,
                                        double eps = 1e-12);

// vectors[..., 0, :] bind vectors[..., 1, :] bind ...: K = 0 gives the delta vector.
TORCH_HRR_API at::Tensor multibind(const at::Tensor& vectors);

// Bin by bin of the row's spectrum A. A bin is empty if |A_k| <= eps(dtype) sqrt(D) norm2(a).
// conj(A) / max(|A|^2, eps), 0 where empty: the inverse under bind.
TORCH_HRR_API at::Tensor inverse(const at::Tensor& a, double eps = 0);
// A / |A|, 1 where empty.
TORCH_HRR_API at::Tensor unitary(const at::Tensor& a);
// A^exponent, where empty 0^exponent: 1 for 0, else 0; a negative real bin gives |A|^e cos(pi e). Exponents [...]
// broadcast with the rows.
TORCH_HRR_API at::Tensor bind_power(const at::Tensor& a, const at::Tensor& exponent);
TORCH_HRR_API at::Tensor bind_power(const at::Tensor& a, double exponent);

// The bins A_k = sum_n a[n] e^{-2 pi i nk/D} as D real numbers: A_0, Re A_1, Im A_1, Re A_2, Im A_2, ... and, where D
// is even, A_{D/2}.
TORCH_HRR_API at::Tensor spectrum(const at::Tensor& a);
// Its inverse.
TORCH_HRR_API at::Tensor from_spectrum(const at::Tensor& spectrum);
// bind(a, from_spectrum(spectrum)) and unbind(bound, from_spectrum(spectrum)), in two transforms instead of three.
TORCH_HRR_API at::Tensor bind_spectrum(const at::Tensor& a, const at::Tensor& spectrum);
TORCH_HRR_API at::Tensor unbind_spectrum(const at::Tensor& bound, const at::Tensor& spectrum);

// a[..., pi^power(n)] with a random permutation pi of D that depends on the seed alone; power = -1 is the inverse.
TORCH_HRR_API at::Tensor permute(const at::Tensor& a, int64_t seed, int64_t power = 1);

// Codes of eight bits, int8, of rows [..., D], D >= 1, and bounds float32 [..., 2] of each: s and e with
// norm2(x / norm2(x) - s codes) <= e. A row without codes (NaN, infinity, or beyond 1e-15 to 1e15) has zeros and an
// infinite e. No derivative.
TORCH_HRR_API std::tuple<at::Tensor, at::Tensor> quantize_rows(const at::Tensor& rows);
// The top_k rows [N, D] of the largest cosine with each query [..., D], best first: cosines and row numbers, int64,
// each
// [..., top_k]. Exact: the codes and bounds of quantize_rows(rows) only exclude rows. Equal cosines go by `order`,
// int64 [N], different numbers below N, or the row number; a row whose order is -1 is absent. NaN comes last. Bits
// depend on the query, the rows found and the machine. Differentiable in the query.
TORCH_HRR_API std::tuple<at::Tensor, at::Tensor> quantized_cleanup(const at::Tensor& query, const at::Tensor& rows,
                                                                   const at::Tensor& codes, const at::Tensor& bounds,
                                                                   int64_t top_k, const at::Tensor& order = {});

// The same into a preallocated result of the right shape and dtype that shares no memory with an input; no gradient.
TORCH_HRR_API void bind_out(at::Tensor& out, const at::Tensor& a, const at::Tensor& b);
TORCH_HRR_API void unbind_out(at::Tensor& out, const at::Tensor& bound, const at::Tensor& role);
TORCH_HRR_API void bind_normalize_out(at::Tensor& out, const at::Tensor& a, const at::Tensor& b, double eps = 1e-12);
TORCH_HRR_API void superpose_out(at::Tensor& out, const at::Tensor& vectors,
                                 const std::optional<at::Tensor>& weights = std::nullopt, bool normalize = true,
                                 double eps = 1e-12);

// Assemblies of neurons.

// The k largest elements of each row inputs[..., n] and where they are, int64: NaN is the largest, -0 equals +0, the
// lower index comes first. By ascending index or, if sorted, by descending value (equal ones by ascending index).
// float32, float64, float16, bfloat16, int32 and int64; values carry the inputs' bits and have a gradient. The result
// is the same on every device.
TORCH_HRR_API std::tuple<at::Tensor, at::Tensor> k_winners(const at::Tensor& inputs, int64_t k, bool sorted = false);

// result[..., j] = the number of i in winners[..., k] (int64, each as often as it occurs) for which (i, j) is an edge
// of the random graph of density p that (seed, fiber, brain), each modulo 2^64, name; int32 [..., n], the same bits on
// every device, no gradient.
TORCH_HRR_API at::Tensor connectome_inputs(const at::Tensor& winners, int64_t n, double p, int64_t seed, int64_t fiber,
                                           int64_t brain = 0);

// 1 for the k largest of the last dimension, lower index first among equal ones, else 0. The derivative is that of the
// soft winners y = F((x - t) / temperature), sum y = k, which soft gives instead: F is the logistic function (surrogate
// "sigmoid") or Laplace's distribution function ("laplace"); "ste" passes gradients unchanged, "none" gives 0.
TORCH_HRR_API at::Tensor k_cap(const at::Tensor& inputs, int64_t k, double temperature = 1,
                               std::string_view surrogate = "sigmoid", bool soft = false);

// Rounds of a batch of brains (torch_hrr.assembly.Brain), in place: each target's winners become the k neurons with the
// largest sums of what fires into it, then synapses grow by 1 + beta. No derivative; the same bits on every device. A
// torch_hrr.assembly.Projection holds such a state, lets its tables grow, and can be scripted. The lists hold in order
//   layout  brains, rounds (at most so many are left to any brain), areas, fibers, stimuli; of each area n, k, whether
//           its winners stay, what a win adds to its bias (2^-24), its refractory period, whether ties go by a key, the
//           key's number; of each fiber source and target (places of areas), whether it learns, whether its graph is
//           drawn, its number; of each stimulus target, whether it learns.
//   rates   of each fiber p, beta, w_max; of each stimulus beta, w_max.
//   state   int64 [brains] that with the seed names each brain, or [0]: they are 0, 1, ...; then, with a row for each
//           brain but for the penalties,
//           of each area winners int64 [k], their count int64 [], slots of neurons int32 [n] (-1: none), neurons of
//           slots int32 [C], whether those won uint8 [C], slots in use and neurons that ever won int64 [2], bias int64
//           [n] or [0], rounds since the last win int32 [n] or [0], penalties int64 [period];
//           of each fiber base counts int32 [n] ([0] of a graph of one's own), the winners they are of int64 [k] and
//           their count int64 [] (-1: none), of each source slot the first chunk, the edges and the target slots they
//           are known to int32 [C] each, next chunk int32 [M], target slots int32 and weights float32 of chunks
//           [M, 16], chunks in use int64 [], scales float64 and sums int64 of columns [n] or [0];
//           of each stimulus its sums int32 [n] and weights by target slot float32 [C];
//           last the progress int64 [1 + fibers]: rounds left, and the chunks that each fiber needs.
// An area must have C >= min(n, slots in use + (rounds left + 1) k). Where M falls short, rounds are left. Sizes,
// types, counts and winners are checked and, on a CPU, every number that serves as an index, those of neurons and edges
// when a round comes to them: the rounds before it stay. c10::ValueError for a rate out of range, c10::IndexError for
// winners that do not ascend in 0..n - 1 and for an index out of range, else c10::Error.
TORCH_HRR_API void project_(at::TensorList state, at::IntArrayRef layout, at::ArrayRef<double> rates, int64_t seed);

// Sinusoids of positions (integers or floating; their derivatives are those of floating ones). With angles t_i =
// position f_i + phase: sin t_0, cos t_0, sin t_1, ... (layout "interleaved") or all sines, then all cosines ("half").
// The angle is an exact fraction of a turn, so no position is too large: the error of float32 stays below 1.5e-7 to
// 2^31. The same bits on every device. Without a dtype the result has that of floating positions, else float32; half
// types are rounded from float32. A position that is NaN or infinite gives a NaN row.

// f_i = scale base^(-2i/dim); an odd dim lacks the last cosine.
TORCH_HRR_API at::Tensor sinusoidal_encoding(const at::Tensor& positions, int64_t dim, double base = 10000,
                                             double scale = 1, double phase = 0,
                                             std::string_view layout = "interleaved",
                                             std::optional<at::ScalarType> dtype = std::nullopt);
// f = frequencies[F] and phase[F] or 0, as held by the tensors, both with derivatives; [..., 2F].
TORCH_HRR_API at::Tensor sinusoidal_features(const at::Tensor& positions, const at::Tensor& frequencies,
                                             const std::optional<at::Tensor>& phase = std::nullopt,
                                             std::string_view layout = "interleaved",
                                             std::optional<at::ScalarType> dtype = std::nullopt);
// (table[tokens] + encoding of positions) / temperature in the table's dtype, [..., L, dim]; rows of tokens equal to
// padding_idx are 0, unless it is negative. tokens[..., L] are int32 or int64; without positions they are 0 to L - 1. A
// token outside the table is an error on the CPU and gives a NaN row on a GPU.
TORCH_HRR_API at::Tensor embed_positions(const at::Tensor& tokens, const at::Tensor& table,
                                         const std::optional<at::Tensor>& positions = std::nullopt,
                                         int64_t padding_idx = -1, double temperature = 1, double base = 10000,
                                         double scale = 1, double phase = 0, std::string_view layout = "interleaved",
                                         std::optional<at::ScalarType> dtype = std::nullopt);
// The same into a preallocated result, whose dtype and last dimension decide.
TORCH_HRR_API void sinusoidal_encoding_out(at::Tensor& out, const at::Tensor& positions, double base = 10000,
                                           double scale = 1, double phase = 0, std::string_view layout = "interleaved");
TORCH_HRR_API void sinusoidal_features_out(at::Tensor& out, const at::Tensor& positions, const at::Tensor& frequencies,
                                           const std::optional<at::Tensor>& phase = std::nullopt,
                                           std::string_view layout = "interleaved");
TORCH_HRR_API void embed_positions_out(at::Tensor& out, const at::Tensor& tokens, const at::Tensor& table,
                                       const std::optional<at::Tensor>& positions = std::nullopt,
                                       int64_t padding_idx = -1, double temperature = 1, double base = 10000,
                                       double scale = 1, double phase = 0, std::string_view layout = "interleaved");

// Rows x[..., D] turned by their positions, which broadcast with them: of the first `dims` elements (all without it)
// the pair (s, c) at 2i and 2i + 1 (layout "interleaved") or i and i + dims/2 ("half") becomes factor (s cos a + c sin
// a, c cos a - s sin a), where a = position f_i, or with `inverse` -a, as published rotary embeddings turn; what
// follows is copied. f_i = scale base^(-2i/dims), or frequencies[dims/2], which leaves base and scale at their
// defaults. Angles are exact as above; half types are computed in float and rounded once. Derivatives by x, frequencies
// and floating positions.
TORCH_HRR_API at::Tensor rotate(const at::Tensor& x, const at::Tensor& positions,
                                const std::optional<at::Tensor>& frequencies = std::nullopt, double base = 10000,
                                double scale = 1, std::string_view layout = "interleaved", double factor = 1,
                                std::optional<int64_t> dims = std::nullopt, bool inverse = false);
// The same into a preallocated result that shares no memory with x, and in place.
TORCH_HRR_API void rotate_out(at::Tensor& out, const at::Tensor& x, const at::Tensor& positions,
                              const std::optional<at::Tensor>& frequencies = std::nullopt, double base = 10000,
                              double scale = 1, std::string_view layout = "interleaved", double factor = 1,
                              std::optional<int64_t> dims = std::nullopt, bool inverse = false);
TORCH_HRR_API void rotate_(at::Tensor& x, const at::Tensor& positions,
                           const std::optional<at::Tensor>& frequencies = std::nullopt, double base = 10000,
                           double scale = 1, std::string_view layout = "interleaved", double factor = 1,
                           std::optional<int64_t> dims = std::nullopt, bool inverse = false);

// Steps of a field [..., D, H, W, C]: f <- (1 - decay) f, then f <- f + diffusion * difference(f), then f <- f + noise
// * N(0, 1), rounded to f's dtype. stencil: "laplace" (sum of six neighbours - 6 f, stable up to 1/6), "box" or
// "binomial" (mean of 27 elements - f, up to 1); boundary: "replicate", "zeros" or "circular". The key, uint64 or int64
// (seed, offset), is needed where noise is above 0; a step takes ceil(f.numel() / 4) counters. 0-d tensors of decay and
// diffusion have derivatives.
TORCH_HRR_API at::Tensor field_evolve(const at::Tensor& field, const at::Tensor& decay, const at::Tensor& diffusion,
                                      int64_t steps = 1, std::string_view boundary = "replicate",
                                      std::string_view stencil = "laplace", double noise = 0,
                                      const std::optional<at::Tensor>& key = std::nullopt);
TORCH_HRR_API at::Tensor field_evolve(const at::Tensor& field, double decay, double diffusion, int64_t steps = 1,
                                      std::string_view boundary = "replicate", std::string_view stencil = "laplace",
                                      double noise = 0, const std::optional<at::Tensor>& key = std::nullopt);
// The same into a preallocated result that shares no memory with the field.
TORCH_HRR_API void field_evolve_out(at::Tensor& out, const at::Tensor& field, double decay, double diffusion,
                                    int64_t steps = 1, std::string_view boundary = "replicate",
                                    std::string_view stencil = "laplace", double noise = 0,
                                    const std::optional<at::Tensor>& key = std::nullopt);

// Sobel's derivatives of a field [..., D, H, W, C] by depth, height and width, [..., 3, D, H, W, C], beyond whose
// border lies the nearest element; and their norm, [..., D, H, W, C]. Divided by 32, which makes them exact for linear
// and quadratic fields, unless `normalize` is false.
TORCH_HRR_API at::Tensor field_gradient(const at::Tensor& field, bool normalize = true);
TORCH_HRR_API void field_gradient_out(at::Tensor& out, const at::Tensor& field, bool normalize = true);
TORCH_HRR_API at::Tensor gradient_magnitude(const at::Tensor& field, bool normalize = true);
TORCH_HRR_API void gradient_magnitude_out(at::Tensor& out, const at::Tensor& field, bool normalize = true);

// A layer y = f(x W^T) that learns at ticks 0, every, 2 every, ... of inputs [..., T, n] or [..., T, B, n], weight
// [..., m, n]: W += lr (dW - decay W), where dW is a mean over the batch, and with `normalize` every row is then scaled
// to norm 1. rule: "hebb", "oja", "gha", "subspace", "bcm", whose theta [..., m] starts at 1 if not given, or
// "softhebb", whose outputs are softmax(x W^T / temperature). Of softhebb alone: units other than a sample's winner
// learn with the factor `losers`; `scaled` divides a step by its largest element; `power` is the exponent with which a
// unit's rate falls as its row comes to norm 1. Returns the outputs [..., ceil(T / every), (B,) m], each from the
// weights before its update, weight and theta ([..., 0] for rules without one); all have derivatives.
TORCH_HRR_API std::tuple<at::Tensor, at::Tensor, at::Tensor> plastic_scan(
    const at::Tensor& inputs, const at::Tensor& weight, std::string_view rule = "oja", double lr = 1e-3,
    std::string_view activation = "tanh", int64_t every = 1, const std::optional<at::Tensor>& theta = std::nullopt,
    double tau = 100, double decay = 0, bool normalize = false, double temperature = 1, double losers = 1,
    bool scaled = false, double power = 0);

// Which kernel serves rows of `dim` numbers, in a sentence: of op "bind", "unitary" and the like, dtype "float32",
// "float64", "float16" or "bfloat16", device "cpu" or "cuda". Where there is no GPU, for one with 227 KiB of shared
// memory a block, as H100 and H200 have.
TORCH_HRR_API std::string row_plan(const std::string& op, int64_t dim, const std::string& dtype = "float32",
                                   const std::string& device = "cpu");

}  // namespace torch_hrr

// The same, valid until the thread's next call; for bad arguments "error=" and the message.
extern "C" TORCH_HRR_API const char* torch_hrr_row_plan(const char* op, int64_t dim, const char* dtype,
                                                        const char* device);

// "key=value" lines: version, torch, cuda, isas (what the CPU kernels were built for), processor (the best of this
// machine), isa (what is used). The instruction set is chosen at the first call (TORCH_HRR_ISA forces one); an unknown
// or unavailable name gives an "error=" line.
extern "C" TORCH_HRR_API const char* torch_hrr_build_info();
