"""Checks of the arguments of the assembly system: clear errors before any work."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any, cast

import torch
from torch import Tensor

from torch_hrr._checks import brief as brief
from torch_hrr._checks import check_bool as check_bool
from torch_hrr._checks import check_seed as check_seed
from torch_hrr._checks import choice as choice
from torch_hrr._checks import integer as integer
from torch_hrr._checks import is_bool as is_bool
from torch_hrr._checks import is_iterable as is_iterable
from torch_hrr._checks import listed as elements
from torch_hrr._checks import native_copy as native_copy
from torch_hrr._checks import number as number
from torch_hrr._checks import plain as plain
from torch_hrr._checks import plain_tensor as plain_tensor
from torch_hrr._checks import probability as probability
from torch_hrr._checks import real as real
from torch_hrr._checks import shown as shown
from torch_hrr._checks import signed as signed
from torch_hrr._checks import tensor as tensor
from torch_hrr._checks import word as word
from torch_hrr._spec import Int

ROUNDS = Int(0, 2**31 - 2)
"""A number of rounds, which the operator counts in 32 bits."""
LOCK = Int(-(2**63), 2**63 - 1)


def rounds(op: str, value: Any) -> int:
    """As `ROUNDS`."""
    return ROUNDS(op, "rounds", value)


def name(op: str, value: Any, argument: str = "name") -> None:
    """A name that is not empty and has bytes, of which fibers are named."""
    if not isinstance(value, str):
        raise TypeError(f"{op}: {argument} must be a str, got {type(value).__name__}")
    if not value:
        raise ValueError(f"{op}: {argument} must not be empty")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{op}: {argument} must be text that UTF-8 can encode, got {value!r}") from None


def new(op: str, value: Any, known: Sequence[Collection[str]], argument: str = "name") -> None:
    """A `name` that nothing known has."""
    name(op, value, argument)
    if any(value in names for names in known):
        raise ValueError(f"{op}: {argument} must be new, got {brief(value)}")


def exact(op: str, mode: str) -> None:
    """A call that mode "sampled" has not."""
    if mode != "exact":
        raise ValueError(f"{op}: mode must be 'exact', got {mode!r}")


def declared(op: str, kind: str, value: Any, known: Collection[str], others: Others = None) -> str:
    """A name of one of the known areas or stimuli; the error says if it is one of the others."""
    if not isinstance(value, str):
        raise TypeError(f"{op}: {kind} must be a name, got {brief(value)}")
    if value not in known:
        instead = f", which is {others[0]}" if others and value in others[1] else ""
        raise ValueError(f"{op}: {kind} must be declared, got {value!r}{instead}")
    return value


Others = tuple[str, Collection[str]] | None
"""What names may be instead, such as "a stimulus", and these names."""


def projections(
    op: str,
    argument: str,
    given: Any,
    sources: Collection[str],
    targets: Collection[str],
    kind: str,
    others: Others = None,
) -> dict[str, list[str]]:
    """A mapping from known sources to a known area or several, as lists: each is read once."""
    if not isinstance(given, Mapping):
        raise TypeError(f"{op}: {argument} must be a mapping of names to areas, got {type(given).__name__}")
    read: dict[str, list[str]] = {}
    for source, into in given.items():
        declared(op, kind, source, sources, others)
        if not isinstance(into, str) and not is_several(into):
            got = f"{brief(into)} for {brief(source)}"
            raise TypeError(f"{op}: {argument} must give areas for each name, got {got}")
        read[source] = [into] if isinstance(into, str) else in_order(into)
        for target in read[source]:
            declared(op, "area", target, targets)
    return read


def is_several(given: Any) -> bool:
    """Whether it holds names, or other things, one after the other, which a name does not."""
    return not isinstance(given, str | bytes | bytearray) and is_iterable(given)


def in_order(given: Iterable[Any]) -> list[Any]:
    """What it holds, once; of a set, whose own order is any, by name."""
    return sorted(given, key=str) if isinstance(given, set | frozenset) else list(given)


def several(op: str, argument: str, given: Any) -> list[Any]:
    """The names of a list or another collection, read once, or one name; which names, others check."""
    if isinstance(given, str):
        return [given]
    if not is_several(given):
        raise TypeError(f"{op}: {argument} must be a list of names, got {brief(given)}")
    return in_order(given)


def or_nothing(projections: Any) -> Any:
    """No projections for None and for an empty list; 0 or "" stay what they are, which is wrong."""
    return {} if projections is None or (isinstance(projections, list) and not projections) else projections


def listed(projections: Any) -> Any:
    """Projections with their targets as lists, to be read twice; whatever is wrong stays for `projections`."""
    if not isinstance(projections, Mapping):
        return projections
    return {source: in_order(targets) if is_several(targets) else targets for source, targets in projections.items()}


def updates(
    op: str, argument: str, given: Any, targets: Collection[str], sources: Collection[str]
) -> list[tuple[str, str, float]]:
    """Target, source and plasticity of every entry of ``{target: [(source, beta)]}``."""
    given = or_nothing(given)
    if not isinstance(given, Mapping):
        raise TypeError(f"{op}: {argument} must be a mapping of areas to pairs, got {type(given).__name__}")
    read = []
    for target, pairs in given.items():
        for pair in pairs if is_several(pairs) else (pairs,):
            if not isinstance(pair, Sequence) or isinstance(pair, str) or len(pair) != 2:
                raise TypeError(f"{op}: {argument} must give pairs of a source and a beta, got {brief(pair)}")
            source, beta = declared(op, "source", pair[0], sources), number(op, "beta", pair[1], 0)
            read.append((declared(op, "area", target, targets), source, beta))
    return read


def neurons(
    op: str, indices: Tensor | Sequence[int], n: int, k: int, batch: int | None, argument: str = "indices"
) -> Tensor:
    """1 to k distinct neurons of an area, ascending: [m], or [batch, m], on the CPU, where the checks cost least."""
    shape, most = ("[m]", 1) if batch is None else (f"[m] or [{batch}, m]", 2)
    given = _whole(op, argument, integers(op, indices, n, argument), shape, most, batch)
    if not 1 <= given.shape[-1] <= k:
        raise ValueError(f"{op}: {argument} must be 1 to k = {k} neurons, got {given.shape[-1]}")
    ordered = given.sort(-1).values
    for end in (int(ordered.min()), int(ordered.max())):
        if not 0 <= end < n:
            raise IndexError(f"{op}: {argument} must be in 0..{n - 1}, got {end}")
    if bool((ordered.diff(dim=-1) == 0).any()):
        raise ValueError(f"{op}: {argument} must be distinct, got repeated ones")
    return ordered


def _whole(op: str, argument: str, given: Tensor, shape: str, most: int = 1, batch: int | None = None) -> Tensor:
    """int64 of 1 to `most` dimensions, two of them with `batch` rows if that is a number; `shape` says so in words."""
    if given.numel() and (given.is_floating_point() or given.is_complex() or given.dtype == torch.bool):
        raise TypeError(f"{op}: {argument} must be integers, got {given.dtype}")
    if not 1 <= given.dim() <= most or (given.dim() == 2 and batch not in (None, len(given))):
        raise ValueError(f"{op}: {argument} must have shape {shape}, got {list(given.shape)}")
    return given.long()


def seeds(op: str, given: Any, seed: int, batch: int | None) -> list[int] | None:
    """The seed of each brain of a batch as signed 64-bit integers; None for None."""
    if given is None:
        return None
    if isinstance(given, Tensor):
        given = _strided(op, "seeds", given).detach().cpu().tolist()
    found = [check_seed(op, own, "seeds") for own in elements(op, "seeds", given, "a sequence of ints")]
    if not found:
        raise ValueError(f"{op}: seeds must hold at least one, got none")
    if batch not in (None, len(found)):
        raise ValueError(f"{op}: seeds must be one for each of {batch} brains, got {len(found)}")
    if seed != 0:
        raise ValueError(f"{op}: seed must not be given with seeds, got {seed}")
    return found


def numbers(op: str, argument: str, given: Any, n: int) -> Tensor:
    """Any number of neurons, one by one: int64 [m], on the CPU."""
    found = _whole(op, argument, integers(op, given, n, argument), "[m]")
    outside = found[(found < 0) | (found >= n)]
    if len(outside):
        raise IndexError(f"{op}: {argument} must be in 0..{n - 1}, got {int(outside[0])}")
    return found


def _strided(op: str, argument: str, given: Tensor) -> Tensor:
    """The tensor itself, where it has memory that is read element by element."""
    if given.layout is not torch.strided or given.is_nested or given.is_meta or given.is_quantized:
        what = "a meta tensor" if given.is_meta else f"{given.layout}, nested={given.is_nested}"
        raise TypeError(f"{op}: {argument} must be a strided tensor of ints, got {what}")
    return plain_tensor(given)


def integers(op: str, indices: Any, n: int, argument: str = "indices") -> Tensor:
    """Indices as a tensor on the CPU, of whatever dtype and places."""
    if isinstance(indices, Tensor):
        return _signed(op, _strided(op, argument, indices).detach().cpu(), n, argument)
    others = (str, bytes, bytearray, set, frozenset, Mapping)
    if not hasattr(indices, "__len__") or not is_several(indices) or isinstance(indices, others):
        raise TypeError(f"{op}: {argument} must be a tensor or a sequence of ints, got {type(indices).__name__}")
    try:
        return _signed(op, torch.as_tensor(_copied(indices), device="cpu"), n, argument)
    except (TypeError, ValueError, RuntimeError, OverflowError):
        rows = [row if isinstance(row, (list, tuple)) else [row] for row in indices]
        large = [i for row in rows for i in row if isinstance(i, int) and not -(2**63) <= i < 2**63]
    if large:
        raise IndexError(f"{op}: {argument} must be in 0..{n - 1}, got {shown(large[0])}")
    raise TypeError(f"{op}: {argument} must be a tensor or a sequence of ints, got {brief(indices)}")


def _copied(given: Any) -> Any:
    """The copy of an array that torch takes; anything else as it is."""
    is_array = hasattr(given, "__array__") and not isinstance(given, Tensor)
    return native_copy(given.__array__()) if is_array else given


def _signed(op: str, given: Tensor, n: int, argument: str) -> Tensor:
    """Unsigned numbers of 16 to 64 bits, which torch neither sorts nor compares, as signed ones."""
    if given.dtype not in (torch.uint16, torch.uint32, torch.uint64):
        return given
    signed = given.to(torch.int64)
    if bool((signed < 0).any()):
        raise IndexError(f"{op}: {argument} must be in 0..{n - 1}, got {int(signed.min()) + 2**64}")
    return signed


def assembly(op: str, argument: str, given: Any) -> Tensor:
    """Neurons of an assembly, of one brain or a batch: int64 [m] or [batch, m], where they are."""
    found = _strided(op, argument, given) if isinstance(given, Tensor) else integers(op, given, 2**63, argument)
    return _whole(op, argument, found, "[m] or [batch, m]", 2)


def own_graph(
    op: str, edges: Any, rows: int, columns: int, largest: float, w_max: float | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Rows, columns and float32 weights of a graph, sorted by row and column; repeated edges are summed.

    No weight exceeds `largest`, nor `w_max` if there is one.
    """
    edges = tensor(op, "edges", edges)
    if edges.is_nested or edges.is_meta:
        raise TypeError(
            f"{op}: edges must be a dense or sparse tensor, got a {'meta' if edges.is_meta else 'nested'} one"
        )
    if tuple(edges.shape) != (rows, columns):
        raise ValueError(f"{op}: edges must have shape [{rows}, {columns}], got {list(edges.shape)}")
    if edges.is_complex():
        raise TypeError(f"{op}: edges must be real, got {edges.dtype}")
    coordinates = edges.detach().cpu().to_sparse_coo().to(torch.float64).coalesce()
    weights = coordinates.values().to(torch.float32)
    if not bool(weights.isfinite().all()) or bool((weights < 0).any()) or bool((weights > largest).any()):
        limit = "2^24" if largest == 2**24 else f"{largest:g}"
        raise ValueError(f"{op}: edges must be weights in 0..{limit}, got others")
    # The largest weight is a float32, too.
    if w_max is not None and bool((weights > torch.tensor(w_max, dtype=torch.float32, device="cpu")).any()):
        raise ValueError(f"{op}: edges must have weights <= w_max = {w_max:g}, got {float(weights.max()):g}")
    source, target = coordinates.indices()
    kept = weights > 0
    return source[kept], target[kept], weights[kept]


