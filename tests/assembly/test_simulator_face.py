"""Scripts of the published simulator run on its names, with the winners of `torch_hrr.assembly.Brain`."""

import copy
import pickle

import numpy as np
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
    for index, error in ((5, IndexError), (-1, IndexError), (1.0, TypeError)):
        with pytest.raises(error, match="activate: index must be"):
            b.activate("WORDS", index)
    with pytest.raises(ValueError, match="custom_in_p must be a finite number"):
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
        (TypeError, ({"s": 1}, {})),
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


def trained():
    b = Brain(0.2, seed=3)
    b.add_stimulus("s", 40)
    b.add_area("A", 300, 20, 0.1)
    b.add_area("B", 200, 15, 0.1)
    for _ in range(6):
        b.project({"s": ["A"]}, {"A": ["A", "B"]} if b.areas["A"].winners else {})
    return b


def test_connectomes_are_read_as_arrays():
    b = trained()
    whole = b.brain.weights("A", "B").numpy()
    view = b.connectomes["A"]["B"]
    rows, columns = b.areas["A"].winners, b.areas["B"].winners
    assert view.shape == whole.shape == (300, 200) and len(view) == 300
    for i, j in zip(rows, columns, strict=False):
        assert view[i, j] == view[i][j] == whole[i, j]
    assert np.array_equal(view[rows][:, columns], whole[rows][:, columns])
    assert view[rows][:, columns].sum() == whole[rows][:, columns].sum() > len(rows) * len(columns) * 0.2
    assert np.array_equal(view[2:9, -3:], whole[2:9, -3:]) and np.array_equal(view[:, 5], whole[:, 5])
    assert np.array_equal(view[whole[:, 0] > 0][:, [0]], whole[whole[:, 0] > 0][:, [0]])
    assert np.array_equal(np.asarray(view[3:5]), whole[3:5]) and view[3:5][1][7] == whole[4, 7]
    assert np.array_equal(view, whole) and view.sum() == whole.sum() and view[-1][0] == whole[-1, 0]
    assert np.array_equal(b.connectomes_by_stimulus["s"]["A"], b.brain.stimulus_weights("s", "A").numpy())
    assert set(b.connectomes) == {"A", "B"} == set(b.connectomes_by_stimulus["s"])
    assert np.array_equal(b.stimuli_connectomes["s"]["A"], b.connectomes_by_stimulus["s"]["A"]), "its older name"


def test_a_connectome_follows_plasticity():
    b = trained()
    view, fixed = b.connectomes["A"]["B"], b.areas["A"].winners
    first = view[fixed[0]].copy()
    b.areas["A"].fixed_assembly = True
    b.project({}, {"A": ["B"]})
    assert view[fixed[0]].sum() > first.sum() and (view[fixed[0]] >= first).all()
    b.brain.project({}, {"A": ["B"]}, rounds=3)
    assert np.array_equal(view[fixed[0]], b.brain.weights("A", "B", [fixed[0]])[0].numpy())


def test_what_is_read_cannot_be_written():
    b = trained()
    view = b.connectomes["A"]["B"]
    with pytest.raises(TypeError, match=r"^connectomes: weights must not be assigned"):
        view[0:3, :] = 2.0
    for array in (view[0], view[[0, 1]][:, [2]], view[0:2, 0:2], b.connectomes_by_stimulus["s"]["A"]):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1
    for name in ("n", "k", "beta", "ever_fired", "num_ever_fired"):
        with pytest.raises(AttributeError):
            setattr(b.areas["A"], name, 3)
    with pytest.raises(AttributeError):
        b.p = 0.5
    for key in (300, (0, 200), [-301], np.ones(3, dtype=bool)):
        with pytest.raises(IndexError):
            view[key]
    for stranger in ("C", None):
        with pytest.raises(KeyError):
            b.connectomes_by_stimulus[stranger]
        with pytest.raises(KeyError):
            b.connectomes_by_stimulus["s"][stranger]


