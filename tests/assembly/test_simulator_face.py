"""Scripts of the published simulator run on its names, with the winners of `torch_hrr.assembly.Brain`."""

import pytest
import torch

from torch_hrr import assembly
from torch_hrr.assembly.simulator import Area, Brain, overlap


def test_a_script_that_projects_and_saves():
    """As one writes it for the published simulator: a stimulus, an area, twenty projections."""
    b = Brain(0.05, save_size=True, save_winners=True, seed=1)
    b.add_stimulus("stim", 100)
    b.add_area("A", 10000, 100, 0.1)
    b.project({"stim": ["A"]}, {})
    for _ in range(19):
        b.project({"stim": ["A"]}, {"A": ["A"]})
    area = b.area_by_name["A"]
    assert (len(area.saved_w), len(area.saved_winners)) == (20, 20)
    assert area.saved_w[0] == 100 and area.saved_w == sorted(area.saved_w), "the support only grows"
    assert area.w == area.num_ever_fired == area.saved_w[-1] == len(set().union(*area.saved_winners))
    assert 100 < area.w < 400
    assert overlap(area.saved_winners[-1], area.saved_winners[-2], percentage=True) >= 0.9
    assert overlap(area.saved_winners[0], area.saved_winners[-1], percentage=True) < 0.9
    assert area.num_first_winners == area.saved_w[-1] - area.saved_w[-2] <= 5
    assert area.winners == sorted(area.winners) == area.saved_winners[-1]
    assert max(area.winners) > area.w, "indices of neurons, not numbers in the order of first activity"


def test_winners_are_those_of_brain():
    face, brain = Brain(0.1, seed=5), assembly.Brain(p=0.1, seed=5)
    for each, stimulus in ((face, {}), (brain, {})):
        each.add_stimulus("s", 40, **stimulus)
        each.add_area("A", 500, 20, 0.1)
        each.add_area("B", 400, 15, 0.2)
    face.update_plasticity("A", "B", 0.5)
    brain.set_beta("A", "B", 0.5)
    rounds = [({"s": ["A"]}, {}), ({"s": ["A"]}, {"A": ["A", "B"]}), ({}, {"A": ["B"], "B": ["A", "B"]})]
    for stimuli, areas in (*rounds, *rounds[1:] * 3):
        face.project(stimuli, areas)
        brain.project(stimuli, areas)
        for name, area in face.area_by_name.items():
            assert area.winners == brain.winners(name).tolist()
            assert area.w == brain.support(name)


@pytest.mark.parametrize("nothing", [None, {}, []])
def test_nothing_fires_where_nothing_is_given(nothing):
    b, twin = Brain(0.1, save_winners=True), Brain(0.1, save_winners=True)
    for each in (b, twin):
        each.add_stimulus("s", 40)
        each.add_area("A", 500, 20)
    b.project({"s": ["A"]}, nothing)
    twin.project({"s": ["A"]}, {})
    b.project(nothing, {"A": ["A"]})
    twin.project({}, {"A": ["A"]})
    b.project(nothing, nothing)
    assert b.areas["A"].saved_winners == twin.areas["A"].saved_winners and b.areas["A"].saved_w == [20, b.areas["A"].w]


def test_association_with_fixed_assemblies():
    b = Brain(0.1, save_winners=True)
    b.add_stimulus("a", 50)
    b.add_stimulus("b", 50)
    for name in "ABC":
        b.add_area(name, 2000, 50, 0.1)
    b.project({"a": ["A"], "b": ["B"]}, {})
    for _ in range(9):
        b.project({"a": ["A"], "b": ["B"]}, {"A": ["A"], "B": ["B"]})
    b.area_by_name["A"].fix_assembly()
    b.area_by_name["B"].fix_assembly()
    frozen = b.areas["A"].winners
    assert b.areas["A"].fixed_assembly
    for source in "AB":
        b.areas["C"].winners = []
        b.project({}, {source: ["C"]})
        for _ in range(9):
            b.project({}, {source: [source, "C"], "C": ["C"]})
    saved = b.areas["C"].saved_winners
    apart = overlap(saved[9], saved[19])
    for _ in range(10):
        b.project({}, {"A": ["A", "C"], "B": ["B", "C"], "C": ["C"]})
    b.area_by_name["A"].unfix_assembly()
    assert b.areas["A"].winners == frozen and not b.areas["A"].fixed_assembly
    b.areas["C"].winners = saved[9]
    assert b.areas["C"].winners == saved[9]
    together = []
    for source in "AB":
        b.areas["C"].winners = []
        b.project({}, {source: ["C"]})
        together.append(b.areas["C"].winners)
    assert apart < 10 < overlap(*together)


