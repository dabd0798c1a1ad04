"""Brains on a CUDA device that only pretends to be one: no device is mixed, and every bit is the CPU's."""

import copy
import functools
import itertools

import brain_programs as programs
import pytest
import torch
from brain_programs import PROGRAMS, assert_same, state_of, trace
from pretend_device import PretendCuda

from torch_hrr.assembly import Brain, Monitor, TorchBrain
from torch_hrr.io import IntegrityError

# Programs whose state holds all there is to hold, for tests that look at it after every call.
WHOLE = ["graphs of one's own", "inhibition and fixed assemblies"]


@pytest.fixture
def pretend(monkeypatch):
    return PretendCuda(monkeypatch)


@pytest.fixture
def cuda(pretend):
    with pretend:
        yield pretend


on_cpu = functools.cache(trace)


def brain_of(device, batch=None, steps=None):
    return programs.run(
        programs.declared("everything", device=device, batch=batch), programs.calls("everything")[:steps]
    )


def devices_of(brain):
    return {tensor.device.type for tensor in brain.buffers()} | {brain.device.type}


# The device itself


def test_the_pretended_device_refuses_what_a_device_refuses(cuda):
    here, there = torch.ones(3), torch.ones(3, device="cuda")
    assert there.device == torch.device("cuda", 0) and there.is_cuda
    for mixed in (lambda: here + there, lambda: torch.isin(there, here), lambda: torch.cat([there, here])):
        with pytest.raises(RuntimeError, match="same device"):
            mixed()
    with pytest.raises(RuntimeError, match="indices should be"):
        here[torch.tensor([0], device="cuda")]
    with pytest.raises(RuntimeError, match="same device"):
        there[torch.tensor([0, 1])] = here[:2]
    with pytest.raises(TypeError, match="can't convert cuda"):
        there.numpy()
    there[1:] = here[1:] * 2
    there[torch.tensor([0])] += 4
    assert (there + torch.tensor(1.0)).tolist() == [6, 3, 3]


def test_waits_for_the_pretended_device_are_counted(cuda):
    there = torch.arange(4, device="cuda")
    assert not cuda.waited(lambda: (there + 1).clone().sum())
    for call, name in (
        (lambda: int(there.sum()), "_local_scalar_dense"),
        (lambda: there.tolist(), "tolist"),
        (lambda: there.cpu(), "_to_copy"),
        (lambda: there.copy_(torch.ones(4)), "copy_"),
        (lambda: there[there > 2], "index"),
        (lambda: there.unique(), "_unique2"),
    ):
        assert cuda.waited(call) == {name: 1}


# Programs


@pytest.mark.parametrize("program", PROGRAMS)
def test_every_call_of_a_batch_is_the_cpus(pretend, program):
    # Round by round where hooks and columns meet: what a round does is the CPU's code here.
    options = {"batch": 2, "every_round": program == "normalised before every round"}
    expected = on_cpu(program, **options)
    with pretend:
        assert_same(trace(program, "cuda", **options), expected)


def moved(brain, device, _):
    holder = torch.nn.Sequential(brain)
    return (holder.cuda() if device == "cuda" else holder.to("cpu"))[0]


def copied(brain, device, _, assign=False):
    other = Brain(p=brain.p, seed=brain.seed, device=device, batch=brain.batch)
    other.load_state_dict(brain.state_dict(), assign=assign)
    return other


def loaded(brain, device, path):
    brain.save(path)
    return Brain.load(path, device=device)


CROSSINGS = [
    *((moved, program, None) for program in PROGRAMS), (loaded, WHOLE[1], 2), (loaded, WHOLE[0], None),
    (copied, WHOLE[0], 2), (functools.partial(copied, assign=True), WHOLE[1], None),
]  # fmt: skip


@pytest.mark.parametrize(("cross", "program", "batch"), CROSSINGS)
def test_a_brain_that_crosses_devices_after_every_call_goes_on(pretend, cross, program, batch, tmp_path):
    turns = itertools.cycle(["cuda", "cpu"])

    def between(brain):
        device = next(turns)
        other = cross(brain, device, tmp_path / "brain")
        assert devices_of(other) == {device}
        return other

    expected = on_cpu(program, batch=batch)
    with pretend:
        assert_same(trace(program, "cpu", batch, between=between), expected)


@pytest.mark.parametrize("program", WHOLE)
def test_files_of_both_devices_are_the_same_bytes(cuda, program, tmp_path):
    for device in ("cpu", "cuda"):
        programs.run(programs.declared(program, device=device), programs.calls(program)).save(tmp_path / device)
    assert (tmp_path / "cuda").read_bytes() == (tmp_path / "cpu").read_bytes()


@pytest.mark.parametrize("batch", [None, 2])
def test_monitors(cuda, batch):
    assert_same(programs.monitored("cuda", batch), programs.monitored("cpu", batch))


