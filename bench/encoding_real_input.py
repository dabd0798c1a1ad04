"""A liquid state machine on real input: the Santa Fe laser and the next character, beside their baselines."""

import argparse
import importlib
import importlib.util
import itertools
import math
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))

from bench.markdown import table  # noqa: E402
from torch_hrr import encoding  # noqa: E402
from torch_hrr.demos import sequences as sequence_data  # noqa: E402
from torch_hrr.demos import text as text_demo  # noqa: E402
from torch_hrr.demos.sequences import LAGS, TESTING, TRAINING, nrmse  # noqa: E402

# What is tried on the last VALIDATION steps of the training part.
LEAKS, SCALINGS, VALIDATION = (0.3, 0.5, 0.7, 0.9, 1.0), (0.1, 0.3, 1.0), 500
# Frequencies of the sinusoidal features of the laser's values, in radians for values of -1 to 1.
FREQUENCIES = (1.0, 2.0)
# A ridge read-out's estimates of probabilities may be negative; the least that one counts as.
LEAST_CHANCE = 1e-4
STREAMS = 64


@dataclass(frozen=True)
class Size:
    """How much is measured."""

    seeds: int  # reservoirs drawn for each row of the laser
    laser_units: int  # their units
    characters: int | None  # of the text that are read; None for all
    text_units: tuple[int, ...]  # units of the machines that read it


FULL = Size(5, 500, None, (500, 1000, 2000))
QUICK = Size(1, 200, 60_000, (100,))


@dataclass(frozen=True)
class Row:
    """One row of a table."""

    method: str  # what predicted
    measured: list[float]  # its error, one for each seed
    seconds: float  # of training and test, of all seeds

    @property
    def mean(self) -> float:
        return statistics.fmean(self.measured)


def measure(method: str, errors: Callable[[], list[float]]) -> Row:
    start = time.perf_counter()
    measured = errors()
    return Row(method, measured, time.perf_counter() - start)


def reservoir_peer(series: Tensor, units: int, seed: int, connectivity: float | None) -> Tensor:
    """The same predictions by reservoirpy with the same radius, leak and ridge.

    It draws inputs of -1 or 1 into a share of the units; with None they are drawn from U(-1, 1), as ours are.
    """
    nodes = importlib.import_module("reservoirpy.nodes")
    scaled = (series / 127.5 - 1).unsqueeze(-1).numpy()
    uniform = torch.rand(units, 1, dtype=torch.float64, generator=torch.Generator().manual_seed(seed))
    drawn = {"Win": (2 * uniform - 1).numpy()} if connectivity is None else {"input_connectivity": connectivity}
    reservoir = nodes.Reservoir(units, sr=0.9, lr=0.3, seed=seed, **drawn)
    model = reservoir >> nodes.Ridge(ridge=1e-6)
    model.fit(scaled[:TRAINING], scaled[1 : TRAINING + 1], warmup=100)
    # It goes on from the state after training, and no further than ours knows.
    predicted = model.run(scaled[TRAINING:-1])
    return torch.from_numpy((predicted.squeeze(-1) + 1) * 127.5)


def tune(series: Tensor, units: int, seed: int) -> dict[str, float]:
    """The settings that predict the last VALIDATION steps of the training part best from those before."""
    known, truth = series[: TRAINING + 1], series[TRAINING + 1 - VALIDATION : TRAINING + 1]
    errors = {}
    for leak, scaling in itertools.product(LEAKS, SCALINGS):
        regressor = encoding.LSMRegressor(units=units, seed=seed, leak=leak, input_scaling=scaling)
        regressor.fit(known[: TRAINING - VALIDATION], known[1 : TRAINING - VALIDATION + 1], warmup=100)
        errors[leak, scaling] = nrmse(regressor.predict(known[:-1])[-VALIDATION:].double(), truth)
    leak, scaling = min(errors, key=errors.__getitem__)
    return {"leak": leak, "input_scaling": scaling}


