"""Checks of arguments that systems share: what is wrong is named in the caller's words, before any work."""

from __future__ import annotations

import functools
import math
import numbers
import os
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn

FLOATING = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
"""The dtypes that the operators take."""

_Function = TypeVar("_Function", bound=Callable[..., Any])


def also_named(**names: str) -> Callable[[_Function], _Function]:
    """Decorates what takes arguments by names of before, too: ``old="new"``."""

    def decorated(function: _Function) -> _Function:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            # What is given under both names is given twice, which Python refuses.
            old = {names[name]: kwargs.pop(name) for name in names if name in kwargs}
            return function(*args, **old, **kwargs)

        return cast(_Function, call)

    return decorated


def check_floating(op: str, argument: str, tensor: Tensor) -> None:
    """Raises TypeError unless the tensor is strided and of a dtype that the operators take."""
    check_strided(op, argument, tensor)
    if tensor.dtype not in FLOATING:
        raise TypeError(f"{op}: {argument} must be float32, float64, float16 or bfloat16, got {tensor.dtype}")


def check_strided(op: str, argument: str, tensor: Tensor) -> None:
    """Raises TypeError unless the value is a strided tensor that is not quantized."""
    if not isinstance(tensor, Tensor):
        raise TypeError(f"{op}: {argument} must be a torch.Tensor, got {type(tensor).__name__}")
    if tensor.layout is not torch.strided or tensor.is_nested:
        raise TypeError(f"{op}: {argument} must be strided, got {tensor.layout}, nested={tensor.is_nested}")
    if tensor.is_quantized:
        raise TypeError(f"{op}: {argument} must not be quantized, got {tensor.dtype}")


def tensor(op: str, argument: str, value: Any, as_given: bool = False) -> Tensor:
    """A tensor as `plain_tensor`, or itself, a NumPy array as one of its own on the CPU; TypeError for all else."""
    if isinstance(value, Tensor):
        return value if as_given else plain_tensor(value)
    if not hasattr(value, "__array__"):
        # As torch's own functions of several tensors take them.
        several = isinstance(value, list | tuple) and value and all(isinstance(each, Tensor) for each in value)
        hint = ": torch.stack makes one of several" if several else ""
        raise TypeError(f"{op}: {argument} must be a torch.Tensor or a NumPy array, got {type(value).__name__}{hint}")
    try:
        return torch.as_tensor(native_copy(value.__array__()), device="cpu")
    except (TypeError, ValueError, RuntimeError) as error:
        if isinstance(value, torch.fx.Proxy):
            leaf = "make the module a leaf (torch.fx.Tracer.is_leaf_module), or use torch.export"
            raise TypeError(f"{op}: {argument} must have a shape, got a Proxy of torch.fx: {leaf}") from None
        raise TypeError(f"{op}: {argument} must be an array of numbers that torch has, got {error}") from None


def native_copy(array: Any) -> Any:
    """A copy that torch takes: it refuses negative strides, memory that it may not write, and another byte order."""
    # In C order for either byte order: the last bits of a matrix product depend on the layout.
    return array.copy() if array.dtype.isnative else array.astype(array.dtype.newbyteorder("="), order="C")


class GivesPlain:
    """Marks classes of tensors whose functions give plain ones.

    A base, since torch.compile would guard an attribute of the class of a tensor that the graph itself has made.
    """


def plain_tensor(value: Tensor) -> Tensor:
    """A tensor of a class that only adds methods as a torch.Tensor of the same data and gradient.

    What is kept would otherwise carry the class into every later result. Parameters stay, as do classes whose data are
    elsewhere, such as fake and distributed tensors.
    """
    kind = type(value)
    # Not by isinstance: a parameter made of such a class is of that class, and only marked as one.
    if kind is Tensor or issubclass(kind, nn.Parameter):
        return value
    if kind.__torch_dispatch__ is not torch._C._disabled_torch_dispatch_impl:
        return value
    # torch.compile cannot trace what follows; `hrr.Vector` gives plain tensors of itself.
    if torch.compiler.is_compiling() and isinstance(value, GivesPlain):
        return value
    return value.as_subclass(Tensor)


