"""Folders that ranks write together: a checked file a rank, and an index that is replaced last."""

from __future__ import annotations

import hashlib
import itertools
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from torch_hrr._checks import checked_path
from torch_hrr._ranks import Ranks
from torch_hrr.io import files
from torch_hrr.io._contents import checked_options

_INDEX = "index.safetensors"


class Kind(NamedTuple):
    """What a folder holds, of which every rank has some consecutive units."""

    name: str
    """The class."""
    format: str
    """Of the index; that of a rank's file follows from it."""
    units: str
    """What they are called."""
    number: str
    """The name of their number in a rank's file."""

    @property
    def piece(self) -> str:
        """Format of a rank's file."""
        return f"{self.format}_{self.units}"


class Content(NamedTuple):
    """What a rank reads of a folder: pieces of what is divided, mapped, and what is whole."""

    pieces: list[Piece]
    whole: Mapping[str, Tensor]
    metadata: Mapping[str, Any]


class Piece(NamedTuple):
    """A file's part of what a rank asks for: units from `begin` to `end` of those in the file."""

    tensors: Mapping[str, Tensor]
    said: Mapping[str, Any]
    begin: int
    end: int


def joined(pieces: Sequence[Piece], name: str, dim: int = 0) -> Tensor:
    """A rank's units of a tensor, of all files that have some."""
    return torch.cat([each.tensors[name].narrow(dim, each.begin, each.end - each.begin) for each in pieces], dim)


def checked_save(kind: Kind, path: Any, key: Any) -> str:
    """What ranks compare before they write: with another key on one of them, none could read the folder."""
    checked_options("save", kind.format, 1, key)
    checked_path("save", path)
    return "" if key is None else f"key={hashlib.sha256(key).hexdigest()[:8]}"


def write(
    kind: Kind,
    ranks: Ranks,
    path: str | os.PathLike[str],
    counts: list[int],
    tensors: Mapping[str, Tensor],
    said: Mapping[str, Any],
    metadata: Callable[[], Mapping[str, Any]],
    device: torch.device,
    key: bytes | None = None,
    whole: Mapping[str, Tensor] | None = None,
) -> None:
    """Writes `counts[rank]` units of every rank, and what is said of them.

    `metadata` and `whole` are the first rank's. Whenever a rank is lost, the folder holds this or what it held before.
    """

    def begin() -> int:
        folder = checked_path("save", path)
        if ranks.rank:
            return 0
        os.makedirs(folder, exist_ok=True)
        index = os.path.join(folder, _INDEX)
        return _read_index(kind, index, key)[1]["round"] + 1 if os.path.exists(index) else 0

    number = ranks.gathered([ranks.together("save", begin, device)], device)[0][0]
    folder = checked_path("save", path)
    place = {**said, "round": number, "origin": sum(counts[: ranks.rank]), kind.number: counts[ranks.rank]}
    name = os.path.join(folder, f"{number}-{ranks.rank}.safetensors")
    ranks.together("save", lambda: files.save(name, tensors, place, format=kind.piece, version=1, key=key), device)

    def end() -> None:
        if ranks.rank == 0:
            for rank in range(ranks.count):
                if not os.path.exists(os.path.join(folder, f"{number}-{rank}.safetensors")):
                    raise ValueError(f"save: path must be a folder that all ranks see, got {folder}, not rank {rank}'s")
            stated = {"round": number, "counts": counts, "metadata": dict(metadata())}
            files.save(os.path.join(folder, _INDEX), whole or {}, stated, format=kind.format, version=1, key=key)
            for other in os.listdir(folder):
                if re.fullmatch(r"\d+-\d+\.safetensors", other) and int(other.split("-")[0]) != number:
                    os.unlink(os.path.join(folder, other))

    ranks.together("save", end, device)


def share(count: int, rank: int, ranks: int) -> range:
    """The units of a rank, about as many as of the others."""
    return range(count * rank // ranks, count * (rank + 1) // ranks)


def checked_share(op: str, units: str, count: int, rank: int, ranks: int) -> range:
    """`share`; ValueError where a rank would have none."""
    if ranks > count:
        raise ValueError(f"{op}: ranks must be at most {count}, the number of {units}, got {ranks}")
    return share(count, rank, ranks)


def read(
    kind: Kind,
    folder: str,
    rank: int,
    ranks: int,
    is_right: Callable[[Mapping[str, Tensor], Mapping[str, Any], int], bool],
    key: bytes | None = None,
) -> Content:
    """One rank's share; `is_right` tells whether tensors and what is said of them can be those of so many units."""
    whole, index = _read_index(kind, os.path.join(folder, _INDEX), key)
    counts: list[int] = index["counts"]
    own = checked_share("load", kind.units, sum(counts), rank, ranks)
    pieces = []
    for number, (count, beyond) in enumerate(zip(counts, itertools.accumulate(counts), strict=True)):
        origin = beyond - count
        begin, stop = max(own.start, origin), min(own.stop, beyond)
        if begin < stop:
            name = os.path.join(folder, f"{index['round']}-{number}.safetensors")
            tensors, said = files.open_mapped(name, format=kind.piece, key=key, op="load")
            wanted = {"round": index["round"], "origin": origin, kind.number: count}
            place = {word: said.pop(word, None) for word in wanted}
            if place != wanted or not is_right(tensors, said, count):
                raise files.IntegrityError(f"load: {name} must hold the {kind.units} of {wanted}, got {place}")
            pieces.append(Piece(tensors, said, begin - origin, stop - origin))
    return Content(pieces, whole, index["metadata"])


def _read_index(kind: Kind, path: str, key: bytes | None) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What the index of a folder says; anybody can seal one, so that all is checked."""
    whole, index = files.load(path, format=kind.format, key=key)
    number, counts, metadata = (index.get(name) for name in ("round", "counts", "metadata"))
    # A save tells the ranks its round, in an int64.
    known = type(number) is int and 0 <= number < 2**62 and isinstance(counts, list) and isinstance(metadata, dict)
    if not known or not counts or not all(type(count) is int and count > 0 for count in counts):
        raise files.IntegrityError(f"load: {path} must describe a {kind.name}, got {str(index)[:200]}")
    return whole, index
