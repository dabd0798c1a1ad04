"""Reservoirs that run free on the Mackey-Glass series, and the time of a step, beside reservoirpy and PyRCN.

    python bench/encoding_forecast.py [--quick] [--update]

needs `pip install reservoirpy`; PyRCN has a row where it is installed. All candidates run in turn in one process, on
one thread; a ratio is of times within one round, and its median over the rounds is reported.
"""

import argparse
import importlib
import importlib.util
import statistics
import sys
import time
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

ROOT = Path(__file__).resolve().parents[1]
if str(ROOT) not in sys.path:
    sys.path.append(str(ROOT))

from bench.markdown import table, update  # noqa: E402
from torch_hrr.encoding import LiquidStateMachine  # noqa: E402

PAGE = ROOT / "docs" / "reservoirs.md"
TRAINING, WARMUP, STEPS = 2000, 100, 500
# Of both libraries, the defaults of `LiquidStateMachine`.
RADIUS, LEAK, RIDGE = 0.9, 0.3, 1e-6
# The largest error of a forecast that holds, in standard deviations of the series.
TOLERANCE = 0.1
SEEDS = range(5)


def mackey_glass(steps: int, tau: int = 17) -> np.ndarray[Any, np.dtype[np.float64]]:
    """``dx/dt = 0.2 x(t - tau) / (1 + x(t - tau)^10) - 0.1 x`` once a unit of time, by Euler's steps of 0.01; [T, 1].

    Scaled to -1 to 1, after 500 units in which it forgets that it was constant.
    """
    count, settled = 100, 500
    values = np.full(count * (steps + settled + tau), 1.2)
    for t in range(count * tau, len(values) - 1):
        late = values[t - count * tau]
        values[t + 1] = values[t] + (0.2 * late / (1 + late**10) - 0.1 * values[t]) / count
    series = values[count * (settled + tau) :: count, None]
    return 2 * (series - series.min()) / np.ptp(series) - 1


def horizon(predicted: Any, truth: Any, deviation: float) -> int:
    """Steps before the error passes TOLERANCE deviations."""
    wrong = np.flatnonzero(~(np.abs(predicted - truth)[:, 0] <= TOLERANCE * deviation))
    return int(wrong[0]) if len(wrong) else len(truth)


def peer(series: Any, units: int, seed: int, dense: bool) -> Any:
    """A fitted model of reservoirpy: as it draws by default, or with weights drawn as ours are."""
    nodes, draw = importlib.import_module("reservoirpy.nodes"), np.random.default_rng(seed)
    drawn = {"Win": draw.uniform(-1, 1, (units, 1)), "bias": draw.uniform(-0.5, 0.5, units)} if dense else {}
    model = nodes.Reservoir(units, sr=RADIUS, lr=LEAK, seed=seed, **drawn) >> nodes.Ridge(ridge=RIDGE)
    return model.fit(series[:TRAINING], series[1 : TRAINING + 1], warmup=WARMUP)


def machine(series: Any, units: int, seed: int, dtype: torch.dtype) -> LiquidStateMachine:
    made = LiquidStateMachine(1, units, RADIUS, LEAK, ridge=RIDGE, seed=seed, device="cpu", dtype=dtype)
    return made.fit(series[:TRAINING], series[1 : TRAINING + 1], WARMUP)


def peer_forecast(model: Any, last: Any, steps: int) -> Any:
    predictions = []
    for _ in range(steps):
        last = model.step(last)
        predictions.append(last)
    return np.array(predictions)


def horizons(units: int, steps: int) -> str:
    """The table of horizons."""
    series = mackey_glass(TRAINING + steps + 1)
    truth, deviation = series[TRAINING + 1 :], float(series.std())

    def theirs(dense: bool) -> list[int]:
        models = (peer(series, units, seed, dense) for seed in SEEDS)
        return [horizon(peer_forecast(model, series[TRAINING], steps), truth, deviation) for model in models]

    def ours(dtype: torch.dtype) -> list[int]:
        made = (machine(series, units, seed, dtype) for seed in SEEDS)
        return [horizon(each.forecast(steps).double().numpy(), truth, deviation) for each in made]

    rows = {
        "reservoirpy, as it draws: one unit in ten has an input, no bias": theirs(False),
        "reservoirpy, W_in of U(-1, 1), bias of U(-1/2, 1/2)": theirs(True),
        "`LiquidStateMachine`, float64": ours(torch.float64),
        "`LiquidStateMachine`, float32": ours(torch.float32),
    }
    cells = [[name, ", ".join(map(str, found)), f"{statistics.fmean(found):.0f}"] for name, found in rows.items()]
    return table(f"{units} units | steps until the error passes {TOLERANCE} | mean", cells)


