"""Liquid state machines on CUDA: the reservoir of the CPU, its states to rounding, and the whole of each face."""

import pytest
import torch

from torch_hrr import runtime
from torch_hrr.encoding import LiquidStateMachine, LSMClassifier, LSMGenerator, LSMRegressor, SinusoidalConfig


@pytest.mark.parametrize("units", [40, 300])
def test_states_and_predictions_are_those_of_the_cpu(units):
    x = torch.randn(3, 200, 2)
    here, there = (LiquidStateMachine(2, units, ridge=1e-2, device=device) for device in ("cpu", "cuda"))
    assert torch.equal(there.weights.cpu(), here.weights) and there.device.type == "cuda"
    for given in (x, x[0]):
        torch.testing.assert_close(there.run(given).cpu(), here.run(given), atol=1e-5, rtol=0)
    for machine in (here, there):
        machine.fit(x, x.roll(1, 1), warmup=10)
    torch.testing.assert_close(there.predict(x).cpu(), here.predict(x), atol=1e-2, rtol=0)
    assert there.to("cpu").predict(x).device.type == "cpu"


def test_files_move_between_devices(tmp_path):
    x = torch.randn(200, 1)
    machine = LiquidStateMachine(1, 300, device="cuda").fit(x, x, warmup=10)
    machine.save(tmp_path / "m")
    here, there = (LiquidStateMachine.load(tmp_path / "m", device=device) for device in ("cpu", "cuda"))
    assert torch.equal(there.predict(x), machine.predict(x)) and here.device.type == "cpu"


def test_faces_run_where_their_embedder_is():
    with runtime.GPUContext("auto"):
        config = SinusoidalConfig(vocab_size=12, embedding_dim=16, padding_id=None)
        clock = torch.arange(4000) % 12
        writer = LSMGenerator(config, units=50).fit(clock)
        assert writer.machine.device.type == writer.embedder.weight.device.type == "cuda"
        assert writer.generate(5, temperature=0.0, prompt=clock[:34]).tolist() == [10, 11, 0, 1, 2]
        regressor = LSMRegressor(units=50).fit(clock.float(), clock.float())
        assert regressor.predict(clock).device.type == "cuda"
        sequences = (torch.arange(40) * torch.linspace(0.2, 0.4, 60).unsqueeze(-1)).sin().unsqueeze(-1)
        labels = torch.arange(60) // 30
        classifier = LSMClassifier(units=40).fit(sequences, labels)
        assert float((classifier.predict(sequences) == labels).double().mean()) > 0.9
