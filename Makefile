# make         everything installed in .venv: the package with all extras
# make demo    the main job at small scale, in minutes
# make test    the quick tests of the core;  make test-extras  those of Flower, Sionna, ONNX, service, proofs
# make test-all  all tests, the slow ones too
# make test-portable  the numeric tests without and with AVX2, on one and on two threads
# make coverage  all quick tests, and how much of every package they run
# make lint    style, types and the direction of imports
# make numbers  tables and numbers in the pages from the results in docs/results
# make site    the documentation as a site, in site;  make notebooks  the notebooks from their scripts
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CORE := $(VENV)/installed
ALL := $(VENV)/installed-with-extras
INSTALL = $(BIN)/pip install --quiet --no-compile --constraint constraints.txt --editable
COG := $(BIN)/cog -P -I docs
PAGES := README.md $(wildcard docs/*.md docs/*/*.md)
PYTEST := $(BIN)/pytest -n auto --dist loadfile --no-loadscope-reorder
# What needs the extras: packages, and further tests.
EXTRAS := $(wildcard $(foreach name,export flower proofs serving,tests/$(name) src/feduplink/$(name))) \
    src/feduplink/channels/sionna.py src/feduplink/workflows/exporting.py \
    tests/channels/test_sionna.py tests/link/test_bler.py \
    tests/cli/test_check.py tests/cli/test_export.py \
    tests/cli/test_serve.py tests/docs/test_flower_page.py tests/docs/test_site.py
# Tests whose outcome must not depend on the order of floating-point operations.
NUMERIC := $(wildcard $(addprefix tests/,channels lagrangian link optimum policies proofs scheduling training))
# Only what is used is compiled to bytecode, when it is first used, and kept.
export PYTHONDONTWRITEBYTECODE =

.PHONY: all install install-all demo test test-extras test-all test-portable coverage lint numbers site notebooks clean

all: install-all

install: $(CORE)

install-all: $(ALL)

$(CORE): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) '.[test]'
	touch $@

$(ALL): $(CORE)
	$(INSTALL) '.[dev]'
	touch $@

demo: $(CORE)
	$(BIN)/feduplink demo --out runs/demo

test: $(CORE)
	$(PYTEST) $(addprefix --ignore=,$(EXTRAS))

test-extras: $(ALL)
	$(PYTEST) $(EXTRAS)

test-all: $(ALL)
	$(PYTEST) -m 'slow or not slow'

test-portable: $(ALL)
	for instructions in default avx2; do for threads in 1 2; do \
	    ATEN_CPU_CAPABILITY=$$instructions OMP_NUM_THREADS=$$threads $(PYTEST) $(NUMERIC) || exit 1; \
	done; done

coverage: $(ALL)
	$(PYTEST) --cov --cov-report=
	$(BIN)/python .ci/coverage_by_package.py

lint: $(ALL)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(COG) --check --diff $(PAGES)

numbers: $(ALL)
	$(COG) -r $(PAGES)

site: $(ALL)
	$(BIN)/mkdocs build --strict

notebooks: $(ALL)
	$(BIN)/jupytext --to ipynb notebooks/*.py

clean:
	rm -rf $(VENV) dist build runs site .pytest_cache .mypy_cache .ruff_cache .hypothesis .schemathesis .coverage
	find src tests -name __pycache__ -prune -exec rm -rf {} +
