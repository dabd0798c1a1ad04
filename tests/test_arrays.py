"""NumPy arrays in place of tensors, in the functions and objects of all systems: the result of the same tensor."""

import re

import numpy as np
import pytest
import torch

from torch_hrr import assembly, encoding, field, hrr

DIM = 8
A, B, C = (torch.randn(3, DIM, generator=torch.Generator().manual_seed(seed)) for seed in range(3))
FIELD = torch.rand(2, 3, 4, 5, 2, generator=torch.Generator().manual_seed(3))
SPECTRUM = hrr.spectrum(B)
WHOLE = torch.arange(6).view(2, 3)
MASK = torch.tensor([True, False, True])


def made(kind, *calls, **settings):
    """The vector of a structure after calls of its methods."""
    structure = kind(DIM, device="cpu", **settings)
    for name, *arguments in calls:
        getattr(structure, name)(*arguments)
    return structure.vector


def written(address, value):
    memory = hrr.SparseDistributedMemory(DIM, 9, 3, device="cpu")
    memory.write(address, value)
    return memory.read(address)


def stored(vectors):
    store = hrr.VectorStore(DIM, device="cpu")
    store.add_many(["a", "b", "c"], vectors)
    store.update("b", vectors[0])
    store.add("d", vectors[1])
    return store.get_many(["a", "b", "c", "d"])


def record(role, other, filler):
    one = hrr.Record({"a": role, "b": other})
    one.set("a", filler)
    return one.vector


def named(vector):
    words = hrr.Vocabulary(DIM, device="cpu")
    words.add("A", vector)
    return words["A"]


def found(context, pattern):
    library = field.PatternLibrary(2, DIM)
    library.store(context, pattern, torch.tensor(True))
    return library.find_best_pattern(pattern, context)


def embedder():
    torch.manual_seed(0)
    config = encoding.SinusoidalConfig(vocab_size=9, embedding_dim=DIM, max_sequence_length=16)
    return encoding.ConfigurableSinusoidalEmbedder(config)


# By name: a call of tensors, and the tensors.
CALLS = {
    "bind": (hrr.bind, A, B),
    "unbind": (hrr.unbind, A, B),
    "bind_normalize": (hrr.bind_normalize, A, B),
    "superpose": (hrr.superpose, A, B[0, :3]),
    "bind_superpose": (hrr.bind_superpose, A, B, C[0, :3]),
    "multibind": (hrr.multibind, A),
    "inverse": (hrr.inverse, A),
    "unitary": (hrr.unitary, A),
    "involution": (hrr.involution, A),
    "normalize": (hrr.normalize, A),
    "bind_power": (lambda a, exponent: hrr.bind_power(a, exponent), A, B[:, 0]),
    "spectrum": (hrr.spectrum, A),
    "from_phases": (hrr.from_phases, A),
    "from_spectrum": (hrr.from_spectrum, SPECTRUM),
    "to_phases": (hrr.to_phases, A),
    "bind_spectrum": (hrr.bind_spectrum, A, SPECTRUM),
    "unbind_spectrum": (hrr.unbind_spectrum, A, SPECTRUM),
    "permute": (lambda a: hrr.permute(a, 3, 2), A),
    "sequence": (hrr.sequence, A),
    "at": (lambda a: hrr.at(a, 1), A),
    "ngrams": (lambda a: hrr.ngrams(a, 2), A),
    "graph": (hrr.graph, A, B),
    "fractional_power_encoding": (hrr.fractional_power_encoding, A, B[:, : len(A)]),
    "cosine_similarity": (hrr.cosine_similarity, A, B),
    "ItemMemory": (lambda items, query: hrr.ItemMemory(items).cleanup(query, 2), A, B),
    "Resonator": (lambda one, two, x: hrr.Resonator([one, two]).factorize(x, 5).cosines, A, B, C),
    "Record": (record, A[0], A[1], B),
    "Sequence": (lambda x, y: made(hrr.Sequence, ("append", x), ("extend", y)), A[0], B),
    "edits": (
        lambda x, y: made(
            hrr.Sequence,
            ("extend", y),
            ("insert", 0, x[0]),
            ("replace", 1, x[1], y[0]),
            ("remove", 0, hrr.ItemMemory(x)),
        ),
        A,
        B,
    ),
    "Multiset": (lambda x, y: made(hrr.Multiset, ("add", x, 2), ("extend", y), ("remove", x)), A[0], B),
    "HopfieldMemory": (lambda items, query: hrr.HopfieldMemory(items).recall(query, abs(query[:, 0])), A, B),
    "SparseDistributedMemory": (written, A, B),
    "UnitaryCauchy": (lambda loc, rho: hrr.UnitaryCauchy(loc, rho / 9).mean, A, B.abs()),
    "Tree": (lambda x, y: made(hrr.Tree, ("add", "lr", x), ("remove", "r", y)), A[0], B[0]),
    "Automaton": (lambda x, y: made(hrr.Automaton, ("add", x, y, x), ("remove", y[0], x[0], x[0])), A, B),
    "Stack": (lambda x: made(hrr.Stack, ("push", x)), A[0]),
    "Graph": (lambda x, y: made(hrr.Graph, ("add", x, y), ("remove", x[0], y[0])), A, B),
    "HashTable": (lambda x, y: made(hrr.HashTable, ("add", x, y), ("remove", y, x)), A[0], B[0]),
    "VectorStore": (stored, A),
    "Vocabulary": (named, A[0]),
    "HRROperations": (hrr.HRROperations(DIM, "cpu").bind, A, B),
    "HybridHRRSystem": (hrr.HybridHRRSystem(DIM, "cpu").adaptive_bind, A, B),
    "k_winners": (lambda x: assembly.k_winners(x, 3), A),
    "k_cap": (lambda x: assembly.k_cap(x, 3), A),
    "connectome_inputs": (lambda w: assembly.connectome_inputs(w, 20, 0.5, 0, 1), WHOLE),
    "overlap": (assembly.overlap, WHOLE, WHOLE.flip(1)),
    "sinusoidal_encoding": (lambda x: encoding.sinusoidal_encoding(x, 6), A),
    "sinusoidal_encoding, ints": (lambda x: encoding.sinusoidal_encoding(x, 6), WHOLE),
    "sinusoidal_features": (encoding.sinusoidal_features, WHOLE, A[0], B[0]),
    "embed_positions": (encoding.embed_positions, WHOLE, torch.randn(6, DIM), WHOLE + 3),
    "rotate": (encoding.rotate, A, torch.arange(3)),
    "rope": (lambda x, p, f: encoding.rope(x, p, frequencies=f), A, torch.arange(3), B[0, :1]),
    "attention_weights": (encoding.attention_weights, A, B, MASK, C[:, :3]),
    "embed": (lambda ids, positions: embedder()(ids, positions), WHOLE, WHOLE + 1),
    "evolve": (lambda x: field.evolve(x, 0.9, 0.1, steps=2), FIELD),
    "gradient": (field.gradient, FIELD),
    "gradient_magnitude": (field.gradient_magnitude, FIELD),
    "advance_key": (lambda key: field.advance_key(key, 5, 2), WHOLE[0, :2]),
    "step": (lambda x: field.DynamicField(FIELD.shape).step(x, 2), FIELD),
    "find_best_pattern": (found, A[0], A[1]),
    "SplitMemory": (lambda items, query: hrr.SplitMemory(items).cleanup(query, 2), A, B),
    "SplitField": (lambda x: field.SplitField(x).evolve(0.9, 0.1, 2), FIELD),
}


