// Calls of operators from bytes, each watched for what operators.h says.
#include "operators.h"

#include <ATen/ATen.h>
#include <ATen/MemoryOverlap.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <c10/core/CPUAllocator.h>
#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/forward_grad.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <optional>
#include <sstream>
#include <tuple>
#include <vector>

namespace torch_hrr::fuzz {
namespace {

using at::Tensor;
using c10::IValue;
using Stack = std::vector<IValue>;

constexpr int64_t kMostElements = 1 << 14;
constexpr int64_t kSizes[] = {240,
                              255,
                              256,
                              257,
                              512,
                              1000,
                              1024,
                              4096,
                              4099,
                              1 << 16,
                              int64_t{1} << 31,
                              int64_t{1} << 32,
                              int64_t{1} << 40,
                              int64_t{1} << 59,
                              int64_t{1} << 62,
                              65537};
constexpr at::ScalarType kDtypes[] = {
    at::kFloat, at::kDouble, at::kHalf, at::kBFloat16,     at::kLong,          at::kInt,          at::kShort,
    at::kChar,  at::kByte,   at::kBool, at::kComplexFloat, at::kComplexDouble, at::kFloat8_e4m3fn};
constexpr size_t kMostBytes = 32 << 20;
constexpr const char* kShortOfMemory = "memory is short";
// A call of more steps does what fewer do, for longer.
constexpr int64_t kMostSteps = 64;

const std::vector<c10::OperatorHandle>& operators() {
  static const std::vector<c10::OperatorHandle> found = [] {
    std::vector<c10::OperatorName> names;
    for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
      if (name.name.starts_with("torch_hrr::")) {
        names.push_back(name);
      }
    }
    std::sort(names.begin(), names.end(), [](const auto& a, const auto& b) {
      return std::tie(a.name, a.overload_name) < std::tie(b.name, b.overload_name);
    });
    std::vector<c10::OperatorHandle> handles;
    for (const c10::OperatorName& name : names) {
      handles.push_back(c10::Dispatcher::singleton().findSchemaOrThrow(name.name.c_str(), name.overload_name.c_str()));
    }
    return handles;
  }();
  return found;
}

bool is_operator(const std::string& name) {
  return std::any_of(operators().begin(), operators().end(),
                     [&](const c10::OperatorHandle& op) { return op.schema().name() == "torch_hrr::" + name; });
}

class Reader {
 public:
  Reader(const uint8_t* data, size_t size) : data_(data), left_(size) {}

  uint8_t byte() {
    if (left_ == 0) {
      return 0;
    }
    --left_;
    return *data_++;
  }
  template <typename T>
  T number() {
    uint8_t bytes[sizeof(T)];
    std::generate(std::begin(bytes), std::end(bytes), [this] { return byte(); });
    T value;
    std::memcpy(&value, bytes, sizeof(T));
    return value;
  }
  std::string text() {
    std::string text(byte(), ' ');
    std::generate(text.begin(), text.end(), [this] { return static_cast<char>(byte()); });
    return text;
  }

