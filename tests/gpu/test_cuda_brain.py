"""Brains on CUDA: the CPU's winners and state bit for bit, rounds without synchronisation, files of either device."""

import contextlib
import copy
import itertools
import statistics
import warnings

import brain_programs as programs
import pytest
import torch
from brain_programs import PROGRAMS, assert_same, state_of, trace
from torch.utils._python_dispatch import TorchDispatchMode

from torch_hrr.assembly import Brain, TorchBrain
from torch_hrr.io import IntegrityError

N, K = 100_000, 317
RECURRENT = {"stimuli": {"s": ["A"]}, "areas": {"A": ["A"]}}


@contextlib.contextmanager
def forbidden_waits():
    """Whatever waits for the device raises."""
    torch.cuda.set_sync_debug_mode("error")
    try:
        yield
    finally:
        torch.cuda.set_sync_debug_mode("default")


class RoundsDoNotWait(TorchDispatchMode):
    """The operator of the rounds runs where nothing may wait for the device; how often it ran."""

    calls = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if function is not torch.ops.torch_hrr.project_.default:
            return function(*args, **(kwargs or {}))
        self.calls += 1
        with forbidden_waits():
            return function(*args, **(kwargs or {}))


def brain_of(device, n=N, k=K, p=0.01, beta=0.1, batch=None, seed=0, **options):
    brain = Brain(p=p, seed=seed, device=device, batch=batch)
    brain.add_stimulus("s", size=k)
    brain.add_area("A", n=n, k=k, beta=beta, **options)
    return brain


# The CPU's bits


@pytest.mark.parametrize("batch", [None, 3])
@pytest.mark.parametrize("program", PROGRAMS)
def test_every_round_is_the_cpus(program, batch):
    assert_same(trace(program, "cuda", batch, every_round=True), trace(program, "cpu", batch, every_round=True))


@pytest.mark.parametrize("batch", [None, 3])
@pytest.mark.parametrize("program", PROGRAMS)
def test_many_rounds_in_a_call_are_the_cpus(program, batch):
    expected = trace(program, "cpu", batch)
    for _ in range(3):
        assert_same(trace(program, "cuda", batch), expected)


@pytest.mark.parametrize(("n", "k", "p", "rounds"), [(N, K, 0.01, 25), (N, K, 0.05, 12), (1_000_000, 1000, 0.001, 15)])
def test_large_brains_are_the_cpus(n, k, p, rounds):
    brain, expected = (brain_of(device, n, k, p) for device in ("cuda", "cpu"))
    for _ in range(3):
        brain.project(**RECURRENT)
        expected.project(**RECURRENT)
        assert torch.equal(brain.winners("A").cpu(), expected.winners("A"))
    brain.project(**RECURRENT, rounds=rounds - 3)
    expected.project(**RECURRENT, rounds=rounds - 3)
    assert_same(state_of(brain), state_of(expected))


def test_a_brain_is_the_same_in_every_batch():
    eight, expected = brain_of("cuda", n=20_000, batch=8), brain_of("cpu", n=20_000, batch=8)
    alone = brain_of("cuda", n=20_000)
    for brain in (eight, expected, alone):
        brain.project(**RECURRENT, rounds=10)
    assert_same(state_of(eight), state_of(expected))
    assert torch.equal(eight.winners("A")[0], alone.winners("A"))


@pytest.mark.asynchronous
def test_other_streams():
    expected = brain_of("cuda", n=20_000)
    expected.project(**RECURRENT, rounds=8)
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        brain = brain_of("cuda", n=20_000)
        brain.project(**RECURRENT, rounds=8)
        state = state_of(brain)
    assert_same(state, state_of(expected))


@pytest.mark.parametrize("batch", [None, 2])
def test_monitors(batch):
    assert_same(programs.monitored("cuda", batch), programs.monitored("cpu", batch))


def test_the_calls_of_the_published_simulator():
    assert_same(programs.simulated("cuda"), programs.simulated("cpu"))


@pytest.mark.parametrize("precision", ["fp32", "fp16", "bf16"])
def test_external_inputs(precision):
    on_cuda, on_cpu = (programs.external(device, precision) for device in ("cuda", "cpu"))
    for state in (*on_cuda, *on_cpu):
        # Memory in reserve is the device's own affair.
        for name in ("memory", "freed"):
            state.pop(name, None)
    assert_same(on_cuda, on_cpu)