def may_be_kept(tensor: Tensor) -> bool:
    """Whether a tensor may outlive the call that computes it: one that a tracer or a transform makes may not."""
    if torch.compiler.is_compiling():
        return not torch.compiler.is_exporting()
    # While a program is traced twice to be checked, both must do the same.
    is_traced = torch._C._get_tracing_state() is not None or torch._C._are_functorch_transforms_active()
    return type(tensor) is Tensor and not is_traced


def values_decide() -> bool:
    """Whether values may decide what is done: not in a compiled graph, nor under a transform of torch.func."""
    return not (torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active())


def can_be_cut(tensor: Tensor) -> bool:
    """Whether a call may be cut into parts: the CPU works on it now, and no tracer or transform sees the parts."""
    # Other layouts have no parts, and are refused by the call itself.
    dense = tensor.layout is torch.strided and not tensor.is_nested and tensor.device.type == "cpu"
    return dense and values_decide() and may_be_kept(tensor)


def placed(op: str, argument: str, value: Any, device: torch.device | None) -> Tensor:
    """As `tensor`, but an array's is on the device, if one is given."""
    given = tensor(op, argument, value)
    return given if given is value or device is None else given.to(device)


def strided(op: str, argument: str, value: Any, as_given: bool = False) -> Tensor:
    """As `tensor`; TypeError for a sparse or nested one too."""
    given = tensor(op, argument, value, as_given)
    check_strided(op, argument, given)
    return given


def optional_tensor(op: str, argument: str, value: Any) -> Tensor | None:
    """As `tensor`, and None as it is."""
    return None if value is None else tensor(op, argument, value)


def check_out(op: str, out: Any) -> None:
    """Raises TypeError unless `out` is a tensor: a copy of an array would be written, and the array not."""
    if not isinstance(out, Tensor):
        raise TypeError(f"{op}: out must be a torch.Tensor, got {type(out).__name__}")


def check_known(op: str, argument: str, given: Iterable[str], known: Collection[str], wanted: str) -> None:
    """Raises TypeError for a name that is not among the known ones, and says which of them are near."""
    for name in given:
        if name not in known:
            raise TypeError(f"{op}: {argument} must be {wanted}, got {name}{near(name, known)}")


def near(name: str, known: Collection[str]) -> str:
    """What ends the error of an unknown name: those that it may have been meant to be."""
    return meant(close_to(name, known))


def close_to(name: str, known: Collection[str]) -> list[str]:
    """The known names that are spelled like one, the nearest first."""
    # Not above: only what is wrong needs it.
    from difflib import get_close_matches

    return get_close_matches(name, known)


def meant(names: Sequence[str]) -> str:
    """What ends the error of an unknown name that may have been meant to be one of these."""
    return f"; is it {' or '.join(names)}?" if names else ""


def check_bool(op: str, argument: str, value: Any) -> bool:
    """A bool, NumPy's too; TypeError for anything else, such as the words "no" and "False"."""
    if not is_bool(value):
        raise TypeError(f"{op}: {argument} must be a bool, got {type(value).__name__}")
    return bool(value)


def is_bool(value: Any) -> bool:
    """Whether the value is a bool, or one of NumPy's."""
    if isinstance(value, bool | Tensor):
        return isinstance(value, bool)
    kind = getattr(getattr(value, "dtype", None), "kind", None)
    return kind == "b" and getattr(value, "shape", None) == ()


def check_seed(op: str, seed: Any, argument: str = "seed") -> int:
    """The seed modulo 2^64, as the signed 64-bit integer that operators take; TypeError unless it is an int."""
    if isinstance(seed, torch.SymInt):
        return integer(op, argument, seed)
    bits = integer(op, argument, seed) % 2**64
    return bits - 2**64 if bits >= 2**63 else bits


class named:
    """A block in which errors of the call `inner` are raised in the name of the call that the user made.

    So are those of its arguments that have other names there: ``inner="own"``.
    """

    def __init__(self, inner: str, own: str, /, **arguments: str) -> None:
        """Not by contextlib, which takes three times as long: operators of few elements are called so."""
        self._inner, self._own, self._arguments = inner, own, arguments

    def __enter__(self) -> None:
        """Nothing."""

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        """The error in the name of `own`."""
        if isinstance(error, Exception) and (text := str(error)).startswith(f"{self._inner}: "):
            text = self._own + text.removeprefix(self._inner)
            for argument, name in self._arguments.items():
                text = text.replace(f": {argument} ", f": {name} ", 1)
            raise type(error)(text) from None


