"""Every operator once, beside the CPU: what tells most in the first seconds on a GPU."""

import pytest
from cases import ALL_CASES
from cases.base import build, named, with_tensors

TOLERANCE = 1e-5


@pytest.mark.parametrize("case", named((case,) for case in ALL_CASES))
def test_once(case, device):
    arguments = build(case.sized(5, 3, 512))
    results = case.run(with_tensors(arguments, lambda tensor: tensor.to(device)))
    for result, expected in zip(results, case.run(arguments), strict=True):
        assert result.device.type == device and result.dtype == expected.dtype
        difference = (result.cpu().double() - expected.double()).norm()
        assert difference <= TOLERANCE * expected.double().norm().clamp_min(1e-30)
