#!/usr/bin/env bash
# torch 2.15.0: a corrected derivative of a custom operator stays wrong in new processes.
#
# torch.compile keeps compiled graphs on disk (AOTAutogradCache and FxGraphCache, on by default). Their keys hold the
# graph, torch's sources and configuration, but nothing of the code that registers an operator: here the formula given
# to torch.library.register_autograd, and the same goes for operators in C++. A graph compiled with a wrong formula is
# served after the formula is corrected: no warning, and the old gradient.
#
# Seen: the first process, whose formula is 3 * grad, prints 3.0; the second, whose formula is 2 * grad, prints 3.0 too;
# with another torch.compiler.config.cache_key_tag it prints 2.0. Fails if that changes.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv environment
environment/bin/pip --quiet --disable-pip-version-check install "torch==2.15.0" "numpy==2.4.6" "setuptools==80.9.0"
cat > operator_of_two.py << 'PYTHON'
import sys

import torch

factor = float(sys.argv[1])


@torch.library.custom_op("finding::double", mutates_args=())
def double(x: torch.Tensor) -> torch.Tensor:
    return 2 * x


@double.register_fake
def _(x):
    return torch.empty_like(x)


double.register_autograd(lambda ctx, grad: factor * grad)
x = torch.ones((), requires_grad=True)
torch.compile(lambda x: torch.ops.finding.double(x))(x).backward()
print(x.grad.item())
PYTHON
export TORCHINDUCTOR_CACHE_DIR="$folder/caches"
wrong=$(environment/bin/python operator_of_two.py 3)
corrected=$(environment/bin/python operator_of_two.py 2)
tagged=$(TORCH_COMPILE_CACHE_KEY_TAG=corrected environment/bin/python operator_of_two.py 2)
echo "torch 2.15.0: wrong formula $wrong, corrected formula $corrected, corrected formula and another tag $tagged"
[ "$wrong $corrected $tagged" = "3.0 3.0 2.0" ]
