"""Pictures of fields: slices, the metrics of a robot's cycles, and animations of recorded runs; needs matplotlib."""

from __future__ import annotations

import math
import numbers
import os
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from torch_hrr._checks import brief, integer, listed
from torch_hrr._plots import FPS, LARGEST, drawable, figure_of, gif_path, save_gif
from torch_hrr._progress import Progress, ticking
from torch_hrr._spec import Int, takes

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["METRICS", "plot_activity", "plot_slices", "save_animation"]

METRICS = ("energy", "sparsity", "field_information", "max_activation", "prediction_confidence")
"""The metrics of a state that `plot_activity` draws."""

_AXES = ("depth", "height", "width")
_AXIS, _CHANNEL = Int(0, 2).or_none(), Int(0).or_none()
_INCHES = 3.2


@takes(channel=_CHANNEL, axis=_AXIS)
def plot_slices(
    field: Tensor,
    channel: int | None = None,
    axis: int | None = None,
    place: Sequence[int] | None = None,
    figure: Figure | None = None,
) -> Figure:
    """Slices of one channel across depth, height and width, through its strongest place or another.

    All share one colour scale: from 0 for a field that is nowhere negative, else symmetric about 0. Lines mark the
    place. NaN, infinity and values beyond 1e300 are left blank, and are never the strongest.

    Args:
        field: ``[D, H, W, C]`` of any real dtype and device.
        channel: 0 to C - 1; None means the one with the largest modulus.
        axis: 0, 1 or 2 for only the slice across depth, height or width; None means all three.
        place: (depth, height, width) of the slices; None means the channel's largest modulus, the first among equals.
        figure: The figure to draw into, for example one of pyplot or a part of one; None makes one without pyplot.

    Returns:
        The figure; `figure.savefig` writes it.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
        TypeError, ValueError: An argument of another type, of another shape, or outside its range.
    """
    op = "plot_slices"
    values = _values(op, "field", field, 4)
    channel, place = _where(op, values.unsqueeze(0), channel, place)
    across = [0, 1, 2] if axis is None else [axis]
    figure = figure_of(op, _row(len(across)), figure)
    _draw(figure, values[..., channel], place, across, _scale(values[..., channel]), f"channel {channel}")
    return figure


def plot_activity(
    records: Iterable[Mapping[str, Any]], metrics: Sequence[str] = METRICS, figure: Figure | None = None
) -> Figure:
    """Metrics of a robot's states over its cycles, one panel each.

    Args:
        records: The states that `FieldBrain.process_robot_cycle` returned, in order; without "cycle" they are counted
            from 0.
        metrics: Which entries to draw, from top to bottom; any that are numbers. Values not finite or beyond 1e300 are
            left out.
        figure: As for `plot_slices`.

    Returns:
        The figure.

    Raises:
        ModuleNotFoundError: matplotlib is not installed.
        TypeError, ValueError: There are no records or no metrics, or a record lacks one of them or has no number there.
    """
    op = "plot_activity"
    metrics = listed(op, "metrics", metrics, "a list of names")
    if not all(isinstance(name, str) for name in metrics):
        raise TypeError(f"{op}: metrics must be a list of names, got {brief(metrics)}")
    if not metrics:
        raise ValueError(f"{op}: metrics must name at least one, got none")
    columns: dict[str, list[float]] = {name: [] for name in ("cycle", *metrics)}
    for index, record in enumerate(listed(op, "records", records, "states")):
        if not isinstance(record, Mapping):
            raise TypeError(f"{op}: records must be states, got {type(record).__name__} at {index}")
        for name, column in columns.items():
            column.append(_metric(op, record, name, index) if name != "cycle" or name in record else index)
    cycles = columns["cycle"]
    if not cycles:
        raise ValueError(f"{op}: records must hold at least one state, got none")
    figure = figure_of(op, (7, 1 + 1.3 * len(metrics)), figure)
    panels = figure.subplots(len(metrics), 1, sharex=True, squeeze=False)[:, 0]
    for axes, name in zip(panels, metrics, strict=True):
        axes.plot(cycles, columns[name], linewidth=1, marker="." if len(cycles) == 1 else None)
        axes.set_ylabel(name.replace("_", "\n"))
    panels[-1].set_xlabel("cycle")
    return figure


