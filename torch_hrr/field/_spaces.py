"""Observations of gymnasium's spaces as sensory values, and motors as actions of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces

from torch_hrr._checks import integer
from torch_hrr.field.brain import LARGEST

# Bounds from here on are none: some environments write float32's largest number for infinity.
_BOUNDLESS = 1e30


class Sensors:
    """Observations of a space as sensory values: `size` of them, a call encodes."""

    def __init__(self, op: str, space: spaces.Space[Any]) -> None:
        self.space = space
        if isinstance(space, spaces.Discrete):
            self.size = int(space.n)
        elif isinstance(space, spaces.Box):
            low, high = (bound.astype(np.float64).ravel() for bound in (space.low, space.high))
            self.size = low.size
            self.bounded = _bounded(space)
            low, high = np.where(self.bounded, low, 0.0), np.where(self.bounded, high, 0.0)
            self.middle = (low + high) / 2
            # Of what cannot vary, the distance from the middle is 0 anyway.
            self.half = np.where(high > low, (high - low) / 2, 1.0)
        else:
            raise TypeError(f"{op}: observation space must be Box or Discrete, got {space}")
        if self.size < 1:
            raise ValueError(f"{op}: observation space must hold at least one number, got {space}")

    def __call__(self, observation: Any) -> list[float]:
        """(x - middle) / half width of what is bounded, tanh x of what is not; a Discrete one is one-hot."""
        if isinstance(self.space, spaces.Discrete):
            chosen = integer("act", "observation", observation) - int(self.space.start)
            if not 0 <= chosen < self.size:
                raise ValueError(f"act: observation must be in {self.space}, got {observation}")
            return [float(i == chosen) for i in range(self.size)]
        values = np.asarray(observation)
        if values.dtype.kind not in "biuf":
            raise TypeError(f"act: observation must hold numbers, got {values.dtype}")
        if values.shape != self.space.shape:
            raise ValueError(f"act: observation must have shape {self.space.shape}, got {values.shape}")
        sensory, fits = self._encoded(values.reshape(1, -1))
        if not fits:
            flat = values.ravel()
            raise ValueError(f"act: observation must be finite and within {LARGEST:g} times its bounds, got {flat}")
        return sensory[0]

    def each(self, observations: Any, asked: Sequence[bool]) -> list[list[float]]:
        """Sensory values of the observations that are asked for; those of the others mean nothing.

        An array is encoded in one pass.
        """
        if isinstance(self.space, spaces.Box) and isinstance(observations, np.ndarray):
            fits = observations.dtype.kind in "biuf" and observations.shape == (len(asked), *self.space.shape)
            sensory, fits = self._encoded(observations.reshape(len(asked), -1)) if fits else ([], False)
            if fits:
                return sensory
        return [self(each) if needed else [0.0] * self.size for each, needed in zip(observations, asked, strict=True)]

    def _encoded(self, values: Any) -> tuple[list[list[float]], bool]:
        """The sensory values of each row, and whether all are finite and within bounds."""
        flat = values.astype(np.float64)
        with np.errstate(over="ignore"):
            encoded = (flat - self.middle) / self.half
        if not self.bounded.all():
            encoded = np.where(self.bounded, encoded, np.tanh(flat))
        fits = bool((np.isfinite(flat) & (np.abs(encoded) <= LARGEST)).all())
        sensory: list[list[float]] = encoded.tolist()
        return sensory, fits


class Motors:
    """Motors as actions of a space: `size` of them, a call decodes."""

    def __init__(self, op: str, space: spaces.Space[Any]) -> None:
        self.space = space
        if isinstance(space, spaces.Discrete):
            self.size = int(space.n)
        elif isinstance(space, spaces.Box):
            self.low, self.high = (bound.astype(np.float64).ravel() for bound in (space.low, space.high))
            self.size = self.low.size
            if not _bounded(space).all():
                raise ValueError(f"{op}: action space must have finite bounds, got {space}")
        else:
            raise TypeError(f"{op}: action space must be Box or Discrete, got {space}")
        if self.size < 1:
            raise ValueError(f"{op}: action space must hold at least one number, got {space}")

    def __call__(self, motor: Sequence[float]) -> Any:
        """The number of the strongest motor, the first of equals; or motors of -1 to 1 between the bounds."""
        return self.each([motor])[0]

    def each(self, motors: Sequence[Sequence[float]]) -> list[Any]:
        """Of each row of motors."""
        values = np.asarray(motors, np.float64)
        if isinstance(self.space, spaces.Discrete):
            start = int(self.space.start)
            return [chosen + start for chosen in values.argmax(1).tolist()]
        assert isinstance(self.space, spaces.Box)
        shape, dtype = (len(values), *self.space.shape), self.space.dtype
        action = self.low + (values + 1) / 2 * (self.high - self.low)
        if np.issubdtype(dtype, np.integer):
            # As Python's, since the largest ints have no floats.
            bounds = self.space.low.ravel().tolist(), self.space.high.ravel().tolist()
            whole = [
                [min(max(round(x), low), high) for x, low, high in zip(row, *bounds, strict=True)]
                for row in action.tolist()
            ]
            rows = np.array(whole, dtype).reshape(shape)
        elif dtype == np.bool_:
            rows = (values > 0).reshape(shape)
        else:
            # Rounding to the space's dtype must not leave the bounds.
            rows = action.reshape(shape).astype(dtype).clip(self.space.low, self.space.high)
        # A row of no dimensions is a scalar, not an array.
        return [np.asarray(row) for row in rows]


def _bounded(space: spaces.Box) -> Any:
    """Which numbers of the space are, flat; what was unbounded and of ints has the ends of their dtype."""
    low, high = (np.abs(bound.astype(np.float64)) < _BOUNDLESS for bound in (space.low, space.high))
    return (low & high & space.bounded_below & space.bounded_above).ravel()