def flat(result):
    parts = result if isinstance(result, tuple) else (result,)
    return [torch.as_tensor(part) for part in parts]


class Named(torch.Tensor):
    """A tensor of another class, such as peers have."""


def unwritable(tensor):
    """An array of the tensor's values, with strides below zero and memory that may not be written."""
    array = tensor.detach().numpy()
    turned = np.ascontiguousarray(array[..., ::-1])[..., ::-1]
    turned.flags.writeable = False
    return turned


def swapped(tensor):
    """An array of the tensor's values in the other byte order."""
    array = tensor.detach().numpy()
    return array.astype(array.dtype.newbyteorder())


@pytest.mark.parametrize("name", CALLS)
def test_an_array_or_a_tensor_of_another_class_is_the_tensor_of_its_values(name):
    call, *tensors = CALLS[name]
    expected = flat(call(*tensors))
    for array in (lambda tensor: tensor.numpy(), unwritable, swapped, lambda tensor: tensor.as_subclass(Named)):
        results = flat(call(*(array(tensor) for tensor in tensors)))
        for result, right in zip(results, expected, strict=True):
            assert (
                type(result) in (torch.Tensor, hrr.Vector)
                and result.dtype == right.dtype
                and torch.equal(result, right)
            )


@pytest.mark.parametrize("name", CALLS)
def test_a_list_and_an_array_of_words_are_refused_by_name(name):
    call, *tensors = CALLS[name]
    if name in ("HRROperations", "HybridHRRSystem", "overlap"):
        return  # take lists too
    words = np.array(["a", "b"])
    for wrong, got in ((tensors[0].tolist(), "list"), (words, "can't convert np.ndarray of type numpy.str_")):
        with pytest.raises(TypeError, match=rf"^\w+: \w+ must be .*{re.escape(got)}"):
            call(wrong, *tensors[1:])


@pytest.mark.parametrize("name", ("bind", "unbind", "bind_normalize", "superpose", "gradient", "gradient_magnitude"))
def test_a_result_is_not_written_to_an_array(name):
    call, *tensors = CALLS[name]
    with pytest.raises(TypeError, match=rf"^\w*{name}: out must be a torch.Tensor, got ndarray$"):
        call(*tensors, out=call(*tensors).numpy())
