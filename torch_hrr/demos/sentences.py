"""The demo's job of sentences: a tree of dependencies from assemblies of neurons, and how often it is the right one."""

from __future__ import annotations

import argparse
import time

from torch_hrr.assembly import Parser, ParseTree
from torch_hrr.demos.figure import Bar, Panel
from torch_hrr.demos.table import Outcome, Row, Timing

SENTENCES = {
    "cats chase mice": "chase cats SUBJ, chase mice OBJ",
    "dogs are bad": "are dogs SUBJ, are bad ADJ",
    "people quickly run": "run people SUBJ, run quickly ADVERB",
    "dogs in mice love cats": "love dogs SUBJ, love cats OBJ, dogs mice PREP_P, mice in PREP",
    "the big dogs chase the bad cats": "chase dogs SUBJ, chase cats OBJ, dogs the DET, dogs big ADJ, cats the DET, "
    "cats bad ADJ",
}
BRAINS = 10


def dependencies(text: str) -> set[tuple[str, ...]]:
    """Those of the table above."""
    return {tuple(each.split()) for each in text.split(", ")}


def parsed(seed: int) -> tuple[Parser, list[ParseTree], dict[str, float]]:
    """The parser and the trees of the seed, and of how many of some brains the tree of each sentence is right."""
    parsers = [Parser(seed=seed + number) for number in range(BRAINS)]
    trees = [parser.parse(list(SENTENCES)) for parser in parsers]
    wanted = [dependencies(text) for text in SENTENCES.values()]
    right = [[tree.dependencies == each for tree, each in zip(found, wanted, strict=True)] for found in trees]
    shares = [sum(of_one) / BRAINS for of_one in zip(*right, strict=True)]
    return parsers[0], trees[0], dict(zip(SENTENCES, shares, strict=True))


def run(options: argparse.Namespace) -> Outcome:
    """Runs the job, prints its results, and gives those for the picture and the table."""
    start = time.perf_counter()
    parser, trees, shares = parsed(options.seed)
    seconds = (time.perf_counter() - start) / BRAINS
    brain, last = parser.brain, len(SENTENCES) - 1
    assert brain is not None
    print(
        f"\n{list(SENTENCES)[last]!r} parsed by {brain.areas['VERB'].n} neurons an area, {brain.areas['VERB'].k} fire\n"
    )
    print(trees[last])
    supports = {area: int(brain.ever_won(area)[last].ge(0).sum()) for area in brain.areas}
    print("\nneurons that ever fired:", ", ".join(f"{area} {count}" for area, count in supports.items() if count))
    print(f"\n{f'right trees of {BRAINS} brains':<44}{'share':>9}")
    print("\n".join(f"{sentence:<44}{share:>9.2f}" for sentence, share in shares.items()))
    share = sum(shares.values()) / len(shares)
    bar = Bar(f"{len(SENTENCES)} sentences, {BRAINS} brains", share, ours=True)
    row = Row("assembly", "trees of sentences", f"{share:.2f}", "-", Timing(f"{len(SENTENCES)} sentences", seconds))
    shown = Panel("Sentences: share of trees of dependencies that are right", 1.0, 3, [bar])
    return Outcome(shown, [row])
