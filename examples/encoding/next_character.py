"""The next character of Python's own documentation, by a liquid state machine that is never trained but at its end.

Characters become rows of a `ConfigurableSinusoidalEmbedder`, the rows drive a random reservoir, and a softmax read-out
of its states gives the next character its probability. Tables of counts given one, two and three characters stand
beside it. The text ships with Python; the last fifth is for testing. Figures are bits a character; 4.858 is guessing.

Run: python examples/encoding/next_character.py
"""

import argparse
from collections.abc import Sequence

import torch

from torch_hrr.demos.sequences import ALPHABET, ORDERS, WARMUP, as_streams, load_text, split_text, table_bits
from torch_hrr.demos.text import train


def main(argv: Sequence[str] | None = None) -> dict[str, float]:
    """Prints bits a character and returns them by method."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--units", type=int, default=1000)
    parser.add_argument("--characters", type=int, help="read only so many")
    parser.add_argument("--write", type=int, default=300, help="characters that the machine writes in the end")
    parser.add_argument("--temperature", type=float, default=0.7)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args(argv)

    training, test = split_text(load_text()[: options.characters])
    print(f"{len(training)} characters for training, {len(test)} for testing")
    results = {f"table, order {order}": table_bits(training, test, order) for order in ORDERS}
    generator = train(training, options.units, options.seed, "reading")
    results["machine"] = generator.bits(as_streams(test), WARMUP)
    for method, bits in results.items():
        print(f"  {method:<24} {bits:.3f}")

    prompt = test[:100]
    for temperature in (0.0, options.temperature):
        written = generator.generate(options.write, temperature, options.seed, prompt)
        print(f"\nat temperature {temperature:g} it goes on:")
        print("".join(ALPHABET[number] for number in torch.cat([prompt, written])))
    return results


if __name__ == "__main__":
    main()