def check_dtype(op: str, dtype: torch.dtype) -> None:
    """Raises TypeError unless the operators take the dtype."""
    # By type first: an array among the values compared would give an array.
    if not isinstance(dtype, torch.dtype) or dtype not in FLOATING:
        raise TypeError(f"{op}: dtype must be float32, float64, float16 or bfloat16, got {brief(dtype)}")


def resolve_dtype(op: str, dtype: torch.dtype | None) -> torch.dtype:
    """The dtype, torch's default one for None; TypeError unless the operators take it."""
    dtype = torch.get_default_dtype() if dtype is None else dtype
    check_dtype(op, dtype)
    return dtype


def shown(number: Any) -> Any:
    """A number for an error's text; Python writes none of more than 4300 digits."""
    large = isinstance(number, int) and number.bit_length() > 1000
    return f"an int of {number.bit_length()} bits" if large else number


def brief(value: Any) -> str:
    """What an error's text shows of any value: 80 characters of its repr; its type where Python writes none."""
    try:
        return f"{value!r:.80}"
    except ValueError:
        return f"{shown(value)}" if isinstance(value, int) else f"a {type(value).__name__}"


def integer(
    op: str, argument: str, value: Any, least: int | None = None, most: int | None = None, limit: str | None = None
) -> int:
    """An int within bounds, below 2^63 where there is a lower one alone; `limit` names the upper one.

    NumPy's integers count, and those of its arrays without dimensions; bools do not. A size that a tracer holds stays
    as it is.
    """
    number: Any = _whole(op, argument, value)
    # A size; a seed has no bounds here, and one of a graph's shapes none to be guarded.
    if least is not None and most is None:
        is_traced = isinstance(number, torch.SymInt) or torch.compiler.is_compiling()
        if not is_traced and number >= 2**63:
            raise ValueError(f"{op}: {argument} must be below 2^63, got {shown(number)}")
    if (least is not None and number < least) or (most is not None and number > most):
        upper = "" if most is None else f" and at most {limit + ' = ' if limit else ''}{most}"
        raise ValueError(f"{op}: {argument} must be at least {least}{upper}, got {shown(number)}")
    checked: int = number
    return checked


def signed(op: str, argument: str, value: Any) -> int:
    """An int of the 64 bits that operators take, of a range that the operator checks."""
    checked = integer(op, argument, value)
    if torch.compiler.is_compiling() or isinstance(checked, torch.SymInt):
        return checked
    if not -(2**63) <= checked < 2**63:
        raise ValueError(f"{op}: {argument} must be above -2^63 and below 2^63, got {shown(checked)}")
    return checked


def _whole(op: str, argument: str, value: Any) -> Any:
    # Also a size that torch.compile traces.
    if type(value) is int or isinstance(value, torch.SymInt):
        return value
    # A NumPy array has the method whatever it holds, and refuses then.
    if hasattr(value, "__index__") and not isinstance(value, bool | Tensor):
        try:
            return int(value.__index__())
        except TypeError:
            pass
    raise TypeError(f"{op}: {argument} must be an int, got {type(value).__name__}")


def sizes(op: str, argument: str, values: Any, least: int = 1, wanted: str = "ints") -> tuple[int, ...]:
    """The sizes of a tensor, each at least `least`."""
    return tuple(integer(op, argument, size, least) for size in listed(op, argument, values, wanted))


def check_elements(op: str, argument: str, lengths: Sequence[int]) -> None:
    """Raises ValueError for sizes of a tensor whose bytes torch cannot count."""
    if math.prod(lengths) >= 2**59:
        raise ValueError(f"{op}: {argument} must have fewer than 2^59 elements, got sizes {list(lengths)}")


def is_iterable(value: Any) -> bool:
    """Whether the value holds things one after the other; not every tensor or array does, though its type says so."""
    if isinstance(value, Tensor):
        return not value.is_nested and value.dim() > 0
    return isinstance(value, Iterable) and getattr(value, "shape", None) != ()


