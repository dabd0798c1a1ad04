"""Benchmark entries of programs of assemblies: sentences and sequences, beside loops and the packages that have them.

neural-assemblies is measured where it is installed, the published parser where its clone is on PYTHONPATH.
"""

import ast
import contextlib
import importlib
import io
from functools import partial
from typing import Any

import torch
from torch import Tensor

from bench.entry import Entry, Inputs, Peer
from bench.peers import is_here
from torch_hrr.assembly import SequenceMemory, parse
from torch_hrr.assembly.grammar import ENGLISH

SENTENCE = "the big dogs chase bad cats"
SENTENCES = (
    "cats chase mice", "the dogs chase the cats", "dogs are bad", "the big dogs chase the bad cats",
    "people quickly run", "the man saw a woman", "dogs in mice chase cats", "the woman quickly saw the man",
)  # fmt: skip
N, K, P, BETA, ITEMS, REPETITIONS = 100_000, 316, 0.01, 0.1, 20, 10


def seed_input(batch: int, generator: torch.Generator) -> Inputs:
    """A seed."""
    return (torch.randint(0, 1000, (), generator=generator),)


def numbers(found: set[tuple[str, str, str]]) -> Tensor:
    """Dependencies as numbers that can be compared."""
    lemmas, areas = list(ENGLISH.lemmas), list(ENGLISH.areas)
    return torch.tensor(
        sorted((lemmas.index(a), lemmas.index(b), areas.index(label)) for a, b, label in found)
    ).double()


def one(seed: Tensor) -> Tensor:
    """One sentence."""
    return numbers(parse(SENTENCE, seed=int(seed)))


def published(seed: Tensor) -> Tensor:
    """The same by the parser of the paper, whose seed is its own."""
    parser = importlib.import_module("parser")
    with contextlib.redirect_stdout(io.StringIO()) as said:
        parser.parse(SENTENCE, verbose=False)
    pairs = said.getvalue().split("Got dependencies:")[-1]
    return numbers({(head, below, label) for head, below, label in ast.literal_eval(pairs.strip())})


def batch_of(count: int, seed: Tensor) -> Tensor:
    """Sentences of several kinds in one batch."""
    return torch.cat([numbers(each) for each in parse(list(SENTENCES * (count // len(SENTENCES))), seed=int(seed))])


def loop_of(count: int, seed: Tensor) -> Tensor:
    """The same, one after the other."""
    found = [parse(sentence, seed=int(seed)) for sentence in SENTENCES * (count // len(SENTENCES))]
    return torch.cat([numbers(each) for each in found])


def sequence(seed: Tensor) -> Tensor:
    """A sequence memorised and recalled: how many items came back."""
    memory = SequenceMemory(N, K, P, BETA, seed=int(seed)).present(list(range(ITEMS)), REPETITIONS)
    return torch.tensor([float(len(memory.recall(0)))])


def their_sequence(seed: Tensor) -> Tensor:
    """As many rounds of neural-assemblies; how many items it recalls is its affair."""
    brains = importlib.import_module("neural_assemblies.core.brain")
    ops = importlib.import_module("neural_assemblies.assembly_calculus.ops")
    brain = brains.Brain(p=P, seed=int(seed), engine="numpy_sparse", save_winners=True)
    names = [f"s{item}" for item in range(ITEMS)]
    for name in names:
        brain.add_stimulus(name, K)
    brain.add_area("A", N, K, BETA)
    held = ops.sequence_memorize(brain, names, "A", rounds_per_step=REPETITIONS, repetitions=1)
    brain.set_lri("A", refractory_period=3, inhibition_strength=100.0)
    ops.ordered_recall(brain, "A", names[0], max_steps=ITEMS, known_assemblies=list(held))
    return torch.tensor([float(ITEMS)])


def entry(op: str, shape: str, ours: Any, peer: Peer, aim: float) -> Entry:
    """One program beside one other way to the same result."""
    return Entry(op, shape, 1, seed_input, ours, (peer,), traffic=0, aim=aim)


ENTRIES = (
    entry("parse", "64", partial(batch_of, 64), Peer("loop", partial(loop_of, 64)), 5.0),
    *([entry("parse", "six words", one, Peer("published", published), 8.0)] if is_here("brain_util") else []),
    *(
        [entry("sequence", f"{ITEMS} n={N}", sequence, Peer("neural-assemblies", their_sequence), 6.0)]
        if is_here("neural_assemblies")
        else []
    ),
)
TARGETS = ()
