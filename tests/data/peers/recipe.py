"""What other libraries make of a few vectors, series and settings.

    python tests/data/peers/recipe.py torchhd nengo_spa pyhdc holovec memory_etch transformers reservoirpy pyrcn pyreco

writes NAME.safetensors beside this file, with the version in its metadata, where the packages are installed: torch-hd
5.8.4, nengo_spa 2.0.0 with nengo 4.1.0, pyhdc 2.2.2, holovec 1.0.2, memory-etch 1.1.0 and eling 0.12.1, reservoirpy
0.4.2, pyrcn 0.1.0, pyreco 2.0.1, with NumPy 2.4.6; transformers 5.23.0 with torch 2.15. Each recipe gives the objects
that a bridge reads, and what their library says of them: for tests/hrr/test_integrations.py,
tests/encoding/test_rotation.py and tests/encoding/test_given_weights.py.
"""

import importlib.metadata
import pathlib
import sys

import numpy as np
import torch

HERE = pathlib.Path(__file__).parent
PACKAGES = {
    "torchhd": "torch-hd",
    "nengo_spa": "nengo_spa",
    "pyhdc": "pyhdc",
    "holovec": "holovec",
    "memory_etch": "memory-etch",
    "transformers": "transformers",
    "reservoirpy": "reservoirpy",
    "pyrcn": "pyrcn",
    "pyreco": "pyreco",
}


def torchhd():
    import torchhd as peer

    torch.manual_seed(0)
    items = peer.random(5, 32, "HRR", dtype=torch.float64)
    phasors = peer.random(3, 16, "FHRR", dtype=torch.complex128)
    sequence = peer.structures.BundleSequence.from_tensor(items)
    objects = {"items": items, "sequence": sequence, "phasors": phasors}
    said = {
        "items": items,
        "sequence": sequence.value,
        "bound": items[0].bind(items[1]),
        "inverse": items[0].inverse(),
        "exact_inverse": items[0].exact_inverse(),
        "phasors": phasors,
        "phasors_bound": phasors[0].bind(phasors[1]),
        "phasors_bundled": phasors[0].bundle(phasors[1]),
        "values": torch.randn(4, 2, dtype=torch.float64),
    }
    wide = torch.distributions.Normal(0.0, 5.0)
    for name, dim, kernel, model in (("even", 32, wide, "HRR"), ("odd", 33, "sinc", "HRR"), ("fhrr", 16, wide, "FHRR")):
        dtype = torch.float64 if model == "HRR" else torch.complex128
        encoder = peer.embeddings.FractionalPower(2, dim, kernel, 0.7, model, dtype=dtype)
        objects[name] = encoder
        said[f"{name}_weight"], said[f"{name}_code"] = encoder.weight.detach(), encoder(said["values"])
    return objects, said


def nengo_spa():
    import nengo_spa as peer

    words = peer.Vocabulary(32, pointer_gen=np.random.RandomState(0), max_similarity=0.4)
    words.populate("A; B; C; D = A * B; E = (A + 0.5 * ~C).normalized()")
    said = {"vectors": words.vectors, "parsed": words.parse("D * ~B + 0.5 * E").v, "power": (words["A"] ** 3).v}
    said["minus"] = (words["A"] ** -1).v
    return {"vocabulary": words}, said


def pyhdc():
    import pyhdc as peer

    np.random.seed(0)
    real, angles = peer.HRR(dimension=32), peer.FHRR(dimension=16)
    columns, phases = real.generate((32, 5)), angles.generate((16, 3))
    return {"columns": columns, "phases": phases}, {
        "columns": columns.data,
        "bound": columns[:, 0].bind(columns[:, 1]).data,
        "unbound": columns[:, 0].unbind(columns[:, 1]).data,
        "phases": phases.data,
        "phases_bound": phases[:, 0].bind(phases[:, 1]).data,
    }


def holovec():
    from holovec import VSA
    from holovec.encoders.sequence import PositionBindingEncoder
    from holovec.retrieval.codebook import Codebook

    real, phasors = VSA.create("HRR", dim=32), VSA.create("FHRR", dim=16)
    encoder = PositionBindingEncoder(real, seed=0)
    sequence = encoder.encode(["x", "y", "z"])
    a, b = (phasors.random(seed=seed) for seed in (1, 2))
    items = np.stack(list(encoder.codebook.values()))
    objects = {"codebook": Codebook(encoder.codebook), "sequence": sequence, "phasors": np.stack([a, b])}
    return objects, {
        "items": items,
        "sequence": sequence,
        "bound": real.bind(items[0], items[1]),
        "unbound": real.unbind(items[0], items[1]),
        "phasors": np.stack([a, b]),
        "phasors_bound": phasors.bind(a, b),
    }


