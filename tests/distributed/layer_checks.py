"""Layers under DistributedDataParallel and fully_shard, against one process with the whole batch."""

import copy

import torch
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor

from torch_hrr import assembly, encoding, hierarchy, hrr

CONFIG = {"vocab_size": 9, "embedding_dim": 8, "max_sequence_length": 16}


def embedder(**options):
    return encoding.ConfigurableSinusoidalEmbedder(encoding.SinusoidalConfig(**CONFIG, **options))


def with_embedding(layer):
    """For layers without weights, which hand a gradient on."""
    return nn.Sequential(nn.Linear(8, 8), layer)


class Biased(nn.Module):
    """Scores of a batch with a bias for every distance."""

    def __init__(self):
        super().__init__()
        self.bias = encoding.RelativePositionBias(6, 2)

    def forward(self, x):
        return x + self.bias(x.shape[-2], x.shape[-1])


class Labelled(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Linear(8, 8)
        self.loss = hrr.HRRMultiLabelLoss(5, 8, seed=3)

    def forward(self, x):
        return self.loss.scores(self.features(x))


def rows(*sizes):
    return lambda: torch.randn(4, *sizes)


# A model and what makes a batch of 4.
MODELS = {
    "Bind": (lambda: hrr.Bind(8, 3), rows(3, 8)),
    # Of a row that one rank has and the other lacks.
    "Bind of one role": (lambda: hrr.Bind(8), rows(3, 8)),
    "Unbind": (lambda: hrr.Unbind(8, 3), rows(3, 8)),
    "BindSuperpose": (lambda: hrr.BindSuperpose(8, 3, True, True), rows(3, 8)),
    "HRRAttention": (lambda: hrr.HRRAttention(8, 2, True), rows(5, 8)),
    "HRRMultiLabelLoss": (Labelled, rows(8)),
    "HopfieldMemory": (lambda: with_embedding(Recall()), rows(8)),
    "AssemblyLayer": (lambda: assembly.AssemblyLayer(8, 20, 4, p=0.5, trainable=True, bias=True), rows(8)),
    "KCap": (lambda: with_embedding(assembly.KCap(3)), rows(8)),
    "ConfigurableSinusoidalEmbedder": (embedder, lambda: torch.randint(9, (4, 6))),
    "LearnableFrequencies": (lambda: embedder(learnable_frequencies=True), lambda: torch.randint(9, (4, 6))),
    "RelativePositionBias": (Biased, rows(2, 5, 5)),
    "BitLinear": (lambda: hierarchy.BitLinear(8, 4), rows(8)),
    "FractionalPowerEncoder": (lambda: with_embedding(hrr.FractionalPowerEncoder(8, 12, seed=1)), rows(8)),
    "ProjectionEncoder": (lambda: with_embedding(hrr.ProjectionEncoder(8, 12, seed=1)), rows(8)),
    "SinusoidEncoder": (lambda: with_embedding(hrr.SinusoidEncoder(8, 12, seed=1)), rows(8)),
    "HebbianCore": (lambda: with_embedding(hierarchy.HebbianCore(8, 5, "bcm", seed=1)), rows(8)),
    "ReactiveLayer": (lambda: with_embedding(hierarchy.ReactiveLayer(8, 5, seed=1)), rows(8)),
    "SoftHebb": (lambda: with_embedding(hierarchy.SoftHebb(8, 5, seed=1)), rows(8)),
}


class Recall(nn.Module):
    def __init__(self):
        super().__init__()
        self.memory = hrr.HopfieldMemory(torch.randn(5, 8), 3.0)

    def forward(self, x):
        return self.memory.recall(x)


def loss_of(model, batch):
    result = model(batch)
    weights = torch.linspace(-1, 1, result[0].numel()).reshape(result[0].shape)
    return (result * weights).flatten(1).sum(1).mean()


def gradients(model):
    """Of all parameters, by name; a divided one is put together."""
    found = {}
    for name, parameter in model.named_parameters():
        grad = parameter.grad
        found[name.removeprefix("module.")] = grad.full_tensor() if isinstance(grad, DTensor) else grad
    return found


def of_batch(model, batch):
    model = copy.deepcopy(model)
    loss_of(model, batch).backward()
    return gradients(model)


def check(rank, mesh):
    for name, (make, draw) in MODELS.items():
        try:
            check_model(rank, mesh, make, draw)
        except BaseException as error:
            error.add_note(f"at {name}")
            raise


def check_model(rank, mesh, make, draw):
    """The mean of the gradients of both halves, bit for bit; that of the whole batch, within rounding."""
    torch.manual_seed(0)
    model, batch = make(), draw()
    halves = [of_batch(model, half) for half in batch.split(2)]
    whole = of_batch(model, batch)
    assert any(grad.abs().sum() > 0 for grad in whole.values())
    mean = {name: (grad + halves[1][name]) / 2 for name, grad in halves[0].items()}
    replicated = nn.parallel.DistributedDataParallel(copy.deepcopy(model))
    divided = copy.deepcopy(model)
    fully_shard(divided, mesh=mesh)
    for wrapped in (replicated, divided):
        loss_of(wrapped, batch.split(2)[rank]).backward()
        found = gradients(wrapped)
        assert found.keys() == mean.keys()
        for name, grad in found.items():
            assert torch.equal(grad, mean[name]), name
            torch.testing.assert_close(grad, whole[name], rtol=1e-4, atol=1e-6)
    # A step of the divided one, whose state is that of the whole model.
    for stepped, grads in ((divided, None), (model, mean)):
        if grads is not None:
            for name, parameter in stepped.named_parameters():
                parameter.grad = grads[name]
        torch.optim.Adam(stepped.parameters(), 0.1).step()
    states = divided.state_dict(), model.state_dict()
    assert states[0].keys() == states[1].keys()
    for name, tensor in states[0].items():
        torch.testing.assert_close(whole_of(tensor), states[1][name])
    check_reset(make, model, mesh)


def check_reset(make, model, mesh):
    """Of one made without data, divided and then drawn: what one process draws."""
    torch.manual_seed(0)
    with torch.device("meta"):
        made = make()
    fully_shard(made, mesh=mesh)
    made.to_empty(device="cpu")
    for (name, module), (_, alone) in zip(made.named_modules(), model.named_modules(), strict=True):
        if type(alone).__module__.startswith("torch_hrr.") and hasattr(alone, "reset_parameters"):
            for each in (module, alone):
                torch.manual_seed(3)
                each.reset_parameters()
            drawn = dict(module.state_dict())
            for key, expected in alone.state_dict().items():
                assert torch.equal(whole_of(drawn[key]), expected), (name, key)


def whole_of(tensor):
    return tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
