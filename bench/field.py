"""Benchmark entries of fields: steps and gradients beside slices and convolution."""

from collections.abc import Callable
from functools import cache, partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from bench.entry import Entry, Inputs, Peer, with_compiled
from bench.peers import is_here
from torch_hrr import field
from torch_hrr._plain import field as plain
from torch_hrr._plain import field_control as control

DECAY, DIFFUSION = 0.1, 0.1


def fields(size: int, channels: int, batch: int, generator: torch.Generator) -> Inputs:
    """A cube of many channels; the leading size is its depth."""
    return (torch.randn(batch, size, size, channels, generator=generator),)


def into(function: Callable[[Tensor], Tensor], start: Tensor, *, out: Tensor) -> Tensor:
    """A composition, into a result that is used again."""
    return out.copy_(function(start))


def depthwise(start: Tensor, kernels: Tensor, mode: str) -> Tensor:
    """conv3d of the padded field of C channels with kernels [C K, 1, 3, 3, 3], [C K, D, H, W]."""
    padded = F.pad(start.movedim(-1, 0)[None], (1,) * 6, mode=mode)
    return F.conv3d(padded, kernels, groups=start.shape[-1])[0]


def convolution(boundary: str, start: Tensor) -> Tensor:
    """One step as a depthwise conv3d."""
    kernel = start.new_zeros(start.shape[-1], 1, 3, 3, 3)
    for place in ((0, 1, 1), (2, 1, 1), (1, 0, 1), (1, 2, 1), (1, 1, 0), (1, 1, 2)):
        kernel[:, 0, place[0], place[1], place[2]] = DIFFUSION
    kernel[:, 0, 1, 1, 1] = 1 - 6 * DIFFUSION
    mode = "constant" if boundary == "zeros" else boundary
    return depthwise((1 - DECAY) * start, kernel, mode).movedim(0, -1)


def entry(size: int, channels: int, steps: int, boundary: str) -> Entry:
    """field_evolve of a cube, beside its definition in slices."""
    arguments: dict[str, Any] = {"decay": DECAY, "diffusion": DIFFUSION, "steps": steps, "boundary": boundary}
    ours, slices = partial(field.evolve, **arguments), partial(plain.evolve, **arguments)
    eager, compiled = with_compiled("slices", slices, reuse=partial(into, slices))
    # A convolution of a larger field takes a second.
    conv = (Peer("conv3d", partial(convolution, boundary)),) if steps == 1 and size <= 32 else ()
    return Entry(
        "field_evolve", f"{size}^3x{channels} {steps} {boundary}", size, partial(fields, size, channels), ours,
        (eager, *conv, compiled), 2 * size**3 * channels * 4, reuse=ours,
    )  # fmt: skip


def sobel_convolution(start: Tensor) -> Tensor:
    """The gradient as a depthwise conv3d."""
    channels = start.shape[-1]
    smooth, change = start.new_tensor((1.0, 2.0, 1.0)), start.new_tensor((-1.0, 0.0, 1.0))
    kernels = []
    for axis in range(3):
        d, h, w = (change if i == axis else smooth for i in range(3))
        kernels.append(torch.einsum("d,h,w->dhw", d, h, w) / 32)
    weight = torch.stack(kernels).repeat(channels, 1, 1, 1)[:, None]
    return depthwise(start, weight, "replicate").unflatten(0, (channels, 3)).movedim(0, -1)


def gradient_entry(size: int, channels: int, op: str, moved: int) -> Entry:
    """One of the operators of a cube's gradient; moved: what it reads and writes, in fields."""
    # field_gradient is field.gradient.
    ours, slices = (getattr(module, op.removeprefix("field_")) for module in (field, plain))
    eager, compiled = with_compiled("slices", slices, reuse=partial(into, slices))
    conv = (Peer("conv3d", sobel_convolution),) if op == "field_gradient" and size <= 32 else ()
    return Entry(
        op, f"{size}^3x{channels}", size, partial(fields, size, channels), ours, (eager, *conv, compiled),
        moved * size**3 * channels * 4, reuse=ours,
    )  # fmt: skip


def moments(field: Tensor) -> Tensor:
    """The operator, as a brain's metrics take it."""
    return torch.ops.torch_hrr._field_moments(field, 0.01)


def moments_into(field: Tensor, *, out: Tensor) -> Tensor:
    torch.ops.torch_hrr._field_moments.out(field, 0.01, out=out)
    return out


def moments_in_torch(field: Tensor) -> Tensor:
    """The same in plain torch, of whole blocks."""
    blocks = field.unflatten(0, (-1, 64))
    mean = blocks.mean(1, keepdim=True)
    size = blocks.abs()
    squares = (blocks - mean).square().sum(1)
    return torch.stack((mean.squeeze(1), squares, size.amax(1), (size < 0.01).sum(1)), 1)


