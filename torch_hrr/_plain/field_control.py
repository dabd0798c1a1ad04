"""The step of robots that learn control by their fields, as a composition of torch operators; any number of robots."""

from __future__ import annotations

import torch
from torch import Tensor

from torch_hrr._plain.field import evolve
from torch_hrr._plain.random import normals, philox4x32

BEGUN, PRODUCT, CRITIC, MOTOR, SQUARE, COUNT, HEAD = range(7)
"""What a robot's row of state begins with; the sensors of the last step follow, then noise and score of each motor."""
_WIDTH = 0.7
_MEMORY = 1000
_LARGEST_ERROR = 3
_INACTIVE = 0.01


def settled(field: Tensor, weights: Tensor, state: Tensor, maps: int) -> tuple[Tensor, Tensor]:
    """Field and weights of their stored forms: decays are kept as one product, changes of the weights as two."""

    def of_robot(index: int) -> Tensor:
        return state[..., index, None, None, None, None]

    is_critic = torch.arange(field.shape[-1], device=field.device) < maps
    ahead = torch.where(is_critic, of_robot(CRITIC), of_robot(MOTOR))
    return of_robot(PRODUCT) * field, weights + ahead * field


def code(places: Tensor, sensory: Tensor, sizes: tuple[int, ...]) -> tuple[Tensor, Tensor]:
    """The 27 cells of each map's bump, as numbers of places, and their activity, each ``[..., maps, 27]``.

    ``exp(-d^2 / (2 0.7^2))`` at distance d from the place ``A (sensors, 1)``, which is held within the field; outside
    of it, 0; all together have norm 1.
    """
    # Filled on the device: nothing is copied there.
    top = torch.stack([sensory.new_full((), size - 1) for size in sizes])
    at = (places[..., :-1] * sensory[..., None, None, :]).sum(-1) + places[..., -1]
    # Of what is no number, the lowest.
    at = torch.where(at > 0, at, 0.0).minimum(top)
    near = (at + 0.5).floor()[..., None] + torch.arange(-1, 2, device=at.device)
    inside = (near >= 0) & (near <= top[:, None])
    along = torch.where(inside, ((near - at[..., None]).square() * (-0.5 / _WIDTH**2)).exp(), 0.0)
    active = along[..., 0, :, None, None] * along[..., 1, None, :, None] * along[..., 2, None, None, :]
    held = near.long().clamp(min=0).minimum(top.long()[:, None])
    rows = held[..., 0, :, None, None] * sizes[1] + held[..., 1, None, :, None]
    cells = rows * sizes[2] + held[..., 2, None, None, :]
    active = active.flatten(-3)
    return cells.flatten(-3), active / active.square().sum((-2, -1), keepdim=True).sqrt()


