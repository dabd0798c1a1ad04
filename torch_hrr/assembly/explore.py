"""What k, beta and p do to a projection: `python -m torch_hrr explore assembly` shows it in a window or in files."""

from __future__ import annotations

import argparse
import io
import sys
from pathlib import Path
from typing import Any

from torch_hrr._checks import named
from torch_hrr._plots import figure_of, optional
from torch_hrr._progress import in_parts, ticking
from torch_hrr._spec import Int
from torch_hrr.assembly import plot
from torch_hrr.assembly.brain import Brain
from torch_hrr.assembly.monitor import Monitor
from torch_hrr.io import write_atomically

_OP = "explore"
_SIZE = (9.0, 6.5)
# Pictures for each slider.
_STOPS = 8


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    folder = Path("explore-output")
    parser.add_argument("system", choices=("assembly",), help="what to show: a stimulus projected into an area")
    parser.add_argument("--n", type=int, default=10_000, metavar="N", help="neurons of the area (default: 10000)")
    parser.add_argument(
        "--k", type=int, default=100, metavar="N", help="winners, and neurons of the stimulus (default: 100)"
    )
    parser.add_argument("--beta", type=float, default=0.05, metavar="X", help="plasticity (default: 0.05)")
    parser.add_argument("--p", type=float, default=0.05, metavar="X", help="density of the connectome (default: 0.05)")
    parser.add_argument("--rounds", type=int, default=25, metavar="N", help="of the projection (default: 25)")
    parser.add_argument("--seed", type=int, default=0, metavar="N", help="of the brain (default: 0)")
    frames = f"write pictures there and open no window (without a display: {folder})"
    parser.add_argument("--frames", type=Path, metavar="FOLDER", help=frames)
    parser.set_defaults(folder=folder)


def run(options: argparse.Namespace) -> int:
    """Opens the window, or writes the pictures; returns the exit status."""
    try:
        rounds = Int(1, 2**31 - 2)(_OP, "rounds", options.rounds)
        settings = {"k": options.k, "beta": options.beta, "p": options.p}
        # Its checks come first.
        _brain(options.n, options.seed, **settings)
        window = _window() if options.frames is None else None
        figure = figure_of(_OP, _SIZE) if window is None else window
        folder = options.frames or options.folder
        if window is None:
            folder.mkdir(parents=True, exist_ok=True)
        explorer = Explorer(figure, options.n, options.seed, rounds, settings)
        if window is None:
            explorer.write(folder)
        else:
            optional(_OP, "matplotlib.pyplot").show()
    except OSError as error:
        raise SystemExit(f"{_OP}: {error}") from None
    except (ImportError, ValueError) as error:
        raise SystemExit(str(error)) from None
    except KeyboardInterrupt as interrupt:
        print("", *getattr(interrupt, "__notes__", ()), f"{_OP}: interrupted", sep="\n", file=sys.stderr)
        return 130
    return 0


def _window() -> Any:
    """A figure of pyplot's; None where there is no display."""
    pyplot = optional(_OP, "matplotlib.pyplot")
    figure = pyplot.figure(figsize=_SIZE, layout="constrained")
    # A canvas that only writes files has no manager of its own.
    if type(figure.canvas).manager_class is not optional(_OP, "matplotlib.backend_bases").FigureManagerBase:
        return figure
    pyplot.close(figure)
    return None


class Explorer:
    """A figure of a projection: support, overlap with the round before, raster, and a slider for each setting.

    Attributes:
        figure: The figure.
        sliders: Those that can move, by setting; moving one runs the projection again.
    """

    def __init__(self, figure: Any, n: int, seed: int, rounds: int, settings: dict[str, Any]) -> None:
        """Draws into an empty figure what the settings k, beta and p give."""
        self.figure, self._n, self._seed, self._rounds, self._settings = figure, n, seed, rounds, settings
        figure.suptitle(f"{rounds} rounds of projection, n = {n:,}, seed {seed}")
        above, below = figure.subfigures(2, 1, height_ratios=(5, 1))
        left, self._raster = above.subfigures(1, 2)
        self._support, self._overlap = left.subfigures(2, 1)
        k, beta, p = settings.values()
        ends = {"k": (max(1, k // 4), min(n, 4 * k)), "beta": (0, 4 * beta or 0.2), "p": (p / 4, min(1, 4 * p or 0.2))}
        ends = {name: (low, high) for name, (low, high) in ends.items() if low < high}
        slider = optional(_OP, "matplotlib.widgets").Slider
        self.sliders = {}
        for name, axes in zip(ends, below.subplots(len(ends), 1), strict=True):
            step = 1 if name == "k" else None
            made = slider(axes, name, *ends[name], valinit=settings[name], valfmt="%.3g", valstep=step)
            made.on_changed(lambda _: self.show())
            self.sliders[name] = made
        self.show()

    def show(self) -> None:
        """Runs the projection where the sliders stand, and draws it."""
        settings = self._settings | {name: slider.val for name, slider in self.sliders.items()}
        brain = _brain(self._n, self._seed, **settings)
        with Monitor(brain, max_rounds=self._rounds) as monitor:
            brain.project({"s": "A"}, {"A": "A"}, self._rounds)
        for part in (self._support, self._overlap, self._raster):
            part.clear()
        plot.plot_support(monitor["A", "support"], figure=self._support)
        overlap = range(1, self._rounds + 1), monitor["A", "overlap"]
        plot.lines(_OP, {"": overlap}, "overlap with the\nround before", self._overlap)
        self._overlap.axes[0].set_ylim(0, 1.05)
        for part in (self._support, self._overlap):
            part.axes[0].set_xlim(0, self._rounds + 1)
        plot.plot_raster(monitor, figure=self._raster)
        self.figure.canvas.draw_idle()

    def write(self, folder: Path) -> None:
        """Writes a picture for each of several places of each slider, the others where they began."""
        places = []
        for name, slider in self.sliders.items():
            step = (slider.valmax - slider.valmin) / (_STOPS - 1)
            values = [slider.valmin + step * stop for stop in range(_STOPS)]
            places += [(name, value) for value in dict.fromkeys(map(round, values) if name == "k" else values)]
        following = iter(enumerate(places))

        def draw(part: int) -> None:
            number, place = next(following)
            for name, slider in self.sliders.items():
                # Drawn once, where all are in place.
                slider.eventson = False
                slider.set_val(place[1] if name == place[0] else slider.valinit)
                slider.eventson = True
            self.show()
            written = io.BytesIO()
            self.figure.savefig(written, format="png", dpi=100)
            write_atomically(str(folder / f"frame-{number:03}.png"), [written.getvalue()])

        in_parts(_OP, len(places), 1.0, draw, ticking(_OP, True), most=1)
        # What an earlier run left there stays.
        print(f"wrote {len(places)} pictures to {folder}, in which {', '.join(self.sliders)} grow in turn")


def _brain(n: int, seed: int, k: float, beta: float, p: float) -> Brain:
    with named("Brain", _OP), named("add_area", _OP), named("add_stimulus", _OP):
        brain = Brain(p, seed)
        brain.add_area("A", n, int(k), beta)
        brain.add_stimulus("s", int(k))
    return brain
