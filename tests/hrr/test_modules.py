"""Layers against their formulas written out in sums, what they promise, and their errors."""

import copy

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from torch_hrr.hrr import functional
from torch_hrr.hrr.modules import Bind, BindSuperpose, HRRAttention, Unbind

DOUBLE = torch.float64


laws = settings(max_examples=20, derandomize=True, database=None, deadline=None)


seeds = st.integers(0, 2**32)


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def draw(*shape, seed=0, dtype=DOUBLE):
    return torch.randn(shape, generator=seeded(seed), dtype=DOUBLE).to(dtype)


def convolve(a, b):
    """The direct sum, sum_m a[m] b[n - m]."""
    n = torch.arange(a.shape[-1])
    return (a.unsqueeze(-2) * b[..., (n.unsqueeze(1) - n) % len(n)]).sum(-1)


def correlate(c, b):
    """The direct sum, sum_m c[n + m] b[m]."""
    n = torch.arange(c.shape[-1])
    return (c[..., (n.unsqueeze(1) + n) % len(n)] * b.unsqueeze(-2)).sum(-1)


def cosine(a, b):
    return (a * b).sum(-1) / (a.norm(dim=-1) * b.norm(dim=-1))


def attention_oracle(module, x, padding):
    """One sequence [T, E], a head and a step at a time."""
    width = module.embed_dim // module.num_heads
    bias = torch.zeros(3 * module.embed_dim, dtype=x.dtype) if module.in_bias is None else module.in_bias
    queries, keys, values = (x @ module.in_weight.T + bias).split(module.embed_dim, -1)
    kept = [t for t in range(len(x)) if not padding[t]]
    rows = torch.zeros_like(x)
    for head in range(module.num_heads):
        part = slice(head * width, (head + 1) * width)
        beta = sum((convolve(keys[t, part], values[t, part]) for t in kept), torch.zeros(width, dtype=x.dtype))
        cosines = {t: cosine(values[t, part], correlate(beta, queries[t, part])).exp() for t in kept}
        for t in kept:
            rows[t, part] = cosines[t] / sum(cosines.values()) * values[t, part]
    result = rows @ module.out_weight.T
    return result if module.out_bias is None else result + module.out_bias


def test_bind_is_the_circular_convolution_with_its_roles():
    single, several = Bind(12, dtype=DOUBLE), Bind(12, 4, dtype=DOUBLE)
    for shape in ((12,), (3, 12), (2, 3, 12)):
        torch.testing.assert_close(single(draw(*shape)), convolve(draw(*shape), single.weight[0]))
    for shape in ((4, 12), (3, 4, 12), (3, 1, 12)):
        torch.testing.assert_close(several(draw(*shape)), convolve(draw(*shape), several.weight))


def test_unbind_is_the_circular_correlation_with_every_role():
    single, several = Unbind(12, dtype=DOUBLE), Unbind(12, 4, dtype=DOUBLE)
    for shape in ((12,), (3, 12), (2, 3, 12)):
        x = draw(*shape)
        torch.testing.assert_close(single(x), correlate(x, single.weight[0]))
        expected = torch.stack([correlate(x, role) for role in several.weight], dim=-2)
        torch.testing.assert_close(several(x), expected)


def test_a_record_is_the_weighted_sum_of_bound_pairs():
    plain, unit = BindSuperpose(12, 4, dtype=DOUBLE), BindSuperpose(12, 4, normalize=True, dtype=DOUBLE)
    fillers, weights = draw(3, 4, 12), draw(3, 4, seed=1)
    torch.testing.assert_close(plain(fillers), convolve(fillers, plain.weight).sum(-2))
    expected = (weights.unsqueeze(-1) * convolve(fillers, unit.weight)).sum(-2)
    torch.testing.assert_close(unit(fillers, weights), expected / expected.norm(dim=-1, keepdim=True))
    torch.testing.assert_close(
        plain(fillers, weights[0]), (weights[0].unsqueeze(-1) * convolve(fillers, plain.weight)).sum(-2)
    )