def test_a_monitored_brain_may_move(cuda):
    def history(move):
        brain = brain_of("cpu", steps=1)
        with Monitor(brain) as monitor:
            for device in ("cuda", "cpu"):
                if move:
                    brain.to(device)
                brain.project({"s": ["A"]}, {"A": ["A"]}, rounds=2)
        return monitor.to_dict()

    assert_same(history(True), history(False))


def test_the_calls_of_the_published_simulator(cuda):
    assert_same(programs.simulated("cuda"), programs.simulated("cpu"))


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_external_inputs(cuda, precision):
    assert_same(programs.external("cuda", precision), programs.external("cpu", precision))


def test_external_inputs_of_a_batch(cuda):
    def driven(device, external):
        brain = brain_of(device, batch=2, steps=1)
        brain.inhibit("C", brains=1)
        brain.project({"s": ["A", "C"]}, {"A": ["A", "B"]}, 2, external={"A": external, "C": torch.ones(800)})
        return state_of(brain)

    drive = torch.randn(2, 2000, generator=torch.Generator().manual_seed(0)) * 3
    assert_same(driven("cuda", drive.to("cuda")), driven("cpu", drive))


@pytest.mark.parametrize("loss", ["overlap", "margin"])
def test_losses_and_their_gradients(cuda, loss):
    assert_same(programs.trained("cuda", loss), programs.trained("cpu", loss))


def test_a_torch_brain_that_moved_knows_its_last_round(cuda):
    def loss(move):
        brain = TorchBrain(learning=True, p=0.05)
        brain.add_area("A", 300, 20)
        external = torch.randn(300, generator=torch.Generator().manual_seed(0)).requires_grad_()
        brain.project({"A": external}, {"A": ["A"]}, 3)
        if move:
            brain.cuda()
        result = brain.compute_assembly_loss({"A": torch.arange(20, device="cuda" if move else "cpu")})
        result.backward()
        assert result.is_cuda == move and external.grad is not None and not external.grad.is_cuda
        return result.detach().cpu(), external.grad

    assert_same(loss(True), loss(False))


@pytest.mark.parametrize("way", ["state", "file"])
def test_torch_brains_cross_devices(cuda, way, tmp_path):
    for device in ("cpu", "cuda"):
        first = TorchBrain(device="cuda", learning=True, p=0.05)
        first.add_area("A", 300, 20)
        first.project({"A": torch.randn(300)}, {"A": ["A"]}, 3)
        with torch.no_grad():
            first.biases[0].copy_(torch.randn(300))
        if way == "state":
            second = TorchBrain(device=device, p=0.05)
            second.load_state_dict(first.state_dict())
        else:
            first.save(tmp_path / "brain")
            second = TorchBrain.load(tmp_path / "brain", device=device)
        assert devices_of(second.brain) == {device} and second.biases[0].device.type == device
        assert torch.equal(second.biases[0].cpu(), first.biases[0].cpu())
        for each in (first, second):
            each.project({}, {"A": ["A"]}, 2)
        assert_same(state_of(second.brain), state_of(first.brain))


@pytest.mark.parametrize("batch", [None, 2])
def test_weights_of_stimuli(cuda, batch):
    there, here = (brain_of(device, batch) for device in ("cuda", "cpu"))
    for stimulus, area in (("s", "A"), ("t", "B"), ("t", "A")):
        weights = there.stimulus_weights(stimulus, area)
        assert weights.is_cuda and torch.equal(weights.cpu(), here.stimulus_weights(stimulus, area))


def test_brains_of_inference_mode_go_on_outside_of_it_on_the_device(cuda):
    with torch.inference_mode():
        brain = brain_of("cpu").to("cuda")
    expected = brain_of("cuda")
    for each in (brain, expected):
        each.project({"s": ["A"]}, {"A": ["A"]}, rounds=2)
    assert_same(state_of(brain), state_of(expected))


# Devices of arguments and results


def test_indices_may_come_from_any_device_and_results_are_on_the_brains(cuda):
    brain = brain_of("cuda", batch=2)
    host = brain_of("cpu", batch=2)
    brain.activate("A", torch.tensor([5, 3], device="cuda"))
    assert brain.winners("A").tolist() == [[3, 5], [3, 5]]
    brain.activate("A", brain.winners("B")[:, :4])
    host.activate("A", brain.winners("B")[:, :4])
    assert host.winners("A").device.type == "cpu" and brain.winners("A").is_cuda
    assert brain.support("A").is_cuda and brain.stimulus_counts("s", "A").is_cuda
    for pair in (("A", "A"), ("C", "B")):  # the second is a fiber that is not used
        assert all(part.is_cuda for part in brain.potentiated(*pair))
        assert [part.dtype for part in brain.potentiated(*pair)] == [torch.int64, torch.int64, torch.float32]
    with pytest.raises(IndexError, match=r"0\.\.1999"):
        brain.activate("A", torch.tensor([2000], device="cuda"))


def test_own_graphs_may_come_from_any_device(cuda):
    def potentiated(device, edges):
        brain = Brain(device=device)
        brain.add_area("A", 300, 10)
        brain.add_area("B", 400, 10)
        brain.connect("A", "B", edges=edges)
        return tuple(part.cpu() for part in brain.potentiated("A", "B"))

    there = programs.OWN_GRAPH.to("cuda")
    assert_same(potentiated("cpu", there), potentiated("cuda", programs.OWN_GRAPH))


