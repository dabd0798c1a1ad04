"""The guide's snippets run, on one rank."""

import importlib.util
import os
import re
import subprocess
import sys

import torch
import torch.distributed as dist
from guide import DOCS, run_snippets

from torch_hrr import assembly, field

GUIDE = DOCS / "distributed.md"


def test_snippets_run():
    try:
        names = run_snippets(GUIDE, least=8)
    finally:
        if dist.is_initialized():
            dist.destroy_process_group()
    assert names["gradient"].shape == (64,) and names["found"].shape == (64,)
    assert names["held"] == {"steps": 10, "key": names["key"].tolist()}
    whole = assembly.Brain(p=0.05, seed=3)
    whole.add_stimulus("s", 40)
    whole.add_area("A", n=1000, k=30)
    whole.project({"s": ["A"]}, {"A": ["A"]}, rounds=10)
    assert torch.equal(names["divided"].winners("A"), whole.winners("A"))
    robot = field.FieldBrain(4, 2, (6, 8, 8), 16, seed=3)
    for number in range(5):
        motor, _ = robot.process_robot_cycle([0.1 * number, 0.2, 0.3, 0.4], reward=0.5)
    assert names["motor"] == motor and torch.equal(names["whole"].field, robot.field)
    start = names["start"].detach().clone().requires_grad_()
    field.evolve(start, 0.02, 0.1, 4).square().sum().backward()
    assert torch.equal(names["start"].grad, start.grad)


def test_snippets_run_on_the_ranks_of_torchrun(tmp_path):
    """With the one change of which the page tells."""
    page, alone = GUIDE.read_text(), ", store=dist.HashStore(), rank=0, world_size=1"
    assert page.count(alone) == 1
    program = tmp_path / "page.py"
    program.write_text("".join(re.findall(r"^```python\n(.*?)^```$", page.replace(alone, ""), re.M | re.S)))
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", str(program)]
    environment = os.environ | {"OMP_NUM_THREADS": "1", "TMPDIR": str(tmp_path)}
    done = subprocess.run(command, capture_output=True, text=True, timeout=200, env=environment, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr


def test_figures_of_two_ranks_are_those_of_the_page():
    # Its ranks are forked, which autograd allows before it has run in threads.
    command = [sys.executable, str(DOCS.parent / "bench" / "distributed_scaling.py"), "--ranks", "2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    rows, page = done.stdout.strip().split("\n\n")[0].splitlines()[2:], GUIDE.read_text()
    assert len(rows) == 6 and all(row in page for row in rows)


def test_what_is_computed_for_many_ranks_is_by_formulas_that_give_what_was_counted():
    page = GUIDE.read_text()
    spec = importlib.util.spec_from_file_location("distributed_scaling", DOCS.parent / "bench/distributed_scaling.py")
    distributed_scaling = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(distributed_scaling)
    for name, (cost, whole) in distributed_scaling.formulas().items():
        for ranks in distributed_scaling.RANKS:
            strong, weak = cost(ranks, 1), cost(ranks, ranks)
            cells = [f"{strong.work:g}", f"{100 * (strong.work * ranks / whole - 1):.1f} %", f"{strong.sent:g}"]
            cells += [f"{weak.work:g}", f"{100 * (weak.work / whole - 1):.1f} %", f"{weak.sent:g}"]
            assert f"| {' | '.join([name, str(ranks), *cells])} |" in page
    assert f"<!-- computed: begin -->\n{distributed_scaling.computed()}<!-- computed: end -->" in page
