"""NumPy's scalars stand for the numbers that they are, wherever the assembly system takes one."""

import numpy as np
import pytest
import torch

from torch_hrr.assembly import AssemblyLayer, Brain, KCap, functional, simulator

NUMBER = np.float32(0.25)


def test_a_brain_of_numpy_numbers():
    brains = []
    for p, whole, half in ((NUMBER, np.int64, np.float32), (0.25, int, float)):
        brain = Brain(p=p, seed=whole(7), batch=whole(2))
        brain.add_stimulus("s", size=whole(30))
        brain.add_area("A", n=whole(200), k=whole(10), beta=half(0.5), w_max=half(3.0), refracted=half(0.5))
        brain.connect("A", "A", p=half(0.5))
        brain.project({"s": ["A"]}, {"A": ["A"]}, rounds=whole(4))
        brains.append(brain)
    assert brains[0].winners("A").equal(brains[1].winners("A"))
    assert brains[0].get_extra_state() == brains[1].get_extra_state()
    assert all(type(brains[0].get_extra_state()[key]) is kind for key, kind in (("p", float), ("seed", int)))


def test_densities():
    for p in (np.int64(1), np.uint8(0), np.float16(1), 1, 0):
        assert Brain(p=p).p == float(p) and type(Brain(p=p).p) is float
    for wrong in (np.bool_(True), np.complex64(1), np.float32("nan"), np.int64(2), np.array([0.5])):
        with pytest.raises((TypeError, ValueError), match=r"^Brain: p must be "):
            Brain(p=wrong)


def test_inputs_of_numpy_numbers():
    winners = torch.arange(9)
    plain = functional.connectome_inputs(winners, 500, 0.25, 3, 4, 5)
    given = (np.int64(500), NUMBER, np.uint64(3), np.int8(4), np.int64(5))
    assert functional.connectome_inputs(winners, *given).equal(plain)
    seed = np.uint64(2**64 - 1)
    assert functional.connectome_inputs(winners, 500, 0.25, seed, 0).equal(
        functional.connectome_inputs(winners, 500, 0.25, -1, 0)
    )
    for wrong in (np.bool_(True), np.float32(1)):
        with pytest.raises(TypeError, match=r"^connectome_inputs: seed must be an int, got "):
            functional.connectome_inputs(winners, 500, 0.25, wrong, 0)


def test_layers_of_numpy_numbers():
    cap = KCap(np.int64(5), temperature=np.float32(0.5))
    x = torch.randn(3, 40, generator=torch.Generator().manual_seed(0))
    assert type(cap.k) is int and torch.equal(torch.jit.script(cap)(x), KCap(5, 0.5)(x))
    given = AssemblyLayer(np.int64(40), np.int32(60), np.int64(6), NUMBER, temperature=np.float16(2), seed=np.uint64(9))
    plain = AssemblyLayer(40, 60, 6, 0.25, temperature=2.0, seed=9)
    assert torch.equal(given(x), plain(x)) and repr(given) == repr(plain)
    for wrong in (np.bool_(True), np.float32(5)):
        with pytest.raises(TypeError, match=r"^KCap: k must be an int, got "):
            KCap(wrong)


def test_arrays_of_the_other_byte_order():
    """Indices of neurons and of brains in files of other machines: each call as with the native array."""
    results = []
    for whole in (np.dtype(np.int64), np.dtype(np.int64).newbyteorder(), np.dtype(np.uint16).newbyteorder()):
        neurons, brains = np.array([3, 1, 9], whole), np.array([1, 0], whole)
        brain = Brain(p=0.5, seeds=np.array([4, 5], whole))
        brain.add_area("A", n=20, k=4)
        brain.activate("A", neurons, brains=brains)
        face = simulator.Brain(0.5)
        face.add_area("A", 20, 4)
        face.area_by_name["A"].winners = neurons
        results.append(
            [
                brain.winners("A"),
                brain.weights("A", "A", neurons, neurons, brain=1),
                torch.tensor([functional.overlap(neurons, [1, 2, 3]), simulator.overlap(neurons, neurons)]),
                torch.tensor(face.area_by_name["A"].winners),
                torch.tensor(face.connectomes["A"]["A"][neurons, neurons].copy()),
            ]
        )
    for others in results[1:]:
        assert all(torch.equal(*pair) for pair in zip(results[0], others, strict=True))
