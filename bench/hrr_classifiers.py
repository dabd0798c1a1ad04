"""Encoders and classifiers beside torchhd's: accuracy and time on real data, one thread, the same codes.

    python bench/hrr_classifiers.py             the table of docs/hrr_learning.md
    python bench/hrr_classifiers.py --update    writes it there

torchhd (`pip install torch-hd`) is left out where it is not installed. Both learn from the same half of the rows and
are scored on the other. A time is that of encoding all rows, learning and predicting; in every split the two take turns
in random order, and a ratio is the median over the splits of torchhd's time over ours.
"""

import argparse
import functools
import importlib
import random
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.fft import irfft, rfft

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))

from bench.agreement import check_agreement  # noqa: E402
from bench.entry import Entry, Inputs, Peer  # noqa: E402
from bench.markdown import table, update  # noqa: E402
from bench.peers import is_here  # noqa: E402
from torch_hrr import hrr  # noqa: E402

DOCUMENT = ROOT / "docs" / "hrr_learning.md"
DIM, LEVELS, BANDWIDTH = 1024, 17, 0.5
SPLITS, EPOCHS, BATCH = 5, 10, 8
DATA = {"digits": "load_digits", "breast cancer": "load_breast_cancer"}
UPDATES = ("one-pass", "adaptive", "onlinehd")

Encoder = Callable[[Tensor], Tensor]


def load(name: str) -> tuple[Tensor, Tensor]:
    """Rows from 0 to 1 in every column, float32, and labels."""
    data = getattr(importlib.import_module("sklearn.datasets"), DATA[name])()
    x = torch.from_numpy(data.data)
    low, high = x.amin(0), x.amax(0)
    return ((x - low) / (high - low).clamp_min(1e-9)).float(), torch.from_numpy(data.target).long()


def encoders(features: int, seed: int) -> dict[str, tuple[Any, Encoder | None]]:
    """Ours, and torchhd's with the same vectors; its sinusoid is another function, with its own."""
    level = hrr.LevelEncoder(LEVELS, DIM, features=features, seed=seed, device="cpu")
    projection = hrr.ProjectionEncoder(features, DIM, seed=seed, device="cpu")
    sinusoid = hrr.SinusoidEncoder(features, DIM, BANDWIDTH, seed=seed, device="cpu")
    power = hrr.FractionalPowerEncoder(features, DIM, "gaussian", BANDWIDTH, seed=seed, device="cpu")
    made: dict[str, Any] = {
        "level record": level, "projection": projection, "sinusoid": sinusoid, "fractional power": power
    }  # fmt: skip
    theirs: dict[str, Encoder] = {}
    if is_here("torchhd"):
        import torchhd
        from torchhd import embeddings

        keys = embeddings.Random(features, DIM, "HRR")
        levels = embeddings.Level(LEVELS, DIM, "HRR")
        projected = embeddings.Projection(features, DIM, "HRR")
        waves = embeddings.Sinusoid(features, DIM, "HRR")
        powers = embeddings.FractionalPower(features, DIM, "gaussian", BANDWIDTH, "HRR")
        phases = power.weight[1:-1:2]
        nothing = phases.new_zeros(1, features)
        with torch.no_grad():
            keys.weight.copy_(level.roles)
            levels.weight.copy_(level.weight)
            projected.weight.copy_(projection.weight)
            # Bins from -D/2 on.
            powers.weight.copy_(torch.cat([nothing, -phases.flip(0), nothing, phases]))
        theirs = {
            "level record": lambda x: torchhd.hash_table(keys.weight, levels(x)), "projection": projected,
            "sinusoid": waves, "fractional power": powers,
        }  # fmt: skip
    return {name: (encoder, theirs.get(name)) for name, encoder in made.items()}


def ours(encoder: Any, kind: str, x: Tensor, y: Tensor, known: int) -> Tensor:
    """The labels predicted of the rows from the number known on."""
    classifier = hrr.CentroidClassifier(encoder, kind, epochs=EPOCHS, batch_size=BATCH)
    return classifier.fit(x[:known], y[:known]).predict(x[known:])


def torchhds(encoder: Encoder, kind: str, x: Tensor, y: Tensor, known: int) -> Tensor:
    """The same: encoded once, in its own batches."""
    from torchhd.models import Centroid

    # Its Centroid takes plain tensors alone.
    codes = torch.cat([encoder(part).as_subclass(Tensor) for part in x.split(BATCH)])
    model = Centroid(DIM, int(y.max()) + 1)
    parts = list(zip(codes[:known].split(BATCH), y[:known].split(BATCH), strict=True))
    if kind != "onlinehd":
        for part, label in parts:
            model.add(part, label)
    for _ in range({"one-pass": 0, "adaptive": EPOCHS, "onlinehd": EPOCHS + 1}[kind]):
        for part, label in parts:
            (model.add_online if kind == "onlinehd" else model.add_adapt)(part, label)
    return model(codes[known:]).argmax(-1).as_subclass(Tensor)


