"""The README's samples on a device without kernels of ours: chosen by name alone, warned of once, the CPU's results."""

import tempfile
import warnings

import torch
from dummy import NAME, run

import torch_hrr
from torch_hrr import assembly, encoding, field, hierarchy, hrr, runtime


def placed(brain):
    """The device of a brain."""
    return getattr(brain, "brain", brain).device


def main() -> None:
    """Every system, from its construction to its file."""
    device = torch.device(NAME, 0)
    assert runtime.get_device() == "cpu", "a device without kernels was chosen silently"
    assert hrr.random(2, 8).device.type == "cpu"
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        runtime.set_device(NAME)
        runtime.set_device(f"{NAME}:0")
        with runtime.GPUContext(NAME):
            pass
    assert [str(w.message).count(NAME) > 0 for w in caught] == [True], [str(w.message) for w in caught]
    assert runtime.get_device() == str(device)

    roles, fillers = hrr.random(2, 1024), hrr.random(2, 1024)
    noisy = hrr.unbind(hrr.bind_superpose(roles, fillers), roles[0])
    cosines = torch.cosine_similarity(noisy, fillers)
    assert noisy.device == cosines.device == device
    assert cosines[0] > 0.5 > 0.2 > abs(cosines[1])
    vocabulary = hrr.Vocabulary(dim=512, seed=0)
    vocabulary.populate("CIRCLE; BLUE; SHAPE; COLOR; SCENE = SHAPE * CIRCLE + COLOR * BLUE")
    _, index = vocabulary.cleanup(vocabulary.parse("SCENE * ~COLOR"))
    assert vocabulary.names[int(index)] == "BLUE"
    books = [hrr.random(5, 256, unitary=True) for _ in range(3)]
    scene = hrr.multibind(torch.stack([books[0][3], books[1][1], books[2][4]]))
    assert hrr.Resonator(books).factorize(scene).indices.tolist() == [3, 1, 4]

    def winners(place):
        brain = assembly.Brain(p=0.05, seed=0, device=place)
        brain.add_stimulus("s", size=30)
        brain.add_area("A", n=1000, k=30, beta=0.05)
        brain.add_area("B", n=800, k=20, beta=0.05)
        brain.project(stimuli={"s": ["A"]}, areas={"A": ["A"]}, rounds=4)
        brain.project(areas={"A": ["A", "B"]}, rounds=2)
        with tempfile.NamedTemporaryFile(suffix=".safetensors") as file:
            brain.save(file.name)
            again = assembly.Brain.load(file.name, device=place)
        again.project(areas={"A": ["A", "B"], "B": ["A"]}, rounds=2)
        assert again.winners("B").device.type == torch.device(place).type
        return again.winners("A").cpu(), again.winners("B").cpu()

    for there, here in zip(winners(NAME), winners("cpu"), strict=True):
        assert torch.equal(there, here)
    # By default brains are on the CPU, whatever device is set; None follows it.
    for kind in (assembly.Brain, assembly.TorchBrain):
        brain = kind()
        assert placed(brain) == torch.device("cpu") and placed(kind(device=None)) == device
        with tempfile.NamedTemporaryFile(suffix=".safetensors") as file:
            brain.save(file.name)
            assert placed(kind.load(file.name)) == placed(torch_hrr.load(file.name)) == torch.device("cpu")
            assert placed(kind.load(file.name, device=None)) == device
    layer = torch.nn.Sequential(torch.nn.Linear(8, 40), assembly.KCap(5)).to(NAME)
    layer(torch.randn(3, 8, device=NAME)).sum().backward()
    assert layer[0].weight.grad.device == device

    positions = torch.tensor([0, 1, 1_000_000, 2**31 - 1])
    waves = encoding.sinusoidal_encoding(positions.to(NAME), dim=64)
    assert waves.device == device
    assert (waves.cpu() - encoding.sinusoidal_encoding(positions, dim=64)).abs().max() <= 2e-7
    series = torch.sin(0.2 * torch.arange(300)).unsqueeze(-1).to(NAME)
    machine = encoding.LiquidStateMachine(input_dim=1, units=50, seed=0).fit(series[:-1], series[1:])
    assert machine.predict(series[:100]).device == machine.forecast(3).device == device
    assert machine.step(series[0])[1].device == device

    state = torch.randn(6, 6, 6, 4)
    after = field.evolve(state.to(NAME), decay=0.02, diffusion=0.1, steps=3)
    assert (after.cpu() - field.evolve(state, decay=0.02, diffusion=0.1, steps=3)).abs().max() <= 1e-5
    robot = field.create_brain(sensory_dim=4, motor_dim=2, spatial=8, seed=0)
    motor, _ = robot.process_robot_cycle([0.1] * 4, reward=0.5)
    assert len(motor) == 2
    with tempfile.NamedTemporaryFile(suffix=".safetensors") as file:
        robot.save(file.name)
        assert isinstance(torch_hrr.load(file.name), field.FieldBrain)

    def learned(place):
        manager = hierarchy.HierarchyManager()
        kinds = (hierarchy.ReactiveLayer, hierarchy.HebbianCore, hierarchy.SoftHebb)
        for i, (kind, n, m) in enumerate(zip(kinds, (8, 6, 4), (6, 4, 3), strict=True)):
            layer = kind(n, m, seed=0, device=place)
            level = hierarchy.HierarchicalLevel(i, layer.input_size, layer.output_size, i + 1)
            level.add_layer(layer)
            manager.add_level(level)
        outputs = manager.process_hierarchy(torch.linspace(-1, 1, 240).view(30, 8))
        with tempfile.NamedTemporaryFile(suffix=".safetensors") as file:
            manager.save(file.name)
            again = hierarchy.HierarchyManager.load(file.name, device=place)
        outputs += again.process_batch(torch.ones(2, 5, 8))
        assert {each.device.type for each in outputs} == {torch.device(place).type}
        return [*(each.cpu() for each in outputs), *(layer.weight.cpu() for layer in again.levels[1].layers)]

    for there, here in zip(learned(NAME), learned("cpu"), strict=True):
        assert (there - here).abs().max() <= 1e-4
    print("every system ran")


if __name__ == "__main__":
    run(main)
