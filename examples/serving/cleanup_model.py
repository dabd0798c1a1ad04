"""An exported program that finds the items in records, and the items, in one sealed file that a service serves.

torch.export.load unpickles, so a `.pt2` file is as much to be trusted as a program. Here its bytes are a tensor of a
safetensors file, whose seal is verified before they are looked at: with a key, nobody without it can make a file that
this loads.

Run: python examples/serving/cleanup_model.py model.safetensors --words words.safetensors
"""

import argparse
import dataclasses
import io
import os
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

import torch_hrr
from torch_hrr import hrr

FORMAT, VERSION = "torch_hrr.examples.cleanup_model", 1
KEY = "TORCH_HRR_SERVING_KEY"


class Cleanup(torch.nn.Module):
    """What is exported."""

    def forward(self, records: torch.Tensor, roles: torch.Tensor, items: torch.Tensor) -> torch.Tensor:
        """Cosines ``[B, N]`` of ``unbind(records, roles)``, each ``[B, D]``, with items ``[N, D]``."""
        noisy = torch.ops.torch_hrr.unbind(records, roles)
        normalize = torch.nn.functional.normalize
        return normalize(noisy, dim=-1) @ normalize(items, dim=-1).mT


@dataclasses.dataclass(frozen=True)
class CleanupModel:
    """A program, items and their names; changes give a new one, so that who reads this one is never between two."""

    names: tuple[str, ...]
    items: torch.Tensor
    exported: bytes
    program: Callable[..., torch.Tensor] = dataclasses.field(repr=False)

    @classmethod
    def export(cls, names: Sequence[str], items: torch.Tensor) -> "CleanupModel":
        """Exports the program for vectors of this length, and any number of records and items."""
        many, number = torch.export.Dim("records", max=2**20), torch.export.Dim("items", max=2**24)
        examples = (torch.zeros(3, items.shape[-1]), torch.zeros(3, items.shape[-1]), torch.zeros(5, items.shape[-1]))
        exported = torch.export.export(Cleanup(), examples, dynamic_shapes=({0: many}, {0: many}, {0: number}))
        buffer = io.BytesIO()
        torch.export.save(exported, buffer)
        return cls(tuple(names), items.detach().float().clone(), buffer.getvalue(), exported.module())

    def save(self, path: str | os.PathLike[str], key: bytes | None = None) -> None:
        """Writes the file, whole or not at all."""
        program = torch.frombuffer(bytearray(self.exported), dtype=torch.uint8)
        tensors, metadata = {"items": self.items, "program": program}, {"names": list(self.names)}
        torch_hrr.io.save(path, tensors, metadata, format=FORMAT, version=VERSION, key=key)

    @classmethod
    def load(cls, path: str | os.PathLike[str], key: bytes | None = None) -> "CleanupModel":
        """Reads the file.

        Raises:
            torch_hrr.IntegrityError: It is damaged, of another format, or does not fit the key.
        """
        tensors, metadata = torch_hrr.io.load(path, format=FORMAT, version=VERSION, key=key)
        exported = tensors["program"].numpy().tobytes()
        program = torch.export.load(io.BytesIO(exported)).module()
        return cls(tuple(metadata["names"]), tensors["items"], exported, program)

    def with_item(self, name: str, vector: torch.Tensor) -> "CleanupModel":
        """The model with one item more, or another vector for an item."""
        if name in self.names:
            items = self.items.clone()
            items[self.names.index(name)] = vector
            return dataclasses.replace(self, items=items)
        return dataclasses.replace(self, names=(*self.names, name), items=torch.cat([self.items, vector[None]]))

    def ask(self, records: torch.Tensor, role: str | None, top_k: int) -> tuple[torch.Tensor, list[list[str]]]:
        """Cosines and names of the items nearest to what each record has under a role, or to the record itself."""
        if role is None:
            key = hrr.identity(records.shape[-1], device="cpu", dtype=torch.float32)
        else:
            key = self.items[self.names.index(role)]
        with torch.inference_mode():
            found = self.program(records, key.expand_as(records), self.items).topk(min(top_k, len(self.names)))
        return found.values, [[self.names[each] for each in row] for row in found.indices.tolist()]


def key_of_environment() -> bytes | None:
    """The key of TORCH_HRR_SERVING_KEY, in hexadecimal digits; None where it is not set."""
    try:
        return bytes.fromhex(os.environ.get(KEY, "")) or None
    except ValueError as error:
        raise SystemExit(f"{KEY} must be hexadecimal digits: {error}") from None


def main(argv: Sequence[str] | None = None) -> CleanupModel:
    """Writes the model of a vocabulary, store or item memory with names, or of a small vocabulary."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--words", type=Path, help="a file of a Vocabulary, VectorStore or ItemMemory with names")
    options = parser.parse_args(argv)
    if options.words:
        words = torch_hrr.load(options.words, device="cpu")
        if not getattr(words, "names", None):
            parser.error(f"{options.words} must hold vectors with names, got {type(words).__name__}")
    else:
        words = hrr.Vocabulary(dim=1024, seed=0, device="cpu")
        words.populate("SHAPE; COLOR; CIRCLE; SQUARE; BLUE; RED; SCENE = SHAPE * CIRCLE + COLOR * BLUE")
    model = CleanupModel.export(words.names, words.vectors)
    model.save(options.model, key_of_environment())
    print(f"{options.model}: {len(model.names)} items of {model.items.shape[-1]} elements")
    return model


if __name__ == "__main__":
    main()