def rows(name: str) -> list[list[str]]:
    """A row of the table for every encoder and update."""
    x, y = load(name)
    known = len(y) // 2
    found: dict[tuple[str, str], list[tuple[float, ...]]] = {}
    for split in range(SPLITS):
        order = torch.randperm(len(y), generator=torch.Generator().manual_seed(split))
        torch.manual_seed(split)
        shuffle = random.Random(split).shuffle
        for encoder, (own, theirs) in encoders(x.shape[1], split).items():
            if theirs is not None and encoder != "sinusoid":
                check_agreement(encoder, theirs(x[:BATCH]), own(x[:BATCH]))
            for kind in UPDATES:
                turns: list[tuple[int, Any]] = [(0, functools.partial(ours, own))]
                turns += [] if theirs is None else [(1, functools.partial(torchhds, theirs))]
                shuffle(turns)
                result = [float("nan")] * 4
                for place, turn in turns:
                    started = time.perf_counter()
                    predicted = turn(kind, x[order], y[order], known)
                    result[2 + place] = time.perf_counter() - started
                    result[place] = float((predicted == y[order][known:]).double().mean())
                found.setdefault((encoder, kind), []).append(tuple(result))
    cells = []
    for (encoder, kind), results in found.items():
        accuracy, theirs_accuracy, seconds, theirs_seconds = zip(*results, strict=True)
        ratios = [theirs / own for own, theirs in zip(seconds, theirs_seconds, strict=True)]
        cells.append([
            name, encoder, kind, f"{statistics.mean(accuracy):.3f}", f"{statistics.mean(theirs_accuracy):.3f}",
            f"{statistics.median(seconds) * 1e3:.0f}", f"{statistics.median(theirs_seconds) * 1e3:.0f}",
            f"{statistics.median(ratios):.1f}",
        ])  # fmt: skip
    return [[cell if cell != "nan" else "-" for cell in row] for row in cells]


def measured() -> str:
    """The table of all data."""
    columns = ("data", "encoder", "update", "accuracy", "torchhd's", "ms", "torchhd's", "ratio")
    return table(" | ".join(columns), [row for name in DATA for row in rows(name)], left=3)


@functools.cache
def of_a_device(device: torch.device) -> Any:
    return hrr.LevelEncoder(LEVELS, DIM, features=64, seed=0, device=device)


def record_rfft(x: Tensor) -> Tensor:
    """Every feature's level bound to its role in the spectrum."""
    encoder = of_a_device(x.device)
    levels = encoder.weight[(x * (LEVELS - 1)).round().long()]
    return irfft((rfft(encoder.roles) * rfft(levels)).sum(-2), n=DIM)


def record_products(x: Tensor) -> Tensor:
    """The same by sums of rows that are bound in advance, gathered feature by feature."""
    encoder = of_a_device(x.device)
    places = (x * (LEVELS - 1)).round().long() + LEVELS * torch.arange(64, device=x.device)
    return F.embedding(places, encoder.bound).sum(-2)


def record_torchhd(x: Tensor) -> Tensor:
    import torchhd

    encoder = of_a_device(x.device)
    levels = encoder.weight[(x * (LEVELS - 1)).round().long()]
    keys = encoder.roles.as_subclass(torchhd.HRRTensor)
    return torchhd.hash_table(keys, levels.as_subclass(torchhd.HRRTensor)).as_subclass(Tensor)


def values(batch: int, generator: torch.Generator) -> Inputs:
    return (torch.rand(batch, 64, generator=generator),)


ENTRIES = tuple(
    Entry(
        "LevelEncoder", f"{batch}x64", batch, values, lambda x: of_a_device(x.device)(x),
        (
            Peer("irfft(sum(rfft*rfft))", record_rfft), Peer("embedding.sum", record_products),
            *([Peer("torchhd", record_torchhd, kind="library")] if is_here("torchhd") else []),
        ),
        4 * batch * (64 + DIM), aim=aim,
    )
    for batch, aim in ((1, None), (100, 2.0))
)  # fmt: skip


def main() -> None:
    """Prints the table, or writes it into the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--update", action="store_true", help="write the table of docs/hrr_learning.md")
    options = parser.parse_args()
    torch.set_num_threads(1)
    with warnings.catch_warnings():
        # torchhd says that prototypes of zeros have no norm.
        warnings.simplefilter("ignore", UserWarning)
        made = measured()
    if options.update:
        update(DOCUMENT, {"classifiers": made})
    else:
        print(made, end="")


if __name__ == "__main__":
    main()
