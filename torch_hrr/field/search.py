"""A gradient-free search for weights with a high return."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from torch_hrr._checks import integer, sizes
from torch_hrr._progress import Progress, ticking
from torch_hrr._random import seeded_generator
from torch_hrr._spec import Int, Real, Seed, takes

# Squares of weights stay finite.
_WIDEST = 1e15


@takes(generations=Int(1), candidates=Int(2), elites=Int(2), spread=Real(0, _WIDEST), seed=Seed())
def search(
    earned: Callable[[Tensor, int], float],
    shape: Sequence[int],
    *,
    generations: int = 10,
    candidates: int = 16,
    elites: int = 4,
    spread: float = 1.0,
    seed: int = 0,
    progress: Progress = None,
) -> tuple[Tensor, list[float]]:
    """Searches for weights with a high return, by the cross-entropy method.

    Every generation draws candidates from independent Gaussians, at first around zero, and fits mean and variance to
    the best. Extra variance, which falls to zero, keeps it from settling too soon.

    Args:
        earned: The return of a candidate in a generation, which is maximised.
        shape: Shape of the weights, ints of at least 1.
        generations: How many, at least 1.
        candidates: Weights tried in each, at least 2.
        elites: How many of the best are fitted, 2 to ``candidates``.
        spread: The first standard deviation, 0 to 1e15.
        seed: Seed of the draws.
        progress: Called with the candidates tried and all of them; True shows a bar, None nothing.

    Returns:
        The last mean, float32 on the CPU, and the mean return of the elites of each generation. It depends on the seed,
        not on torch's default device and dtype.

    Raises:
        TypeError, ValueError: ``shape`` is not ints from 1 on, there are more elites than candidates, or one earns NaN.

    Source: Szita and Lorincz, Learning Tetris using the noisy cross-entropy method, Neural Computation 18, 2006.
    """
    lengths = sizes("search", "shape", shape)
    elites = integer("search", "elites", elites, 2, candidates, "candidates")
    tick = ticking("search", progress)
    generator = seeded_generator(seed)
    mean = torch.zeros(lengths, dtype=torch.float32, device="cpu")
    deviation = torch.full_like(mean, spread)
    returns = []
    for generation in range(generations):
        noise = torch.randn((candidates, *lengths), generator=generator, dtype=mean.dtype, device="cpu")
        drawn = mean + deviation * noise
        totals: list[float] = []
        for each in drawn:
            totals.append(float(earned(each.clone(), generation)))
            tick(generation * candidates + len(totals), generations * candidates)
        # The best of a choice would be NaN.
        if any(math.isnan(total) for total in totals):
            raise ValueError("search: earned must be a number, got nan")
        best = torch.tensor(totals, dtype=torch.float64, device="cpu").topk(elites)
        returns.append(best.values.mean().item())
        chosen = drawn[best.indices]
        mean = chosen.mean(0)
        extra = spread / 2 * (1 - (generation + 1) / generations)
        deviation = (chosen.var(0, correction=0) + extra * extra).sqrt()
    return mean, returns
