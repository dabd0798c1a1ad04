"""A chaotic laser one step ahead: liquid state machines of growing size beside persistence and autoregression.

The Santa Fe series, 3000 steps for training and 3000 for testing; figures are the root mean square error over the
standard deviation of the series. Values enter as they are, and only the read-out is learned, in a tenth of a second.

Run: python examples/encoding/laser.py --figure laser.png
"""

import argparse
from collections.abc import Sequence
from pathlib import Path

from torch import Tensor

from torch_hrr.demos.sequences import LAGS, TESTING, TRAINING, autoregression, load_laser, nrmse
from torch_hrr.encoding import LSMRegressor


def draw(path: Path, truth: Tensor, predicted: Tensor) -> None:
    """The start of the test part as it was and as it was predicted."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(9, 3), layout="constrained")
    axes = figure.subplots()
    axes.plot(truth.tolist(), color="black", linewidth=1, label="laser")
    axes.plot(predicted.tolist(), color="tab:orange", linewidth=1, label="predicted one step ahead")
    axes.set(xlabel="step", ylabel="intensity")
    axes.legend()
    figure.savefig(path, dpi=120)


def main(argv: Sequence[str] | None = None) -> dict[str, float]:
    """Prints errors and returns them by method."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--units", type=int, nargs="+", default=[100, 200, 500])
    parser.add_argument("--leak", type=float, default=0.9)
    parser.add_argument("--scaling", type=float, default=0.3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--figure", type=Path, help="where to draw; needs matplotlib")
    options = parser.parse_args(argv)

    series = load_laser()[: TRAINING + TESTING + 1]
    inputs, truth = series[:-1], series[TRAINING + 1 :]
    results = {"persistence": nrmse(inputs[TRAINING:], truth), f"{LAGS} lags": nrmse(autoregression(series), truth)}
    for units in options.units:
        regressor = LSMRegressor(units=units, leak=options.leak, input_scaling=options.scaling, seed=options.seed)
        regressor.fit(inputs[:TRAINING], series[1 : TRAINING + 1], warmup=100)
        # It goes on where training ended.
        predicted = regressor.predict(inputs[TRAINING:], state=regressor.final_state).double()
        results[f"{units} units"] = nrmse(predicted, truth)
    for method, error in results.items():
        print(f"  {method:<24} {error:.3f}")
    if options.figure is not None:
        draw(options.figure, truth[:300], predicted[:300])
        print(f"drawn: {options.figure}")
    return results


if __name__ == "__main__":
    main()
