"""Calls every kernel on small shapes of every algorithm, for compute-sanitizer; checks values against the CPU."""

import argparse

import torch

from torch_hrr import hrr


def check(name: str, on_gpu: torch.Tensor, on_cpu: torch.Tensor) -> None:
    difference = (on_gpu.cpu().double() - on_cpu.double()).norm() / on_cpu.double().norm().clamp_min(1e-30)
    if not difference < 0.02:
        raise SystemExit(f"{name}: differs from the CPU by {difference:.2e}")


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--small", action="store_true", help="fewer lengths, for the slow tools")
    small = parser.parse_args().small
    dims = (5, 64, 100, 512) if small else (1, 5, 16, 17, 32, 64, 100, 128, 256, 512, 1000, 1024, 2731, 3000, 8192)
    generator = torch.Generator().manual_seed(0)
    for dim in dims:
        for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
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
    torch.cuda.synchronize()
    print("all kernels agree with the CPU")


if __name__ == "__main__":
    main()
