"""Calls every kernel on small shapes of every algorithm, for compute-sanitizer; checks values against the CPU."""

import argparse
import itertools
import sys
import time
from pathlib import Path

import torch

from torch_hrr import assembly, encoding, field, hierarchy, hrr

sys.path.append(str(Path(__file__).resolve().parents[1] / "assembly"))
from brain_programs import PROGRAMS, assert_same, trace

DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)
LAYOUTS = ("interleaved", "half")
SCHEMES = tuple(itertools.product(("replicate", "zeros", "circular"), ("laplace", "box", "binomial")))


PRINTED_EVERY = 2.0
_printed = [time.monotonic()]


def progress(name: str) -> None:
    """Now and then what is being checked, so that a run which is ended tells how far it came."""
    if time.monotonic() - _printed[0] > PRINTED_EVERY:
        _printed[0] = time.monotonic()
        print(name, flush=True)


def check(name: str, on_gpu: torch.Tensor, on_cpu: torch.Tensor) -> None:
    progress(name)
    difference = (on_gpu.cpu().double() - on_cpu.double()).norm() / on_cpu.double().norm().clamp_min(1e-30)
    if not difference < 0.02:
        raise SystemExit(f"{name}: differs from the CPU by {difference:.2e}")


def check_bits(name: str, on_gpu: torch.Tensor, on_cpu: torch.Tensor) -> None:
    progress(name)
    if not torch.equal(on_gpu.cpu(), on_cpu):
        raise SystemExit(f"{name}: differs from the CPU")


def vectors(small: bool, generator: torch.Generator, device: str = "cuda") -> None:
    """The operators of torch_hrr.hrr, forward and backward."""
    others = (1, 5, 16, 17, 32, 64, 100, 128, 256, 512, 1000, 1024, 2731, 3000, 5000, 8192, 10000)
    dims = (5, 64, 100, 512) if small else others
    for dim in dims:
        for dtype in DTYPES:
            a, b = (torch.randn(3, 2, dim, generator=generator, dtype=torch.float64).to(dtype) for _ in range(2))
            weights = torch.randn(3, 2, generator=generator, dtype=torch.float64).to(dtype)
            calls = {
                "bind": lambda a, b, w: hrr.bind(a, b),
                "unbind": lambda a, b, w: hrr.unbind(a, b[0]),
                "bind_normalize": lambda a, b, w: hrr.bind_normalize(a, b),
                "superpose": lambda a, b, w: hrr.superpose(a, w),
                "bind_superpose": lambda a, b, w: hrr.bind_superpose(a, b[0], w, normalize=True),
                "multibind": lambda a, b, w: hrr.multibind(a),
                "inverse": lambda a, b, w: hrr.inverse(a, 0.1),
                "unitary": lambda a, b, w: hrr.unitary(a),
                "bind_power": lambda a, b, w: hrr.bind_power(a, w),
                "spectrum": lambda a, b, w: hrr.spectrum(a),
                "from_spectrum": lambda a, b, w: hrr.from_spectrum(a),
                "bind_spectrum": lambda a, b, w: hrr.bind_spectrum(a, b[0]),
                "permute": lambda a, b, w: hrr.permute(a, 1),
            }
            for name, call in calls.items():
                check(
                    f"{name} {dim} {dtype}", call(a.to(device), b.to(device), weights.to(device)), call(a, b, weights)
                )
            on_gpu = [x.to(device, copy=True).requires_grad_() for x in (a, b)]
            on_cpu = [x.clone().requires_grad_() for x in (a, b)]
            for pair in (on_gpu, on_cpu):
                (hrr.bind_normalize(*pair) * 3).square().sum().backward()
                hrr.unbind(*pair).float().square().sum().backward()
                hrr.unitary(pair[0]).float().pow(3).sum().backward()
                hrr.bind_power(pair[1], 0.5).float().pow(3).sum().backward()
                hrr.inverse(pair[0], 0.1).float().pow(3).sum().backward()
            for gpu, cpu in zip(on_gpu, on_cpu, strict=True):
                check(f"gradient {dim} {dtype}", gpu.grad, cpu.grad)
    large = torch.randn(500, 512, generator=generator)
    check("superpose of many", hrr.superpose(large.to(device)), hrr.superpose(large))


