"""Pictures of assemblies: what monitors recorded, overlaps, trees of the parser, animations; needs matplotlib."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from torch_hrr._checks import choice, integer
from torch_hrr._plots import FPS, drawable, figure_of, gif_path, optional, save_gif
from torch_hrr._progress import Progress, ticking
from torch_hrr._spec import Instance, Int, takes
from torch_hrr.assembly import _checks as checks
from torch_hrr.assembly.monitor import Monitor
from torch_hrr.assembly.parser import ParseTree

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["plot_overlaps", "plot_raster", "plot_support", "plot_tree", "save_animation"]

_BRAIN = Int(0).or_none()
# What a neuron may be in a round, and its colour; those from `_LOST` on win now or won in the round before.
_STATES = {
    "never won": "#f1f3f5",
    "won before": "#c9d3df",
    "lost": "#e59a8c",
    "kept": "#27598f",
    "new": "#f0922b",
}
_LOST = 2
# Of a matrix of so many rows the values are written.
_WRITTEN = 12
_Rounds = tuple[Sequence[int], Tensor]


@takes(brain=_BRAIN)
def plot_support(
    source: Monitor | Mapping[str, Tensor] | Tensor,
    areas: str | Iterable[str] | None = None,
    brain: int | None = None,
    figure: Figure | None = None,
) -> Figure:
    """How many neurons of each area ever won, over the rounds.

    Args:
        source: A `Monitor` that recorded "support"; or supports ``[rounds]``, of a batch ``[rounds, batch]``, a tensor
            or an array of real numbers, or a mapping of names to such.
        areas: A name or names to draw; None means all that there are.
        brain: Which brain of a batch; None without one.
        figure: The figure to draw into, for example one of pyplot or a part of one; None makes one without pyplot.

    Returns:
        The figure; `figure.savefig` writes it.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
        TypeError, ValueError: An argument of another type or shape, or outside its range; an unknown area, nothing
            recorded, or a batch without ``brain``.
    """
    op = "plot_support"
    names = None if areas is None else checks.several(op, "areas", areas)
    series = _series(op, source, "support", "areas", names, brain)
    return lines(op, series, "neurons that ever won", figure)


@takes(brain=_BRAIN)
def plot_overlaps(
    source: Monitor | Mapping[str, Any] | Tensor,
    area: str | None = None,
    brain: int | None = None,
    figure: Figure | None = None,
) -> Figure:
    """The matrix of the overlaps of assemblies, or of an area's winners in all rounds.

    In row i and column j: ``|i and j| / |j|``, the share of the neurons of j that are also in i, as `overlap` gives it;
    blank where j has none. Up to 12 rows have their values written into them.

    Args:
        source: Assemblies by name, each ints ``[m]``, of a batch ``[batch, m]``; or a `Monitor` that recorded
            "winners"; or winners ``[rounds, k]``, of a batch ``[rounds, batch, k]``, a tensor or an array. Negative
            numbers stand for no neuron.
        area: An area of the monitor; None where it recorded one alone.
        brain: As for `plot_support`.
        figure: As for `plot_support`.

    Returns:
        The figure.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
        TypeError, ValueError: As for `plot_support`.

    Cost: a product of matrices ``[rounds, S]`` and ``[S, rounds]``, for S neurons that ever won.
    """
    op = "plot_overlaps"
    names = list(map(str, source)) if isinstance(source, Mapping) else []
    if isinstance(source, Mapping):
        if area is not None:
            raise ValueError(f"{op}: area must be None for assemblies by name, got {area!r}")
        if not names:
            raise ValueError(f"{op}: source must hold at least one assembly, got none")
        given = {f"source[{name!r}]": each for name, each in source.items()}
        held = [_of_brain(op, key, checks.assembly(op, key, each), 1, 0, brain) for key, each in given.items()]
        rounds: Sequence[int] = range(len(held))
        rows = torch.nn.utils.rnn.pad_sequence([each.detach().cpu() for each in held], True, -1)
    else:
        rounds, rows = _winners(op, source, area, brain)
    # Exact in double, which autocast leaves alone.
    won = _won(rows).double()
    shares = (won @ won.T) / won.sum(-1)
    size = 2.2 + 0.45 * min(max(len(rows), 4), _WRITTEN)
    figure = figure_of(op, (size + 1.1, size), figure)
    axes = figure.subplots()
    low, high = _ends(rounds)
    image = axes.imshow(shares.numpy(), vmin=0, vmax=1, cmap="Blues", extent=(low, high, high, low))
    figure.colorbar(image, ax=axes, label="share in common")
    if names:
        slant = 45 if max(map(len, names)) > 4 else 0
        look: dict[str, Any] = {"rotation": slant, "ha": "right" if slant else "center", "rotation_mode": "anchor"}
        axes.set_xticks(rounds, names, parse_math=False, **look)
        axes.set_yticks(rounds, names, parse_math=False)
    else:
        axes.set(xlabel="round", ylabel="round")
        _count_in_ints(axes.xaxis, axes.yaxis)
    if len(rows) <= _WRITTEN:
        for (i, down), (j, right) in itertools.product(enumerate(rounds), repeat=2):
            share = float(shares[i, j])
            if not math.isnan(share):
                colour = "white" if share > 0.6 else "black"
                axes.text(right, down, f"{share:.2f}", color=colour, ha="center", va="center", fontsize="small")
    return figure


@takes(brain=_BRAIN)
def plot_raster(
    source: Monitor | Tensor, area: str | None = None, brain: int | None = None, figure: Figure | None = None
) -> Figure:
    """Which neurons win in each round: those that ever do, in the order of their first win, from bottom to top.

    A winner is new if it did not win in the round before, else kept.

    Args:
        source: A `Monitor` that recorded "winners"; or winners ``[rounds, k]``, of a batch ``[rounds, batch, k]``, a
            tensor or an array of ints, of which negative ones stand for no neuron.
        area: As for `plot_overlaps`.
        brain: As for `plot_support`.
        figure: As for `plot_support`.

    Returns:
        The figure.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
        TypeError, ValueError: As for `plot_support`; or nothing ever won.

    Cost: O(rounds S), for S neurons that ever won; matplotlib takes some 60 bytes for each of rounds S cells.
    """
    op = "plot_raster"
    rounds, rows = _winners(op, source, area, brain)
    shown = _states(op, rows).clamp(min=_LOST) - _LOST
    figure = figure_of(op, (5.5, 4.2), figure)
    axes = figure.subplots()
    colours, patches = _coloured(op, ("never won", "kept", "new"))
    look = {"cmap": colours, "vmin": 0, "vmax": 2, "aspect": "auto", "origin": "lower", "interpolation": "nearest"}
    axes.imshow(shown.T.numpy(), extent=(*_ends(rounds), 0, shown.shape[1]), **look)
    axes.set(xlabel="round", ylabel="neurons by first win")
    axes.legend(handles=patches[1:], loc="lower left", bbox_to_anchor=(0, 1), ncols=2, frameon=False)
    _count_in_ints(axes.xaxis, axes.yaxis)
    return figure


@takes(tree=Instance(ParseTree))
def plot_tree(tree: ParseTree, figure: Figure | None = None) -> Figure:
    """The tree of a sentence, from its root downwards; a line to a word has its label.

    Args:
        tree: As `Parser.parse` gives it.
        figure: As for `plot_support`.

    Returns:
        The figure.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
        TypeError: An argument of another type.
    """
    op = "plot_tree"
    leaves = itertools.count()
    nodes: list[tuple[float, int, str]] = []
    edges: list[tuple[tuple[float, float], tuple[int, int], str]] = []

    def place(node: ParseTree, down: int) -> float:
        below = [(place(branch, down + 1), branch.label) for branch in node.branches]
        right = (below[0][0] + below[-1][0]) / 2 if below else float(next(leaves))
        nodes.append((right, down, node.word))
        edges.extend(((right, end), (down, down + 1), label) for end, label in below)
        return right

    root = place(tree, 0)
    width, depth = next(leaves), max(down for _, down, _ in nodes)
    room = 0.5 + 0.1 * max(map(len, tree.words))
    figure = figure_of(op, (0.6 + max(2.0, room * width), 0.8 + 0.8 * depth), figure)
    axes = figure.subplots()
    middling: dict[str, Any] = {"ha": "center", "va": "center", "parse_math": False}
    box = {"boxstyle": "round", "facecolor": "white", "edgecolor": _STATES["kept"]}
    plain = {"pad": 1, "facecolor": "white", "edgecolor": "none"}
    for (above, below), (top, bottom), label in edges:
        axes.plot((above, below), (top, bottom), color="grey", linewidth=1, zorder=0)
        middle = (above + below) / 2, (top + bottom) / 2
        axes.text(*middle, label, fontsize="x-small", bbox=plain, **middling)
    for right, down, word in nodes:
        axes.text(right, down, word, bbox=box, **middling)
    axes.text(root, -0.4, tree.label, fontsize="x-small", **middling)
    axes.set(xlim=(-0.5, width - 0.5), ylim=(depth + 0.4, -0.6))
    axes.set_axis_off()
    return figure


@takes(fps=FPS, brain=_BRAIN)
def save_animation(
    source: Monitor | Tensor,
    path: str | os.PathLike[str],
    fps: float = 4.0,
    area: str | None = None,
    brain: int | None = None,
    progress: Progress = None,
) -> None:
    """Writes the rounds of an area as an animated GIF, a frame each, whole or not at all.

    A frame shows the neurons that win in any of the rounds as the cells of a grid, row by row in the order of their
    first win, and says how many have won so far (the support, if the first round was recorded) and the share of the
    winners that won in the round before (their overlap). The animation loops.

    Args:
        source: As for `plot_raster`.
        path: Where to write, a name that ends in ".gif" or has no suffix; an existing file is replaced atomically, or
            on an error kept.
        fps: Frames per second, 0.01 to 50; the format counts in hundredths of a second.
        area: As for `plot_overlaps`.
        brain: As for `plot_support`.
        progress: Called after every frame with how many are drawn and their number; True shows a bar.

    Raises:
        ModuleNotFoundError: matplotlib is not installed; pillow, which writes the file, is with it.
        TypeError, ValueError: As for `plot_raster`.
        OSError: The file cannot be written.

    Cost: about 15 ms and 0.2 MB of memory per frame.
    """
    op = "save_animation"
    target, tick = gif_path(op, path), ticking(op, progress)
    rounds, rows = _winners(op, source, area, brain)
    states = _states(op, rows)
    across = math.ceil(math.sqrt(states.shape[1]))
    # The cells after the last neuron are blank.
    grid = torch.full((math.ceil(states.shape[1] / across), across), math.nan, dtype=torch.float64, device="cpu")
    figure = figure_of(op, (4.4, 5.0))
    axes = figure.subplots()
    colours, patches = _coloured(op, _STATES)
    image = axes.imshow(grid.numpy(), cmap=colours, vmin=0, vmax=len(_STATES) - 1, interpolation="nearest")
    axes.set_axis_off()
    axes.legend(handles=patches, loc="upper center", bbox_to_anchor=(0.5, 0), ncols=3, frameon=False)
    title = figure.suptitle("round")

    def show(number: int) -> None:
        now = states[number]
        grid.view(-1)[: len(now)] = now.double()
        image.set_data(grid.numpy())
        winning, kept = int((now > _LOST).sum()), int((now == _LOST + 1).sum())
        share = f", overlap {kept / winning:.2f}" if number and winning else ""
        title.set_text(f"round {rounds[number]}: support {int((now > 0).sum())}{share}")

    palette = torch.tensor([optional(op, "matplotlib.colors").to_rgb(each) for each in _STATES.values()], device="cpu")
    save_gif(op, target, fps, figure, (image, title), palette, len(states), show, tick)


def lines(op: str, series: Mapping[str, _Rounds], what: str, figure: Figure | None) -> Figure:
    """The figure with a line of each area's values over the rounds."""
    figure = figure_of(op, (5.5, 3.2), figure)
    axes = figure.subplots()
    drawn = [
        axes.plot(rounds, values.numpy(), label=name, marker="." if len(rounds) < 50 else None)[0]
        for name, (rounds, values) in series.items()
    ]
    axes.set(xlabel="round", ylabel=what, ylim=(0, None))
    _count_in_ints(axes.xaxis)
    if any(series):
        # With names that begin with "_", which a legend of no arguments leaves out.
        for text in axes.legend(drawn, list(series)).get_texts():
            text.set_parse_math(False)
    return figure