def laser(size: Size, seed: int) -> tuple[list[Row], Tensor]:
    """One-step errors on the laser, and what the tuned machine predicts beside the truth, [2, TESTING]."""
    series = sequence_data.load_laser()[: TRAINING + TESTING + 1]
    truth, inputs = series[TRAINING + 1 :], series[:-1]
    predictions: list[Tensor] = []

    def machine(features: Callable[[Tensor], Tensor], **settings: float) -> list[float]:
        errors = []
        for draw in range(seed, seed + size.seeds):
            x = features(inputs)
            regressor = encoding.LSMRegressor(units=size.laser_units, seed=draw, **settings)
            regressor.fit(x[:TRAINING], series[1 : TRAINING + 1], warmup=100)
            predictions.append(regressor.predict(x)[TRAINING:].double())
            errors.append(nrmse(predictions[-1], truth))
        return errors

    def sinusoids(x: Tensor) -> Tensor:
        scaled = x / 127.5 - 1
        waves = encoding.sinusoidal_features(scaled, torch.tensor(FREQUENCIES), dtype=torch.float64)
        return torch.cat([scaled.unsqueeze(-1), waves], -1)

    def peers(connectivity: float | None) -> list[float]:
        draws = range(seed, seed + size.seeds)
        return [nrmse(reservoir_peer(series, size.laser_units, draw, connectivity), truth) for draw in draws]

    column = partial(torch.unsqueeze, dim=-1)
    name, best = f"liquid state machine, {size.laser_units} units", tune(series, size.laser_units, seed)
    tuned = ", ".join(f"{key}={value}" for key, value in best.items())
    rows = [
        measure("persistence", lambda: [nrmse(series[TRAINING:-1], truth)]),
        measure(f"autoregression, {LAGS} lags", lambda: [nrmse(sequence_data.autoregression(series), truth)]),
        measure(f"reservoirpy, {size.laser_units} units, inputs drawn from U(-1, 1) as ours", lambda: peers(None)),
        measure("reservoirpy, inputs of -1 or 1 into every unit", lambda: peers(1.0)),
        # With one input column its default, 0.1, leaves nine of ten units without input.
        measure("reservoirpy, input_connectivity=0.1", lambda: peers(0.1)),
        measure(f"{name}, defaults", lambda: machine(column)),
        measure(f"{name}, {tuned}, with sinusoids of the value", lambda: machine(sinusoids, **best)),
        measure(f"{name}, {tuned}", lambda: machine(column, **best)),
    ]
    return rows, torch.stack([predictions[-1], truth])


def ridge_bits(training: Tensor, test: Tensor, units: int, seed: int, places: bool) -> float:
    """Bits a character of a ridge read-out; with ``places`` a token is embedded where it is, not at position 0."""
    config = encoding.SinusoidalConfig(
        vocab_size=len(sequence_data.ALPHABET), embedding_dim=text_demo.EMBEDDING_DIM, padding_id=None
    )
    embedder = encoding.ConfigurableSinusoidalEmbedder(config, generator=torch.Generator().manual_seed(seed))
    machine = encoding.LiquidStateMachine(
        config.embedding_dim, units, spectral_radius=0.5, leak=0.8, input_scaling=config.embedding_dim**-0.5,
        density=min(1.0, text_demo.CONNECTIONS / units), seed=seed, embedder=None if places else embedder,
    )  # fmt: skip

    def inputs(streams: Tensor) -> Tensor:
        with torch.no_grad():
            return embedder(streams[:, :-1]) if places else streams[:, :-1]

    known, asked = sequence_data.as_streams(training, STREAMS), sequence_data.as_streams(test)
    machine.fit(inputs(known), F.one_hot(known[:, 1:], config.vocab_size), sequence_data.WARMUP)
    chances = machine.predict(inputs(asked)).clamp_min(LEAST_CHANCE)
    chances = chances / chances.sum(-1, keepdim=True)
    found = chances.gather(-1, asked[:, 1:, None])[:, sequence_data.WARMUP :]
    return -float(found.double().log2().mean())