def assemblies(small: bool, generator: torch.Generator, device: str = "cuda") -> None:
    """The operators of torch_hrr.assembly, forward and backward, and brains."""
    # One block a row up to 16384 elements, several beyond.
    sizes = ((3, 100), (2, 20_000)) if small else ((1, 1), (33, 33), (3, 1000), (2, 16_384), (2, 20_000), (1, 200_000))
    for rows, n in sizes:
        normal = torch.randn(rows, n, generator=generator, dtype=torch.float64)
        for dtype in (*DTYPES, torch.int32, torch.int64):
            inputs = (normal * 50).to(dtype)
            for k in sorted({0, 1, n // 10, n}):
                for is_sorted in (False, True):
                    pair = (assembly.k_winners(x, k, is_sorted) for x in (inputs.to(device), inputs))
                    for gpu, cpu in zip(*pair, strict=True):
                        check_bits(f"k_winners {rows}x{n} k{k} {dtype}", gpu, cpu)
        for dtype in DTYPES:
            for soft in (False, True):
                on_gpu, on_cpu = (normal.to(dtype).clone().to(place).requires_grad_() for place in (device, "cpu"))
                k = max(1, n // 10)
                gpu, cpu = (assembly.k_cap(x, k, 0.7, soft=soft) for x in (on_gpu, on_cpu))
                check(f"k_cap {rows}x{n} {dtype}", gpu.detach(), cpu.detach())
                for result in (gpu, cpu):
                    result.float().pow(2).sum().backward()
                if n > 1:
                    check(f"k_cap gradient {rows}x{n} {dtype}", on_gpu.grad, on_cpu.grad)
    for n, p in ((3000, 0.3), (20_000, 0.01)) if small else ((1, 0.5), (3000, 0.3), (50_001, 0.01), (300_000, 1e-4)):
        winners = torch.randint(2**31, (2, 60), generator=generator)
        gpu, cpu = (assembly.connectome_inputs(x, n, p, 7, 8, 9) for x in (winners.to(device), winners))
        check_bits(f"connectome_inputs {n} {p}", gpu, cpu)
    for name in ("inhibition and fixed assemblies",) if small else PROGRAMS:
        try:
            assert_same(trace(name, device, batch=2), trace(name, "cpu", batch=2))
        except AssertionError as error:
            raise SystemExit(f"brain, {name}: differs from the CPU: {error}") from error


def draw(generator: torch.Generator, *shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def pair(tensor: torch.Tensor, device: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Leaves of the same values on both devices, and both require gradients."""
    return tensor.clone().to(device).requires_grad_(), tensor.clone().requires_grad_()


def encodings(small: bool, generator: torch.Generator, device: str = "cuda") -> None:
    """The operators of torch_hrr.encoding, forward and backward; results are the CPU's bits."""
    last = 2**31 - 1
    positions = torch.tensor([[0, 1, -5, 99, 65_536], [last, -last, 7, 8, 123_456_789]])
    for dim, dtype, layout in itertools.product((5, 64) if small else (1, 2, 5, 64, 511, 1000), DTYPES, LAYOUTS):
        name = f"{dim} {dtype} {layout}"
        for own in (positions, draw(generator, 7) * 1000, draw(generator, 33).float()):
            options = {"phase": 0.5, "layout": layout, "dtype": dtype}
            gpu, cpu = (encoding.sinusoidal_encoding(x, dim, **options) for x in (own.to(device), own))
            check_bits(f"sinusoidal_encoding {name}", gpu, cpu)
        held = [pair(x, device) for x in (draw(generator, 3, 4).to(dtype), draw(generator, dim).to(dtype))]
        held.append(pair(draw(generator, dim).to(dtype), device))
        results = [encoding.sinusoidal_features(*inputs, layout) for inputs in zip(*held, strict=True)]
        check_bits(f"sinusoidal_features {name}", *(result.detach() for result in results))
        for result in results:
            result.float().pow(3).sum().backward()
        for gpu, cpu in held:
            check(f"sinusoidal_features gradient {name}", gpu.grad, cpu.grad)
        table = pair(draw(generator, 50, dim).to(dtype), device)
        for kind, (place, padding) in itertools.product((torch.int32, torch.int64), ((None, -1), (positions[0], 3))):
            tokens = torch.randint(50, (4, 5), generator=generator).to(kind)
            tokens[0, 0] = tokens[1] = 3
            there = (tokens.to(device), table[0], None if place is None else place.to(device))
            results = [
                encoding.embed_positions(*inputs, padding, 0.5, layout=layout)
                for inputs in (there, (tokens, table[1], place))
            ]
            check_bits(f"embed_positions {name}", *(result.detach() for result in results))
            for result in results:
                result.float().pow(2).sum().backward()
        check(f"embed_positions gradient {name}", table[0].grad, table[1].grad)
        rows = [
            pair(x, device) for x in (draw(generator, 2, 3, 5, 2 * dim + 3).to(dtype), draw(generator, dim).to(dtype))
        ]
        turned = []
        for (x, frequencies), place in zip(
            zip(*rows, strict=True), (positions[0].to(device), positions[0]), strict=True
        ):
            by = {"layout": layout, "factor": 1.5}
            turned.append(encoding.rope(x, place, frequencies=frequencies, **by))
            in_place = x.detach().transpose(1, 2).clone().transpose(1, 2)
            encoding.rope(in_place, place, frequencies=frequencies.detach(), out=in_place, **by)
            check_bits(f"rope in place {name}", in_place, turned[-1].detach())
            turned[-1].float().pow(2).sum().backward()
        check_bits(f"rope {name}", *(result.detach() for result in turned))
        for which, (gpu, cpu) in zip(("x", "frequencies"), rows, strict=True):
            check(f"rope gradient of {which} {name}", gpu.grad, cpu.grad)


def fields(small: bool, generator: torch.Generator, device: str = "cuda") -> None:
    """The operators of torch_hrr.field, forward and backward; results are the CPU's bits."""
    # Channels that stay in shared memory, whole and in two halves, and channels too large for it.
    shapes = [(2, 3, 5, 4, 5), (32, 32, 32, 2)]
    if not small:
        shapes += [(1, 2, 9, 1), (9, 33, 7, 3), (64, 64, 64, 2)]
    rates = draw(generator, 2).sigmoid() / 7
    key = torch.tensor([-77, 2**40 + 3])
    for shape, dtype in itertools.product(shapes, DTYPES):
        start = draw(generator, *shape).to(dtype)
        large = start.numel() > 10_000
        schemes = SCHEMES[::4] if large else SCHEMES
        all_steps = (5,) if large else (1, 5) if small else (1, 5, 10)
        for (boundary, stencil), steps, noise in itertools.product(schemes, all_steps, (0.0, 0.3)):
            name = f"evolve {shape} {dtype} {boundary} {stencil} {steps} steps, noise {noise}"
            scheme = (steps, boundary, stencil, noise)
            here, there = (start, key), (start.to(device), key.to(device))

            def call(state: torch.Tensor, key: torch.Tensor, *numbers, scheme=scheme, out=None) -> torch.Tensor:
                return field.evolve(state, *(numbers or (0.1, 0.15)), *scheme, key, out=out)

            expected = call(*here)
            check_bits(name, call(*there), expected)
            check_bits(f"{name}, out", call(*there, out=torch.empty_like(there[0])), expected)
            own, others = (rates.to(dtype).to(place) for place in ("cpu", device))
            check_bits(f"{name}, rates on the device", call(*there, *others), call(*here, *own))
            if large or (small and steps == 1):
                continue
            leaves = [pair(x, device) for x in (start, *own)]
            for (state, *numbers), own_key in zip(zip(*leaves, strict=True), (there[1], key), strict=True):
                call(state, own_key, *numbers).float().square().sum().backward()
            for (gpu, cpu), what in zip(leaves, ("field", "decay", "diffusion"), strict=True):
                check(f"{name}, gradient by {what}", gpu.grad, cpu.grad)
        for normalize in (True, False):
            for operator in (field.gradient, field.gradient_magnitude):
                name = f"{operator.__name__} {shape} {dtype}"
                gpu, cpu = leaves = pair(start, device)
                results = [operator(leaf, normalize) for leaf in leaves]
                check_bits(name, *(result.detach() for result in results))
                for result in results:
                    result.float().pow(2).sum().backward()
                check(f"{name}, gradient", gpu.grad, cpu.grad)


def hierarchies(small: bool, generator: torch.Generator, device: str = "cuda") -> None:
    """The operator of torch_hrr.hierarchy, forward and in both modes of its derivative, and a hierarchy that learns."""
    # Rows that a warp's registers hold, and longer ones; ticks that shared memory holds, and more.
    shapes = (
        ((7, 20, 5), (40, 600, 3)) if small else ((1, 1, 1), (7, 20, 5), (300, 513, 9), (33, 100, 40), (9, 1500, 70))
    )
    rules = ("hebb", "oja", "gha", "subspace", "bcm")
    calls = itertools.product(shapes, rules, ("linear", "relu", "tanh"), DTYPES, (None, 3), (False, True))
    for (ticks, n, units), rule, activation, dtype, batch, normalize in calls:
        if small and (batch is None) != (activation == "tanh"):
            continue
        name = f"plastic_scan {ticks}x{n}x{units} {rule} {activation} {dtype} batch {batch} normalize {normalize}"
        shape = (ticks, n) if batch is None else (ticks, batch, n)
        given = [draw(generator, *shape) / n**0.5, draw(generator, units, n) / n**0.5]
        given += [1 + draw(generator, units).abs()] if rule == "bcm" else []
        given = [x.to(dtype) for x in given]

        def call(
            inputs: torch.Tensor,
            weight: torch.Tensor,
            theta: torch.Tensor | None = None,
            options: tuple = (rule, 1e-2, activation, 2),
            normalize: bool = normalize,
        ) -> tuple[torch.Tensor, ...]:
            results = hierarchy.plastic_scan(inputs, weight, *options, theta, decay=0.1, normalize=normalize)
            return results[: 2 if theta is None else 3]

        near = [x.to(device) for x in given]
        for there, here in zip(call(*near), call(*given), strict=True):
            check(name, there, here)
        if dtype.itemsize < 4:
            continue
        sides = [[x.clone().requires_grad_() for x in tensors] for tensors in (near, given)]
        for leaves in sides:
            sum(result.square().sum() for result in call(*leaves)).backward()
        for there, here in zip(*sides, strict=True):
            check(f"{name}, gradient", there.grad, here.grad)
        ways = [draw(generator, *x.shape).to(dtype) for x in given]
        tangents = [
            torch.func.jvp(call, tuple(tensors), tuple(way.to(tensors[0].device) for way in ways))[1]
            for tensors in (near, given)
        ]
        for there, here in zip(*tangents, strict=True):
            check(f"{name}, tangent", there, here)
    data = draw(generator, 20, 12).float()
    managers = [learner(place) for place in (device, "cpu")]
    for there, here in zip(*(manager.process_hierarchy(data) for manager in managers), strict=True):
        check("a hierarchy", there, here)
    states = [manager.state_dict() for manager in managers]
    for name, here in states[1].items():
        both = (states[0][name], here)
        # Sums are held by their bits.
        there, here = (each.view(torch.float64) for each in both) if name.endswith("sums") else both
        check(f"a hierarchy's {name}", there, here)


def learner(device: str) -> hierarchy.HierarchyManager:
    """A hierarchy of every kind of layer."""
    manager = hierarchy.HierarchyManager()
    reactive = hierarchy.ReactiveLayer(12, 16, seed=0, device=device)
    oja = hierarchy.HebbianCore(16, 10, rule="oja", lr=1e-2, seed=0, device=device)
    soft = hierarchy.SoftHebb(10, 6, seed=0, device=device)
    bcm = hierarchy.HebbianCore(6, 4, rule="bcm", seed=0, device=device)
    for i, (layers, resolution, pool) in enumerate(
        (([reactive, oja], 1, "last"), ([soft], 2, "mean"), ([bcm], 3, "max"))
    ):
        level = hierarchy.HierarchicalLevel(i, layers[0].input_size, layers[-1].output_size, resolution, pool)
        for layer in layers:
            level.add_layer(layer)
        manager.add_level(level)
    return manager


SYSTEMS = {"hrr": vectors, "assembly": assemblies, "encoding": encodings, "field": fields, "hierarchy": hierarchies}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("systems", nargs="*", metavar="system", help=f"of {', '.join(SYSTEMS)}; all by default")
    parser.add_argument("--small", action="store_true", help="fewer sizes, for the slow tools")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: a dry run")
    options = parser.parse_args()
    for system in options.systems or SYSTEMS:
        SYSTEMS[system](options.small, torch.Generator().manual_seed(0), options.device)
    if options.device == "cuda":
        torch.cuda.synchronize()
    print("all kernels agree with the CPU")


if __name__ == "__main__":
    main()
