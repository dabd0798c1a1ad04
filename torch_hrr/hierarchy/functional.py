"""The operator of the family as a Python function."""

from __future__ import annotations

import contextlib
from typing import Any

import torch
from torch import Tensor

from torch_hrr._checks import can_be_cut, check_bool, choice, optional_tensor, real, signed, tensor, values_decide
from torch_hrr._ops import ops as _ops
from torch_hrr._progress import Progress, Tick, in_parts, is_long, ticking

RULES = ("hebb", "oja", "gha", "subspace", "bcm", "softhebb")
ACTIVATIONS = ("linear", "relu", "tanh")


def plastic_scan(
    inputs: Any,
    weight: Any,
    rule: str = "oja",
    lr: float = 1e-3,
    activation: str = "tanh",
    every: int = 1,
    theta: Any = None,
    tau: float = 100.0,
    decay: float = 0.0,
    normalize: bool = False,
    temperature: float = 1.0,
    losers: float = 1.0,
    scaled: bool = False,
    power: float = 0.0,
    *,
    progress: Progress = None,
) -> tuple[Tensor, Tensor, Tensor]:
    """A layer ``y = f(W x)`` that learns from every input by a local rule: T sequential updates in one call.

    At ticks 0, every, 2 every, ... the outputs come from the weights before, then ``W += lr (dW - decay W)``, where E
    is the mean over the tick's batch:

    * ``"hebb"``: ``dW = E[y x^T]``
    * ``"oja"``: ``dW_j = E[y_j x] - E[y_j^2] W_j``: every unit to the first principal component, of norm 1
    * ``"gha"`` (Sanger): ``dW_j = E[y_j (x - sum_{i <= j} y_i W_i)]``: the principal components in order
    * ``"subspace"``: ``dW_j = E[y_j (x - sum_i y_i W_i)]``: a basis of their span
    * ``"bcm"``: ``dW_j = E[y_j (y_j - theta_j) x]`` with outputs ``relu(f(W x))``, then
      ``theta_j += (E[y_j^2] - theta_j) / tau``
    * ``"softhebb"``: ``dW_j = E[s_j (x - u_j W_j)]`` with ``u = W x`` and outputs ``softmax(u / temperature)`` whatever
      f; s_j is y_j for the winner, the unit of the largest u, and ``losers y_j`` for the others: rows to norm 1, each
      to the mean direction of the inputs it wins. With `scaled` dW is divided by its largest absolute entry, and lr is
      multiplied by ``| |W_j| - 1 |^power``

    With ``normalize`` every row is then scaled to norm 1, however large or small it is; a row of zeros stays one. Half
    types are computed in float32 and rounded once, at the end of the call.

    Differentiable in every mode with respect to inputs, weight and theta. Backward runs the ticks again and keeps the
    weights of about ``2 sqrt(T)`` of them; it and forward mode have kernels, on the CPU and on a GPU. Second
    derivatives, and all of softhebb, run torch's operators tick by tick. A gradient of a gradient keeps the weights of
    about ``2 sqrt(T)`` ticks too; a gradient through forward mode, and third derivatives, keep those of all.
    Deterministic: T ticks in one call are bit-equal to T calls in float32 and float64, and the same bits come from
    every instruction set, with any number of threads and whatever the layout. Cost: for hebb, oja and bcm each row of
    weights stays in the nearest cache for all ticks, in the scan's CUDA kernel in a warp's registers (up to n = 1024 in
    float32, 512 in float64); gha and subspace read and write all weights twice a tick, softhebb once.

    Args:
        inputs: ``[..., T, n]``, or ``[..., T, B, n]`` with B samples a tick; float32, float64, float16 or bfloat16; a
            NumPy array is copied.
        weight: ``[..., m, n]``; its leading dimensions are layers that learn apart, the same as those of inputs.
        rule: "hebb", "oja", "gha", "subspace", "bcm" or "softhebb".
        lr: learning rate, at least 0 and finite in the dtype that is computed in. Oja's rules are stable while lr times
            the largest eigenvalue of ``E[x x^T]`` is below 1.
        activation: f: "linear", "relu" or "tanh".
        every: steps from one tick to the next, at least 1; the inputs in between are skipped.
        theta: ``[..., m]`` of rule "bcm", finite and above 0, which is checked on the CPU alone, since reading it back
            from a GPU would wait for the device; None means 1. Other rules take None or the empty one they return.
        tau: time constant of theta in ticks, above 1.
        decay: share of the weights, times lr, that is lost at every tick; at least 0.
        normalize: whether rows are scaled to norm 1 after every update.
        temperature: of softhebb's softmax, above 0 and finite in the dtype that is computed in: near 0 one unit wins,
            far above 1 all take part.
        losers: factor of the steps of softhebb's losing units, finite: 1 lets them learn as the winner does, -1 drives
            them away from what it wins.
        scaled: whether softhebb's steps are divided by their largest absolute entry plus 1e-30.
        power: exponent of softhebb's rate, at least 0: 0 keeps it constant, 1/2 slows rows as they come to norm 1, from
            which 1e-10 is added to their distance.
        progress: called with the ticks done and all; True shows a bar, None nothing. Many ticks in float32 or float64
            on the CPU, without a gradient, run in parts of a fifth of a second with the same bits, between which Ctrl-C
            ends the call; others in one.

    Returns:
        outputs ``[..., ceil(T / every), m]`` or with a batch ``[..., ceil(T / every), B, m]``, the new weight, and the
        new theta, which is empty (``[..., 0]``) for rules without one. All have the dtype that the tensors
        promote to.

    Raises:
        TypeError: a tensor is of a dtype not named above, sparse or nested, or an option of another type.
        ValueError: a number is outside its range, a shape does not fit, rule or activation is unknown, or theta is
            given to a rule without one, or on the CPU is not finite and above 0.
        RuntimeError: devices differ.

    Source: Hebb, The Organization of Behavior, 1949; Oja, A simplified neuron model as a principal component analyzer,
    J. Math. Biology 15, 1982; Sanger, Optimal unsupervised learning in a single-layer linear feedforward neural
    network, Neural Networks 2, 1989; Bienenstock, Cooper and Munro, Theory for the development of neuron selectivity,
    J. Neuroscience 2, 1982; Intrator and Cooper, Objective function formulation of the BCM theory, Neural Networks 5,
    1992; Moraitis et al., SoftHebb, Neuromorphic Computing and Engineering 2, 2022; `losers`, `scaled` and `power`:
    Journé et al., Hebbian deep learning without feedback, ICLR 2023.
    """
    op = "plastic_scan"
    rule = choice(op, "rule", rule, RULES)
    activation = choice(op, "activation", activation, ACTIVATIONS)
    normalize, scaled = check_bool(op, "normalize", normalize), check_bool(op, "scaled", scaled)
    inputs, weight = tensor(op, "inputs", inputs), tensor(op, "weight", weight)
    theta = optional_tensor(op, "theta", theta)
    words = (rule, real(op, "lr", lr), activation, signed(op, "every", every))
    competition = (real(op, "temperature", temperature), real(op, "losers", losers), scaled, real(op, "power", power))
    numbers = (real(op, "tau", tau), real(op, "decay", decay), normalize, *competition)
    tick = ticking(op, progress)
    axis = weight.dim() - 2
    # First a bound that costs nothing: most calls are far from long. A graph would guard the number of steps by it.
    if values_decide() and is_long(1e-7 * inputs.numel() * (1 + weight.numel())):
        given = [each for each in (inputs, weight, theta) if each is not None]
        if all(map(may_be_cut, given)) and 0 <= axis < inputs.dim() - 1 and 0 < words[-1] < inputs.shape[axis]:
            with contextlib.suppress(_SpoiltError):
                return _in_parts(inputs, weight, theta, words, numbers, tick)
    outputs, learned, thresholds = _ops.plastic_scan(inputs, weight, *words, theta, *numbers)
    tick(outputs.shape[axis], outputs.shape[axis])
    return outputs, learned, thresholds


