"""The demo's job of assemblies: digits read from the winners of a random area, and an assembly completed from parts."""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from torch_hrr.assembly import Brain, connectome_inputs, k_winners, overlap
from torch_hrr.demos import digits
from torch_hrr.demos.figure import Bar, Panel

NEURONS, WINNERS, DENSITY = 2000, 100, 0.1
# Of the area whose assembly is completed, and the shares of the assembly that fire.
LARGE, ASSEMBLY = 100_000, 317
SHARES = (0.02, 0.1, 0.5)


@dataclass(frozen=True)
class AssemblyResult:
    """What the job measured.

    Attributes:
        accuracy: Share of test digits recognised, by what is read and how.
        completed: Share of the assembly that fires at last, by the share that was made to fire.
    """

    accuracy: dict[str, float]
    completed: dict[float, float]


def fired(grey: Tensor, n: int, k: int, p: float, seed: int) -> Tensor:
    """0/1 patterns ``[B, n]`` of the k neurons with the largest inputs, for images ``[B, 64]`` of grey levels 0 to 16.

    Every pixel sends synapses of weight 1 to a share p of the neurons; nothing is learned.
    """
    # A single neuron's inputs to all others are its row of the connectome.
    connectome = connectome_inputs(torch.arange(grey.shape[1]).unsqueeze(-1), n, p, seed, fiber=0)
    # Integers up to 16 * 64, which matrix products of float32 add exactly in any order.
    winners = k_winners(grey.float() @ connectome.float(), k)[1]
    return torch.zeros(len(grey), n).scatter_(1, winners, 1.0)


def nearest_mean(train: Tensor, labels: Tensor, test: Tensor) -> Tensor:
    """The class whose mean has the largest cosine."""
    means = torch.stack([train[labels == c].double().mean(0) for c in range(digits.CLASSES)])
    return (F.normalize(test.double()) @ F.normalize(means).T).argmax(-1)


def read_digits(seed: int) -> dict[str, float]:
    """Accuracies of two read-outs, of the pixels and of the winners."""
    grey, labels = digits.load_digits()
    train, test = digits.halves_of(len(labels), torch.Generator().manual_seed(seed))
    found = {}
    for name, inputs in (("pixels", grey.float()), ("winners", fired(grey, NEURONS, WINNERS, DENSITY, seed))):
        for method, readout in (("nearest mean", nearest_mean), ("ridge read-out", digits.ridge_readout)):
            answers = readout(inputs[train], labels[train], inputs[test])
            found[f"{name}, {method}"] = digits.accuracy(answers, labels[test])
    return found


def complete(seed: int) -> dict[float, float]:
    """How much of an assembly fires five rounds after parts of it were made to fire."""
    brain = Brain(p=0.05, seed=seed)
    brain.add_stimulus("s", size=ASSEMBLY)
    brain.add_area("A", n=LARGE, k=ASSEMBLY, beta=0.05)
    brain.project(stimuli={"s": ["A"]}, areas={"A": ["A"]}, rounds=25)
    brain.disable_plasticity()
    assembly = brain.winners("A")
    generator = torch.Generator().manual_seed(seed)
    found = {}
    for share in SHARES:
        part = torch.randperm(len(assembly), generator=generator)[: round(share * len(assembly))]
        brain.activate("A", assembly[part])
        brain.project(areas={"A": ["A"]}, rounds=5)
        found[share] = float(overlap(brain.winners("A"), assembly))
    return found


def report(result: AssemblyResult) -> str:
    """The result as tables."""
    rows = [f"{'what is read, and how':<44}{'accuracy':>9}"]
    rows += [f"{name:<44}{value:>9.3f}" for name, value in result.accuracy.items()]
    rows += ["", f"{'share of an assembly made to fire':<44}{'5 rounds later':>15}"]
    rows += [f"{share:<44.2f}{value:>15.2f}" for share, value in result.completed.items()]
    return "\n".join(rows)


def panel(result: AssemblyResult) -> Panel:
    """The accuracies, for the picture."""
    bars = [Bar(name, value, ours=name.startswith("winners")) for name, value in result.accuracy.items()]
    bars += [Bar(f"{share:.0%} fire, 5 rounds later", value, ours=True) for share, value in result.completed.items()]
    return Panel("Assemblies: share of digits recognised, share of an assembly that fires", 1.0, 3, bars)


def run(options: argparse.Namespace) -> Panel:
    """Runs the job, prints its results, and gives those for the picture."""
    bar = digits.progress_bar(2, "projecting")
    accuracy = read_digits(options.seed)
    bar.update(1)
    completed = complete(options.seed)
    bar.update(1)
    bar.close()
    result = AssemblyResult(accuracy, completed)
    print(f"\ndigits through a random area, in which {WINNERS} of {NEURONS} neurons fire and nothing is learned;")
    print(f"then an assembly of {ASSEMBLY} of {LARGE} neurons, completed from a part of it\n")
    print(report(result))
    return panel(result)
