"""What pictures of all systems share: figures of matplotlib, which is imported when one is drawn, and animations."""

from __future__ import annotations

import importlib
import io
import math
import os
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from torch_hrr._checks import check_data, checked_path, strided
from torch_hrr._progress import Tick
from torch_hrr._spec import Real
from torch_hrr.io import write_atomically

FPS = Real(0.01, 50)
"""Frames per second: a GIF counts in hundredths of a second, and viewers show no more than 50."""

LARGEST = 1e300
"""Beyond, the ends of an axis are so far apart that their distance overflows."""

_DPI = 80


def optional(op: str, module: str) -> Any:
    """A module of matplotlib or pillow; ModuleNotFoundError names the cure."""
    try:
        return importlib.import_module(module)
    except ModuleNotFoundError:
        # Pillow comes with matplotlib.
        raise ModuleNotFoundError(f"{op}: matplotlib must be installed: pip install matplotlib") from None


def figure_of(op: str, size: tuple[float, float], given: Any = None) -> Any:
    """The figure given, or one of its own, which no list of pyplot's keeps alive."""
    known = optional(op, "matplotlib.figure")
    if given is None:
        return known.Figure(figsize=size, dpi=_DPI, layout="constrained")
    if not isinstance(given, known.FigureBase):
        raise TypeError(f"{op}: figure must be one of matplotlib's, got {type(given).__name__}")
    return given


def drawable(op: str, argument: str, values: Any) -> Tensor:
    """A real tensor or array in double on the CPU, what cannot be drawn as NaN."""
    values = strided(op, argument, values)
    if values.is_complex() or values.dtype == torch.bool:
        raise TypeError(f"{op}: {argument} must be real, got {values.dtype}")
    check_data(op, argument, values)
    found: Tensor = values.detach().to("cpu", torch.float64)
    return found.where(found.abs() <= LARGEST, math.nan)


def gif_path(op: str, path: Any) -> str:
    """Where an animation is to be written; an error before a frame is drawn for what no file can replace."""
    text = checked_path(op, path)
    if os.path.splitext(text)[1].lower() not in ("", ".gif"):
        raise ValueError(f"{op}: path must end in .gif, got {text}")
    target: str = os.path.realpath(text)
    os.stat(os.path.dirname(target))
    if os.path.exists(target) and not os.path.isfile(target):
        raise ValueError(f"{op}: path must name a regular file, got {target}")
    return target


def save_gif(
    op: str,
    target: str,
    fps: float,
    figure: Any,
    moving: Sequence[Any],
    colours: Tensor,
    frames: int,
    show: Callable[[int], None],
    tick: Tick,
) -> None:
    """Writes frames of a figure as an animated GIF that loops, whole or not at all.

    Args:
        op: Name of the call.
        target: What `gif_path` found.
        fps: Frames per second.
        figure: Without a canvas of pyplot's.
        moving: The artists that change or lie above these, in the order in which they are drawn.
        colours: Those of the data, at most 216, ``[colours, 3]`` from 0 to 1.
        frames: How many.
        show: Is called with the number of a frame, and changes the artists.
        tick: Is called after every frame.
    """
    pillow = optional(op, "PIL.Image")
    canvas = optional(op, "matplotlib.backends.backend_agg").FigureCanvasAgg(figure)
    # What moves is left out of a background that is drawn once: all of it would take a tenth of a second a frame.
    for artist in moving:
        artist.set_animated(True)
    canvas.draw()
    size = canvas.get_width_height()
    background = canvas.copy_from_bbox(figure.bbox)
    # One palette, so that a value has its colour in every frame: those of the data, and greys for what is written.
    greys = torch.linspace(0, 1, 40, dtype=torch.float64, device="cpu").unsqueeze(1).expand(-1, 3)
    palette = pillow.new("P", (1, 1))
    palette.putpalette((255 * torch.cat((colours, greys))).round().to(torch.uint8).flatten().tolist())
    pictures = []
    for number in range(frames):
        canvas.restore_region(background)
        show(number)
        for artist in moving:
            figure.draw_artist(artist)
        picture = pillow.frombuffer("RGBA", size, canvas.buffer_rgba(), "raw", "RGBA", 0, 1)
        pictures.append(picture.convert("RGB").quantize(palette=palette, dither=pillow.Dither.NONE))
        tick(number + 1, frames)
    written = io.BytesIO()
    # Times of whole hundredths.
    times = 10 * round(100 / fps)
    pictures[0].save(written, "GIF", save_all=True, append_images=pictures[1:], duration=times, loop=0)
    write_atomically(target, [written.getvalue()])
