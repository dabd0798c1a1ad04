"""What learning rules are known to lead to, and what one call of many ticks promises."""

import contextlib
import copy

import pytest
import torch

from torch_hrr import _progress
from torch_hrr.hierarchy import HebbianCore, HierarchicalLevel, SoftHebb, plastic_scan

RULES = ("hebb", "oja", "gha", "subspace", "bcm", "softhebb")
PUBLISHED = {"losers": -1.0, "scaled": True, "power": 0.5}


def components(count=4000, dim=12, seed=0):
    """Samples with a spectrum of distinct eigenvalues, and the principal components in their order."""
    generator = torch.Generator().manual_seed(seed)
    basis = torch.linalg.qr(torch.randn(dim, dim, generator=generator, dtype=torch.float64)).Q
    scale = 0.75 ** torch.arange(dim, dtype=torch.float64)
    samples = torch.randn(count, dim, generator=generator, dtype=torch.float64) * scale @ basis.T
    vectors = torch.linalg.eigh(samples.T @ samples / count).eigenvectors.flip(-1).T
    return samples, vectors


def start(units, dim, seed=1):
    return torch.randn(units, dim, generator=torch.Generator().manual_seed(seed), dtype=torch.float64) / dim**0.5


def train(samples, weight, rule, epochs=30, lr=0.05, **options):
    """Full batches: every tick sees all samples."""
    ticks = samples.expand(epochs, *samples.shape)
    return plastic_scan(ticks, weight, rule=rule, lr=lr, activation="linear", **options)[1]


def test_oja_turns_every_unit_to_the_first_component_at_norm_1():
    samples, vectors = components()
    weight = train(samples, start(3, 12), "oja", epochs=600)
    assert torch.allclose(weight.norm(dim=1), torch.ones(3, dtype=torch.float64), atol=1e-6)
    assert (torch.cosine_similarity(weight, vectors[:1]).abs() > 0.9999).all()


def test_gha_finds_the_components_in_their_order_and_subspace_their_span():
    samples, vectors = components()
    ordered = train(samples, start(4, 12), "gha", epochs=3000)
    assert (torch.cosine_similarity(ordered, vectors[:4]).abs() > 0.999).all()
    spanned = train(samples, start(4, 12), "subspace", epochs=3000)
    inside = spanned @ vectors[:4].T
    assert (inside.norm(dim=1) / spanned.norm(dim=1) > 0.999).all()
    assert torch.allclose(spanned @ spanned.T, torch.eye(4, dtype=torch.float64), atol=1e-4)
    assert (torch.cosine_similarity(spanned, vectors[:4]).abs() < 0.99).any()


@pytest.mark.parametrize("count", (2, 4))
def test_bcm_answers_one_of_orthonormal_patterns_with_their_number(count):
    """At the fixed point y = theta for one pattern and 0 for the others, and theta = E[y^2] = y^2 / K."""
    patterns = torch.linalg.qr(torch.randn(8, 8, dtype=torch.float64)).Q[:count]
    _, weight, theta = plastic_scan(
        patterns.expand(40000, count, 8), 0.1 * start(6, 8).abs() @ patterns.T @ patterns + 0.3 * patterns.sum(0),
        rule="bcm", lr=0.02, activation="linear", tau=20.0,
    )  # fmt: skip
    answers = torch.relu(weight @ patterns.T)
    best = answers.max(1).values
    assert torch.allclose(best, torch.full_like(best, count), atol=1e-12)
    assert torch.allclose(answers.sum(1), best, atol=1e-12)
    assert torch.allclose(theta, best, atol=1e-12)


def test_hebb_grows_by_the_eigenvalue():
    samples, vectors = components(count=500)
    value = (samples @ vectors[0]).square().mean()
    weight = train(samples, vectors[:1], "hebb", epochs=20, lr=0.01)
    assert torch.allclose(weight, vectors[:1] * (1 + 0.01 * value) ** 20, rtol=1e-10, atol=1e-10)


def test_weights_decay_and_rows_are_projected():
    silent = torch.zeros(10, 5)
    _, weight, _ = plastic_scan(silent, torch.ones(2, 5), rule="hebb", lr=0.1, decay=0.5)
    assert torch.allclose(weight, torch.full((2, 5), 0.95**10))
    _, weight, _ = plastic_scan(torch.randn(10, 5), torch.randn(3, 5), rule="hebb", lr=0.5, normalize=True)
    assert torch.allclose(weight.norm(dim=1), torch.ones(3))
    _, weight, _ = plastic_scan(torch.randn(4, 5), torch.zeros(3, 5), rule="hebb", normalize=True)
    assert torch.equal(weight, torch.zeros(3, 5))


