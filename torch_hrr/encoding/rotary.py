"""Rows turned by their positions, and the frequencies by which published models turn them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from torch_hrr._checks import (
    brief,
    check_bool,
    check_out,
    check_strided,
    close_to,
    integer,
    listed,
    meant,
    named,
    number,
    optional_tensor,
    positive,
    real,
    signed,
    tensor,
    word,
)
from torch_hrr._ops import ops as _ops
from torch_hrr._sharding import beside

LAYOUTS = ("interleaved", "half")


def rotate(
    x: Tensor,
    positions: Tensor | None = None,
    base: float = 10000.0,
    scale: float = 1.0,
    layout: str = "interleaved",
    *,
    frequencies: Tensor | None = None,
    factor: float = 1.0,
    dims: int | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Turns the pairs of every row by the angles of its position: the R(k) for which ``PE(t + k) = R(k) PE(t)``.

    Pair i is elements 2i and 2i + 1 ("interleaved") or i and i + dims/2 ("half"), as `sinusoidal_encoding` lays out the
    sine and the cosine of frequency ``f_i = scale base^(-2i/dims)``; a pair (s, c) becomes ``factor (s cos(a) + c
    sin(a), c cos(a) - s sin(a))`` with ``a = position f_i``. So ``rotate(PE(t), k)`` is ``PE(t + k)``, norms are kept
    up to the factor, and the score of rotated queries and keys, ``<rotate(q, i), rotate(k, j)>``, depends on q, k and
    i - j alone, at large positions too: angles are those of `sinusoidal_encoding`, which err by at most ``2 pi 2^-64
    |position|``. Published rotary embeddings turn the other way, as `rope` does.

    Differentiable in ``x``, ``frequencies`` and floating positions, in every mode; the gradient of ``x`` is turned
    back, and nothing of ``x`` is kept for it. Half types are computed in float32 and rounded once, under autocast too.
    A NaN or infinite position gives NaN where the row turns. Deterministic: the same bits on every instruction set and,
    according to tests that run the kernels on the host, on CUDA, whatever the threads and strides, new or in place.
    Cost: each row is read and written once; rows that share a position share its sines and cosines.

    Args:
        x: ``[..., D]``, float32, float64, float16 or bfloat16: queries, keys or any rows that have positions. The rows
            may lie anywhere in memory, as those of a transposed view do.
        positions: ``[..., L]``, integer or floating, broadcast with the rows of ``x``; None means 0 to L - 1 along the
            dimension before the last.
        base: as for `sinusoidal_encoding`.
        scale: as for `sinusoidal_encoding`.
        layout: "interleaved" or "half".
        frequencies: ``[F]`` in radians per position, taken as exact, in place of ``scale base^(-2i/dims)``: for example
            those of `rope_frequencies`.
        factor: of what is turned, finite.
        dims: how many of a row's first elements turn, an even number; the others are copied. None means all D, or
            2 F with ``frequencies``.
        out: optional result of the shape and dtype of the result that shares no memory with ``x``, or ``x`` itself,
            which is then changed in place; no gradient.

    Returns:
        The turned rows in the dtype of ``x``, or ``out``.

    Raises:
        TypeError: a tensor has a dtype not named above.
        ValueError: a number or ``layout`` is outside its range, D is odd without ``dims`` or smaller than what turns,
            ``positions`` and rows do not broadcast, ``out`` has another shape, or ``base`` or ``scale`` is given
            beside ``frequencies``.
        RuntimeError: devices differ, or ``out`` shares memory with an argument or would need a gradient.

    Source: Su et al., RoFormer: enhanced transformer with rotary position embedding, 2021; Vaswani et al. 2017, section
    3.5, for R(k).
    """
    return _turned("rotate", x, positions, base, scale, layout, frequencies, factor, dims, out, inverse=False)


def rope(
    x: Tensor,
    positions: Tensor | None = None,
    base: float = 10000.0,
    scale: float = 1.0,
    layout: str = "interleaved",
    *,
    frequencies: Tensor | None = None,
    factor: float = 1.0,
    dims: int | None = None,
    out: Tensor | None = None,
) -> Tensor:
    """Rotary position embedding as published models apply it: `rotate`, turned the other way.

    A pair (x, y) becomes ``factor (x cos(a) - y sin(a), y cos(a) + x sin(a))`` with ``a = position f_i``. ``layout``
    "half" is that of Llama, GPT-NeoX and most models in transformers, "interleaved" that of RoFormer, GPT-J and
    torchtune. Arguments, results, errors, gradients and cost are those of `rotate`.

    Source: Su et al., RoFormer: enhanced transformer with rotary position embedding, 2021.
    """
    return _turned("rope", x, positions, base, scale, layout, frequencies, factor, dims, out, inverse=True)


