"""The device that new objects are made on: detection, one rule for choosing it, and transfers.

``device=None`` is the device of the innermost `GPUContext`, or of `set_device`. Until there is one, it depends on what
is made. Modules with parameters (`resolve_parameter_device`) are on torch's default device like the `torch.nn.Linear`
beside them, on meta too, so that models are made as everywhere in torch. All else (`resolve_device`) is on torch's
default device if that is an accelerator, else where "auto" puts it: the programs that this library continues count on
a GPU that is found by itself.
"""

import contextlib
import copy
import ctypes
import numbers
import os
import pathlib
import platform
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, TypedDict

import torch
from torch import Tensor

from torch_hrr import _library
from torch_hrr._checks import brief, check_data, native_copy, shown
from torch_hrr._shared import is_out_of_memory
from torch_hrr._warnings import warn

_CPU = torch.device("cpu")
_ACCELERATORS = ("cuda", "mps", "xpu")
# How errors begin that torch raises for CUDA's libraries, and this library for its launches, as a plain RuntimeError.
_FAILURE = re.compile(
    r"(CUDA( driver)?|cuBLAS|cuFFT|cuSOLVER|cuSPARSE|cuDNN|HIP) error\b|\w+: (launch|cuda\w+): ", re.IGNORECASE
)

# The device that `set_device` set for the process.
_process_device: torch.device | None = None
# Devices of the GPUContext blocks entered in this thread or asyncio task, the innermost last.
_scopes: ContextVar[tuple[torch.device, ...]] = ContextVar("torch_hrr_device_scopes", default=())
_working: set[torch.device] = set()
# Devices that failed in use, by kind and index, and with what.
_lost: dict[tuple[str, int], str] = {}
# What was warned of once and for all.
_warned: set[str] = set()
_lock = threading.Lock()


class DeviceError(RuntimeError):
    """A device failed while it was in use; an out-of-memory error is not one.

    Attributes:
        op: The operation that was running.
        device: The device that failed.
        reason: The message of its error.
    """

    def __init__(self, op: str, device: torch.device | str, reason: str) -> None:
        """All three stay in `args`, so that the error can be copied and sent between processes."""
        super().__init__(op, device, reason)
        self.op = op
        self.device = device
        self.reason = reason

    def __str__(self) -> str:
        """Operation, device and reason in one sentence."""
        return f"{self.op}: device {self.device} failed: {self.reason}"


class DeviceInfo(TypedDict):
    """The result of `get_device_info`."""

    cuda_available: bool
    device_name: str
    device_memory: str | None
    capability: str | None
    driver: str | None


def resolve_device(device: torch.device | str | int | None = "auto", *, op: str = "resolve_device") -> torch.device:
    """The device on which to make an object; every system passes its `device` argument through here.

    Args:
        device: A torch.device or its name; an int for the accelerator of that index; None for the current device,
            `get_device()`; "auto" for an accelerator that works and that this build of the library has kernels for,
            else the CPU.
        op: The user's call, for errors to name.

    Returns:
        The device, without an index if none was given. "auto" passes over a device that is there and fails, after one
        RuntimeWarning per process that says why. On a device requested by name for which the library has no kernels,
        operators run in plain torch, after one too.

    Raises:
        RuntimeError: There is no device of this name or index, or it fails a first small computation, or has failed
            before.
        ValueError: A name that torch does not know, or an index that no device can have.
        TypeError: Anything but a torch.device, a str, an int or None.

    The first call for a device computes on it, which on CUDA must not happen while a graph is captured; later calls
    look up the result.
    """
    if device is None:
        return _current()
    if _is_auto(device):
        return _automatic()
    selected = named_device(op, device)
    problem = _problem(selected)
    if problem is not None:
        raise unusable(op, _as_named(op, device), problem)
    _warn_without_kernels(selected)
    return _CPU if selected.type == "cpu" else selected


