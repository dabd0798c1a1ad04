"""Makes the device "dummy" of dummy_device.cpp known to a process, which can rename PrivateUse1 once."""

import os
import sys
import types
from collections.abc import Callable

import torch

NAME = "dummy"


def register() -> None:
    """Once, before the first tensor of the device."""
    torch.utils.rename_privateuse1_backend(NAME)
    torch.ops.load_library(os.path.join(os.environ["TORCH_HRR_BUILD_DIR"], "tests/cpp/libdummy_device.so"))
    module = types.ModuleType(f"torch.{NAME}")
    module.is_available = lambda: True
    module.device_count = lambda: 1
    module.current_device = lambda: 0
    module._is_in_bad_fork = lambda: False
    module.get_amp_supported_dtype = lambda: [torch.float16, torch.bfloat16]
    torch._register_device_module(NAME, module)


def run(program: Callable[[], None]) -> None:
    """The program of a process with the device. Without an error the process ends where the program does.

    The interpreter's own end is left out: autograd's thread of the device may still be freeing the last graph, and a
    thread that asks for the interpreter while that ends is unwound, which from a destructor is an abort.
    """
    register()
    program()
    sys.stdout.flush()
    os._exit(0)
