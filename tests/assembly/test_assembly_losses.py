"""Losses on assemblies against their formulas, what descent on them reaches, and their errors."""

import pytest
import torch
from torch.autograd import gradcheck

from torch_hrr.assembly import assembly_loss, assembly_margin_loss, assembly_overlap_loss, k_cap

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


SOFT, TARGETS = torch.zeros(2, 6), torch.tensor([[0, 1], [2, 3]])
OVERLAP, MARGIN, ANY = assembly_overlap_loss, assembly_margin_loss, assembly_loss


@pytest.mark.parametrize(
    ("call", "args", "error", "argument"),
    [
        (OVERLAP, (SOFT, TARGETS.int()), TypeError, "targets"),
        (OVERLAP, (SOFT.long(), TARGETS), TypeError, "soft_winners"),
        (OVERLAP, (SOFT, TARGETS[:, :0]), ValueError, "soft_winners"),
        (OVERLAP, (SOFT, TARGETS[None]), ValueError, "the leading dimensions"),
        (OVERLAP, (SOFT, TARGETS.to("meta")), RuntimeError, "targets"),
        (OVERLAP, (SOFT, TARGETS + 6), IndexError, "targets"),
        (MARGIN, (SOFT, TARGETS * 0, 3), ValueError, "targets"),
        (MARGIN, (SOFT, TARGETS, 1), ValueError, "k"),
        (MARGIN, (SOFT, TARGETS, 7), ValueError, "k"),
        (MARGIN, (SOFT, TARGETS, 2, -1.0), ValueError, "margin"),
        (ANY, (SOFT, TARGETS - 1, 3), IndexError, "targets"),
        (ANY, (SOFT, TARGETS, 2, "hinge"), ValueError, "loss"),
        (ANY, (SOFT, TARGETS, 2, 3), TypeError, "loss"),
        (ANY, (SOFT, TARGETS, 7), ValueError, "k"),
        (ANY, (SOFT, TARGETS, -1, lambda soft, targets: soft.sum()), ValueError, "k"),
    ],
)
def test_errors_name_the_call_and_the_argument(call, args, error, argument):
    with pytest.raises(error, match=f"^{call.__name__}: {argument} "):
        call(*args)


@pytest.mark.parametrize("loss", ["overlap", "margin"])
def test_losses_are_batched_by_vmap(loss):
    inputs, targets = torch.randn(4, 10), torch.stack([torch.randperm(10)[:3] for _ in range(4)])
    each = torch.stack([assembly_loss(*pair, 4, loss) for pair in zip(inputs, targets, strict=True)])
    torch.testing.assert_close(
        torch.func.vmap(lambda row, own: assembly_loss(row, own, 4, loss))(inputs, targets), each
    )
    with pytest.raises(IndexError, match=r"^assembly_loss: targets must be in 0\.\.9, got 10"):
        torch.func.vmap(lambda row: assembly_loss(row, torch.tensor([10]), 4, loss))(inputs)