@pytest.mark.parametrize("loss", ["overlap", "margin"])
def test_losses(loss):
    for here, there in zip(programs.trained("cuda", loss), programs.trained("cpu", loss), strict=True):
        torch.testing.assert_close(here["loss"], there["loss"], rtol=1e-2, atol=1e-4)


# Moving, files and states


@pytest.mark.parametrize("program", PROGRAMS)
def test_a_brain_that_moves_after_every_call_goes_on(program):
    turns = itertools.cycle(["cuda", "cpu"])
    assert_same(trace(program, "cpu", between=lambda brain: brain.to(next(turns))), trace(program, "cpu"))


@pytest.mark.parametrize("batch", [None, 2])
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_file_crosses_devices_after_every_call(program, batch, tmp_path):
    turns = itertools.cycle(["cuda", "cpu"])

    def loaded(brain):
        brain.save(tmp_path / "brain")
        return Brain.load(tmp_path / "brain", device=next(turns))

    assert_same(trace(program, "cpu", batch, between=loaded), trace(program, "cpu", batch))


def test_a_projection_saved_midway_on_cuda_ends_on_the_cpu(tmp_path):
    brain, expected = brain_of("cuda"), brain_of("cpu")
    brain.project(**RECURRENT, rounds=6)
    brain.save(tmp_path / "brain")
    loaded = Brain.load(tmp_path / "brain", device="cpu")
    expected.project(**RECURRENT, rounds=20)
    for each in (brain, loaded):
        each.project(**RECURRENT, rounds=14)
        assert_same(state_of(each), state_of(expected))


@pytest.mark.parametrize("assign", [False, True])
def test_state_dicts_cross_devices(assign):
    first = brain_of("cuda", n=5000)
    first.project(**RECURRENT, rounds=6)
    second = Brain(p=0.01, device="cpu")
    second.load_state_dict(first.state_dict(), assign=assign)
    third = Brain(p=0.01, device="cuda")
    third.load_state_dict(second.state_dict(), assign=assign)
    for brain in (first, second, third):
        brain.project(**RECURRENT, rounds=6)
        assert {tensor.device.type for tensor in brain.buffers()} == {brain.device.type}
        assert_same(state_of(brain), state_of(first))


def test_brains_that_came_in_inference_mode_go_on_outside_of_it():
    expected = brain_of("cpu", n=5000)
    expected.project(**RECURRENT, rounds=6)
    with torch.inference_mode():
        moved = copy.deepcopy(expected).to("cuda")
        assigned = Brain(p=0.01, device="cuda")
        assigned.load_state_dict(expected.state_dict(), assign=True)
    for brain in (expected, moved, assigned):
        brain.project(**RECURRENT, rounds=6)
        assert_same(state_of(brain), state_of(expected))


def test_files_of_torch_brains_cross_devices(tmp_path):
    first = TorchBrain(device="cuda", learning=True, p=0.05)
    first.add_area("A", 3000, 50)
    first.project({"A": torch.randn(3000)}, {"A": ["A"]}, 3)
    with torch.no_grad():
        first.biases[0].copy_(torch.randn(3000))
    first.save(tmp_path / "brain")
    second = TorchBrain.load(tmp_path / "brain", device="cpu")
    for brain in (first, second):
        brain.project({}, {"A": ["A"]}, 3)
        assert_same(state_of(brain.brain), state_of(first.brain))


@pytest.mark.parametrize("batch", [None, 2])
def test_weights_of_stimuli(batch):
    there, here = (brain_of(device, n=5000, batch=batch) for device in ("cuda", "cpu"))
    for brain in (there, here):
        brain.project(**RECURRENT, rounds=5)
    weights = there.stimulus_weights("s", "A")
    assert weights.is_cuda and torch.equal(weights.cpu(), here.stimulus_weights("s", "A"))


# Waiting for the device


@pytest.mark.asynchronous
@pytest.mark.parametrize("batch", [None, 4])
@pytest.mark.parametrize("options", [{}, {"normalize": True}, {"refractory_period": 3, "inhibition_strength": 1.0}])
def test_the_operator_of_rounds_does_not_wait(batch, options):
    brain = brain_of("cuda", n=20_000, batch=batch, **options)
    brain.add_area("B", n=15_000, k=200)
    # The first use of a density uploads its tables.
    brain.project({"s": ["A", "B"]}, {"A": ["A"]})
    with RoundsDoNotWait() as watched:
        brain.project({"s": ["A", "B"]}, {"A": ["A", "B"], "B": ["A", "B"]}, rounds=20)
    assert watched.calls >= 1
    assert brain.winners("A").shape[-1] == K


