"""Machines of given weights: trajectories of the definition and of three other libraries, feedback, files, bad weights.

What the libraries make of their weights is stored: tests/data/peers/recipe.py writes it where they are installed.
"""

import copy
import pathlib

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from torch_hrr.encoding import LiquidStateMachine, connections, reservoir

PEERS = pathlib.Path(__file__).parents[1] / "data" / "peers"
ACTIVATIONS = {"tanh": np.tanh, "identity": np.asarray, "relu": lambda hears: np.maximum(hears, 0)}
DRAW = np.random.default_rng(0)
# Beyond 256 units a product is sparse.
WEIGHTS = {units: DRAW.uniform(-1, 1, (units, units)) * (DRAW.random((units, units)) < 4 / units) for units in (9, 270)}


def parts(units=9, inputs=2, outputs=3):
    """What `from_weights` takes, but for the activation."""
    leak = DRAW.uniform(0.2, 1, units)
    sizes = {"inputs": (units, inputs), "bias": units, "feedback": (units, outputs)}
    drawn = {name: DRAW.uniform(-0.5, 0.5, size) for name, size in sizes.items()}
    return {"recurrent": 0.5 * WEIGHTS[units], "leak": leak, **drawn}


def trajectory(x, recurrent, inputs, bias, leak, f, feedback=0, outputs=None, readout=None):
    """States of one series, step by step; what is heard is outputs, or what a read-out says."""
    state, states, said = np.zeros(len(bias)), [], 0 * np.zeros(np.shape(feedback)[1:])
    for t, u in enumerate(x):
        state = (1 - leak) * state + leak * f(recurrent @ state + inputs @ u + bias + np.dot(feedback, said))
        states.append(state)
        said = outputs[t] if readout is None and outputs is not None else said
        said = said if readout is None else state @ readout[0] + readout[1]
    return np.array(states)


def close(found, expected, atol=1e-13):
    np.testing.assert_allclose(found, expected, rtol=0, atol=atol)


@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("units", WEIGHTS)
@pytest.mark.parametrize("leak", ["one", "each"])
def test_states_are_those_of_the_definition(units, activation, leak, monkeypatch):
    given, x = parts(units), DRAW.standard_normal((3, 20, 2))
    del given["feedback"]
    given["leak"] = given["leak"] if leak == "each" else 0.3
    m = LiquidStateMachine.from_weights(**given, activation=activation)
    expected = [trajectory(row, f=ACTIVATIONS[activation], **given) for row in x]
    monkeypatch.setattr(reservoir, "_CHUNK", 7 * units)
    close(m.run(x), expected)
    close(m.run(x[1]), expected[1])
    close(m.weights, given["recurrent"], 0)
    assert m.dtype == torch.float64 and m.seed is m.spectral_radius is m.input_scaling is None
    given["bias"] = 0.4
    shifted = LiquidStateMachine.from_weights(**given, activation=activation)
    given["bias"] = np.full(units, 0.4)
    close(shifted.run(x[0]), trajectory(x[0], f=ACTIVATIONS[activation], **given))
    alone = LiquidStateMachine.from_weights(given["recurrent"], given["inputs"])
    close(alone.run(x[0]), trajectory(x[0], given["recurrent"], given["inputs"], np.zeros(units), 1, np.tanh))


def test_every_form_of_a_matrix_is_the_same_machine():
    """Dense and sparse, of torch and SciPy, of rows read a few at a time."""
    sparse = pytest.importorskip("scipy.sparse")
    given = parts(270)
    expected = LiquidStateMachine.from_weights(given["recurrent"], given["inputs"])
    dense = torch.from_numpy(given["recurrent"])
    twice = sparse.coo_array(given["recurrent"] / 2)
    twice = sparse.coo_array((np.tile(twice.data, 2), (np.tile(twice.row, 2), np.tile(twice.col, 2))), twice.shape)
    forms = (dense, dense.to_sparse(), dense.to_sparse_csr(), dense.to_sparse_csc(), np.asfortranarray(dense),
             sparse.csr_matrix(dense), sparse.csc_array(dense), twice)  # fmt: skip
    for form in forms:
        m = LiquidStateMachine.from_weights(form, sparse.csr_array(given["inputs"]))
        assert torch.equal(m.columns, expected.columns) and torch.equal(m.values, expected.values)
        assert torch.equal(m.input_weights, expected.input_weights)
    assert m.columns.shape[1] == np.count_nonzero(given["recurrent"], axis=1).max() < 20
    assert m.density == pytest.approx(m.columns.shape[1] / 270)
    half = LiquidStateMachine.from_weights(dense.float(), given["inputs"])
    assert half.dtype == torch.float32 and torch.equal(half.weights, dense.float())
    assert LiquidStateMachine.from_weights(np.zeros((2, 2), int), np.eye(2), dtype=torch.float64).weights.sum() == 0