def test_a_brain_without_areas_moves_too(cuda):
    brain = Brain().to("cuda")
    brain.add_area("A", 100, 10, refractory_period=2)
    assert devices_of(brain) == {"cuda"}
    assert devices_of(brain.half().cpu()) == {"cpu"}
    assert devices_of(copy.deepcopy(brain)) == {"cpu"}


def test_a_brain_whose_tensors_were_mapped_elsewhere_knows_where_they_are(cuda):
    brain = brain_of("cuda")
    for state in brain.states:
        state.to("cpu")  # as torch.load(..., map_location="cpu")
    brain.add_area("D", 100, 10)
    brain.project({"s": ["D"]}, {"A": ["D"]}, rounds=3)
    assert devices_of(brain) == {"cpu"} and len(brain.winners("D")) == 10


def test_a_device_without_memory_is_refused():
    with pytest.raises(RuntimeError, match=r"^Brain: device must have memory, got meta$"):
        Brain(device="meta")


# Waiting for the device


def test_a_call_waits_for_the_device_three_times_whatever_it_does(cuda):
    for batch in (None, 4):
        brain = brain_of("cuda", batch)
        brain.project({"s": ["A", "B", "C"]}, {"A": ["A", "B", "C"], "B": ["A", "B", "C"], "C": ["A"]}, rounds=30)
        for rounds in (1, 20):
            waited = cuda.waited(lambda rounds=rounds, brain=brain: brain.project({"s": ["A"]}, {"A": ["A"]}, rounds))
            assert waited == {"tolist": 2}
        # One more for all the areas that have to have winners.
        many = {"A": ["A", "B", "C"], "B": ["A", "B", "C"], "C": ["A"]}
        assert cuda.waited(lambda brain=brain, many=many: brain.project({"s": ["A", "B"]}, many)) == {"tolist": 3}


def test_columns_are_normalised_where_the_brain_is(cuda):
    brain = brain_of("cuda")
    assert "copy_" not in cuda.waited(lambda: brain.normalize("B"))


def test_indices_on_the_device_cross_to_the_cpu_and_back_once(cuda):
    brain = brain_of("cuda")
    winners = brain.winners("A")
    assert cuda.waited(lambda: brain.activate("A", winners)) == {"_to_copy": 1, "copy_": 1}


# The sampled mode


def sampled(device, batch=None):
    brain = Brain(p=0.05, seed=2, mode="sampled", device=device, batch=batch)
    brain.add_stimulus("s", 40)
    brain.add_area("A", 900, 30, 0.1)
    brain.add_area("B", 800, 20, 0.1)
    return brain


def run_sampled(brain):
    brain.project({"s": ["A"]}, {"A": ["A"]}, rounds=6)
    brain.project({"s": ["A"]}, {"A": ["A", "B"]}, rounds=4)
    brain.activate("B", torch.arange(5, 25))
    brain.project({}, {"A": ["A", "B"], "B": ["A"]}, rounds=4)
    winners, supports = [brain.winners(name) for name in "AB"], [torch.as_tensor(brain.support(name)) for name in "AB"]
    return winners + supports


@pytest.mark.parametrize("batch", [None, 2])
def test_sampled_brains(cuda, batch, tmp_path):
    brain = sampled("cuda", batch)
    results = run_sampled(brain)
    assert results[0].is_cuda and results[2].is_cuda == (batch is not None)
    assert_same([each.cpu() for each in results], run_sampled(sampled("cpu", batch)))
    brain.save(tmp_path / "brain")
    again = Brain.load(tmp_path / "brain", device="cuda")
    assert_same([each.cpu() for each in run_sampled(again)], [each.cpu() for each in run_sampled(brain)])


def test_sampled_brains_stay_on_their_device(cuda):
    for here, there in (("cuda", "cpu"), ("cpu", "cuda")):
        brain = sampled(here)
        run_sampled(brain)
        for module in (brain, torch.nn.Sequential(brain)):
            with pytest.raises(RuntimeError, match=f"device must stay {here}.* in mode 'sampled', got {there}"):
                module.to(there)
        assert devices_of(brain.to(here).half()) == {here}
        run_sampled(brain)


def test_random_numbers_of_another_kind_of_device_are_refused(tmp_path):
    brain = sampled("cpu")
    run_sampled(brain)
    state = brain.state_dict()
    state["sampled.0.generator"] = torch.zeros(16, dtype=torch.uint8)  # as of a CUDA generator
    with pytest.raises(ValueError, match="random numbers of another kind of device than cpu"):
        sampled("cpu").load_state_dict(state)
    brain._content = lambda: ({name: t for name, t in state.items() if torch.is_tensor(t)}, brain.get_extra_state())
    brain.save(tmp_path / "brain")
    with pytest.raises(IntegrityError, match="random numbers of another kind of device than cpu"):
        Brain.load(tmp_path / "brain")