@pytest.mark.asynchronous
def test_a_call_waits_three_times_whatever_it_does():
    brain = brain_of("cuda", n=20_000)
    brain.add_area("B", n=15_000, k=200)
    every = {"A": ["A", "B"], "B": ["A", "B"]}
    brain.project({"s": ["A", "B"]}, {"A": ["A"]}, rounds=2)
    brain.project({"s": ["A", "B"]}, every, rounds=40)
    # Tables that grow would add waits of their own.
    brain.disable_plasticity()
    for rounds in (1, 10):
        torch.cuda.set_sync_debug_mode("warn")
        try:
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                brain.project({"s": ["A", "B"]}, every, rounds=rounds)
        finally:
            torch.cuda.set_sync_debug_mode("default")
        assert sum("synchronizing" in str(each.message) for each in caught) == 3


# Graphs


@pytest.mark.asynchronous
# The short way of small areas, and launch by launch.
@pytest.mark.parametrize("n", [3000, 20_000])
@pytest.mark.parametrize("batch", [None, 2])
def test_a_captured_call_replays_as_the_next_rounds(n, batch):
    every = {"stimuli": {"s": ["A"]}, "areas": {"A": ["A", "B"], "B": ["A"]}}
    brain, expected = (brain_of("cuda", n=n, k=50, batch=batch) for _ in range(2))
    for each in (brain, expected):
        each.add_area("B", n=n, k=50, beta=0.1)
        each.project({"s": ["A", "B"]})
        # Uploads the tables, and makes memory for more rounds than follow.
        each.project(**every, rounds=30)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        left = brain.project(**every, rounds=2)
    assert_same(state_of(brain), state_of(expected))
    for _ in range(3):
        graph.replay()
        expected.project(**every, rounds=2)
        assert not left.any()
        assert_same(state_of(brain), state_of(expected))
    # It goes on outside of the graph.
    for each in (brain, expected):
        each.project(**every)
    assert_same(state_of(brain), state_of(expected))


@pytest.mark.asynchronous
def test_a_call_is_not_captured_before_it_was_made_once():
    brain = brain_of("cuda", n=3000, k=50)
    with pytest.raises(RuntimeError, match="tables of a brain must exist"), torch.cuda.graph(torch.cuda.CUDAGraph()):
        brain.project(**RECURRENT)


# Published figures


@pytest.mark.parametrize(("beta", "mean", "deviation"), [(0.25, 1.60, 0.035), (0.1, 2.50, 0.10), (0.05, 3.68, 0.20)])
def test_support_of_a_projection(beta, mean, deviation):
    brain = brain_of("cuda", beta=beta, batch=32)
    brain.project(**RECURRENT, rounds=25)
    ratios = [support / K for support in brain.support("A").tolist()]
    assert statistics.mean(ratios) == pytest.approx(mean, abs=deviation)


def test_half_an_assembly_brings_back_the_rest():
    brain = brain_of("cuda", p=0.05, beta=0.05, batch=8)
    brain.project(**RECURRENT, rounds=25)
    shares = brain.pattern_complete("A", fraction=0.5, rounds=5)
    assert (shares * K >= 300).all()


# The sampled mode


def sampled(device):
    brain = Brain(p=0.05, seed=2, mode="sampled", device=device)
    brain.add_stimulus("s", 40)
    brain.add_area("A", 900, 30, 0.1)
    return brain


def test_sampled_brains_repeat_themselves(tmp_path):
    brain, again = sampled("cuda"), sampled("cuda")
    for each in (brain, again):
        each.project(**RECURRENT, rounds=6)
    assert brain.winners("A").is_cuda and 30 <= brain.support("A") < 180
    assert torch.equal(brain.winners("A"), again.winners("A"))
    brain.save(tmp_path / "brain")
    loaded = Brain.load(tmp_path / "brain", device="cuda")
    for each in (brain, loaded):
        each.project(**RECURRENT, rounds=4)
    assert torch.equal(brain.winners("A"), loaded.winners("A"))


def test_sampled_brains_stay_on_their_kind_of_device(tmp_path):
    for here, there in (("cuda", "cpu"), ("cpu", "cuda")):
        brain = sampled(here)
        brain.project(**RECURRENT, rounds=2)
        brain.save(tmp_path / here)
        with pytest.raises(IntegrityError, match="random numbers of another kind of device"):
            Brain.load(tmp_path / here, device=there)
        with pytest.raises(RuntimeError, match="in mode 'sampled'"):
            brain.to(there)
