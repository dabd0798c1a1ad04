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


@pytest.mark.parametrize("units", [40, 300])
def test_steps_and_forecasts_are_those_of_the_cpu(units):
    time = torch.arange(600.0, dtype=torch.float64)
    x = torch.stack([(0.2 * time).sin(), (0.05 * time).sin()], -1)
    settings = {"ridge": 1e-3, "dtype": torch.float64}
    machines = [LiquidStateMachine(2, units, device=device, **settings) for device in ("cpu", "cuda")]
    for machine in machines:
        machine.partial_fit(x[:300], x[1:301], 20).partial_fit(x[300:500], x[301:501], resume=True)
    here, there = ([machine.forecast(20), machine.forecast(20, x[:90].expand(3, -1, -1))] for machine in machines)
    torch.testing.assert_close([each.cpu() for each in there], here, atol=1e-6, rtol=0)
    for now in (x[0], x[:3]):
        here, there = (machine.step(now) for machine in machines)
        torch.testing.assert_close([each.cpu() for each in there], [*here], atol=1e-8, rtol=0)


def test_given_weights_and_feedback_are_those_of_the_cpu():
    draw = torch.Generator().manual_seed(0)
    square, wide, back = (torch.rand(50, n, generator=draw, dtype=torch.float64) - 0.5 for n in (50, 2, 1))
    x, y = torch.randn(2, 80, 2, generator=draw), torch.randn(2, 80, 1, generator=draw)
    found = []
    for device in ("cpu", "cuda"):
        given = 0.2 * square, wide, None, wide.abs()[:, 0] + 0.5, "relu", back
        machine = LiquidStateMachine.from_weights(*given, ridge=1.0, device=device).fit(x, y)
        found.append([machine.run(x, outputs=y).cpu(), machine.predict(x).cpu(), machine.predict(x[0]).cpu()])
    torch.testing.assert_close(found[1], found[0], atol=1e-8, rtol=0)


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
