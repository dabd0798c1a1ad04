"""The functions of `torch_hrr.hrr` for vectors of one dimension on one device, or on the faster one of two."""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor

from torch_hrr._checks import check_bool, check_broadcast, check_data, check_vectors, integer, named, real
from torch_hrr._repr import Described
from torch_hrr._shared import is_out_of_memory
from torch_hrr._spec import Dtype, Int, takes
from torch_hrr.hrr import functional
from torch_hrr.runtime.calibration import binding_crossover
from torch_hrr.runtime.device import given_up, is_failure, resolve_device_or_cpu


class HRROperations(Described):
    """The functions of `torch_hrr.hrr`, whose names methods bear, in one dtype on one device.

    Arguments are tensors or NumPy arrays ``[..., dimensionality]``, real floating point, on any device (meta, if this
    is on meta); gradients flow back to where they are. A named ``device`` that cannot be used is the CPU, after a
    RuntimeWarning each time. Formulas, cost, determinism and errors are those of the functions; new programs call them.
    """

    @takes(dimensionality=Int(1), dtype=Dtype())
    def __init__(
        self,
        dimensionality: int = 512,
        device: torch.device | str | int | None = "auto",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        """Resolves the device."""
        self.dimensionality, self.dtype = dimensionality, dtype
        self.device = resolve_device_or_cpu(device, op=type(self).__name__)

    def _summary(self) -> dict[str, Any]:
        return {"dimensionality": self.dimensionality, "dtype": self.dtype, "device": self.device}

    def bind(self, a: Any, b: Any) -> Tensor:
        """Circular convolution, ``[..., D]``."""
        return functional.bind(*self._pair("bind", a, b))

    def unbind(self, bound: Any, role: Any) -> Tensor:
        """Circular correlation, ``[..., D]``."""
        return functional.unbind(*self._pair("unbind", bound, role, ("bound", "role")))

    def superpose(self, vectors: Any, weights: Any = None, normalize: bool = True) -> Tensor:
        """Weighted sum of ``[..., K, D]`` by ``[..., K]``, ``[..., D]``, of unit norm."""
        return self._superpose("superpose", "vectors", vectors, weights, normalize)

    def batch_bind(self, a_batch: Any, b_batch: Any) -> Tensor:
        """`bind` of whole batches, ``[..., B, D]``."""
        return functional.bind(*self._pair("batch_bind", a_batch, b_batch, ("a_batch", "b_batch"), 2))

    def batch_superpose(self, vectors_batch: Any, weights: Any = None) -> Tensor:
        """`superpose` of whole batches."""
        return self._superpose("batch_superpose", "vectors_batch", vectors_batch, weights, True)

    def fused_bind_normalize(self, a: Any, b: Any) -> Tensor:
        """Binding of unit norm in one pass, `hrr.bind_normalize`."""
        return functional.bind_normalize(*self._pair("fused_bind_normalize", a, b))

    def random(self, n: int = 1, generator: torch.Generator | None = None) -> Tensor:
        """Random vectors, elements from N(0, 1/D), `hrr.random`: ``[n, D]``; the generator is a CPU one."""
        return functional.random(n, self.dimensionality, generator, False, self.device, self.dtype)

    def unitary_random(self, n: int = 1, generator: torch.Generator | None = None) -> Tensor:
        """Random unitary vectors, which `unbind` inverts exactly, `hrr.random`: ``[n, D]``."""
        with named("random", "unitary_random"):
            return functional.random(n, self.dimensionality, generator, True, self.device, self.dtype)

    def _superpose(self, op: str, argument: str, vectors: Any, weights: Any, normalize: bool) -> Tensor:
        normalize = check_bool(op, "normalize", normalize)
        vectors = self._place(op, argument, vectors, rank=2)
        if weights is not None:
            weights = self._move(op, "weights", check_vectors(op, "weights", weights))
        with named("superpose", op):
            return functional.superpose(vectors, weights, normalize)

    def _pair(
        self, op: str, first: Any, second: Any, names: tuple[str, str] = ("a", "b"), rank: int = 1
    ) -> tuple[Tensor, Tensor]:
        """Two operands whose leading dimensions broadcast."""
        a, b = self._place(op, names[0], first, rank), self._place(op, names[1], second, rank)
        check_broadcast(op, " and ".join(names), a.shape[:-1], b.shape[:-1])
        return a, b

    def _place(self, op: str, argument: str, value: Any, rank: int = 1) -> Tensor:
        return self._move(op, argument, check_vectors(op, argument, value, self.dimensionality, rank=rank))

    def _move(self, op: str, argument: str, value: Tensor) -> Tensor:
        if self.device.type != "meta":
            check_data(op, argument, value)
        return value.to(self.device, self.dtype)


PyTorchHRROperations = HRROperations
BatchHRROperations = HRROperations


class HybridHRRSystem(Described):
    """Binds on the CPU or on the accelerator, whichever is faster for a batch, transfers included.

    Attributes:
        cpu_ops: `HRROperations` on the CPU.
        gpu_ops: `HRROperations` on ``device``, the accelerator; on the CPU where there is none.
    """

    @takes(dimensionality=Int(1), dtype=Dtype())
    def __init__(
        self,
        dimensionality: int = 512,
        device: torch.device | str | int | None = "auto",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        """Makes both sets of operations; nothing is measured yet."""
        self.dimensionality = dimensionality
        self.cpu_ops = HRROperations(dimensionality, "cpu", dtype)
        self.gpu_ops = HRROperations(dimensionality, resolve_device_or_cpu(device, op="HybridHRRSystem"), dtype)
        self._threshold: float | None = None

    def _summary(self) -> dict[str, Any]:
        own = {"dimensionality": self.dimensionality, "dtype": self.cpu_ops.dtype, "device": self.gpu_ops.device}
        # As it is: reading the property measures it.
        return own | {"threshold_batch_size": self._threshold}

    @property
    def has_accelerator(self) -> bool:
        """Whether `gpu_ops` is on a device other than the CPU."""
        return self.gpu_ops.device.type not in ("cpu", "meta")

    @property
    def threshold_batch_size(self) -> float:
        """Smallest batch that goes to the accelerator; infinity if none does. Measured when first read, unless set."""
        if self._threshold is None:
            self._threshold = self._crossover(fresh=False)
        return self._threshold

    @threshold_batch_size.setter
    def threshold_batch_size(self, value: float) -> None:
        value = real("threshold_batch_size", "value", value)
        if not value >= 0:
            raise ValueError(f"threshold_batch_size: value must be >= 0, got {value}")
        self._threshold = value

    def calibrate(self) -> float:
        """Measures `threshold_batch_size`, as `runtime.calibrate` does, and returns it; infinity if the CPU wins."""
        self._threshold = self._crossover(fresh=True)
        return self._threshold

    def _crossover(self, fresh: bool) -> float:
        return binding_crossover(self.gpu_ops.device, self.dimensionality, self.cpu_ops.dtype, fresh)

    def adaptive_bind(self, a: Any, b: Any, batch_size: int | None = None) -> Tensor:
        """``bind(a, b)`` on the faster device; the result comes back to the device of the arguments.

        Arguments that are not on the CPU are bound where they are. A batch that the accelerator has no memory for is
        bound on the CPU. If the accelerator fails, this and all later batches are, after one RuntimeWarning.

        ``a`` and ``b``, ``[..., D]``, are on one device and broadcast; ``batch_size`` is compared with the threshold,
        None being the number of rows of the result. Errors are those of `HRROperations`.
        """
        op = "adaptive_bind"
        a = check_vectors(op, "a", a, self.dimensionality)
        b = check_vectors(op, "b", b, self.dimensionality, a.device)
        rows = math.prod(check_broadcast(op, "a and b", a.shape[:-1], b.shape[:-1]))
        batch_size = integer(op, "batch_size", rows if batch_size is None else batch_size, 0)
        if a.device.type != "cpu":
            return functional.bind(a.to(self.cpu_ops.dtype), b.to(self.cpu_ops.dtype))
        if self.has_accelerator and batch_size >= self.threshold_batch_size:
            try:
                return self.gpu_ops.bind(a, b).to(a.device)
            except RuntimeError as error:
                if is_failure(error):
                    given_up(op, self.gpu_ops.device, error)
                    self.gpu_ops = self.cpu_ops
                elif not is_out_of_memory(error):
                    raise
        return self.cpu_ops.bind(a, b)
