# Everything runs in a private environment; `make demo` and `make test` need only Python, git and make.
VENV ?= .venv
PYTHON ?= python3
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: help setup demo test lint types unit clean

help:
	@echo "make demo   build the example model, show the artifact, run its validate.py"
	@echo "make test   ruff, mypy --strict and pytest"
	@echo "make setup  only create $(VENV)"
	@echo "make clean  remove $(VENV) and caches"

setup: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[all]'
	@touch $@

demo: $(STAMP)
	@PATH="$(abspath $(BIN)):$$PATH" sh examples/simple_cnn/demo.sh

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(STAMP)
	$(BIN)/mypy --strict
	$(BIN)/mypy --strict templates/validate.py
	MYPYPATH=templates $(BIN)/mypy --strict templates/bench.py
	$(BIN)/mypy benchmarks/*.py

unit: $(STAMP)
	$(BIN)/python -m pytest

test: lint types unit

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache dist