def _series(
    op: str, source: Any, what: str, argument: str, names: Sequence[str] | None, brain: int | None
) -> dict[str, _Rounds]:
    """Rounds and values of each area, of one brain and on the CPU; a tensor's name is ""."""
    last = every = 1
    if isinstance(source, Monitor):
        with source._lock:
            given = {area: source[area, kind] for area, kind in source._keys() if kind == what}
            every = source._every
            last = source.rounds // every * every
        if not given:
            raise ValueError(f"{op}: source must be a monitor that recorded {what}, got {source!r}")
    elif isinstance(source, Mapping):
        given = {str(name): each for name, each in source.items()}
    elif isinstance(source, Tensor) or hasattr(source, "__array__"):
        if names is not None:
            raise ValueError(f"{op}: {argument} must be None for a tensor or an array, got {names}")
        given = {"": source}
    else:
        raise TypeError(f"{op}: source must be a Monitor, a tensor or an array, got {type(source).__name__}")
    found: dict[str, _Rounds] = {}
    for name in given if names is None else names:
        key = f"source[{name!r}]" if name else "source"
        values = drawable(op, key, given[choice(op, argument, name, given)])
        values = _of_brain(op, key, values, 1 + (what == "winners"), 1, brain)
        if not len(values):
            raise ValueError(f"{op}: {key} must hold at least one round, got none")
        first = last - every * (len(values) - 1) if isinstance(source, Monitor) else 1
        found[name] = range(first, first + every * len(values), every), values
    if not found:
        raise ValueError(f"{op}: {argument} must name at least one, got none")
    return found


