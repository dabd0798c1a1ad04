// A device that torch knows nothing of, for tests: every operator of ATen runs as the CPU's, on the same memory.
//
// Its tensors have storages of their own, so that views, writes and autograd are those of a real device, and a kernel
// that reads one as if it were the CPU's is found by the dispatcher. What the library registers for PrivateUse1 is not
// touched: the fallback below takes only what has no kernel there.

#include <ATen/EmptyTensor.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/ops/_copy_from_native.h>
#include <c10/core/CPUAllocator.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <utility>
#include <vector>

namespace {

constexpr c10::DeviceType kDummy = c10::DeviceType::PrivateUse1;

// The CPU's memory under the device's name.
class DummyAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    c10::DataPtr data = c10::GetCPUAllocator()->allocate(bytes);
    data.unsafe_set_device(c10::Device(kDummy, 0));
    return data;
  }
  c10::DeleterFnPtr raw_deleter() const override {
    return c10::GetCPUAllocator()->raw_deleter();
  }
  void copy_data(void* destination, const void* source, size_t bytes) const override {
    default_copy_data(destination, source, bytes);
  }
};

DummyAllocator& allocator() {
  static DummyAllocator instance;
  return instance;
}

struct DummyHooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override {
    return true;
  }
  bool isAvailable() const override {
    return true;
  }
  bool hasPrimaryContext(c10::DeviceIndex) const override {
    return true;
  }
};

bool is_dummy(const at::Tensor& tensor) {
  return tensor.defined() && tensor.device().type() == kDummy;
}

// A tensor of `device` on a storage with the sizes, strides and lazy bits of `like`.
at::Tensor on_storage(c10::Storage storage, c10::DispatchKey key, const at::Tensor& like) {
  at::Tensor tensor =
      at::detail::make_tensor<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(key), like.dtype());
  c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(like.sizes(), like.strides(), like.storage_offset());
  tensor._set_conj(like.is_conj());
  tensor._set_neg(like.is_neg());
  return tensor;
}

// The tensors of one call: each of the device's with the CPU's tensor on the same memory.
class Call {
 public:
  at::Tensor on_cpu(const at::Tensor& tensor) {
    if (!is_dummy(tensor)) {
      return tensor;
    }
    const c10::Storage& own = tensor.storage();
    c10::Storage storage(c10::Storage::use_byte_size_t(), own.nbytes(),
                         c10::DataPtr(own.mutable_data(), c10::Device(c10::DeviceType::CPU)), c10::GetCPUAllocator(),
                         true);
    at::Tensor shared = on_storage(std::move(storage), c10::DispatchKey::CPU, tensor);
    pairs_.emplace_back(tensor, shared);
    asked_ = true;
    return shared;
  }

  // What was given itself, a view of what was given, or a copy of a result with memory of its own.
  at::Tensor on_dummy(const at::Tensor& result) {
    if (!result.defined() || !asked_ || is_dummy(result)) {
      return result;
    }
    for (const auto& [tensor, shared] : pairs_) {
      if (result.is_same(shared)) {
        return tensor;
      }
    }
    for (const auto& [tensor, shared] : pairs_) {
      if (result.storage().unsafeGetStorageImpl() == shared.storage().unsafeGetStorageImpl()) {
        return on_storage(tensor.storage(), c10::DispatchKey::PrivateUse1, result);
      }
    }
    at::Tensor copy = at::Tensor(at::detail::empty_strided_generic(result.sizes(), result.strides(), &allocator(),
                                                                   c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                                                   result.scalar_type()));
    Call().on_cpu(copy).copy_(result);
    return copy;
  }

  // An operator with `out` may have given it another size.
  void take_sizes() {
    for (const auto& [tensor, shared] : pairs_) {
      if (shared.storage().nbytes() != tensor.storage().nbytes()) {
        c10::DataPtr data = shared.storage().set_data_ptr(c10::DataPtr());
        data.unsafe_set_device(c10::Device(kDummy, 0));
        tensor.storage().set_data_ptr_noswap(std::move(data));
        tensor.storage().set_nbytes(shared.storage().nbytes());
      }
      if (shared.sizes() != tensor.sizes() || shared.strides() != tensor.strides()) {
        tensor.unsafeGetTensorImpl()->set_sizes_and_strides(shared.sizes(), shared.strides());
      }
    }
  }