def text(size: Size, seed: int) -> list[Row]:
    """Bits a character on the last fifth of the text."""
    training, test = sequence_data.split_text(sequence_data.load_text()[: size.characters])

    first = size.text_units[0]

    def softmax(units: int) -> list[float]:
        generator = text_demo.train(training, units, seed, f"{units} units")
        return [generator.bits(sequence_data.as_streams(test), sequence_data.WARMUP)]

    def table_bits(order: int) -> list[float]:
        return [sequence_data.table_bits(training, test, order)]

    def ridge(places: bool) -> list[float]:
        return [ridge_bits(training, test, first, seed, places)]

    name = "liquid state machine"
    return [
        *(measure(f"table of counts, {order} before", partial(table_bits, order)) for order in sequence_data.ORDERS),
        measure(f"{name}, {first} units, ridge read-out, tokens at their positions", partial(ridge, True)),
        measure(f"{name}, {first} units, ridge read-out", partial(ridge, False)),
        *(measure(f"{name}, {units} units, softmax", partial(softmax, units)) for units in size.text_units),
    ]


def render(title: str, unit: str, rows: Sequence[Row]) -> str:
    cells = []
    for row in rows:
        spread = f"{min(row.measured):.4f} to {max(row.measured):.4f}" if len(row.measured) > 1 else "-"
        cells.append([row.method, f"{row.mean:.4f}", spread, f"{row.seconds:.1f}"])
    return f"## {title}\n\n" + table(f"method | {unit} | range over seeds | s", cells, left=4).rstrip()


def draw(folder: Path, curves: Tensor, rows: Sequence[Row]) -> list[Path]:
    """Two figures: 300 steps of the laser as predicted, and bits a character."""
    from matplotlib.figure import Figure

    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / "laser.png", folder / "text.png"]
    laser, text = (Figure(figsize=(9, height), layout="constrained") for height in (3, 4))
    axes = laser.subplots()
    axes.plot(curves[1, :300].tolist(), label="laser", color="black", linewidth=1)
    axes.plot(curves[0, :300].tolist(), label="predicted one step ahead", color="tab:orange", linewidth=1)
    axes.set(xlabel="step of the test part", ylabel="intensity")
    axes.legend()
    axes = text.subplots()
    axes.barh([row.method for row in rows], [row.mean for row in rows], color="tab:blue")
    axes.invert_yaxis()
    axes.set(xlabel="bits a character on the test part", xlim=(0, math.log2(len(sequence_data.ALPHABET))))
    for figure, path in zip((laser, text), paths, strict=True):
        figure.savefig(path, dpi=120)
    return paths


def main(argv: Sequence[str] | None = None) -> int:
    """Prints both tables; draws where it is asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a look in a few seconds, at small sizes")
    parser.add_argument("--figures", type=Path, help="folder to draw into; needs matplotlib")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)
    if options.figures is not None and importlib.util.find_spec("matplotlib") is None:
        raise SystemExit("encoding_real_input: matplotlib must be installed: pip install matplotlib")
    size = QUICK if options.quick else FULL
    with warnings.catch_warnings():
        # reservoirpy's.
        warnings.simplefilter("ignore")
        rows, curves = laser(size, options.seed)
    title = f"Santa Fe laser, one step ahead: {TRAINING} steps for training, {TESTING} for testing"
    print(render(title, "NRMSE", rows), flush=True)
    rows = text(size, options.seed)
    print("\n" + render("Next character of pydoc_data.topics, the last fifth for testing", "bits", rows))
    if options.figures is not None:
        print(f"\nfigures: {', '.join(map(str, draw(options.figures, curves, rows)))}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
