# make demo: from a fresh clone to a result. make test: every test. Both write only to .venv, build and ignored folders.
PYTHON ?= python3
VENV ?= .venv
TORCH ?= torch>=2.11,<2.16
PY := $(VENV)/bin/python
# One build tree for the package and the C++ tests.
BUILD ?= build/make$(VENV)
REPORTS := $(BUILD)/reports
export TORCH_HRR_BUILD_DIR := $(abspath $(BUILD))
JOBS ?= $(shell nproc 2> /dev/null || sysctl -n hw.ncpu)

# The demo has CUDA kernels where there is a GPU to run them. Tests require them wherever nvcc is found, for a single
# architecture: the kernels have no code specific to newer ones.
NVCC := $(firstword $(shell command -v nvcc) $(wildcard $(CUDA_HOME)/bin/nvcc /usr/local/cuda/bin/nvcc))
DEMO_BUILD := TORCH_HRR_CUDA=$(or $(TORCH_HRR_CUDA),auto)
TEST_BUILD := TORCH_HRR_ISAS=all TORCH_HRR_CUDA=$(or $(TORCH_HRR_CUDA),$(if $(NVCC),1,0)) TORCH_CUDA_ARCH_LIST="$(or $(TORCH_CUDA_ARCH_LIST),8.0+PTX)"

.PHONY: demo wheel gpu-kit gpu-dry-run test test-all test-minors reliability test-cpp test-sanitized test-arm64 test-python lint coverage bench docs onnx-tools install clean tools start

tools:
	@command -v $(PYTHON) > /dev/null || { echo "torch_hrr: python3 (3.11 or later) was not found: apt-get install python3 python3-venv" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "torch_hrr: Python 3.11 or later is needed (make PYTHON=...)" >&2; exit 1; }
	@command -v c++ > /dev/null || { echo "torch_hrr: a C++20 compiler was not found: apt-get install g++" >&2; exit 1; }
	@command -v cmake > /dev/null || { echo "torch_hrr: cmake was not found: apt-get install cmake" >&2; exit 1; }
	@command -v ninja > /dev/null || { echo "torch_hrr: ninja was not found: apt-get install ninja-build" >&2; exit 1; }

# $(call timed,stage,command): runs the command and adds a line to the table of stages that `make test` ends with.
timed = @mkdir -p $(REPORTS) && start=$$(date +%s) && { $(2); } && echo "$(1) $$(($$(date +%s) - start))" >> $(REPORTS)/stages

$(VENV)/.torch: | tools
	@echo "torch_hrr: installing torch into $(VENV), a minute or two"
	@$(PYTHON) -m venv $(VENV)
	$(call timed,torch,$(PIP) "setuptools>=77" wheel "$(TORCH)" numpy)
	@touch $@

# Bytecode is compiled as modules are imported: of most it never is.
PIP := $(PY) -m pip --disable-pip-version-check install --no-compile
# Everything the library is built from, so that the next demo or test sees an edit.
SOURCES := $(shell git ls-files 'kernels/*' 'csrc/*' 'cmake/*' 2> /dev/null) CMakeLists.txt setup.py pyproject.toml

# $(call package,environment,extras): setup.py shows ninja's progress, which pip would hide; pip then finds it built.
# editable_mode=compat puts the clone on sys.path: the finder that is the default comes after the current folder, where
# a clone named torch_hrr would pass for a package.
define package
	@echo "torch_hrr: building the library; ninja counts the steps"
	$(call timed,library,$(1) $(PY) setup.py --quiet build_ext --inplace)
	@echo "torch_hrr: installing it and what else is needed, half a minute"
	$(call timed,packages,$(1) $(PIP) --quiet --no-build-isolation --config-settings editable_mode=compat --editable "$(2)")
endef
, := ,

$(VENV)/.installed: $(VENV)/.torch $(SOURCES)
	$(call package,$(DEMO_BUILD),.[plot$(,)examples-demo])
	@touch $@

