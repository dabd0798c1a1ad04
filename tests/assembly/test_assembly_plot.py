"""Pictures of assemblies show the data that they are given: lines, images, texts, and the frames of an animation."""

import io
import sys

import numpy as np
import pytest
import torch

from torch_hrr.assembly import Brain, Monitor, Parser, ParseTree, overlap, plot

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
image_of = pytest.importorskip("PIL.Image")

# By first win 1, 7 and 0; in the last round one neuron wins.
WINNERS = torch.tensor([[1, 7], [0, 7], [1, 0], [1, -1]])
NEVER, BEFORE, LOST, KEPT, NEW = range(5)
STATES = [[NEW, NEW, NEVER], [LOST, KEPT, NEW], [NEW, LOST, KEPT], [KEPT, BEFORE, LOST]]


def recorded(rounds=6, batch=None, **options):
    """A monitor of two areas, B two rounds behind A, and its brain."""
    brain = Brain(p=0.1, seed=3, batch=batch)
    brain.add_stimulus("s", 30)
    brain.add_area("A", 400, 20, 0.1)
    brain.add_area("B", 300, 15, 0.1)
    with Monitor(brain, **options) as monitor:
        brain.project("s", "A", rounds=2)
        brain.project({"s": "A"}, {"A": ["A", "B"]}, rounds=rounds - 2)
    return monitor, brain


def panel(figure):
    return next(axes for axes in figure.axes if axes.get_label() != "<colorbar>")


def image(figure):
    return torch.tensor(panel(figure).images[0].get_array().filled(torch.nan))


def drawn_lines(figure):
    return {line.get_label(): [*zip(*line.get_data(), strict=True)] for line in panel(figure).lines}


def texts(figure):
    return [text.get_text() for text in panel(figure).texts]


def test_supports_are_lines_over_the_rounds():
    monitor, _ = recorded()
    expected = {name: [*enumerate(monitor[name, "support"].tolist(), 1)] for name in "AB"}
    figure = plot.plot_support(monitor)
    assert drawn_lines(figure) == expected and expected["B"][:2] == [(1, 0), (2, 0)]
    assert [text.get_text() for text in panel(figure).get_legend().get_texts()] == ["A", "B"]
    assert list(drawn_lines(plot.plot_support(monitor, areas="B"))) == ["B"]
    series = monitor["A", "support"]
    for given in (series, series.numpy(), series.to(torch.bfloat16 if series.max() < 256 else torch.float32)):
        (line,) = drawn_lines(plot.plot_support(given)).values()
        assert line == [*enumerate(series.tolist(), 1)]
    several = plot.plot_support({"beta = 0.1": series, "none": series[:3].double() / 2})
    assert drawn_lines(several)["none"] == [(1, 10), (2, series[1] / 2), (3, series[2] / 2)]


def test_rounds_are_those_of_the_brain():
    """Of the last records, or of every second round, too."""
    monitor, _ = recorded(rounds=9, max_rounds=3, every=2)
    assert [at for at, _ in drawn_lines(plot.plot_support(monitor))["A"]] == [4, 6, 8]
    assert panel(plot.plot_raster(monitor, "A")).images[0].get_extent()[:2] == [3, 9]
    assert panel(plot.plot_overlaps(monitor, "A")).images[0].get_extent() == [3, 9, 9, 3]


def test_one_brain_of_a_batch_is_drawn():
    monitor, _ = recorded(batch=3)
    alone, _ = recorded()
    for what, call in {"support": plot.plot_support, "winners": plot.plot_overlaps}.items():
        series = monitor["A", what]
        with pytest.raises(ValueError, match=f"^{call.__name__}: brain must be given for a batch, 0 to 2, got None"):
            call(series)
        with pytest.raises(ValueError, match=f"^{call.__name__}: brain must be at least 0 and at most 2, got 3"):
            call(series, brain=3)
        with pytest.raises(ValueError, match=f"^{call.__name__}: brain must be None without a batch, got 0"):
            call(series[:, 0], brain=0)
    assert drawn_lines(plot.plot_support(monitor, brain=0)) == drawn_lines(plot.plot_support(alone))
    assert torch.equal(image(plot.plot_raster(monitor, "B", 2)), image(plot.plot_raster(monitor["B", "winners"][:, 2])))
    pair = {name: monitor["A", "winners"][at] for name, at in (("early", 0), ("late", -1))}
    late = overlap(pair["early"][1], pair["late"][1])
    assert image(plot.plot_overlaps(pair, brain=1))[0, 1] == late < 1