def test_what_is_assigned_is_checked_or_refused():
    b = trained()
    area = b.areas["A"]
    for what, name in (
        (area, "beta_by_area"),
        (area, "beta_by_stimulus"),
        (area, "name"),
        (b, "connectomes"),
        (b, "stimuli_connectomes"),
        (b, "p"),
    ):
        with pytest.raises(AttributeError, match=f"'{name}'"):
            setattr(what, name, {"A": 0.5})
    for wrong in ("no", 1, None, np.int64(0), np.ones(2, dtype=bool)):
        for what, name in ((area, "fixed_assembly"), (b, "no_plasticity"), (b, "save_size"), (b, "save_winners")):
            with pytest.raises(TypeError, match=f"^{name}: {name} must be a bool, got {type(wrong).__name__}$"):
                setattr(what, name, wrong)
    area.fixed_assembly, b.no_plasticity, b.save_winners = np.True_, np.True_, np.array(True)
    assert area.fixed_assembly is b.no_plasticity is b.save_winners is True
    for views in (b.connectomes, b.connectomes["A"], b.connectomes_by_stimulus, b.connectomes_by_stimulus["s"]):
        with pytest.raises(TypeError, match=r"^connectomes.*: weights must not be assigned"):
            views["A"] = views
        for stranger in ("Z", None, 1):
            with pytest.raises(KeyError, match=r"connectomes.*: (area|stimulus) must be declared, got "):
                views[stranger]
        with pytest.raises(TypeError, match="unhashable"):
            views[["A"]]
    for mapping in (b.areas, b.area_by_name, b.stimulus_size_by_name):
        with pytest.raises(TypeError, match="does not support item assignment"):
            mapping["A"] = 3


def test_a_connectome_refuses_what_is_no_index():
    view = trained().connectomes["A"]["B"]
    strange = (None, "x", b"x", 1.5, {1}, {}, True, object(), [1.5], ["x"], slice("a", None), torch.ones(2).to_sparse())
    for key in strange:
        for argument, wrong in (("rows", key), ("rows", (key, 0)), ("columns", (0, key)), ("columns", ([0, 1], key))):
            with pytest.raises(TypeError, match=f"^connectomes: {argument} must be "):
                view[wrong]


def test_a_connectome_takes_the_indices_of_numpy_and_torch():
    view = trained().connectomes["A"]["B"]
    whole = np.asarray(view)
    for one in (np.int32(7), np.array(7), torch.tensor(7), np.uint8(7), 7 - 300):
        assert np.array_equal(view[one], whole[7]) and view[one, torch.tensor(3)] == whole[7, 3]
    for key in ((0, 1, 2), [[1]], (torch.zeros(1, 1).long(), 0), 300, (0, -201), [-301], np.ones(3, dtype=bool)):
        with pytest.raises(IndexError, match=r"^connectomes: (rows|columns|indices) must "):
            view[key]


def test_overlap_counts_neurons_of_tensors_arrays_and_sets():
    for kind in (list, set, np.array, torch.tensor):
        assert overlap(kind([1, 2, 3]), kind([2, 3, 9, 10])) == 2 and overlap(kind([1, 2]), kind([2]), True) == 1.0
    assert np.isnan(overlap([1], [], percentage=True))
    for wrong in ("12", None, 3, [1.5], [["a"]]):
        with pytest.raises(TypeError, match=r"^overlap: b must be "):
            overlap([1], wrong)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda b, x: b.add_stimulus(x, 3), "add_stimulus: stimulus_name"),
        (lambda b, x: b.add_area(x, 9, 3), "add_area: area_name"),
        (lambda b, x: b.add_explicit_area(x, 9, 3), "add_explicit_area: area_name"),
        (lambda b, x: b.add_explicit_area("Z", 9, x), "add_explicit_area: k"),
        (lambda b, x: b.activate(x, 0), "activate: area_name"),
        (lambda b, x: b.update_plasticity(x, "A", 0.1), "update_plasticity: from_area"),
        (lambda b, x: b.update_plasticity("A", x, 0.1), "update_plasticity: to_area"),
        (lambda b, x: b.update_plasticity("A", "B", x), "update_plasticity: new_beta"),
        (lambda b, x: b.update_plasticities({"A": x}), "update_plasticities: area_update_map"),
        (lambda b, x: b.update_plasticities({}, {"A": [("s", x)]}), "update_plasticities: beta"),
        (lambda b, x: b.areas["A"].update_area_beta("B", x), "update_area_beta: new_beta"),
        (lambda b, x: b.areas["A"].update_beta_by_stimulus(x, 0.1), "update_beta_by_stimulus: name"),
        (lambda b, x: b.areas["A"].beta_by_area.__setitem__("B", x), "beta_by_area: beta"),
        (lambda b, x: b.project(x), "project: areas_by_stim"),
        (lambda b, x: b.project({}, {"A": x}), "project: dst_areas_by_src_area"),
        (lambda b, x: b.project({"s": ["A"]}, verbose=x), "project: verbose"),
        (lambda b, x: b.project_into(x, ["s"]), "project_into: target_area"),
        (lambda b, x: b.project_into("A", x), "project_into: from_stimuli"),
        (lambda b, x: b.project_into("A", ["s"], [x]), "project_into: from_areas"),
        (lambda b, x: setattr(b.areas["A"], "winners", x), "winners: winners of 'A'"),
        (lambda b, x: setattr(b.areas["A"], "w", x), "w: w"),
    ],
)
def test_errors_name_the_call_and_its_argument(call, message):
    b = trained()
    before = [(area.winners, area.w, len(area.saved_w), dict(area.beta_by_area)) for area in b.areas.values()]
    for wrong in (object(), None if message.endswith("beta") else 1.5, np.array("x"), torch.tensor(0.5)):
        with pytest.raises(TypeError, match=f"^{message} must "):
            call(b, wrong)
    after = [(area.winners, area.w, len(area.saved_w), dict(area.beta_by_area)) for area in b.areas.values()]
    assert after == before


