"""Folders of what is divided along its depth: a checked file for the planes of each rank, and an index of them."""

from __future__ import annotations

import itertools
import os
import re
from collections.abc import Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor

from torch_hrr._checks import checked_path
from torch_hrr._ranks import Ranks
from torch_hrr.io import files

DEPTH = -4
_INDEX = "index.safetensors"


class Kind(NamedTuple):
    """What a folder holds: the name of the class, the format of its files, and which tensors are divided."""

    name: str
    format: str
    divided: tuple[str, ...]


class Content(NamedTuple):
    """Planes of one rank by name, and what is whole."""

    planes: dict[str, Tensor]
    tensors: Mapping[str, Tensor]
    metadata: Mapping[str, Any]


def share(depth: int, rank: int, ranks: int) -> range:
    """The planes of one rank where they are divided evenly."""
    return range(depth * rank // ranks, depth * (rank + 1) // ranks)


def checked_share(op: str, depth: int, rank: int, ranks: int) -> range:
    """`share`; ValueError where a rank would have none."""
    if ranks > depth:
        raise ValueError(f"{op}: ranks must be at most {depth}, the planes of the field, got {ranks}")
    return share(depth, rank, ranks)


def save(
    kind: Kind,
    path: Any,
    ranks: Ranks,
    counts: list[int],
    content: Content,
    key: bytes | None = None,
) -> None:
    """Writes a file a rank, then the index, which is the first rank's, then removes the files that were before.

    Whenever a rank is lost, the folder holds what is saved now or before. An error of one rank is one on all.
    """
    device = next(iter(content.planes.values())).device

    def begin() -> int:
        folder = checked_path("save", path)
        if ranks.rank:
            return 0
        os.makedirs(folder, exist_ok=True)
        index = os.path.join(folder, _INDEX)
        return int(_read_index(kind, index, key)[1]["round"]) + 1 if os.path.exists(index) else 0

    number = ranks.gathered([ranks.together("save", begin, device)], device)[0][0]
    folder = checked_path("save", path)
    place = {"round": number, "origin": sum(counts[: ranks.rank]), "depth": counts[ranks.rank]}
    name = os.path.join(folder, f"{number}-{ranks.rank}.safetensors")
    seal: dict[str, Any] = {"version": 1, "key": key}
    format = f"{kind.format}_planes"
    ranks.together("save", lambda: files.save(name, content.planes, place, format=format, **seal), device)

    def end() -> None:
        if ranks.rank == 0:
            stated = {"round": number, "counts": counts, "metadata": dict(content.metadata)}
            files.save(os.path.join(folder, _INDEX), content.tensors, stated, format=kind.format, **seal)
            for other in os.listdir(folder):
                if re.fullmatch(r"\d+-\d+\.safetensors", other) and int(other.split("-")[0]) != number:
                    os.unlink(os.path.join(folder, other))

    ranks.together("save", end, device)


def read(kind: Kind, folder: str, rank: int, ranks: int, key: bytes | None = None) -> Content:
    """One rank's share of what a folder holds."""
    tensors, index = _read_index(kind, os.path.join(folder, _INDEX), key)
    counts: list[int] = index["counts"]
    own = checked_share("load", sum(counts), rank, ranks)
    parts: dict[str, list[Tensor]] = {each: [] for each in kind.divided}
    for number, (count, beyond) in enumerate(zip(counts, itertools.accumulate(counts), strict=True)):
        origin = beyond - count
        begin, stop = max(own.start, origin), min(own.stop, origin + count)
        if begin < stop:
            name = os.path.join(folder, f"{index['round']}-{number}.safetensors")
            held, place = files.open_mapped(name, format=f"{kind.format}_planes", key=key, op="load")
            wanted = {"round": index["round"], "origin": origin, "depth": count}
            fits = held.keys() == parts.keys() and all(t.dim() >= 4 and t.shape[DEPTH] == count for t in held.values())
            if place != wanted or not fits:
                raise files.IntegrityError(f"load: {name} must hold the planes of {wanted}, got {place}")
            for each, planes in held.items():
                parts[each].append(planes.narrow(DEPTH, begin - origin, stop - begin))
    return Content({each: torch.cat(part, DEPTH) for each, part in parts.items()}, tensors, index["metadata"])


def _read_index(kind: Kind, path: str, key: bytes | None) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What the index of a folder says; anybody can seal one, so that all is checked."""
    tensors, index = files.load(path, format=kind.format, key=key)
    number, counts, metadata = (index.get(name) for name in ("round", "counts", "metadata"))
    known = type(number) is int and number >= 0 and isinstance(counts, list) and isinstance(metadata, dict)
    if not known or not counts or not all(type(count) is int and count > 0 for count in counts):
        raise files.IntegrityError(f"load: {path} must describe a {kind.name}, got {str(index)[:200]}")
    return tensors, index