def listed(op: str, argument: str, values: Any, wanted: str) -> list[Any]:
    """What an iterable other than a str or a set holds; TypeError for anything else, which says what is `wanted`."""
    # Bytes hold ints, and sets are in any order.
    if isinstance(values, str | bytes | bytearray | set | frozenset | dict) or not is_iterable(values):
        raise TypeError(f"{op}: {argument} must be {wanted}, got {type(values).__name__}")
    return list(values)


def number(
    op: str,
    argument: str,
    value: Any,
    least: float = -math.inf,
    most: float = math.inf,
    open_left: bool = False,
    open_right: bool = False,
) -> float:
    """A finite float from `least` to `most`, without an end that is open."""
    checked = float(real(op, argument, value))
    outside = checked <= least if open_left else checked < least
    outside = outside or (checked >= most if open_right else checked > most)
    if outside or not -math.inf < checked < math.inf:
        lower = "" if math.isinf(least) else f" {'>' if open_left else '>='} {least:g}"
        upper = "" if math.isinf(most) else f" and {'<' if open_right else '<='} {most:g}"
        raise ValueError(f"{op}: {argument} must be a finite number{lower}{upper}, got {plain(value)}")
    return checked


def positive(op: str, argument: str, value: Any) -> float:
    """A finite float above 0."""
    return number(op, argument, value, 0, open_left=True)


def probability(op: str, argument: str, value: Any) -> float:
    """A float from 0 to 1."""
    return number(op, argument, value, 0, 1)


def real(op: str, argument: str, value: Any) -> Any:
    """A number as a float, of a range that the operator checks; what a tracer holds stays as it is.

    NumPy's numbers count, and those of its arrays without dimensions; bools and tensors do not.
    """
    if type(value) is float or isinstance(value, torch.SymFloat):
        return value
    given = _scalar(value)
    if isinstance(given, bool) or not isinstance(given, numbers.Real):
        raise TypeError(f"{op}: {argument} must be a number, got {type(value).__name__}")
    try:
        return float(given)
    except OverflowError:
        got = shown(given) if isinstance(given, int) else type(given).__name__
        raise ValueError(f"{op}: {argument} must be a number that a float can hold, got {got}") from None


def _scalar(value: Any) -> Any:
    """The number of a NumPy array without dimensions; anything else as it is."""
    # Python's first: of a number that torch.compile holds no attribute can be asked. NumPy's text is a str.
    if isinstance(value, int | float | str | bytes | Tensor) or not hasattr(value, "__array__"):
        return value
    return value[()] if getattr(value, "shape", None) == () else value


def word(op: str, argument: str, value: Any) -> None:
    """Raises TypeError unless the value is a str, such as a name or an option, which others check."""
    if not isinstance(value, str):
        raise TypeError(f"{op}: {argument} must be a str, got {type(value).__name__}")


def checked_path(op: str, path: Any, argument: str = "path") -> str:
    """The path as text; TypeError for what is none, ValueError where no file can have it."""
    if not isinstance(path, str | bytes | os.PathLike):
        raise TypeError(f"{op}: {argument} must be a str or an os.PathLike, got {type(path).__name__}")
    text = os.fsdecode(path)
    try:
        possible = b"\0" not in os.fsencode(text)
    except UnicodeEncodeError:
        possible = False
    if not possible:
        raise ValueError(f"{op}: {argument} must be one that a file can have, got {text!r:.80}")
    return text


def plain(value: Any) -> Any:
    """The int or float of a number of another kind, such as NumPy's; anything else as it is."""
    given = _scalar(value)
    if isinstance(given, (bool, int, float)) or not isinstance(given, numbers.Real):
        return value
    return int(given) if isinstance(given, numbers.Integral) else float(given)


def choice(op: str, argument: str, value: Any, known: Collection[str]) -> str:
    """One of the known words; TypeError for what is no str, ValueError for another word."""
    # By type first: a dict of words takes no list, and an array gives an array.
    if isinstance(value, str) and value in known:
        return str(value)
    *others, last = map(repr, known)
    words = f"{', '.join(others)} or {last}" if others else last
    error = ValueError if isinstance(value, str) else TypeError
    raise error(f"{op}: {argument} must be {words}, got {brief(value)}")


