#!/usr/bin/env bash
# reservoirpy 0.4.2: with one input channel nine of ten units of a Reservoir get no input.
#
# input_connectivity is 0.1 by default: a share of the entries of Win, drawn for the matrix as a whole. A scalar series
# has one column, so that 450 of 500 units see it only through the recurrent weights. With 16 channels 95 of 500 units
# still see none. Who compares reservoirs "of the same size" compares one that is driven through a tenth of its units.
#
# Seen: 450 of 500 rows of Win are zero for one channel, and none with input_connectivity=1. Fails if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv environment
environment/bin/pip --quiet --disable-pip-version-check install "reservoirpy==0.4.2" "numpy==2.4.6" "scipy==1.17.1"
environment/bin/python - << 'PYTHON'
import numpy as np
import reservoirpy
from reservoirpy.nodes import Reservoir


def without_input(channels, **settings):
    """How many of 500 units have no weight from any input channel."""
    reservoir = Reservoir(500, seed=0, **settings)
    reservoir.run(np.zeros((3, channels)))
    weights = reservoir.Win
    weights = weights.toarray() if hasattr(weights, "toarray") else np.asarray(weights)
    return int((np.abs(weights).sum(axis=1) == 0).sum())


found = without_input(1), without_input(16), without_input(1, input_connectivity=1.0)
print(f"reservoirpy {reservoirpy.__version__}: of 500 units {found[0]} get nothing of 1 channel, {found[1]} of 16")
assert found == (450, 95, 0), found
PYTHON