def moments_entry(size: int, channels: int) -> Entry:
    """_field_moments of a cube, of the channels of its places; the leading size is its depth."""
    return Entry(
        "_field_moments", f"{size}^3x{channels}", size,
        lambda batch, generator: (torch.randn(batch * size * size, channels, generator=generator),), moments,
        with_compiled("eager", moments_in_torch), size**3 * channels * 4, reuse=moments_into,
    )  # fmt: skip


def robots(batch: int, generator: torch.Generator) -> Inputs:
    """State, places and inputs of robots with 8 maps of 8^3, 4 sensors and 2 motors, within an episode."""
    maps, edge, sensors, motors = 8, 8, 4, 2
    field, weights = (torch.randn(batch, edge, edge, edge, maps * (1 + motors), generator=generator) for _ in range(2))
    state = torch.zeros(batch, control.HEAD + sensors + 2 * motors)
    state[:, [control.BEGUN, control.PRODUCT]] = 1
    places = torch.randn(batch, maps, 3, sensors + 1, generator=generator)
    places[..., -1] += (edge - 1) / 2
    key = torch.zeros(batch, 2, dtype=torch.int64)
    made = (state, torch.zeros(batch, sensors), key, torch.zeros(batch, motors), places)
    return field, weights, *made, torch.randn(batch, sensors, generator=generator), torch.ones(batch)


def control_step(call: Callable[..., None], *operands: Tensor) -> Tensor:
    """Motors of a step; without learning, so that each is the same, at nearly the same cost."""
    *others, reward = operands
    rates = (0.109, 0.0, 0.99, 0.2, 0.01, 0.5, 0.5)
    call(*others, reward, torch.zeros_like(reward), *rates, False, False, False)
    return others[5]


def control_entry(batch: int) -> Entry:
    """_field_control_ of some robots, beside its definition."""
    return Entry(
        "_field_control_", f"{batch} robots 8x8^3", batch, robots,
        partial(control_step, torch.ops.torch_hrr._field_control_.default),
        (Peer("eager", partial(control_step, control.control_)),), batch * 8 * 27 * 3 * 4 * 6,
    )  # fmt: skip


@cache
def agents(environment: str, count: int) -> tuple[Any, tuple[Any, ...]]:
    """Agents of a vector, and as many single ones with the same brains; at rest, so that each act is the same."""
    import gymnasium

    from torch_hrr.field import gym

    envs = gymnasium.make_vec(environment, num_envs=count, vectorization_mode="sync")
    brains, twins = ([brain.eval() for brain in gym.brains_for(envs, seed=0, prefer_gpu=False)] for _ in range(2))
    for pair in zip(brains, twins, strict=True):
        drawn = torch.randn(pair[0].weights.shape, generator=torch.Generator().manual_seed(pair[0].seed))
        for brain in pair:
            brain.load_state_dict(brain.state_dict() | {"_weights": drawn})
    env = gymnasium.make(environment)
    return gym.VectorFieldAgent(brains, envs), tuple(gym.FieldAgent(twin, env) for twin in twins)


def act_together(environment: str, observations: Tensor, rewards: Tensor) -> Tensor:
    group, _ = agents(environment, len(rewards))
    return torch.from_numpy(group.act(observations.numpy(), rewards.numpy()))


def act_one_by_one(environment: str, observations: Tensor, rewards: Tensor) -> Tensor:
    _, singles = agents(environment, len(rewards))
    given = zip(singles, observations.numpy(), rewards.tolist(), strict=True)
    return torch.stack([torch.as_tensor(agent.act(observation, reward)) for agent, observation, reward in given])


def agents_entry(environment: str, observed: int, batch: int) -> Entry:
    """An act of a brain for each environment of a vector, beside a loop over single agents."""
    return Entry(
        "VectorFieldAgent.act", f"{batch} {environment}", batch,
        lambda batch, generator: (torch.rand(batch, observed, generator=generator) - 0.5, torch.ones(batch)),
        partial(act_together, environment), (Peer("FieldAgent, one by one", partial(act_one_by_one, environment)),),
        batch * (8 * 27 * 3 + 512 * 16) * 4, aim=8.0,
    )  # fmt: skip


ENTRIES = (
    *(entry(64, 64, 1, boundary) for boundary in ("replicate", "zeros", "circular")),
    *(entry(32, 64, steps, "replicate") for steps in (1, 10)),
    *(
        gradient_entry(size, 64, op, moved)
        for size in (32, 64)
        for op, moved in (("field_gradient", 4), ("gradient_magnitude", 2))
    ),
    *(moments_entry(size, 64) for size in (32, 64)),
    *(control_entry(batch) for batch in (1, 64)),
    *(
        agents_entry(environment, observed, 64)
        for environment, observed in (("Pendulum-v1", 3), ("CartPole-v1", 4))
        if is_here("gymnasium")
    ),
)