 private:
  const uint8_t* data_;
  size_t left_;
};

enum Values : uint8_t {
  kUniform,
  kZeros,
  kOnes,
  kNan,
  kInfinite,
  kTiny,
  kLarge,
  kBelow,
  kAscending,
  kExtreme,
  kBytes,
  kNumbers,
  kValues
};

// `count` values, in float64 or int64.
Tensor values(Reader& in, int64_t count, bool integral) {
  const auto kind = static_cast<Values>(in.byte() % kValues);
  const uint8_t parameter = in.byte();
  uint64_t random = parameter + 1;
  const Tensor tensor = at::empty({count}, integral ? at::kLong : at::kDouble);
  const auto value_at = [&](int64_t i) -> double {
    random = random * 6364136223846793005u + 1442695040888963407u;
    const double uniform = static_cast<double>(random >> 11) * 0x1p-53;
    switch (kind) {
      case kZeros:
        return 0;
      case kOnes:
        return 1;
      case kNan:
        return i == parameter % count ? std::numeric_limits<double>::quiet_NaN() : uniform;
      case kInfinite:
        return i == parameter % count ? std::numeric_limits<double>::infinity() : uniform;
      case kTiny:
        return 1e-42 * uniform;
      case kLarge:
        return 1e30 * uniform;
      case kBelow:
        return std::floor(uniform * (1 + parameter));
      case kAscending:
        return static_cast<double>(i + parameter);
      case kBytes:
        return static_cast<int8_t>(in.byte());
      case kExtreme:
        return i % 2 == 0 ? 0x1p127 : -0x1p127;
      case kNumbers:
        return in.number<double>();
      default:
        return 2 * uniform - 1;
    }
  };
  if (!integral) {
    double* const data = tensor.mutable_data_ptr<double>();
    for (int64_t i = 0; i < count; ++i) {
      data[i] = value_at(i);
    }
    return tensor;
  }
  int64_t* const data = tensor.mutable_data_ptr<int64_t>();
  for (int64_t i = 0; i < count; ++i) {
    if (kind == kNumbers) {
      data[i] = in.number<int64_t>();
    } else if (kind == kExtreme) {
      data[i] = i % 2 == 0 ? std::numeric_limits<int64_t>::max() : std::numeric_limits<int64_t>::min();
    } else {
      const double value = value_at(i);
      data[i] = std::abs(value) < 0x1p62 ? static_cast<int64_t>(value) : -1;
    }
  }
  return tensor;
}

enum Layout : uint8_t {
  kContiguous,
  kStrided,
  kPermuted,
  kExpanded,
  kOffset,
  kWindows,
  kSparse,
  kMeta,
  kUndefined,
  kSame,
  kPart,
  kNegative,
  kConjugate,
  kQuantized,
  kNested,
  kZeroTensor,
  kLayouts
};

// Raises what torch does where there is no such tensor. `before` is the tensor argument before this one, if any.
Tensor tensor(Reader& in, const Tensor& before) {
  const auto layout = static_cast<Layout>(in.byte() % kLayouts);
  if (layout == kUndefined) {
    return {};
  }
  if (layout == kSame) {
    return before;
  }
  const at::ScalarType dtype = kDtypes[in.byte() % std::size(kDtypes)];
  std::vector<int64_t> sizes(in.byte() % 6);
  std::generate(sizes.begin(), sizes.end(), [&in] {
    const uint8_t code = in.byte();
    return code < 240 ? code : kSizes[code - 240];
  });
  // Of the elements, and of what a size of zero hides.
  int64_t count = 1, extent = 1;
  for (const int64_t size : sizes) {
    count = size == 0 ? 0 : std::min(count, kMostElements + 1) * std::min(size, kMostElements + 1);
    extent = std::min(extent, kMostElements + 1) * std::clamp<int64_t>(size, 1, kMostElements + 1);
  }
  // Nothing larger is computed here, but Meta must answer, and a size of zero beside a large one is no memory.
  if (layout == kMeta || extent > kMostElements) {
    return at::empty(sizes, at::TensorOptions(layout == kMeta || count != 0 ? at::kMeta : at::kCPU).dtype(dtype));
  }
  const bool integral = c10::isIntegralType(dtype, /*includeBool=*/true);
  const auto fill = [&](at::IntArrayRef shape) {
    return values(in, c10::multiply_integers(shape), integral).view(shape).to(dtype);
  };
  switch (layout) {
    case kStrided: {
      std::vector<int64_t> twice = sizes;
      if (!twice.empty()) {
        twice.back() *= 2;
      }
      const Tensor whole = fill(twice);
      return sizes.empty() ? whole : whole.slice(-1, 1, std::nullopt, 2);
    }
    case kPermuted: {
      std::vector<int64_t> reversed(sizes.rbegin(), sizes.rend());
      std::vector<int64_t> order(sizes.size());
      for (size_t i = 0; i < order.size(); ++i) {
        order[i] = static_cast<int64_t>(order.size() - 1 - i);
      }
      return fill(reversed).permute(order);
    }
    case kExpanded: {
      std::vector<int64_t> shape = sizes;
      std::fill_n(shape.begin(), (shape.size() + 1) / 2, 1);
      return fill(shape).expand(sizes);
    }
    case kOffset:
      return fill({count + 3}).slice(0, 3).view(sizes);
    case kWindows: {
      // Every element lies in several places.
      std::vector<int64_t> strides(sizes.size(), 1);
      int64_t extent = 1;
      for (const int64_t size : sizes) {
        extent += std::max<int64_t>(size - 1, 0);
      }
      return fill({extent}).as_strided(sizes, strides);
    }
    case kSparse:
      return fill(sizes).to_sparse();
    case kPart:
      return before.defined() && before.layout() == at::kStrided && before.is_cpu() && before.numel() >= count
                 ? before.flatten().slice(0, before.numel() - count).view(sizes)
                 : fill(sizes);
    case kNegative:
      // Torch itself negates before it calls an operator, and cannot negate the smallest types.
      return c10::isFloatingType(dtype) && dtype != at::kFloat8_e4m3fn ? at::_neg_view(fill(sizes)) : fill(sizes);
    case kConjugate:
      return fill(sizes).conj();
    case kQuantized:
      return at::quantize_per_tensor(fill(sizes).to(at::kFloat), 0.1, 0, at::kQInt8);
    case kNested:
      return at::_nested_tensor_from_tensor_list({fill(sizes), fill(sizes)});
    case kZeroTensor:
      return at::_efficientzerotensor(sizes, at::TensorOptions().dtype(dtype));
    default:
      return fill(sizes);
  }
}

IValue argument(Reader& in, const c10::TypePtr& type, const std::string& name, Tensor& before) {
  switch (type->kind()) {
    case c10::TypeKind::OptionalType:
      if (in.byte() % 2 == 0) {
        return {};
      }
      return argument(in, type->expectRef<c10::OptionalType>().getElementType(), name, before);
    case c10::TypeKind::TensorType:
      before = tensor(in, before);
      return before;
    case c10::TypeKind::IntType:
    case c10::TypeKind::SymIntType: {
      const auto value = in.number<int64_t>();
      return name == "steps" && value > kMostSteps ? value % kMostSteps : value;
    }
    case c10::TypeKind::FloatType:
      return in.number<double>();
    case c10::TypeKind::BoolType:
      return in.byte() % 2 == 1;
    case c10::TypeKind::StringType:
      return in.text();
    case c10::TypeKind::ListType: {
      const c10::TypePtr element = type->expectRef<c10::ListType>().getElementType();
      c10::impl::GenericList list(element);
      const int size = in.byte();
      for (int i = 0; i < size; ++i) {
        // The rounds of project_.
        const bool steps = name == "layout" && i == 1;
        list.push_back(argument(in, element, steps ? "steps" : name, before));
      }
      return list;
    }
    default:
      TORCH_CHECK(false, "no bytes for arguments of type ", type->str());
  }
}

// A call may ask for a result of any size.
class SmallMemory final : public at::Allocator {
 public:
  explicit SmallMemory(at::Allocator& given) : given_(given) {}

