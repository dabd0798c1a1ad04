"""The explorer shows projections of the settings where its sliders stand, in a window or in files."""

import os
import signal
import sys

import pytest
import torch

from torch_hrr import __main__ as command_line
from torch_hrr.assembly import Brain, explore

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
pyplot = pytest.importorskip("matplotlib.pyplot")
image_of = pytest.importorskip("PIL.Image")

SETTINGS = {"k": 10, "beta": 0.1, "p": 0.1}
SMALL = ["explore", "assembly", "--n", "300", "--k", "10", "--beta", "0.1", "--p", "0.1", "--rounds", "6"]


@pytest.fixture(autouse=True)
def two_pictures_a_slider(monkeypatch):
    monkeypatch.setattr(explore, "_STOPS", 2)
    yield
    pyplot.close("all")


def explorer(n=300, **settings):
    return explore.Explorer(matplotlib.figure.Figure(layout="constrained"), n, 0, 6, SETTINGS | settings)


def shown(made):
    """The values of both lines, and the raster."""
    first, second, raster = (part.axes[0] for part in (made._support, made._overlap, made._raster))
    lines = [axes.lines[0].get_ydata().tolist() for axes in (first, second)]
    return *lines, torch.tensor(raster.images[0].get_array().filled(-1))


def supports(k, beta, p):
    brain = Brain(p, seed=0)
    brain.add_stimulus("s", k)
    brain.add_area("A", 300, k, beta)
    found = []
    for _ in range(6):
        brain.project({"s": "A"}, {"A": "A"})
        found.append(brain.support("A"))
    return found


def test_a_slider_that_moves_shows_another_projection():
    made = explorer()
    for name, value in (("k", 25), ("beta", 0.3), ("p", 0.025)):
        before = shown(made)[0]
        made.sliders[name].set_val(value)
        support, overlap, raster = shown(made)
        assert support == supports(*(slider.val for slider in made.sliders.values())) != before
        assert overlap[0] != overlap[0] and all(0 <= share <= 1 for share in overlap[1:])
        assert raster.shape == (support[-1], 6)
    assert [len(part.axes) for part in (made._support, made._overlap, made._raster)] == [1, 1, 1]


def test_sliders_stay_within_what_is_allowed():
    made = explorer(k=300, p=0.8, beta=0)
    ends = {name: (slider.valmin, slider.valmax) for name, slider in made.sliders.items()}
    assert ends == {"k": (75, 300), "beta": (0, 0.2), "p": (0.2, 1)}
    assert list(explorer(n=1, k=1, p=0).sliders) == ["beta", "p"]


def test_without_a_display_pictures_are_written(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    states = []
    show = explore.Explorer.show

    def noted(self):
        states.append(tuple(slider.val for slider in self.sliders.values()))
        show(self)

    monkeypatch.setattr(explore.Explorer, "show", noted)
    assert command_line.main(SMALL) == 0
    printed = capsys.readouterr()
    assert printed.out == "wrote 6 pictures to explore-output, in which k, beta, p grow in turn\n"
    assert "6/6" in printed.err
    assert states[1:] == [(2, 0.1, 0.1), (40, 0.1, 0.1), (10, 0, 0.1), (10, 0.4, 0.1), (10, 0.1, 0.025), (10, 0.1, 0.4)]
    names = sorted(path.name for path in (tmp_path / "explore-output").iterdir())
    assert names == [f"frame-{number:03}.png" for number in range(6)]
    pictures = []
    for name in names:
        with image_of.open(tmp_path / "explore-output" / name) as image:
            assert image.format == "PNG" and image.size == (900, 650)
            pictures.append(image.tobytes())
    assert len(set(pictures)) == 6 and not pyplot.get_fignums()


def test_an_interrupt_leaves_whole_pictures(tmp_path, monkeypatch, capsys):
    write, numbers = explore.write_atomically, iter(range(9))

    def interrupted(path, chunks):
        if next(numbers) == 1:
            os.kill(os.getpid(), signal.SIGINT)
        write(path, chunks)

    monkeypatch.setattr(explore, "write_atomically", interrupted)
    assert command_line.main([*SMALL, "--frames", str(tmp_path / "some" / "where")]) == 130
    assert len([*(tmp_path / "some" / "where").glob("frame-00[01].png")]) == 2
    printed = capsys.readouterr()
    assert "\nexplore: 2 of 6 are done\nexplore: interrupted\n" in printed.err and not printed.out


def test_with_a_display_a_window_is_shown(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    bases = matplotlib.backend_bases
    own = type("Manager", (bases.FigureManagerBase,), {})
    monkeypatch.setattr(matplotlib.backends.backend_agg.FigureCanvasAgg, "manager_class", own)
    windows = []
    monkeypatch.setattr(pyplot, "show", lambda: windows.append(len(pyplot.gcf().subfigs)))
    assert command_line.main(SMALL) == 0 and windows == [2]

    def closed_by_an_interrupt():
        raise KeyboardInterrupt

    monkeypatch.setattr(pyplot, "show", closed_by_an_interrupt)
    assert command_line.main(SMALL) == 130
    assert capsys.readouterr().err == "\nexplore: interrupted\n" and not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--k", "301", "explore: k must be .*300.*, got 301"),
        ("--k", "0", "explore: k must be at least 1, got 0"),
        ("--n", "0", "explore: n must be at least 1 .*, got 0"),
        ("--beta", "-1", "explore: beta must be a finite number >= 0, got -1.0"),
        ("--p", "nan", "explore: p must be a finite number >= 0 and <= 1, got nan"),
        ("--rounds", "0", "explore: rounds must be at least 1 .*, got 0"),
        ("--frames", __file__, "explore: .*File exists"),
    ],
)
def test_wrong_options_are_named_before_any_work(option, value, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(explore, "Explorer", None)
    with pytest.raises(SystemExit, match=message):
        command_line.main([*SMALL, option, value])
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("rest", ([], ["--frames", "there"]), ids=("window", "frames"))
def test_without_matplotlib_the_cure_is_named(rest, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for module in [name for name in sys.modules if name.split(".")[0] in ("matplotlib", "PIL")]:
        monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(SystemExit, match=r"^explore: matplotlib must be installed: pip install matplotlib$"):
        command_line.main([*SMALL, *rest])
    assert not list(tmp_path.iterdir())
