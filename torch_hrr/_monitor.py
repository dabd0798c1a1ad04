"""What monitors have in common: they record series while they are attached, one for each part and quantity."""

from __future__ import annotations

from typing import Any, Self

from torch import Tensor

from torch_hrr._repr import Described


class Recorder(Described):
    """Series of what happens in an object, recorded while it is attached: ``with Monitor(...) as monitor: ...``.

    ``monitor[part, quantity]`` is a series as a tensor ``[records, ...]``, the oldest record first; `data` gives them
    all, `numpy` as arrays. What is recorded stays after `detach` and until `clear`. A deep copy that is attached
    watches the object that was copied with it.
    """

    _lock: Any
    _handle: Any = None

    def _keys(self) -> list[tuple[Any, str]]:
        """Part and quantity of every series."""
        raise NotImplementedError

    def _series(self, part: Any, quantity: str) -> Tensor:
        """A series; the caller changes nothing of the monitor's through it."""
        raise NotImplementedError

    def _begin(self) -> None:
        """What has to be known before the first record."""

    def _watch(self) -> Any:
        """Adds the hook that records; returns its handle."""
        raise NotImplementedError

    def clear(self) -> None:
        """Forgets what was recorded."""
        raise NotImplementedError

    def attach(self) -> Self:
        """Records from now on; what was recorded before stays.

        Raises:
            RuntimeError: it is attached already.
        """
        with self._lock:
            if self._handle is not None:
                raise RuntimeError("attach: the monitor is already attached")
            self._begin()
            self._handle = self._watch()
        return self

    def detach(self) -> None:
        """Stops recording; does nothing if the monitor is not attached."""
        with self._lock:
            if self._handle is not None:
                self._handle.remove()
            self._handle = None

    def __enter__(self) -> Self:
        """As `attach`, of a monitor that is not attached."""
        return self if self._handle is not None else self.attach()

    def __exit__(self, *exception: object) -> None:
        """As `detach`, after an exception too."""
        self.detach()

    def data(self) -> dict[tuple[Any, str], Tensor]:
        """All series by part and quantity, of one moment."""
        with self._lock:
            return {key: self._series(*key) for key in self._keys()}

    def numpy(self) -> dict[tuple[Any, str], Any]:
        """`data` as NumPy arrays."""
        return {key: series.cpu().numpy() for key, series in self.data().items()}

    def __getitem__(self, key: tuple[Any, str]) -> Tensor:
        """One series; KeyError where there is none of this part and quantity."""
        with self._lock:
            if not isinstance(key, tuple) or key not in self._keys():
                raise KeyError(f"{type(self).__name__}: a series must be one of {self._keys()}, got {key!r}")
            return self._series(*key)

    def __getstate__(self) -> dict[str, Any]:
        """Of a copy: whether it is attached, in place of the handle."""
        with self._lock:
            return {**self.__dict__, "_handle": self._handle is not None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        """Of a copy, which watches what was copied with it."""
        self.__dict__.update(state)
        self._handle = self._watch() if state["_handle"] else None
