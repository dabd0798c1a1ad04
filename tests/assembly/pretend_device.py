"""A CUDA device that is none: tensors that say they are on cuda:0, compute on the CPU, and refuse what CUDA refuses.

Within `PretendCuda` every call that names a CUDA device gives a `DeviceTensor`, whose elements a CPU tensor holds.
Operators that meet tensors of both devices, indices that are on the device of nothing else, and NumPy raise as they
would with a GPU; what would make the host wait for the device is counted.
"""

import collections
import contextlib

import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map

from torch_hrr import runtime
from torch_hrr.assembly import _sampled

DEVICE = torch.device("cuda", 0)
# To C++ the tensors are on this device, which needs no hardware and whose backward passes run.
_INNER = torch.device("meta")
_aten = torch.ops.aten
_CROSSING = {_aten.copy_.default, _aten._to_copy.default, _aten.lift_fresh.default}
_INDEXING = {_aten.index.Tensor, _aten.index_put_.default, _aten.index_put.default, _aten._index_put_impl_.default}
# The host reads their results, or has to know how long they are.
_WAITING = {
    "_local_scalar_dense", "equal", "is_nonzero", "item", "nonzero", "masked_select", "bincount", "unique_consecutive",
    "_unique2", "unique_dim", "repeat_interleave",
}  # fmt: skip
_MADE_OF_NUMBERS = {torch.tensor, torch.as_tensor, torch.Tensor.new_tensor}


class DeviceTensor(torch.Tensor):
    """Says that it is on the device; `elements` is its CPU tensor."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, elements):
        return torch.Tensor._make_wrapper_subclass(
            cls, elements.size(), elements.stride(), elements.storage_offset(), dtype=elements.dtype, device=_INNER
        )

    def __init__(self, elements):
        self.elements = elements

    device = property(lambda self: DEVICE)
    is_cuda = property(lambda self: True)
    is_cpu = property(lambda self: False)
    is_meta = property(lambda self: False)

    def __repr__(self):
        return f"DeviceTensor({self.elements!r})"

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        return dispatched(function, args, kwargs or {}, collections.Counter())


def dispatched(function, args, kwargs, waits):
    """The operator on the elements, after the checks of devices; what waits for the device is counted by name."""
    tensors = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
    owners = {id(leaf.elements): leaf for leaf in tensors if isinstance(leaf, DeviceTensor)}
    to = kwargs.get("device")
    if not owners and (to is None or torch.device(to) != _INNER):
        return function(*args, **kwargs)
    _check(function, args, tensors)
    name = function._schema.name.partition("::")[2]
    crosses = function in _CROSSING and len({isinstance(each, DeviceTensor) for each in tensors}) == 2
    crosses = crosses or (function is _aten._to_copy.default and to is not None and isinstance(args[0], DeviceTensor)
                          != (torch.device(to) == _INNER))  # fmt: skip
    masked = function in _INDEXING and any(each.dtype in (torch.bool, torch.uint8) for each in tensors[1:])
    moved = function in _INDEXING and any(
        each.dim() and not isinstance(each, DeviceTensor) for each in tensors if isinstance(tensors[0], DeviceTensor)
    )
    if crosses or masked or moved or name in _WAITING:
        waits[name] += 1
    on_device = torch.device(to) == _INNER if to is not None else True
    inner = {**kwargs, "device": torch.device("cpu")} if to is not None else kwargs

    def bare(leaf):
        return leaf.elements if isinstance(leaf, DeviceTensor) else leaf

    results = function(*tree_map(bare, args), **tree_map(bare, inner))

    def dressed(leaf):
        if not isinstance(leaf, torch.Tensor):
            return leaf
        if id(leaf) in owners:
            owner = owners[id(leaf)]
            assert owner.shape == leaf.shape and owner.stride() == leaf.stride(), f"{function} changes sizes in place"
            return owner
        if not on_device or any(leaf is each for each in tensors):
            return leaf
        return DeviceTensor(leaf)

    return tree_map(dressed, results)


def _check(function, args, tensors):
    """RuntimeError where a CUDA operator would raise one for tensors of two devices."""
    if function in _CROSSING:
        return
    if function in _INDEXING:
        itself, indices = args[0], [each for each in args[1] if each is not None]
        if not isinstance(itself, DeviceTensor) and any(isinstance(each, DeviceTensor) for each in indices):
            raise RuntimeError("indices should be either on cpu or on the same device as the indexed tensor (cpu)")
        tensors = [itself, *(each for each in args[2:3] if each.dim())]
    elif torch.Tag.pointwise in function.tags:
        tensors = [each for each in tensors if each.dim() or isinstance(each, DeviceTensor)]
    if len({isinstance(each, DeviceTensor) for each in tensors}) > 1:
        raise RuntimeError(f"{function}: Expected all tensors to be on the same device, but found cuda:0 and cpu")


class _Operators(TorchDispatchMode):
    def __init__(self, waits):
        super().__init__()
        self.waits = waits

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        return dispatched(function, args, kwargs or {}, self.waits)


def _inner_device(value):
    if isinstance(value, torch.device) and value.type == "cuda":
        return _INNER
    return _INNER if isinstance(value, str) and value.partition(":")[0] == "cuda" else value


class _Calls(TorchFunctionMode):
    """Python's calls: devices are renamed before torch looks for them."""

    def __init__(self, waits):
        super().__init__()
        self.waits = waits

    def __torch_function__(self, function, types, args=(), kwargs=None):
        kwargs = dict(kwargs or {})
        name = getattr(function, "__name__", "")
        first = args[0] if args else None
        if isinstance(first, DeviceTensor):
            if name == "numpy":
                raise TypeError("can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() first.")
            if name == "tolist":
                self.waits["tolist"] += 1
                return first.elements.tolist()
        if name == "cuda":
            return first.to(_INNER)
        wanted = _inner_device(kwargs.get("device"))
        if function in _MADE_OF_NUMBERS and wanted == _INNER:
            return function(*args, **{**kwargs, "device": None}).to(_INNER)
        if "device" in kwargs:
            kwargs["device"] = wanted
        if name == "to":
            args = tuple(map(_inner_device, args))
        return function(*args, **kwargs)


class _Generator(torch.Generator):
    """One of the CPU's that says it is the device's."""

    device = property(lambda self: DEVICE)


class PretendCuda(contextlib.ExitStack):
    """A block in which there is a CUDA device; `waits` counts, by operator, how often the host waited for it."""

    def __init__(self, monkeypatch):
        super().__init__()
        self.waits = collections.Counter()
        self._monkeypatch = monkeypatch

    def __enter__(self):
        super().__enter__()
        patch = self.enter_context(self._monkeypatch.context())
        known = runtime.device._problem
        patch.setattr(runtime.device, "_problem", lambda device: None if device.type == "cuda" else known(device))
        patch.setattr(runtime.device, "_has_kernels", lambda kind: True)
        seeded = _sampled.seeded_generator
        patch.setattr(_sampled, "seeded_generator", lambda seed, device: _like(seeded, seed, device))
        # Without threads of devices, which are not there.
        self.enter_context(torch.autograd.set_multithreading_enabled(False))
        self.enter_context(_Operators(self.waits))
        self.enter_context(_Calls(self.waits))
        return self

    def waited(self, call):
        """How often the host waits for the device in a call, by operator."""
        before = self.waits.copy()
        call()
        return self.waits - before


def _like(seeded, seed, device):
    made = seeded(seed, torch.device("cpu"))
    if device.type == "cpu":
        return made
    return _Generator().set_state(made.get_state())
