"""`TorchBrain`: external inputs beside a dense sum, the brain's own rounds without them, and what losses train."""

import numpy as np
import pytest
import torch

from torch_hrr.assembly import Brain, Monitor, TorchBrain, k_cap

ROUND = {"v": ["v", "s"], "s": ["s", "v"]}
SIZES = {"v": (300, 20), "s": (257, 17)}


def torch_brain(learning=False, precision="fp32", **options):
    brain = TorchBrain(p=0.1, seed=3, learning=learning, precision=precision)
    for name, (n, k) in SIZES.items():
        brain.add_area(name, n, k, 0.1, **options)
        brain.brain.activate(name, range(k))
    return brain


def drawn(*shape, seed=0, scale=1.0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed)) * scale


def everything(brain):
    """Bits of all that determines a brain."""
    inner = brain.brain if isinstance(brain, TorchBrain) else brain
    state = {name: value for name, value in inner.state_dict().items() if isinstance(value, torch.Tensor)}
    spare = ("next", "target", "weight", "head", "length", "known", "neuron_of", "won")
    kept = {name: value.tolist() for name, value in state.items() if not name.endswith(spare)}
    edges = {pair: [part.tolist() for part in inner.potentiated(*pair)] for pair in inner._network.fibers}
    return kept, edges, inner.get_extra_state()


def same_brain(a, b):
    for area in SIZES:
        assert torch.equal(a.winners(area), b.winners(area))
        assert a.support(area) == b.support(area)
    assert everything(a)[1] == everything(b)[1]


class DenseBrain:
    """Both areas on dense float64 matrices: a round with external inputs as the class says it."""

    def __init__(self, brain, plastic=True):
        self.weights, self.winners, self.won = {}, {}, {name: set() for name in SIZES}
        for source, (n, k) in SIZES.items():
            self.winners[source] = list(range(k))
            for target, (columns, _) in SIZES.items():
                fiber = brain.fiber_id(source, target)
                rows = torch.arange(n).unsqueeze(-1)
                edges = torch.ops.torch_hrr.connectome_inputs(rows, columns, brain.p, brain.seed, fiber)
                self.weights[source, target] = edges.numpy().astype(np.float32)
        self.beta = np.float32(1.1 if plastic else 1)

    def round(self, external, projections):
        fired = {name: list(winners) for name, winners in self.winners.items()}
        for target in {target for targets in projections.values() for target in targets}:
            sources = [source for source, targets in projections.items() if target in targets]
            x = np.zeros(SIZES[target][0])
            for source in sources:
                weights = self.weights[source, target][fired[source]].astype(np.float64)
                x += (np.rint(weights * 2**24) / 2**24).sum(0)
            if target in external:
                x += np.rint(external[target].double().numpy() * 2**24) / 2**24
            winners = np.sort(np.argsort(-x, kind="stable")[: SIZES[target][1]])
            for source in sources:
                self.weights[source, target][np.ix_(fired[source], winners)] *= self.beta
            self.winners[target] = winners.tolist()
            self.won[target] |= set(winners.tolist())


@pytest.mark.parametrize("external", [("v",), ("s",), ("v", "s"), ()])
@pytest.mark.parametrize("learning", [False, True])
def test_equals_a_dense_sum(external, learning):
    brain = torch_brain(learning)
    dense = DenseBrain(brain.brain)
    inputs = {name: drawn(SIZES[name][0], seed=len(name), scale=4.0) for name in external}
    for _ in range(8):
        brain.project(inputs, ROUND)
        dense.round(inputs, ROUND)
        for name in SIZES:
            assert brain.winners(name).tolist() == dense.winners[name]
            assert brain.support(name) == len(dense.won[name])
    for pair, weights in dense.weights.items():
        rows, columns, grown = brain.brain.potentiated(*pair)
        assert np.array_equal(weights[rows, columns], grown.numpy())
        assert len(rows) == ((weights != 0) & (weights != 1)).sum()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"refracted": 2.5},
        {"refractory_period": 3, "inhibition_strength": 6.0},
        {"normalize": True},
        {"w_max": 1.3},
        {"ties": "keyed"},
    ],
    ids=str,
)
@pytest.mark.parametrize("learning", [False, True])
def test_zeros_change_nothing(options, learning):
    """With zeros the inputs are summed by `TorchBrain`, without by the brain's round."""
    summed, own = torch_brain(learning, **options), torch_brain(**options)
    zeros = {name: torch.zeros(n) for name, (n, _) in SIZES.items()}
    for rounds in (1, 1, 4):
        summed.project(zeros, ROUND, rounds)
        own.project({}, ROUND, rounds)
        same_brain(summed, own)


