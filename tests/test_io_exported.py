"""What exported programs need of torch_hrr; tests/test_consumer.py and tests/test_ops_compile.py run what it makes."""

import pathlib
import re

import pytest
import torch

from torch_hrr import io

HEADER = pathlib.Path(torch.__file__).parent / "include/torch/csrc/inductor/aoti_torch/generated/c_shim_cpu.h"


def test_operators_without_a_shim_are_those_whose_names_are_taken():
    """Overloads share a name, and so do operators of ATen's."""
    shims = io.inductor_configs()["aot_inductor.custom_ops_to_c_shims"]
    operators = {op for op in io.onnx_decompositions() if op.namespace == "torch_hrr"}
    taken = set(re.findall(r"aoti_torch_cpu_(\w+)\(", HEADER.read_text()))
    left = {op for op in operators if op._overloadname != "default" or op._schema.name.split("::")[1] in taken}
    assert set(shims) == operators - left
    assert torch.ops.torch_hrr.permute.default in left and len(shims) > 30


def test_the_folder_of_the_library_may_be_that_of_another_machine():
    (here,), (there,) = (io.inductor_configs(*f)["aot_inductor.custom_op_libs"] for f in ((), ("/opt/with space",)))
    assert there.startswith("torch_hrr ") and there.endswith(" -Xlinker '/opt/with space'")
    assert here.split(" -Xlinker ")[0] == there.split(" -Xlinker ")[0]


@pytest.mark.parametrize("folder", (3, b"/opt"))
def test_a_folder_is_a_path(folder):
    with pytest.raises(TypeError, match=r"^inductor_configs: folder must be a path, got "):
        io.inductor_configs(folder)