@takes(fps=FPS, channel=_CHANNEL, axis=_AXIS)
def save_animation(
    frames: Tensor | Iterable[Tensor],
    path: str | os.PathLike[str],
    fps: float = 10.0,
    channel: int | None = None,
    axis: int | None = None,
    place: Sequence[int] | None = None,
    progress: Progress = None,
) -> None:
    """Writes a recorded run as an animated GIF of its slices, whole or not at all.

    Channel, place and colours are chosen for the whole run, so that frames can be compared. The animation loops.

    Args:
        frames: ``[T, D, H, W, C]``, or T fields ``[D, H, W, C]`` of one shape, for example the activations of a
            `DynamicField` after every step.
        path: Where to write, a name that ends in ".gif" or has no suffix; an existing file is replaced atomically, or
            on an error kept.
        fps: Frames per second, 0.01 to 50; the format counts in hundredths of a second, and viewers show no more.
        channel: As for `plot_slices`.
        axis: As for `plot_slices`.
        place: As for `plot_slices`.
        progress: Called after every frame with how many are drawn and their number; True shows a bar.

    Raises:
        ModuleNotFoundError: matplotlib is not installed; pillow, which writes the file, is with it.
        TypeError, ValueError: An argument of another type, of another shape, or outside its range; frames of different
            shapes, or none.
        OSError: The file cannot be written.

    Cost: about 15 ms and 0.3 MB of memory per frame.
    """
    op = "save_animation"
    target, tick = gif_path(op, path), ticking(op, progress)
    if isinstance(frames, Tensor):
        values = _values(op, "frames", frames, 5)
    else:
        each = [_values(op, "frames", frame, 4) for frame in listed(op, "frames", frames, "fields")]
        shapes = list(dict.fromkeys(frame.shape for frame in each))
        if len(shapes) != 1:
            raise ValueError(
                f"{op}: frames must have one shape, got {', '.join(str(list(s)) for s in shapes) or 'none'}"
            )
        values = torch.stack(each)
    channel, place = _where(op, values, channel, place)
    across = [0, 1, 2] if axis is None else [axis]
    values = values[..., channel]
    figure = figure_of(op, _row(len(across)))
    title, images = _draw(figure, values[0], place, across, _scale(values), "frame 0")
    shown = torch.linspace(0, 1, 216, dtype=torch.float32, device="cpu").numpy()
    colours = torch.from_numpy(images[0].cmap(shown))[:, :3]
    # The marks of the place and the frames of the axes lie above the images.
    above = [(image, *image.axes.lines, *image.axes.spines.values()) for image in images]
    moving = [title, *(artist for artists in above for artist in artists)]

    def show(number: int) -> None:
        title.set_text(f"frame {number}")
        for image, along in zip(images, across, strict=True):
            image.set_data(values[number].select(along, place[along]).numpy())

    save_gif(op, target, fps, figure, moving, colours, len(values), show, tick)


def _row(panels: int) -> tuple[float, float]:
    return _INCHES * panels + 0.8, _INCHES + 0.4


def _values(op: str, argument: str, field: Tensor, dims: int) -> Tensor:
    """The tensor checked, as `drawable` gives it."""
    values = drawable(op, argument, field)
    shape = "[T, D, H, W, C]" if dims == 5 else "[D, H, W, C]"
    if values.dim() != dims or not values.numel():
        raise ValueError(f"{op}: {argument} must be {shape} with every size above 0, got {list(values.shape)}")
    return values


def _where(
    op: str, frames: Tensor, channel: int | None, place: Sequence[int] | None
) -> tuple[int, tuple[int, int, int]]:
    """The channel and the place given, or those of the largest modulus among all frames ``[T, D, H, W, C]``."""
    strength = frames.abs().nan_to_num(nan=-1.0).amax(0)
    *sizes, channels = strength.shape
    if channel is None:
        channel = int(strength.amax((0, 1, 2)).argmax())
    channel = integer(op, "channel", channel, 0, channels - 1)
    if place is None:
        at = int(strength[..., channel].argmax())
        place = [int(index) for index in torch.unravel_index(torch.tensor(at, device="cpu"), sizes)]
    place = listed(op, "place", place, "three ints")
    if len(place) != 3:
        raise ValueError(f"{op}: place must be (depth, height, width), got {len(place)} numbers")
    depth, height, width = (
        integer(op, f"place's {name}", index, 0, size - 1)
        for name, index, size in zip(_AXES, place, sizes, strict=True)
    )
    return channel, (depth, height, width)


def _scale(values: Tensor) -> tuple[float, float]:
    """Ends of the scale of colours."""
    most = float(values.abs().nan_to_num(nan=0.0).max()) or 1.0
    return (-most if bool((values < 0).any()) else 0.0, most)


def _draw(
    figure: Any, values: Tensor, place: tuple[int, int, int], across: list[int], scale: tuple[float, float], title: str
) -> tuple[Any, list[Any]]:
    """The title, and the images of the slices of ``[D, H, W]``, each in axes of its own."""
    images = []
    panels = figure.subplots(1, len(across), squeeze=False)[0]
    for axes, along in zip(panels, across, strict=True):
        down, right = (other for other in range(3) if other != along)
        colours = "RdBu_r" if scale[0] < 0 else "viridis"
        plane = values.select(along, place[along]).numpy()
        image = axes.imshow(plane, cmap=colours, vmin=scale[0], vmax=scale[1], interpolation="nearest")
        axes.axhline(place[down], color="grey", linewidth=0.5)
        axes.axvline(place[right], color="grey", linewidth=0.5)
        axes.set(title=f"{_AXES[along]} {place[along]}", xlabel=_AXES[right], ylabel=_AXES[down])
        images.append(image)
    figure.colorbar(images[-1], ax=list(panels))
    return figure.suptitle(title), images


def _metric(op: str, record: Mapping[str, Any], name: str, index: int) -> float:
    if name not in record:
        raise ValueError(f"{op}: records must have {name!r}, got none at {index}")
    value = record[name]
    if not isinstance(value, numbers.Real):
        raise TypeError(f"{op}: {name} must be a number, got {type(value).__name__} at {index}")
    return float(value) if abs(record[name]) <= LARGEST else math.nan
