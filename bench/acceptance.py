"""Measures closed forms, published figures and real input again and writes docs/hrr_acceptance.md."""

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))

from bench import hrr_acceptance, hrr_real_input  # noqa: E402
from bench.hrr_acceptance import FULL, QUICK, Row, Size  # noqa: E402
from bench.markdown import table  # noqa: E402

DOCUMENT = ROOT / "docs" / "hrr_acceptance.md"

EXPERIMENTS: tuple[Callable[[Size, int], list[Row]], ...] = (
    hrr_acceptance.superposed_pairs,
    hrr_acceptance.chains,
    hrr_acceptance.capacity,
    hrr_acceptance.resonator,
    hrr_real_input.languages,
    hrr_real_input.digits,
)

PREAMBLE = """# Acceptance of the HRR system

What `{command}` measured: one thread of the CPU, float32, every draw fixed by the seed. Within three standard
errors means `abs(ours - expected) <= 3 sqrt(se_ours^2 + se_expected^2)`; a closed form has no error of its own.
"""

REMARKS = {
    "unbinding one of k pairs": """
Mean cosine of what unbinding gives with the unit Gaussian vector that was bound.
""",
    "r binds, r unbinds": """
Cosine of a unit Gaussian vector with itself, bound to r others and unbound from them. The closed form is the limit of
large D, slow to come for r = 3, since powers of a Fourier magnitude have heavy tails.
""",
    "bundle capacity": """
Schlegel, Neubert, Protzel, A comparison of vector symbolic architectures, 2021: 1000 random items, k of them bundled;
the share of the k among the k items nearest to the bundle. The published values are means over 10 runs (all are
fractions of 10 k), so that they have a standard error too: that of a share of n is `sqrt(q (1 - q) / n)` with
`q = (n share + 1) / (n + 2)`.
""",
    "bound pairs": """
The same source: k pairs of 2 k different items among the 1000, bound and bundled; the share of roles whose unbinding
is nearest to its filler among all items.
""",
    "resonator": """
Products of three vectors, one of each codebook, times a random sign: indices and sign within 200 iterations.
""",
    "order within a trigram": """
A cyclic shift S commutes with circular convolution, `bind(a, S b, S S c) = S S S bind(a, b, c)`: a window and the same
window backwards get one vector. `hrr.ngrams` uses powers of a random permutation instead.
""",
    "languages": """
Which of eight languages a query of unseen words is in, by cosine with the sum of the training words' trigrams; the word
lists are in `bench/data`, three quarters for training. Published figures are of other word lists, so that they have no
verdict. What the codes must reach is what codes with spectra drawn directly, by plain torch alone, reach on the same
splits and queries; the error is that of the difference, no less than the number of unlike answers allows. Exact counts,
of ordered trigrams for permutations and of sets of three letters for shifts, are the limit of large D.
""",
    "digits": """
scikit-learn's digits, half for training: an image is the sum over pixels of `value bind(X^x, Y^y)`. What the codes must
reach is what codes with phases drawn directly, by plain torch alone, reach on the same splits; the error is that of the
difference, no less than the number of unlike answers allows.
""",
}


def verdict(row: Row) -> str:
    if row.within is None:
        return "other data" if row.expected is not None else "-"
    return "yes" if row.within else "NO"


def render(rows: Sequence[Row], command: str) -> str:
    parts = [PREAMBLE.format(command=command)]
    for experiment in dict.fromkeys(row.experiment for row in rows):
        cells = [
            [
                row.cell, "-" if row.expected is None else f"{row.expected:.4f}", f"{row.measured:.4f}",
                f"{row.error:.4f}" if row.error >= 5e-5 else "0", verdict(row), row.note,
            ]
            for row in rows if row.experiment == experiment
        ]  # fmt: skip
        head = "what | expected | ours | standard error | within 3 | expected from"
        parts += [f"## {experiment[0].upper()}{experiment[1:]}", REMARKS[experiment], table(head, cells, left=6)]
    return "\n".join(parts)


def main(argv: Sequence[str] | None = None) -> int:
    """Runs every experiment; 1 if a row is not within three standard errors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a look in half a minute; prints and does not write")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)
    torch.set_num_threads(1)
    rows: list[Row] = []
    for experiment in EXPERIMENTS:
        rows += experiment(QUICK if options.quick else FULL, options.seed)
        print(f"{experiment.__name__}: done", file=sys.stderr)
    seed = f" --seed {options.seed}" if options.seed else ""
    document = render(rows, f"python bench/acceptance.py{' --quick' if options.quick else ''}{seed}")
    print(document)
    if not options.quick:
        DOCUMENT.write_text(document, encoding="utf-8")
    return int(any(row.within is False for row in rows))


if __name__ == "__main__":
    sys.exit(main())