@pytest.mark.parametrize("batch", (None, 3))
@pytest.mark.parametrize(("rule", "more"), (*((rule, {}) for rule in RULES), ("softhebb", PUBLISHED)))
@pytest.mark.parametrize("dtype", (torch.float32, torch.float64))
def test_one_call_is_bit_equal_to_calls_of_parts(rule, more, dtype, batch):
    """Across the tiles of time in which the CPU works too."""
    steps = 1300 if batch is None else 40
    inputs = torch.randn(*(steps, 37) if batch is None else (steps, batch, 37), dtype=dtype)
    weight = 0.1 * torch.randn(21, 37, dtype=dtype)
    options = {"rule": rule, "lr": 1e-3, "every": 2, **more}
    outputs, learned, theta = plastic_scan(inputs, weight, **options)
    parts = []
    own, threshold = weight, None
    for part in (inputs[:2], inputs[2:14], inputs[14:]):
        y, own, threshold = plastic_scan(part, own, **options, theta=threshold)
        parts.append(y)
    assert torch.equal(torch.cat(parts), outputs)
    assert torch.equal(own, learned)
    assert torch.equal(threshold, theta)
    assert not torch.equal(learned, weight)


@pytest.mark.parametrize(("dtype", "exponents"), ((torch.float32, (100, -100)), (torch.float64, (1000, -1000))))
@pytest.mark.parametrize("rule", RULES)
def test_rows_of_any_size_are_normalised_to_the_same_bits(rule, dtype, exponents):
    """Their squares would over- or underflow; a power of two changes nothing else, in the derivatives neither."""
    inputs, weight, moved = torch.zeros(2, 37, dtype=dtype), *torch.randn(2, 5, 37, dtype=dtype)

    def scan(weight):
        return plastic_scan(inputs, weight, rule=rule, normalize=True)[1]

    def results(scale):
        own = scale * weight
        along = torch.func.jvp(scan, (own,), (scale * moved,))[1]
        across = torch.func.vjp(scan, own)[1](moved)[0]
        second = torch.func.grad(lambda w: (torch.func.vjp(scan, w)[1](moved)[0] * scale).sin().sum())(own)
        return scan(own), along, across * scale, second * scale

    expected = results(torch.ones((), dtype=dtype))
    assert torch.allclose(expected[0].norm(dim=1), torch.ones(5, dtype=dtype))
    for exponent in exponents:
        for own, other in zip(results(torch.tensor(2.0, dtype=dtype) ** exponent), expected, strict=True):
            assert torch.equal(own, other)


@pytest.mark.parametrize("every", (2**61, 2**62 + 1, 2**63 - 1))
def test_steps_beyond_the_inputs_leave_one_tick(every):
    inputs, weight = torch.randn(5, 2, 3), torch.randn(2, 3)

    def results(every):
        own = [x.clone().requires_grad_() for x in (inputs, weight)]
        outputs, learned, _ = plastic_scan(*own, every=every)
        gradients = torch.autograd.grad(outputs.sum() + learned.square().sum(), own, create_graph=True)
        second = torch.autograd.grad(sum(x.square().sum() for x in gradients), own)
        return (
            outputs,
            learned,
            *gradients,
            *second,
            torch.func.jvp(lambda x: plastic_scan(x, weight, every=every)[1], (inputs,), (inputs,))[1],
        )

    for own, other in zip(results(every), results(5), strict=True):
        assert torch.equal(own, other)
    meta = plastic_scan(inputs.to("meta"), weight.to("meta"), every=every)
    assert meta[0].shape == (1, 2, 2)


@pytest.mark.parametrize("tau", (1.5, 100.0))
def test_theta_stays_above_0_however_long_a_unit_is_silent(tau):
    weight = torch.zeros(1, 3, dtype=torch.float16 if tau > 2 else torch.float32)
    _, _, theta = plastic_scan(weight.new_zeros(4000, 3), weight, rule="bcm", tau=tau)
    assert (theta > 0).all()
    _, _, theta = plastic_scan(weight.new_ones(1, 3), weight, rule="bcm", tau=tau, theta=theta)
    assert (theta > 0).all()


@pytest.mark.parametrize("rule", RULES)
def test_a_second_derivative_keeps_the_weights_of_few_ticks(rule):
    """The graph of the first holds fewer numbers than the weights after half of the ticks."""
    inputs, weight = torch.randn(400, 8), (torch.randn(16, 8) / 3).requires_grad_()
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x.numel()) or x, lambda x: x):
        _, learned, _ = plastic_scan(inputs, weight, rule=rule)
        (gradient,) = torch.autograd.grad(learned.square().sum(), weight, create_graph=True)
        (second,) = torch.autograd.grad(gradient.square().sum(), weight)
    assert sum(kept) < 200 * weight.numel()
    assert second.isfinite().all() and second.norm() > 0


