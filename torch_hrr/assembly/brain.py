"""Brain: areas of neurons, stimuli and plastic random fibers, and the operations of the assembly calculus."""

from __future__ import annotations

import hashlib

import torch
from torch import Tensor

from torch_hrr.assembly import _checks as checks
from torch_hrr.assembly._rounds import Projections, Rounds


class Brain(Rounds):
    """Areas of n neurons of which k fire, stimuli, and random plastic synapses between all of them.

    Every ordered pair of a neuron i of area A and a neuron j of area B (B may be A) is a synapse with probability p and
    weight 1, independently. In one round, all targets at once from the winners of the round before:

    1. ``x_j`` = the sum of the weights of the synapses of j with the stimuli and winners that fire into its area;
    2. the new winners of an area are its k neurons with the largest ``x_j``, ties to the lower index;
    3. the synapses from what fired to the new winners grow: ``w = min(w (1 + beta), w_max)``.

    A stimulus is `size` neurons that fire together. The graph is a function of (seed, brain, names) and takes no
    memory; potentiated synapses are kept in a table. Weights are float32, inputs exact multiples of 2^-24 in 64 bits,
    so that the same seed gives the same winners whatever the device, the threads, the batch, the order of declarations
    or a save in between.

    A round costs about 1.4 ns (AVX-512) for each base synapse of the winners that came and went since the last one, a
    pass over the n sums of the area, and little else; memory is 4 bytes a neuron and fiber used, and 4 a neuron.

    Args:
        p: density of the connectome, in [0, 1].
        seed: 64 bits (modulo 2^64).
        mode: "exact", or "sampled": the lazy method of the published simulator, which is biased and there to compare
            with published figures (`torch_hrr.assembly._sampled.SampledEngine` says how). Its numbers come from
            torch.Generator: the same seed gives the same winners on one kind of device only, and the brain stays there.
        device: where the brain lives, "cpu" or "cuda"; what is not there is the CPU, after a warning. In mode "exact" a
            brain can be moved (``brain.to("cuda")``) and saved on one device and loaded on another, with the same bits.
        batch: number of independent brains that do the same; results then have a leading dimension. Brain b is the same
            brain in every batch, and batch=None is brain 0 without that dimension.

    Raises:
        ValueError: p outside [0, 1], an unknown mode, batch < 1.
        RuntimeError: a device that is neither.

    Source: Papadimitriou, Vempala, Mitropolsky, Collins, Maass, Brain computation by assemblies of neurons, PNAS 2020.
    """

    def reciprocal_project(
        self,
        source: str,
        target: str,
        rounds: int = 10,
        stimuli: Projections | None = None,
    ) -> None:
        """Copies the assembly of `source` into `target`, with synapses that lead back to it.

        The first round fires from source to source and target, the others also from target to both.

        Args:
            source: an area with winners.
            target: another area.
            rounds: how many in all.
            stimuli: what keeps firing meanwhile, ``{stimulus: [areas]}``.
        """
        stimuli = checks.listed(stimuli or {})
        rounds = checks.rounds("reciprocal_project", rounds)
        checks.different("reciprocal_project", source, target)
        first = {source: [source, target]}
        self._project_in_turn(stimuli, first, {**first, target: [target, source]}, rounds)

    def associate(
        self,
        a: str,
        b: str,
        c: str,
        rounds: int = 10,
        stimuli: Projections | None = None,
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
        stimuli = checks.listed(stimuli or {})
        rounds = checks.rounds("associate", rounds)
        checks.different("associate", a, b, c)
        together = {a: [a, c], b: [b, c]}
        self._project_in_turn(stimuli, together, {**together, c: [c]}, rounds)

    def merge(
        self,
        a: str,
        b: str,
        c: str,
        rounds: int = 50,
        stimuli: Projections | None = None,
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
        stimuli = checks.listed(stimuli or {})
        rounds = checks.rounds("merge", rounds)
        checks.different("merge", a, b, c)
        together = {a: [a, c], b: [b, c]}
        self._project_in_turn(stimuli, together, {**together, c: [c, a, b]}, rounds)

    def pattern_complete(self, area: str, fraction: float = 0.5, rounds: int = 5) -> float | Tensor:
        """Fires a random part of an area's assembly and lets the area fire into itself: the rest comes back.

        Args:
            area: an area with winners.
            fraction: of the winners that fire first, in (0, 1]; at least one neuron. Which ones depends on the brain's
                seed, the area, its winners and the fraction alone.
            rounds: how many.

        Returns:
            The share of the winners before that are winners after (float64 ``[batch]``, on the CPU, with a batch).

        Raises:
            ValueError: the area has no winners, or nothing could come back because it is fixed, or it or its fiber into
                itself is inhibited; the brain is unchanged.

        Source: Papadimitriou et al. 2020, "pattern completion".
        """
        state = self._area("pattern_complete", area)
        part = checks.number("pattern_complete", "fraction", fraction, least=0)
        if not 0 < part <= 1:
            raise ValueError(f"pattern_complete: fraction must be in (0, 1], got {fraction}")
        rounds = checks.rounds("pattern_complete", rounds)
        before = self.winners(area).cpu()
        if state.silent:
            raise ValueError(f"pattern_complete: area must have winners, got none in {area!r}")
        if state.fixed or state.locks or self._locks.get((area, area)):
            what = "a fixed" if state.fixed else "an inhibited" if state.locks else "an inhibited fiber of"
            raise ValueError(f"pattern_complete: area must be free to fire into itself, got {what} {area!r}")
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
