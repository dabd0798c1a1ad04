#!/usr/bin/env bash
# gymnasium 1.4.0: make_vec("CartPole-v1", num_envs=2) does not run the episodes of two single environments.
#
# Without vectorization_mode make_vec takes an environment's vector entry point where it has one. CartPole's is
# CartPoleVectorEnv, which draws the first states of all its environments from one generator. SyncVectorEnv seeds
# environment i with seed + i, and so gives what gymnasium.make("CartPole-v1").reset(seed=seed + i) gives. A list of
# seeds, one for each environment, is what VectorEnv documents; CartPoleVectorEnv refuses it.
#
# Seen: neither of the two starts as the single environment of its seed; with vectorization_mode="sync" both agree; the
# list of seeds is an error. Fails if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv environment
environment/bin/pip --quiet --disable-pip-version-check install "gymnasium==1.4.0" "numpy==2.4.6"
environment/bin/python - << 'PYTHON'
import gymnasium
import numpy as np


def first_states(mode):
    """The class of two environments, and for each whether it starts as a single environment of seed 5 + i does."""
    envs = gymnasium.make_vec("CartPole-v1", num_envs=2, vectorization_mode=mode)
    states, _ = envs.reset(seed=5)
    single = gymnasium.make("CartPole-v1")
    equal = [bool(np.array_equal(states[i], single.reset(seed=5 + i)[0])) for i in range(2)]
    return type(envs.unwrapped).__name__, equal


default, synchronous = first_states(None), first_states("sync")
try:
    gymnasium.make_vec("CartPole-v1", num_envs=2).reset(seed=[5, 6])
    refused = ""
except gymnasium.error.Error as error:
    refused = str(error)
print(f"gymnasium {gymnasium.__version__}: default {default}, sync {synchronous}, a list of seeds: {refused!r}")
assert default == ("CartPoleVectorEnv", [False, False])
assert synchronous == ("SyncVectorEnv", [True, True])
assert refused.startswith("Seed must be a python integer")
PYTHON
