"""`torch_hrr.compat.simulator` under its older name."""

import importlib
import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch_hrr.compat.simulator import *  # noqa: F403

sys.modules[__name__] = importlib.import_module("torch_hrr.compat.simulator")
