"""Losses on assemblies against their formulas, what descent on them reaches, and their errors."""

import pytest
import torch
from torch.autograd import gradcheck

from torch_hrr.assembly import TorchBrain, assembly_loss, assembly_margin_loss, assembly_overlap_loss, k_cap

DOUBLE = torch.float64


def draw(*shape, seed=0, dtype=DOUBLE):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=DOUBLE).to(dtype)


def subsets(rows, n, m, seed=0):
    generator = torch.Generator().manual_seed(seed)
    return torch.stack([torch.randperm(n, generator=generator)[:m] for _ in range(rows)])


def test_overlap_loss_is_one_minus_the_overlap():
    y, targets = k_cap(draw(5, 20), 4, soft=True), subsets(5, 20, 3)
    expected = 1 - sum(y[r, j] for r in range(5) for j in targets[r]) / 15
    torch.testing.assert_close(assembly_overlap_loss(y, targets), expected)
    torch.testing.assert_close(
        assembly_overlap_loss(y, targets[0]), 1 - sum(y[r, j] for r in range(5) for j in targets[0]) / 15
    )
    mask = k_cap(draw(20), 4)
    winners = mask.nonzero().flatten()
    assert assembly_overlap_loss(mask, winners) == 0
    assert assembly_overlap_loss(1 - mask, winners) == 1
    assert assembly_overlap_loss(torch.zeros(0, 20), targets[0]) == 0


def margin_oracle(row, targets, k, margin):
    others = sorted((x for j, x in enumerate(row.tolist()) if j not in targets), reverse=True)
    place = k - len(targets)
    if place >= len(others):
        return 0.0
    return sum(max(0.0, margin - (row[j].item() - others[place])) for j in targets) / len(targets)


@pytest.mark.parametrize("k", (3, 5, 20))
@pytest.mark.parametrize("margin", (0.0, 0.5, 2.0))
def test_margin_loss_is_its_formula(margin, k):
    x, targets = draw(6, 20), subsets(6, 20, 3)
    rows = [margin_oracle(row, own.tolist(), k, margin) for row, own in zip(x, targets, strict=True)]
    result = assembly_margin_loss(x, targets, k, margin)
    torch.testing.assert_close(result, torch.tensor(rows, dtype=DOUBLE).mean())


def test_margin_loss_is_zero_where_the_targets_win_by_it():
    x, targets = draw(50), subsets(1, 50, 5)[0]
    x[targets] = x.max() + 1.0
    assert assembly_margin_loss(x, targets, 5, 0.999) == 0
    assert assembly_margin_loss(x, targets, 5, 1.5) > 0
    assert (k_cap(x, 5)[targets] == 1).all()


@pytest.mark.parametrize("loss", ("overlap", "margin", lambda y, targets: (1 - y.gather(-1, targets)).square().sum()))
def test_gradients(loss):
    x, targets = draw(3, 12).requires_grad_(), subsets(3, 12, 4)
    assert gradcheck(lambda a: assembly_loss(a, targets, 4, loss, temperature=0.7), x)
    assert torch.autograd.grad(assembly_loss(x, targets, 4, loss), x)[0].abs().max() > 0


@pytest.mark.parametrize("loss", ("overlap", "margin", lambda y, t: -(y.gather(-1, t) + 1e-6).log().mean()))
@pytest.mark.parametrize("surrogate", ("sigmoid", "laplace"))
def test_descent_on_a_stimulus_bias_makes_the_targets_win(loss, surrogate):
    """200 Adam steps lift the overlap from about k / n to above .95; n = 1000, k = 50."""
    n, k = 1000, 50
    generator = torch.Generator().manual_seed(3)
    received = torch.poisson(torch.full((n,), 10.0), generator=generator)
    targets = torch.randperm(n, generator=generator)[:k]
    bias = torch.zeros(n, requires_grad=True)
    optimizer = torch.optim.Adam([bias], lr=0.1)

    def overlap():
        return k_cap(received + bias.detach(), k)[targets].mean().item()

    assert overlap() < 3 * k / n
    for _ in range(200):
        optimizer.zero_grad()
        assembly_loss(received + bias, targets, k, loss, surrogate=surrogate).backward()
        optimizer.step()
    assert overlap() > 0.95