def _of_brain(op: str, argument: str, values: Tensor, dims: int, at: int, brain: int | None) -> Tensor:
    """What has `dims` dimensions without the one of a batch, which may be `at`."""
    if values.dim() == dims:
        if brain is not None:
            raise ValueError(f"{op}: brain must be None without a batch, got {brain}")
        return values
    if values.dim() != dims + 1:
        raise ValueError(f"{op}: {argument} must have {dims} dimensions, or {dims + 1}, got {list(values.shape)}")
    most = values.shape[at] - 1
    if brain is None:
        raise ValueError(f"{op}: brain must be given for a batch, 0 to {most}, got None")
    return values.select(at, integer(op, "brain", brain, 0, most))


def _winners(op: str, source: Any, area: str | None, brain: int | None) -> _Rounds:
    """Rounds, and int64 winners ``[rounds, k]`` of one area."""
    series = _series(op, source, "winners", "area", None if area is None else [area], brain)
    name = area if area is not None or len(series) == 1 else choice(op, "area", area, series)
    rounds, values = series[next(iter(series)) if name is None else name]
    if not bool((values == values.round()).all()):
        raise ValueError(f"{op}: source must be numbers of neurons, got others")
    return rounds, values.long()


def _won(rows: Tensor) -> Tensor:
    """uint8 ``[rows, neurons]``: 1 where a neuron is in a row, for those in any, ascending; negative ones are none."""
    there = rows >= 0
    neurons, place = rows[there].unique(return_inverse=True)
    won = torch.zeros(len(rows), len(neurons), dtype=torch.uint8, device="cpu")
    won[there.nonzero()[:, 0], place] = 1
    return won


