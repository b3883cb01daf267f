# Every target does its own set-up: it needs Python >= 3.11 with venv, make, and (for a package without a wheel) a compiler.
#   make demo       restore a damaged photograph with a solver that iterates inside one launch
#   make test       most tests, as .ci/run has them: cpu and compile-only CUDA, then the simulator; without THOROUGH below.
#                   TESTS=tests/nodes for fewer
#   make test-all   all tests but RARE below, as .github/workflows/ci.yml has them
#   make test-rare  those, which a scheduled run has
#   make test-gpu   the same tests on the GPU of this machine
#   make sanitize   tests/gpu under compute-sanitizer: memcheck, then racecheck, synccheck and initcheck
#   make fuzz       random programs against plain Python for SECONDS=600 on BACKEND=cpu (or sim, cuda), with JOBS=1 processes;
#                   FUZZ=--arrays for programs of whole arrays
#   make soak       10^6 replays, 10^4 arguments and kernels: what memory they leave; ARGS=--kernels=300 for fewer (tests/soak.py)
#   make faults     every call of the driver fails once, and once for good; without a GPU a driver in plain Python (tests/faults.py)
#   make manifest   whether plans and generated code are those of tests/manifest/manifest.txt (minutes); ARGS=--update writes it
#   make docs       build the documentation site into out/site; a warning is an error. Its programs run in make test
#   make bench      measure, and write benchmarks/results/
#   make lint       ruff and strict mypy
# PYTHON=/path/to/python uses that interpreter as it is: nothing is installed. CUDA=cu12 picks the toolkit for older drivers.

SHELL := /bin/bash
comma := ,
VENV := .venv
OUT ?= benchmarks/results

# An interpreter that is new enough, to make the virtual environment with.
BASE := $(shell for p in python3 python3.13 python3.12 python3.11 python3.14 python; do \
	$$p -c 'import sys; raise SystemExit(not sys.version_info >= (3, 11))' 2>/dev/null && { echo $$p; break; }; done)
CUDA ?= $(if $(shell nvidia-smi 2>/dev/null | grep 'CUDA Version: 12'),cu12,cu13)
LINUX := $(filter Linux,$(shell uname -s))
GPU := $(wildcard /dev/nvidiactl /dev/dxg)

# The suite compiles to PTX and links on machines without a GPU too; the demo and the benchmarks need that only with one.
DEV_EXTRAS := dev,demo$(if $(LINUX),$(if $(CUDA),$(comma)$(CUDA)))

# Not one from the environment: that would be an accident.
ifeq ($(origin PYTHON),command line)
PATHS := PYTHONPATH=$(CURDIR)$${PYTHONPATH:+:$$PYTHONPATH}
INTERPRETER := $(PYTHON)
READY_DEV :=
READY_DEMO :=
READY_DOCS :=
else
PATHS :=
INTERPRETER := $(VENV)/bin/python
READY_DEV := $(VENV)/installed-dev
READY_DEMO := $(VENV)/installed-demo
READY_DOCS := $(VENV)/installed-docs
endif

PY := $(PATHS) $(INTERPRETER)

.PHONY: demo test test-all test-rare test-gpu sanitize fuzz soak faults manifest docs bench lint format clean

demo: $(READY_DEMO)
	$(PY) -m examples.inpaint

# What takes long and rarely fails alone: lengths of code, forks, random programs and nests, whole benchmarks, every number type,
# options that are off by default, planted faults, words and programs of whole arrays, and parameters of other tests that are
# marked as thorough.
THOROUGH := $(addprefix tests/,lowering/test_long_code.py features/test_long_code.py runtime/test_forks.py test_benchmarks.py \
	dependence/test_brute.py lowering/test_specialisations.py properties manifest runtime/executors/test_unrolled.py \
	runtime/executors/test_host_loop.py examples lowering/test_missing_toolkit.py features/test_number_types.py \
	features/test_compiled_in.py features/test_lanes.py features/test_either.py features/test_array_selections.py \
	features/test_array_programs.py features/test_binning.py \
	features/test_numpy_programs.py features/test_new_arrays.py features/test_vectors.py features/test_random.py \
	features/test_raising.py agreement check/test_planted_faults.py test_faults.py \
	features/test_matrices_in_loops.py features/test_one_block.py \
	features/test_fusion.py features/test_bounds.py features/test_unique.py features/test_library_calls.py \
	lowering/codegen/test_consumer_model.py lowering/codegen/test_single_block_codegen.py runtime/test_interrupts.py)
# Of those, what random search, sheer length and every combination of kinds find, once a week.
RARE := $(addprefix tests/,dependence/test_brute.py features/test_long_code.py features/test_compiled_in.py properties/test_edges.py \
	features/test_lanes.py features/test_either.py features/test_number_types.py)
WITHOUT := -m 'not thorough' $(addprefix --ignore=,$(THOROUGH))
COMMON := $(addprefix --ignore=,$(RARE))

# Examples and random programs run as users compile them; a quarter of the time of the rest would be LLVM's optimisation of it.
# OPT=3 optimises everything.
OPT := 0
PYTEST = -m pytest -q -n auto --dist worksteal
# Several test processes share the cores: a thread that waits for others sleeps instead of spinning.
ON_CPU := env -u QGRAPH_BACKEND OMP_WAIT_POLICY=passive
# Of a test with many parameters the simulator takes so many sets, where the CPU takes all; `make test-all` has all on both.
PARAMETERS := 3
# Numba's simulator is chosen before numba is first imported, so it has a process of its own.
ON_SIM := QGRAPH_BACKEND=sim

