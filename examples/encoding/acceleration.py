"""What the embedder's precision and operators cost: time and memory in float32 and bfloat16, and advice on batches.

Three embedders of one configuration: plain torch, the fused operator, and the fused operator with results in bfloat16.
Each is timed on the device that it chose, a GPU if there is one with kernels of this library, else the CPU. Results in
bfloat16 are the float32 sums rounded once: angles are never computed in it, which the last column shows.

Run: python examples/encoding/acceleration.py --memory 8192
"""

import argparse
from collections.abc import Sequence

import torch

from torch_hrr.encoding import ConfigurableSinusoidalEmbedder, GPUConfig, SinusoidalConfig

VARIANTS = {
    "plain torch, float32": {"use_vectorized_operations": False},
    "fused, float32": {},
    "fused, bfloat16": {
        "use_mixed_precision": True,
        "gpu_config": GPUConfig(mixed_precision_policy="mixed_bfloat16"),
    },
}


def main(argv: Sequence[str] | None = None) -> dict[str, dict[str, float]]:
    """Prints a row for each variant and returns them."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--length", type=int, default=512)
    parser.add_argument("--dim", type=int, default=512)
    parser.add_argument("--vocabulary", type=int, default=50_000)
    parser.add_argument("--iterations", type=int, default=20)
    parser.add_argument("--memory", type=float, help="MiB that batch advice may count on; what is free, if left out")
    options = parser.parse_args(argv)

    tokens = torch.randint(1, options.vocabulary, (options.batch, options.length))
    # Far out, where angles in a half type, or even in float32, would be noise.
    positions = torch.arange(options.length) + 1_000_000
    results: dict[str, dict[str, float]] = {}
    exact = None
    print(f"{options.batch} sequences of {options.length} tokens, {options.dim} numbers each")
    print(f"{'':<24}{'ms':>9}{'tokens/s':>12}{'MiB':>8}{'batch that fits':>17}{'error at 1e6':>14}")
    for name, settings in VARIANTS.items():
        config = SinusoidalConfig(options.vocabulary, options.dim, options.length, **settings)
        embedder = ConfigurableSinusoidalEmbedder(config, generator=torch.Generator().manual_seed(0))
        times = embedder.benchmark_gpu_performance(options.batch, options.length, options.iterations)
        advice = embedder.optimize_for_gpu(options.memory)
        with torch.no_grad():
            rows = embedder(tokens, positions)
        exact = rows.double() if exact is None else exact
        results[name] = {
            "ms": times["ms"],
            "tokens_per_second": times["tokens_per_second"],
            "mib": rows.nbytes / 2**20,
            "batch": advice["optimal_batch_size"],
            "error": float((rows.double() - exact).abs().max()),
        }
        row = results[name]
        print(
            f"{name:<24}{row['ms']:>9.2f}{row['tokens_per_second']:>12.3g}{row['mib']:>8.1f}{row['batch']:>17}"
            f"{row['error']:>14.1e}"
        )
        for words in advice["recommendations"]:
            print(f"  {words}")
    print(f"device: {embedder.get_gpu_acceleration_info()['device']}, {torch.get_num_threads()} thread(s)")
    return results


if __name__ == "__main__":
    main()