def control_(
    field: Tensor,
    weights: Tensor,
    state: Tensor,
    prediction: Tensor,
    key: Tensor,
    result: Tensor,
    places: Tensor,
    sensory: Tensor,
    reward: Tensor,
    ended: Tensor,
    decay: float,
    diffusion: float,
    discount: float,
    critic_rate: float,
    motor_rate: float,
    correlation: float,
    deviation: float,
    learns: bool,
    discrete: bool,
    dense: bool,
) -> None:
    """A step of actor-critic learning in which a field is code and trace; all but the inputs from `places` on change.

    With code x of the last sensors and y of the new ones, V = <w_0, x>, f_0 and w_0 the first maps of field and
    weights, f_a and w_a those of motor a: error e = reward + discount <w_0, y> - <w_0, x>, without the second term if
    terminated (`ended` 1); f_0 += (1 - critic_rate <f_0, x>) x; f_a += score_a x; w_0 += critic_rate e f_0;
    w_a += motor_rate clip(e / rms e, 3) f_a; the field decays. The first step of an episode clears the field instead.
    Nothing of a robot whose `ended` is below 0 changes.
    Motors follow from <w_a, y>: with `learns`, noise is added or one is drawn, and otherwise nothing is learned.

    `result` takes the motors and, where it is longer by 6, the metrics of `FieldBrain`. `dense` changes nothing here:
    the stored form is always that of the field itself.
    """
    *batch, depth, height, width, channels = field.shape
    spent = key.clone()
    sizes, maps = (depth, height, width), places.shape[-3]
    motors = (state.shape[-1] - HEAD - sensory.shape[-1]) // 2
    f, w = settled(field, weights, state, maps)
    begun = state[..., BEGUN] != 0
    started = begun[..., None, None, None, None]
    f = torch.where(started, f, 0.0)
    last, noise, score = state[..., HEAD:].split([sensory.shape[-1], motors, motors], -1)
    noise = torch.where(begun[..., None], noise, 0.0)

    def grouped(tensor: Tensor) -> Tensor:
        """[..., 1 + motors, maps, places], a view of nothing."""
        used = tensor[..., : maps * (1 + motors)].reshape(*batch, -1, 1 + motors, maps)
        return used.movedim(-3, -1)

    def read(tensor: Tensor, coded: tuple[Tensor, Tensor]) -> Tensor:
        """<tensor, code> of the critic and each motor."""
        cells, active = (part.unsqueeze(-3).expand(*batch, 1 + motors, maps, 27) for part in coded)
        return (grouped(tensor).gather(-1, cells) * active).sum((-2, -1))

    before, now = code(places, last, sizes), code(places, sensory, sizes)
    critic, future = read(w, before)[..., 0], read(w, now)[..., 0]
    error = reward + torch.where(ended == 1, 0.0, discount * future) - critic
    amount = torch.cat((1 - critic_rate * read(f, before)[..., :1], score), -1)
    added = amount[..., None, None] * before[1].unsqueeze(-3)
    bump = torch.zeros_like(grouped(f)).scatter_add_(-1, before[0].unsqueeze(-3).expand_as(added), added)
    bump = bump.movedim(-1, -3).reshape(*batch, *sizes, maps * (1 + motors))
    bump = torch.nn.functional.pad(bump, (0, channels - bump.shape[-1]))
    imprinted = f + bump
    square, count = state[..., SQUARE], state[..., COUNT]
    if learns:
        counted = (count + 1).clamp(max=_MEMORY)
        mean = square + (error * error - square) / counted
        scale = mean.sqrt()
        relative = torch.where(scale > 0, error / scale, 0.0).clamp(-_LARGEST_ERROR, _LARGEST_ERROR)
        rates = torch.stack((critic_rate * error, motor_rate * relative), -1)
        is_motor = (torch.arange(channels, device=field.device) >= maps).long()
        changed = w + rates[..., is_motor][..., None, None, None, :] * imprinted
        w = torch.where(started, changed, w)
        square, count = torch.where(begun, mean, square), torch.where(begun, counted, count)
    decayed = (1 - decay) * imprinted
    f = torch.where(started, evolve(decayed, 0.0, diffusion) if diffusion else decayed, f)

    drives = read(w, now)[..., 1:]
    if discrete:
        motor, score = _choose(drives, spent, learns)
    else:
        motor, noise, score = _move(drives, spent, noise, correlation, deviation, learns)
    missed = (sensory - prediction).abs().mean(-1)
    ones, zeros = torch.ones_like(reward), torch.zeros_like(reward)
    head = torch.stack(((ended == 0).to(ones.dtype), ones, zeros, zeros, square, count), -1)
    if result.shape[-1] > motors:
        rows = f.flatten(-4, -2)
        size = rows.abs()
        metrics = (
            rows.std(-2, correction=0).sum(-1),
            size.amax((-2, -1)),
            1 / (1 + missed),
            rows.square().mean((-2, -1)),
            (size < _INACTIVE).to(missed.dtype).mean((-2, -1)),
            missed,
        )
        motor = torch.cat((motor, torch.stack(metrics, -1)), -1)
    made = (
        *((field, f), (weights, w), (state, torch.cat((head, sensory, noise, score), -1)), (key, spent)),
        *((prediction, 0.9 * prediction + 0.1 * sensory), (result, motor)),
    )
    for held, new in made:
        rests = (ended < 0).view(*batch, *[1] * (held.dim() - len(batch)))
        held.copy_(torch.where(rests, held, new))


def _move(
    drives: Tensor, key: Tensor, noise: Tensor, correlation: float, deviation: float, learns: bool
) -> tuple[Tensor, Tensor, Tensor]:
    """Motors tanh d + n, the noise n and its score n (1 - tanh^2 d)."""
    mean = drives.tanh()
    if not learns:
        return mean, noise, torch.zeros_like(mean)
    motors = torch.arange(drives.shape[-1], device=drives.device)
    drawn = normals(key[..., :1], key[..., 1:], motors.expand_as(drives)).to(drives.dtype)
    key[..., 1] += (len(motors) + 3) // 4
    noise = correlation * noise + deviation * (1 - correlation**2) ** 0.5 * drawn
    return (mean + noise).clamp(-1, 1), noise, noise * (1 - mean * mean)


def _choose(drives: Tensor, key: Tensor, learns: bool) -> tuple[Tensor, Tensor]:
    """1 for the motor that softmax of the drives draws and -1 for others, or 2 p - 1; and the score."""
    share = drives.softmax(-1)
    if not learns:
        return 2 * share - 1, torch.zeros_like(share)
    word = 2**32 - 1
    first, nothing = key[..., 1], torch.zeros_like(key[..., 1])
    block, *_ = philox4x32((first & word, first >> 32 & word, nothing, nothing), key[..., 0])
    drawn = ((block >> 8).float() * 2.0**-24).to(share.dtype)
    chosen = (share[..., :-1].cumsum(-1) <= drawn[..., None]).sum(-1)
    key[..., 1] += 1
    is_chosen = torch.nn.functional.one_hot(chosen, share.shape[-1]).to(share.dtype)
    return 2 * is_chosen - 1, is_chosen - share