TESTS := tests
# Of those, what the simulator runs.
SIMULATED = $(if $(filter tests,$(TESTS)),tests/features $(IN_BLOCKS),$(filter tests/features%,$(TESTS)))
# What CUDA alone has in tiles: other tests of tests/lowering ask what is compiled.
IN_BLOCKS := $(addprefix tests/lowering/loops/,test_tiles_in_blocks.py test_streamed_tiles.py)

test: $(READY_DEV)
	$(ON_CPU) NUMBA_OPT=$(OPT) $(PY) $(PYTEST) $(TESTS) --ignore=tests/gpu $(WITHOUT)
	$(if $(SIMULATED),$(ON_SIM) $(PY) $(PYTEST) $(SIMULATED) $(WITHOUT) --parameters=$(PARAMETERS))

test-all: $(READY_DEV)
	$(ON_CPU) $(PY) $(PYTEST) tests/examples tests/properties $(COMMON)
	$(ON_CPU) NUMBA_OPT=$(OPT) $(PY) $(PYTEST) tests --ignore=tests/gpu --ignore=tests/examples --ignore=tests/properties $(COMMON)
	$(ON_SIM) $(PY) $(PYTEST) tests/features tests/lowering/loops tests/agreement tests/examples tests/properties $(COMMON)

test-rare: $(READY_DEV)
	$(ON_CPU) NUMBA_OPT=$(OPT) $(PY) $(PYTEST) $(RARE)
	$(ON_SIM) $(PY) $(PYTEST) $(filter tests/features% tests/properties%,$(RARE))

test-gpu: $(READY_DEV)
	$(ON_CPU) $(PY) -m pytest -q tests/features tests/examples tests/gpu tests/properties

# memcheck (of CUDA 13.0) itself loses the context where a graph with a while node of two kernels is launched while earlier
# launches of it run, `tests/gpu/while_nodes 1 1 1 apart 24 1` for one, which is right without the tool. So under it one launch
# waits for the other in tests of many; and one process runs at a time.
# racecheck (of CUDA 13.0) stops with "failure to track a kernel launch" and a segmentation fault in some tests whose while nodes
# launch reductions, and it is not known why; the host drives the loops of those that it sees here, with the same kernels. It
# "fails to track a kernel launch", too, where threads launch at once. Loops by hand share no memory, and take minutes under it.
# synccheck (of CUDA 13.0) calls the threads of a warp diverged at any barrier of a kernel in a while node beside another one, as in
# `tests/gpu/while_nodes 1 1 1 apart 1 1`, whose barrier is the first statement of its kernel; initcheck loses the context there.
SANITIZE = env -u QGRAPH_BACKEND $(PATHS) compute-sanitizer --report-api-errors no --error-exitcode 9 --tool
SANITIZED := -m pytest -q tests/gpu -m 'not unsanitized'
NO_WHILE_NODES := (host or stream) and not device and not interrupts and not streams and not threads and not by_hand and not copied
sanitize: $(READY_DEV)
	$(SANITIZE) memcheck $(INTERPRETER) $(SANITIZED)
	for tool in racecheck synccheck initcheck; do $(SANITIZE) $$tool $(INTERPRETER) $(SANITIZED) -k '$(NO_WHILE_NODES)' || exit 1; done

SECONDS := 600
BACKEND := cpu
JOBS := 1
fuzz: $(READY_DEV)
	env -u QGRAPH_BACKEND $(PY) -m tests.properties.fuzz --backend $(BACKEND) --seconds $(SECONDS) --jobs $(JOBS) $(FUZZ)

soak: $(READY_DEV)
	$(ON_CPU) QGRAPH_CACHE=0 $(PY) -m tests.soak $(ARGS)

faults: $(READY_DEV)
	$(ON_CPU) QGRAPH_CACHE=0 $(PY) -m tests.faults $(ARGS)

manifest: $(READY_DEV)
	$(PY) -m tests.manifest $(ARGS)

# The variable keeps Material for MkDocs from announcing what MkDocs 2 will be.
docs: $(READY_DOCS)
	NO_MKDOCS_2_WARNING=1 $(PY) -m mkdocs build --strict

bench: $(READY_DEV)
	$(PY) -m benchmarks.run --out $(OUT)

lint: $(READY_DEV)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy

format: $(READY_DEV)
	$(PY) -m ruff check --fix .
	$(PY) -m ruff format .

$(VENV)/bin/python:
	@test -n '$(BASE)' || { echo 'qgraph needs Python 3.11 or newer, and found none on the PATH'; exit 1; }
	$(BASE) -m venv $(VENV) || { echo 'no venv module: on Debian and Ubuntu, install python3-venv'; exit 1; }

$(VENV)/installed-dev: pyproject.toml | $(VENV)/bin/python
	$(VENV)/bin/python -m pip install -q -e '.[$(DEV_EXTRAS)]'
	touch $@

$(VENV)/installed-demo: pyproject.toml | $(VENV)/bin/python
	$(VENV)/bin/python -m pip install -q -e '.[demo$(if $(GPU),$(comma)$(CUDA))]'
	touch $@

$(VENV)/installed-docs: pyproject.toml | $(VENV)/bin/python
	$(VENV)/bin/python -m pip install -q -e '.[docs]'
	touch $@

clean:
	rm -rf $(VENV) build dist out .pytest_cache .mypy_cache .ruff_cache .hypothesis
