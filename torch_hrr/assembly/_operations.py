"""The operations of the assembly calculus as programs of rounds."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from torch_hrr.assembly import _checks as checks

if TYPE_CHECKING:
    from torch_hrr.assembly.brain import Brain

Projections = Mapping[str, Iterable[str]]


class Operations:
    """What `Brain` offers beyond single projections; every operation is a fixed sequence of `project` calls."""

    def reciprocal_project(
        self: Brain,
        source: str,
        target: str,
        rounds: int = 10,
        stimuli: Projections | None = None,  # type: ignore[misc]
    ) -> None:
        """Copies the assembly of `source` into `target`, with synapses that lead back to it.

        The first round fires from source to source and target, the others also from target to both.

        Args:
            source: an area with winners.
            target: another area.
            rounds: how many in all.
            stimuli: what keeps firing meanwhile, ``{stimulus: [areas]}``.
        """
        rounds = checks.integer("reciprocal_project", "rounds", rounds, least=0)
        checks.different("reciprocal_project", source, target)
        self.project(stimuli, {source: [source, target]}, min(rounds, 1))
        self.project(stimuli, {source: [source, target], target: [target, source]}, max(rounds - 1, 0))

    def associate(
        self: Brain,
        a: str,
        b: str,
        c: str,
        rounds: int = 10,
        stimuli: Projections | None = None,  # type: ignore[misc]
    ) -> None:
        """Lets the assemblies of areas `a` and `b` fire into `c` together, so that their projections there move closer.

        Both assemblies were projected into `c` before, one after the other. In the first round `c` does not fire into
        itself, afterwards it does.

        Args:
            a: an area with winners.
            b: another area with winners.
            c: the area of their projections.
            rounds: how many in all.
            stimuli: what keeps firing meanwhile, ``{stimulus: [areas]}``.

        Source: Papadimitriou et al. 2020, "association".
        """
        rounds = checks.integer("associate", "rounds", rounds, least=0)
        checks.different("associate", a, b, c)
        together = {a: [a, c], b: [b, c]}
        self.project(stimuli, together, min(rounds, 1))
        self.project(stimuli, {**together, c: [c]}, max(rounds - 1, 0))

    def merge(
        self: Brain,
        a: str,
        b: str,
        c: str,
        rounds: int = 50,
        stimuli: Projections | None = None,  # type: ignore[misc]
    ) -> None:
        """Makes an assembly of `c` that stands for those of `a` and `b` together, linked with both in both directions.

        In the first round `a` and `b` fire into themselves and `c`; in the others `c` also fires into all three.

        Args:
            a: an area with winners.
            b: another area with winners.
            c: the area of the merged assembly.
            rounds: how many in all.
            stimuli: what keeps firing meanwhile, ``{stimulus: [areas]}``.

        Source: Papadimitriou et al. 2020, "merge".
        """
        rounds = checks.integer("merge", "rounds", rounds, least=0)
        checks.different("merge", a, b, c)
        together = {a: [a, c], b: [b, c]}
        self.project(stimuli, together, min(rounds, 1))
        self.project(stimuli, {**together, c: [c, a, b]}, max(rounds - 1, 0))

    def pattern_complete(self: Brain, area: str, fraction: float = 0.5, rounds: int = 5) -> float | Tensor:  # type: ignore[misc]
        """Fires a random part of an area's assembly and lets the area fire into itself: the rest comes back.

        Args:
            area: an area with winners.
            fraction: of the winners that fire first, in (0, 1]; at least one neuron. Which ones depends on the brain's
                seed, the area, its winners and the fraction alone.
            rounds: how many.

        Returns:
            The share of the winners before that are winners after (float64 ``[batch]`` with a batch).

        Source: Papadimitriou et al. 2020, "pattern completion".
        """
        state = self._area("pattern_complete", area)
        part = checks.number("pattern_complete", "fraction", fraction, least=0)
        if not 0 < part <= 1:
            raise ValueError(f"pattern_complete: fraction must be in (0, 1], got {fraction}")
        rounds = checks.integer("pattern_complete", "rounds", rounds, least=0)
        before = self.winners(area).cpu()
        if state.silent:
            raise ValueError(f"pattern_complete: area must have winners, got none in {area!r}")
        count = before.shape[-1]
        kept = max(1, round(part * count))
        rows = before.reshape(-1, count)
        chosen = torch.stack([row[_permutation(f"{self.seed} {area} {b}", count)[:kept]] for b, row in enumerate(rows)])
        self.activate(area, chosen if before.dim() == 2 else chosen[0])
        self.project({}, {area: [area]}, rounds)
        after = self.winners(area).cpu().reshape(len(rows), -1)
        shares = torch.stack([torch.isin(row, now).double().mean() for row, now in zip(rows, after, strict=True)])
        return float(shares) if before.dim() == 1 else shares


def _permutation(text: str, count: int) -> Tensor:
    """A permutation of 0..count-1 that the text names: the order of their SHA-256."""
    digests = [hashlib.sha256(f"{text} {i}".encode()).digest() for i in range(count)]
    return torch.tensor(sorted(range(count), key=digests.__getitem__), dtype=torch.int64)