def test_overlaps_of_named_assemblies():
    """The share of the column's neurons that are in the row; sizes differ, and one is empty."""
    named = {"x": [1, 2, 3, 4], "longer": np.array([4, 5]), "none": torch.tensor([-1, -1])}
    figure = plot.plot_overlaps(named)
    nan = torch.nan
    expected = torch.tensor([[1, 0.5, nan], [0.25, 1, nan], [0, 0, nan]], dtype=torch.float64)
    torch.testing.assert_close(image(figure), expected, rtol=0, atol=0, equal_nan=True)
    assert texts(figure) == ["1.00", "0.50", "0.25", "1.00", "0.00", "0.00"]
    assert [label.get_text() for label in panel(figure).get_yticklabels()] == list(named)
    figure.canvas.draw()


def test_overlaps_of_rounds():
    monitor, _ = recorded(rounds=14)
    rows = monitor["A", "winners"]
    expected = torch.tensor([[overlap(down, right) for right in rows] for down in rows], dtype=torch.float64)
    figure = plot.plot_overlaps(monitor, "A")
    assert torch.equal(image(figure), expected) and expected.unique().numel() > 4
    assert texts(figure) == [], "too many to be read"
    assert len(texts(plot.plot_overlaps(rows[:12]))) == 144
    before = [float(expected[i, i + 1]) for i in range(13)]
    assert before == monitor["A", "overlap"][1:].tolist()


def test_a_raster_has_the_neurons_in_the_order_of_their_first_win():
    figure = plot.plot_raster(WINNERS)
    # Of all states it shows those of winners.
    assert (image(figure) + LOST).T.tolist() == [[max(state, LOST) for state in row] for row in STATES]
    axes = panel(figure)
    assert axes.images[0].get_extent() == [0.5, 4.5, 0, 3] and axes.images[0].origin == "lower"
    assert [text.get_text() for text in axes.get_legend().get_texts()] == ["kept", "new"]
    monitor, brain = recorded()
    shown = image(plot.plot_raster(monitor, "A"))
    assert shown.shape == (brain.support("A"), 6) and (shown > 0).sum(0).tolist() == [20] * 6
    assert ((shown == 1).sum(0) / 20)[1:].tolist() == pytest.approx(monitor["A", "overlap"][1:].tolist())


def test_a_tree_has_its_words_and_labels_in_place():
    tree = Parser(seed=0).parse("the big dogs chase the bad cats")
    figure = plot.plot_tree(tree)
    assert sorted(texts(figure)) == sorted([*tree.words, "VERB", *(label for _, _, label in tree.dependencies)])
    place = {text.get_text(): text.get_position() for text in panel(figure).texts}
    assert place["chase"][1] < place["dogs"][1] == place["cats"][1] < place["big"][1] == place["bad"][1]
    assert place["dogs"][0] < place["chase"][0] < place["cats"][0]
    ends = {tuple(zip(*line.get_data(), strict=True)) for line in panel(figure).lines}
    assert len(ends) == 6 and (place["chase"], place["dogs"]) in ends and (place["cats"], place["bad"]) in ends
    assert place["SUBJ"] == tuple((a + b) / 2 for a, b in zip(place["chase"], place["dogs"], strict=True))
    assert texts(plot.plot_tree(ParseTree("", "VERB"))) == ["", "VERB"]