def resolve_device_or_cpu(device: torch.device | str | int | None, *, op: str) -> torch.device:
    """`resolve_device` for names of the programs that this library continues, which may count on this fallback.

    A device that cannot be used is the CPU, after a RuntimeWarning each time.
    """
    if device is not None and not _is_auto(device):
        problem = _problem(named_device(op, device))
        if problem is not None:
            _warn_fallback(op, _as_named(op, device), problem)
            return _CPU
    return resolve_device(device, op=op)


def resolve_adaptive_device(device: torch.device | str | int | None, *, op: str) -> torch.device:
    """`resolve_device` for calls that go on where a device fails: one that was given up is the CPU."""
    if device is not None and not _is_auto(device) and _is_lost(named_device(op, device)):
        return _CPU
    return resolve_device(device, op=op)


def resolve_parameter_device(device: torch.device | str | int | None, *, op: str) -> torch.device:
    """The device of a module's parameters: as `resolve_device`, but for None as the module says."""
    chosen = _chosen() if device is None else resolve_device(device, op=op)
    return _unless_lost(_default()) if chosen is None else chosen


def resolve_data_device(device: torch.device | str | int | None, *, op: str) -> torch.device:
    """`resolve_device` for an object that reads its values back: it cannot be on meta."""
    return with_data(op, resolve_device(device, op=op))


def with_data(op: str, device: torch.device) -> torch.device:
    """The device with its index, so that an object stays where it is when the current device changes; not meta."""
    if device.type == "meta":
        raise ValueError(f"{op}: device must hold data, got meta")
    return torch.empty(0, device=device).device


def set_device(device: torch.device | str | int) -> None:
    """Makes a device the current one, for NumPy input and what is made with ``device=None``, most objects' default.

    Where a signature states another default, that holds: a `Brain` is on the CPU unless its call says otherwise.
    Inside a `GPUContext` it holds until the block ends, in this thread and asyncio task; elsewhere it holds for the
    whole process, so that worker threads follow the main one. Threads that want different devices each enter a
    `GPUContext`.

    Args:
        device: As for `resolve_device`, but one that cannot be used is the CPU, after a RuntimeWarning each time; None
            is not a device here.
    """
    global _process_device
    if device is None:
        raise TypeError("set_device: device must be a torch.device, a name or an index, got NoneType")
    selected = resolve_device_or_cpu(device, op="set_device")
    scopes = _scopes.get()
    if scopes:
        _scopes.set((*scopes[:-1], selected))
    else:
        _process_device = selected


def get_device() -> str:
    """Name of the current device: "cpu", "cuda", "cuda:1".

    Until one is set, it is the device named by ``torch.set_default_device`` or ``with torch.device(...)``, unless that
    is meta, or else the device that "auto" means on this machine.
    """
    return str(_current())


def enter(device: torch.device) -> None:
    """Makes a device the current one of this thread and asyncio task, until `leave`."""
    _scopes.set((*_scopes.get(), device))


def leave() -> None:
    """Makes the device before the last `enter` current again."""
    _scopes.set(_scopes.get()[:-1])


def any_accelerator(op: str) -> torch.device:
    """The current device if it is an accelerator, else the first that works, else the CPU after a RuntimeWarning."""
    device = _current()
    if device.type in ("cpu", "meta"):
        device = _automatic(native=False)
        if device == _CPU:
            _warn_fallback(op, "cuda", _problem(torch.device("cuda")))
        _warn_without_kernels(device)
    return device


def moved(op: str, device: torch.device, x: Any, arrays: bool = True, copied: bool = False) -> Any:
    """Tensors, and arrays if asked, of a structure of dicts, lists and tuples on a device; anything else stays.

    Tensors that are there already are the same, or copies if asked, so that nothing is shared.
    """

    def place(leaf: Any) -> Any:
        if not isinstance(leaf, Tensor):
            return _placed_array(op, leaf, device) if arrays else leaf
        there = _move(op, leaf, device)
        return there.clone() if copied and there is leaf else there

    try:
        return map_leaves(place, x)
    except RecursionError:
        raise ValueError(f"{op}: x must neither hold itself nor be nested too deeply, got {type(x).__name__}") from None