def _turned(
    op: str,
    x: Tensor,
    positions: Tensor | None,
    base: float,
    scale: float,
    layout: str,
    frequencies: Tensor | None,
    factor: float,
    dims: int | None,
    out: Tensor | None,
    inverse: bool,
) -> Tensor:
    in_place = out is x
    x = tensor(op, "x", x)
    word(op, "layout", layout)
    base, scale, factor = real(op, "base", base), real(op, "scale", scale), real(op, "factor", factor)
    dims = None if dims is None else signed(op, "dims", dims)
    frequencies = optional_tensor(op, "frequencies", frequencies)
    if positions is None:
        check_strided(op, "x", x)
        if x.dim() < 2:
            raise ValueError(f"{op}: x must have shape [..., L, D] without positions, got {list(x.shape)}")
        positions = beside(torch.arange(x.shape[-2], device=x.device), x)
    else:
        positions = tensor(op, "positions", positions)
    given = (x, positions, frequencies, base, scale, layout, factor, dims, inverse)
    if out is None:
        with named("rotate", op):
            turned: Tensor = _ops.rotate.default(*given)
        return turned
    check_out(op, out)
    if in_place:
        with named("rotate_", op):
            _ops.rotate_.default(*given)
    else:
        with named("rotate", op):
            _ops.rotate.out(*given, out=out)
    return out


# What each kind of rope_parameters must say, and what it may say beside the entries of every kind.
_REQUIRED: Mapping[str, tuple[str, ...]] = {
    "default": (),
    "linear": ("factor",),
    "dynamic": ("factor",),
    "proportional": (),
    "yarn": (),
    "llama3": ("factor", "low_freq_factor", "high_freq_factor"),
    "longrope": ("short_factor", "long_factor"),
}
_OPTIONAL: Mapping[str, tuple[str, ...]] = {
    "proportional": ("factor",),
    "yarn": ("factor", "attention_factor", "beta_fast", "beta_slow", "mscale", "mscale_all_dim", "truncate"),
    "longrope": ("factor", "attention_factor"),
}
# Of a whole config, what belongs to its rope_parameters.
_OUTSIDE = ("rope_theta", "partial_rotary_factor", "original_max_position_embeddings", "max_position_embeddings")
_ANY = ("rope_type", "type", *_OUTSIDE)
_NO_NUMBERS = ("rope_type", "type", "short_factor", "long_factor", "truncate")
# They say which positions turn which pairs, and how queries grow, but change no frequency.
_ASIDE = ("mrope_section", "mrope_interleaved", "llama_4_scaling_beta")
_FORMS = ("rope_parameters", "rope_scaling")
# What whole configs from before rope_parameters say in their own words.
_OWN_WORDS = ("rotary_pct", "rotary_emb_base", "rotary_dim", "rope_local_base_freq", "global_rope_theta")
# Older names.
_TYPES = {"su": "longrope", "mrope": "default"}