def test_units_that_compete_are_exact_where_a_softmax_is():
    """Far apart one unit has all, ties share; losers go where the winner came from; a step has its largest entry."""
    weight, x = torch.eye(3), torch.tensor([[[300.0, 0.0, 0.0], [-1000.0, 0.0, 0.0]]])
    outputs, learned, _ = plastic_scan(x, weight, "softhebb", 0.5, temperature=1e-3)
    assert torch.equal(outputs, torch.tensor([[[1.0, 0, 0], [0, 0.5, 0.5]]]))
    # Sample 0: y (x - u w) of unit 0 is 0; sample 1 moves units 1 and 2 by lr / 2 / 2 of it.
    assert torch.equal(learned, torch.tensor([[1.0, 0, 0], [-125.0, 1, 0], [-125.0, 0, 1]]))
    signed = plastic_scan(x[0, 1:], weight, "softhebb", 0.5, temperature=1e-3, losers=-1.0)[1]
    assert torch.equal(signed, torch.tensor([[1.0, 0, 0], [-250.0, 1, 0], [250.0, 0, 1]]))
    scaled = plastic_scan(x[0, 1:], weight, "softhebb", 0.5, temperature=1e-3, losers=-1.0, scaled=True)[1]
    assert torch.equal(scaled, torch.tensor([[1.0, 0, 0], [-0.5, 1, 0], [0.5, 0, 1]]))
    still = plastic_scan(torch.zeros(1, 3), weight, "softhebb", 0.5, scaled=True)[1]
    assert torch.equal(still, weight)
    # At distance 3 from norm 1, of a row of zeros 1.
    rows = torch.diag(torch.tensor([4.0, 0.0]))
    fast = plastic_scan(torch.tensor([[0.0, 1.0]]), rows, "softhebb", 0.5, power=2.0)[1]
    torch.testing.assert_close(fast, torch.tensor([[4.0, 0.5 * 9 / 2], [0.0, 0.5 / 2]]))


@pytest.mark.parametrize("bad", (float("nan"), float("inf")))
def test_a_number_that_is_not_finite_spoils_a_layer_that_competes_and_no_other(bad):
    inputs, weight = torch.randn(2, 4, 20), torch.randn(2, 33, 20)
    clean, kept, _ = plastic_scan(inputs, weight, "softhebb")
    inputs[1, 2, 3] = bad
    outputs, learned, _ = plastic_scan(inputs, weight, "softhebb")
    assert torch.equal(outputs[0], clean[0]) and torch.equal(learned[0], kept[0])
    assert torch.equal(outputs[1, :2], clean[1, :2]) and outputs[1, 2:].isnan().all() and learned[1].isnan().any()


@pytest.mark.parametrize("rule", RULES)
def test_outputs_come_from_the_weights_before(rule):
    inputs, weight = torch.randn(3, 6), torch.randn(4, 6)
    outputs, learned, _ = plastic_scan(inputs[:1], weight, rule=rule, lr=0.1)
    u = inputs[:1] @ weight.T
    expected = {"bcm": torch.tanh(u).relu(), "softhebb": torch.softmax(u, -1)}.get(rule, torch.tanh(u))
    assert torch.allclose(outputs, expected, atol=1e-6)
    assert not torch.equal(learned, weight)
    _, same, _ = plastic_scan(inputs, weight, rule=rule, lr=0.0)
    assert torch.equal(same, weight)


def test_units_and_layers_without_coupling_do_not_see_each_other():
    inputs, weight = torch.randn(2, 9, 20), torch.randn(2, 33, 20)
    inputs[1, 4, 3] = torch.nan
    weight[0, 7, 2] = torch.inf
    outputs, learned, _ = plastic_scan(inputs, weight)
    clean, kept, _ = plastic_scan(inputs.nan_to_num(), weight.nan_to_num(posinf=1.0))
    assert torch.equal(outputs[1, :4], clean[1, :4])
    assert outputs[1, 4:].isnan().all()
    others = [i for i in range(33) if i != 7]
    assert torch.equal(learned[0, others], kept[0, others])
    assert not learned[0, 7].isfinite().any()


def test_arguments_are_left_alone():
    inputs, weight, theta = torch.randn(5, 16), torch.randn(4, 16), torch.rand(4) + 0.5
    before = [x.clone() for x in (inputs, weight, theta)]
    plastic_scan(inputs, weight, rule="bcm", lr=0.1, theta=theta)
    for tensor, same in zip((inputs, weight, theta), before, strict=True):
        assert torch.equal(tensor, same)