def synchronize() -> None:
    """Waits until the current device has done all the work given to it; returns at once on the CPU.

    Raises:
        DeviceError: Work on the device failed.
    """
    wait_for("synchronize", _current())


def wait_for(op: str, device: torch.device) -> None:
    """`synchronize` of a device, under the name of the user's call."""
    wait = getattr(getattr(torch, device.type, None), "synchronize", None)
    if device.type in ("cpu", "meta") or wait is None:
        return
    try:
        wait() if device.index is None or device.type == "mps" else wait(device)
    except RuntimeError as error:
        raise failure(op, device, error) from error


def get_device_info() -> DeviceInfo:
    """Describes the CUDA device in use, else the CPU.

    Returns:
        cuda_available: Whether a CUDA device works.
        device_name: Name of the current CUDA device if there is one, else of the CPU.
        device_memory: Its total memory as "24.00 GB", in units of 2^30 bytes; None if unknown.
        capability: CUDA compute capability as "8.6"; None on the CPU.
        driver: Version of the NVIDIA driver as "550.54.15"; None on the CPU or if unknown.
    """
    current = _current()
    device = current if current.type == "cuda" else torch.device("cuda")
    if _problem(device) is not None:
        return DeviceInfo(
            cuda_available=False,
            device_name=_cpu_name(),
            device_memory=_gigabytes(cpu_memory()),
            capability=None,
            driver=None,
        )
    properties = torch.cuda.get_device_properties(device)
    return DeviceInfo(
        cuda_available=True,
        device_name=properties.name,
        device_memory=_gigabytes(properties.total_memory),
        capability=f"{properties.major}.{properties.minor}",
        driver=_driver_version(),
    )


def _chosen() -> torch.device | None:
    """The device of `set_device` or of the innermost `GPUContext`; the CPU where that was lost."""
    scopes = _scopes.get()
    chosen = scopes[-1] if scopes else _process_device
    return None if chosen is None else _unless_lost(chosen)


def _current() -> torch.device:
    chosen = _chosen()
    if chosen is not None:
        return chosen
    default = _default()
    return _automatic() if default.type in ("cpu", "meta") else _unless_lost(default)


def _default() -> torch.device:
    # torch.compile cannot ask for torch's default device, but sees where a tensor is made.
    return torch.empty(0).device if torch.compiler.is_dynamo_compiling() else torch.get_default_device()


def _is_auto(device: Any) -> bool:
    return isinstance(device, str) and device == "auto"


def _as_named(op: str, device: torch.device | str | int) -> str:
    """As it was named: torch makes "cuda:999" an index of its own."""
    return device if isinstance(device, str) else str(named_device(op, device))


def unusable(op: str, device: str, problem: str) -> RuntimeError:
    """The error of a call that names a device which cannot be used, and for which reason."""
    automatic = _automatic()
    place = "the CPU" if automatic == _CPU else str(automatic)
    return RuntimeError(
        f'{op}: device must be one that torch can use, got {device}, and {problem}; "auto" takes {place} then'
    )


def named_device(op: str, device: torch.device | str | int) -> torch.device:
    """The device of a name, or the accelerator of an index."""
    if isinstance(device, numbers.Integral) and not isinstance(device, bool):
        kind, index = next(filter(_count, _ACCELERATORS), "cuda"), int(device)
        # torch takes indices modulo 2^8.
        if not 0 <= index < 2**7:
            raise ValueError(f"{op}: device must be an index from 0 to {2**7 - 1}, got {shown(index)}")
        return torch.device(kind, index)
    if not isinstance(device, torch.device | str):
        raise TypeError(f"{op}: device must be a torch.device, a name or an index, got {type(device).__name__}")
    try:
        return torch.device(device)
    except RuntimeError:
        raise ValueError(
            f"{op}: device must be 'auto', 'cpu', 'cuda' or one torch knows, got {brief(device)}"
        ) from None