def memory_etch():
    from memory_etch import hrr as peer

    blobs = [peer.phases_to_bytes(peer.encode_fact(text, ["Ada"], 24)) for text in ("Ada wrote it", "tea is green")]
    first, second = (peer.bytes_to_phases(blob) for blob in blobs)
    role = peer.encode_atom("__hrr_role_entity__", 24)
    said = {
        "blobs": np.stack([first, second]),
        "atom": peer.encode_atom("ada", 24),
        "answer": peer.unbind(first, role),
        "similarity": np.array([peer.similarity(first, second)]),
        "bundled": peer.bundle(first, second),
    }
    try:
        from eling.layers import hrr as other
    except ImportError:
        pass
    else:
        assert blobs[0] == other.phases_to_bytes(other.encode_fact("Ada wrote it", ["Ada"], 24))
    return {"blobs": blobs}, said


# By name: the width of a head, the length at hand, and what a config says.
ROPE = {
    "default": (64, None, {"rope_parameters": {"rope_type": "default", "rope_theta": 500000.0}}),
    "older-linear": (16, None, {"rope_scaling": {"type": "linear", "factor": 4.0}, "rope_theta": 20000.0}),
    **{
        name: (64, length, {"rope_scaling": {"type": "dynamic", "factor": 2.0}, "max_position_embeddings": 2048})
        for name, length in (("dynamic", None), ("dynamic-longer", 5000))
    },
    "partial": (64, None, {"rope_parameters": {"rope_type": "linear", "factor": 1.0, "partial_rotary_factor": 0.4}}),
    "proportional": (
        64, None, {"rope_parameters": {"rope_type": "proportional", "factor": 2.0, "partial_rotary_factor": 0.3}},
    ),
    "yarn": (
        64, None,
        {"rope_parameters": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768},
         "max_position_embeddings": 32768},
    ),
    "yarn-mscale": (
        64, None,
        {"rope_parameters": {"rope_type": "yarn", "factor": 40.0, "original_max_position_embeddings": 4096,
                             "beta_fast": 32, "beta_slow": 1, "mscale": 1.0, "mscale_all_dim": 0.707},
         "max_position_embeddings": 163840},
    ),
    "yarn-whole": (
        64, None,
        {"rope_parameters": {"rope_type": "yarn", "factor": 32.0, "original_max_position_embeddings": 4096,
                             "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False, "rope_theta": 150000.0},
         "max_position_embeddings": 131072},
    ),
    "llama3": (
        128, None,
        {"rope_parameters": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                             "original_max_position_embeddings": 8192, "rope_theta": 500000.0}},
    ),
    **{
        name: (
            16, length,
            {"rope_parameters": {"rope_type": "longrope", "short_factor": [1.0, 1.02, 1.1, 1.3, 1.7, 2.0, 2.5, 3.0],
                                 "long_factor": [1.05, 1.3, 2.0, 4.5, 9.0, 20.0, 40.0, 60.0],
                                 "original_max_position_embeddings": 4096},
             "max_position_embeddings": 131072},
        )
        for name, length in (("longrope-short", None), ("longrope-long", 5000))
    },
}  # fmt: skip


def transformers():
    """Of each config the frequencies and the factor; of two a query turned at positions 0 to 3."""
    import copy

    from transformers import LlamaConfig
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS
    from transformers.models.llama import modeling_llama as llama

    said = {}
    for name, (head_dim, length, given) in ROPE.items():
        config = LlamaConfig(hidden_size=2 * head_dim, num_attention_heads=2, **copy.deepcopy(given))
        module = llama.LlamaRotaryEmbedding(config)
        frequencies, factor = module.inv_freq, module.attention_scaling
        if length is not None:
            frequencies, factor = ROPE_INIT_FUNCTIONS[config.rope_parameters["rope_type"]](config, seq_len=length)
        said |= {name: frequencies, f"{name} factor": torch.tensor(factor, dtype=torch.float64)}
        if name in ("yarn", "llama3"):
            torch.manual_seed(0)
            query = torch.randn(1, 1, 4, head_dim)
            turned, _ = llama.apply_rotary_pos_emb(query, query, *module(query, torch.arange(4)[None]))
            said |= {f"{name} query": query, f"{name} turned": turned}
    return ROPE, said


