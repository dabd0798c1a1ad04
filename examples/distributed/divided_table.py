"""A table of embeddings divided among ranks, trained, and kept so that a rank may be lost.

Every rank holds some rows of the table, of their gradients and of the optimizer's state, and sees all texts. Every few
steps all of them write their rows with torch.distributed.checkpoint to a new folder, which counts once a file names it:
whenever a rank ends, what was kept before is whole. torchrun then starts all ranks anew, and they go on from there. The
result has the bits of a run in one piece, with any number of ranks.

Run: torchrun --nproc-per-node 2 --max-restarts 1 examples/distributed/divided_table.py kept --fail-at 25
"""

import argparse
import os
import shutil
import signal
import time
from collections.abc import Sequence
from pathlib import Path

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed import checkpoint
from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
from torch.distributed.tensor import (
    DeviceMesh,
    Replicate,
    Shard,
    distribute_module,
    distribute_tensor,
    init_device_mesh,
)

from torch_hrr import encoding

WORDS, WIDTH, TEXTS, LENGTH, TOPICS = 101, 16, 64, 12, 4


class Topics(nn.Module):
    """Scores of topics, from the mean of a text's words."""

    def __init__(self) -> None:
        """A table, whole until it is divided."""
        super().__init__()
        config = encoding.SinusoidalConfig(vocab_size=WORDS, embedding_dim=WIDTH, max_sequence_length=LENGTH)
        self.embedder = encoding.ConfigurableSinusoidalEmbedder(config)
        self.scores = nn.Linear(WIDTH, TOPICS)

    def forward(self, texts: Tensor) -> Tensor:
        """Of each text, ``[texts, topics]``."""
        scores: Tensor = self.scores(self.embedder(texts).mean(1))
        return scores


def main(argv: Sequence[str] | None = None) -> float:
    """Trains to the end, from where the folder leaves it, and returns the last loss."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--every", type=int, default=10, help="how many steps are lost at most")
    parser.add_argument("--fail-at", type=int, default=-1, help="a step at which the last rank is killed, once")
    options = parser.parse_args(argv)
    begin_group()
    rank, ranks = dist.get_rank(), dist.get_world_size()
    mesh = init_device_mesh("cpu", (ranks,))
    # The same on all ranks.
    torch.manual_seed(0)
    model = distribute_module(Topics(), mesh, by_rows)
    optimizer = torch.optim.Adam(model.parameters(), 0.02)
    texts, topics = (distribute_tensor(each, mesh, [Replicate()]) for each in drawn())
    done = resume(options.folder, model, optimizer)
    loss = torch.tensor(torch.nan)
    for step in range(done, options.steps):
        if step == options.fail_at and rank == ranks - 1 and first_time():
            os.kill(os.getpid(), signal.SIGKILL)
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(texts), topics)
        loss.backward()
        optimizer.step()
        if (step + 1) % options.every == 0 or step + 1 == options.steps:
            keep(options.folder, step + 1, model, optimizer)
            if rank == 0:
                print(f"{step + 1} steps on {ranks} ranks", flush=True)
    with torch.no_grad():
        result = float(nn.functional.cross_entropy(model(texts), topics).full_tensor())
    if rank == 0:
        print(f"loss {result:.9f}", flush=True)
    dist.barrier()
    dist.destroy_process_group()
    # A rank that used DTensors and ends at once may abort: docs/distributed.md.
    time.sleep(0.1)
    return result


def by_rows(name: str, module: nn.Module, mesh: DeviceMesh) -> None:
    """Divides the tables of embedders; what else there is, every rank has."""
    if isinstance(module, encoding.ConfigurableSinusoidalEmbedder):
        module.weight = nn.Parameter(distribute_tensor(module.weight, mesh, [Shard(0)]))


def drawn() -> tuple[Tensor, Tensor]:
    """Texts, most of whose words are of their topic, and the topics."""
    generator = torch.Generator().manual_seed(1)
    topics = torch.randint(TOPICS, (TEXTS,), generator=generator)
    words = torch.randint(WORDS, (TEXTS, LENGTH), generator=generator)
    of_topic = torch.rand(TEXTS, LENGTH, generator=generator) < 0.6
    return torch.where(of_topic, words // TOPICS * TOPICS + topics[:, None], words).clamp(max=WORDS - 1), topics


def keep(folder: Path, step: int, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Writes a folder of its own for this step, names it, and removes those of before: in this order."""
    weights, state = get_state_dict(model, optimizer)
    checkpoint.save({"model": weights, "optimizer": state}, checkpoint_id=folder / f"step-{step}")
    dist.barrier()
    if dist.get_rank() == 0:
        (folder / "next").write_text(str(step))
        os.replace(folder / "next", folder / "latest")
        for other in folder.glob("step-*"):
            if other.name != f"step-{step}":
                shutil.rmtree(other)
    dist.barrier()


def resume(folder: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Reads what the folder holds, each rank its rows, and returns the number of steps done."""
    if not (folder / "latest").exists():
        return 0
    step = int((folder / "latest").read_text())
    weights, state = get_state_dict(model, optimizer)
    held = {"model": weights, "optimizer": state}
    checkpoint.load(held, checkpoint_id=folder / f"step-{step}")
    set_state_dict(model, optimizer, model_state_dict=held["model"], optim_state_dict=held["optimizer"])
    return step


def begin_group() -> None:
    """Apart from what ranks of before have left in torchrun's store: gloo would look for them there (torch 2.15)."""
    store, rank, ranks = next(dist.rendezvous("env://"))
    own = dist.PrefixStore(f"attempt {os.environ.get('TORCHELASTIC_RESTART_COUNT', '0')}", store)
    dist.init_process_group("gloo", store=own, rank=rank, world_size=ranks)


def first_time() -> bool:
    """Whether torchrun has not started the ranks anew."""
    return os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0"


if __name__ == "__main__":
    main()