# What it installs serves the demo too.
$(VENV)/.test-tools: $(VENV)/.torch $(SOURCES)
	@$(if $(NVCC),,echo "torch_hrr: nvcc was not found: CUDA kernels are left out here and only run on the host")
	$(call package,$(TEST_BUILD),.[plot$(,)examples-demo$(,)test$(,)lint])
	@touch $(VENV)/.installed $@

install: $(VENV)/.installed

demo: $(VENV)/.installed
	$(PY) -m torch_hrr demo

test: start lint test-cpp test-python
	@awk '{ printf "%6d s  %s\n", $$2, $$1; total += $$2 } END { printf "%6d s  make test\n", total }' $(REPORTS)/stages

start:
	@rm -f $(REPORTS)/stages

# The report is printed even if tests fail.
test-cpp: $(VENV)/.test-tools
	$(call timed,build-tests,cmake -S . -B $(BUILD) -DTORCH_HRR_TESTS=ON $(CMAKE_ARGS) && cmake --build $(BUILD) --parallel $(JOBS))
	@rm -rf $(REPORTS)/cpp && mkdir -p $(REPORTS)/cpp
	$(call timed,test-cpp,ctest --test-dir $(BUILD) --output-on-failure --parallel $(JOBS); status=$$?; \
	  $(PY) tests/report.py $(REPORTS)/cpp ; (exit $$status))

# There is a process for every core already: more threads than cores would wait for each other. Tests of threads ask for
# as many as they need.
test-python: $(VENV)/.test-tools
	@rm -rf $(REPORTS)/python && mkdir -p $(REPORTS)/python
	$(call timed,test-python,OMP_NUM_THREADS=1 TORCH_HRR_REQUIRE_CUDA=$(if $(NVCC),1) $(TEST_BUILD) $(PY) -m pytest -n $(JOBS) --dist worksteal --junitxml $(REPORTS)/python/tests.xml $(PYTEST_ARGS); \
	  status=$$?; $(PY) tests/report.py $(REPORTS)/python ; (exit $$status))

lint: $(VENV)/.test-tools
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(call timed,lint,$(PY) -m mypy && git ls-files '*.h' '*.cpp' '*.cuh' '*.cu' | xargs $(VENV)/bin/clang-format --dry-run -Werror)

# The CPU library and a part of the Python tests on other minor versions of torch; CI runs the oldest.
MINORS ?= 2.11 2.12 2.13 2.14
test-minors: $(VENV)/.test-tools
	JOBS=$(JOBS) $(PY) tests/minors.py $(MINORS)

# One wheel for all of them, with the CPU kernels of every instruction set and, where nvcc is, CUDA kernels for the
# release list; each minor takes a build.
WHEEL_MINORS ?= 2.11 2.12 2.13 2.14 2.15
wheel: $(VENV)/.installed
	MAX_JOBS=$(or $(MAX_JOBS),$(JOBS)) TORCH_HRR_CUDA=$(or $(TORCH_HRR_CUDA),$(if $(NVCC),1,0)) $(PY) tests/minors.py --wheel dist $(WHEEL_MINORS)

