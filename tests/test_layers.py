"""Include and import lines keep the arrows of the design: kernels <- csrc <- torch_hrr <- tests, bench, examples."""

import ast
import collections
import functools
import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[1]
LONGEST_FILE = 900
NATIVE = {".h", ".cpp", ".cuh", ".cu"}
LEAVES = {"tests", "bench", "examples"}
SYSTEMS = {"hrr", "assembly", "field", "encoding", "hierarchy"}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]', re.MULTILINE)
# What a kernel may include besides kernels/: the language, the CUDA toolkit, the header-only part of torch.
CUDA = re.compile(r"^(cuda|cufft|cooperative_groups|cub/|thrust/|nv/|device_)")
PLATFORM = {"immintrin.h", "sys/mman.h", "cpuid.h"}


def sources(folder, suffixes):
    return sorted(path for path in (ROOT / folder).rglob("*") if path.suffix in suffixes and "lib" not in path.parts)


def includes(path):
    """Whether the name is in angle brackets, and the name."""
    return [(kind == "<", name) for kind, name in INCLUDE.findall(path.read_text())]


@functools.cache
def imports(path, nodes=ast.walk):
    """The modules a file imports anywhere, imported names of a package included."""
    modules = set()
    package = ".".join(path.relative_to(ROOT).parent.parts)
    for node in nodes(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parent = package.split(".")[: len(package.split(".")) - node.level + 1]
                base = ".".join([*parent, *([base] if base else [])])
            modules |= {base, *(f"{base}.{alias.name}" for alias in node.names)}
    return modules


def each(paths):
    """Makes a test of a file one that goes through several; an error has a note of the file."""
    paths = list(paths)

    def decorate(test):
        def whole():
            for path in paths:
                try:
                    test(path)
                except Exception as error:
                    error.add_note(str(path.relative_to(ROOT)))
                    raise

        whole.__doc__ = test.__doc__
        return whole

    return decorate


KERNELS, CSRC, PYTHON = sources("kernels", NATIVE), sources("csrc", NATIVE), sources("torch_hrr", {".py"})


def test_there_is_something_to_check():
    assert KERNELS and CSRC and PYTHON


@each(KERNELS)
def test_kernels_know_no_framework(path):
    for angled, name in includes(path):
        if angled:
            standard = "/" not in name and "." not in name
            allowed = standard or name in PLATFORM or CUDA.match(name) or name.startswith("torch/headeronly/")
        else:
            allowed = name.startswith("kernels/")
        assert allowed, f"kernels/ may not include {name}"


@each([path for path in KERNELS + CSRC if path.suffix in {".cu", ".cuh"}])
def test_cuda_sources_include_no_aten(path):
    for _, name in includes(path):
        assert not name.startswith(("ATen/", "c10/", "torch/")) or name.startswith("torch/headeronly/"), name


@each(CSRC)
def test_csrc_includes_torch_and_kernels_alone(path):
    public = "csrc/include" in str(path)
    for angled, name in includes(path):
        assert name != "torch/extension.h", "torch/extension.h costs half a minute a file"
        assert not name.startswith(("pybind11/", "Python.h", "torch/csrc/utils/pybind"))
        if not angled:
            assert not public, f"an installed header may not include {name}"
            assert name.startswith(("csrc/", "kernels/")), name


def test_no_file_includes_torch_extension():
    for folder in ("kernels", "csrc", "tests", "bench", "examples"):
        for path in sources(folder, NATIVE):
            assert all(name != "torch/extension.h" for _, name in includes(path)), path


@each(PYTHON)
def test_the_package_needs_nothing_above_it(path):
    assert not {module.split(".")[0] for module in imports(path)} & LEAVES


@each(sources("torch_hrr/_plain", {".py"}))
def test_the_reference_is_plain_torch(path):
    standard = {"__future__", "collections", "dataclasses", "functools", "itertools", "math", "typing"}
    others = {module.split(".")[0] for module in imports(path) if not module.startswith("torch_hrr._plain")}
    assert others <= standard | {"torch"}


def systems_of(path, folder):
    """The systems that a file in `folder` includes or imports."""
    if path.suffix == ".py":
        names = [module.split(".") for module in imports(path)]
    else:
        names = [name.split("/") for angled, name in includes(path) if not angled]
    return {name[1] for name in names if len(name) > 1 and name[0] == folder} & SYSTEMS


# The Python that systems share.
SHARED = sources("torch_hrr/runtime", {".py"}) + sorted((ROOT / "torch_hrr").glob("_[!_]*.py"))


@each(SHARED)
def test_what_systems_share_knows_no_system(path):
    assert not systems_of(path, "torch_hrr")


def when_run(tree):
    """The nodes of a file but for what type checkers alone read."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            node = ast.Module(body=node.orelse, type_ignores=[])
        yield node
        yield from when_run(node)


def circles(arrows):
    """Groups of modules each of which leads to all others of its group."""
    reached = {}
    for start in arrows:
        found, waiting = set(), [start]
        while waiting:
            new = arrows[waiting.pop()] - found
            found |= new
            waiting += new
        reached[start] = found
    return {
        frozenset({one, *(two for two in found if one in reached[two])})
        for one, found in reached.items()
        if one in found
    }


def test_circles_are_found():
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}) == {frozenset("bc")}
    assert circles({"a": {"b", "c"}, "b": {"c"}, "c": set()}) == set()


def test_modules_do_not_import_each_other_in_a_circle():
    """Nor within functions. Of a package the modules count that an import names, not its __init__."""
    modules = {".".join(path.relative_to(ROOT).with_suffix("").parts): path for path in PYTHON}
    arrows = {name: imports(path, when_run) & (modules.keys() - {name}) for name, path in modules.items()}
    assert sum(map(len, arrows.values())) > 100
    assert circles(arrows) == set()


@each([path for path in PYTHON if path.parent.name != "compat"])
def test_what_runs_does_not_import_the_names_of_older_programs(path):
    """Nor within functions: `torch_hrr._moved` finds them by name when somebody asks for one."""
    assert not [module for module in imports(path, when_run) if module.startswith("torch_hrr.compat")]


def test_importing_the_package_imports_no_name_of_older_programs_nor_what_few_use():
    code = "import sys, torch_hrr; print(*(name for name in sys.modules if name.startswith('torch_hrr.')))"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    late = {f"torch_hrr.hrr.{name}" for name in "associative classifiers distributions embeddings records".split()}
    assert "torch_hrr.hrr.memory" in found and not late & {*found}
    assert not [name for name in found if name.startswith("torch_hrr.compat")]


OWNED = [path for path in KERNELS + CSRC + PYTHON if path.relative_to(ROOT).parts[1] in SYSTEMS]


@each(OWNED)
def test_systems_do_not_know_each_other(path):
    """What two of them use lies below both."""
    own = path.relative_to(ROOT).parts[1]
    for folder in ("kernels", "csrc", "torch_hrr"):
        assert systems_of(path, folder) <= {own}


@pytest.mark.parametrize("name", ("assembly/monitor", "compat/assembly", "compat/simulator", "compat/_connectomes"))
def test_what_is_built_on_a_brain_uses_its_public_state(name):
    path = ROOT / "torch_hrr" / f"{name}.py"
    names = {node.attr for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Attribute)}
    assert not names & {"_network", "_engine", "states"}


@each([path for path in PYTHON if path.name in {"functional.py", "_vmap.py"}])
def test_functional_layers_know_no_modules_or_systems(path):
    """A function of a system uses torch, the runtime and its own private helpers."""
    own = path.parent.name
    for module in imports(path):
        parts = module.split(".")
        if parts[0] == "torch_hrr" and len(parts) > 1:
            allowed = parts[1] in {"runtime", "_plain"} or parts[1].startswith("_")
            inside = parts[1] == own and (len(parts) == 2 or parts[2].startswith("_") or parts[2] == "functional")
            assert allowed or inside, module


@each([path for system in sorted(SYSTEMS) for path in sources(f"torch_hrr/{system}", {".py"})])
def test_systems_do_not_import_the_command_line_or_the_demo(path):
    assert not [name for name in imports(path) if name.startswith(("torch_hrr.demos", "torch_hrr.__main__"))]


@pytest.mark.parametrize("folder", ("kernels", "csrc", "torch_hrr", "tests", "bench"))
def test_files_are_short(folder):
    long = {
        str(path.relative_to(ROOT)): count
        for path in sources(folder, {*NATIVE, ".py"})
        if (count := len(path.read_text().splitlines())) > LONGEST_FILE
    }
    assert not long


@pytest.mark.parametrize("folder", ("kernels", "csrc", "torch_hrr", "tests", "bench"))
def test_files_open_with_their_purpose(folder):
    for path in sources(folder, {*NATIVE, ".py"}):
        text = path.read_text()
        if path.suffix == ".py":
            assert not text or ast.get_docstring(ast.parse(text)), path
        else:
            assert text.startswith("// "), path


def test_few_lines_are_hidden_from_the_type_checker():
    hidden = [
        path
        for path in (ROOT / "torch_hrr").rglob("*.py")
        for line in path.read_text().splitlines()
        if "# type: ignore" in line
    ]
    assert len(hidden) < 5, hidden


def test_every_test_module_has_its_own_name():
    """Test folders are no packages, so pytest imports modules by base name and stops at the second of a name."""
    names = collections.Counter(path.name for path in (ROOT / "tests").rglob("test_*.py"))
    assert not [name for name, count in names.items() if count > 1]