def test_weights_are_copies():
    given = {name: torch.from_numpy(each) for name, each in parts().items()}
    m = LiquidStateMachine.from_weights(**given)
    before = {name: tensor.clone() for name, tensor in m.state_dict().items()}
    for tensor in given.values():
        tensor.fill_(7.0)
    assert all(torch.equal(tensor, before[name]) for name, tensor in m.state_dict().items())


def test_large_sparse_weights_are_never_dense(monkeypatch):
    """Rows are read some at a time, here one."""
    monkeypatch.setattr(connections, "_ELEMENTS", 1)
    ring = torch.sparse_coo_tensor(torch.tensor([[0, 1, 2, 2], [1, 2, 0, 1]]), torch.tensor([1.0, 2, 3, 4]))
    m = LiquidStateMachine.from_weights(ring, torch.eye(3))
    assert m.weights.tolist() == [[0, 1, 0], [0, 0, 2], [3, 4, 0]] and m.columns.tolist() == [[0, 1], [0, 2], [0, 1]]


def test_the_trajectories_of_reservoirpy():
    said = {name: tensor.numpy() for name, tensor in load_file(PEERS / "reservoirpy.safetensors").items()}
    weights = [said[name] for name in ("recurrent", "inputs", "bias", "leak")]
    for name, activation in (("states", "tanh"), ("identity", "identity"), ("relu", "relu")):
        m = LiquidStateMachine.from_weights(*weights, activation)
        close(m.run(said["x"]), said[name], 1e-14 * max(1, np.abs(said[name]).max()))
    for name, feedback in (("", None), ("feedback_", said["feedback"])):
        m = LiquidStateMachine.from_weights(*weights, feedback=feedback, ridge=1e-3).fit(said["x"], said["y"])
        close(m.readout[0], said[name + "readout"], 1e-9)
        close(m.readout[1], said[name + "constant"], 1e-9)
        close(m.predict(said["x"]), said[name + "predicted"], 1e-9)


def test_the_trajectories_of_pyrcn():
    """Whose bias and weights have scales of their own."""
    said = load_file(PEERS / "pyrcn.safetensors")
    m = LiquidStateMachine.from_weights(0.9 * said["recurrent"], 0.5 * said["inputs"], 0.7 * said["bias"], 0.4)
    close(m.run(said["x"]), said["states"], 1e-15)


def test_the_trajectories_of_pyreco():
    said = load_file(PEERS / "pyreco.safetensors")
    m = LiquidStateMachine.from_weights(said["recurrent"], said["inputs"], leak=0.4)
    close(m.run(said["x"], said["start"]), said["states"][0, 1:], 1e-15)


