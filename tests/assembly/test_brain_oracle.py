"""`Brain(mode="exact")` beside the dense oracle on the same graph: the same winners every round, the same supports."""

import numpy as np
import pytest
import torch
from dense_brain import keyed_order, oracle_of

from torch_hrr.assembly import Brain, connectome_inputs


def call(name, *args, **kwargs):
    """One call that both brains take."""
    return name, args, kwargs


def project(stimuli=None, areas=None, rounds=1):
    """One step, `rounds` times, so that every round is compared."""
    return [call("project", stimuli=stimuli or {}, areas=areas or {})] * rounds


def onto(*pairs):
    """{source: [targets]} of pairs written as "AB", or "s.A" for a stimulus."""
    result = {}
    for pair in pairs:
        source, target = pair.split(".") if "." in pair else pair
        result.setdefault(source, []).append(target)
    return result


BOTH = onto("AB", "BA", "AA", "BB")
A_AND_B = [*project(onto("s.A", "t.B")), *project(onto("s.A", "t.B"), onto("AA", "BB"), 4)]
MERGED = [
    *A_AND_B,
    *project(onto("s.A", "t.B"), onto("AA", "AC", "BB", "BC")),
    *project(onto("s.A", "t.B"), onto("AA", "AC", "BB", "BC", "CC", "CA", "CB"), 8),
]
# Areas are n, k, beta and further arguments; stimuli s and t have 20 and 31 neurons.
AREAS = {"A": ((300, 20, 0.1), {}), "B": ((257, 17, 0.05), {}), "C": ((411, 24, 0.25), {})}


def areas_with(**kwargs):
    return {name: (sizes, kwargs) for name, (sizes, _) in AREAS.items()}


def own_graph(rows, columns):
    """Some edges with weights other than 1."""
    generator = torch.Generator().manual_seed(rows)
    weights = torch.randint(1, 9, (rows, columns), generator=generator) / 4
    return weights * (torch.rand(rows, columns, generator=generator) < 0.1)


