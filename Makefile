# make demo    the main job at small scale, in minutes
# make test    the quick tests;  make test-all  the slow ones too
# make coverage  the quick tests, and how much of every package they run
# make lint    style, types and the direction of imports
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/installed
# Only what is used is compiled to bytecode, when it is first used, and kept.
export PYTHONDONTWRITEBYTECODE =

.PHONY: install demo test test-all coverage lint clean

install: $(READY)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --no-compile --constraint constraints.txt --editable '.[dev]'
	touch $@

demo: $(READY)
	$(BIN)/feduplink demo --out runs/demo

test: $(READY)
	$(BIN)/pytest -n auto --dist loadfile --no-loadscope-reorder

test-all: $(READY)
	$(BIN)/pytest -n auto --dist loadfile --no-loadscope-reorder -m 'slow or not slow'

coverage: $(READY)
	$(BIN)/pytest -n auto --dist loadfile --no-loadscope-reorder --cov --cov-report=
	$(BIN)/python .ci/coverage_by_package.py

lint: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

clean:
	rm -rf $(VENV) dist build runs .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage
	find src tests -name __pycache__ -prune -exec rm -rf {} +