def test_without_external_input_it_is_brain():
    face = torch_brain(learning=True)
    brain = Brain(p=0.1, seed=3)
    for name, (n, k) in SIZES.items():
        brain.add_area(name, n, k, 0.1)
        brain.activate(name, range(k))
    for rounds in (1, 5):
        face.project({}, ROUND, rounds)
        brain.project({}, ROUND, rounds)
        same_brain(face, brain)


def test_own_graphs_and_plasticity_of_their_own():
    summed, own = torch_brain(), torch_brain()
    edges = torch.randint(0, 4, (300, 257), generator=torch.Generator().manual_seed(2)) / 2
    for brain in (summed, own):
        brain.brain.connect("v", "s", edges=edges, beta=0.5)
        brain.brain.connect("s", "v", p=0.02)
    for _ in range(5):
        summed.project({"s": torch.zeros(257)}, ROUND)
        own.project({}, ROUND)
        same_brain(summed, own)


def test_rounds_at_once_are_rounds_one_by_one():
    one, many = torch_brain(), torch_brain()
    inputs = {"v": drawn(300), "s": drawn(257)}
    for _ in range(6):
        one.project(inputs, ROUND)
    with Monitor(many.brain) as monitor:
        many.project(inputs, ROUND, rounds=6)
    same_brain(one, many)
    assert monitor.rounds == 6 and monitor.history["v"]["support"][-1] == many.support("v")


def test_an_area_that_nothing_reaches_shows_its_input():
    brain = TorchBrain(p=0.1, seed=3)
    brain.add_area("v", 300, 20)
    brain.add_area("s", 257, 17)
    external = drawn(300)
    brain.project({"v": external}, {"v": ["s"]}, rounds=3)
    assert brain.winners("v").tolist() == sorted(external.argsort(descending=True)[:20].tolist())
    assert (brain.support("v"), len(brain.winners("s"))) == (0, 17)
    brain.project({"v": -external}, {"v": ["s", "v"]})
    assert brain.support("v") == 20, "rounds count their winners as won"


def test_ties_of_an_external_input_go_to_the_lower_index():
    brain = torch_brain()
    brain.project({"v": torch.zeros(300)})
    assert brain.winners("v").tolist() == list(range(20))


def test_a_silent_area_shows_its_input_before_it_fires_into_another():
    brain = TorchBrain(p=0.1, seed=3)
    for name, (n, k) in SIZES.items():
        brain.add_area(name, n, k)
    external = {"v": drawn(300), "s": drawn(257, seed=1)}
    recurrent = TorchBrain(p=0.1, seed=3)
    recurrent.add_area("v", 300, 20)
    recurrent.project({"v": external["v"]}, {"v": ["v"]})
    shown = external["v"].topk(20).indices.sort().values
    assert torch.equal(recurrent.winners("v"), shown) and recurrent.support("v") == 20
    brain.project(external, {"v": ["s"], "s": ["v"]})
    expected = torch.ops.torch_hrr.connectome_inputs(shown, 257, 0.1, 3, brain.brain.fiber_id("v", "s"))
    chosen = (expected + external["s"]).topk(17).indices.sort().values
    assert torch.equal(brain.winners("s"), chosen)


def test_fixed_and_inhibited_areas_ignore_their_input():
    brain = torch_brain()
    brain.brain.fix_assembly("v")
    brain.brain.inhibit("s")
    brain.project({"v": drawn(300), "s": drawn(257)}, ROUND, rounds=2)
    assert brain.winners("v").tolist() == list(range(20))
    assert brain.winners("s").tolist() == list(range(17))
    brain.brain.unfix_assembly("v")
    brain.brain.disinhibit("s")
    brain.brain.inhibit_fiber("s", "v")
    dense = DenseBrain(brain.brain)
    for source, target in dense.weights:
        rows, columns, grown = brain.brain.potentiated(source, target)
        dense.weights[source, target][rows, columns] = grown.numpy()
    inputs = {"v": drawn(300)}
    brain.project(inputs, ROUND)
    dense.round(inputs, {"v": ["v", "s"], "s": ["s"]})
    assert {name: brain.winners(name).tolist() for name in SIZES} == dense.winners