# Cross-compiles the library for arm64 and torch's wheel of it, a download of 480 MB, and runs the tests of kernels there
# but those that start their program again (apt-get install g++-aarch64-linux-gnu qemu-user googletest).
ARM64 := build/arm64
ARM64_CMAKE = cmake -G Ninja -DCMAKE_TOOLCHAIN_FILE=$(abspath cmake/aarch64.cmake)
test-arm64: $(VENV)/.torch
	@command -v aarch64-linux-gnu-g++ > /dev/null && command -v qemu-aarch64 > /dev/null || \
	  { echo "torch_hrr: apt-get install g++-aarch64-linux-gnu qemu-user googletest" >&2; exit 1; }
	@test -d $(ARM64)/site || { rm -rf $(ARM64)/part && $(PY) -m pip download --quiet --no-deps --only-binary :all: \
	  --platform manylinux_2_28_aarch64 --dest $(ARM64) "$(TORCH)" && \
	  $(PY) -m zipfile -e $(ARM64)/torch-*.whl $(ARM64)/part && mv $(ARM64)/part $(ARM64)/site; }
	$(ARM64_CMAKE) -S /usr/src/googletest -B $(ARM64)/googletest -DCMAKE_INSTALL_PREFIX=$(abspath $(ARM64)/root) > /dev/null
	cmake --build $(ARM64)/googletest --target install --parallel $(JOBS) > /dev/null
	$(ARM64_CMAKE) -S . -B $(ARM64)/build -DTORCH_HRR_TESTS=ON -DTORCH_HRR_CUDA=0 -DTORCH_HRR_CUDA_ON_HOST=OFF \
	  -DTORCH_HRR_WERROR=ON -DCMAKE_FIND_ROOT_PATH=$(abspath $(ARM64)/root) -DTORCH_HRR_TORCH_ROOT=$(abspath $(ARM64)/site/torch)
	cmake --build $(ARM64)/build --target torch_hrr kernel_tests --parallel $(JOBS)
	GTEST_FILTER=-ActiveIsa.* ctest --test-dir $(ARM64)/build --output-on-failure --parallel $(JOBS) -R '^kernels\.'

# A folder for a machine with a GPU, which then compiles nothing: docs/dev/gpu.md.
GPU_KIT ?= build/gpu-kit
GPU_TORCH ?= 2.11
GPU_ARCHITECTURE ?= 9.0
gpu-kit: $(VENV)/.installed
	@$(if $(shell command -v opt-14),cmake -S . -B $(BUILD) -DTORCH_HRR_TESTS=ON > /dev/null && \
	  cmake --build $(BUILD) --target cuda_on_host_profile --parallel $(JOBS),\
	  echo "torch_hrr: opt-14 was not found (apt-get install clang-14 llvm-14): the kit has no counts and no model")
	$(PY) tests/gpu/kit.py --torch $(GPU_TORCH) --architecture $(GPU_ARCHITECTURE) --build $(BUILD) $(GPU_KIT)

# What needs no GPU of a kit, under the torch that the kit is for.
gpu-dry-run: $(VENV)/.installed
	PYTHON=$(abspath $(PY)) PYTHONPATH=$(abspath build/minors/$(GPU_TORCH)/site) $(GPU_KIT)/tests/gpu/run --dry-run

# The full products of dtypes, shapes and schedules, the elementary functions at all 2^32 floats, the other minor
# versions of torch, and the CPU kernels under sanitizers.
test-all: export TORCH_HRR_TEST_ALL := 1
test-all: CMAKE_ARGS += -DCUDA_ON_HOST_PLAIN=ON
test-all: $(VENV)/.test-tools $(VENV)/.docs-tools onnx-tools test test-sanitized
	$(BUILD)/tests/cpp/kernel_tests --gtest_also_run_disabled_tests '--gtest_filter=*DISABLED_*' --gtest_brief=1
	TORCH_HRR_TEST_ALL=0 $(MAKE) test-minors

TORCH_ROOT = $$($(PY) -c 'import torch; print(torch.__path__[0])')
# Those of the CUDA kernels on the host are a part of test-cpp.
test-sanitized: $(VENV)/.torch
	cmake -G Ninja -S . -B build/sanitize -DTORCH_HRR_TESTS=ON -DTORCH_HRR_CUDA=0 -DTORCH_HRR_SANITIZE=address,undefined \
	  -DTORCH_HRR_CUDA_ON_HOST=OFF "-DTORCH_HRR_TORCH_ROOT=$(TORCH_ROOT)"
	cmake --build build/sanitize --target kernel_tests --parallel $(JOBS)
	ctest --test-dir build/sanitize --output-on-failure --parallel $(JOBS) -R '^kernels\.'