def _has_kernels(kind: str) -> bool:
    """Whether the library has native kernels for a kind of device."""
    return kind in ("cpu", "meta") or (kind == "cuda" and _library.has_cuda_kernels())


def _automatic(native: bool = True) -> torch.device:
    """The first accelerator that works, with kernels of ours if `native`, else the CPU."""
    for kind in _ACCELERATORS:
        if _count(kind) and (_has_kernels(kind) or not native):
            problem = _problem(torch.device(kind))
            if problem is None:
                return torch.device(kind)
            # Of one that was given up it was said then.
            if not _is_lost(torch.device(kind)):
                _warn_once(f"auto {kind}", f'"auto" passes over {kind}: {problem}')
    return _CPU


def _count(kind: str) -> int | None:
    """Number of devices of a kind that torch can use; None where torch cannot say."""
    if kind in ("cpu", "meta"):
        return 1
    module = getattr(torch, kind, None)
    if module is None or not hasattr(module, "is_available") or not hasattr(module, "device_count"):
        return None
    return int(module.device_count()) if module.is_available() else 0


def is_failure(error: BaseException) -> bool:
    """Whether an error says that a device failed; that its memory ran out is not one."""
    if is_out_of_memory(error):
        return False
    is_told = isinstance(error, RuntimeError) and _FAILURE.match(str(error)) is not None
    return is_told or isinstance(error, DeviceError | torch.AcceleratorError)


def failure(op: str, device: torch.device, error: BaseException) -> DeviceError:
    """The error of a device that failed, from what torch raised."""
    return error if isinstance(error, DeviceError) else DeviceError(op, device, first_line(error))


@contextlib.contextmanager
def failures_named(op: str, device: torch.device) -> Iterator[None]:
    """Raises what says that the device failed as a DeviceError of the user's call."""
    try:
        yield
    except RuntimeError as error:
        if isinstance(error, DeviceError) or not is_failure(error):
            raise
        raise failure(op, device, error) from error


def given_up(op: str, device: torch.device, error: BaseException) -> DeviceError:
    """`failure` of a device that later choices avoid: its memory is lost, and torch cannot start it again."""
    lost = failure(op, device, error)
    _lost[device.type, device.index or 0] = lost.reason
    _warn_fallback(op, str(device), f"it failed ({lost.reason})")
    return lost


def _is_lost(device: torch.device) -> bool:
    return (device.type, device.index or 0) in _lost


def _unless_lost(device: torch.device) -> torch.device:
    return _CPU if _is_lost(device) else device


def _problem(device: torch.device) -> str | None:
    """Why a device cannot be used; None if it can."""
    if device.type in ("cpu", "meta"):
        return missing(device)
    lost = _lost.get((device.type, device.index or 0))
    if lost is not None:
        return f"it failed ({lost})"
    if device in _working:
        return None
    problem = missing(device) or _probe(device)
    if problem is None:
        _working.add(device)
    return problem


def _probe(device: torch.device) -> str | None:
    """What a small computation fails with: a card that is lost, full or too old for this torch is still listed."""
    try:
        torch.zeros(1, device=device).cpu()
    except (RuntimeError, AssertionError, ImportError) as error:
        return f"it does not work ({first_line(error)})"
    return None