  at::DataPtr allocate(size_t bytes) override {
    TORCH_CHECK(bytes <= kMostBytes, kShortOfMemory);
    return given_.allocate(bytes);
  }
  at::DeleterFnPtr raw_deleter() const override {
    return given_.raw_deleter();
  }
  void copy_data(void* to, const void* from, size_t bytes) const override {
    given_.copy_data(to, from, bytes);
  }

 private:
  at::Allocator& given_;
};

std::vector<Tensor> tensors_of(const IValue& value) {
  if (value.isTensor()) {
    return {value.toTensor()};
  }
  return value.isTensorList() ? value.toTensorVector() : std::vector<Tensor>();
}

std::string described(const IValue& value) {
  std::ostringstream text;
  if (!value.isTensor() && !value.isTensorList()) {
    text << value;
  }
  for (const Tensor& tensor : tensors_of(value)) {
    text << "<";
    if (tensor.defined()) {
      text << tensor.scalar_type() << " " << tensor.device();
    }
    if (tensor.defined() && !tensor.is_nested()) {
      text << " " << tensor.sizes();
    }
    text << ">";
  }
  return text.str();
}

struct Call {
  c10::OperatorHandle op;
  int derivative;
  Stack arguments;
};

Call read(const uint8_t* data, size_t size) {
  Reader in(data, size);
  Call made{operators()[in.byte() % operators().size()], in.byte() % 4, {}};
  Tensor before;
  for (const c10::Argument& described : made.op.schema().arguments()) {
    made.arguments.push_back(argument(in, described.real_type(), described.name(), before));
  }
  return made;
}

bool is_plain(const Tensor& tensor) {
  return tensor.defined() && tensor.is_cpu() && tensor.layout() == at::kStrided && !tensor.is_quantized() &&
         !tensor.is_nested() && !tensor._is_zerotensor();
}

bool same_bits(const Tensor& a, const Tensor& b) {
  if (a.defined() != b.defined()) {
    return false;
  }
  if (!is_plain(a) || !is_plain(b)) {
    return true;
  }
  if (a.sizes() != b.sizes() || a.scalar_type() != b.scalar_type()) {
    return false;
  }
  const Tensor left = a.detach().resolve_neg().resolve_conj().contiguous();
  const Tensor right = b.detach().resolve_neg().resolve_conj().contiguous();
  return left.nbytes() == 0 || std::memcmp(left.const_data_ptr(), right.const_data_ptr(), left.nbytes()) == 0;
}

bool same_bits(const IValue& a, const IValue& b) {
  const std::vector<Tensor> left = tensors_of(a), right = tensors_of(b);
  return std::equal(left.begin(), left.end(), right.begin(), right.end(),
                    [](const Tensor& x, const Tensor& y) { return same_bits(x, y); });
}

// The results, in place of the arguments; what was raised, and a fault if that is none of torch's errors.
struct Result {
  Stack stack;
  std::string error;
  std::string fault;
};

Result run(const Call& made) {
  Result result{made.arguments, "", ""};
  try {
    made.op.callBoxed(result.stack);
  } catch (const c10::Error& error) {
    result.error = error.what_without_backtrace();
  } catch (const std::exception& error) {
    result.error = error.what();
    result.fault = std::string("not an error of torch: ") + error.what();
  }
  return result;
}

// How messages begin that torch raises before a kernel of ours is called, and where memory is short.
constexpr const char* kOfTorch[] = {kShortOfMemory,
                                    "Could not run '",
                                    "There were no tensor arguments to this function",
                                    "ZeroTensors are immutable",
                                    "negation fallback does not support",
                                    " fallback doesn't currently support mutable TensorLists",
                                    "Cannot copy out of meta tensor",
                                    "Storage size calculation overflowed",
                                    "Stride calculation overflowed",
                                    "numel: integer multiplication overflow"};

bool is_short_of_memory(const std::string& error) {
  return error.starts_with(kShortOfMemory);
}

// Whether a message says which operator raised it; one that a call reached may be any.
bool is_clear(const std::string& error, const std::string& name) {
  const std::string start = error.substr(0, error.find(": "));
  const bool names = start.size() < error.size() && (name.empty() ? is_operator(start) : start == name);
  return names || std::any_of(std::begin(kOfTorch), std::end(kOfTorch),
                              [&](const char* begin) { return error.starts_with(begin); });
}

void derive(const Call& made) {
  std::vector<Tensor> inputs;
  for (IValue value : made.arguments) {
    for (Tensor& tensor : tensors_of(value)) {
      const bool seen = std::any_of(inputs.begin(), inputs.end(), [&](const Tensor& x) { return x.is_same(tensor); });
      if (is_plain(tensor) && c10::isFloatingType(tensor.scalar_type()) && !seen) {
        inputs.push_back(tensor);
      }
    }
  }
  // A composition may call an operator for each item, and no memory holds so many.
  const auto is_long = [](const Tensor& x) {
    return !x.sizes().empty() && *std::ranges::max_element(x.sizes()) > 1 << 16;
  };
  if (inputs.empty() || std::any_of(inputs.begin(), inputs.end(), is_long)) {
    return;
  }
  const auto differentiable = [](const Stack& stack) {
    std::vector<Tensor> found;
    for (const IValue& value : stack) {
      for (const Tensor& tensor : tensors_of(value)) {
        if (tensor.defined() && tensor.requires_grad()) {
          found.push_back(tensor);
        }
      }
    }
    return found;
  };
  for (Tensor& tensor : inputs) {
    tensor.requires_grad_();
  }
  Stack stack = made.arguments;
  made.op.callBoxed(stack);
  for (int order = 1; order <= made.derivative; ++order) {
    std::vector<Tensor> results = differentiable(stack), ones;
    if (results.empty()) {
      return;
    }
    for (const Tensor& result : results) {
      ones.push_back(at::ones(result.sizes(), result.options()));
    }
    stack.clear();
    for (Tensor& grad : torch::autograd::grad(results, inputs, ones, true, order < made.derivative, true)) {
      stack.emplace_back(std::move(grad));
    }
  }
}

void derive_forward(const Call& made) {
  struct Level {
    uint64_t number = torch::autograd::forward_ad::enter_dual_level();
    ~Level() {
      torch::autograd::forward_ad::exit_dual_level(number);
    }
  };
  const Level level;
  Stack stack = made.arguments;
  for (IValue& value : stack) {
    if (value.isTensor() && is_plain(value.toTensor()) && c10::isFloatingType(value.toTensor().scalar_type())) {
      const Tensor& tensor = value.toTensor();
      // Torch has no duals of memory that overlaps.
      if (at::has_internal_overlap(tensor) != at::MemOverlap::No) {
        return;
      }
      value = at::_make_dual(tensor, at::ones(tensor.sizes(), tensor.options()), static_cast<int64_t>(level.number));
    }
  }
  made.op.callBoxed(stack);
}

// The call on Meta; empty where an argument is on Meta already or has no storage.
std::optional<Call> on_meta(const Call& made) {
  Call meta = made;
  for (IValue& value : meta.arguments) {
    std::vector<Tensor> moved = tensors_of(value);
    for (Tensor& tensor : moved) {
      if (tensor.defined()) {
        if (!is_plain(tensor) || tensor.is_neg() || tensor.is_conj()) {
          return std::nullopt;
        }
        tensor = at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().device(at::kMeta));
      }
    }
    if (value.isTensor()) {
      value = moved[0];
    } else if (value.isTensorList()) {
      value = moved;
    }
  }
  return meta;
}