def test_precision_is_that_of_the_external_input():
    fine = 1 + torch.randperm(300, generator=torch.Generator().manual_seed(0)) * 2.0**-16
    winners = {}
    for precision in ("fp32", "fp16", "bf16"):
        brain = torch_brain(precision=precision)
        brain.project({"v": fine})
        winners[precision] = brain.winners("v").tolist()
        assert all(tensor.dtype != torch.float16 for tensor in brain.brain.buffers())
    assert winners["fp32"] == fine.topk(20).indices.sort().values.tolist()
    for precision, dtype in (("fp16", torch.float16), ("bf16", torch.bfloat16)):
        rounded = fine.to(dtype).double().numpy()
        assert winners[precision] == np.sort(np.argsort(-rounded, kind="stable")[:20]).tolist()
        assert winners[precision] != winners["fp32"]


BAD = (
    (ValueError, {"x": torch.zeros(3)}, {}),
    (ValueError, {"v": torch.zeros(1, 300)}, ROUND),
    (ValueError, {"v": torch.full((300,), torch.nan)}, ROUND),
    (ValueError, {"v": torch.full((300,), 2.0**21)}, ROUND),
    (TypeError, {"v": [0.0] * 300}, ROUND),
    (TypeError, [torch.zeros(300)], ROUND),
    (ValueError, {"v": drawn(300), "s": torch.full((257,), torch.nan)}, {"v": ["v"]}),
    (ValueError, {"v": drawn(300)}, {"v": ["x"]}),
    (TypeError, {"v": drawn(300)}, ["v"]),
    (ValueError, {"v": drawn(300)}, {"v": ["v"], "silent": ["v"]}),
)


@pytest.mark.parametrize("learning", [False, True])
def test_bad_input_leaves_the_brain_unchanged(learning):
    brain = torch_brain(learning)
    brain.add_area("silent", 30, 3)
    brain.project({}, ROUND, 2)
    before = everything(brain)
    for error, external, projections in BAD:
        with pytest.raises(error, match=r"^project: .*must.*got"):
            brain.project(external, projections)
        assert everything(brain) == before


# Losses