def check_vectors(
    op: str, argument: str, value: Any, dim: int | None = None, device: torch.device | None = None, rank: int = 1
) -> Tensor:
    """The vectors as a tensor, a NumPy array's on `device`.

    Args:
        op: Name of the caller, for the error's text.
        argument: Name of the argument.
        value: What was given for it.
        dim: The last dimension it must have; None for any.
        device: Where it must be; None for anywhere.
        rank: The least number of dimensions.

    Raises:
        TypeError: Neither a strided tensor nor an array, or not of float32, float64, float16 or bfloat16.
        ValueError: Too few dimensions or another last dimension.
        RuntimeError: A tensor on another device.
    """
    vectors = placed(op, argument, value, device)
    check_floating(op, argument, vectors)
    if vectors.dim() < rank:
        raise ValueError(f"{op}: {argument} must have at least {rank} dimensions, got shape {list(vectors.shape)}")
    if dim is not None and vectors.shape[-1] != dim:
        raise ValueError(f"{op}: {argument} must have the last dimension {dim}, got shape {list(vectors.shape)}")
    if device is not None and vectors.device != device:
        raise RuntimeError(f"{op}: {argument} must be on {device}, got {vectors.device}")
    return vectors


def check_broadcast(op: str, arguments: str, *shapes: torch.Size) -> torch.Size:
    """The shape that leading dimensions broadcast to.

    Raises:
        ValueError: They do not broadcast; the text names the `arguments`, as "a and b".
    """
    try:
        shape: torch.Size = torch.broadcast_shapes(*shapes)
        return shape
    except RuntimeError:
        got = " and ".join(str(list(shape)) for shape in shapes)
        raise ValueError(f"{op}: {arguments} must have leading dimensions that broadcast, got {got}") from None


def check_vector(op: str, argument: str, value: Any, shape: tuple[int, ...]) -> Tensor:
    """A tensor or a NumPy array as a tensor; TypeError as `check_vectors`, ValueError unless of this shape and data."""
    vectors = tensor(op, argument, value)
    check_floating(op, argument, vectors)
    if vectors.shape != shape:
        raise ValueError(f"{op}: {argument} must have shape {list(shape)}, got {list(vectors.shape)}")
    check_data(op, argument, vectors)
    return vectors


def check_data(op: str, argument: str, tensor: Tensor) -> None:
    """Raises ValueError for a meta tensor, which has no values to copy."""
    if tensor.is_meta:
        raise ValueError(f"{op}: {argument} must hold data, got a meta tensor")


def check_finite(op: str, argument: str, vectors: Tensor) -> None:
    """Raises ValueError if a value is NaN or infinite; waits for the device."""
    # A sum that is finite is one of finite numbers, and ten times as fast.
    if not (bool(vectors.sum().isfinite()) or bool(vectors.isfinite().all())):
        raise ValueError(f"{op}: {argument} must be finite in {vectors.dtype}, got NaN or infinity")


def check_generator(op: str, generator: torch.Generator | None) -> None:
    """Raises TypeError unless the value is a generator or None, ValueError unless it draws on the CPU."""
    if generator is None:
        return
    if not isinstance(generator, torch.Generator):
        raise TypeError(f"{op}: generator must be a torch.Generator or None, got {type(generator).__name__}")
    if generator.device.type != "cpu":
        raise ValueError(f"{op}: generator must be one of the CPU, got one of {generator.device}")


def check_names(op: str, names: Sequence[str], *, different: bool = True) -> tuple[str, ...]:
    """The names of a sequence; of a set, say, they would come in another order in every process.

    Raises:
        TypeError: Not a sequence of str, or one str.
        ValueError: A name is given twice, unless they need not be `different`.
    """
    several = isinstance(names, Sequence) and not isinstance(names, str)
    if not several or not all(isinstance(name, str) for name in names):
        raise TypeError(f"{op}: names must be a sequence of str, got {brief(names)}")
    if different and len(set(names)) < len(names):
        repeated = next(name for index, name in enumerate(names) if name in names[:index])
        raise ValueError(f"{op}: names must be different, got {repeated!r} twice")
    return tuple(names)