@pytest.mark.parametrize("dim", (1, 2, 7, 12, 64))
def test_unitary_roles_stay_unitary_in_training_and_unbind_exactly(dim):
    bind, ask = Bind(dim, 3, True, dtype=DOUBLE), Unbind(dim, 3, True, dtype=DOUBLE)
    ask.weight = bind.weight
    first = bind.role_vectors().detach().clone()
    torch.testing.assert_close(first, bind.weight.detach())
    optimizer = torch.optim.SGD(bind.parameters(), lr=0.5)
    x, wanted = draw(8, 3, dim), draw(8, 3, dim, seed=1)
    for _ in range(5):
        optimizer.zero_grad()
        (bind(x) - wanted).square().sum().backward()
        optimizer.step()
    roles = bind.role_vectors()
    assert dim <= 2 or not torch.allclose(roles, first, atol=1e-3)
    torch.testing.assert_close(torch.fft.fft(roles).abs(), torch.ones(3, dim, dtype=DOUBLE))
    bound = bind(x)
    torch.testing.assert_close(bound.norm(dim=-1), x.norm(dim=-1))
    for k in range(3):
        torch.testing.assert_close(ask(bound[:, k])[:, k], x[:, k])


def test_a_record_answers_with_the_filler_of_the_role():
    record = BindSuperpose(1024, 5, True, generator=seeded())
    ask = Unbind(1024, 5, True)
    ask.weight = record.weight
    fillers = draw(4, 5, 1024, dtype=torch.float32)
    answers = ask(record(fillers))
    # Of k pairs with unitary roles the cosine is 1 / sqrt(k), give or take a few 1 / sqrt(D).
    torch.testing.assert_close(cosine(answers, fillers), torch.full((4, 5), 5**-0.5), rtol=0, atol=0.1)
    others = torch.einsum(
        "bid,bjd->bij", nn.functional.normalize(answers, dim=-1), nn.functional.normalize(fillers, dim=-1)
    )
    assert (others.argmax(-1) == torch.arange(5)).all()


@pytest.mark.parametrize(("heads", "bias"), ((1, False), (2, True), (3, False), (12, True)))
def test_attention_is_its_formula(heads, bias):
    module = HRRAttention(12, heads, bias, generator=seeded(), dtype=DOUBLE)
    if bias:
        nn.init.normal_(module.in_bias)
        nn.init.normal_(module.out_bias)
    x = draw(2, 3, 6, 12)
    padding = torch.rand(2, 3, 6, generator=seeded(2)) < 0.4
    result, padded = module(x), module(x, padding)
    for i in range(2):
        for j in range(3):
            torch.testing.assert_close(result[i, j], attention_oracle(module, x[i, j], [False] * 6))
            torch.testing.assert_close(padded[i, j], attention_oracle(module, x[i, j], padding[i, j].tolist()))
    weights = module.attention_weights(x, padding)
    assert weights.shape == (2, 3, heads, 6)
    torch.testing.assert_close(weights.sum(-1), torch.ones(2, 3, heads, dtype=DOUBLE))
    assert (weights.masked_select(padding.unsqueeze(-2)) == 0).all()


def causal_oracle(module, x, padding):
    """One sequence [T, E], a head and a prefix at a time."""
    width = module.embed_dim // module.num_heads
    bias = torch.zeros(3 * module.embed_dim, dtype=x.dtype) if module.in_bias is None else module.in_bias
    queries, keys, values = (x @ module.in_weight.T + bias).split(module.embed_dim, -1)
    rows = torch.zeros_like(x)
    for head in range(module.num_heads):
        part, total = slice(head * width, (head + 1) * width), 0.0
        for t in (t for t in range(len(x)) if not padding[t]):
            pairs = [convolve(keys[i, part], values[i, part]) for i in range(t + 1) if not padding[i]]
            score = cosine(values[t, part], correlate(sum(pairs), queries[t, part])).exp()
            total += score
            rows[t, part] = score / total * values[t, part]
    result = rows @ module.out_weight.T
    return result if module.out_bias is None else result + module.out_bias


