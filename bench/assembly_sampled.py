"""The bias of mode "sampled": supports of projections beside those of the exact mode (docs/assembly.md).

`python -m bench.assembly_sampled [--seeds 60]` takes about a minute.
"""

import argparse
from statistics import mean, stdev

import torch

from torch_hrr.assembly import Brain

ROUNDS = 100
# n, k, the size of the stimulus, p and beta.
CASES = (
    (100_000, 317, 317, 0.01, 0.05),
    (100_000, 317, 317, 0.01, 0.01),
    (100_000, 317, 317, 0.05, 0.05),
    (10_000, 100, 100, 0.05, 0.05),
    (10_000, 100, 317, 0.05, 0.05),
)


def supports(mode: str, seeds: int, n: int, k: int, size: int, p: float, beta: float) -> list[int]:
    """Of one area, a stimulus and the area's recurrence, after the last round."""
    found = []
    for seed in range(seeds):
        brain = Brain(p=p, seed=seed, mode=mode)
        brain.add_stimulus("s", size=size)
        brain.add_area("A", n=n, k=k, beta=beta)
        brain.project({"s": ["A"]}, {"A": ["A"]}, rounds=ROUNDS)
        found.append(int(brain.support("A")))
    return found


def main() -> None:
    """Prints a line for each density and plasticity."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=60)
    seeds = parser.parse_args().seeds
    torch.set_num_threads(1)
    print(f"{ROUNDS} rounds, {seeds} seeds: means, and the standard error of the excess")
    for n, k, size, p, beta in CASES:
        exact, sampled = (supports(mode, seeds, n, k, size, p, beta) for mode in ("exact", "sampled"))
        ratio = mean(sampled) / mean(exact)
        error = ratio * sum((stdev(each) / mean(each)) ** 2 / seeds for each in (exact, sampled)) ** 0.5
        print(
            f"n={n} k={k} stimulus {size} p={p} beta={beta}: exact {mean(exact):.0f}, sampled {mean(sampled):.0f}: "
            f"{100 * (ratio - 1):+.1f} % +- {100 * error:.1f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
