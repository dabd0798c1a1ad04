"""Read-only views of connectomes, as the scripts of the published simulator index them."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any, NoReturn

from torch import Tensor

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
        given = key if isinstance(key, tuple) else (key, slice(None))
        if len(given) != 2:
            raise IndexError(f"{_OP}: indices must be those of rows and of columns, got {len(given)} of them")
        rows = _places("rows", given[0], len(self))
        rows = rows if self._chosen is None else self._chosen[rows]
        if not isinstance(key, tuple):
            one = rows.ndim == 0
            return self._row(int(rows)) if one else Connectome(self._brain, self._source, self._target, rows)
        columns = _places("columns", given[1], self.shape[1])
        if rows.ndim == 0:
            weights = self._row(int(rows))[columns]
            return weights if columns.ndim == 0 else _read_only(weights)
        block = self._block(rows, columns.reshape(-1))
        return block if columns.ndim else block[:, 0]

    def __setitem__(self, key: Any, value: Any) -> NoReturn:
        """Refused: synapses change by plasticity."""
        raise TypeError("connectomes: weights must not be assigned; synapses grow by plasticity")

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        """All of it."""
        block = self[:, :]
        return block if dtype is None else block.astype(dtype)

    def sum(self, *args: Any, **kwargs: Any) -> Any:
        """Of all of it, as of an array."""
        return self.__array__().sum(*args, **kwargs)

    def _row(self, neuron: int) -> Any:
        if self._version != self._brain.version:
            self._kept, self._version = {}, self._brain.version
        # Another thread may clear what is kept.
        kept = self._kept.get(neuron)
        if kept is None:
            if (len(self._kept) + 1) * self.shape[1] > _KEPT:
                self._kept.clear()
            kept = self._kept[neuron] = self._block([neuron])[0]
        return kept

    def _block(self, rows: Any, columns: Any = None) -> Any:
        checks.exact(_OP, self._brain.mode)
        whole = columns is None or (len(columns) == self.shape[1] and (columns[1:] > columns[:-1]).all())
        given = None if whole else columns.tolist()
        return _read_only(self._brain.weights(self._source, self._target, [*map(int, rows)], given).cpu().numpy())


def _read_only(block: Any) -> Any:
    block.flags.writeable = False
    return block


def _places(argument: str, key: Any, size: int) -> Any:
    """The places that an index, a slice, a mask or a sequence of indices names, as NumPy reads them."""
    import numpy

    wanted = f"{_OP}: {argument} must be an index, a slice, a mask or a sequence of indices"
    try:
        if not isinstance(key, slice):
            key = numpy.asarray(key.cpu() if isinstance(key, Tensor) else key)
            is_mask = key.dtype.kind == "b" and key.ndim == 1
            if not (is_mask or key.dtype.kind in "iu" or key.size == 0):
                raise TypeError
            if key.ndim > 1:
                raise IndexError(f"{_OP}: {argument} must have shape [m], got {list(key.shape)}")
            key = key if is_mask else key.astype(numpy.int64)
        return numpy.arange(size)[key]
    except (TypeError, ValueError):
        raise TypeError(f"{wanted}, got {checks.brief(key)}") from None
    except IndexError as error:
        known = str(error).startswith(_OP)
        raise IndexError(str(error) if known else f"{_OP}: {argument} must be there, got {error}") from None


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