@pytest.mark.parametrize(("heads", "bias"), ((1, False), (2, True), (3, True)))
def test_causal_attention_is_a_loop_over_prefixes(heads, bias):
    module = HRRAttention(12, heads, bias, generator=seeded(), dtype=DOUBLE)
    if bias:
        nn.init.normal_(module.in_bias)
        nn.init.normal_(module.out_bias)
    x = draw(2, 3, 7, 12)
    padding = torch.rand(2, 3, 7, generator=seeded(2)) < 0.4
    assert padding[..., 0].any() and padding[..., 1:].any()
    result, padded = module(x, is_causal=True), module(x, padding, True)
    for i in range(2):
        for j in range(3):
            torch.testing.assert_close(result[i, j], causal_oracle(module, x[i, j], [False] * 7))
            torch.testing.assert_close(padded[i, j], causal_oracle(module, x[i, j], padding[i, j].tolist()))
    weights = module.attention_weights(x, padding, True)
    assert weights.shape == (2, 3, heads, 7) and (weights.masked_select(padding.unsqueeze(-2)) == 0).all()
    torch.testing.assert_close(module.attention_weights(x, None, True)[..., 0], torch.ones(2, 3, heads, dtype=DOUBLE))
    # The last weight is that of the whole softmax where no cosine would change.
    torch.testing.assert_close(module(x[..., :1, :], is_causal=True), module(x[..., :1, :]))


@pytest.mark.parametrize("scale", (2.0**-15, 2.0**50))
def test_causal_weights_do_not_depend_on_the_scale_of_the_input(scale):
    module, x = HRRAttention(8, 2, generator=seeded(5)), draw(2, 6, 8, seed=6).float()
    expected = module.attention_weights(x, is_causal=True)
    torch.testing.assert_close(module.attention_weights(scale * x, is_causal=True), expected)


@laws
@given(st.integers(2, 9), seeds)
def test_nothing_later_changes_a_row_of_causal_attention(length, seed):
    module = HRRAttention(8, 2, True, generator=seeded(seed), dtype=DOUBLE)
    x = draw(2, length, 8, seed=seed + 1)
    expected, at = module(x, is_causal=True), seed % (length - 1)
    changed = x.clone()
    changed[:, at + 1 :] = torch.nan
    result = module(changed, is_causal=True)
    torch.testing.assert_close(result[:, : at + 1], expected[:, : at + 1], rtol=1e-13, atol=1e-13)
    assert result[:, at + 1 :].isnan().all()
    changed = x.clone().requires_grad_()
    (gradient,) = torch.autograd.grad(module(changed, is_causal=True)[:, at].sum(), changed)
    assert (gradient[:, at + 1 :] == 0).all() and (gradient[:, : at + 1] != 0).any()
    # Padding is left out wherever it stands, and hides what it holds.
    longer = torch.cat((torch.full((2, 2, 8), torch.nan, dtype=DOUBLE), x), dim=1)
    result = module(longer, (torch.arange(length + 2) < 2).expand(2, -1), True)
    torch.testing.assert_close(result[:, 2:], expected)


@pytest.mark.parametrize(("heads", "bias"), ((1, False), (3, True)))
def test_attention_to_a_context_is_its_formula(heads, bias):
    module = HRRAttention(12, heads, bias, generator=seeded(), dtype=DOUBLE)
    if bias:
        nn.init.normal_(module.in_bias)
        nn.init.normal_(module.out_bias)
    x, context = draw(2, 4, 12), draw(2, 6, 12, seed=1)
    padding = torch.arange(6) >= torch.tensor([[6], [4]])
    context[1, 4:] = torch.nan
    result = module(x, padding, context=context)
    width = 12 // heads
    bias = module.in_bias if bias else torch.zeros(36, dtype=DOUBLE)
    for i, kept in enumerate((6, 4)):
        queries = x[i] @ module.in_weight[:12].T + bias[:12]
        keys, values = (context[i, :kept] @ module.in_weight[12:].T + bias[12:]).split(12, -1)
        rows = torch.zeros(4, 12, dtype=DOUBLE)
        for part in (slice(head * width, (head + 1) * width) for head in range(heads)):
            beta = convolve(keys[:, part], values[:, part]).sum(0)
            rows[:, part] = correlate(beta / beta.norm(), queries[:, part])
        expected = rows @ module.out_weight.T + (0 if module.out_bias is None else module.out_bias)
        torch.testing.assert_close(result[i], expected)