class _SpoiltError(Exception):
    """Learning has led to a theta that is an error at the beginning of a call alone."""


def may_be_cut(given: Tensor) -> bool:
    """Whether parts have the bits of a whole call: half types are rounded at its end, gradients keep ticks of all."""
    is_kept = torch.is_grad_enabled() and given.requires_grad
    # Sizes beyond any memory are for the whole call to refuse.
    fits = given.numel() < 2**40
    return can_be_cut(given) and fits and not is_kept and given.dtype in (torch.float32, torch.float64)


def _in_parts(
    inputs: Tensor,
    weight: Tensor,
    theta: Tensor | None,
    words: tuple[str, float, str, int],
    numbers: tuple[float, float, bool, float, float, bool, float],
    tick: Tick,
) -> tuple[Tensor, Tensor, Tensor]:
    axis, every = weight.dim() - 2, words[-1]
    parts: list[Tensor] = []
    learned, thresholds, begin = weight, theta, 0

    def run(count: int) -> None:
        nonlocal learned, thresholds, begin
        steps = inputs.narrow(axis, begin, min(count * every, inputs.shape[axis] - begin))
        settings = (*words, thresholds, *numbers)  # mypy cannot follow two stars in one call
        try:
            outputs, learned, thresholds = _ops.plastic_scan(steps, learned, *settings)
        except ValueError as error:
            raise (_SpoiltError if parts else error) from None
        parts.append(outputs)
        begin += count * every

    # What a tick costs for each weight and sample.
    seconds = 1e-7 + 3e-10 * weight.numel() * inputs.shape[axis + 1 : -1].numel()
    in_parts("plastic_scan", -(-inputs.shape[axis] // every), seconds, run, tick)
    assert thresholds is not None
    return parts[0] if len(parts) == 1 else torch.cat(parts, axis), learned, thresholds