@pytest.mark.parametrize("units", WEIGHTS)
@pytest.mark.parametrize("batch", [(), (3,)], ids=("one", "batch"))
def test_feedback_is_of_targets_in_fit_and_of_predictions_after(units, batch, monkeypatch):
    """From rest 0 is heard first; from a state what the read-out says, so that parts give the whole."""
    monkeypatch.setattr(reservoir, "_CHUNK", 20 * units)
    given = parts(units)
    m = LiquidStateMachine.from_weights(**given, ridge=0.1)
    x, y = (DRAW.standard_normal((*batch, 40, columns)) for columns in (2, 3))
    rows, targets = x.reshape(-1, 40, 2), y.reshape(-1, 40, 3)
    taught = [trajectory(row, f=np.tanh, outputs=target, **given) for row, target in zip(rows, targets, strict=True)]
    close(m.run(x, outputs=y).reshape(-1, 40, units), taught)
    with pytest.raises(RuntimeError, match=r"^run: the machine must have a read-out"):
        m.run(x)
    m.fit(x, y)
    z = np.concatenate(taught)
    z = np.concatenate([z, np.ones((len(z), 1))], 1)
    penalty = np.diag([0.1] * units + [0])
    weights = np.linalg.solve(z.T @ z + penalty, z.T @ targets.reshape(-1, 3))
    close(m.readout[0], weights[:-1], 1e-8)
    free = [trajectory(row, f=np.tanh, readout=[each.numpy() for each in m.readout], **given) for row in rows]
    close(m.run(x).reshape(-1, 40, units), free, 1e-12)
    whole = m.predict(x)
    close(whole, m.run(x) @ m.readout[0] + m.readout[1], 1e-12)
    part, state = m.predict(x[..., :17, :], return_state=True)
    close(torch.cat([part, m.predict(x[..., 17:, :], state)], -2), whole, 1e-12)
    stepped, state = [], None
    for t in range(40):
        said, state = m.step(x[..., t, :], state)
        stepped.append(said)
    close(torch.stack(stepped, -2), whole, 1e-12)
    empty = m.run(x[..., :0, :], outputs=y[..., :0, :])
    assert empty.shape == (*batch, 0, units)


def test_it_goes_through_files_states_and_copies(tmp_path):
    given, x = parts(270), DRAW.standard_normal((30, 2))
    m = LiquidStateMachine.from_weights(**given, activation="relu").fit(x, x[:, [0, 1, 1]])
    expected = m.predict(x)
    m.save(tmp_path / "m")
    loaded = LiquidStateMachine.load(tmp_path / "m")
    assert repr(loaded) == repr(m) and "seed" not in repr(m) and "activation='relu'" in repr(m)
    other = LiquidStateMachine.from_weights(**given, activation="relu", device="meta")
    assert other.bias.is_meta
    other.to_empty(device="cpu").load_state_dict(m.state_dict())
    # One with a single leak and no feedback takes both from a state.
    plain = LiquidStateMachine.from_weights(given["recurrent"], given["inputs"], activation="relu")
    plain.load_state_dict(m.state_dict())
    for each in (loaded, other, plain, copy.deepcopy(m), copy.copy(m), torch.nn.Sequential(m).half()[0]):
        assert torch.equal(each.predict(x), expected) and torch.equal(each.leak, m.leak)
        assert each.leak.dtype == each.feedback_weights.dtype == torch.float64
    with pytest.raises(RuntimeError, match=r"Missing key\(s\) in state_dict: \"leak\""):
        m.load_state_dict({name: tensor for name, tensor in m.state_dict().items() if name != "leak"})
    for name, wrong in (("leak", torch.ones(3)), ("feedback_weights", torch.ones(270, 2)), ("end_output", x[0])):
        with pytest.raises(RuntimeError, match=name):
            m.load_state_dict(m.state_dict() | {name: torch.as_tensor(wrong)})
    assert torch.equal(m.predict(x), expected)


def test_an_activation_may_be_drawn_with():
    x = DRAW.standard_normal((20, 2))
    m = LiquidStateMachine(2, 30, activation="relu", dtype=torch.float64)
    weights = (m.weights, m.input_weights, m.bias, m.leak)
    close(m.run(x), trajectory(x, *(np.asarray(each) for each in weights), ACTIVATIONS["relu"]))