def test_no_plasticity_is_a_flag():
    b = Brain(0.1, seed=2)
    b.add_stimulus("s", 40)
    b.add_area("A", 500, 20, 0.1)
    b.project({"s": ["A"]}, {})
    b.no_plasticity = True
    assert b.no_plasticity and b.disable_plasticity
    before = b.brain.potentiated("A", "A")
    b.project({"s": ["A"]}, {"A": ["A"]})
    assert all(torch.equal(a, b) for a, b in zip(before, b.brain.potentiated("A", "A"), strict=True))
    b.disable_plasticity = False
    b.project({"s": ["A"]}, {"A": ["A"]})
    assert not b.no_plasticity and len(b.brain.potentiated("A", "A")[0])


def test_explicit_areas_activate_words():
    b = Brain(0.1, seed=2)
    b.add_area("LEX", 200, 20)
    b.add_explicit_area("WORDS", 100, 20, 0.2, custom_inner_p=1.0, custom_out_p=0.5, custom_in_p=0.0)
    words = b.area_by_name["WORDS"]
    b.activate("WORDS", 3)
    assert words.winners == list(range(60, 80)) and words.fixed_assembly and words.explicit
    assert words.w == 0, "activated neurons did not win"
    assert {pair: fiber.p for pair, fiber in b.brain._network.fibers.items()} == {
        ("WORDS", "WORDS"): 1.0, ("WORDS", "LEX"): 0.5, ("LEX", "WORDS"): 0.0,
    }  # fmt: skip
    b.project({}, {"WORDS": ["LEX"]})
    assert len(b.area_by_name["LEX"].winners) == 20 and b.area_by_name["LEX"].saved_w == [20]
    for index, error in ((5, ValueError), (-1, ValueError), (1.0, TypeError)):
        with pytest.raises(error, match="activate: index must be"):
            b.activate("WORDS", index)
    with pytest.raises(ValueError, match="custom_in_p must be in"):
        b.add_explicit_area("MORE", 100, 20, custom_in_p=2.0)
    assert "MORE" not in b.area_by_name and "MORE" not in b.brain._network.areas


def test_plasticities():
    b = Brain(0.1)
    b.add_stimulus("s", 40)
    b.add_area("A", 500, 20, 0.1)
    b.add_area("B", 500, 20, 0.1)
    b.update_plasticities({"B": [("A", 0.3), ("B", 0.4)]}, {"A": [("s", 0.0)]})
    assert b.brain._network.betas == {("B", "A"): 0.3, ("B", "B"): 0.4, ("A", "s"): 0.0}
    assert b.area_by_name["B"].beta_by_area == {"A": 0.3, "B": 0.4}
    assert b.area_by_name["A"].beta_by_stimulus == {"s": 0.0}
    b.project({"s": ["A"]}, {})
    b.project({}, {"A": ["B"]})
    assert set(b.brain.potentiated("A", "B")[2].tolist()) == {float(torch.tensor(1.3))}
    for arguments in (("A", "X", 0.1), ("X", "A", 0.1), ("A", "B", -1.0)):
        with pytest.raises(ValueError, match="must be"):
            b.update_plasticity(*arguments)


def test_saving_is_chosen_and_verbose_prints(capsys):
    b = Brain(0.1, save_size=False)
    b.add_stimulus("s", 40)
    b.add_area("A", 500, 20)
    b.add_area("B", 500, 20)
    b.project({"s": ["A"]}, {})
    assert capsys.readouterr().out == ""
    b.project({"s": ["A"]}, {"A": ["B"]}, verbose=1)
    assert "B: 20 new winners of 20, 20 in all" in capsys.readouterr().out
    area = b.area_by_name["A"]
    assert isinstance(area, Area) and (area.n, area.k, area.beta, area.name) == (500, 20, 0.05, "A")
    assert area.saved_w == area.saved_winners == []


@pytest.mark.parametrize(
    ("error", "arguments"),
    [
        (ValueError, ({"x": ["A"]}, {})),
        (ValueError, ({"s": ["X"]}, {})),
        (ValueError, ({}, {"X": ["A"]})),
        (ValueError, ({}, {"B": ["A"]})),
        (ValueError, ({"s": ["A"]}, {"B": ["A"]})),
        (TypeError, ({"s": "A"}, {})),
        (TypeError, ({}, [("A", "A")])),
    ],
)
def test_bad_projections_change_nothing(error, arguments):
    b = Brain(0.1, save_winners=True)
    b.add_stimulus("s", 40)
    b.add_area("A", 500, 20)
    b.add_area("B", 500, 20)
    b.project({"s": ["A"]}, {})
    area = b.area_by_name["A"]
    before = area.winners, area.w, list(area.saved_w), list(area.saved_winners)
    with pytest.raises(error, match="must"):
        b.project(*arguments)
    assert (area.winners, area.w, area.saved_w, area.saved_winners) == before
