"""Layers for networks: binding with learnable roles, records, and attention by unbinding a superposition.

All can be scripted, exported and compiled like any module of torch. They take float32, float64, float16 and bfloat16 on
any device, and are differentiable in input and parameters. NumPy arrays go to the device and dtype of the parameters.
Parameters are drawn on the CPU, so that a generator gives the same ones on every device, and live on the given device,
else on that of `runtime.set_device`, else on torch's default device.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch._jit_internal import is_scripting

from torch_hrr._checks import (
    check_bool,
    check_elements,
    check_floating,
    check_generator,
    check_strided,
    placed,
    resolve_dtype,
)
from torch_hrr._repr import DescribedModule
from torch_hrr._sharding import fill
from torch_hrr._spec import Bool, Device, Dtype, Generator, Int, Spec, takes
from torch_hrr.hrr import functional
from torch_hrr.runtime.device import resolve_parameter_device

# Where and how parameters are drawn.
DRAWN: dict[str, Spec] = {"generator": Generator(), "device": Device(), "dtype": Dtype().or_none()}


class _Roles(DescribedModule):
    """K learnable role vectors.

    Attributes:
        weight: The parameter, ``[K, D]``; the roles themselves unless they are unitary.
    """

    @takes(dim=Int(1), roles=Int(1), unitary=Bool(), **DRAWN)
    def __init__(
        self,
        dim: int,
        roles: int = 1,
        unitary: bool = False,
        *,
        generator: torch.Generator | None = None,
        device: torch.device | str | int | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        """Draws the roles as `functional.random` does, from N(0, 1/D) or unitary.

        Args:
            dim: D, at least 1.
            roles: K, at least 1.
            unitary: Whether roles are unitary and stay so: in every call the layer then uses ``unitary(weight)``, the
                projection of the parameter, and gradients pass through the projection.
            generator: A CPU generator; None draws from torch's default one.
            device: Device of the parameter; None means that of `runtime.set_device`, if called, else torch's default.
            dtype: dtype of the parameter; None means torch's default dtype.
        """
        super().__init__()
        self.dim, self.roles, self.unitary = dim, roles, unitary
        self.weight = nn.Parameter(empty_matrix(type(self).__name__, (roles, dim), device, dtype))
        self.reset_parameters(generator)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draws the roles anew."""
        draw_rows("reset_parameters", self.weight, generator, self.unitary)

    def role_vectors(self) -> Tensor:
        """The roles in use, ``[K, D]``: the parameter, or its projection onto unitary vectors."""
        if self.unitary:
            projected: Tensor = torch.ops.torch_hrr.unitary(self.weight)
            return projected
        return self.weight

    def _summary(self) -> dict[str, Any]:
        return {"dim": self.dim, "roles": self.roles, "unitary": self.unitary}


class Bind(_Roles):
    """Binds fillers to learnable roles: ``y[..., k, :] = bind(x[..., k, :], role_k)``.

    Input ``[..., D]`` for one role, else ``[..., K, D]``, where a dimension of 1 in place of K binds the same filler to
    every role. Output ``[..., D]`` or ``[..., K, D]``. Deterministic as `functional.bind`; O(D log D) a row.

    Source: Plate, Holographic reduced representations, IEEE Transactions on Neural Networks 6(3), 1995; the projection
    onto unitary vectors: Ganesan et al., Learning with holographic reduced representations, NeurIPS 2021.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Binds; ValueError for another shape, TypeError for another dtype than above."""
        x = taken("Bind", "x", x, self.weight)
        roles = self.role_vectors()
        if self.roles == 1:
            x = taken_rows("Bind", "x", x, 0, self.dim, self.weight)
            roles = roles[0]
        elif x.dim() < 2 or x.shape[-1] != self.dim or (x.shape[-2] != self.roles and x.shape[-2] != 1):
            raise ValueError(f"Bind: x must have shape [..., {self.roles}, {self.dim}], got {list(x.shape)}")
        bound: Tensor = torch.ops.torch_hrr.bind(x, roles)
        return bound