SQUARE = np.eye(3)


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        ((SQUARE[:2], SQUARE), ValueError, r"recurrent must have shape \[units, units\], got \[2, 3\]"),
        ((SQUARE[:0, :0], SQUARE), ValueError, r"recurrent must have shape \[units, units\], got \[0, 0\]"),
        ((SQUARE[0], SQUARE), ValueError, r"recurrent must have two dimensions, got shape \[3\]"),
        ((SQUARE * 1j, SQUARE), TypeError, "recurrent must hold real numbers, got torch.complex128"),
        (
            (np.full((3, 3), np.inf), SQUARE),
            ValueError,
            "recurrent must be finite in torch.float64, got NaN or infinity",
        ),
        (("eye", SQUARE), TypeError, "recurrent must be a torch.Tensor or a NumPy array, got str"),
        ((torch.eye(3).to_mkldnn(), SQUARE), TypeError, "recurrent must be dense or sparse in COO, CSR or CSC"),
        ((torch.eye(3, device="meta"), SQUARE), ValueError, "recurrent must hold data, got a meta tensor"),
        ((SQUARE, SQUARE[:2]), ValueError, r"inputs must have shape \[3, at least 1\], got \[2, 3\]"),
        ((SQUARE, SQUARE[:, :0]), ValueError, r"inputs must have shape \[3, at least 1\], got \[3, 0\]"),
        ((SQUARE, SQUARE, SQUARE), ValueError, r"bias must have shape \[3\], got \[3, 3\]"),
        ((SQUARE, SQUARE, [0, 0, 0]), TypeError, "bias must be a number, got list"),
        ((SQUARE, SQUARE, np.nan), ValueError, "bias must be a finite number, got nan"),
        ((SQUARE, SQUARE, None, 0), ValueError, "leak must be a finite number > 0 and <= 1, got 0"),
        ((SQUARE, SQUARE, None, "1"), TypeError, "leak must be a number, got str"),
        (
            (SQUARE, SQUARE, None, np.array([0.5, 0, 1])),
            ValueError,
            "leak must be finite numbers > 0 and <= 1, got 0.0",
        ),
        (
            (SQUARE, SQUARE, None, np.array([0.5, 1, 1.5])),
            ValueError,
            "leak must be finite numbers > 0 and <= 1, got 1.5",
        ),
        ((SQUARE, SQUARE, None, SQUARE), ValueError, r"leak must have shape \[3\], got \[3, 3\]"),
        (
            (SQUARE, SQUARE, None, 1.0, "sigmoid"),
            ValueError,
            "activation must be 'tanh', 'identity' or 'relu', got 'sigmoid'",
        ),
        ((SQUARE, SQUARE, None, 1.0, "tanh", SQUARE[0]), ValueError, "feedback must have two dimensions"),
    ],
)
def test_bad_weights(arguments, error, text):
    with pytest.raises(error, match=f"^from_weights: {text}"):
        LiquidStateMachine.from_weights(*arguments)


def test_bad_weights_by_name():
    for settings, error, text in (
        ({"ridge": -1}, ValueError, "ridge must be a finite number >= 0, got -1"),
        ({"dtype": torch.float16}, TypeError, "dtype must be torch.float32 or torch.float64"),
        (
            {"dtype": torch.float32, "recurrent": SQUARE * 1e300},
            ValueError,
            "recurrent must be finite in torch.float32",
        ),
    ):
        with pytest.raises(error, match=f"^from_weights: {text}"):
            LiquidStateMachine.from_weights(**{"recurrent": SQUARE, "inputs": SQUARE, **settings})


def test_bad_feedback():
    given, x = parts(), np.zeros((5, 2))
    m = LiquidStateMachine.from_weights(**given)
    for call, text in (
        (lambda: m.fit(x, x), r"fit: y must have 3 columns, which units hear, got shape \[5, 2\]"),
        (
            lambda: LiquidStateMachine.from_weights(**given, dtype=torch.float32).fit(x, x[:, [0, 0, 0]] + 1e60),
            "fit: y must be finite in torch.float32, got NaN or infinity",
        ),
        (lambda: m.run(x, outputs=x), r"run: outputs must have shape \[1, 5, 3\], got \[5, 2\]"),
        (
            lambda: LiquidStateMachine(2, 9).run(x, outputs=x),
            r"run: outputs must be None where there is no feedback, got shape \[5, 2\]",
        ),
    ):
        with pytest.raises(ValueError, match=f"^{text}"):
            call()
    assert not m.fitted
