"""An embedder whose table is divided by rows, against one on one rank."""

import copy
import pathlib
import sys

import pytest
import torch
from torch import nn
from torch.distributed import checkpoint
from torch.distributed.tensor import Replicate, Shard, distribute_module, distribute_tensor
from torch.distributed.tensor.debug import CommDebugMode

from torch_hrr import encoding

# Rows that two ranks have unlike numbers of.
CONFIG = {"vocab_size": 11, "embedding_dim": 8, "max_sequence_length": 16}
OPTIONS = (
    {},
    {"padding_id": 2, "temperature": 2.0},
    {"learnable_frequencies": True, "precision": "float64"},
    {"convention": "fairseq", "padding_id": 1, "precision": "bfloat16"},
    {"convention": "tensor2tensor", "gradient_checkpointing": True},
)


def by_rows(name, module, mesh):
    if isinstance(module, encoding.ConfigurableSinusoidalEmbedder):
        module.weight = nn.Parameter(distribute_tensor(module.weight, mesh, [Shard(0)]))


def embedders(mesh, options):
    torch.manual_seed(0)
    whole = encoding.ConfigurableSinusoidalEmbedder(encoding.SinusoidalConfig(**CONFIG, **options))
    return whole, distribute_module(copy.deepcopy(whole), mesh, by_rows)


def check_embedder(mesh, options, place, positions):
    whole, divided = embedders(mesh, options)
    assert divided.weight.to_local().shape[0] in (5, 6)
    ids = torch.randint(1, 11, (4, 5))
    ids[-1, -1] = 2
    numbers = torch.randint(3, 9, (4, 5)) if positions else None
    given = [None if each is None else distribute_tensor(each, mesh, [place]) for each in (ids, numbers)]
    expected = whole(ids, numbers)
    drawn = torch.randn(expected.shape, dtype=expected.dtype)
    with CommDebugMode() as sent:
        result = divided(*given)
    assert result.placements == (place,) and torch.equal(result.full_tensor(), expected)
    # The rows of this call, and the ids of all ranks.
    assert sent.get_total_counts() == 1 + place.is_shard()
    again = sent.get_total_counts() if options.get("gradient_checkpointing") else 0
    drawn_here = distribute_tensor(drawn, mesh, [place])
    with CommDebugMode() as sent:
        result.backward(drawn_here)
    assert sent.get_total_counts() == place.is_shard() + again
    expected.backward(drawn)
    assert divided.weight.grad.placements == (Shard(0),), divided.weight.grad.placements
    for mine, theirs in zip(divided.parameters(), whole.parameters(), strict=True):
        found = mine.grad.full_tensor()
        assert not place.is_replicate() or torch.equal(found, theirs.grad)
        rounding = 4 * torch.finfo(found.dtype).eps
        torch.testing.assert_close(found, theirs.grad, rtol=rounding, atol=rounding * float(theirs.grad.abs().max()))
    return whole, divided


def check_training(mesh, folder):
    """Steps of an optimizer, and a checkpoint in which it goes on."""
    whole, divided = check_embedder(mesh, {"learnable_frequencies": True}, Replicate(), False)
    optimizers = [torch.optim.Adam(each.parameters(), 0.1) for each in (whole, divided)]
    for optimizer in optimizers:
        optimizer.step()
    state = {"model": divided.state_dict(), "optimizer": optimizers[1].state_dict()}
    checkpoint.save(state, checkpoint_id=folder)
    # A whole model reads it, too.
    read = copy.deepcopy(whole)
    nn.init.zeros_(read.weight)
    checkpoint.load({"model": read.state_dict()}, checkpoint_id=folder, no_dist=True)
    assert torch.equal(read.weight, whole.weight) and torch.equal(read.weight, divided.weight.full_tensor())
    _, again = embedders(mesh, {"learnable_frequencies": True})
    optimizer = torch.optim.Adam(again.parameters(), 0.1)
    for parameter in again.parameters():
        parameter.grad = torch.zeros_like(parameter)
    # So that there is a state to read into.
    optimizer.step()
    state = {"model": again.state_dict(), "optimizer": optimizer.state_dict()}
    checkpoint.load(state, checkpoint_id=folder)
    again.load_state_dict(state["model"])
    optimizer.load_state_dict(state["optimizer"])
    for model, stepped in ((whole, optimizers[0]), (divided, optimizers[1]), (again, optimizer)):
        for parameter, like in zip(model.parameters(), whole.parameters(), strict=True):
            assert torch.equal(getattr(parameter.detach(), "full_tensor", parameter.detach)(), like) or model is whole
            drawn = torch.full(like.shape, 0.5)
            parameter.grad = drawn if model is whole else distribute_tensor(drawn, mesh, parameter.placements)
        if model is not whole:
            stepped.step()
    for one, other in zip(divided.parameters(), again.parameters(), strict=True):
        assert one.placements == other.placements and torch.equal(one.to_local(), other.to_local())


def check_refusals(mesh):
    _, divided = embedders(mesh, {})
    with pytest.raises(TypeError, match="embed: ids must be a DTensor, as the divided table is, got Tensor"):
        divided(torch.zeros(2, 3, dtype=torch.int64))
    for ids in (torch.ones(2, 3), torch.ones(2, 3, dtype=torch.bool)):
        with pytest.raises(TypeError, match="embed: ids must be int32 or int64, got"):
            divided(distribute_tensor(ids, mesh, [Replicate()]))
    for ids in (torch.tensor([0, 11]), torch.tensor([-1, 3])):
        with pytest.raises(IndexError, match="embed: ids must be 0 to 10, got"):
            divided(distribute_tensor(ids, mesh, [Shard(0)]))
    with pytest.raises(ValueError, match="adapt_to_vocabulary: table must be on one rank, got a DTensor"):
        divided.adapt_to_vocabulary(12)
    folder = pathlib.Path(sys.argv[1]).parent
    with pytest.raises(TypeError, match=r"save: tensors\['weight'\] must be on one rank, got a DTensor: give its"):
        divided.save(folder / "embedder")


def check(rank, mesh):
    for options in OPTIONS:
        for place in (Replicate(), Shard(0)):
            for positions in (False, True):
                try:
                    check_embedder(mesh, options, place, positions)
                except BaseException as error:
                    error.add_note(f"at {options}, {place}, {positions}")
                    raise
    check_refusals(mesh)
    check_training(mesh, pathlib.Path(sys.argv[1]).parent / "checkpoint")
