"""Read-only views of connectomes, as the scripts of the published simulator index them."""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterator, Sequence
from typing import Any, NoReturn

import torch

from torch_hrr.assembly import Brain
from torch_hrr.assembly import _checks as checks
from torch_hrr.assembly._views import Views

_OP = "connectomes"
# Elements of rows that a view keeps.
_KEPT = 1 << 24


class Connectome:
    """The weights of the synapses from one area to another, ``[n, n]``, drawn as they are read and never written.

    ``view[i, j]`` is a float; ``view[i]`` a row and ``view[rows, columns]`` a block, NumPy arrays that cannot be
    written; ``view[rows]`` a view of these rows, of which ``[:, columns]`` gives a block. Rows are kept until the next
    round, 64 MiB of them at most. Needs NumPy.
    """

    def __init__(self, brain: Brain, source: str, target: str, rows: Any = None) -> None:
        """Of a fiber, or of some of its rows."""
        self._brain, self._source, self._target = brain, source, target
        self._chosen = rows
        self._kept: dict[int, Any] = {}
        self._version = -1

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        rows = self._brain.areas[self._source].n if self._chosen is None else len(self._chosen)
        return rows, self._brain.areas[self._target].n

    def __len__(self) -> int:
        """The number of rows."""
        return self.shape[0]

    def __iter__(self) -> Iterator[Any]:
        """The rows."""
        return (self[row] for row in range(len(self)))

    def __getitem__(self, key: Any) -> Any:
        """See the class; IndexError for a neuron that is not there, TypeError for what is no index."""
        if not isinstance(key, tuple):
            return self._row(key) if _is_index(key) else self._of_rows(self._rows(key))
        if len(key) != 2:
            raise IndexError(f"{_OP}: indices must be those of rows and of columns, got {len(key)} of them")
        row, column = key
        places = _places("columns", column, self.shape[1])
        if _is_index(row):
            weights = _read_only(self._row(row)[list(places)])
            return weights[0] if _is_index(column) else weights
        block = self._block(self._rows(row), places)
        return block[:, 0] if _is_index(column) else block

    def __setitem__(self, key: Any, value: Any) -> NoReturn:
        """Refused: synapses change by plasticity."""
        raise TypeError("connectomes: weights must not be assigned; synapses grow by plasticity")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """All of it."""
        block = self._block(self._rows(slice(None)), range(self.shape[1]))
        return block if dtype is None else block.astype(dtype)

    def sum(self, *args: Any, **kwargs: Any) -> Any:
        """Of all of it, as of an array."""
        return self.__array__().sum(*args, **kwargs)

    def _of_rows(self, rows: Sequence[int]) -> Connectome:
        return Connectome(self._brain, self._source, self._target, rows)

    def _rows(self, key: Any) -> Sequence[int]:
        places = _places("rows", key, len(self))
        return places if self._chosen is None else [self._chosen[place] for place in places]

    def _row(self, row: Any) -> Any:
        if self._version != self._brain.version:
            self._kept, self._version = {}, self._brain.version
        (neuron,) = self._rows(row)
        # Another thread may clear what is kept.
        kept = self._kept.get(neuron)
        if kept is None:
            if (len(self._kept) + 1) * self.shape[1] > _KEPT:
                self._kept.clear()
            kept = self._kept[neuron] = self._block([neuron], range(self.shape[1]))[0]
        return kept

    def _block(self, rows: Sequence[int], columns: Sequence[int]) -> Any:
        checks.exact(_OP, self._brain.mode)
        whole = columns == range(self.shape[1])
        weights = self._brain.weights(self._source, self._target, list(rows), None if whole else list(columns))
        return _read_only(weights.cpu().numpy())


def _read_only(block: Any) -> Any:
    block.flags.writeable = False
    return block


def _is_index(key: Any) -> bool:
    """Whether it names one place: an int, NumPy's or a tensor's too."""
    if checks.is_bool(key) or getattr(key, "dtype", None) == torch.bool or getattr(key, "shape", ()) != ():
        return False
    try:
        operator.index(key)
    except TypeError:
        return False
    return True


def _places(argument: str, key: Any, size: int) -> Sequence[int]:
    """The places that an index, a slice, a mask or a sequence of indices names, as NumPy reads them."""
    if isinstance(key, slice):
        try:
            return range(size)[key]
        except (TypeError, ValueError):
            raise TypeError(f"{_OP}: {argument} must be a slice of ints, got {checks.brief(key)}") from None
    if not _is_index(key) and (not checks.is_several(key) or not hasattr(key, "__len__")):
        wanted = "an index, a slice, a mask or a sequence of indices"
        raise TypeError(f"{_OP}: {argument} must be {wanted}, got {checks.brief(key)}")
    found = checks.integers(_OP, [operator.index(key)] if _is_index(key) else key, size, argument)
    if found.dtype == torch.bool:
        if found.shape != (size,):
            raise IndexError(f"{_OP}: {argument} must be a mask of shape [{size}], got {list(found.shape)}")
        return [int(place) for place in found.nonzero().squeeze(1)]
    if found.numel() and (found.is_floating_point() or found.is_complex()):
        raise TypeError(f"{_OP}: {argument} must be integers, got {found.dtype}")
    if found.dim() != 1:
        raise IndexError(f"{_OP}: {argument} must have shape [m], got {list(found.shape)}")
    outside = found[(found < -size) | (found >= size)]
    if len(outside):
        raise IndexError(f"{_OP}: {argument} must be in {-size}..{size - 1}, got {int(outside[0])}")
    return [int(place) % size for place in found]


class Weights(Views[str, Any]):
    """What is read of areas or stimuli by name; nothing can be assigned."""

    def _refuse(self, *_: Any) -> NoReturn:
        raise TypeError(f"{self._wanted.partition(':')[0]}: weights must not be assigned; synapses grow by plasticity")

    __setitem__ = __delitem__ = _refuse


def stimulus_views(brain: Brain) -> Weights:
    """What stimuli send into areas: ``[stimulus][area]`` is a float32 array ``[n]`` that cannot be written."""
    op = "connectomes_by_stimulus"

    def weights(stimulus: str, area: str) -> Any:
        checks.exact(op, brain.mode)
        return _read_only(brain.stimulus_weights(stimulus, area).cpu().numpy())

    def of_areas(stimulus: str) -> Weights:
        return Weights(f"{op}: area must be declared", lambda: brain.areas, functools.partial(weights, stimulus))

    return Weights(f"{op}: stimulus must be declared", lambda: brain.stimuli, of_areas)