def test_losses_of_a_batch_in_half_precision():
    x, targets = draw(3, 40, dtype=torch.bfloat16), subsets(3, 40, 4)
    for loss in ("overlap", "margin"):
        exact = assembly_loss(x.double(), targets, 6, loss)
        torch.testing.assert_close(assembly_loss(x, targets, 6, loss).double(), exact, rtol=2e-2, atol=0)


GOOD = (torch.zeros(2, 6), torch.tensor([[0, 1], [2, 3]]))
ERRORS = [
    (lambda x, t: assembly_overlap_loss(x, t.int()), TypeError, "assembly_overlap_loss: targets must be int64, got"),
    (lambda x, t: assembly_overlap_loss(x.long(), t), TypeError, "assembly_overlap_loss: soft_winners must be float32"),
    (lambda x, t: assembly_overlap_loss(x, t[:, :0]), ValueError, "assembly_overlap_loss: soft_winners must have"),
    (lambda x, t: assembly_overlap_loss(x, t[None]), ValueError, "assembly_overlap_loss: the leading dimensions of"),
    (
        lambda x, t: assembly_overlap_loss(x, t.to("meta")),
        RuntimeError,
        "assembly_overlap_loss: targets must be on cpu",
    ),
    (
        lambda x, t: assembly_overlap_loss(x, t + 6),
        IndexError,
        r"assembly_overlap_loss: targets must be in 0\.\.5, got 6",
    ),
    (
        lambda x, t: assembly_margin_loss(x, t * 0, 3),
        ValueError,
        "assembly_margin_loss: targets must be distinct in each",
    ),
    (
        lambda x, t: assembly_margin_loss(x, t, 3, "x"),
        TypeError,
        "assembly_margin_loss: margin must be a number, got str",
    ),
    (lambda x, t: assembly_loss(x, t, 3, margin="x"), TypeError, "assembly_loss: margin must be a number, got str"),
    (lambda x, t: assembly_loss(x, t, 2.5), TypeError, "assembly_loss: k must be an int, got float"),
    (lambda x, t: assembly_loss(x, t - 1, 3), IndexError, r"assembly_loss: targets must be in 0\.\.5, got -1"),
    (lambda x, t: assembly_margin_loss(x, t, 1), ValueError, "assembly_margin_loss: k must be between m = 2 and n = 6"),
    (lambda x, t: assembly_margin_loss(x, t, 7), ValueError, "assembly_margin_loss: k must be between m = 2 and n = 6"),
    (lambda x, t: assembly_margin_loss(x, t, 2, -1.0), ValueError, "assembly_margin_loss: margin must be finite and"),
    (lambda x, t: assembly_loss(x, t, 2, "hinge"), ValueError, "assembly_loss: loss must be 'overlap', 'margin' or a"),
    (
        lambda x, t: assembly_loss(x, t, 2, 3),
        TypeError,
        "assembly_loss: loss must be 'overlap', 'margin' or a function",
    ),
    (lambda x, t: assembly_loss(x, t, 7), ValueError, "assembly_loss: k must be between 0 and n = 6, got 7"),
]


@pytest.mark.parametrize(("call", "error", "text"), ERRORS)
def test_errors(call, error, text):
    with pytest.raises(error, match=text):
        call(*GOOD)


def test_a_wrong_number_of_winners_is_named():
    for loss in ("overlap", lambda soft, targets: soft.sum()):
        with pytest.raises(ValueError, match=r"^assembly_loss: k must be between 0 and n = 20, got -1$"):
            assembly_loss(draw(5, 20), subsets(5, 20, 3), -1, loss)


def test_what_is_no_mapping_of_inputs_is_named():
    brain = TorchBrain(p=0.1)
    brain.add_area("A", 20, 3)
    for given in (torch.ones(20), [], 0):
        with pytest.raises(TypeError, match=r"^project: external_inputs must be a mapping of areas to tensors, got "):
            brain.project(given, {"A": ["A"]})
        with pytest.raises(TypeError, match=r"^project: projections must be "):
            brain.project({"A": torch.ones(20)}, given)