PROGRAMS = {
    "stimulus": (AREAS, project(onto("s.A"), rounds=4)),
    "two stimuli": (AREAS, project(onto("s.A", "t.A", "s.B"), rounds=4)),
    "recurrence": (AREAS, [*project(onto("s.A")), *project(onto("s.A"), onto("AA"), 12), *project({}, onto("AA"), 4)]),
    "recurrence at once": (AREAS, project(onto("s.A"), onto("AA"), 12)),
    "the stimulus changes": (AREAS, [*A_AND_B, *project(onto("t.A"), onto("AA"), 6), *project(onto("s.A"), rounds=2)]),
    "forward": (AREAS, [*project(onto("s.A")), *project(onto("s.A"), onto("AB"), 5)]),
    "both ways": (AREAS, [*A_AND_B, *project({}, onto("AB", "BA"), 8)]),
    "both ways and recurrent": (AREAS, [*A_AND_B, *project(onto("s.A"), BOTH, 10)]),
    "merge": (AREAS, MERGED),
    "fixed assembly": (
        AREAS,
        [
            *A_AND_B, call("fix_assembly", "A"), *project(onto("t.A", "t.B"), BOTH, 6),
            call("unfix_assembly", "A"), *project({}, BOTH, 4),
        ],
    ),
    "plasticity off": (
        AREAS,
        [
            *A_AND_B, call("disable_plasticity"), *project(onto("t.A"), BOTH, 5),
            call("enable_plasticity"), *project(onto("s.A"), BOTH, 5),
        ],
    ),
    "a beta of a fiber and of a stimulus": (
        AREAS,
        [call("set_beta", "A", "B", 0.5), call("set_beta", "s", "A", 0.0), *MERGED, call("set_beta", "A", "A", 0.02),
         *project({}, BOTH, 4)],
    ),
    "beta 0": ({name: ((n, k, 0.0), {}) for name, ((n, k, _), _) in AREAS.items()}, [*A_AND_B, *project({}, BOTH, 4)]),
    "w_max": (areas_with(w_max=1.5), [*A_AND_B, *project(onto("s.A"), BOTH, 10)]),
    "inhibited areas and fibers": (
        AREAS,
        [
            *A_AND_B, call("inhibit", "A"), call("inhibit", "A", lock=3), *project(onto("s.A"), BOTH, 2),
            call("disinhibit", "A"), *project(onto("s.A"), BOTH), call("disinhibit", "A", lock=3),
            call("inhibit_fiber", "A", "B"), call("inhibit_fiber", "B", "A"), *project(onto("s.A"), BOTH, 3),
            call("disinhibit_fiber", "A", "B"), call("disinhibit_fiber", "B", "A"), *project(onto("s.A"), BOTH, 3),
        ],
    ),
    "activate": (
        AREAS,
        [
            call("activate", "A", torch.arange(0, 40, 2)), *project({}, onto("AB"), 3),
            call("activate", "A", torch.tensor([7, 5, 299])), *project({}, onto("AA", "AB", "BA"), 6),
        ],
    ),
    "normalised once": (AREAS, [*A_AND_B, call("normalize", "A"), *project(onto("s.A"), BOTH, 6)]),
    "normalised twice": (
        AREAS,
        [
            *A_AND_B, call("normalize", "B"), *project(onto("s.A"), BOTH, 4),
            call("normalize", "B"), *project({}, BOTH, 4),
        ],
    ),
    "normalised always": (areas_with(normalize=True), [*A_AND_B, *project({}, BOTH, 8)]),
    # Columns that grew are those of winners, which are others by the time that their fiber fires again.
    "normalised always, other winners in between": (
        areas_with(normalize=True),
        [
            *A_AND_B, *project({}, BOTH, 3), call("activate", "B", range(17)), *project({}, BOTH, 2),
            *project(onto("t.B"), onto("BB"), 2), *project({}, BOTH, 3),
        ],
    ),
    "refracted": (areas_with(refracted=0.5), [*A_AND_B, *project(onto("s.A"), BOTH, 8)]),
    "refracted and normalised": (
        areas_with(refracted=0.01, normalize=True), [*A_AND_B, *project({}, BOTH, 6)],
    ),
    "ties by key": (areas_with(ties="keyed"), [*project(onto("s.A", "t.B", "s.C"), rounds=2), *MERGED]),
    "ties by key and columns": (
        areas_with(ties="keyed", normalize=True), [*A_AND_B, *project({}, BOTH, 8)],
    ),
    "ties by key and penalties": (
        areas_with(ties="keyed", refracted=1.0, refractory_period=2, inhibition_strength=3.0),
        [*A_AND_B, *project(onto("s.A"), BOTH, 6)],
    ),
    "long-range inhibition": (
        areas_with(refractory_period=3, inhibition_strength=2.5),
        [*A_AND_B, *project(onto("s.A"), BOTH, 6), call("fix_assembly", "A"), *project({}, BOTH, 2),
         call("unfix_assembly", "A"), *project({}, BOTH, 4)],
    ),
    "fibers of their own": (
        AREAS,
        [
            call("connect", "A", "B", p=0.3, beta=0.3, w_max=1.7), call("connect", "B", "A", edges=own_graph(257, 300)),
            *A_AND_B, *project(onto("s.A"), BOTH, 8), call("normalize", "A"), *project({}, BOTH, 3),
        ],
    ),
    "a graph of one's own alone": (
        AREAS,
        [call("connect", "A", "A", edges=own_graph(300, 300).to_sparse()), call("activate", "A", torch.arange(15)),
         *project({}, onto("AA"), 8)],
    ),
    "a graph of one's own and ties by key": (
        areas_with(ties="keyed"),
        [call("connect", "A", "A", edges=own_graph(300, 300).to_sparse()), call("activate", "A", torch.arange(1)),
         *project({}, onto("AA"), 8)],
    ),
    "a growing support": ({"A": ((1200, 30, 0.01), {})}, [*project(onto("s.A"), onto("AA"), 60)]),
    "long": ({"A": ((1500, 40, 0.05), {})}, [*project(onto("s.A"), onto("AA"), 40), *project({}, onto("AA"), 10)]),
}  # fmt: skip
SIZES = {"s": 20, "t": 31}


def declare(brain, areas):
    for name, size in SIZES.items():
        brain.add_stimulus(name, size=size)
    for name, ((n, k, beta), kwargs) in areas.items():
        brain.add_area(name, n=n, k=k, beta=beta, **kwargs)


def pair(areas, p, seed):
    """The brain and its oracle."""
    brain = Brain(p=p, seed=seed, mode="exact")
    declare(brain, areas)
    return brain, oracle_of(brain)


def assert_same(brain, dense, where):
    for name in dense.areas:
        winners = brain.winners(name)
        assert winners.dtype == torch.int64
        np.testing.assert_array_equal(winners.numpy(), dense.winners(name), err_msg=f"winners of {name} {where}")
        assert int(brain.support(name)) == dense.support(name), f"support of {name} {where}"


@pytest.mark.parametrize("p", [0.02, 0.1, 0.5], ids="p={}".format)
@pytest.mark.parametrize("program", PROGRAMS)
def test_every_round_is_that_of_the_oracle(program, p):
    areas, steps = PROGRAMS[program]
    brain, dense = pair(areas, p, 5)
    for index, (name, args, kwargs) in enumerate(steps):
        getattr(brain, name)(*args, **kwargs)
        getattr(dense, name)(*args, **kwargs)
        assert_same(brain, dense, f"after call {index}, {name}")
    assert all(dense.winners(name).size for name in areas if program in {"merge", "long"}), "the program ran"


@pytest.mark.parametrize("normalize", [False, True])
@pytest.mark.parametrize("rounds", [2, 3, 25])
def test_many_rounds_in_one_call(rounds, normalize):
    brain, dense = pair(areas_with(normalize=normalize), 0.1, seed=-3)
    for each in (brain, dense):
        for name, args, kwargs in A_AND_B:
            getattr(each, name)(*args, **kwargs)
        each.project(stimuli=onto("s.A"), areas=BOTH, rounds=rounds)
    assert_same(brain, dense, "at the end")