def missing(device: torch.device) -> str | None:
    """Why torch does not list a device; None if it does, or cannot say."""
    kind, count = device.type, _count(device.type)
    if count is None or 0 <= (device.index or 0) < count:
        return None
    name = kind.upper() if kind in _ACCELERATORS else kind
    if count:
        return f"torch {torch.__version__} finds {count} {name} device{'s' * (count > 1)}"
    if kind != "cuda":
        return f"torch {torch.__version__} finds no {name} device"
    if torch.version.cuda is None and torch.version.hip is None:
        return f"torch {torch.__version__} is built without CUDA"
    try:
        torch.empty(0, device="cuda")
        reason = "no reason given"
    except (RuntimeError, AssertionError) as error:
        reason = first_line(error)
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    hidden = "" if visible is None else f"; CUDA_VISIBLE_DEVICES is {visible!r}"
    return f"torch {torch.__version__} finds no CUDA device ({reason}{hidden})"


def first_line(error: BaseException) -> str:
    """The first sentence of an error."""
    return (str(error).splitlines() or [type(error).__name__])[0].split(". ")[0].rstrip(".")


def _warn_fallback(op: str, asked: str, problem: str | None) -> None:
    warn(f"torch_hrr: {op}: {asked} was asked for but {problem}; continuing on the CPU", RuntimeWarning)


def _warn_without_kernels(device: torch.device) -> None:
    kind = device.type
    if not _has_kernels(kind):
        _warn_once(
            kind, f"this build has no kernels of its own for {kind}: its operators run there in plain torch, slower"
        )


def _warn_once(reason: str, message: str) -> None:
    """A warning that a process gives once for a reason."""
    with _lock:
        if reason in _warned:
            return
        _warned.add(reason)
    warn(f"torch_hrr: {message}", RuntimeWarning)


def map_leaves(function: Callable[[Any], Any], x: Any) -> Any:
    """The structure of dicts, lists and tuples with a function's values for everything else in it."""
    if isinstance(x, dict):
        # Copied rather than constructed, for derived types whose constructors take other arguments (defaultdict).
        mapping = copy.copy(x)
        for key, value in x.items():
            mapping[key] = map_leaves(function, value)
        return mapping
    if isinstance(x, list):
        sequence = copy.copy(x)
        sequence[:] = [map_leaves(function, item) for item in x]
        return sequence
    if isinstance(x, tuple):
        items = [map_leaves(function, item) for item in x]
        # Not by the constructor of a named tuple, which may have been given other arguments.
        return type(x)._make(items) if hasattr(x, "_make") else type(x)(items)
    return function(x)


def leaves(x: Any) -> list[Any]:
    """Everything in a structure but its dicts, lists and tuples, in the order of `map_leaves`."""
    found: list[Any] = []
    map_leaves(found.append, x)
    return found


def _placed_array(op: str, x: Any, device: torch.device) -> Any:
    # Whoever holds an array has imported numpy; torch_hrr itself does not need it.
    numpy = sys.modules.get("numpy")
    if numpy is None or not isinstance(x, numpy.ndarray):
        return x
    try:
        tensor = torch.from_numpy(native_copy(x))
    except TypeError:
        return x
    return _move(op, tensor, device)


def _move(op: str, tensor: Tensor, device: torch.device) -> Tensor:
    try:
        with failures_named(op, tensor.device if device == _CPU else device):
            return tensor.to(device)
    except NotImplementedError:
        check_data(op, "a tensor", tensor)
        raise


def _gigabytes(count: int | None) -> str | None:
    return None if count is None else f"{count / 2**30:.2f} GB"


def _cpu_name() -> str:
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine() or "CPU"


def cpu_memory() -> int | None:
    """Bytes of the machine's memory; None where the system does not tell."""
    try:
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    except (AttributeError, ValueError, OSError):
        return None


def _driver_version() -> str | None:
    """Asks the driver's own library, because torch tells the CUDA version of the driver and not the driver's."""
    try:
        library = ctypes.CDLL("libnvidia-ml.so.1")
    except OSError:
        return None
    if library.nvmlInit_v2() != 0:
        return None
    text = ctypes.create_string_buffer(80)
    status = library.nvmlSystemGetDriverVersion(text, len(text))
    library.nvmlShutdown()
    return text.value.decode() if status == 0 else None
