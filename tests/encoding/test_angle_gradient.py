"""The gradient of angles: grad_sin cos t - grad_cos sin t, the fused part of the derivative of sinusoidal_features."""

import re

import pytest
import torch
from cases import encoding_oracle as oracle
from torch.autograd import gradcheck, gradgradcheck

angle_gradient = torch.ops.torch_hrr._sinusoidal_features_backward.default
LAYOUTS = ("interleaved", "half")


def drawn(*shape, dtype=torch.float32, seed=0):
    return torch.randn(shape, dtype=torch.float64, generator=torch.Generator().manual_seed(seed)).to(dtype)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", (torch.float32, torch.float64, torch.float16, torch.bfloat16))
def test_is_its_definition_for_every_count_and_type(dtype, layout):
    """In the compute type: half gradients are summed over many rows afterwards."""
    compute = torch.promote_types(dtype, torch.float32)
    tolerance = 4e-7 if compute == torch.float32 else 1e-14
    positions = torch.tensor([0, 1, -3, 1_000_003, 2**31 - 1])
    for count in (1, 2, 7, 8, 9, 16, 17, 33, 100):
        grad, frequencies = drawn(5, 2 * count, dtype=dtype), drawn(count, seed=1)
        for phase in (None, drawn(count, dtype=torch.float64, seed=2)):
            result = angle_gradient(grad, positions, frequencies, phase, layout)
            expected = oracle.features_backward(grad.double(), positions, frequencies.double(), phase, layout)
            # float64 angles err by 2 pi 2^-64 of the position.
            far = 4e-19 * positions.abs().double().unsqueeze(-1)
            assert result.dtype == compute and result.shape == (5, count)
            assert ((result.double() - expected).abs() <= (tolerance + far) * (1 + grad.double().abs().amax())).all()


def test_leading_dimensions_broadcast_and_layouts_of_memory_do_not_matter():
    grad, positions, frequencies = drawn(3, 1, 8), torch.arange(4), drawn(4, seed=1)
    whole = angle_gradient(grad, positions, frequencies, None, "half")
    assert whole.shape == (3, 4, 4)
    for i in range(3):
        for j in range(4):
            assert torch.equal(whole[i, j], angle_gradient(grad[i, 0], positions[j], frequencies, None, "half"))
    turned = grad.expand(3, 4, 8).permute(2, 0, 1).contiguous().permute(1, 2, 0)
    assert torch.equal(whole, angle_gradient(turned, torch.arange(8)[::2] // 2, frequencies, None, "half"))
    assert angle_gradient(drawn(0, 8), positions[:0], frequencies, None, "half").shape == (0, 4)
    assert angle_gradient(drawn(3, 0), positions[:3], frequencies[:0], None, "half").shape == (3, 0)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_its_own_derivatives(layout):
    tensors = [
        drawn(2, 6, dtype=torch.float64),
        drawn(2, dtype=torch.float64, seed=1),
        drawn(3, dtype=torch.float64, seed=2),
        drawn(3, dtype=torch.float64, seed=3),
    ]
    leaves = [tensor.requires_grad_() for tensor in tensors]

    def call(*arguments):
        return angle_gradient(*arguments, layout)

    assert gradcheck(call, leaves, check_forward_ad=True, check_batched_grad=True)
    assert gradgradcheck(call, leaves, check_fwd_over_rev=True)


# opcheck reads the .grad of a tensor that it made itself.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf:UserWarning")
def test_opcheck():
    arguments = (drawn(2, 6), torch.arange(2), drawn(3, seed=1).requires_grad_(), None, "half")
    torch.library.opcheck(angle_gradient, arguments)


@pytest.mark.parametrize(
    ("change", "error", "message"),
    (
        ({"grad": drawn(3, 6)}, RuntimeError, "grad must have a last dimension of 2F, got 6 and F = 4"),
        ({"grad": torch.tensor(1.0)}, RuntimeError, "grad must have at least 1 dimension [..., 2F], got 0"),
        ({"grad": torch.zeros(3, 8, dtype=torch.int64)}, TypeError, "grad must be float32, float64, float16 or"),
        ({"grad": drawn(2, 8)}, RuntimeError, "grad and positions must broadcast, got sizes 3 and 2 at dimension 0"),
        ({"grad": drawn(3, 8).to("meta")}, RuntimeError, "positions and grad must be on the same device"),
        ({"frequencies": drawn(1, 4)}, RuntimeError, "frequencies must have 1 dimension [F], got 2"),
        ({"phase": drawn(5)}, RuntimeError, "frequencies and phase must have the same last dimension, got 4 and 5"),
        ({"layout": "Half"}, ValueError, "layout must be 'interleaved' or 'half', got 'Half'"),
    ),
)
def test_malformed_calls(change, error, message):
    arguments = {
        "grad": drawn(3, 8), "positions": torch.arange(3), "frequencies": drawn(4), "phase": None, "layout": "half",
    } | change  # fmt: skip
    with pytest.raises(error, match=re.escape(f"_sinusoidal_features_backward: {message}")):
        angle_gradient(**arguments)
