"""Pictures show the data that they are given: what is in the axes, and the frames of an animation read again."""

import ast
import itertools
import pathlib
import sys

import numpy as np
import pytest
import torch

from torch_hrr.field import plot

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
image_of = pytest.importorskip("PIL.Image")


def draw(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def panels(figure):
    """Axes with slices, without the scale of colours."""
    return [axes for axes in figure.axes if axes.get_label() != "<colorbar>"]


def shown(figure):
    return [torch.tensor(axes.images[0].get_array().filled(torch.nan)) for axes in panels(figure)]


def states(count):
    return [
        {"cycle": 10 + index, "cycle_time_ms": 1.0, "field_information": index**2, "max_activation": 0.5}
        | {"prediction_confidence": 1 / (1 + index), "energy": 0.1 * index, "sparsity": 0.9, "device": "cpu"}
        for index in range(count)
    ]


def test_slices_go_through_the_strongest_place():
    field = 0.1 * draw(4, 5, 6, 3)
    field[1, 3, 2, 2] = -7
    figure = plot.plot_slices(field)
    expected = field[1, :, :, 2], field[:, 3, :, 2], field[:, :, 2, 2]
    for image, plane in zip(shown(figure), expected, strict=True):
        torch.testing.assert_close(image, plane.double())
    titles = [(axes.get_title(), axes.get_xlabel(), axes.get_ylabel()) for axes in panels(figure)]
    assert titles == [("depth 1", "width", "height"), ("height 3", "width", "depth"), ("width 2", "height", "depth")]
    assert figure.get_suptitle() == "channel 2"
    assert all(axes.images[0].get_clim() == (-7, 7) for axes in panels(figure))
    figure.canvas.draw()


def test_channel_axis_and_place_may_be_chosen():
    field = draw(4, 5, 6, 3).abs().to(torch.bfloat16)
    (image,) = shown(plot.plot_slices(field, channel=1, axis=2, place=(0, 1, 5)))
    torch.testing.assert_close(image, field[:, :, 5, 1].double())
    figure = plot.plot_slices(field, channel=1)
    strongest = (field[..., 1] == field[..., 1].max()).nonzero()[0].tolist()
    assert [axes.get_title().split()[1] for axes in panels(figure)] == [str(place) for place in strongest]
    assert all(axes.images[0].get_clim() == (0, float(field[..., 1].max())) for axes in panels(figure))


def test_what_is_not_finite_is_left_blank():
    field = torch.zeros(2, 2, 2, 1)
    field = field.double()
    field[0, 0, 0], field[0, 1, 0], field[0, 1, 1], field[1, 0, 0] = torch.nan, torch.inf, 3, -1e301
    image = shown(plot.plot_slices(field, axis=0))[0]
    assert image.isnan().tolist() == [[True, False], [True, False]] and image[1, 1] == 3
    blank = plot.plot_slices(torch.full((2, 2, 2, 1), torch.nan))
    assert all(image.isnan().all() for image in shown(blank))
    blank.canvas.draw()


def test_a_figure_given_is_drawn_into():
    figure = matplotlib.figure.Figure()
    assert plot.plot_slices(draw(2, 3, 4, 1), figure=figure) is figure and len(panels(figure)) == 3
    parts = matplotlib.figure.Figure().subfigures(2)
    assert plot.plot_activity(states(3), figure=parts[0]) is parts[0] and len(parts[0].axes) == 5
    assert plot.plot_slices(draw(2, 3, 4, 1), figure=parts[1]) is parts[1]
    assert "matplotlib.pyplot" not in sys.modules or not sys.modules["matplotlib.pyplot"].get_fignums()


def test_activity_is_drawn_over_cycles():
    records = states(5)
    figure = plot.plot_activity(iter(records))
    assert [axes.get_ylabel().replace("\n", "_") for axes in figure.axes] == list(plot.METRICS)
    for axes, name in zip(figure.axes, plot.METRICS, strict=True):
        (line,) = axes.lines
        assert line.get_xdata().tolist() == [10, 11, 12, 13, 14]
        assert line.get_ydata().tolist() == [record[name] for record in records]
    chosen = plot.plot_activity([{"reward": 1}, {"reward": 2.5}], ["reward"])
    assert chosen.axes[0].lines[0].get_xdata().tolist() == [0, 1]
    assert chosen.axes[0].lines[0].get_ydata().tolist() == [1, 2.5]
    figure.canvas.draw()


def pixels(image):
    return torch.from_numpy(np.array(image.convert("RGB"))).float()


def read(path):
    """The pictures ``[T, height, width, 3]`` of an animation, and its times in milliseconds."""
    pictures, times = [], []
    with image_of.open(path) as animation:
        assert animation.format == "GIF" and animation.info["loop"] == 0
        for index in range(animation.n_frames):
            animation.seek(index)
            times.append(animation.info["duration"])
            pictures.append(pixels(animation))
    return torch.stack(pictures), times


def test_an_animation_shows_every_frame(tmp_path):
    frames = torch.zeros(4, 1, 9, 9, 2)
    for index in range(4):
        frames[index, 0, 2 * index, 4, 1] = 100 + index
    path = tmp_path / "run.gif"
    plot.save_animation(frames, path, fps=18, axis=0)
    pictures, times = read(path)
    assert times == [60] * 4
    # Yellow ends the colours, and it goes down by two places a frame, the same distance every time; a scale of colours
    # and lines stay.
    yellow = (pictures[..., 0] > 200) & (pictures[..., 1] > 200) & (pictures[..., 2] < 60)
    moving = yellow & ~yellow.all(0)
    rows = [float(each.nonzero()[:, 0].float().mean()) for each in moving]
    steps = [after - before for before, after in itertools.pairwise(rows)]
    assert min(steps) > 20 and max(steps) - min(steps) < 2
    changed = (pictures[1:] != pictures[:-1]).any(-1)
    assert changed.flatten(1).any(1).all() and float(changed.float().mean()) < 0.2
    # The same bytes whether the frames are one tensor or many, and again.
    seen = []
    plot.save_animation(iter(frames), tmp_path / "again.gif", 18, axis=0, progress=lambda *counts: seen.append(counts))
    assert (tmp_path / "again.gif").read_bytes() == path.read_bytes()
    assert seen == [(1, 4), (2, 4), (3, 4), (4, 4)]


def test_a_frame_of_an_animation_is_the_picture_of_its_slices(tmp_path):
    """Drawn over one background, frames are as `plot_slices` would draw them on the colours of the run."""
    frames = draw(3, 5, 6, 7, 2)
    frames[2, 1, 2, 3, 1] = 6
    plot.save_animation(frames, tmp_path / "run.gif")
    pictures, times = read(tmp_path / "run.gif")
    assert times == [100] * 3
    figure = plot.plot_slices(frames[2])
    figure.suptitle("frame 2")
    figure.savefig(tmp_path / "slices.png")
    with image_of.open(tmp_path / "slices.png") as image:
        whole = pixels(image)
    # 256 colours are the difference.
    assert pictures[2].shape == whole.shape
    assert float((pictures[2] - whole).abs().mean()) < 3
    assert float((pictures[1] - whole).abs().mean()) > 10


def test_an_animation_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    path = tmp_path / "run.gif"
    path.write_bytes(b"before")
    frames = draw(2, 1, 4, 4, 1)
    with pytest.raises(
        ValueError, match=r"^save_animation: frames must have one shape, got \[1, 4, 4, 1\], \[1, 4, 5, 1\]"
    ):
        plot.save_animation([frames[0], draw(1, 4, 5, 1)], path)

    def fails(*arguments):
        raise OSError("no space left")

    with monkeypatch.context() as patch:
        patch.setattr("os.replace", fails)
        with pytest.raises(OSError, match="no space left"):
            plot.save_animation(frames, path)
    assert path.read_bytes() == b"before" and [each.name for each in tmp_path.iterdir()] == ["run.gif"]
    with pytest.raises(FileNotFoundError):
        plot.save_animation(frames, tmp_path / "missing" / "run.gif")
    plot.save_animation(frames, path)
    assert len(read(path)[0]) == 2


FIELD = torch.zeros(2, 3, 4, 2)


SLICES, ACTIVITY, ANIMATION = plot.plot_slices, plot.plot_activity, plot.save_animation


@pytest.mark.parametrize(
    ("call", "arguments", "error", "message"),
    [
        (SLICES, ([1.0],), TypeError, "field must be a torch.Tensor or a NumPy array, got list"),
        (SLICES, (FIELD[0],), ValueError, r"field must be \[D, H, W, C\] .*, got \[3, 4, 2\]"),
        (SLICES, (FIELD[:0],), ValueError, r"field must be .* above 0, got \[0, 3, 4, 2\]"),
        (SLICES, (FIELD.bool(),), TypeError, "field must be real, got torch.bool"),
        (SLICES, (FIELD.to("meta"),), ValueError, "field must hold data, got a meta tensor"),
        (SLICES, (FIELD, 2), ValueError, "channel must be .* at most 1, got 2"),
        (SLICES, (FIELD, 0, 0, np.array(1)), TypeError, "place must be three ints, got ndarray"),
        (SLICES, (FIELD, 0, 0, 1), TypeError, "place must be three ints, got int"),
        (SLICES, (FIELD, 0, 0, (0, 1)), ValueError, "place must be .*, got 2 numbers"),
        (SLICES, (FIELD, 0, 0, (0, 3, 0)), ValueError, "place's height must be .* got 3"),
        (SLICES, (FIELD, 0, 0, None, "x"), TypeError, "figure must be one of matplotlib's, got str"),
        (ACTIVITY, ([],), ValueError, "records must hold at least one state, got none"),
        (ACTIVITY, ([1],), TypeError, "records must be states, got int at 0"),
        (ACTIVITY, (5,), TypeError, "records must be states, got int"),
        (ACTIVITY, ([*states(1), {}],), ValueError, "records must have 'energy', got none at 1"),
        (ACTIVITY, (states(1), ["device"]), TypeError, "device must be a number, got str at 0"),
        (ACTIVITY, (states(1), []), ValueError, "metrics must name at least one"),
        (ACTIVITY, (states(1), [1]), TypeError, "metrics must be a list of names"),
        (ACTIVITY, (states(1), "energy"), TypeError, "metrics must be a list of names"),
        (ANIMATION, (5, "x"), TypeError, "frames must be fields, got int"),
        (ANIMATION, ([], "x"), ValueError, "frames must have one shape, got none"),
        (ANIMATION, (FIELD, "x"), ValueError, r"frames must be \[T, D, H, W, C\]"),
        (ANIMATION, ([FIELD], 5), TypeError, "path must be a str or an os.PathLike"),
        (ANIMATION, ([FIELD], "run.mp4"), ValueError, r"path must end in .gif, got run\.mp4"),
    ],
)
def test_wrong_arguments_are_named(call, arguments, error, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(error, match=f"^{call.__name__}: {message}"):
        call(*arguments)
    assert not list(tmp_path.iterdir())


SHAPES = (1, 1, 1, 1), (1, 5, 5, 1), (2, 1, 3, 2)
STRENGTHS = 0.0, 5.0, -5.0, 5e-324, 1e300, 1.7e308, torch.inf, torch.nan


@pytest.mark.parametrize(("strength", "shape"), [(each, SHAPES[i % 3]) for i, each in enumerate(STRENGTHS)], ids=str)
def test_constant_fields_and_single_planes_can_be_drawn(strength, shape, tmp_path):
    field = torch.full(shape, strength, dtype=torch.float64)
    plot.plot_slices(field).canvas.draw()
    plot.plot_slices(torch.cat((field, -field))).canvas.draw()
    plot.save_animation([field], tmp_path / "run.gif")
    assert len(read(tmp_path / "run.gif")[0]) == 1


@pytest.mark.parametrize("dtype", (torch.bfloat16, torch.float16, torch.float8_e5m2, torch.int8, torch.uint64))
def test_every_real_dtype_can_be_drawn(dtype):
    field = torch.arange(24).view(2, 3, 4, 1).to(dtype)
    (image,) = shown(plot.plot_slices(field, axis=0, place=(1, 0, 0)))
    assert torch.equal(image, field[1, ..., 0].double())


def test_metrics_that_cannot_be_drawn_are_left_out():
    values = [1e308, -1e308, 10**400, torch.inf, torch.nan, 2]
    figure = plot.plot_activity(({"energy": value} for value in values), (name for name in ["energy"]))
    drawn = figure.axes[0].lines[0].get_ydata().tolist()
    assert all(value != value for value in drawn[:-1]) and drawn[-1] == 2
    figure.canvas.draw()


def test_pictures_under_another_default_device_and_dtype(tmp_path):
    frames = draw(2, 1, 4, 4, 1)
    plot.save_animation(frames, tmp_path / "first.gif")
    torch.set_default_dtype(torch.float64)
    with torch.device("meta"), torch.inference_mode():
        plot.plot_slices(frames[0]).canvas.draw()
        plot.save_animation(frames, tmp_path / "second.gif")
    assert (tmp_path / "second.gif").read_bytes() == (tmp_path / "first.gif").read_bytes()


@pytest.mark.parametrize(
    ("call", "arguments"), [(SLICES, (FIELD,)), (ACTIVITY, (states(2),)), (ANIMATION, ([FIELD], "run.gif"))]
)
def test_without_matplotlib_the_cure_is_named(call, arguments, monkeypatch):
    for module in ("matplotlib", "matplotlib.figure", "matplotlib.backends.backend_agg", "PIL", "PIL.Image"):
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(ModuleNotFoundError, match=r"matplotlib must be installed: pip install matplotlib$"):
        call(*arguments)


def test_matplotlib_is_loaded_when_something_is_drawn_alone():
    code = ast.parse(pathlib.Path(plot.__file__).read_text())
    for node in code.body:
        names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
        names += [node.module] if isinstance(node, ast.ImportFrom) else []
        assert not {name.split(".")[0] for name in names} & {"matplotlib", "PIL"}
