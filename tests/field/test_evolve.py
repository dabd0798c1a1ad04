"""The physics of `field.evolve`: eigenvectors, mass, variance, stationary noise; and its promises about bits."""

import copy
import functools
import itertools
import math
import os
import signal

import pytest
import torch

from torch_hrr import _progress, field

BOUNDARIES = ("replicate", "zeros", "circular")
STENCILS = ("laplace", "box", "binomial")
DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
schemes = pytest.mark.parametrize(("boundary", "stencil"), list(itertools.product(BOUNDARIES, STENCILS)))
stencils = pytest.mark.parametrize("stencil", STENCILS)
dtypes = pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: str(dtype).removeprefix("torch."))


def draw(*shape, dtype=torch.float32, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


@stencils
def test_fourier_modes_are_eigenvectors(stencil):
    sizes, decay, rate = (6, 8, 10), 0.2, 0.15
    waves = [2 * math.pi * mode / size for mode, size in zip((1, 3, 4), sizes, strict=True)]
    grids = torch.meshgrid(*(torch.arange(size, dtype=torch.float64) for size in sizes), indexing="ij")
    mode = torch.cos(sum(wave * grid for wave, grid in zip(waves, grids, strict=True)) + 0.3).unsqueeze(-1)
    if stencil == "laplace":
        factor = 1 + rate * sum(2 * math.cos(wave) - 2 for wave in waves)
    elif stencil == "box":
        factor = 1 - rate + rate * math.prod((1 + 2 * math.cos(wave)) / 3 for wave in waves)
    else:
        factor = 1 - rate + rate * math.prod((1 + math.cos(wave)) / 2 for wave in waves)
    eigenvalue = (1 - decay) * factor
    moved = field.evolve(mode, decay, rate, 5, "circular", stencil)
    torch.testing.assert_close(moved, mode * eigenvalue**5, rtol=1e-12, atol=1e-13)


@stencils
@pytest.mark.parametrize("boundary", ("replicate", "circular"))
def test_mass_falls_by_decay_alone(boundary, stencil):
    start = draw(5, 1, 2, 3, dtype=torch.float64).abs()
    after = field.evolve(start, 0.05, 0.16, 20, boundary, stencil)
    torch.testing.assert_close(after.sum((0, 1, 2)), start.sum((0, 1, 2)) * 0.95**20, rtol=1e-13, atol=0)


@stencils
def test_mass_leaves_through_zeros(stencil):
    start = torch.ones(4, 4, 4, 1)
    assert field.evolve(start, 0.0, 0.16, 1, "zeros", stencil).sum() < 0.95 * start.sum()


@pytest.mark.parametrize(("stencil", "of_rate"), (("laplace", 2.0), ("box", 2 / 3), ("binomial", 0.5)))
def test_an_impulse_spreads_by_its_variance(stencil, of_rate):
    steps, rate, size = 8, 0.125, 19
    start = torch.zeros(size, size, size, 2, dtype=torch.float64)
    start[9, 9, 9] = 1
    after = field.evolve(start, 0.0, rate, steps, "zeros", stencil)
    places = (torch.arange(size) - 9).double()
    for axis in range(3):
        share = after[..., 0].sum([other for other in range(3) if other != axis])
        assert (share * places).sum().abs() < 1e-13
        torch.testing.assert_close((share * places**2).sum(), torch.tensor(steps * rate * of_rate).double())


@stencils
def test_a_constant_stays_itself(stencil):
    start = torch.full((3, 4, 5, 7), 0.7)
    after = field.evolve(start, 0.0, 0.125, 50, "replicate", stencil)
    if stencil == "box":  # 27 is no power of two
        torch.testing.assert_close(after, start, rtol=1e-5, atol=0)
    else:
        assert torch.equal(after, start)


@schemes
def test_a_mirrored_field_gives_the_mirrored_result(boundary, stencil):
    start = draw(4, 5, 6, 3)
    for axis in range(3):
        mirrored = field.evolve(start.flip(axis), 0.1, 0.1, 3, boundary, stencil)
        assert torch.equal(mirrored.flip(axis), field.evolve(start, 0.1, 0.1, 3, boundary, stencil))


@schemes
@pytest.mark.parametrize("poison", (math.nan, math.inf))
def test_nan_stays_within_as_many_places_as_steps(boundary, stencil, poison):
    start = draw(9, 9, 9, 3)
    clean = field.evolve(start, 0.1, 0.1, 2, boundary, stencil)
    start[4, 4, 4, 1] = poison
    after = field.evolve(start, 0.1, 0.1, 2, boundary, stencil)
    differs = after.isnan() | after.isinf()
    near = torch.zeros(9, 9, 9, 3, dtype=torch.bool)
    near[2:7, 2:7, 2:7, 1] = True
    assert not (differs & ~near).any()
    assert differs[4, 4, 4, 1] and differs[4, 4, 6, 1]
    assert torch.equal(after[~near], clean[~near])


@dtypes
@pytest.mark.parametrize("noise", (0.0, 0.2))
@schemes
def test_steps_in_one_call_are_bit_equal_to_calls(boundary, stencil, noise, dtype):
    for shape in ((5, 6, 7, 3), (2, 4, 4, 4, 17), (1, 1, 1, 1), (3, 20, 33, 16), (2, 3, 2, 40), (2, 5, 3, 32, 48)):
        start = draw(*shape, dtype=dtype)
        key = field.random_key(11)
        whole = field.evolve(start, 0.1, 0.15, 7, boundary, stencil, noise, key)
        parts = start
        for steps in (1, 2, 4):
            parts = field.evolve(parts, 0.1, 0.15, steps, boundary, stencil, noise, key)
            key = field.advance_key(key, start.numel(), steps)
        assert torch.equal(parts, whole)


def test_no_steps_are_a_copy():
    start = draw(2, 3, 4, 5)
    after = field.evolve(start, 0.5, 0.1, 0, noise=1.0, key=field.random_key(0))
    assert torch.equal(after, start) and after.data_ptr() != start.data_ptr()


@pytest.mark.parametrize("noise", (0.0, 0.3))
@schemes
def test_threads_and_layout_do_not_change_bits(boundary, stencil, noise):
    start = draw(2, 12, 30, 17, 40)
    key = field.random_key(3)
    torch.set_num_threads(1)
    expected = field.evolve(start, 0.1, 0.1, 3, boundary, stencil, noise, key)
    channels_first = start.movedim(-1, 1).contiguous().movedim(1, -1)
    reversed_depth = start.transpose(0, 1).contiguous().transpose(0, 1)
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        for laid in (start, channels_first, reversed_depth):
            assert torch.equal(field.evolve(laid, 0.1, 0.1, 3, boundary, stencil, noise, key), expected)


def test_large_fields_leave_past_the_caches_with_the_same_bits():
    """40 MiB, whose lines begin anywhere within a line of memory; a part of it is small."""
    start = draw(1, 2, 48, 60, 60, 31)
    for dtype in (torch.float32, torch.float16):
        large = start.repeat(2, 1, 1, 1, 1, 1).to(dtype)
        out = torch.empty(large.numel() + 1, dtype=dtype)[1:].view_as(large)
        field.evolve(large, 0.1, 0.1, out=out)
        assert torch.equal(out[1, 1, :3], field.evolve(large[1, 1, :4], 0.1, 0.1)[:3])
        assert torch.equal(out, field.evolve(large, 0.1, 0.1))


# Volumes that 4 divides, and others, where channels begin at other words of their blocks.
VOLUMES = (
    (4, 4, 4, 3),
    (3, 3, 3, 5),
    (2, 5, 3, 7, 17),
    (2, 2, 2, 64),
    (1, 1, 1, 1),
    (1, 2, 3, 33),
    (2, 3, 2, 1, 1, 40),
)


@pytest.mark.parametrize("shape", VOLUMES, ids=str)
def test_noise_is_that_of_torch_by_its_numbers(shape):
    random = pytest.importorskip("torch.func._random")
    offset = 2**32 - 3
    key = torch.tensor([7, offset], dtype=torch.uint64)
    ours = field.evolve(torch.zeros(shape), 0.0, 0.0, noise=1.0, key=key).movedim(-1, -4).flatten()
    torch.testing.assert_close(ours, random.normal(key, ours.numel()), rtol=1e-5, atol=1e-5)


def philox(seed, index):
    """Ten rounds on a counter, in Python's integers."""
    counter = [index % 2**32, index >> 32, 0, 0]
    low, high = seed % 2**32, seed >> 32
    for _ in range(10):
        first, second = 0xD2511F53 * counter[0], 0xCD9E8D57 * counter[2]
        counter = [
            (second >> 32) ^ counter[1] ^ low,
            second % 2**32,
            (first >> 32) ^ counter[3] ^ high,
            first % 2**32,
        ]
        low, high = (low + 0x9E3779B9) % 2**32, (high + 0xBB67AE85) % 2**32
    return counter


def box_muller(x, y):
    radius = math.sqrt(-2 * math.log((x + 0.5) / 2**32))
    return radius * math.cos(2 * math.pi * y / 2**32), radius * math.sin(2 * math.pi * y / 2**32)


@pytest.mark.parametrize("shape", VOLUMES, ids=str)
@pytest.mark.parametrize("seed", (0, 2**64 - 5))
@pytest.mark.parametrize("offset", (0, 2**32 - 2, 2**64 - 1))
def test_noise_is_numbered_channel_major(shape, seed, offset):
    key = torch.tensor([seed, offset], dtype=torch.uint64)
    ours = field.evolve(torch.zeros(shape, dtype=torch.float64), 0.0, 0.0, noise=2.0, key=key)
    ours = ours.movedim(-1, -4).flatten().tolist()
    for i in {0, 1, 2, 3, 4, 5, len(ours) // 2, len(ours) - 1} & set(range(len(ours))):
        words = philox(seed, (offset + i // 4) % 2**64)
        pair = box_muller(*words[:2]) if i % 4 < 2 else box_muller(*words[2:])
        assert ours[i] == pytest.approx(2 * pair[i % 2], rel=1e-5, abs=1e-5)


def test_every_dtype_gets_the_same_numbers():
    start, key = torch.zeros(3, 4, 5, 6), field.random_key(5)
    single = field.evolve(start, 0.1, 0.1, noise=1.0, key=key)
    assert torch.equal(field.evolve(start.double(), 0.1, 0.1, noise=1.0, key=key).float(), single)
    assert torch.equal(field.evolve(start.half(), 0.1, 0.1, noise=1.0, key=key), single.half())


def test_stationary_noise_has_the_deviation_of_an_autoregression():
    decay, noise = 0.2, 0.5
    after = field.evolve(torch.zeros(24, 24, 24, 16), decay, 0.0, 60, noise=noise, key=field.random_key(1))
    expected = noise / math.sqrt(1 - (1 - decay) ** 2)
    # The deviation of an estimate from n numbers is 1 / sqrt(2 n) of it.
    assert abs(after.std().item() / expected - 1) < 4 / math.sqrt(2 * after.numel())
    assert abs(after.mean().item()) < 4 * expected / math.sqrt(after.numel())


def test_a_key_is_drawn_where_none_is_given():
    start = torch.zeros(2, 2, 2, 4)
    draws = [field.evolve(start, 0.0, 0.0, noise=1.0, generator=torch.Generator().manual_seed(s)) for s in (1, 1, 2)]
    assert torch.equal(draws[0], draws[1]) and not torch.equal(draws[0], draws[2])
    torch.manual_seed(4)
    first = field.evolve(start, 0.0, 0.0, noise=1.0)
    assert not torch.equal(field.evolve(start, 0.0, 0.0, noise=1.0), first)
    torch.manual_seed(4)
    assert torch.equal(field.evolve(start, 0.0, 0.0, noise=1.0), first)


def test_the_operator_itself_wants_a_key():
    with pytest.raises(ValueError, match=r"^field_evolve: key must be given where noise is above 0, got None"):
        torch.ops.torch_hrr.field_evolve(torch.zeros(2, 2, 2, 2), 0.1, 0.1, noise=1.0)


def test_keys_advance():
    key = field.random_key(2**64 - 1)
    assert key.tolist() == [-1, 0] and key.dtype == torch.int64
    assert field.advance_key(key, 9, 5).tolist() == [-1, 15] and key.tolist() == [-1, 0]
    assert field.advance_key(key, 0, 5).tolist() == [-1, 0]
    end = torch.tensor([3, 2**64 - 1], dtype=torch.uint64)
    assert field.advance_key_(end, 8) is end
    assert end.tolist() == [3, 1]
    for call, (change, error) in itertools.product(
        (field.advance_key, field.advance_key_),
        (
            ({"numel": -1}, ValueError),
            ({"steps": -1}, ValueError),
            ({"numel": 1.5}, TypeError),
            ({"key": [1, 2]}, TypeError),
            ({"key": torch.zeros(2)}, TypeError),
            ({"key": torch.zeros(3, dtype=torch.int64)}, ValueError),
        ),
    ):
        with pytest.raises(error, match=rf"^{call.__name__}: {next(iter(change))} must "):
            call(**({"key": key, "numel": 4, "steps": 1} | change))


@pytest.mark.parametrize("argument", ["decay", "diffusion", "steps", "noise"])
def test_a_bool_is_no_number(argument):
    numbers = {"decay": 0.1, "diffusion": 0.1, "steps": 1, "noise": 0.0}
    with pytest.raises(TypeError, match=rf"^evolve: {argument} must be (a number|an int), got bool$"):
        field.evolve(torch.zeros(2, 2, 2, 1), **{**numbers, argument: True})


@pytest.mark.parametrize("bad", (math.nan, -0.1, 1.5))
def test_tensors_of_decay_and_diffusion_are_checked(bad):
    start, good = torch.zeros(2, 2, 2, 2), torch.tensor(0.1)
    with pytest.raises(ValueError, match=r"^evolve: decay must be in"):
        field.evolve(start, torch.tensor(bad), good)
    with pytest.raises(ValueError, match=r"^evolve: diffusion must be in"):
        field.evolve(start, good, torch.tensor(bad))
    with pytest.raises(TypeError, match=r"^evolve: decay and diffusion must be floats where out is given"):
        field.evolve(start, good, 0.1, out=torch.empty_like(start))


def test_a_sixth_as_a_float32_tensor_is_stable():
    start = draw(4, 4, 4, 1)
    after = field.evolve(start, 0.0, torch.tensor(1 / 6), 1000, "circular")
    assert after.abs().max() <= start.abs().max()


def test_a_key_is_drawn_where_torchs_default_device_holds_nothing():
    start = torch.ones(2, 2, 2, 2, device="cpu")
    torch.manual_seed(4)
    drawn = field.evolve(start, 0.0, 0.0, noise=1.0)
    torch.manual_seed(4)
    with torch.device("meta"):
        assert torch.equal(field.evolve(start, 0.0, 0.0, noise=1.0), drawn)


def test_numbers_and_tensors_give_the_same_bits():
    start = draw(3, 4, 5, 6)
    tensors = field.evolve(start, torch.tensor(0.25), torch.tensor(0.125), 3)
    assert torch.equal(tensors, field.evolve(start, 0.25, 0.125, 3))
    assert torch.equal(field.evolve(start, 0.25, torch.tensor(0.125), 3), tensors)


@schemes
def test_gradients_with_noise(boundary, stencil):
    """Noise is added after every step, so that it counts in the fields that decay and diffusion act on."""
    start = draw(2, 3, 2, 2, dtype=torch.float64).requires_grad_()
    numbers = [torch.tensor(value, dtype=torch.float64, requires_grad=True) for value in (0.2, 0.13)]
    key = field.random_key(9)

    def run(start, decay, diffusion):
        return field.evolve(start, decay, diffusion, 3, boundary, stencil, 0.7, key)

    assert torch.autograd.gradcheck(run, (start, *numbers), check_forward_ad=True, check_batched_grad=True)
    assert torch.autograd.gradgradcheck(run, (start, *numbers))


def test_vmap_over_noise_is_an_error():
    with pytest.raises(RuntimeError, match=r"^evolve: key must not be given within vmap"):
        torch.vmap(lambda x: field.evolve(x, 0.1, 0.1, noise=1.0, key=field.random_key(0)))(torch.zeros(2, 2, 2, 2, 2))


@pytest.mark.parametrize("given", (False, True), ids=("new", "out"))
@pytest.mark.parametrize("noise", (0.0, 0.1))
def test_parts_of_a_long_call_are_bit_equal_to_it(noise, given, monkeypatch):
    start, key = torch.randn(3, 4, 5, 2), field.random_key(3) if noise else None
    expected = field.evolve(start, 0.1, 0.1, 5, noise=noise, key=key)
    before, seen = start.clone(), []
    monkeypatch.setattr(_progress, "_SHORT", 0.0)
    monkeypatch.setattr(_progress, "_PART", 0.0)
    out = torch.empty_like(start) if given else None
    found = field.evolve(start, 0.1, 0.1, 5, noise=noise, key=key, out=out, progress=lambda *each: seen.append(each))
    assert torch.equal(found, expected) and (found is out) == given and torch.equal(start, before)
    assert seen == [(done, 5) for done in range(1, 6)]
    with pytest.raises(RuntimeError, match=r"^evolve: out must "):
        field.evolve(start, 0.1, 0.1, 5, out=start)
    start.requires_grad_()
    (cut,) = torch.autograd.grad(field.evolve(start, 0.1, 0.1, 5).square().sum(), start)
    monkeypatch.undo()
    assert torch.equal(cut, torch.autograd.grad(field.evolve(start, 0.1, 0.1, 5).square().sum(), start)[0])


def test_long_calls_end_between_parts_on_an_interrupt(monkeypatch):
    monkeypatch.setattr(_progress, "_SHORT", 0.0)
    monkeypatch.setattr(_progress, "_PART", 0.0)
    dynamic = field.DynamicField((1, 6, 6, 1), noise=0.1)
    before = copy.deepcopy(dynamic.state_dict())
    for call in (
        functools.partial(field.evolve, torch.ones(3, 4, 5, 2), 0.1, 0.1, 5),
        functools.partial(dynamic.step, None, 5),
    ):
        seen = []

        def interrupted(done, total, seen=seen):
            seen.append((done, total))
            if done == 2:
                os.kill(os.getpid(), signal.SIGINT)

        with pytest.raises(KeyboardInterrupt):
            call(progress=interrupted)
        assert seen[:2] == [(1, 5), (2, 5)] and len(seen) < 5
        with pytest.raises(TypeError, match=r"^(evolve|step): progress must be a function, a bool or None, got int$"):
            call(progress=3)
    assert all(torch.equal(each, before[name]) for name, each in dynamic.state_dict().items())