def test_a_query_retrieves_the_value_of_its_key():
    """Unitary keys that are told apart: the answer has the cosine 1 / sqrt(S) with the right value."""
    module = HRRAttention(1024, generator=seeded(), dtype=torch.float32)
    nn.init.eye_(module.out_weight)
    with torch.no_grad():
        module.in_weight[:1024] = module.in_weight[1024:2048] = torch.eye(1024)
    context = functional.random(4, 1024, seeded(1), unitary=True)
    answers = module(context.flip(0), context=context)
    values = context @ module.in_weight[2048:].T
    torch.testing.assert_close(cosine(answers, values.flip(0)), torch.full((4,), 0.5), rtol=0, atol=0.08)
    assert cosine(answers, values).abs().max() < 0.12


def test_attention_to_nothing_is_nothing():
    module = HRRAttention(8, 2)
    x = torch.ones(2, 3, 8)
    for context, mask in ((torch.ones(2, 0, 8), None), (torch.ones(2, 2, 8), torch.ones(2, 2, dtype=torch.bool))):
        assert torch.equal(module(x, mask, context=context), torch.zeros(2, 3, 8))
    assert torch.equal(module(x, torch.ones(2, 3, dtype=torch.bool), True), torch.zeros(2, 3, 8))
    assert module(torch.zeros(2, 0, 8), is_causal=True).shape == (2, 0, 8)
    with pytest.raises(ValueError, match=r"^HRRAttention: is_causal must be False with a context, got True$"):
        module(x, None, True, x)
    text = r"^HRRAttention: context must have the leading dimensions of x, \[2\], got \[3\]$"
    with pytest.raises(ValueError, match=text):
        module(x, context=torch.ones(3, 3, 8))


@laws
@given(st.integers(1, 9), st.integers(0, 5), seeds)
def test_attention_ignores_padding_and_moves_with_the_order(length, padding, seed):
    module = HRRAttention(8, 2, generator=seeded(seed), dtype=DOUBLE)
    x = draw(2, length, 8, seed=seed + 1)
    order = torch.randperm(length, generator=seeded(seed))
    torch.testing.assert_close(module(x[:, order]), module(x)[:, order])
    longer = torch.cat((x, torch.full((2, padding, 8), torch.nan, dtype=DOUBLE)), dim=1).requires_grad_()
    mask = (torch.arange(length + padding) >= length).expand(2, -1)
    result = module(longer, mask)
    torch.testing.assert_close(result[:, :length], module(x))
    assert (result[:, length:] == 0).all()
    (gradient,) = torch.autograd.grad(result.square().sum(), longer)
    assert gradient.isfinite().all() and (gradient[:, length:] == 0).all()


def test_attention_of_padding_alone_and_of_nothing():
    module = HRRAttention(8, 2, True)
    nn.init.ones_(module.in_bias)
    nn.init.constant_(module.out_bias, 3.0)
    x = draw(2, 4, 8, dtype=torch.float32).requires_grad_()
    result = module(x, torch.tensor([[True] * 4, [False] * 4]))
    assert (result[0] == 3).all() and result[1].isfinite().all()
    result.sum().backward()
    assert all(p.grad.isfinite().all() for p in module.parameters()) and x.grad.isfinite().all()
    zeros = HRRAttention(8, 2)(torch.zeros(2, 4, 8, requires_grad=True))
    assert (zeros == 0).all()
    # A value of zeros, whose query is not: its cosine takes no gradient, which would be one of 1e8.
    silent, rows = HRRAttention(8, 2), draw(4, 8, dtype=torch.float32)
    nn.init.zeros_(silent.in_weight[16:, 0])
    rows[1] = torch.eye(8)[0]
    silent.attention_weights(rows.requires_grad_())[..., 1].sum().backward()
    assert rows.grad.abs().max() < 100
    assert module(torch.zeros(2, 0, 8)).shape == (2, 0, 8)
    assert module(torch.zeros(0, 4, 8)).shape == (0, 4, 8)