@pytest.mark.parametrize("projections", [{}, {"s": ["v"]}, ROUND])
def test_the_gradient_is_that_of_soft_winners_of_all_inputs(projections):
    brain = torch_brain(learning=True)
    brain.project({}, ROUND, 3)
    brain.disable_plasticity()
    dense = DenseBrain(brain.brain, plastic=False)
    x = torch.zeros(300)
    for source, targets in projections.items():
        if "v" in targets:
            rows, columns, grown = brain.brain.potentiated(source, "v")
            weights = dense.weights[source, "v"]
            weights[rows, columns] = grown.numpy()
            x += torch.from_numpy(weights[brain.winners(source).tolist()].astype(np.float64).sum(0)).float()
    external, targets = drawn(300).requires_grad_(), torch.arange(100, 120)
    brain.project({"v": external}, projections)
    loss = brain.compute_assembly_loss({"v": targets}, temperature=0.7)
    (gradient,) = torch.autograd.grad(loss, external)
    expected = 1 - k_cap(x + external, 20, 0.7, soft=True)[targets].mean()
    (expected_gradient,) = torch.autograd.grad(expected, external)
    torch.testing.assert_close(loss, expected, rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(gradient, expected_gradient, rtol=1e-3, atol=1e-6)
    assert gradient[targets].max() < 0 < gradient.abs().max()


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
def test_large_inputs_do_not_coarsen_soft_winners(precision):
    gradients = []
    for each in ("fp32", precision):
        brain = torch_brain(learning=True, precision=each)
        brain.brain.connect("s", "v", edges=torch.full((257, 300), 250.0), beta=0.0)
        external = drawn(300).to(torch.bfloat16).float().requires_grad_()
        brain.project({"v": external}, {"s": ["v"]})
        brain.compute_assembly_loss({"v": range(20)}).backward()
        gradients.append(external.grad)
    assert gradients[0].abs().max() > 1e-3
    torch.testing.assert_close(gradients[1], gradients[0], rtol=0.1, atol=2e-4)


def test_bias_and_external_input_have_the_same_gradient():
    brain = torch_brain(learning=True)
    external = drawn(300).requires_grad_()
    brain.project({"v": external}, ROUND)
    brain.compute_assembly_loss({"v": range(20), "s": range(3, 9)}, loss="margin").backward()
    assert torch.equal(brain.biases[0].grad, external.grad) and external.grad.any()
    assert brain.biases[1].grad.any(), "an area without an external input has its bias"


def test_a_loss_of_ones_own_and_the_mean_over_areas():
    brain = torch_brain(learning=True)
    brain.project({}, ROUND)
    seen = []

    def loss(soft_winners, targets):
        seen.append((float(soft_winners.detach().sum()), targets.tolist()))
        return soft_winners[targets].sum()

    result = brain.compute_assembly_loss({"v": [7, 3], "s": torch.tensor([1])}, loss)
    assert [targets for _, targets in seen] == [[3, 7], [1]]
    assert [total for total, _ in seen] == pytest.approx([20, 17], rel=1e-4)
    single = [brain.compute_assembly_loss(each, loss) for each in ({"v": [7, 3]}, {"s": [1]})]
    assert float(result.detach()) == pytest.approx(float(sum(single).detach()) / 2)


@pytest.mark.parametrize(("precision", "loss"), [("fp32", "overlap"), ("fp16", "margin"), ("bf16", "overlap")])
def test_two_hundred_steps_teach_an_assembly(precision, loss):
    n, k = 1000, 50
    brain = TorchBrain(precision=precision, learning=True)
    brain.add_area("A", n, k)
    stimulus, targets = drawn(n, seed=1), torch.randperm(n, generator=torch.Generator().manual_seed(2))[:k]
    bias = torch.zeros(n, requires_grad=True)
    optimizer = torch.optim.Adam([bias], lr=0.1)
    overlaps = []
    for _ in range(201):
        brain.project({"A": stimulus + bias})
        overlaps.append(float(torch.isin(brain.winners("A"), targets).double().mean()))
        value = brain.compute_assembly_loss({"A": targets}, loss)
        optimizer.zero_grad()
        value.backward()
        optimizer.step()
    assert overlaps[0] < 0.15, "chance is k / n = .05"
    assert overlaps[-1] > 0.95
    if loss == "overlap":
        assert value < 0.05


def test_biases_learn_against_what_an_area_receives():
    brain = TorchBrain(learning=True, p=0.05)
    for name in ("A", "B"):
        brain.add_area(name, 1000, 50)
    brain.project({"A": drawn(1000)}, {"A": ["B"]}, rounds=5)
    brain.disable_plasticity()
    targets = torch.arange(200, 250)
    optimizer = torch.optim.Adam(brain.parameters(), lr=0.2)
    before = float(torch.isin(brain.winners("B"), targets).double().mean())
    for _ in range(200):
        brain.project({}, {"A": ["B"]})
        optimizer.zero_grad()
        brain.compute_assembly_loss({"B": targets}).backward()
        optimizer.step()
    brain.disable_learning()
    brain.project({}, {"A": ["B"]})
    assert before < 0.2
    assert float(torch.isin(brain.winners("B"), targets).double().mean()) > 0.95


def test_losses_need_learning_and_targets_that_exist():
    brain = torch_brain()
    with pytest.raises(RuntimeError, match="learning must be enabled"):
        brain.compute_assembly_loss({"v": [1]})
    brain.enable_learning()
    for error, targets, options in (
        (ValueError, {}, {}),
        (TypeError, [1], {}),
        (ValueError, {"x": [1]}, {}),
        (ValueError, {"v": range(21)}, {}),
        (ValueError, {"v": [1, 1]}, {}),
        (IndexError, {"v": [300]}, {}),
        (ValueError, {"v": [1]}, {"loss": "cosine"}),
        (TypeError, {"v": [1]}, {"loss": 3}),
        (ValueError, {"v": [1]}, {"temperature": 0.0}),
        (ValueError, {"v": [1]}, {"surrogate": "ste"}),
    ):
        with pytest.raises(error, match="must"):
            brain.compute_assembly_loss(targets, **options)


def test_a_bias_that_diverged_is_an_error_before_the_round():
    brain = torch_brain(learning=True)
    brain.project({}, ROUND)
    with torch.no_grad():
        brain.biases[0][5] = torch.nan
    before = everything(brain)
    with pytest.raises(ValueError, match="external input and bias of 'v' must be finite"):
        brain.project({"s": drawn(257)}, ROUND)
    assert everything(brain) == before


def test_state_dict_goes_on_with_the_same_bits():
    brain = torch_brain(learning=True)
    brain.project({"v": drawn(300)}, ROUND, 3)
    with torch.no_grad():
        brain.biases[0].add_(drawn(300))
    other = TorchBrain(p=0.1, seed=3)
    other.load_state_dict(brain.state_dict())
    assert other.learning and torch.equal(other.biases[0], brain.biases[0])
    for each in (brain, other):
        each.project({"s": drawn(257)}, ROUND, 3)
    same_brain(brain, other)
