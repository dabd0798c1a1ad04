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
from torch_hrr.demos.table import Outcome, Row, Timing, in_turn

NEURONS, WINNERS, DENSITY = 2000, 100, 0.1
# Of the area whose assembly is completed, and the shares of the assembly that fire.
LARGE, ASSEMBLY = 100_000, 317
SHARES = (0.02, 0.1, 0.5)
# Of the area whose projection is timed beside a matrix of all weights: that of the large one would take 40 GB.
TIMED, FIRING, BETA = 5000, 70, 0.05


@dataclass(frozen=True)
class AssemblyResult:
    """What the job measured.

    Attributes:
        accuracy: Share of test digits recognised, by what is read and how.
        completed: Share of the assembly that fires at last, by the share that was made to fire.
    """

    accuracy: dict[str, float]
    completed: dict[float, float]


def inputs_of(grey: Tensor, n: int, p: float, seed: int) -> Tensor:
    """Inputs ``[B, n]`` of neurons from images ``[B, 64]`` of grey levels 0 to 16.

    Every pixel sends synapses of weight 1 to a share p of the neurons; nothing is learned.
    """
    # A single neuron's inputs to all others are its row of the connectome.
    connectome = connectome_inputs(torch.arange(grey.shape[1]).unsqueeze(-1), n, p, seed, fiber=0)
    # Integers up to 16 * 64, which matrix products of float32 add exactly in any order.
    return grey.float() @ connectome.float()


def fired(grey: Tensor, n: int, k: int, p: float, seed: int) -> Tensor:
    """0/1 patterns ``[B, n]`` of the k neurons with the largest inputs."""
    winners = k_winners(inputs_of(grey, n, p, seed), k)[1]
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


def untouched(n: int, k: int, seed: int) -> Brain:
    """A brain with a stimulus and an area."""
    brain = Brain(p=0.05, seed=seed)
    brain.add_stimulus("s", size=k)
    brain.add_area("A", n=n, k=k, beta=BETA)
    return brain


def projected(n: int, k: int, seed: int) -> Brain:
    """A brain after a stimulus was projected into an area for 25 rounds."""
    brain = untouched(n, k, seed)
    brain.project(stimuli={"s": ["A"]}, areas={"A": ["A"]}, rounds=25)
    return brain


def project_densely(stimulus: Tensor, weights: Tensor, k: int) -> Tensor:
    """The same 25 rounds, of inputs ``[n]`` from the stimulus and a matrix ``[n, n]`` of weights, which learns."""
    stimulus, winners = stimulus.clone(), torch.empty(0, dtype=torch.int64)
    for _ in range(25):
        new = torch.topk(stimulus + weights[winners].sum(0), k, sorted=False).indices
        stimulus[new] *= 1 + BETA
        weights[winners.unsqueeze(1), new] *= 1 + BETA
        winners = new
    return winners


def time_firing(seed: int) -> Timing:
    """The winners of every digit, beside torch.topk."""
    inputs = inputs_of(digits.load_digits()[0], NEURONS, DENSITY, seed)
    taken = in_turn(lambda _: k_winners(inputs, WINNERS), lambda _: torch.topk(inputs, WINNERS, sorted=False))
    return taken.timing(f"the {WINNERS} largest of {NEURONS}, of {len(inputs)} rows", "torch.topk")


def time_projection(seed: int) -> Timing:
    """A projection beside one with a matrix of all weights of the same brain."""
    brain = untouched(TIMED, FIRING, seed)
    stimulus, weights = brain.stimulus_weights("s", "A"), brain.weights("A", "A")
    taken = in_turn(lambda _: projected(TIMED, FIRING, seed), lambda _: project_densely(stimulus, weights, FIRING))
    return taken.timing(f"25 rounds of {TIMED} neurons", "torch with a matrix of all weights")


def complete(seed: int) -> dict[float, float]:
    """How much of an assembly fires five rounds after parts of it were made to fire."""
    brain = projected(LARGE, ASSEMBLY, seed)
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


def run(options: argparse.Namespace) -> Outcome:
    """Runs the job, prints its results, and gives those for the picture and the table."""
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
    read, share = result.accuracy, SHARES[0]
    rows = [
        Row(
            "assembly",
            "digits, none learned",
            f"{read['winners, ridge read-out']:.3f}",
            f"{read['pixels, ridge read-out']:.3f} of the pixels",
            time_firing(options.seed),
        ),
        Row(
            "assembly",
            f"completed from {share:.0%}",
            f"{result.completed[share]:.2f}",
            f"{share:.2f} made to fire",
            time_projection(options.seed),
        ),
    ]
    return Outcome(panel(result), rows)
