"""Dynamic fields: the behaviours that the theory names, one step against float64 oracles, and files."""

import copy
import itertools
import math

import pytest
import torch

from torch_hrr import IntegrityError, io
from torch_hrr.field import DynamicField, dynamics

ndimage = pytest.importorskip("scipy.ndimage")

SHAPES = {"plane": (1, 24, 24, 1), "volume": (16, 16, 16, 1)}
# Excitation that does not carry itself, and that which does: measured, the first peak goes below a stimulus of 2.
FORGETS = {
    "plane": {"excitation": 15.0, "global_inhibition": 0.05},
    "volume": {"excitation": 20.0, "global_inhibition": 0.02, "sigma_excitation": 1.5},
}
HOLDS = {
    "plane": {"excitation": 20.0, "global_inhibition": 0.05},
    "volume": {"excitation": 30.0, "global_inhibition": 0.05, "sigma_excitation": 1.5},
}
spaces = pytest.mark.parametrize("space", SHAPES)
boundaries = pytest.mark.parametrize("boundary", ("circular", "replicate", "zeros"))


def make(space, numbers, **more):
    return DynamicField(SHAPES[space], **{"tau": 5.0, **numbers[space], **more})


def middle(dynamic):
    return tuple(size // 2 for size in dynamic.shape[-4:-1])


def draw(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def smoothed(values, variance, boundary):
    """Steps of [1/4, 1/2, 1/4] along the axes with places, by scipy, one by one."""
    steps = math.ceil(2 * variance)
    rate = 2 * variance / steps
    mode = {"circular": "wrap", "replicate": "reflect", "zeros": "constant"}[boundary]
    axes = [axis for axis in range(3) if values.shape[axis] > 1]
    if boundary == "zeros":
        # A field of nothing around, so that what has left may come back.
        around = [(steps, steps) if axis in axes else (0, 0) for axis in range(3)]
        values = torch.nn.functional.pad(values, [each for pair in reversed(around) for each in pair])
    for _ in range(steps):
        mean = values.numpy()
        for axis in axes:
            mean = ndimage.correlate1d(mean, [0.25, 0.5, 0.25], axis, mode=mode)
        values = (1 - rate) * values + rate * torch.from_numpy(mean)
    if boundary == "zeros":
        for axis in axes:
            values = values.narrow(axis, steps, values.shape[axis] - 2 * steps)
    return values


@spaces
def test_a_stimulus_is_detected_above_an_instability_with_hysteresis(space):
    dynamic = make(space, FORGETS)
    bump = dynamic.stimulus(middle(dynamic), 2.0)
    dynamic.step(3.5 * bump, 200)
    assert not dynamic.peaks()
    dynamic.step(6 * bump, 100)
    (peak,) = dynamic.peaks()
    assert peak.position == pytest.approx(middle(dynamic), abs=1e-3) and peak.activation > 5
    # The stimulus that was too weak now holds the peak, which does not change any more.
    dynamic.step(3.5 * bump, 200)
    before = dynamic.activation
    dynamic.step(3.5 * bump, 20)
    (peak,) = dynamic.peaks()
    torch.testing.assert_close(dynamic.activation, before, rtol=0, atol=1e-4)
    # And below another instability it goes.
    dynamic.step(1.0 * bump, 300)
    assert not dynamic.peaks()


@spaces
def test_a_peak_is_more_than_its_stimulus(space):
    dynamic, bare = make(space, FORGETS), make(space, FORGETS, excitation=0.0, global_inhibition=0.0)
    bump = 6 * dynamic.stimulus(middle(dynamic), 2.0)
    dynamic.step(bump, 200)
    bare.step(bump, 200)
    torch.testing.assert_close(bare.activation, bump - 5.0)
    assert dynamic.peaks()[0].activation > 3 * bare.peaks()[0].activation
    # Surround: what lies outside the peak is pushed below the resting level.
    assert dynamic.activation.min() < -5.5


@spaces
def test_the_stronger_of_two_stimuli_wins(space):
    dynamic = make(space, FORGETS, global_inhibition=0.2, excitation=30.0)
    depth, *_ = centre = middle(dynamic)
    left, right = ((depth, place, centre[2]) for place in (3, 3 + dynamic.shape[-3] // 2))
    for weak, strong in ((left, right), (right, left)):
        dynamic.reset()
        both = 6.0 * dynamic.stimulus(weak, 1.5) + 7.0 * dynamic.stimulus(strong, 1.5)
        dynamic.step(both, 300)
        (peak,) = dynamic.peaks()
        assert peak.position == pytest.approx(strong, abs=0.5)


def test_between_equal_stimuli_the_seed_decides():
    dynamic = make("plane", FORGETS, global_inhibition=0.2, excitation=30.0, noise=0.5, seed=0)
    both = 6.0 * (dynamic.stimulus((0, 6, 12), 1.5) + dynamic.stimulus((0, 18, 12), 1.5))

    def winner(seed):
        dynamic.reset(seed)
        dynamic.step(both, 200)
        (peak,) = dynamic.peaks()
        assert min(abs(peak.position[1] - place) for place in (6, 18)) < 1
        return peak

    winners = [winner(seed) for seed in range(8)]
    assert {round(peak.position[1] / 6) * 6 for peak in winners} == {6, 18}
    assert [winner(seed) for seed in range(8)] == winners


@spaces
def test_a_peak_outlives_its_stimulus_where_excitation_carries_it(space):
    for numbers, held in ((HOLDS, 1), (FORGETS, 0)):
        dynamic = make(space, numbers)
        place = (0, 7, 12) if space == "plane" else (5, 7, 12)
        dynamic.step(6 * dynamic.stimulus(place, 2.0), 100)
        assert len(dynamic.peaks()) == 1
        dynamic.step(None, 400)
        peaks = dynamic.peaks()
        assert len(peaks) == held
        # It remembers where it was.
        assert all(peak.position == pytest.approx(place, abs=1e-3) for peak in peaks)
        # A lower resting level is the forgetting instability.
        dynamic.configure(resting_level=-12.0)
        dynamic.step(None, 300)
        assert not dynamic.peaks()


def test_a_peak_follows_its_stimulus():
    dynamic = make("plane", FORGETS)
    for place in torch.linspace(6, 16, 41).tolist():
        dynamic.step(6 * dynamic.stimulus((0, 12, place), 2.0), 10)
    (peak,) = dynamic.peaks()
    assert peak.position == pytest.approx((0, 12, 16), abs=0.5)


def test_channels_and_items_of_a_batch_do_not_hear_each_other():
    numbers = {"excitation": 20.0, "inhibition": 3.0, "global_inhibition": 0.05, "tau": 5.0}
    together = DynamicField((2, 1, 12, 14, 3), **numbers)
    stimuli = 6 * torch.stack([together.stimulus((0, 4 + item, 6), 2.0) for item in range(2)])
    stimuli = stimuli * torch.tensor([1.0, 0.0, 0.5])
    together.step(stimuli, 40)
    for item, channel in itertools.product(range(2), range(3)):
        alone = DynamicField((1, 12, 14, 1), **numbers)
        alone.step(stimuli[item, ..., channel : channel + 1], 40)
        torch.testing.assert_close(alone.activation[..., 0], together.activation[item, ..., channel])
    assert sorted((peak.batch, peak.channel) for peak in together.peaks()) == [((0,), 0), ((1,), 0)]


@boundaries
@pytest.mark.parametrize("shape", [(5, 6, 7), (1, 9, 8), (1, 1, 13)], ids=str)
@pytest.mark.parametrize("narrow", [0.0, 0.6, 1.0])
def test_a_step_is_the_formula(shape, boundary, narrow):
    wide, rate = 1.3, 0.7 / 3
    numbers = {"excitation": 4.0, "inhibition": 2.5, "global_inhibition": 0.1, "resting_level": -2.0, "beta": 1.7}
    dynamic = DynamicField(
        (*shape, 1),
        tau=3.0,
        dt=0.7,
        sigma_excitation=narrow,
        sigma_inhibition=wide,
        boundary=boundary,
        dtype=torch.float64,
        **numbers,
    )
    start, stimulus = draw(*shape), draw(*shape, seed=1)
    dynamic.activation.copy_(start.unsqueeze(-1))
    after = dynamic.step(stimulus.unsqueeze(-1))
    output = 1 / (1 + torch.exp(-1.7 * start))
    if boundary == "zeros":
        steps = sum(math.ceil(2 * variance - 1e-9) for variance in (narrow**2, wide**2 - narrow**2))
        output = torch.nn.functional.pad(
            output, [each for size in reversed(shape) for each in (steps * (size > 1),) * 2]
        )
    near = smoothed(output, narrow**2, boundary) if narrow else output
    far = smoothed(near, wide**2 - narrow**2, boundary)
    lateral = 4 * near - 2.5 * far - 0.1 * output.sum()
    if boundary == "zeros":
        lateral = lateral[tuple(slice(steps * (size > 1), steps * (size > 1) + size) for size in shape)]
    expected = start + rate * (-start - 2 + stimulus + lateral)
    torch.testing.assert_close(dynamic.activation[..., 0], expected, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(after, torch.sigmoid(1.7 * dynamic.activation))


@pytest.mark.parametrize("sigma", [0.5, 1.0, 1.5, 2.0, 3.3])
def test_the_kernel_is_a_gaussian_by_its_variance(sigma):
    size = 41
    dynamic = DynamicField(
        (1, 1, size, 1), sigma_excitation=sigma, excitation=1.0, global_inhibition=0.0, tau=1.0, dtype=torch.float64
    )
    # Output 0 or 1 up to 1e-17, and the leak takes all of it in a step.
    dynamic.configure(beta=1e3, resting_level=-1.0)
    dynamic.activation.fill_(-1.0)[0, 0, size // 2] = 1.0
    dynamic.step()
    kernel = dynamic.activation.flatten() + 1
    places = torch.arange(size).double() - size // 2
    torch.testing.assert_close(kernel.sum(), torch.tensor(1.0).double())
    torch.testing.assert_close((kernel * places**2).sum(), torch.tensor(sigma**2).double())
    if sigma >= 1:
        gauss = torch.exp(-(places**2) / (2 * sigma**2)) / (sigma * math.sqrt(2 * math.pi))
        assert (kernel - gauss).abs().max() < gauss.max() / (12 * sigma**2)


def test_far_beyond_the_border_nothing_is_kept():
    """Padding is bounded by six widths, which a float64 field can hardly tell from all steps."""
    numbers = {"sigma_excitation": 6.0, "excitation": 5.0, "global_inhibition": 0.0, "boundary": "zeros"}
    dynamic = DynamicField((1, 1, 20, 1), dtype=torch.float64, **numbers)
    start = draw(20)
    dynamic.activation.copy_(start.view(1, 1, 20, 1))
    dynamic.step()
    output = torch.sigmoid(4 * start).view(1, 1, 20)
    lateral = 5 * smoothed(output, 36.0, "zeros").flatten()
    torch.testing.assert_close(dynamic.activation.flatten(), 0.9 * start + 0.1 * (lateral - 5), rtol=0, atol=1e-8)


def test_noise_alone_has_the_variance_of_its_process():
    dynamic = DynamicField((8, 32, 32, 4), noise=2.0, tau=4.0, dt=0.5, excitation=0.0, global_inhibition=0.0, seed=3)
    dynamic.step(steps=60)
    leak = 0.5 / 4
    expected = 2 * math.sqrt(0.5) / 4 / math.sqrt(1 - (1 - leak) ** 2)
    assert float(dynamic.activation.std()) == pytest.approx(expected, rel=0.01)
    assert float(dynamic.activation.mean()) == pytest.approx(-5, abs=0.01)


def test_steps_together_are_steps_one_by_one():
    several, one = (make("plane", HOLDS, noise=0.4, seed=5) for _ in range(2))
    bump = 6 * one.stimulus((0, 12, 12), 2.0)
    outputs = [one(bump) for _ in range(7)]
    assert torch.equal(several.step(bump, 7), outputs[-1]) and torch.equal(several.activation, one.activation)
    assert torch.equal(one.output, outputs[-1]) and not torch.equal(outputs[-2], outputs[-1])
    assert several.step(bump, 0) is not outputs[-1] and torch.equal(several.activation, one.activation)


def test_the_number_of_threads_is_not_seen():
    results = []
    for threads in (1, 2, 3):
        torch.set_num_threads(threads)
        dynamic = DynamicField((16, 32, 32, 2), noise=0.5, inhibition=2.0, seed=0)
        dynamic.step(6 * dynamic.stimulus((8, 9, 10), 2.0), 4)
        results.append(dynamic.activation)
    assert all(torch.equal(each, results[0]) for each in results)


@boundaries
def test_peaks_are_the_regions_of_scipy(boundary):
    dynamic = DynamicField((6, 7, 8, 1), boundary=boundary, dtype=torch.float64)
    values = smoothed(draw(6, 7, 8), 0.5, "circular")
    dynamic.activation.copy_(values.unsqueeze(-1))
    peaks = dynamic.peaks(0.3)
    assert [peak.activation for peak in peaks] == sorted((peak.activation for peak in peaks), reverse=True)
    mask = (values > 0.3).numpy()
    tiled = mask if boundary != "circular" else torch.from_numpy(mask).repeat(3, 3, 3).numpy()
    labels, _ = ndimage.label(tiled)
    if boundary == "circular":
        labels = labels[6:12, 7:14, 8:16]
    # A region of a tiled field may meet the middle in several parts, each of which has its highest place here.
    sizes = {int(label): int((labels == label).sum()) for label in set(labels[labels > 0].tolist())}
    assert len(sizes) > 3 and sum(peak.size for peak in peaks) == int(mask.sum())
    if boundary != "circular":
        found = {(size, float(values[torch.from_numpy(labels == label)].max())) for label, size in sizes.items()}
        assert {(peak.size, peak.activation) for peak in peaks} == found
        centres = {
            tuple(round(place, 9) for place in ndimage.center_of_mass(dynamic.output[..., 0].numpy(), labels, label))
            for label in sizes
        }
        assert {tuple(round(place, 9) for place in peak.position) for peak in peaks} == centres
    else:
        assert len(peaks) <= len(sizes)


def test_a_peak_across_a_circular_border_is_one():
    dynamic = DynamicField((1, 1, 10, 2))
    dynamic.activation[0, 0, [9, 0, 1], 1] = torch.tensor([1.0, 2.0, 1.0])
    (peak,) = dynamic.peaks()
    assert peak.size == 3 and peak.channel == 1 and peak.batch == ()
    assert min(peak.position[2], 10 - peak.position[2]) < 1e-6 and peak.position[2] < 10
    assert peak.activation == 2 and peak.mass == pytest.approx(3, abs=0.1)
    dynamic.configure(boundary="replicate")
    assert sorted(peak.size for peak in dynamic.peaks()) == [1, 2]
    # Below any output that a float could hold the centre is still one.
    dynamic.activation.fill_(-1e6)
    (peak, _) = dynamic.peaks(-2e6)
    assert peak.position == pytest.approx((0, 0, 4.5))


def test_a_centre_a_hair_before_the_first_place_is_at_it():
    dynamic = DynamicField((1, 1, 10, 1), dtype=torch.float64)
    for more in range(1, 9):
        dynamic.activation[0, 0, [9, 0, 1], 0] = torch.tensor([1 + more * 2**-52, 2.0, 1.0], dtype=torch.float64)
        (peak,) = dynamic.peaks()
        assert peak.position[2] < 1e-12


def test_a_gaussian_takes_no_step_more_for_a_rounding_error():
    for variance in range(1, 50):
        assert dynamics._binomial(math.sqrt(variance) ** 2)[0] == 2 * variance


def test_a_surround_that_is_not_there_has_no_width():
    DynamicField((1, 1, 3, 1), sigma_inhibition=4.0).step()
    with pytest.raises(ValueError, match="sigma_inhibition must be at most the longest axis = 3, got 4"):
        DynamicField((1, 1, 3, 1), sigma_inhibition=4.0, inhibition=1.0)


@boundaries
def test_a_stimulus_is_a_gaussian(boundary):
    dynamic = DynamicField((4, 6, 8, 3), boundary=boundary)
    bump = dynamic.stimulus((1, 0.5, 6), 1.5, 3.0, channel=2)
    assert bump.shape == (4, 6, 8, 3) and bump.dtype == dynamic.activation.dtype and not bump[..., :2].any()
    assert float(bump[1, 1, 6, 2]) == pytest.approx(3 * math.exp(-(0.5**2) / 4.5))
    around = 1.5**2 if boundary == "circular" else 4.5**2
    assert float(bump[1, 5, 6, 2]) == pytest.approx(3 * math.exp(-around / 4.5))
    everywhere = dynamic.stimulus((1, 0.5, 6), 1.5, 3.0)
    assert all(torch.equal(everywhere[..., channel], bump[..., 2]) for channel in range(3))


def test_reset_gives_the_same_run():
    dynamic = make("plane", HOLDS, noise=1.0, seed=2**64 - 7)
    first = dynamic.step(steps=5)
    dynamic.reset()
    assert torch.equal(dynamic.activation, torch.full_like(first, -5.0))
    assert torch.equal(dynamic.step(steps=5), first)
    dynamic.reset(8)
    assert not torch.equal(dynamic.step(steps=5), first) and dynamic.seed == 8


def test_a_saved_field_goes_on_bit_for_bit(tmp_path):
    dynamic = make("plane", HOLDS, noise=0.7, seed=-3, boundary="zeros", inhibition=2.0)
    bump = 6 * dynamic.stimulus((0, 10, 11), 2.0)
    dynamic.step(bump, 20)
    dynamic.configure(resting_level=-4.5)
    dynamic.save(tmp_path / "field", key=b"secret")
    loaded = DynamicField.load(tmp_path / "field", key=b"secret")
    assert loaded.config == dynamic.config and loaded.seed == dynamic.seed and loaded.shape == dynamic.shape
    assert torch.equal(loaded.step(bump, 20), dynamic.step(bump, 20))
    assert torch.equal(loaded.activation, dynamic.activation) and loaded.peaks() == dynamic.peaks()
    loaded.save(tmp_path / "first")
    dynamic.save(tmp_path / "second")
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()


# Strict export warns of every buffer that a module replaces.
@pytest.mark.filterwarnings("ignore:While compiling, we found certain side effects")
@pytest.mark.parametrize(("strict", "noise"), ((False, 0.0), (True, 0.1)))
def test_an_exported_program_goes_on_as_the_field_does(strict, noise):
    own = DynamicField((1, 8, 8, 1), noise=noise, seed=3, excitation=30.0, sigma_excitation=1.5, tau=2.0)
    stimuli = [torch.full((1, 8, 8, 1), 6.0 * i) for i in range(1, 5)]
    program = torch.export.export(copy.deepcopy(own), (stimuli[0],), strict=strict).run_decompositions().module()
    for stimulus in stimuli:
        torch.testing.assert_close(program(stimulus), own(stimulus))
    assert own.output.max() > 0.9


def test_a_file_of_another_field_is_refused(tmp_path):
    """What no `DynamicField` has, whatever the seal says; tests/test_saveable.py tries what no class has."""
    dynamic, path = make("plane", HOLDS), tmp_path / "field"
    tensors, metadata = dynamic._content()
    for content in (
        (tensors, {**metadata, "config": {**metadata["config"], "tau": -1.0}}),
        ({**tensors, "activation": tensors["activation"].half()}, metadata),
        ({**tensors, "activation": tensors["activation"][0]}, metadata),
    ):
        io.save(path, *content, format="torch_hrr.dynamic_field", version=1)
        with pytest.raises(IntegrityError, match="must describe a DynamicField"):
            DynamicField.load(path)