def frames_of(path):
    """The colours ``[frames, pixels]`` of an animation, as numbers, and its times."""
    with image_of.open(path) as animation:
        pictures, times = [], []
        for index in range(animation.n_frames):
            animation.seek(index)
            times.append(animation.info["duration"])
            red, green, blue = np.array(animation.convert("RGB")).astype(int).reshape(-1, 3).T
            pictures.append(red * 65536 + green * 256 + blue)
    return np.stack(pictures), times


def test_a_frame_of_an_animation_has_a_cell_for_each_neuron(tmp_path):
    seen = []
    plot.save_animation(WINNERS, tmp_path / "run.gif", 5, progress=lambda *counts: seen.append(counts))
    pictures, times = frames_of(tmp_path / "run.gif")
    assert times == [200] * 4 and seen == [(1, 4), (2, 4), (3, 4), (4, 4)]
    cells = {}
    for state, colour in enumerate(plot._STATES.values()):
        counts = (pictures == int(colour[1:], 16)).sum(1)
        # Each state has a frame without it, but for the legend.
        cells[state] = counts - counts.min()
    size = cells[BEFORE].max()
    assert size > 100**2
    for state, counts in cells.items():
        assert (counts / size).round(1).tolist() == [row.count(state) for row in STATES]


def test_what_a_frame_says(tmp_path, monkeypatch):
    said = []

    def save_gif(op, target, fps, figure, moving, colours, frames, show, tick):
        for number in range(frames):
            show(number)
            grid = panel(figure).images[0].get_array().filled(torch.nan)
            said.append((figure.get_suptitle(), grid.flatten().tolist()[:3]))
            assert grid.shape == (2, 2) and np.isnan(grid[1, 1])

    monkeypatch.setattr(plot, "save_gif", save_gif)
    plot.save_animation(WINNERS, tmp_path / "run.gif")
    assert [states for _, states in said] == STATES
    ends = ("support 2", "support 3, overlap 0.50", "support 3, overlap 0.50", "support 3, overlap 1.00")
    assert [title for title, _ in said] == [f"round {number}: {end}" for number, end in enumerate(ends, 1)]


def test_an_animation_of_a_monitor_is_written_whole_or_not_at_all(tmp_path, monkeypatch):
    monitor, _ = recorded()
    path = tmp_path / "run.gif"
    path.write_bytes(b"before")
    with monkeypatch.context() as patch:
        patch.setattr("os.replace", lambda *arguments: (_ for _ in ()).throw(OSError("no space left")))
        with pytest.raises(OSError, match="no space left"):
            plot.save_animation(monitor, path, area="A")
    with pytest.raises(ValueError, match=r"^save_animation: path must end in \.gif, got run\.png"):
        plot.save_animation(monitor, "run.png", area="A")
    with pytest.raises(ValueError, match=r"^save_animation: path must name a regular file, got "):
        plot.save_animation(monitor, tmp_path, area="A", progress=lambda *_: pytest.fail("a frame was drawn"))
    assert path.read_bytes() == b"before" and [each.name for each in tmp_path.iterdir()] == ["run.gif"]
    with torch.device("meta"), torch.inference_mode():
        plot.save_animation(monitor, path, area="A")
    assert len(frames_of(path)[0]) == 6


def test_a_figure_given_is_drawn_into():
    parts = matplotlib.figure.Figure().subfigures(4)
    calls = (plot.plot_support, WINNERS[:, 0]), (plot.plot_overlaps, WINNERS), (plot.plot_raster, WINNERS)
    for part, (call, given) in zip(parts, (*calls, (plot.plot_tree, ParseTree("run", "VERB"))), strict=True):
        assert call(given, figure=part) is part and part.axes
    parts[0].canvas.draw()


MONITOR, UNUSED = recorded()[0], Monitor(recorded()[1])


def test_names_are_drawn_as_they_are():
    """Not as formulas, and also where they begin with what hides a label."""
    named = {"$\\frac{$": torch.arange(3), "_b": torch.arange(3), 1: torch.arange(3)}
    figure = plot.plot_support(named)
    assert [text.get_text() for text in panel(figure).get_legend().get_texts()] == ["$\\frac{$", "_b", "1"]
    for drawn in (figure, plot.plot_overlaps(named), plot.plot_tree(ParseTree("$\\frac{$", "$\\frac{$"))):
        drawn.savefig(io.BytesIO())
    assert list(drawn_lines(plot.plot_support(named, areas="1"))) == ["1"]