def seconds(call: Callable[[], object]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start


def times(units: int, rounds: int) -> str:
    """The table of times a step: forecasts, single steps, and series."""
    steps = 200
    series = mackey_glass(TRAINING + 1)
    model, draw = peer(series, units, 0, True), np.random.default_rng(0)
    ours = {dtype: machine(series, units, 0, dtype) for dtype in (torch.float32, torch.float64)}
    reservoir, single = model.nodes[0], ours[torch.float64]
    weights = single.weights.numpy(), single.input_weights.numpy(), single.bias.numpy()
    batch = draw.uniform(-1, 1, (16, steps, 1))

    def by_step(each: LiquidStateMachine) -> None:
        said, state = torch.from_numpy(series[TRAINING]).to(each.dtype), each.final_state
        for _ in range(steps):
            said, state = each.step(said, state)

    calls: dict[str, tuple[str, int, Callable[[], object]]] = {
        "reservoirpy, `model.step`": ("one step", steps, lambda: peer_forecast(model, series[TRAINING], steps)),
        "`step`, float32": ("one step", steps, lambda: by_step(ours[torch.float32])),
        "`step`, float64": ("one step", steps, lambda: by_step(single)),
        "`forecast`, float32": ("one step", steps, lambda: ours[torch.float32].forecast(steps)),
        "`forecast`, float64": ("one step", steps, lambda: single.forecast(steps)),
        "`forecast`, float64, 16 at once": ("one step", 16 * steps, lambda: single.forecast(steps, batch[:, :1])),
        "reservoirpy, `reservoir.run`": ("states of a series", steps, lambda: reservoir.run(series[:steps])),
        "`run`, float64": ("states of a series", steps, lambda: single.run(series[:steps])),
        "`run`, float64, 16 at once": ("states of a series", 16 * steps, lambda: single.run(batch)),
    }
    if importlib.util.find_spec("pyrcn") is not None:
        blocks: Any = importlib.import_module("pyrcn.base.blocks")
        first = blocks.InputToNode(
            hidden_layer_size=units, input_activation="identity", predefined_input_weights=weights[1].T,
            predefined_bias_weights=weights[2][:, None],
        )  # fmt: skip
        second = blocks.NodeToNode(
            hidden_layer_size=units, leakage=LEAK, predefined_recurrent_weights=np.ascontiguousarray(weights[0].T)
        )
        second.fit(first.fit_transform(series[:steps]))
        calls["PyRCN, `transform`"] = (
            "states of a series", steps, lambda: second.transform(first.transform(series[:steps]))
        )  # fmt: skip
    taken: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds + 1):
        for name, (_, count, call) in calls.items():
            taken[name].append(seconds(call) / count)
    base = {"one step": "reservoirpy, `model.step`", "states of a series": "reservoirpy, `reservoir.run`"}
    cells = []
    for name, (what, _, _) in calls.items():
        # The first round warms up.
        mine, theirs = taken[name][1:], taken[base[what]][1:]
        ratio = statistics.median(other / own for own, other in zip(mine, theirs, strict=True))
        cells.append([what, name, f"{1e6 * statistics.median(mine):.1f}", f"{ratio:.2f}"])
    return table(
        f"{units} units, one thread | by | us | times as fast as reservoirpy", sorted(cells, key=lambda row: row[0])
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Prints both tables, or writes them into the guide."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a look in a few seconds, at small sizes")
    parser.add_argument("--update", action="store_true", help=f"write the tables into {PAGE.relative_to(ROOT)}")
    options = parser.parse_args(argv)
    if importlib.util.find_spec("reservoirpy") is None:
        raise SystemExit("encoding_forecast: reservoirpy must be installed: pip install reservoirpy")
    torch.set_num_threads(1)
    with warnings.catch_warnings():
        # The peers'.
        warnings.simplefilter("ignore")
        free = horizons(100 if options.quick else 300, 100 if options.quick else STEPS)
        steps = times(300, 3 if options.quick else 40)
    print(free, steps, sep="\n")
    if options.update:
        update(PAGE, {"horizons": free, "steps": steps})
    return 0


if __name__ == "__main__":
    sys.exit(main())
