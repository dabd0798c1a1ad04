"""Memories of agents that keep vectors of phases as bytes: memory-etch (tried with 1.1.0) and eling (0.12.1).

Both call them HRR, and both store float64 angles of the same atoms. Of one word the 256 angles of one store are the
first 256 of another's 1024.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence

import torch
from torch import Tensor

from torch_hrr._checks import integer, listed, word
from torch_hrr.hrr import functional

__all__ = ["atom", "vectors"]


def vectors(blobs: bytes | Sequence[bytes]) -> Tensor:
    """Vectors, by `hrr.from_phases`, of what the column ``hrr_vector`` of their table ``facts`` holds.

    Binding is the same as theirs; a bundle of theirs is `hrr.unitary` of a sum here. Their ``similarity`` s is the
    cosine ``(D s + 1) / (D + 1)``.

    Args:
        blobs: One or N values, each the bytes of D angles, float64.

    Returns:
        ``[2 D + 2]`` or ``[N, 2 D + 2]``, float64 on the CPU.

    Raises:
        TypeError: Neither bytes nor several.
        ValueError: None, or bytes that are no D >= 1 finite angles, or differ in D.
    """
    if isinstance(blobs, bytes):
        return vectors([blobs])[0]
    given = listed("vectors", "blobs", blobs, "bytes, or a sequence of them")
    for blob in given:
        if not isinstance(blob, bytes):
            raise TypeError(f"vectors: blobs must be bytes, or a sequence of them, got {type(blob).__name__}")
    lengths = sorted({len(blob) for blob in given})
    if len(lengths) != 1 or lengths[0] % 8 or not lengths[0]:
        raise ValueError(f"vectors: blobs must be of one length, 8 D bytes with D >= 1, got {lengths}")
    angles = torch.frombuffer(bytearray(b"".join(given)), dtype=torch.float64).view(len(given), -1)
    if not bool(angles.isfinite().all()):
        raise ValueError("vectors: blobs must hold finite angles, got NaN or infinity")
    return functional.from_phases(angles)


def atom(name: str, dim: int = 1024) -> Tensor:
    """The vector of a word or role, by which theirs are queried, such as "__hrr_role_content__".

    SHA-256 of the name and a counter, read as 16-bit numbers, which are parts of a whole turn. Words are in lower case
    and without punctuation at their ends.

    Args:
        name: The word.
        dim: Their D, the number of angles: 256 by default in memory-etch, 1024 in eling.

    Returns:
        ``[2 dim + 2]``, float64 on the CPU.

    Raises:
        TypeError: ``name`` is not a str or ``dim`` not an int.
        ValueError: ``dim`` is less than 1.
    """
    word("atom", "name", name)
    dim = integer("atom", "dim", dim, 1)
    blocks = (hashlib.sha256(f"{name}:{at}".encode()).digest() for at in range(math.ceil(dim / 16)))
    data = b"".join(blocks)
    turns = [int.from_bytes(data[at : at + 2], "little") for at in range(0, 2 * dim, 2)]
    return functional.from_phases(torch.tensor(turns, dtype=torch.float64, device="cpu") * (2 * math.pi / 65536))