class LargestResult(TorchDispatchMode):
    """Remembers the size of the largest tensor that an operator returned."""

    def __init__(self):
        super().__init__()
        self.numel = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        result = func(*args, **(kwargs or {}))
        tensors = [x for x in torch.utils._pytree.tree_leaves(result) if isinstance(x, torch.Tensor)]
        self.numel = max([self.numel, *(x.numel() for x in tensors)])
        return result


@pytest.mark.parametrize("bias", [False, True])
def test_attention_computes_in_the_wider_dtype(bias):
    module = HRRAttention(8, 2, bias, generator=seeded())
    x = torch.randn(2, 5, 8, generator=seeded(), dtype=DOUBLE)
    mask = torch.arange(5).ge(3).expand(2, 5)
    expected = copy.deepcopy(module).double()(x, mask)
    assert torch.equal(module(x, mask), expected)
    half = x.to(torch.bfloat16)
    assert torch.equal(module(half), module(half.float()))


def test_memory_of_attention_is_linear_in_the_length():
    module = HRRAttention(8, 2)
    for length in (512, 4096):
        x = draw(1, length, 8, dtype=torch.float32).requires_grad_()
        for options in ({}, {"is_causal": True}, {"context": x}):
            with LargestResult() as largest:
                module(x, torch.zeros(1, length, dtype=torch.bool), **options).sum().backward()
            assert largest.numel == (2 if "context" in options else 3) * length * 8


def test_initial_scale_and_reset():
    attention = HRRAttention(256, 4, True, generator=seeded())
    for weight in (attention.in_weight, attention.out_weight, BindSuperpose(256, 100).weight):
        assert abs(weight.std().item() * 16 - 1) < 0.02
    before = attention.in_weight.detach().clone()
    nn.init.ones_(attention.in_bias)
    attention.reset_parameters(seeded(1))
    assert not torch.equal(attention.in_weight, before) and (attention.in_bias == 0).all()
    attention.reset_parameters(seeded())
    assert torch.equal(attention.in_weight, before)
    roles = Bind(16, 3, True)
    roles.reset_parameters(seeded())
    assert torch.equal(roles.weight, Bind(16, 3, True, generator=seeded()).weight)


def test_repr_shows_the_settings():
    assert repr(Bind(12)) == "Bind(dim=12, roles=1, unitary=False)"
    assert repr(Unbind(12, 3, True)) == "Unbind(dim=12, roles=3, unitary=True)"
    assert repr(BindSuperpose(12, 3)) == "BindSuperpose(dim=12, roles=3, unitary=False, normalize=False)"
    assert repr(HRRAttention(12, 3, True)) == "HRRAttention(embed_dim=12, num_heads=3, bias=True)"


def test_heads_that_do_not_divide_the_width():
    with pytest.raises(ValueError, match=r"^HRRAttention: num_heads must divide embed_dim = 4, got 3$"):
        HRRAttention(4, 3)


class Asking(nn.Module):
    """Attention to a context, which is no second argument of the layer's."""

    def __init__(self):
        super().__init__()
        self.attention = HRRAttention(4)

    def forward(self, x: torch.Tensor, context: torch.Tensor) -> torch.Tensor:
        return self.attention(x, context=context)