def reservoir_parts(units=12, inputs=2, steps=20):
    """Weights that are sparse, and a series and targets."""
    draw = np.random.default_rng(0)
    recurrent = draw.uniform(-1, 1, (units, units)) * (draw.random((units, units)) < 0.4) * 0.5
    parts = {"recurrent": recurrent, "inputs": draw.uniform(-1, 1, (units, inputs)), "bias": draw.uniform(-1, 1, units)}
    parts |= {"leak": draw.uniform(0.2, 1, units), "feedback": draw.uniform(-1, 1, (units, 1))}
    return parts | {"x": draw.standard_normal((steps, inputs)), "y": draw.standard_normal((steps, 1))}


def reservoirpy():
    """Of a leak for every unit, and with feedback, which enters there as further inputs."""
    from reservoirpy.nodes import Reservoir, Ridge

    said = reservoir_parts()
    settings = {"W": said["recurrent"], "bias": said["bias"], "lr": said["leak"]}
    for name, weights in (("", said["inputs"]), ("feedback_", np.hstack([said["inputs"], said["feedback"]]))):
        reservoir, ridge = Reservoir(**settings, Win=weights), Ridge(ridge=1e-3)
        model = reservoir >> ridge
        if name:
            model = model & (reservoir << ridge)
        model.fit(said["x"], said["y"])
        said |= {name + "readout": ridge.Wout, name + "constant": ridge.bias}
        model.reset()
        said[name + "predicted"] = model.run(said["x"])
        if not name:
            reservoir.reset()
            said["states"] = reservoir.run(said["x"])
    for name in ("identity", "relu"):
        said[name] = Reservoir(**settings, Win=said["inputs"], activation=name).run(said["x"])
    return {}, said


def pyrcn():
    """Its matrices are used transposed, and scaled."""
    from pyrcn.base.blocks import InputToNode, NodeToNode

    said = reservoir_parts()
    first = InputToNode(
        hidden_layer_size=12, input_activation="identity", input_scaling=0.5, bias_scaling=0.7,
        predefined_input_weights=said["inputs"].T, predefined_bias_weights=said["bias"][:, None],
    )  # fmt: skip
    second = NodeToNode(
        hidden_layer_size=12, spectral_radius=0.9, leakage=0.4, predefined_recurrent_weights=said["recurrent"].T
    )
    said["states"] = second.fit_transform(first.fit_transform(said["x"]))
    return {}, said


def pyreco():
    """From a given state, as it starts from a random one."""
    from pyreco.custom_models import RC
    from pyreco.layers import InputLayer, RandomReservoirLayer, ReadoutLayer

    said, model = reservoir_parts(), RC()
    model.add(InputLayer(input_shape=(20, 2)))
    model.add(RandomReservoirLayer(nodes=12, leakage_rate=0.4, activation="tanh"))
    model.add(ReadoutLayer((20, 1)))
    model.compile()
    model.input_layer.weights = said["inputs"]
    model.reservoir_layer.set_weights(said["recurrent"])
    said["start"] = said["bias"] / 2
    model.reservoir_layer.set_initial_state(said["start"])
    said["states"] = model.compute_reservoir_state(said["x"][None])
    return {}, said


def as_tensors(said):
    """Plain tensors, complex ones as their parts."""
    tensors = {}
    for name, value in said.items():
        value = value if isinstance(value, torch.Tensor) else torch.from_numpy(np.array(value))
        tensor = value.detach().as_subclass(torch.Tensor)
        tensors[name] = (torch.view_as_real(tensor.resolve_conj()) if tensor.is_complex() else tensor).contiguous()
    return tensors


if __name__ == "__main__":
    from safetensors.torch import save_file

    for name in sys.argv[1:]:
        version = {"version": f"{PACKAGES[name]} {importlib.metadata.version(PACKAGES[name])}"}
        save_file(as_tensors(globals()[name]()[1]), HERE / f"{name}.safetensors", version)
