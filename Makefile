# make demo: from a fresh clone to a result. make test: every test. Both keep to .venv, build and ignored folders.
PYTHON ?= python3
VENV ?= .venv
TORCH ?= torch>=2.11,<2.16
PY := $(VENV)/bin/python
export TORCH_CUDA_ARCH_LIST ?= 8.0;9.0+PTX
# One build tree for the package and for the C++ suites.
BUILD ?= build/make$(VENV)
export TORCH_HRR_BUILD_DIR := $(abspath $(BUILD))
JOBS ?= $(shell nproc)

.PHONY: demo test test-all test-cpp test-python lint bench install clean tools

tools:
	@command -v $(PYTHON) > /dev/null || { echo "torch_hrr: python3 (3.11 or later) was not found: apt-get install python3 python3-venv" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "torch_hrr: Python 3.11 or later is needed (make PYTHON=...)" >&2; exit 1; }
	@command -v c++ > /dev/null || { echo "torch_hrr: a C++20 compiler was not found: apt-get install g++" >&2; exit 1; }
	@command -v cmake > /dev/null || { echo "torch_hrr: cmake was not found: apt-get install cmake" >&2; exit 1; }
	@command -v ninja > /dev/null || { echo "torch_hrr: ninja was not found: apt-get install ninja-build" >&2; exit 1; }

$(VENV)/.torch: | tools
	$(PYTHON) -m venv $(VENV)
	$(PY) -m pip install --quiet "setuptools>=77" wheel "$(TORCH)" numpy
	@touch $@

# Everything that the library is built from, so that an edit is seen by the next demo or test.
SOURCES := $(shell git ls-files 'kernels/*' 'csrc/*' 'cmake/*' 2> /dev/null) CMakeLists.txt setup.py pyproject.toml

$(VENV)/.installed: $(VENV)/.torch $(SOURCES)
	$(PY) -m pip install --quiet --no-build-isolation --editable ".[plot,examples-demo]"
	@touch $@

$(VENV)/.test-tools: $(VENV)/.installed
	$(PY) -m pip install --quiet --no-build-isolation --editable ".[test,lint]"
	@touch $@

install: $(VENV)/.installed

demo: $(VENV)/.installed
	$(PY) -m torch_hrr demo

test: lint test-cpp test-python

test-cpp: $(VENV)/.test-tools
	cmake -S . -B $(BUILD) -DTORCH_HRR_TESTS=ON $(CMAKE_ARGS)
	cmake --build $(BUILD) --parallel $(JOBS)
	ctest --test-dir $(BUILD) --output-on-failure --parallel $(JOBS)

test-python: $(VENV)/.test-tools
	$(PY) -m pytest -n $(JOBS) --dist worksteal $(PYTEST_ARGS)

lint: $(VENV)/.test-tools
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	git ls-files '*.h' '*.cpp' '*.cuh' '*.cu' | xargs $(VENV)/bin/clang-format --dry-run -Werror

# The second torch, and the kernels under sanitizers.
test-all: test
	$(MAKE) test-python VENV=.venv-torch-2.11 "TORCH=torch==2.11.*"
	cmake -G Ninja -S . -B build/sanitize -DTORCH_HRR_TESTS=ON -DTORCH_HRR_CUDA=0 -DTORCH_HRR_SANITIZE=address,undefined \
	  "-DTORCH_HRR_TORCH_ROOT=$$($(PY) -c 'import torch; print(torch.__path__[0])')"
	cmake --build build/sanitize --target kernel_tests --parallel $(JOBS)
	ctest --test-dir build/sanitize --output-on-failure -R '^(scalar|avx2|avx512)\.'

bench: $(VENV)/.installed
	$(PY) bench/run.py hrr

clean:
	rm -rf build dist torch_hrr/lib torch_hrr/include torch_hrr/share *.egg-info