  c10::IValue map(const c10::IValue& value, at::Tensor (Call::*f)(const at::Tensor&)) {
    if (value.isTensor()) {
      return (this->*f)(value.toTensor());
    }
    if (value.isTensorList()) {
      c10::List<at::Tensor> mapped;
      for (const at::Tensor& tensor : value.toTensorVector()) {
        mapped.push_back((this->*f)(tensor));
      }
      return mapped;
    }
    if (value.isOptionalTensorList()) {
      c10::List<std::optional<at::Tensor>> mapped;
      for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector()) {
        mapped.push_back(tensor.has_value() ? std::optional<at::Tensor>((this->*f)(*tensor)) : std::nullopt);
      }
      return mapped;
    }
    if (value.isDevice() && value.toDevice().type() == kDummy) {
      asked_ = true;
      return c10::Device(c10::DeviceType::CPU);
    }
    return value;
  }

 private:
  std::vector<std::pair<at::Tensor, at::Tensor>> pairs_;
  bool asked_ = false;
};

void run_as_cpu(const c10::OperatorHandle& op, c10::DispatchKeySet, torch::jit::Stack* stack) {
  const size_t arguments = op.schema().arguments().size();
  Call call;
  for (size_t i = stack->size() - arguments; i < stack->size(); ++i) {
    (*stack)[i] = call.map((*stack)[i], &Call::on_cpu);
  }
  op.callBoxed(stack);
  call.take_sizes();
  for (size_t i = stack->size() - op.schema().returns().size(); i < stack->size(); ++i) {
    (*stack)[i] = call.map((*stack)[i], &Call::on_dummy);
  }
}

at::Tensor empty(c10::IntArrayRef size, std::optional<at::ScalarType> dtype, std::optional<at::Layout>,
                 std::optional<at::Device>, std::optional<bool>, std::optional<at::MemoryFormat> format) {
  return at::Tensor(at::detail::empty_generic(size, &allocator(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1),
                                              c10::dtype_or_default(dtype), format));
}

at::Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride, std::optional<at::ScalarType> dtype,
                         std::optional<at::Layout>, std::optional<at::Device>, std::optional<bool>) {
  return at::Tensor(at::detail::empty_strided_generic(
      size, stride, &allocator(), c10::DispatchKeySet(c10::DispatchKey::PrivateUse1), c10::dtype_or_default(dtype)));
}

at::Tensor copy_from(const at::Tensor& source, const at::Tensor& target, bool) {
  Call call;
  call.on_cpu(target).copy_(call.on_cpu(source));
  return target;
}

// One device with one stream. The engine takes its index, which the guard without operations gives as -1.
struct DummyGuard final : c10::impl::NoOpDeviceGuardImpl<kDummy> {
  c10::Device exchangeDevice(c10::Device) const override {
    return {kDummy, 0};
  }
  c10::Device getDevice() const override {
    return {kDummy, 0};
  }
  c10::Stream getStream(c10::Device) const noexcept override {
    return c10::Stream(c10::Stream::DEFAULT, {kDummy, 0});
  }
  c10::Stream exchangeStream(c10::Stream) const noexcept override {
    return c10::Stream(c10::Stream::DEFAULT, {kDummy, 0});
  }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, DummyGuard)

const bool registered = [] {
  static DummyHooks hooks;
  at::RegisterPrivateUse1HooksInterface(&hooks);
  c10::SetAllocator(kDummy, &allocator());
  return true;
}();

TORCH_LIBRARY_IMPL(_, PrivateUse1, m) {
  m.fallback(torch::CppFunction::makeFromBoxedFunction<&run_as_cpu>());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, m) {
  m.impl("empty.memory_format", &empty);
  m.impl("empty_strided", &empty_strided);
  m.impl("_copy_from", &copy_from);
}

// Torch would resolve the source's lazy bits by a clone, which copies by this operator again without end.
TORCH_LIBRARY_IMPL(aten, Conjugate, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
}
TORCH_LIBRARY_IMPL(aten, Negative, m) {
  m.impl("_copy_from", torch::CppFunction::makeFallthrough());
}

}  // namespace