# Writes docs/reliability.md and README's table of it: fuzzing of the operators, changed files, what test-python reports
# of malformed calls and repeats, kernels under sanitizers, the other minors. Three hours on two cores, one of them for
# the fuzzer. It needs Clang with libFuzzer.
CLANG ?= $(or $(shell command -v clang++),clang++-14)
FUZZ := build/fuzz
FUZZ_SECONDS ?= 3600
MUTATIONS ?= 10000
reliability: test-cpp test-sanitized test-python
	cmake -G Ninja -S . -B $(FUZZ) -DCMAKE_CXX_COMPILER=$(CLANG) -DTORCH_HRR_TESTS=ON -DTORCH_HRR_CUDA=0 \
	  -DTORCH_HRR_CUDA_ON_HOST=OFF -DTORCH_HRR_SANITIZE=address,undefined,fuzzer-no-link \
	  "-DTORCH_HRR_TORCH_ROOT=$(TORCH_ROOT)"
	cmake --build $(FUZZ) --target fuzz_operators --parallel $(JOBS)
	$(PY) tests/reliability.py --build $(FUZZ) --report $(REPORTS)/python/tests.xml \
	  --programs $(REPORTS)/cpp build/sanitize/reports/cpp --seconds $(FUZZ_SECONDS) --mutations $(MUTATIONS) --minors $(MINORS)

# Lines and branches of kernels/ and csrc/ that the C++ tests of kernels and operators and the operators' Python tests
# reach, in a separate build. Branches that only exceptions take do not count. COVERAGE_TESTS= leaves Python out.
# One process per file: workers of `pytest -n` end without writing what they counted.
COVERAGE := build/coverage
COVERAGE_TESTS ?= $(wildcard tests/test_ops_*.py)
coverage: $(VENV)/.test-tools
	@$(PIP) --quiet gcovr
	TORCH_HRR_CUDA=0 TORCH_HRR_ISAS=all TORCH_HRR_BUILD_DIR=$(COVERAGE) \
	  TORCH_HRR_CMAKE_ARGS="-DTORCH_HRR_COVERAGE=ON -DTORCH_HRR_TESTS=ON -DCMAKE_DISABLE_PRECOMPILE_HEADERS=ON" \
	  $(PY) setup.py --quiet build --build-lib $(COVERAGE)/site
	cmake --build $(COVERAGE) --target kernel_tests op_tests --parallel $(JOBS)
	find $(COVERAGE) -name '*.gcda' -delete
	ctest --test-dir $(COVERAGE) --output-on-failure --parallel $(JOBS) -R '^(kernels|ops)\.'
	$(if $(COVERAGE_TESTS),printf '%s\n' $(COVERAGE_TESTS) | \
	  PYTHONPATH=$(abspath $(COVERAGE)/site) xargs -P $(JOBS) -n 1 $(VENV)/bin/pytest -q)
	$(VENV)/bin/gcovr --root . --filter kernels/ --filter csrc/ --exclude-throw-branches --exclude-unreachable-branches \
	  --sort-percentage --print-summary $(COVERAGE)

bench: $(VENV)/.installed
	$(PY) bench/run.py hrr

# $(call extra,name): the packages of an extra.
extra = $$($(PY) -c "import tomllib; print(*tomllib.load(open('pyproject.toml', 'rb'))['project']['optional-dependencies']['$(1)'])")

# The site, in build/docs/html. A warning, such as of a link that leads nowhere, fails it at the end.
$(VENV)/.docs-tools: $(VENV)/.installed pyproject.toml
	@$(PIP) --quiet $(call extra,docs)
	@touch $@

onnx-tools: $(VENV)/.installed
	@$(PIP) --quiet $(call extra,onnx)

docs: $(VENV)/.docs-tools
	$(PY) -m sphinx -W --keep-going --quiet -b html -d build/docs/doctrees docs build/docs/html
	@echo "torch_hrr: the site is build/docs/html/index.html"

clean:
	rm -rf $(VENV)/.installed $(VENV)/.test-tools $(VENV)/.docs-tools build docs/gallery docs/project docs/reference docs/start dist torch_hrr/lib torch_hrr/include torch_hrr/share *.egg-info