SUPPORT, OVERLAPS, RASTER, TREE, ANIMATION = (
    *(plot.plot_support, plot.plot_overlaps, plot.plot_raster, plot.plot_tree),
    lambda given, *rest: plot.save_animation(given, "run.gif", 4, *rest),
)
ANIMATION.__name__ = "save_animation"


@pytest.mark.parametrize(
    ("call", "arguments", "error", "message"),
    [
        (SUPPORT, ([1, 2],), TypeError, "source must be a Monitor, a tensor or an array, got list"),
        (SUPPORT, ({"x": [1]},), TypeError, r"source\['x'\] must be a torch.Tensor or a NumPy array, got list"),
        (SUPPORT, (UNUSED,), ValueError, "source must be a monitor that recorded support, got Monitor"),
        (SUPPORT, (torch.empty(0),), ValueError, "source must hold at least one round, got none"),
        (SUPPORT, (torch.zeros(2, 2, 2),), ValueError, r"source must have 1 dimensions, or 2, got \[2, 2, 2\]"),
        (SUPPORT, (torch.zeros(3, device="meta"),), ValueError, "source must hold data, got a meta tensor"),
        (SUPPORT, (MONITOR, "C"), ValueError, "areas must be 'A' or 'B', got 'C'"),
        (SUPPORT, (MONITOR, []), ValueError, "areas must name at least one, got none"),
        (SUPPORT, (MONITOR, [1]), TypeError, "areas must be 'A' or 'B', got 1"),
        (SUPPORT, (MONITOR, None, None, "x"), TypeError, "figure must be one of matplotlib's, got str"),
        (SUPPORT, (WINNERS[:, 0], "A"), ValueError, r"areas must be None for a tensor or an array, got \['A'\]"),
        (OVERLAPS, ({"x": [0]}, "x"), ValueError, "area must be None for assemblies by name, got 'x'"),
        (OVERLAPS, ({},), ValueError, "source must hold at least one assembly, got none"),
        (OVERLAPS, ({"x": [0.5]},), TypeError, r"source\['x'\] must be integers"),
        (OVERLAPS, (MONITOR,), TypeError, "area must be 'A' or 'B', got None"),
        (OVERLAPS, (WINNERS + 0.5,), ValueError, "source must be numbers of neurons, got others"),
        (RASTER, (WINNERS > 0,), TypeError, "source must be real, got torch.bool"),
        (RASTER, (-torch.ones(2, 3),), ValueError, "source must have winners, got none"),
        (RASTER, (WINNERS[0],), ValueError, r"source must have 2 dimensions, or 3, got \[2\]"),
        (TREE, ("chase",), TypeError, "tree must be a ParseTree, got str"),
        (ANIMATION, (MONITOR, "C"), ValueError, "area must be 'A' or 'B', got 'C'"),
        (ANIMATION, (WINNERS, None, None, 5), TypeError, "progress must be a function, a bool or None, got int"),
    ],
)
def test_wrong_arguments_are_named(call, arguments, error, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        error, match=f"^{'save_animation' if call.__name__ == '<lambda>' else call.__name__}: {message}"
    ):
        call(*arguments)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("call", (SUPPORT, OVERLAPS, RASTER, TREE, ANIMATION), ids=lambda call: call.__name__)
def test_without_matplotlib_the_cure_is_named(call, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for module in [name for name in sys.modules if name.split(".")[0] in ("matplotlib", "PIL")]:
        monkeypatch.setitem(sys.modules, module, None)
    given = {SUPPORT: WINNERS[:, 0], TREE: ParseTree("run", "VERB")}.get(call, WINNERS)
    with pytest.raises(ModuleNotFoundError, match=r"matplotlib must be installed: pip install matplotlib$"):
        call(given)
