"""The seed's samples of `TorchBrain` run as written on any machine; memory, monitoring, kernels and compilation."""

import copy
import pickle
import sys
import warnings
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch

from torch_hrr.assembly import CupyBrain, TorchBrain

KERNEL = """
extern "C" __global__ void assembly_projection(const float* x, float* y, int n) {
  int i = threadIdx.x + blockIdx.x * blockDim.x;
  if (i < n) y[i] = 2 * x[i];
}
"""


def drawn(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def two_areas(**options):
    brain = TorchBrain(p=0.05, **options)
    brain.add_area("visual", n=1000, k=100, beta=0.1)
    brain.add_area("semantic", n=800, k=80, beta=0.1)
    return brain


def on_this_machine(**options):
    """TorchBrain(device="cuda:0"): on the GPU, else on the CPU, with a warning."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*continuing on the CPU", category=RuntimeWarning)
        return TorchBrain(device="cuda:0", **options)


# torch.compile looks at the gradient of its arguments, and hides its warning unless warnings are errors.
compiles = pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor:UserWarning")


@compiles
def test_the_sample_of_quick_start():
    brain = on_this_machine(precision="fp16", jit=True)
    brain.add_area("visual", n=100000, k=10000, beta=0.1)
    brain.enable_learning()
    target_assemblies = {"visual": torch.arange(10000)}
    loss = brain.compute_assembly_loss(target_assemblies)
    loss.backward()
    assert float(loss.detach()) == pytest.approx(0.9, abs=1e-3), "a bias of zeros gives every neuron k / n"
    gradient = brain.biases[0].grad
    assert gradient[:10000].max() < 0 < gradient[10000:].min()


@compiles
def test_the_samples_of_configuration_and_monitoring():
    brain = on_this_machine(precision="fp16", jit=True, learning=True)
    brain.add_area("visual", n=10000, k=1000, beta=0.1)
    brain.add_area("semantic", n=8000, k=800, beta=0.1)
    connectome = brain.memory_manager.allocate_connectome(1000, 1000, dtype="float32")
    assert (connectome.shape, connectome.dtype) == ((1000, 1000), torch.float32) and not connectome.any()
    brain.memory_manager.optimize_layout()
    brain.start_monitoring(interval=0.1)
    external_inputs, projections = {"visual": drawn(10000)}, {"visual": ["semantic"]}
    brain.project(external_inputs, projections)
    stats = brain.get_memory_usage()
    assert stats.keys() == {"allocated_mb", "reserved_mb", "edges", "bytes_per_neuron"}
    operations = {
        "projection": brain.project,
        "winner_selection": brain._select_winners,
        "connectome_update": brain._update_connectomes,
    }
    for operation in operations.values():
        operation()
    assert brain.stop_monitoring()[-1]["rounds"] == 3
    assert len(brain.winners("visual")) == 1000 and len(brain.winners("semantic")) == 800


def test_the_fixed_calls():
    brain = TorchBrain(learning=True)
    brain.add_area("visual", n=1000, k=50)
    brain.add_area("semantic", n=1000, k=50)
    external = drawn(1000).requires_grad_()
    brain.project({"visual": external}, {"visual": ["semantic"]})
    brain.compute_assembly_loss({"visual": torch.arange(50)}).backward()
    assert external.grad.any()


def test_memory_usage_counts_tensors_and_edges():
    brain = two_areas()
    empty = brain.get_memory_usage()
    assert empty["edges"] == 0 and empty["allocated_mb"] == empty["reserved_mb"] > 0
    brain.project({"visual": drawn(1000)}, {"visual": ["visual", "semantic"]}, rounds=4)
    usage = brain.get_memory_usage()
    grown = sum(len(brain.brain.potentiated("visual", target)[0]) for target in ("visual", "semantic"))
    everywhere = 0.05 * 1000 * sum(brain.support(target) for target in ("visual", "semantic"))
    assert 100 < grown <= usage["edges"] < everywhere, "of what never fired or won nothing is kept"
    bytes_of_edges = 8 * usage["edges"] / 2**20
    assert usage["reserved_mb"] > usage["allocated_mb"] > empty["allocated_mb"] + bytes_of_edges
    assert usage["bytes_per_neuron"] == pytest.approx(usage["reserved_mb"] * 2**20 / 1800)


def test_optimize_layout_frees_memory_and_changes_nothing():
    brain, other = two_areas(), two_areas()
    projections = {"visual": ["visual", "semantic"]}
    for each in (brain, other):
        each.project({"visual": drawn(1000)}, projections, rounds=3)
    before = brain.get_memory_usage()
    freed = brain.memory_manager.optimize_layout()
    after = brain.get_memory_usage()
    assert freed == pytest.approx((before["reserved_mb"] - after["reserved_mb"]) * 2**20) and freed > 0
    assert after["allocated_mb"] == after["reserved_mb"] == before["allocated_mb"]
    assert brain.memory_manager.optimize_layout() == 0
    for each in (brain, other):
        each.project({"visual": drawn(1000, seed=1)}, projections, rounds=5)
    for area in ("visual", "semantic"):
        assert torch.equal(brain.winners(area), other.winners(area))
        mine, theirs = (each.brain.potentiated("visual", area) for each in (brain, other))
        assert all(torch.equal(a, b) for a, b in zip(mine, theirs, strict=True))


def test_allocated_connectomes_are_graphs_of_ones_own():
    brain = two_areas()
    edges = brain.memory_manager.allocate_connectome(1000, 800, dtype="bfloat16")
    edges[:, 5:85] = 1
    brain.brain.connect("visual", "semantic", edges=edges)
    brain.project({"visual": drawn(1000)}, {"visual": ["semantic"]})
    assert brain.winners("semantic").tolist() == list(range(5, 85))
    with pytest.raises(ValueError, match="dtype must be '"):
        brain.memory_manager.allocate_connectome(10, 10, dtype="int8")
    with pytest.raises(ValueError, match="n_target must be at least 0"):
        brain.memory_manager.allocate_connectome(10, -10)


def test_monitoring_samples_rounds_and_does_not_change_them():
    brain, plain = two_areas(), two_areas()
    external, projections = {"visual": drawn(1000)}, {"visual": ["visual", "semantic"]}
    assert brain.stop_monitoring() == []
    brain.start_monitoring(interval=0)
    with pytest.raises(RuntimeError, match="monitoring must be stopped first"):
        brain.start_monitoring()
    brain.project(external, projections, rounds=5)
    samples = brain.stop_monitoring()
    assert [sample["rounds"] for sample in samples] == [1, 2, 3, 4, 5, 5]
    assert sorted(sample["seconds"] for sample in samples) == [sample["seconds"] for sample in samples]
    assert samples[0]["edges"] < samples[-1]["edges"] == brain.get_memory_usage()["edges"]
    assert not brain.brain._hooks
    plain.project(external, projections, rounds=5)
    assert torch.equal(brain.winners("semantic"), plain.winners("semantic"))
    brain.start_monitoring(interval=1000.0)
    brain.project(external, projections, rounds=5)
    assert len(brain.stop_monitoring()) == 1
    for interval, error in ((-1, ValueError), ("1", TypeError)):
        with pytest.raises(error, match="interval must be"):
            brain.start_monitoring(interval)
        assert not brain.brain._hooks and brain.stop_monitoring() == []


def test_select_winners():
    brain = two_areas()
    assert brain._select_winners() == {}
    inputs = drawn(3, 50)
    assert torch.equal(brain._select_winners(inputs, 7), torch.ops.torch_hrr.k_winners(inputs, 7)[1])
    with pytest.raises(TypeError, match="k must be an int"):
        brain._select_winners(inputs)
    with pytest.raises(ValueError, match="k must be at least 0 and at most n = 50"):
        brain._select_winners(inputs, 51)
    brain.project({"visual": drawn(1000)}, {"visual": ["semantic"]})
    coming = brain._select_winners()
    brain.project({}, {"visual": ["semantic"]})
    assert coming.keys() == {"semantic"} and torch.equal(coming["semantic"], brain.winners("semantic"))


def test_update_connectomes_is_one_step_of_plasticity():
    brain = two_areas()
    with pytest.raises(ValueError, match="area must have winners, got none in 'visual'"):
        brain._update_connectomes({"visual": ["semantic"]})
    brain.project({"visual": drawn(1000)}, {"visual": ["semantic"]})
    winners = {area: brain.winners(area) for area in ("visual", "semantic")}
    rows, columns, weights = brain.brain.potentiated("visual", "semantic")
    brain._update_connectomes()
    after = brain.brain.potentiated("visual", "semantic")
    assert torch.equal(after[0], rows) and torch.equal(after[1], columns)
    assert torch.equal(after[2], weights * torch.tensor(1.1)) and len(weights)
    for area, before in winners.items():
        assert torch.equal(brain.winners(area), before) and not brain.brain._network.areas[area].fixed


@compiles
@pytest.mark.parametrize("precision", ["fp32", "fp16"])
def test_compiled_losses_train_the_same_winners(precision):
    brains = [two_areas(precision=precision, learning=True, jit=jit) for jit in (False, True)]
    external = [drawn(1000).requires_grad_() for _ in brains]
    for brain, stimulus in zip(brains, external, strict=True):
        brain.project({"visual": stimulus}, {"visual": ["semantic"], "semantic": []}, rounds=2)
        brain.compute_assembly_loss({"visual": torch.arange(100), "semantic": torch.arange(80)}).backward()
    for area in ("visual", "semantic"):
        assert torch.equal(brains[0].winners(area), brains[1].winners(area))
    tolerance = {"rtol": 1e-4, "atol": 1e-7} if precision == "fp32" else {"rtol": 1e-2, "atol": 1e-6}
    torch.testing.assert_close(external[0].grad, external[1].grad, **tolerance)
    for one, other in zip(brains[0].biases, brains[1].biases, strict=True):
        torch.testing.assert_close(one.grad, other.grad, **tolerance)
    assert external[0].grad.any()


def test_custom_kernels_have_a_name_and_source():
    brain = two_areas()
    with pytest.raises(ValueError, match="name must not be empty"):
        brain.create_custom_kernel("", KERNEL)
    with pytest.raises(TypeError, match="code must be a str"):
        brain.create_custom_kernel("assembly_projection", None)
    assert brain.kernels == {}


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a GPU")
def test_custom_kernels_need_a_gpu():
    brain = two_areas()
    with pytest.raises(RuntimeError, match="a CUDA device must be available, got none"):
        brain.create_custom_kernel("assembly_projection", KERNEL)
    assert brain.kernels == {}


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_custom_kernels_run():
    brain = two_areas()
    kernel = brain.create_custom_kernel("assembly_projection", KERNEL)
    x = torch.arange(1000.0, device="cuda")
    y = torch.zeros_like(x)
    kernel(grid=(4, 1, 1), block=(256, 1, 1), args=[x, y, 1000])
    assert torch.equal(y, 2 * x) and brain.kernels == {"assembly_projection": kernel}
    with pytest.raises(RuntimeError):
        brain.create_custom_kernel("assembly_projection", "this is no CUDA")


@compiles
@pytest.mark.parametrize("copied", [copy.deepcopy, lambda brain: pickle.loads(pickle.dumps(brain))])
@pytest.mark.parametrize("graph", [False, True])
@pytest.mark.parametrize("jit", [False, True])
def test_copies_and_pickles_go_on(jit, graph, copied):
    brain = two_areas(learning=True, jit=jit)
    external = drawn(1000).requires_grad_()
    brain.project({"visual": 2 * external if graph else external}, {"visual": ["semantic"]})
    other = copied(brain)
    assert other.jit == jit
    losses = [each.compute_assembly_loss({"visual": range(100)}) for each in (brain, other)]
    assert torch.equal(*losses)
    for loss in losses:
        loss.backward()
    assert torch.equal(brain.biases[0].grad, other.biases[0].grad) and external.grad.any()
    for each in (brain, other):
        each.project({}, {"visual": ["semantic"]}, rounds=2)
    assert torch.equal(brain.winners("semantic"), other.winners("semantic"))


def test_a_copy_goes_its_own_way():
    brain = two_areas(learning=True)
    brain.project({"visual": drawn(1000)}, {"visual": ["semantic"]})
    other = copy.deepcopy(brain)
    other.project({"visual": -drawn(1000)}, {"visual": ["semantic"]})
    assert not torch.equal(other.winners("visual"), brain.winners("visual"))
    assert other.memory_manager._brain is other.brain


def test_arrays_are_inputs_and_the_older_name_is_the_same_brain():
    drive = np.random.default_rng(0).normal(size=300)
    winners = []
    for brain, given in (
        (TorchBrain(p=0.1), torch.from_numpy(drive.copy())),
        (CupyBrain("cpu", p=0.1), drive[::-1].copy()[::-1]),
    ):
        brain.add_area("A", 300, 20)
        brain.add_area("B", 200, 10)
        brain.project({"A": given}, {"A": ["B"]}, rounds=2)
        winners.append(brain.winners("B"))
    assert torch.equal(*winners)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        first = CupyBrain(device=0)
    assert first.brain.device.type == ("cuda" if torch.cuda.is_available() else "cpu")
    with pytest.raises(TypeError, match=r"^project: external input of 'A' must be a torch\.Tensor or a NumPy array"):
        brain.project({"A": [1.0] * 300})


def test_threads_share_a_brain():
    """A call of one thread is over before another's begins: the sums of a loss are those of the winners that stand."""

    def made():
        brain = TorchBrain(p=0.1, learning=True)
        brain.add_area("A", n=400, k=20)
        brain.add_area("B", n=400, k=20)
        brain.project({"A": torch.linspace(0, 1, 400)}, {"A": ["B"]})
        return brain

    shared, alone = made(), made()
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(shared.project, {"A": torch.linspace(0, 1, 400)}, {"A": ["B"]}) for _ in range(40)]:
            done.result()
    sys.setswitchinterval(before)
    for _ in range(40):
        alone.project({"A": torch.linspace(0, 1, 400)}, {"A": ["B"]})
    assert torch.equal(shared.winners("B"), alone.winners("B")) and shared.support("B") == alone.support("B")
    targets = {"B": list(range(20))}
    assert torch.equal(shared.compute_assembly_loss(targets), alone.compute_assembly_loss(targets))


