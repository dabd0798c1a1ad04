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
from torch.export.passes import move_to_device_pass

import torch_hrr
from torch_hrr import hrr, runtime

FORMAT, VERSION = "torch_hrr.examples.cleanup_model", 1
KEY = "TORCH_HRR_SERVING_KEY"


class Cleanup(torch.nn.Module):
    """What is exported."""

    def forward(self, records: torch.Tensor, roles: torch.Tensor, units: torch.Tensor) -> torch.Tensor:
        """Cosines ``[B, N]`` of ``unbind(records, roles)``, each ``[B, D]``, with ``[N, D]`` items of norm 1."""
        noisy = torch.ops.torch_hrr.unbind(records, roles)
        return torch.nn.functional.normalize(noisy, dim=-1) @ units.mT


@dataclasses.dataclass(frozen=True)
class CleanupModel:
    """A program, items, their names and unit vectors; a change gives a new one, and leaves its readers alone."""

    names: tuple[str, ...]
    items: torch.Tensor
    exported: bytes
    program: Callable[..., torch.Tensor] = dataclasses.field(repr=False)
    units: torch.Tensor

    @classmethod
    def export(cls, names: Sequence[str], items: torch.Tensor) -> "CleanupModel":
        """Exports the program for vectors of this length, and any number of records and items."""
        many, number = torch.export.Dim("records", max=2**20), torch.export.Dim("items", max=2**24)
        examples = (torch.zeros(3, items.shape[-1]), torch.zeros(3, items.shape[-1]), torch.zeros(5, items.shape[-1]))
        exported = torch.export.export(Cleanup(), examples, dynamic_shapes=({0: many}, {0: many}, {0: number}))
        buffer = io.BytesIO()
        torch.export.save(exported, buffer)
        items = items.detach().float().clone()
        return cls(tuple(names), items, buffer.getvalue(), exported.module(), hrr.normalize(items))

    def save(self, path: str | os.PathLike[str], key: bytes | None = None) -> None:
        """Writes the file, whole or not at all."""
        program = torch.frombuffer(bytearray(self.exported), dtype=torch.uint8)
        tensors, metadata = {"items": self.items, "program": program}, {"names": list(self.names)}
        torch_hrr.io.save(path, tensors, metadata, format=FORMAT, version=VERSION, key=key)

    @classmethod
    def load(cls, path: str | os.PathLike[str], key: bytes | None = None, device: str = "auto") -> "CleanupModel":
        """Reads the file, for a device as `torch_hrr.runtime.resolve_device` names it.

        Raises:
            torch_hrr.IntegrityError: It is damaged, of another format, or does not fit the key.
        """
        place = runtime.resolve_device(device)
        tensors, metadata = torch_hrr.io.load(path, format=FORMAT, version=VERSION, key=key)
        exported = tensors["program"].numpy().tobytes()
        program = move_to_device_pass(torch.export.load(io.BytesIO(exported)), place).module()
        items = tensors["items"].to(place)
        return cls(tuple(metadata["names"]), items, exported, program, hrr.normalize(items))

    def with_item(self, name: str, vector: torch.Tensor) -> "CleanupModel":
        """The model with one item more, or another vector for an item."""
        row, unit = vector[None], hrr.normalize(vector)[None]
        place = self.names.index(name) if name in self.names else len(self.names)
        names = (*self.names[:place], name, *self.names[place + 1 :])
        items = torch.cat([self.items[:place], row, self.items[place + 1 :]])
        units = torch.cat([self.units[:place], unit, self.units[place + 1 :]])
        return dataclasses.replace(self, names=names, items=items, units=units)

    def ask(self, records: torch.Tensor, role: str | None, top_k: int) -> tuple[torch.Tensor, list[list[str]]]:
        """Cosines and names of the items nearest to what each record has under a role, or to the record itself."""
        if role is None:
            key = hrr.identity(records.shape[-1], device=records.device, dtype=torch.float32)
        else:
            key = self.items[self.names.index(role)]
        with torch.inference_mode():
            found = self.program(records, key.expand_as(records), self.units).topk(min(top_k, len(self.names)))
        return found.values, [[self.names[each] for each in row] for row in found.indices.tolist()]


def key_of_environment() -> bytes | None:
    """The key of TORCH_HRR_SERVING_KEY, in hexadecimal digits; None where it is not set; an empty one is an error."""
    digits = os.environ.get(KEY)
    if digits is None:
        return None
    if not digits.strip():
        raise SystemExit(f"{KEY} must be hexadecimal digits, got nothing; unset it to do without a key")
    try:
        return bytes.fromhex(digits)
    except ValueError as error:
        raise SystemExit(f"{KEY} must be hexadecimal digits: {error}") from None


def main(argv: Sequence[str] | None = None) -> CleanupModel:
    """Writes the model of a vocabulary, store or item memory with names, or of a small vocabulary."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path)
    parser.add_argument("--words", type=Path, help="a file of a Vocabulary, VectorStore or ItemMemory with names")
    options = parser.parse_args(argv)
    if options.words:
        try:
            words = torch_hrr.load(options.words, device="cpu")
        except (OSError, ValueError, torch_hrr.IntegrityError) as error:
            parser.error(str(error))
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