std::string fault_of(const uint8_t* data, size_t size, const Call& made, Result& result) {
  result = run(made);
  const Call untouched = read(data, size), again = read(data, size);
  const std::string name = made.op.schema().name().substr(std::strlen("torch_hrr::"));
  if (!result.fault.empty()) {
    return result.fault;
  }
  if (!result.error.empty() && !is_clear(result.error, name)) {
    return "an error that does not name the operator";
  }
  const auto& arguments = made.op.schema().arguments();
  // A round that meets a false reference in a brain's tables ends the call.
  const bool stays = !result.error.empty() && result.error.find("must name") == std::string::npos;
  for (size_t i = 0; i < arguments.size(); ++i) {
    const bool written = arguments[i].alias_info() != nullptr && arguments[i].alias_info()->isWrite();
    if ((!written || stays) && !same_bits(made.arguments[i], untouched.arguments[i])) {
      return "wrote into " + arguments[i].name() + (written ? " and then raised" : "");
    }
  }
  const Result repeated = run(again);
  if (is_short_of_memory(result.error) || is_short_of_memory(repeated.error)) {
    return "";
  }
  if (repeated.error != result.error) {
    return "raised otherwise when it was repeated: " + repeated.error;
  }
  if (!result.error.empty()) {
    return "";
  }
  for (size_t i = 0; i < result.stack.size(); ++i) {
    if (!same_bits(result.stack[i], repeated.stack[i])) {
      return "gave other bits when it was repeated";
    }
  }
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (!same_bits(made.arguments[i], again.arguments[i])) {
      return "wrote other bits when it was repeated";
    }
  }
  if (const std::optional<Call> meta = on_meta(untouched)) {
    const Result described = run(*meta);
    if (!described.error.empty()) {
      return "raised on Meta: " + described.error;
    }
    for (size_t i = 0; i < result.stack.size(); ++i) {
      const std::vector<Tensor> real = tensors_of(result.stack[i]), said = tensors_of(described.stack[i]);
      for (size_t j = 0; j < real.size(); ++j) {
        if (real[j].sizes() != said[j].sizes() || real[j].strides() != said[j].strides() ||
            real[j].scalar_type() != said[j].scalar_type()) {
          return "gave another result on Meta";
        }
      }
    }
  }
  return "";
}

}  // namespace