def test_arrays_are_taken():
    import numpy as np

    outputs, _, _ = plastic_scan(np.ones((3, 2), np.float32), np.ones((1, 2)), lr=np.float32(0.1), every=np.int64(2))
    assert outputs.shape == (2, 1) and outputs.dtype == torch.float64


def test_learning_rates_are_learned_through_the_scan():
    """A gradient reaches the initial weights through all ticks, and descends."""
    samples, _ = components(count=60)
    weight = start(2, 12).requires_grad_()

    def error():
        _, learned, _ = plastic_scan(samples[:, None], weight, rule="oja", lr=0.02)
        return (samples - (samples @ learned.T) @ learned).square().mean()

    before = error()
    (gradient,) = torch.autograd.grad(before, weight, create_graph=True)
    (second,) = torch.autograd.grad(gradient.square().sum(), weight)
    assert second.isfinite().all() and second.norm() > 0
    with torch.no_grad():
        weight -= 0.05 * gradient / gradient.norm()
    assert error() < before


@pytest.mark.parametrize("argument", ("rule", "activation"))
@pytest.mark.parametrize("value", ("\ud800", "oja\0", 100_000 * "x"), ids=("surrogate", "zero", "long"))
def test_words_that_no_operator_can_take_are_named(argument, value):
    with pytest.raises(ValueError, match=rf"^plastic_scan: {argument} must be '.+', got '.{{1,80}}$"):
        plastic_scan(torch.ones(2, 3), torch.ones(1, 3), **{argument: value})


@pytest.mark.parametrize("batch", ((), (3,)))
@pytest.mark.parametrize("rule", RULES)
def test_parts_of_a_long_call_are_bit_equal_to_it(rule, batch, monkeypatch):
    inputs, weight, seen = torch.randn(2, 20, *batch, 6), torch.randn(2, 4, 6) / 3, []
    arguments = {"rule": rule, "lr": 0.05, "every": 3, "decay": 0.1}
    expected = plastic_scan(inputs, weight, **arguments)
    monkeypatch.setattr(_progress, "_SHORT", 0.0)
    monkeypatch.setattr(_progress, "_PART", 0.0)
    found = plastic_scan(inputs, weight, **arguments, progress=lambda *each: seen.append(each))
    assert all(map(torch.equal, found, expected)) and seen == [(done, 7) for done in range(1, 8)]
    layer = SoftHebb(6, 4) if rule == "softhebb" else HebbianCore(6, 4, rule=rule)
    before = copy.deepcopy(layer.state_dict())
    with monkeypatch.context() as patch:
        patch.setattr(_progress, "interrupts_held_back", interrupted)
        with pytest.raises(KeyboardInterrupt):
            layer.process(inputs[0])
    assert all(torch.equal(each, before[name]) for name, each in layer.state_dict().items())


@contextlib.contextmanager
def interrupted():
    """Ctrl-C in the first part."""
    yield
    raise KeyboardInterrupt


@pytest.mark.filterwarnings("ignore:HebbianCore. lr . tau:RuntimeWarning")
def test_parts_hide_no_result_of_learning_that_diverges(monkeypatch):
    """A theta that is infinite is an error at the beginning of a call, not in it."""
    inputs, weight = 1e15 * torch.ones(4, 3), torch.ones(2, 3)

    def results():
        level = HierarchicalLevel(0, 3, 2)
        level.add_layer(HebbianCore(3, 2, "bcm", 1.0, "linear", tau=1.5))
        level.layers[0].weight.fill_(1.0)
        scanned = plastic_scan(inputs, weight, "bcm", 1.0, "linear", tau=1.5)
        return *scanned, level.process(inputs), level.layers[0].weight, level.layers[0].theta

    whole = results()
    assert not whole[2].isfinite().all()
    monkeypatch.setattr(_progress, "_SHORT", 0.0)
    monkeypatch.setattr(_progress, "_PART", 0.0)
    for mine, theirs in zip(results(), whole, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=0, atol=0, equal_nan=True)


@pytest.mark.parametrize("strict", (False, True))
def test_learning_is_exported_for_any_number_of_steps(strict):
    class Learns(torch.nn.Module):
        def forward(self, inputs, weight):
            return plastic_scan(inputs, weight, lr=0.1)[:2]

    inputs, weight = torch.randn(50, 4), torch.randn(3, 4)
    shapes = ({0: torch.export.Dim("steps")}, None)
    program = torch.export.export(Learns(), (inputs[:7], weight), dynamic_shapes=shapes, strict=strict).module()
    for steps in (2, 50):
        pairs = zip(program(inputs[:steps], weight), Learns()(inputs[:steps], weight), strict=True)
        assert all(torch.equal(*pair) for pair in pairs)