def test_winners_are_assigned_whole():
    b = trained()
    area = b.areas["A"]
    for wrong in ({1, 2}, frozenset([1]), None, 3, "12", {1: 2}, iter([1])):
        with pytest.raises(TypeError, match=r"^winners: winners of 'A' must be a sequence of ints, got "):
            area.winners = wrong
    with pytest.raises(IndexError, match=r"^winners: "):
        area.winners = [300]
    before = area.winners
    edits = [
        lambda w: w.append(3), lambda w: w.sort(), lambda w: w.remove(w[0]), lambda w: w.extend([1]),
        lambda w: w.__setitem__(0, 5), lambda w: w.__delitem__(0), lambda w: w.clear(), lambda w: w.pop(),
        lambda w: w.insert(0, 1), lambda w: w.reverse(), lambda w: w.__iadd__([1]), lambda w: w.__imul__(2),
    ]  # fmt: skip
    for edit in edits:
        with pytest.raises(TypeError, match=r"^winners: a list of winners must not be edited"):
            edit(area.winners)
    assert area.winners == before and copy.deepcopy(before) == before and type(before[:]) is list
    for given in (before[:7], np.array(before[:7]), torch.tensor(before[:7]), tuple(before[:7]), range(7)):
        area.winners = given
        assert area.winners == sorted(map(int, given))
    area.winners = np.zeros(0, dtype=np.int64)
    assert area.winners == []


def test_betas_have_defaults_and_are_used():
    b, twin = trained(), trained()
    area = b.areas["B"]
    assert dict(area.beta_by_area) == {"A": 0.1, "B": 0.1} and dict(area.beta_by_stimulus) == {"s": 0.1}
    area.beta_by_area["A"] = 0.7
    b.areas["A"].beta_by_stimulus["s"] = 0.5
    twin.brain.set_beta("A", "B", 0.7)
    twin.brain.set_beta("s", "A", 0.5)
    for each in (b, twin):
        each.project({"s": ["A"]}, {"A": ["A", "B"]})
    assert area.beta_by_area["A"] == 0.7
    for name in ("A", "B"):
        assert torch.equal(b.brain.weights("A", name), twin.brain.weights("A", name))
    assert torch.equal(b.brain.stimulus_weights("s", "A"), twin.brain.stimulus_weights("s", "A"))
    for name, error in (("C", ValueError), ("s", ValueError)):
        with pytest.raises(error, match=r"^beta_by_area: area must be declared"):
            area.beta_by_area[name] = 0.1
        with pytest.raises(KeyError):
            area.beta_by_area[name]
    with pytest.raises(TypeError, match=r"^beta_by_area: "):
        del area.beta_by_area["A"]


def test_the_support_and_flags_can_be_set():
    b = trained()
    area = b.areas["A"]
    known = area.w
    assert area.num_ever_fired == area.get_num_ever_fired() == int(area.ever_fired.sum()) == known
    area.w = 20
    b.project({"s": ["A"]}, {"A": ["A"]})
    assert area.w == 20 + area.num_first_winners and area.saved_w[-1] == area.w
    assert area.num_ever_fired == known + area.num_first_winners
    with pytest.raises(ValueError, match=r"^w: w must be at least 0 and at most n = 300"):
        area.w = 301
    area.fixed_assembly = True
    winners = area.winners
    b.project({"s": ["A"]}, {})
    assert area.winners == winners
    area.fixed_assembly = False
    assert not b.brain.areas["A"].fixed


