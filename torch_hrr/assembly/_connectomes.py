"""Read-only views of connectomes, as the scripts of the published simulator index them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NoReturn

import torch
from torch import Tensor

if TYPE_CHECKING:
    from torch_hrr.assembly.brain import Brain

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
        """See the class; IndexError for a neuron that is not there."""
        if isinstance(key, tuple):
            row, column = key
            if _is_index(row):
                return self._row(row)[column]
            rows = self._rows(row)
            if _is_index(column):
                return self._block(rows, _places([column], self.shape[1]))[:, 0]
            return self._block(rows, _places(column, self.shape[1]))
        if _is_index(key):
            return self._row(key)
        return Connectome(self._brain, self._source, self._target, self._rows(key))

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

    def _rows(self, key: Any) -> Sequence[int]:
        places = _places(key, len(self))
        return places if self._chosen is None else [self._chosen[place] for place in places]

    def _row(self, row: Any) -> Any:
        if self._version != self._brain.version:
            self._kept, self._version = {}, self._brain.version
        neuron = self._rows([row])[0]
        if neuron not in self._kept:
            if (len(self._kept) + 1) * self.shape[1] > _KEPT:
                self._kept.clear()
            self._kept[neuron] = self._block([neuron], range(self.shape[1]))[0]
        return self._kept[neuron]

    def _block(self, rows: Sequence[int], columns: Sequence[int]) -> Any:
        whole = len(columns) == self.shape[1] and columns == range(self.shape[1])
        weights = self._brain.weights(self._source, self._target, list(rows), None if whole else list(columns))
        block = weights.cpu().numpy()
        block.flags.writeable = False
        return block


def _is_index(key: Any) -> bool:
    return hasattr(key, "__index__") and not isinstance(key, (bool, Tensor)) and not getattr(key, "shape", ())


def _places(key: Any, size: int) -> Sequence[int]:
    """The places that a slice, a mask or a sequence of indices names, as NumPy reads them; IndexError outside."""
    if isinstance(key, slice):
        return range(size)[key]
    places = torch.as_tensor(key)
    if places.dtype == torch.bool:
        if places.shape != (size,):
            raise IndexError(f"connectomes: a mask must have shape [{size}], got {list(places.shape)}")
        return [int(place) for place in places.nonzero().squeeze(1)]
    every = range(size)
    return [every[int(place)] for place in places.reshape(-1)]


class StimulusViews(Mapping[str, Mapping[str, Any]]):
    """What stimuli send into areas: ``[stimulus][area]`` is a float32 array ``[n]`` that cannot be written."""

    def __init__(self, brain: Brain, stimulus: str | None = None) -> None:
        """Of all stimuli, or of one into all areas."""
        self._brain, self._stimulus = brain, stimulus

    def _names(self) -> Mapping[str, Any]:
        return self._brain.stimuli if self._stimulus is None else self._brain.areas

    def __getitem__(self, name: str) -> Any:
        """The areas of a stimulus, or the array of an area; KeyError for another name."""
        if name not in self._names():
            raise KeyError(name)
        if self._stimulus is None:
            return StimulusViews(self._brain, name)
        weights = self._brain.stimulus_weights(self._stimulus, name).cpu().numpy()
        weights.flags.writeable = False
        return weights

    def __iter__(self) -> Iterator[str]:
        """The names."""
        return iter(self._names())

    def __len__(self) -> int:
        """How many there are."""
        return len(self._names())