def brain(op: str, given: Any, count: int) -> int:
    """The index of a brain of a batch."""
    number = integer(op, "brain", given)
    if not 0 <= number < count:
        raise IndexError(f"{op}: brain must be in 0..{count - 1}, got {shown(number)}")
    return number


def brains(op: str, given: Any, batch: int | None) -> list[int]:
    """The brains that an index, a sequence of indices or a mask of a batch names, in order; all of them for None."""
    count = batch or 1
    if given is None:
        return list(range(count))
    if batch is None:
        raise ValueError(f"{op}: brains must not be given without a batch")
    # What programs give, call after call, is not worth a tensor.
    is_plain = type(given) is list and all(type(number) is int for number in given)
    numbers = given if is_plain else _named_brains(op, given, count)
    for brain in numbers:
        if not 0 <= brain < count:
            raise IndexError(f"{op}: brains must be in 0..{count - 1}, got {shown(brain)}")
    if len(set(numbers)) < len(numbers):
        raise ValueError(f"{op}: brains must be distinct, got repeated ones")
    return numbers


def _named_brains(op: str, given: Any, count: int) -> list[int]:
    try:
        named = given if isinstance(given, Tensor) else torch.as_tensor(_copied(given), device="cpu")
    except (TypeError, ValueError, RuntimeError, OverflowError):
        named = torch.zeros(1, device="cpu")
        if isinstance(given, int):
            raise IndexError(f"{op}: brains must be in 0..{count - 1}, got {shown(given)}") from None
    if named.is_meta:
        raise TypeError(f"{op}: brains must hold values, got a meta tensor")
    if named.layout != torch.strided or named.is_nested:
        raise TypeError(f"{op}: brains must be an index, a sequence of indices or a mask, got a {named.layout} tensor")
    if named.dtype == torch.bool:
        if tuple(named.shape) != (count,):
            raise ValueError(f"{op}: brains must be a mask of shape [{count}], got {list(named.shape)}")
        return cast(list[int], named.nonzero().squeeze(1).tolist())
    if (named.is_floating_point() and len(named.flatten())) or named.is_complex() or named.dim() > 1:
        raise TypeError(f"{op}: brains must be an index, a sequence of indices or a mask, got {brief(given)}")
    return cast(list[int], named.reshape(-1).tolist())


def device(op: str, found: torch.device) -> torch.device:
    """A device that brains can live on."""
    if found.type == "meta":
        raise RuntimeError(f"{op}: device must have memory, got {found}")
    return found


def different(op: str, known: Collection[str], **areas: str) -> None:
    """Areas by argument, which must be declared and not the same."""
    names = [declared(op, argument, name, known) for argument, name in areas.items()]
    if len(set(names)) < len(names):
        raise ValueError(f"{op}: areas must be different, got {', '.join(map(repr, names))}")
