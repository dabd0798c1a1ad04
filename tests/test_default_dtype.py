"""Whatever torch's default dtype is, what is asked for in a dtype works in it."""

import pytest
import torch

from torch_hrr import encoding, field, hierarchy, hrr

X = torch.rand(24, 6, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float32)
LABELS = torch.arange(24) % 3
TOKENS = torch.arange(120) % 7
CONFIG = encoding.SinusoidalConfig(vocab_size=7, embedding_dim=8, max_sequence_length=16)
FLOAT32 = {"dtype": torch.float32, "device": "cpu"}


def brain():
    own = field.FieldBrain(4, 2, (3, 4, 5), 8, device="cpu")
    return torch.stack([own.step(X[i, 0].repeat(2)).clone() for i in range(3)])


def multi_label():
    loss = hrr.HRRMultiLabelLoss(5, 8, **FLOAT32)
    return loss(X[:4, :4].reshape(4, 8), torch.eye(5)[:4].float())


def level():
    made = hierarchy.HierarchicalLevel(0, 2, 3, 2, "mean")
    made.add_layer(hierarchy.HebbianCore(2, 3, rule="bcm", **FLOAT32))
    return made.process(X[0])


CALLS = {
    "LSMRegressor": lambda: encoding.LSMRegressor(input_dim=2, units=20, **FLOAT32).fit(X, X[..., :1], 2).predict(X),
    "LSMClassifier": lambda: encoding.LSMClassifier(input_dim=2, units=20, **FLOAT32).fit(X, LABELS).predict_proba(X),
    "LSMGenerator": lambda: (
        encoding.LSMGenerator(CONFIG, units=20, **FLOAT32).fit(TOKENS, warmup=2, streams=2).predict_proba(TOKENS[:9])
    ),
    "FieldBrain": brain,
    "HRRMultiLabelLoss": multi_label,
    "HierarchicalLevel": level,
    "Resonator": lambda: (
        hrr.Resonator([X[:3, :4].reshape(3, 8), X[3:6, :4].reshape(3, 8)]).factorize(X[0, :4].reshape(8)).indices
    ),
}


@pytest.mark.parametrize("dtype", (torch.float64, torch.bfloat16), ids=("float64", "bfloat16"))
@pytest.mark.parametrize("name", CALLS)
def test_the_default_dtype_does_not_show(name, dtype):
    torch.manual_seed(0)
    expected = CALLS[name]()
    torch.set_default_dtype(dtype)
    try:
        torch.manual_seed(0)
        found = CALLS[name]()
    finally:
        torch.set_default_dtype(torch.float32)
    assert found.dtype == expected.dtype
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