class Unbind(_Roles):
    """Queries a record for the fillers of learnable roles: ``y[..., k, :] = unbind(x, role_k)``.

    Input ``[..., D]``, output ``[..., D]`` for one role, else ``[..., K, D]``. The result is the filler plus noise from
    everything else in the record; if roles are unitary, that is the only noise. To query with the roles of another
    layer, share its parameter, ``unbind.weight = record.weight``, and its setting of ``unitary``. Deterministic as
    `functional.unbind`; O(D log D) a row of the output. Source: as `Bind`.
    """

    def forward(self, x: Tensor) -> Tensor:
        """Unbinds; ValueError for another shape, TypeError for another dtype than above."""
        x = taken_rows("Unbind", "x", x, 0, self.dim, self.weight)
        roles = self.role_vectors()
        if self.roles == 1:
            roles = roles[0]
        else:
            x = x.unsqueeze(-2)
        fillers: Tensor = torch.ops.torch_hrr.unbind(x, roles)
        return fillers


class BindSuperpose(_Roles):
    """A record with learnable roles: ``y = sum_k w_k bind(role_k, x[..., k, :])``, divided by its norm on request.

    Input ``[..., K, D]`` and weights ``[..., K]`` (None: ones), output ``[..., D]``. One pass of 2 K + 1 transforms a
    record, without a ``[K, D]`` temporary; deterministic as `functional.bind_superpose`. Source: as `Bind`.
    """

    @takes(normalize=Bool())
    def __init__(
        self,
        dim: int,
        roles: int,
        unitary: bool = False,
        normalize: bool = False,
        *,
        generator: torch.Generator | None = None,
        device: torch.device | str | int | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        """As `Bind`; ``normalize`` says whether records are divided by ``max(norm2, 1e-12)``."""
        super().__init__(dim, roles, unitary, generator=generator, device=device, dtype=dtype)
        self.normalize = normalize

    def forward(self, x: Tensor, weights: Tensor | None = None) -> Tensor:
        """Makes the record; ValueError for another shape, TypeError for another dtype than above."""
        x = taken_rows("BindSuperpose", "x", x, self.roles, self.dim, self.weight)
        if weights is not None:
            weights = taken_rows("BindSuperpose", "weights", weights, 0, self.roles, self.weight)
        record: Tensor = torch.ops.torch_hrr.bind_superpose(self.role_vectors(), x, weights, self.normalize)
        return record

    def _summary(self) -> dict[str, Any]:
        return super()._summary() | {"normalize": self.normalize}


class HRRAttention(DescribedModule):
    """Multi-head attention linear in the sequence length, through one superposition of bound keys and values.

    For each head, with ``q_t, k_t, v_t`` of width ``E / heads`` and padding left out of every sum::

        beta = sum_i bind(k_i, v_i),  beta := beta / norm2(beta)
        a_t  = cos(v_t, unbind(beta, q_t))
        w    = softmax over t of a_t
        y_t  = w_t v_t

    and the concatenated heads go through an output projection. This is the attention of the authors' code, with two
    differences: beta has unit norm, which leaves the cosine as it is and keeps float16 in range; and padding is left
    out of beta too, not only of the softmax, so that a result does not depend on how far or with what a sequence was
    padded.

    Row t of a head's output is a multiple of ``v_t`` alone: positions meet in the weights, which are about 1/T in size.
    Nothing marks order, so positions must be added to the input.

    With ``is_causal`` every position has the superposition and the softmax of what came up to it, as a recurrent net
    would have them that is given one position after the other::

        beta_t = sum_{i <= t} bind(k_i, v_i)
        a_t    = cos(v_t, unbind(beta_t, q_t))
        y_t    = exp(a_t) / (sum_{i <= t} exp(a_i)) v_t

    Cosines are not taken again when more is known: that would take time quadratic in T. Nothing later changes a row.

    With a ``context`` keys and values are those of its S positions. No ``v_t`` belongs to a query then, so that the
    answer is what its key retrieves, values of the context and noise, of about the norm of the query::

        y_t = unbind(beta, q_t)

    This form is not in the paper. Masks of pairs of positions would take a superposition each, and are not taken.

    Input ``[..., T, E]``, output the same. O(T E log(E / heads) + T E^2) time and O(T E) memory, with T + S for T where
    there is a context. The binding is deterministic as `functional.bind`, the projections are as deterministic as
    torch's matrix products, prefixes as its `cumsum`. For half types the cosine, the softmax and prefixes are computed
    in float32.

    Attributes:
        in_weight: ``[3 E, E]``, the projections to queries, keys and values, drawn from N(0, 1/E) as ``out_weight``.
        in_bias: ``[3 E]``, zeros at first, or None.
        out_weight: ``[E, E]``.
        out_bias: ``[E]`` or None.

    Source: Alam, Raff, Biderman, Oates and Holt, Recasting self-attention with holographic reduced representations,
    ICML 2023.
    """

    @takes(embed_dim=Int(1), num_heads=Int(1), bias=Bool(), **DRAWN)
    def __init__(
        self,
        embed_dim: int,
        num_heads: int = 1,
        bias: bool = False,
        *,
        generator: torch.Generator | None = None,
        device: torch.device | str | int | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        """Draws the projections.

        Args:
            embed_dim: E, at least 1.
            num_heads: Number of heads, a divisor of E.
            bias: Whether the projections have biases; the paper's have none.
            generator: A CPU generator; None draws from torch's default one.
            device: Device of the parameters; None means that of `runtime.set_device`, if called, else torch's default.
            dtype: dtype of the parameters; None means torch's default dtype.

        Raises:
            ValueError: ``num_heads`` does not divide ``embed_dim``.
        """
        super().__init__()
        if embed_dim % num_heads:
            raise ValueError(f"HRRAttention: num_heads must divide embed_dim = {embed_dim}, got {num_heads}")
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.in_weight = nn.Parameter(empty_matrix("HRRAttention", (3 * embed_dim, embed_dim), device, dtype))
        self.out_weight = nn.Parameter(torch.empty_like(self.in_weight[:embed_dim]))
        self.in_bias = nn.Parameter(torch.zeros_like(self.in_weight[:, 0])) if bias else None
        self.out_bias = nn.Parameter(torch.zeros_like(self.out_weight[:, 0])) if bias else None
        self.reset_parameters(generator)

    def reset_parameters(self, generator: torch.Generator | None = None) -> None:
        """Draws the projections anew and sets biases to 0."""
        draw_rows("reset_parameters", self.in_weight, generator)
        draw_rows("reset_parameters", self.out_weight, generator)
        for bias in (self.in_bias, self.out_bias):
            if bias is not None:
                nn.init.zeros_(bias)

    def forward(
        self,
        x: Tensor,
        key_padding_mask: Tensor | None = None,
        is_causal: bool = False,
        context: Tensor | None = None,
    ) -> Tensor:
        """Attends.

        Args:
            x: ``[..., T, E]``.
            key_padding_mask: bool ``[..., T]``, true where ``x`` is padding, as in `torch.nn.MultiheadAttention`;
                values there, even NaN, are ignored. With a context its padding, ``[..., S]``.
            is_causal: Whether a position attends to those up to it alone; without a context.
            context: ``[..., S, E]`` of the leading dimensions of ``x``, where keys and values come from; None for x.

        Returns:
            ``[..., T, E]``; zero, or the output bias, at padding. In the widest of the dtypes of ``x``, context and
            weights.

        Raises:
            TypeError: ``x``, the context or the mask is not a tensor, or of a dtype the operators do not take.
            ValueError: A shape is not as above, or ``is_causal`` is given with a context.
            RuntimeError: A tensor is on another device than the parameters.
        """
        if context is None:
            values, weights = self._attend(x, key_padding_mask, is_causal)
            heads = weights.unsqueeze(-1).to(values.dtype) * values
        else:
            heads = self._retrieve(x, key_padding_mask, is_causal, context)
        return _linear(heads.transpose(-3, -2).flatten(-2), self.out_weight, self.out_bias)

    @torch.jit.export
    def attention_weights(self, x: Tensor, key_padding_mask: Tensor | None = None, is_causal: bool = False) -> Tensor:
        """The weights ``w`` of `forward`, ``[..., heads, T]``, at least float32: 0 at padding, else they sum to 1.

        With ``is_causal`` the factor of each ``v_t``, which is 1 at the first and about 1/t later.
        """
        return self._attend(x, key_padding_mask, is_causal)[1]

    def _attend(self, x: Tensor, mask: Tensor | None, is_causal: bool) -> tuple[Tensor, Tensor]:
        """Values ``[..., heads, T, E / heads]`` and their weights ``[..., heads, T]``."""
        _check_flag(is_causal)
        x = self._taken("x", x)
        x, mask, kept = self._masked(x, mask)
        projected = _linear(x, self.in_weight, self.in_bias).unflatten(-1, (3, self.num_heads, -1))
        queries, keys, values = projected.unbind(-3)
        queries, keys, values = queries.transpose(-3, -2), keys.transpose(-3, -2), values.transpose(-3, -2)
        if is_causal:
            superposed = _prefixes(keys, values, kept)
        else:
            superposed = torch.ops.torch_hrr.bind_superpose(keys, values, kept, True).unsqueeze(-2)
        retrieved: Tensor = torch.ops.torch_hrr.unbind(superposed, queries)
        cosines = F.cosine_similarity(_steady_at_zero(widen(values)), _steady_at_zero(widen(retrieved)), dim=-1)
        if is_causal:
            exponentials = cosines.exp() if mask is None else cosines.exp().masked_fill(mask, 0.0)
            # No term but those of padding is below exp(-1).
            return values, exponentials / exponentials.cumsum(-1).clamp_min(0.1)
        if mask is None:
            return values, cosines.softmax(-1)
        # Cosines are at most 1 and exp(-1e4) is 0 in every dtype. Twice, because a softmax of padding alone is uniform.
        return values, cosines.masked_fill(mask, -1e4).softmax(-1).masked_fill(mask, 0.0)

    def _retrieve(self, x: Tensor, mask: Tensor | None, is_causal: bool, context: Tensor) -> Tensor:
        """What the queries of ``x`` retrieve from a context, ``[..., heads, T, E / heads]``."""
        _check_flag(is_causal)
        if is_causal:
            raise ValueError("HRRAttention: is_causal must be False with a context, got True")
        x, context = self._taken("x", x), self._taken("context", context)
        if context.shape[:-2] != x.shape[:-2]:
            raise ValueError(
                f"HRRAttention: context must have the leading dimensions of x, {list(x.shape[:-2])}, "
                f"got {list(context.shape[:-2])}"
            )
        context, _, kept = self._masked(context, mask)
        bias, of_queries = self.in_bias, self.embed_dim
        queries = _linear(x, self.in_weight[:of_queries], None if bias is None else bias[:of_queries])
        pairs = _linear(context, self.in_weight[of_queries:], None if bias is None else bias[of_queries:])
        keys, values = pairs.unflatten(-1, (2, self.num_heads, -1)).unbind(-3)
        superposed: Tensor = torch.ops.torch_hrr.bind_superpose(
            keys.transpose(-3, -2), values.transpose(-3, -2), kept, True
        )
        queries = queries.unflatten(-1, (self.num_heads, -1)).transpose(-3, -2)
        retrieved: Tensor = torch.ops.torch_hrr.unbind(superposed.unsqueeze(-2), queries)
        return retrieved

    def _taken(self, argument: str, x: Tensor) -> Tensor:
        x = taken("HRRAttention", argument, x, self.in_weight)
        if x.dim() < 2 or x.shape[-1] != self.embed_dim:
            length = "T" if argument == "x" else "S"
            raise ValueError(
                f"HRRAttention: {argument} must have shape [..., {length}, {self.embed_dim}], got {list(x.shape)}"
            )
        return x

    def _masked(self, x: Tensor, mask: Tensor | None) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """The input without padding, the mask of all heads, and weights that are 0 at padding."""
        kept: Tensor | None = None
        if mask is not None:
            mask = taken("HRRAttention", "key_padding_mask", mask, self.in_weight, False)
            if mask.dtype != torch.bool or mask.shape != x.shape[:-1]:
                raise ValueError(
                    f"HRRAttention: key_padding_mask must be bool of shape {list(x.shape[:-1])}, "
                    f"got {mask.dtype} of shape {list(mask.shape)}"
                )
            x = x.masked_fill(mask.unsqueeze(-1), 0.0)
            mask = mask.unsqueeze(-2)
            kept = mask.logical_not().to(x.dtype)
        return x, mask, kept

    def _summary(self) -> dict[str, Any]:
        return {"embed_dim": self.embed_dim, "num_heads": self.num_heads, "bias": self.in_bias is not None}


def _check_flag(is_causal: bool) -> None:
    if is_scripting():
        return
    else:
        check_bool("HRRAttention", "is_causal", is_causal)


def _prefixes(keys: Tensor, values: Tensor, kept: Tensor | None) -> Tensor:
    """``sum_{i <= t} bind(k_i, v_i)`` divided by its largest element, which does not change a cosine."""
    bound: Tensor = torch.ops.torch_hrr.bind(widen(keys), widen(values))
    bound = widen(bound)
    if kept is not None:
        bound = bound * kept.unsqueeze(-1)
    sums = bound.cumsum(-2)
    largest = sums.detach().abs().amax(-1, keepdim=True)
    return sums / torch.where(largest > 0, largest, 1.0)


def _linear(x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
    """The product in the wider of the two dtypes, as that of the operators; under autocast in its own."""
    kind = torch.promote_types(x.dtype, weight.dtype)
    return F.linear(x.to(kind), weight.to(kind), None if bias is None else bias.to(kind))


def _steady_at_zero(x: Tensor) -> Tensor:
    """The same rows, but those of zeros take no gradient: torch's cosine has one of 1e8 there, infinite in float16."""
    return torch.where(x.detach().ne(0).any(-1, keepdim=True), x, x.detach())


def widen(x: Tensor) -> Tensor:
    """Half types to float32, others as they are."""
    return x.float() if x.dtype == torch.float16 or x.dtype == torch.bfloat16 else x


def taken(name: str, argument: str, x: Tensor, weight: Tensor, floating: bool = True) -> Tensor:
    """What a layer takes beside its parameters; as it is in TorchScript, where compiler and operators check.

    A tensor is checked, and must be where they are. An array goes there, and into their dtype if it must be floating.
    """
    if is_scripting():
        return x
    else:
        given = placed(name, argument, x, weight.device)
        check = check_floating if floating else check_strided
        check(name, argument, given)
        # The product of a meta tensor with a weight that holds data is no error of torch's.
        if given.device != weight.device:
            raise RuntimeError(f"{name}: {argument} must be on {weight.device}, got {given.device}")
        return given.to(weight.dtype) if floating and given is not x else given


def taken_rows(name: str, argument: str, x: Tensor, items: int, dim: int, weight: Tensor) -> Tensor:
    """As `taken`; ValueError unless the shape is ``[..., items, dim]``, or ``[..., dim]`` for no items."""
    x = taken(name, argument, x, weight)
    if items == 0:
        if x.dim() == 0 or x.shape[-1] != dim:
            raise ValueError(f"{name}: {argument} must have shape [..., {dim}], got {list(x.shape)}")
    elif x.dim() < 2 or x.shape[-1] != dim or x.shape[-2] != items:
        raise ValueError(f"{name}: {argument} must have shape [..., {items}, {dim}], got {list(x.shape)}")
    return x


def empty_matrix(
    name: str, shape: tuple[int, int], device: torch.device | str | int | None, dtype: torch.dtype | None
) -> Tensor:
    """A matrix to be filled; TypeError for a dtype the operators do not take."""
    dtype = resolve_dtype(name, dtype)
    check_elements(name, "the parameters", shape)
    return torch.empty(shape, device=resolve_parameter_device(device, op=name), dtype=dtype)


def draw_rows(name: str, weight: Tensor, generator: torch.Generator | None, unitary: bool = False) -> None:
    """Fills a matrix with rows of `functional.random`, drawn on the CPU whatever torch's default device is."""
    check_generator(name, generator)
    with torch.no_grad(), torch.device("cpu"):
        fill(weight, functional.random(weight.shape[0], weight.shape[1], generator, unitary, "cpu", torch.float64))