def _states(op: str, rows: Tensor) -> Tensor:
    """uint8 ``[rounds, neurons]``, an index into `_STATES`; of the neurons that ever won, in order of the first win."""
    won = _won(rows)
    if not won.shape[1]:
        raise ValueError(f"{op}: source must have winners, got none")
    first, order = won.argmax(0).sort(stable=True)
    won = won[:, order]
    ever = first <= torch.arange(len(rows), device="cpu").unsqueeze(1)
    before = torch.cat((torch.zeros_like(won[:1]), won[:-1]))
    return torch.where(won.bool(), 4 - before, ever + before)


def _ends(rounds: Sequence[int]) -> tuple[float, float]:
    """Where the first round begins and the last one ends on an axis on which they touch."""
    half = (rounds[1] - rounds[0]) / 2 if len(rounds) > 1 else 0.5
    return rounds[0] - half, rounds[-1] + half


def _coloured(op: str, states: Iterable[str]) -> tuple[Any, list[Any]]:
    """A map of colours for these states, and what a legend shows of them."""
    colours = {name: _STATES[name] for name in states}
    patch = optional(op, "matplotlib.patches").Patch
    listed = optional(op, "matplotlib.colors").ListedColormap(list(colours.values()))
    return listed, [patch(color=colour, label=name) for name, colour in colours.items()]


def _count_in_ints(*of_axes: Any) -> None:
    for axis in of_axes:
        axis.get_major_locator().set_params(integer=True)
