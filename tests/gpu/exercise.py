"""Calls every kernel on small shapes of every algorithm, for compute-sanitizer; checks values against the CPU."""

import argparse
import sys
from pathlib import Path

import torch

from torch_hrr import assembly, hrr

sys.path.append(str(Path(__file__).resolve().parents[1] / "assembly"))
from brain_programs import PROGRAMS, assert_same, trace

DTYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


def check(name: str, on_gpu: torch.Tensor, on_cpu: torch.Tensor) -> None:
    difference = (on_gpu.cpu().double() - on_cpu.double()).norm() / on_cpu.double().norm().clamp_min(1e-30)
    if not difference < 0.02:
        raise SystemExit(f"{name}: differs from the CPU by {difference:.2e}")


def check_bits(name: str, on_gpu: torch.Tensor, on_cpu: torch.Tensor) -> None:
    if not torch.equal(on_gpu.cpu(), on_cpu):
        raise SystemExit(f"{name}: differs from the CPU")


def vectors(small: bool, generator: torch.Generator) -> None:
    """The operators of torch_hrr.hrr, forward and backward."""
    dims = (5, 64, 100, 512) if small else (1, 5, 16, 17, 32, 64, 100, 128, 256, 512, 1000, 1024, 2731, 3000, 8192)
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
                check(f"{name} {dim} {dtype}", call(a.cuda(), b.cuda(), weights.cuda()), call(a, b, weights))
            on_gpu = [x.cuda().requires_grad_() for x in (a, b)]
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
    check("superpose of many", hrr.superpose(large.cuda()), hrr.superpose(large))


def assemblies(small: bool, generator: torch.Generator) -> None:
    """The operators of torch_hrr.assembly, forward and backward, and brains."""
    # One block a row up to 16384 elements, several beyond.
    sizes = ((3, 100), (2, 20_000)) if small else ((1, 1), (33, 33), (3, 1000), (2, 16_384), (2, 20_000), (1, 200_000))
    for rows, n in sizes:
        normal = torch.randn(rows, n, generator=generator, dtype=torch.float64)
        for dtype in (*DTYPES, torch.int32, torch.int64):
            inputs = (normal * 50).to(dtype)
            for k in sorted({0, 1, n // 10, n}):
                for is_sorted in (False, True):
                    pair = (assembly.k_winners(x, k, is_sorted) for x in (inputs.cuda(), inputs))
                    for gpu, cpu in zip(*pair, strict=True):
                        check_bits(f"k_winners {rows}x{n} k{k} {dtype}", gpu, cpu)
        for dtype in DTYPES:
            for soft in (False, True):
                on_gpu, on_cpu = (normal.to(dtype).clone().to(device).requires_grad_() for device in ("cuda", "cpu"))
                k = max(1, n // 10)
                gpu, cpu = (assembly.k_cap(x, k, 0.7, soft=soft) for x in (on_gpu, on_cpu))
                check(f"k_cap {rows}x{n} {dtype}", gpu.detach(), cpu.detach())
                for result in (gpu, cpu):
                    result.float().pow(2).sum().backward()
                if n > 1:
                    check(f"k_cap gradient {rows}x{n} {dtype}", on_gpu.grad, on_cpu.grad)
    for n, p in ((3000, 0.3), (20_000, 0.01)) if small else ((1, 0.5), (3000, 0.3), (50_001, 0.01), (300_000, 1e-4)):
        winners = torch.randint(2**31, (2, 60), generator=generator)
        gpu, cpu = (assembly.connectome_inputs(x, n, p, 7, 8, 9) for x in (winners.cuda(), winners))
        check_bits(f"connectome_inputs {n} {p}", gpu, cpu)
    for name in ("inhibition and fixed assemblies",) if small else PROGRAMS:
        try:
            assert_same(trace(name, "cuda", batch=2), trace(name, "cpu", batch=2))
        except AssertionError as error:
            raise SystemExit(f"brain, {name}: differs from the CPU: {error}") from error


SYSTEMS = {"hrr": vectors, "assembly": assemblies}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("systems", nargs="*", metavar="system", help=f"of {', '.join(SYSTEMS)}; all by default")
    parser.add_argument("--small", action="store_true", help="fewer sizes, for the slow tools")
    options = parser.parse_args()
    for system in options.systems or SYSTEMS:
        SYSTEMS[system](options.small, torch.Generator().manual_seed(0))
    torch.cuda.synchronize()
    print("all kernels agree with the CPU")


if __name__ == "__main__":
    main()
