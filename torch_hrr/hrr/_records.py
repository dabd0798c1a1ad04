"""Records, which are roles with fillers: what they may hold, their vectors, and the text that keeps them."""

from __future__ import annotations

import base64
import functools
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from torch_hrr._autocast import full_precision
from torch_hrr._checks import check_finite, check_vector, is_bool, plain, shown
from torch_hrr.hrr import functional
from torch_hrr.hrr._named import drawn
from torch_hrr.hrr.vector import Vector
from torch_hrr.io._contents import DTYPES, swap_to_little_endian, to_bytes
from torch_hrr.io.files import check_text

CPU = torch.device("cpu")
# Elements of the vectors of names that are kept.
_KEPT = 1 << 24
# Far below the interpreter's recursion limit, also as text.
_MAX_NESTING = 32
# Largest exponent of the vector of numbers, whose phases float64 then still knows to 1e-6.
_LARGEST = 2.0**31
_NAMES = {dtype: name for name, dtype in DTYPES.items()}


class Encoder:
    """Makes float32 vectors of records; what it draws depends on D, the seed and the name alone."""

    def __init__(self, dim: int, seed: int, scales: Mapping[str, float]) -> None:
        self._dim, self._seed, self._scales = dim, seed, scales
        self.role = functools.lru_cache(max(64, _KEPT // dim))(self._role)
        self._symbol = functools.lru_cache(max(64, _KEPT // dim))(self._drawn_symbol)

    def checked(self, op: str, where: str, given: Any, depth: int = 0) -> dict[str, Any]:
        """The record in values of Python's own types and vectors of its own; TypeError or ValueError for what is none.

        `where` names it in errors.
        """
        if not isinstance(given, Mapping):
            raise TypeError(f"{op}: {where} must be a mapping of roles to fillers, got {type(given).__name__}")
        if depth > _MAX_NESTING:
            raise ValueError(f"{op}: {where} must nest at most {_MAX_NESTING} deep, got more")
        record = {}
        for role, held in given.items():
            check_text(op, f"roles of {where}", role)
            role = bare(role)
            place = f"{where}[{role!r}]"
            if isinstance(held, list | tuple):
                record[role] = [self._filler(op, f"{place}[{i}]", role, each, depth) for i, each in enumerate(held)]
            else:
                record[role] = self._filler(op, place, role, held, depth)
        if not any(True for _ in _pairs(record)):
            raise ValueError(f"{op}: {where} must fill at least one role, got none")
        return record

    def _filler(self, op: str, where: str, role: str, given: Any, depth: int) -> Any:
        if isinstance(given, str):
            check_text(op, where, given)
            return bare(given)
        if is_bool(given):
            return bool(given)
        if isinstance(given, Mapping):
            return self.checked(op, where, given, depth + 1)
        number = plain(given)
        if isinstance(number, int | float):
            limit = min(_LARGEST * self._scales.get(role, 1.0), sys.float_info.max)
            # Not by its absolute value: NaN is refused too.
            if not -limit <= number <= limit:
                raise ValueError(f"{op}: {where} must be a number from {-limit:g} to {limit:g}, got {shown(number)}")
            return number
        if isinstance(given, Tensor) or hasattr(given, "__array__"):
            vector = check_vector(op, where, given, (self._dim,)).detach()
            check_finite(op, where, vector)
            return vector.to(CPU, copy=True)
        kinds = "a str, a number, a bool, a vector, a mapping or a list of these"
        raise TypeError(f"{op}: {where} must be {kinds}, got {type(given).__name__}")

    def vectors(self, records: Sequence[Mapping[str, Any]]) -> Tensor:
        """The vectors of checked records, ``[N, D]``, of norm 1 (of norm 0 where fillers cancel)."""
        with torch.inference_mode(False), torch.no_grad(), full_precision(CPU):
            made = torch.empty(len(records), self._dim, dtype=torch.float32, device=CPU)
            for vector, record in zip(made.unbind(), records, strict=True):
                vector.copy_(self._vector(record))
            return made

    def _vector(self, record: Mapping[str, Any]) -> Tensor:
        pairs = [(self.role(role), self._vector_of(role, filler)) for role, filler in _pairs(record)]
        roles, fillers = (torch.stack(each) for each in zip(*pairs, strict=True))
        return functional.bind_superpose(roles, fillers, normalize=True)

    def _vector_of(self, role: str, filler: Any) -> Tensor:
        match filler:
            case str() | bool():
                return self._symbol(str(filler))
            case Tensor():
                return functional.unit_rows(filler.double()).float()
            case Mapping():
                # Binding commutes: without the permutation a.b.c would be b.a.c.
                return functional.permute(self._vector(filler), self._seed)
        return functional.bind_power(self._axis, float(filler) / self._scales.get(role, 1.0)).float()

    def _role(self, name: str) -> Tensor:
        with torch.inference_mode(False), torch.no_grad():
            return drawn(name, self._dim, self._seed, unitary=True).float()

    def _drawn_symbol(self, name: str) -> Tensor:
        return functional.unit_rows(drawn(name, self._dim, self._seed)).float()

    @functools.cached_property
    def _axis(self) -> Tensor:
        # Bound to a role, so that no role or symbol of this name would be mistaken for it.
        return drawn("\0number", self._dim, self._seed, unitary=True)


def bare(text: str) -> str:
    """The text of what may be of a subclass, whose `str` and hash may be others: those of enumerations are."""
    return str.__str__(text)


def _pairs(record: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The roles with each of their fillers."""
    for role, held in record.items():
        for filler in held if isinstance(held, list) else [held]:
            yield role, filler


def to_text(record: Mapping[str, Any]) -> str:
    """A checked record as JSON: mappings within it as {"record": ...}, vectors as {"dtype": ..., "vector": base64}."""
    held = {role: _as_json(value) for role, value in record.items()}
    return json.dumps(held, separators=(",", ":"), ensure_ascii=False, allow_nan=False)


def from_text(text: str) -> dict[str, Any]:
    """The record; what no record has raises KeyError, TypeError, ValueError or the like."""
    return {role: _from_json(value) for role, value in json.loads(text).items()}


def _as_json(value: Any) -> Any:
    match value:
        case list():
            return [_as_json(each) for each in value]
        case Mapping():
            return {"record": {role: _as_json(each) for role, each in value.items()}}
        case Tensor():
            return {"dtype": _NAMES[value.dtype], "vector": base64.b64encode(to_bytes(value)).decode()}
    return value


def _from_json(value: Any) -> Any:
    match value:
        case list():
            return [_from_json(each) for each in value]
        case {"record": record}:
            return {role: _from_json(each) for role, each in record.items()}
        case {"dtype": dtype, "vector": data}:
            return from_bytes(base64.b64decode(data), DTYPES[dtype]).as_subclass(Vector)
    return value


def from_bytes(data: bytes, dtype: torch.dtype) -> Tensor:
    """The elements, on the CPU, of what `to_bytes` gave."""
    elements = torch.frombuffer(bytearray(data), dtype=torch.uint8)
    swap_to_little_endian(elements, dtype)
    # A copy, in memory that is aligned as that of other tensors.
    return elements.view(dtype).clone()
