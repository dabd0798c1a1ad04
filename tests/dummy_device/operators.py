"""Runs every case of an operator on a device that torch knows nothing of, against the CPU; prints what differed.

One line of JSON a case: its name, what differed (null: nothing) and how many gradients were compared.
"""

import json
import pathlib
import sys

import torch
from dummy import NAME, run

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent))
from cases import ALL_CASES
from cases.base import build, row_norm, with_tensors


def nearly(result, expected, scale, exact):
    """As close as the reference is to the operator, which tests/test_plain.py asks without a device."""
    if exact or not expected.is_floating_point():
        return torch.equal(result, expected)
    bound = {torch.float32: 1e-4, torch.float64: 1e-7}[expected.dtype]
    return bool((row_norm(result.double() - expected.double()) <= bound * scale).all())


def compare(case, sample, dtype):
    """The number of gradients compared; an AssertionError where the devices differ."""
    arguments = build(sample, dtype)
    leaves = case.leaves(arguments)

    def on(device):
        moved = with_tensors(arguments, lambda tensor: tensor.to(device))
        return {name: value.requires_grad_() if name in leaves else value for name, value in moved.items()}

    there, here = on(NAME), on("cpu")
    if case.is_out:
        there, here = with_tensors(there, torch.Tensor.detach), with_tensors(here, torch.Tensor.detach)
    results, expected = case.run(there), case.run(here)
    exact = case.integer_dtype is not None or case.selects
    scales = case.scale(arguments, tuple(value.double() for value in expected)) if not exact else expected
    for result, value, scale in zip(results, expected, scales, strict=True):
        assert result.device.type == NAME, f"a result on {result.device}"
        assert (result.dtype, result.shape) == (value.dtype, value.shape), f"{result.dtype} {result.shape}"
        assert nearly(result.detach().cpu(), value.detach(), scale, exact), "a result"
    pairs = [(r, e) for r, e in zip(results, expected, strict=True) if e.requires_grad]
    assert [r.requires_grad for r in results] == [e.requires_grad for e in expected], "requires_grad"
    if not pairs:
        return 0
    ones = [torch.randn(e.shape, dtype=e.dtype, generator=torch.Generator().manual_seed(1)) for _, e in pairs]
    gradients = torch.autograd.grad(
        [r for r, _ in pairs], [there[n] for n in leaves], [x.to(NAME) for x in ones], allow_unused=True
    )
    wanted = torch.autograd.grad([e for _, e in pairs], [here[n] for n in leaves], ones, allow_unused=True)
    cotangent = sum(x.double().norm() for x in ones)
    for name, gradient, value in zip(leaves, gradients, wanted, strict=True):
        assert (gradient is None) == (value is None), f"the gradient of {name}"
        if value is not None:
            assert gradient.device.type == NAME, f"the gradient of {name} on {gradient.device}"
            # A derivative across a normalised row of one number is 0 but for rounding.
            scale = value.double().norm() + cotangent + torch.finfo(value.dtype).tiny
            bound = {torch.float32: 1e-3, torch.float64: 1e-6}[value.dtype]
            error = float((gradient.cpu().double() - value.double()).norm() / scale)
            assert error <= bound, f"the gradient of {name} by {error:.1e}"
    return sum(value is not None for value in wanted)


def main() -> None:
    """All cases: the small calls of every kind, in the dtypes of the reference's promise."""
    for case in ALL_CASES:
        compared, fault = 0, None
        try:
            for sample in case.lane_samples:
                for dtype in (torch.float32, torch.float64):
                    if dtype in sample.dtypes and dtype in case.dtypes:
                        fault = f"{sample.id} in {dtype}"
                        compared += compare(case, sample, dtype)
            fault = None
        except (AssertionError, RuntimeError, TypeError, ValueError) as error:
            fault = f"{fault}: {type(error).__name__}: {error}"
        print(json.dumps([case.id, fault, compared]), flush=True)


if __name__ == "__main__":
    run(main)
