"""NumPy's integers are taken wherever an int goes in hrr, with the results of ints; bools and floats are not."""

import numpy as np
import pytest
import torch

from torch_hrr import hrr


def rows(n=3, dim=8):
    return torch.randn(n, dim, generator=torch.Generator().manual_seed(0))


def resonator(seed):
    return list(hrr.Resonator([rows(2), rows(3)], seed=seed)._starts(3))[2][0]


def stored(number):
    store = hrr.VectorStore(number(8), capacity=number(2))
    store.add("a", rows()[0])
    return store.vectors


def words(number):
    made = hrr.Vocabulary(number(8), seed=number(5))
    made.populate("A; B")
    return made.vectors


def structure(kind, number):
    made = kind(number(8), seed=number(4))
    made.add(rows()[0], rows()[1])
    return made.vector


def item(number):
    made = hrr.Sequence(number(8), seed=number(-1))
    made.extend(rows())
    return made[number(-2)]


def drawn(number):
    return hrr.random(number(2), number(8), torch.Generator().manual_seed(1))


def layer(number):
    return hrr.BindSuperpose(number(8), roles=number(2), generator=torch.Generator().manual_seed(1))(rows(2))


CALLS = [
    drawn,
    layer,
    stored,
    words,
    item,
    lambda number: structure(hrr.Graph, number),
    lambda number: structure(hrr.HashTable, number),
    lambda number: hrr.permute(rows(), number(3), number(2)),
    lambda number: hrr.sequence(rows(), seed=number(7)),
    lambda number: hrr.at(rows()[0], number(1), seed=number(7)),
    lambda number: hrr.ngrams(rows(), number(2), seed=number(7)),
    lambda number: hrr.graph(rows(), rows(), seed=number(7)),
    lambda number: hrr.ItemMemory(rows()).cleanup(rows()[0], number(2))[1],
    lambda number: hrr.Resonator([rows()]).factorize(rows(), number(5), check_every=number(2)).indices,
    lambda number: hrr.HRROperations(number(8), "cpu").bind(rows(), rows()),
    lambda number: resonator(number(3)),
]


@pytest.mark.parametrize("call", CALLS)
def test_integers_of_numpy_are_ints(call):
    for kind in (np.int64, np.int32):
        assert torch.equal(call(kind), call(int))
    for wrong in (float, np.float64, bool, str, torch.tensor):
        with pytest.raises(TypeError, match=r"^\w+: \w+ must be an int, got "):
            call(wrong)


def test_seeds_of_a_resonator_have_64_bits():
    seeds = (3, 3 + 2**32, 3 + 2**33, 2**64 - 1, 2**32 - 1)
    starts = [resonator(seed) for seed in seeds]
    assert all(not torch.equal(a, b) for i, a in enumerate(starts) for b in starts[:i])
    assert torch.equal(resonator(-1), resonator(2**64 - 1)) and torch.equal(resonator(3), resonator(np.int64(3)))