def rope_frequencies(
    rope_parameters: Mapping[str, Any], head_dim: int, length: int | None = None
) -> tuple[Tensor, float]:
    """The frequencies and the factor that a published model's config asks for: what `rope` takes.

    ``frequencies, factor = rope_frequencies(config.to_dict(), head_dim)`` and then ``rope(q, positions, layout="half",
    frequencies=frequencies, factor=factor)``. With R = ``head_dim * partial_rotary_factor``, rounded down, and
    ``e_i = rope_theta^(-2i/R)``:

    * "default": ``e_i``; "linear": ``e_i / factor``
    * "dynamic" (NTK): rope_theta is multiplied by ``(factor L / M - (factor - 1))^(R / (R - 2))``, where M is
      max_position_embeddings and L the longest sequence so far, at least M
    * "proportional": the first ``partial_rotary_factor`` of the pairs turn, with exponents over the whole head, divided
      by ``factor``; the other frequencies are 0
    * "yarn": from ``e_i`` to ``e_i / factor`` by a ramp over the pairs between those that turn ``beta_fast`` and
      ``beta_slow`` times in the original length; the factor is ``0.1 ln(factor) + 1``, a ratio of two such numbers with
      ``mscale`` and ``mscale_all_dim``, or ``attention_factor``
    * "llama3": ``e_i`` for waves shorter than the original length over ``high_freq_factor``, ``e_i / factor`` for those
      longer than it over ``low_freq_factor``, and between them in proportion to the frequency
    * "longrope": ``e_i / long_factor_i`` if ``length`` exceeds the original length, else ``e_i / short_factor_i``; the
      factor is ``sqrt(1 + ln(factor) / ln(original length))``

    In float64, from the numbers as they are; transformers computes them in float32, so that its sines and cosines
    differ by up to 7e-3 at position 1e5.

    Args:
        rope_parameters: as in a config of transformers 5, the ``rope_scaling`` of older ones, or a whole config as a
            mapping (``config.to_dict()``), whose ``rope_theta``, ``partial_rotary_factor``,
            ``max_position_embeddings`` and ``original_max_position_embeddings`` then count too: "dynamic" needs the
            third, and "longrope" without a factor the last two. Of layers of several kinds, those of one kind
            (``config.rope_parameters["full_attention"]``). rope_theta is 10000 if nothing says otherwise.
            ``mrope_section``, ``mrope_interleaved`` and ``llama_4_scaling_beta`` change no frequency.
        head_dim: width of a head, at least 2.
        length: of "dynamic" the longest sequence so far, of "longrope" the one at hand; others do not depend on it.
            None means no more than the model was made for.

    Returns:
        The frequencies, float64 on the CPU, in radians per position, and the factor. There are R / 2 of them, for an
        odd R one more than that rounded down, as in transformers.

    Raises:
        TypeError: an argument or an entry is of another type.
        ValueError: the type is unknown, an entry is missing, out of its range, unknown or one of another kind, or
            entries contradict each other: ``type`` and ``rope_type``, ``rope_parameters`` and ``rope_scaling``, a
            number inside and outside, or the factor of "yarn" or "longrope" and the ratio of the two lengths.
            transformers takes one of them and at most warns.

    Source: Chen et al., Extending context window of large language models via positional interpolation, 2023; Peng et
    al., YaRN: efficient context window extension of large language models, 2023; Ding et al., LongRoPE: extending LLM
    context window beyond 2 million tokens, 2024; Grattafiori et al., The Llama 3 herd of models, 2024; transformers
    5.23, modeling_rope_utils.
    """
    op = "rope_frequencies"
    head_dim = integer(op, "head_dim", head_dim, 2)
    length = None if length is None else integer(op, "length", length, 1)
    given = _Parameters(op, _flat(op, rope_parameters))
    share = given.real("partial_rotary_factor", 1.0, most=1.0)
    theta = given.real("rope_theta", 10000.0)
    turned = int(head_dim * share)
    if given.kind == "proportional":
        pairs = int(share * head_dim // 2)
        exponents = torch.arange(pairs, dtype=torch.float64, device="cpu") * (2 / head_dim)
        still = torch.zeros(head_dim // 2 - pairs, dtype=torch.float64, device="cpu")
        return torch.cat((theta**-exponents, still)) / given.real("factor", 1.0), 1.0
    if turned < 1 or turned + turned % 2 > head_dim:
        raise ValueError(
            f"{op}: head_dim times partial_rotary_factor must be at least 1 and leave room for whole pairs, got "
            f"{head_dim} times {share:g}"
        )
    exponents = torch.arange(0, turned, 2, dtype=torch.float64, device="cpu") / turned
    plain = theta**-exponents
    if given.kind == "dynamic":
        return _dynamic(given, turned, exponents, plain, length), 1.0
    if given.kind == "linear":
        return plain / given.real("factor"), 1.0
    if given.kind == "yarn":
        return _yarn(given, theta, turned, plain)
    if given.kind == "llama3":
        return _llama3(given, plain), 1.0
    if given.kind == "longrope":
        return _longrope(given, plain, length)
    return plain, 1.0


def _flat(op: str, given: Any) -> dict[str, Any]:
    """One level of entries: those of a whole config are put beside its rope_parameters."""
    if not isinstance(given, Mapping):
        raise TypeError(f"{op}: rope_parameters must be a mapping, got {brief(given)}")
    if not any(name in given for name in _FORMS):
        if "model_type" in given:
            raise ValueError(
                f"{op}: a whole config must have rope_parameters or rope_scaling, as those that transformers writes, "
                f"got one of {brief(given['model_type'])} with neither"
            )
        return _entries(op, given)
    forms = [given[name] for name in _FORMS if given.get(name) is not None]
    if len(forms) == 2 and forms[0] != forms[1]:
        raise ValueError(f"{op}: rope_parameters and rope_scaling must agree, got {forms[0]} and {forms[1]}")
    if given.get("rope_parameters") is None:
        for name in _OWN_WORDS:
            if given.get(name) is not None:
                raise ValueError(f"{op}: a whole config with {name} must have rope_parameters, got none")
    inside = _entries(op, forms[0]) if forms else {}
    for name in _OUTSIDE:
        outside = given.get(name)
        if outside is not None and inside.setdefault(name, outside) != outside:
            raise ValueError(f"{op}: {name} must be the same inside and outside, got {inside[name]} and {outside}")
    return inside


def _entries(op: str, given: Any) -> dict[str, Any]:
    """Those that are not None."""
    if not isinstance(given, Mapping):
        raise TypeError(f"{op}: rope_parameters must be a mapping, got {brief(given)}")
    entries = {name: value for name, value in given.items() if value is not None}
    nested = [str(name) for name, value in entries.items() if isinstance(value, Mapping)]
    if nested:
        raise ValueError(
            f"{op}: rope_parameters must be those of one kind of layer, got a mapping of {', '.join(nested)}"
        )
    return entries


class _Parameters:
    """The entries of rope_parameters, checked as they are asked for."""

    def __init__(self, op: str, entries: dict[str, Any]) -> None:
        self.op, self.entries = op, entries
        for name in ("rope_type", "type"):
            word(op, name, entries.get(name, ""))
        kinds = {_TYPES.get(entries[name], entries[name]) for name in ("rope_type", "type") if name in entries}
        if len(kinds) > 1:
            raise ValueError(f"{op}: rope_type and type must agree, got {entries['rope_type']} and {entries['type']}")
        kind = kinds.pop() if kinds else "default"
        if kind not in _REQUIRED:
            raise ValueError(
                f"{op}: rope_type must be one of {', '.join(_REQUIRED)}, got {brief(kind)}"
                f"{meant(close_to(str(kind), _REQUIRED))}"
            )
        self.kind: str = kind
        known = (*_ANY, *_REQUIRED[kind], *_OPTIONAL.get(kind, ()))
        for name in entries:
            if name not in known and name not in _ASIDE:
                raise ValueError(
                    f"{op}: rope_parameters of type {kind} must have no other entries than "
                    f"{', '.join(known)}, got {name}"
                )
        missing = [name for name in _REQUIRED[kind] if name not in entries]
        if missing:
            raise ValueError(f"{op}: rope_parameters of type {kind} must have {', '.join(missing)}, got none")
        for name, value in entries.items():
            # Also those that the type does not ask for.
            if name not in _NO_NUMBERS and name not in _ASIDE:
                real(op, name, value)

    def real(self, name: str, default: float | None = None, most: float = math.inf) -> float:
        """A number above 0."""
        value = self.entries.get(name, default)
        if value is None:
            raise ValueError(f"{self.op}: rope_parameters of type {self.kind} must have {name}, got none")
        return number(self.op, name, value, 0, most, open_left=True)

    def original_length(self) -> float:
        """The length a model was trained with; without an entry that is all it was made for."""
        for name in ("original_max_position_embeddings", "max_position_embeddings"):
            if name in self.entries:
                return number(self.op, name, self.entries[name], 1, open_left=True)
        raise ValueError(
            f"{self.op}: rope_parameters of type {self.kind} must have original_max_position_embeddings or "
            "max_position_embeddings, got neither"
        )

    def stretch(self) -> float:
        """The factor by which the length grew: as given, or the ratio of the lengths."""
        both = all(name in self.entries for name in ("original_max_position_embeddings", "max_position_embeddings"))
        ratio = self.real("max_position_embeddings") / self.original_length() if both else None
        if "factor" not in self.entries:
            if ratio is None:
                raise ValueError(
                    f"{self.op}: rope_parameters of type {self.kind} must have factor, or both "
                    "original_max_position_embeddings and max_position_embeddings, got neither"
                )
            return ratio
        factor = self.real("factor")
        # Configs that leave max_position_embeddings at the original length are as usual.
        if ratio not in (None, 1, factor):
            raise ValueError(
                f"{self.op}: factor must be the ratio of max_position_embeddings and original_max_position_embeddings, "
                f"{ratio:g}, got {factor:g}; where the factor is right, leave max_position_embeddings out"
            )
        return factor

    def factors(self, name: str, count: int) -> Tensor:
        values = [positive(self.op, name, value) for value in listed(self.op, name, self.entries[name], "numbers")]
        if len(values) != count:
            raise ValueError(f"{self.op}: {name} must have a number for each of {count} pairs, got {len(values)}")
        return torch.tensor(values, dtype=torch.float64, device="cpu")


def _dynamic(given: _Parameters, turned: int, exponents: Tensor, plain: Tensor, length: int | None) -> Tensor:
    if turned < 3:
        raise ValueError(f"{given.op}: at least 3 elements must turn for type dynamic, got {turned}")
    factor, longest = given.real("factor"), given.real("max_position_embeddings")
    grown = factor * (max(longest, length or 0) - longest) / longest + 1
    frequencies: Tensor = plain * grown ** (-exponents * (turned / (turned - 2)))
    return frequencies


def _mscale(factor: float, by: float = 1.0) -> float:
    return 0.1 * by * math.log(factor) + 1 if factor > 1 else 1.0


def _yarn(given: _Parameters, theta: float, turned: int, plain: Tensor) -> tuple[Tensor, float]:
    original, factor = given.original_length(), given.stretch()
    fast, slow = given.real("beta_fast", 32.0), given.real("beta_slow", 1.0)
    if fast < slow:
        raise ValueError(f"{given.op}: beta_fast must be at least beta_slow, got {fast:g} and {slow:g}")
    if theta <= 1:
        raise ValueError(f"{given.op}: rope_theta must be above 1 for type yarn, got {theta:g}")

    def pair_that_turns(times: float) -> float:
        """The pair, as a real number, that turns so often in the original length."""
        return turned * math.log(original / (times * 2 * math.pi)) / (2 * math.log(theta))

    low, high = pair_that_turns(fast), pair_that_turns(slow)
    if check_bool(given.op, "truncate", given.entries.get("truncate", True)):
        low, high = math.floor(low), math.ceil(high)
    low, high = max(low, 0), min(high, turned - 1)
    # As published, so that one pair between them is no division by 0.
    high += 0.001 if low == high else 0.0
    ramp = ((torch.arange(len(plain), dtype=torch.float64, device="cpu") - low) / (high - low)).clamp(0, 1)
    if "attention_factor" in given.entries:
        scaling = given.real("attention_factor")
    elif given.entries.get("mscale") and given.entries.get("mscale_all_dim"):
        scaling = _mscale(factor, given.real("mscale")) / _mscale(factor, given.real("mscale_all_dim"))
    else:
        scaling = _mscale(factor)
    return plain / factor * ramp + plain * (1 - ramp), scaling


def _llama3(given: _Parameters, plain: Tensor) -> Tensor:
    factor, original = given.real("factor"), given.original_length()
    low, high = given.real("low_freq_factor"), given.real("high_freq_factor")
    if low > high:
        raise ValueError(f"{given.op}: low_freq_factor must be at most high_freq_factor, got {low:g} and {high:g}")
    # 0 for waves longer than original / low, 1 for those shorter than original / high: a step where these are equal.
    turns = original * plain / (2 * math.pi)
    kept = ((turns - low) / (high - low)).clamp(0, 1) if low < high else (turns >= low).to(plain.dtype)
    return (1 - kept) * plain / factor + kept * plain


def _longrope(given: _Parameters, plain: Tensor, length: int | None) -> tuple[Tensor, float]:
    original = given.original_length()
    factors = {name: given.factors(name, len(plain)) for name in ("short_factor", "long_factor")}
    if "attention_factor" in given.entries:
        scaling = given.real("attention_factor")
    else:
        factor = given.stretch()
        scaling = 1.0 if factor <= 1 else math.sqrt(1 + math.log(factor) / math.log(original))
    return plain / factors["long_factor" if (length or 0) > original else "short_factor"], scaling