def test_every_brain_of_a_batch_has_an_oracle():
    batch = 3
    brain = Brain(p=0.1, seed=11, mode="exact", batch=batch)
    declare(brain, AREAS)
    oracles = [oracle_of(brain, b) for b in range(batch)]
    for step, (name, args, kwargs) in enumerate(MERGED):
        for each in (brain, *oracles):
            getattr(each, name)(*args, **kwargs)
        for area in AREAS:
            winners, support = brain.winners(area).numpy(), brain.support(area)
            for b, dense in enumerate(oracles):
                np.testing.assert_array_equal(
                    winners[b], dense.winners(area), err_msg=f"brain {b}, {area}, call {step}"
                )
                assert int(support[b]) == dense.support(area)
    assert len({tuple(row.tolist()) for row in brain.winners("C")}) == batch, "each has a graph of its own"


def test_ties_by_key_differ_between_the_brains_of_a_batch():
    """Nothing but ties: a stimulus without synapses."""
    seed, batch, n = 11, 3, 5000
    brain = Brain(p=0.1, seed=seed, batch=batch)
    brain.add_stimulus("none", size=0)
    brain.add_area("A", n=n, k=500, ties="keyed")
    brain.add_area("B", n=n, k=500, ties="keyed")
    brain.project({"none": ["A", "B"]})
    for area in "AB":
        for b, winners in enumerate(brain.winners(area).numpy()):
            order = keyed_order(seed, b, area, n)
            np.testing.assert_array_equal(winners, np.sort(np.argsort(order)[:500]))
            # A fair sample: the mean index of 500 out of 5000 strays by 61.
            assert abs(winners.mean() - n / 2) < 5 * 61
    drawn = torch.cat((brain.winners("A"), brain.winners("B")))
    assert len({tuple(row.tolist()) for row in drawn}) == 6


@pytest.mark.parametrize("seed", [0, 1, 2**63 + 5])
def test_seeds_differ_and_agree_with_the_oracle(seed):
    brain, dense = pair(AREAS, 0.1, seed)
    other, _ = pair(AREAS, 0.1, seed + 1)
    for each in (brain, dense, other):
        each.project(stimuli=onto("s.A"), areas=onto("AA"), rounds=10)
    assert_same(brain, dense, "at the end")
    assert not torch.equal(other.winners("A"), brain.winners("A"))


# Brains of one seed share rows; every one of these graphs differs from another in one thing. Those of 2000 rows have
# more that fire than are kept.
GRAPHS = [
    {"source": 2000, "n": 1500, "p": 0.1, "seed": 1}, {"source": 800, "n": 1400, "p": 0.1, "seed": 1},
    {"source": 800, "n": 1500, "p": 0.1, "seed": 1}, {"source": 2000, "n": 1500, "p": 0.12, "seed": 1},
    {"source": 2000, "n": 1500, "p": 0.1, "seed": 2},
]  # fmt: skip


def test_rows_that_wait_for_the_next_brain_are_those_of_its_graph():
    generator = torch.Generator().manual_seed(0)
    for turn in range(8):
        for graph in GRAPHS:
            brain = Brain(p=graph["p"], seed=graph["seed"])
            brain.add_area("A", graph["source"], 100)
            brain.add_area("B", graph["n"], 50)
            for _ in range(3):
                winners = torch.randperm(graph["source"], generator=generator)[:100].sort().values
                brain.activate("A", winners)
                brain.project(areas={"A": "B"}, rounds=1 + turn % 2)
                counts = brain._network.fibers["A", "B"].counts[0]
                fiber = brain.fiber_id("A", "B")
                assert torch.equal(counts, connectome_inputs(winners, graph["n"], graph["p"], graph["seed"], fiber))


def test_the_counts_of_a_stimulus_are_those_of_its_size():
    brain, _ = pair({"A": ((20000, 10, 0.1), {})}, 0.1, seed=0)
    for name, size in SIZES.items():
        counts = brain.stimulus_counts(name, "A")
        assert counts.dtype == torch.int32 and counts.shape == (20000,)
        assert 0 <= counts.min() and counts.max() <= size
        # 6 deviations of the mean and about as many of the variance.
        assert abs(counts.double().mean() - size * 0.1) < 6 * (size * 0.09 / 20000) ** 0.5
        assert abs(counts.double().var() / (size * 0.09) - 1) < 0.08


def test_a_source_without_winners_raises_and_leaves_the_brain_as_it_was():
    brain, dense = pair(AREAS, 0.1, seed=0)
    for each in (brain, dense):
        each.project(stimuli=onto("s.A"))
        with pytest.raises((ValueError, RuntimeError), match="winners"):
            each.project(stimuli=onto("s.A", "t.C"), areas=onto("AA", "BC"))
    assert_same(brain, dense, "after the error")
    for each in (brain, dense):
        each.project(stimuli=onto("s.A", "t.B"), areas=onto("AA", "AB"), rounds=4)
    assert_same(brain, dense, "four rounds later")
