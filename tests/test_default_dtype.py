"""Whatever torch's default dtype is, what is asked for in a dtype works in it."""

import inspect

import pytest
import torch

from torch_hrr import assembly, encoding, field, hierarchy, hrr

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


def trained(tmp_path):
    own = assembly.TorchBrain(p=0.1, learning=True)
    own.add_area("A", 100, 10)
    own.project({"A": X[:, :4, 0].reshape(96).repeat(2)[:100]}, {"A": ["A"]})
    own.save(tmp_path / "brain")
    again = assembly.TorchBrain.load(tmp_path / "brain")
    again.project({}, {"A": ["A"]})
    return torch.cat([again.biases[0].detach(), again.winners("A").float(), again.brain.weights("A", "A").flatten()])


def sampled(tmp_path):
    own = assembly.Brain(p=0.1, mode="sampled")
    own.add_stimulus("s", 20)
    own.add_area("A", 200, 10)
    own.project({"s": ["A"]}, {"A": ["A"]}, rounds=2)
    own.save(tmp_path / "brain")
    again = assembly.Brain.load(tmp_path / "brain")
    again.project({"s": ["A"]}, {"A": ["A"]}, rounds=2)
    return again.winners("A")


CALLS = {
    "LSMRegressor": lambda: encoding.LSMRegressor(input_dim=2, units=20, **FLOAT32).fit(X, X[..., :1], 2).predict(X),
    "LSMClassifier": lambda: encoding.LSMClassifier(input_dim=2, units=20, **FLOAT32).fit(X, LABELS).predict_proba(X),
    "LSMGenerator": lambda: (
        encoding.LSMGenerator(CONFIG, units=20, **FLOAT32).fit(TOKENS, warmup=2, streams=2).predict_proba(TOKENS[:9])
    ),
    "FieldBrain": brain,
    "TorchBrain": trained,
    "Brain in mode sampled": sampled,
    "HRRMultiLabelLoss": multi_label,
    "HierarchicalLevel": level,
    "Resonator": lambda: (
        hrr.Resonator([X[:3, :4].reshape(3, 8), X[3:6, :4].reshape(3, 8)]).factorize(X[0, :4].reshape(8)).indices
    ),
}


@pytest.mark.parametrize("dtype", (torch.float64, torch.bfloat16), ids=("float64", "bfloat16"))
@pytest.mark.parametrize("name", CALLS)
def test_the_default_dtype_does_not_show(name, dtype, tmp_path):
    call = CALLS[name]
    arguments = (tmp_path,) if inspect.signature(call).parameters else ()
    torch.manual_seed(0)
    expected = call(*arguments)
    torch.set_default_dtype(dtype)
    try:
        torch.manual_seed(0)
        found = call(*arguments)
    finally:
        torch.set_default_dtype(torch.float32)
    assert found.dtype == expected.dtype
    torch.testing.assert_close(found, expected, rtol=0, atol=0)
