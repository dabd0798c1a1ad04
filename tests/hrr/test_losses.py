"""The loss for sets of labels against its formula, what its decoder finds, and its errors."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from torch_hrr.hrr.losses import HRRMultiLabelLoss

DOUBLE = torch.float64


laws = settings(max_examples=20, derandomize=True, database=None, deadline=None)


seeds = st.integers(0, 2**32)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def draw(*shape, seed=0, dtype=DOUBLE):
    return torch.randn(shape, generator=seeded(seed), dtype=DOUBLE).to(dtype)


def correlate(c, b):
    """The direct sum, sum_m c[n + m] b[m]."""
    n = torch.arange(c.shape[-1])
    return (c[..., (n.unsqueeze(1) + n) % len(n)] * b.unsqueeze(-2)).sum(-1)


def cosine(a, b):
    return (a * b).sum(-1) / (a.norm(dim=-1) * b.norm(dim=-1))


def loss_oracle(module, s, targets, missing_weight):
    """Losses of the rows, a label at a time."""
    losses = []
    for row, wanted in zip(s, targets, strict=True):
        present, missing = correlate(row, module.present), correlate(row, module.missing)
        losses.append(
            sum(1 - cosine(present, c) + missing_weight * cosine(missing, c).abs() for c in module.labels[wanted])
        )
    return torch.stack(losses)


@pytest.mark.parametrize("missing_weight", (0.0, 1.0, 2.5))
def test_loss_is_its_formula(missing_weight):
    def make(reduction):
        return HRRMultiLabelLoss(9, 16, missing_weight, reduction, generator=seeded(), dtype=DOUBLE)

    s, targets = draw(5, 16), torch.rand(5, 9, generator=seeded(3)) < 0.5
    expected = loss_oracle(make("none"), s, targets, missing_weight)
    torch.testing.assert_close(make("none")(s, targets), expected)
    torch.testing.assert_close(make("sum")(s, targets.int()), expected.sum())
    torch.testing.assert_close(make("mean")(s, targets.double()), expected.mean())
    torch.testing.assert_close(make("none")(s * 1e-3, targets * 2.0), expected * 2)
    torch.testing.assert_close(make("none")(s.view(5, 1, 16), targets.view(5, 1, 9)), expected.view(5, 1))
    scores = torch.stack([cosine(correlate(s, make("none").present), c) for c in make("none").labels], dim=-1)
    torch.testing.assert_close(make("none").scores(s), scores)
    assert make("sum")(s, torch.zeros(5, 9)) == 0


def test_vectors_of_the_loss_are_unitary_and_not_trained():
    loss = HRRMultiLabelLoss(9, 16, dtype=DOUBLE)
    for vectors in (loss.labels, loss.present, loss.missing):
        torch.testing.assert_close(torch.fft.fft(vectors).abs(), torch.ones_like(vectors))
    assert not list(loss.parameters())
    assert set(loss.state_dict()) == {"labels", "present", "missing"}


@laws
@given(st.sets(st.integers(0, 199), min_size=1, max_size=8), seeds)
def test_an_encoded_set_has_the_best_scores(labels, seed):
    loss = HRRMultiLabelLoss(200, 2048, reduction="none", generator=seeded(seed))
    targets = torch.zeros(200)
    targets[list(labels)] = 1
    encoded = loss.encode(targets)
    scores = loss.scores(encoded)
    count = len(labels)
    assert set(scores.topk(count).indices.tolist()) == labels
    torch.testing.assert_close(scores[targets > 0], torch.full((count,), count**-0.5), rtol=0, atol=0.15)
    # The missing vector finds noise alone, so that J is close to its least value.
    assert loss(encoded, targets) < count - count**0.5 + count * 0.12


def test_descent_on_the_loss_finds_the_set():
    loss = HRRMultiLabelLoss(50, 512, generator=seeded())
    targets = torch.rand(6, 50, generator=seeded(5)) < 0.1
    s = (draw(6, 512, dtype=torch.float32) / 20).requires_grad_()
    optimizer = torch.optim.Adam([s], lr=0.01)
    for _ in range(100):
        optimizer.zero_grad()
        loss(s, targets).backward()
        optimizer.step()
    assert torch.equal(loss.scores(s) > 0.2, targets)
    missing = HRRMultiLabelLoss(50, 512)
    missing.load_state_dict({**loss.state_dict(), "present": loss.missing})
    assert missing.scores(s)[targets].abs().max() < 0.1


def test_a_zero_prediction_has_cosine_zero_and_a_finite_gradient():
    loss = HRRMultiLabelLoss(5, 16)
    s = torch.zeros(2, 16, requires_grad=True)
    value = loss(s, torch.ones(2, 5))
    assert value == 5
    value.backward()
    assert s.grad.isfinite().all()


CALLS = [
    (lambda: HRRMultiLabelLoss(3, 4), [(2, 5), (2, 3)], r"HRRMultiLabelLoss: s must have shape \[..., 4\], got"),
    (lambda: HRRMultiLabelLoss(3, 4), [(2, 4), (2, 4)], r"HRRMultiLabelLoss: targets must have shape \[..., 3\], got"),
    (lambda: HRRMultiLabelLoss(3, 4), [(2, 4), ()], r"HRRMultiLabelLoss: targets must have shape \[..., 3\], got"),
    (
        lambda: HRRMultiLabelLoss(3, 4),
        [(2, 4), (1, 3)],
        r"HRRMultiLabelLoss: targets must have the leading dimensions \[2\] of s, got shape \[1, 3\]",
    ),
]


@pytest.mark.parametrize(("make", "shapes", "text"), CALLS)
def test_call_errors_eager_and_scripted(make, shapes, text):
    module = make()
    inputs = [torch.zeros(shape) for shape in shapes]
    with pytest.raises(ValueError, match=f"^{text}"):
        module(*inputs)
    with pytest.raises(torch.jit.Error, match=text):
        torch.jit.script(module)(*inputs)


def test_decoder_and_encoder_check_their_arguments():
    loss = HRRMultiLabelLoss(3, 4)
    with pytest.raises(ValueError, match=r"^HRRMultiLabelLoss: s must have shape \[..., 4\], got \[3\]"):
        loss.scores(torch.zeros(3))
    with pytest.raises(ValueError, match=r"^HRRMultiLabelLoss: targets must have shape \[..., 3\], got \[4\]"):
        loss.encode(torch.zeros(4))
    with pytest.raises(TypeError):
        loss(torch.zeros(4, dtype=torch.int64), torch.zeros(3))


def test_repr_shows_the_settings():
    settings = "num_labels=7, dim=12, missing_weight=1.0, reduction='mean'"
    assert repr(HRRMultiLabelLoss(7, 12, seed=5)) == f"HRRMultiLabelLoss({settings}, seed=5)"
    assert repr(HRRMultiLabelLoss(7, 12, generator=torch.Generator())) == f"HRRMultiLabelLoss({settings}, seed=None)"


def test_arrays_and_autocast_give_the_bits_of_tensors_without():
    loss = HRRMultiLabelLoss(3, 16, generator=torch.Generator().manual_seed(0))
    targets = np.array([[1, 0, 1], [0, 1, 0]])
    encoded = loss.encode(torch.from_numpy(targets))
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(loss.encode(targets), encoded)
    assert torch.equal(loss(encoded.double().numpy(), targets), loss(encoded, torch.from_numpy(targets)))


def test_the_labels_follow_from_the_seed():
    first, second, other = (HRRMultiLabelLoss(4, 64, seed=seed) for seed in (5, 5, 6))
    torch.manual_seed(1)
    third = HRRMultiLabelLoss(4, 64, seed=5)
    for name in ("labels", "present", "missing"):
        assert torch.equal(getattr(first, name), getattr(second, name))
        assert torch.equal(getattr(first, name), getattr(third, name))
        assert not torch.equal(getattr(first, name), getattr(other, name))
    drawn = HRRMultiLabelLoss(4, 64, generator=seeded(3))
    assert not torch.equal(drawn.labels, HRRMultiLabelLoss(4, 64).labels)


def test_a_zero_head_learns_nothing_yet_and_breaks_nothing():
    module = HRRMultiLabelLoss(4, 64, dtype=torch.float16)
    head = torch.nn.Linear(3, 64, dtype=torch.float16)
    torch.nn.init.zeros_(head.weight), torch.nn.init.zeros_(head.bias)
    loss = module(head(torch.ones(2, 3, dtype=torch.float16)), torch.ones(2, 4))
    loss.backward()
    assert loss.isfinite() and head.weight.grad.isfinite().all() and head.bias.grad.isfinite().all()


def test_a_reduction_that_is_written_later_is_checked():
    loss = HRRMultiLabelLoss(3, 8, generator=seeded())
    loss.reduction = "avg"
    with pytest.raises(ValueError, match=r"^HRRMultiLabelLoss: reduction must be mean, sum or none, got avg$"):
        loss(torch.ones(2, 8), torch.ones(2, 3))


def test_vectors_are_drawn_again_after_to_empty():
    loss, made = (
        HRRMultiLabelLoss(3, 8, seed=4, dtype=DOUBLE),
        HRRMultiLabelLoss(3, 8, seed=4, dtype=DOUBLE, device="meta"),
    )
    made.to_empty(device="cpu").reset_parameters()
    assert all(torch.equal(own, drawn) for own, drawn in zip(made.buffers(), loss.buffers(), strict=True))
    other = HRRMultiLabelLoss(3, 8, generator=seeded(), dtype=DOUBLE)
    made.reset_parameters(seeded())
    assert torch.equal(made.labels, other.labels) and torch.equal(made.missing, other.missing)
    with pytest.raises(ValueError, match=r"^reset_parameters: generator must be given where one drew the vectors"):
        other.reset_parameters()