def test_a_projection_without_arguments_is_the_last_one_again():
    brains = [TorchBrain(p=0.1, learning=True) for _ in range(2)]
    for brain in brains:
        brain.add_area("A", n=300, k=15)
        with pytest.raises(RuntimeError, match=r"^project: a call must have come before to be repeated"):
            brain.project()
        assert len(brain.winners("A")) == 0
        brain.project({"A": torch.linspace(0, 1, 300).requires_grad_() * 2}, {"A": ["A"]})
    again, told = brains
    copied = copy.deepcopy(again)
    for brain in (again, copied):
        brain.project(rounds=3)
    told.project({"A": torch.linspace(0, 1, 300) * 2}, {"A": ["A"]}, rounds=3)
    for brain in (again, copied):
        assert torch.equal(brain.winners("A"), told.winners("A"))
        assert brain.brain.version == told.brain.version
    # What could not run is not repeated, and nothing given is no repetition.
    with pytest.raises(ValueError, match=r"^project: area must be declared"):
        again.project({"Q": torch.ones(3)}, {})
    again.project({}, {})
    before = again.brain.version
    again.project()
    assert again.brain.version > before


def test_settings_are_checked_by_name():
    for kind in (TorchBrain, CupyBrain):
        for option, error in (
            ({"precision": "fp8"}, ValueError),
            ({"p": 1.5}, ValueError),
            ({"device": 0.5}, TypeError),
        ):
            with pytest.raises(error, match=f"^{kind.__name__}: {next(iter(option))} must "):
                kind(**{"device": "cpu", **option})


def test_an_external_input_is_real_and_dense():
    nested = torch.nested.nested_tensor([torch.ones(3)], layout=torch.jagged)
    for wrong in (torch.ones(1000, device="meta"), nested, torch.ones(1000).to_sparse(), torch.ones(1000).cfloat()):
        with pytest.raises(TypeError, match=r"^project: external input of 'visual' must be a real dense tensor, got "):
            two_areas().project({"visual": wrong}, {"visual": ["semantic"]})


def test_what_is_repeated_is_what_was_given():
    brain = TorchBrain(p=0.1)
    brain.add_area("A", 100, 10)
    for given in (torch.rand(100), torch.rand(100).numpy()):
        brain.project({"A": given})
        winners = brain.winners("A")
        given *= -1
        brain.project()
        assert torch.equal(brain.winners("A"), winners)