Outcome call(const uint8_t* data, size_t size) {
  [[maybe_unused]] static const bool limited = [] {
    static SmallMemory memory(*c10::GetCPUAllocator());
    c10::SetCPUAllocator(&memory, /*priority=*/1);
    return true;
  }();
  std::optional<Call> made;
  try {
    made = read(data, size);
  } catch (const c10::Error&) {
    return {};
  }
  const c10::FunctionSchema& schema = made->op.schema();
  Outcome outcome{schema.name() + (schema.overload_name().empty() ? "" : "." + schema.overload_name()), "", "", ""};
  Result result;
  outcome.fault = fault_of(data, size, *made, result);
  outcome.error = result.error;
  if (made->derivative > 0 && !schema.is_mutable() && outcome.fault.empty()) {
    const Call fresh = read(data, size);
    try {
      fresh.derivative == 3 ? derive_forward(fresh) : derive(fresh);
    } catch (const c10::Error& error) {
      outcome.error = error.what_without_backtrace();
      outcome.fault = is_clear(outcome.error, "") ? "" : "a derivative's error that names no operator";
    } catch (const std::exception& error) {
      outcome.fault = std::string("a derivative's error that is none of torch: ") + error.what();
    }
  }
  for (size_t i = 0; i < schema.arguments().size() && !outcome.fault.empty(); ++i) {
    outcome.arguments += (i == 0 ? "" : ", ") + schema.arguments()[i].name() + "=" + described(made->arguments[i]);
  }
  return outcome;
}

}  // namespace torch_hrr::fuzz
