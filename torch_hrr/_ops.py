"""The operators of the library, `torch.ops.torch_hrr`; _ops.pyi has the types of their schemas."""

import torch

ops = torch.ops.torch_hrr