def test_project_into_is_a_round_into_one_area():
    b, twin = trained(), trained()
    new = b.project_into(b.areas["B"], ["s"], ["A"])
    twin.project({"s": ["B"]}, {"A": ["B"]})
    assert new == twin.areas["B"].num_first_winners and b.areas["B"].winners == twin.areas["B"].winners
    assert b.project_into("A", from_areas=["A"]) == b.areas["A"].num_first_winners
    with pytest.raises(ValueError, match=r"^project_into: target_area must be declared"):
        b.project_into("C", ["s"])


@pytest.mark.parametrize("copied", [copy.deepcopy, copy.copy, lambda b: pickle.loads(pickle.dumps(b))])
def test_a_copy_goes_its_own_way(copied):
    b = trained()
    weights = np.asarray(b.connectomes["A"]["B"])
    other = copied(b)
    other.areas["B"].beta_by_area["A"] = 0.9
    other.project({}, {"A": ["B"]})
    assert b.areas["B"].beta_by_area["A"] == 0.1 and len(other.areas["B"].saved_w) == len(b.areas["B"].saved_w) + 1
    assert np.array_equal(b.connectomes["A"]["B"], weights)
    assert not np.array_equal(other.connectomes["A"]["B"], weights)


def test_the_sampled_mode():
    b = Brain(0.05, seed=1, mode="sampled")
    b.add_stimulus("s", 100)
    b.add_area("A", 10000, 100, 0.1)
    for _ in range(5):
        b.project({"s": ["A"]}, {"A": ["A"]})
    assert b.areas["A"].winners == b.brain.winners("A").tolist() and max(b.areas["A"].winners) < b.areas["A"].w
    with pytest.raises(ValueError, match="mode must be 'exact'"):
        b.connectomes["A"]["A"][0, 0]


def test_sixty_rounds_of_a_word_choose_what_a_model_without_a_cap_chooses():
    """With the published parser's plasticity of words, 1, weights reach their cap of 2^24 after 24 rounds."""
    b = Brain(0.1, seed=0)
    b.add_explicit_area("LEX", 100, 20, 0.2)
    b.add_area("VERB", 1000, 50, 0.0)
    b.update_plasticity("LEX", "VERB", 1.0)
    recurrent = b.brain.weights("VERB", "VERB").double()
    words = b.brain.weights("LEX", "VERB").double()
    for word in (0, 1, 0):
        b.activate("LEX", word)
        b.areas["VERB"].winners = winners = []
        firing = range(20 * word, 20 * word + 20)
        for _ in range(60):
            inputs = words[firing].sum(0) + recurrent[winners].sum(0)
            winners = sorted(inputs.sort(descending=True, stable=True).indices[:50].tolist())
            b.project({}, {"LEX": ["VERB"], "VERB": ["VERB"]})
            assert b.areas["VERB"].winners == winners
            words[torch.tensor(firing).unsqueeze(1), torch.tensor(winners)] *= 2
    assert words.max() >= 2.0**60 and b.connectomes["LEX"]["VERB"][list(firing)].__array__().max() == 2.0**24


def test_plasticities_are_all_set_or_none():
    b = Brain(0.1)
    for name in "AB":
        b.add_area(name, 200, 20)
    before = b.areas["A"].beta_by_area["A"]
    for wrong, error in (
        ({"A": [("A", 0.5), ("Q", 0.2)]}, ValueError),
        ({"A": [("A", 0.5), 3]}, TypeError),
        (5, TypeError),
    ):
        with pytest.raises(error, match=r"^update_plasticities: "):
            b.update_plasticities(wrong)
        assert b.areas["A"].beta_by_area["A"] == before
    b.update_plasticities({"A": [("A", 0.5), ("B", 0.25)]})
    assert (b.areas["A"].beta_by_area["A"], b.areas["A"].beta_by_area["B"]) == (0.5, 0.25)
    with pytest.raises(TypeError, match="no_plasticity must be a bool"):
        b.no_plasticity = "no"