CALLS = [
    (lambda: Bind(4), [(3, 5)], r"Bind: x must have shape \[..., 4\], got \[3, 5\]"),
    (lambda: Bind(4), [()], r"Bind: x must have shape \[..., 4\], got \[\]"),
    (lambda: Bind(4, 3), [(2, 4)], r"Bind: x must have shape \[..., 3, 4\], got \[2, 4\]"),
    (lambda: Bind(4, 3), [(4,)], r"Bind: x must have shape \[..., 3, 4\], got \[4\]"),
    (lambda: Unbind(4, 3), [(2, 3)], r"Unbind: x must have shape \[..., 4\], got \[2, 3\]"),
    (lambda: BindSuperpose(4, 3), [(2, 4)], r"BindSuperpose: x must have shape \[..., 3, 4\], got \[2, 4\]"),
    (lambda: BindSuperpose(4, 3), [(1, 4)], r"BindSuperpose: x must have shape \[..., 3, 4\], got \[1, 4\]"),
    (lambda: BindSuperpose(4, 3), [(4,)], r"BindSuperpose: x must have shape \[..., 3, 4\], got \[4\]"),
    (lambda: BindSuperpose(4, 3), [(3, 4), (2,)], r"BindSuperpose: weights must have shape \[..., 3\], got \[2\]"),
    (lambda: BindSuperpose(4, 3), [(3, 4), ()], r"BindSuperpose: weights must have shape \[..., 3\], got \[\]"),
    (lambda: HRRAttention(4), [(2, 5)], r"HRRAttention: x must have shape \[..., T, 4\], got \[2, 5\]"),
    (lambda: HRRAttention(4), [(4,)], r"HRRAttention: x must have shape \[..., T, 4\], got \[4\]"),
    (
        lambda: HRRAttention(4),
        [(2, 5, 4), (2, 5)],
        r"HRRAttention: key_padding_mask must be bool of shape \[2, 5\], got .* of shape \[2, 5\]",
    ),
    (
        lambda: Asking(),
        [(2, 5, 4), (2, 5, 3)],
        r"HRRAttention: context must have shape \[..., S, 4\], got \[2, 5, 3\]",
    ),
    (
        lambda: Asking(),
        [(2, 5, 4), (1, 5, 4)],
        r"HRRAttention: context must have the leading dimensions of x, \[2\], got \[1\]",
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


def test_other_calls_check_their_arguments():
    attention = HRRAttention(4)
    with pytest.raises(ValueError, match=r"^HRRAttention: key_padding_mask must be bool of shape"):
        attention.attention_weights(torch.zeros(2, 5, 4), torch.zeros(5, dtype=torch.bool))
    for module, inputs in ((Bind(4), (3, 4)), (Unbind(4), (3, 4)), (BindSuperpose(4, 3), (3, 4))):
        with pytest.raises(TypeError):
            module(torch.zeros(inputs, dtype=torch.complex64))


LAYERS = (
    (lambda: Bind(8), (3, 8)),
    (lambda: Unbind(8, 2), (3, 8)),
    (lambda: BindSuperpose(8, 2), (3, 2, 8)),
    (lambda: HRRAttention(8, 2), (3, 8)),
)


@pytest.mark.parametrize(("make", "shape"), LAYERS)
def test_an_array_is_the_tensor_in_the_dtype_of_the_parameters(make, shape):
    layer = make()
    x = np.random.default_rng(0).standard_normal(shape)
    assert torch.equal(layer(x), layer(torch.from_numpy(x).float()))
    with pytest.raises(TypeError, match=rf"^{type(layer).__name__}: x must be .*, got torch.int64$"):
        layer(np.ones(shape, dtype=np.int64))


@pytest.mark.parametrize(("make", "shape"), LAYERS)
def test_a_tensor_of_another_device_is_named(make, shape):
    layer = make()
    with pytest.raises(RuntimeError, match=rf"^{type(layer).__name__}: x must be on cpu, got meta$"):
        layer(torch.ones(shape, device="meta"))


def test_a_layer_is_a_leaf_of_fx_or_an_error_says_so():
    class Leaves(torch.fx.Tracer):
        def is_leaf_module(self, module, name):
            return isinstance(module, Bind) or super().is_leaf_module(module, name)

    model, x = nn.Sequential(Bind(8), nn.ReLU()), torch.randn(3, 8)
    with pytest.raises(TypeError, match=r"^Bind: x must have a shape, got a Proxy of torch.fx: make the module a leaf"):
        torch.fx.symbolic_trace(model)
    assert torch.equal(torch.fx.GraphModule(model, Leaves().trace(model))(x), model(x))
