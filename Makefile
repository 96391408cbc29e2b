# Every target creates the environment it needs: `make test` works on a fresh clone with Python ≥ 3.11.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
STUDY_INSTALLED := $(VENV)/.installed-study
DOCS_INSTALLED := $(VENV)/.installed-docs
PIP := $(BIN)/python -m pip install --quiet --editable
WHEEL_DIR := build/wheel
WHEEL_VENV := build/wheel-venv
BENCHMARKS := training time_to_quality growth using
STUDY := build/study$(if $(DATA),-$(DATA))

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help install study test lint types imports pytest wheel docs newcomer soak bench format clean

help:  ## Show this list
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-9s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

install: $(INSTALLED)  ## Create .venv with the package (editable) and the tools for the checks

$(INSTALLED): pyproject.toml | $(BIN)
	$(PIP) ".[test]"
	@touch $@ $(STUDY_INSTALLED) $(DOCS_INSTALLED)

$(STUDY_INSTALLED): pyproject.toml | $(BIN)
	$(PIP) ".[study]"
	@touch $@

$(DOCS_INSTALLED): pyproject.toml | $(BIN)
	$(PIP) ".[docs,official,study]"
	@touch $@

$(BIN):
	@$(PYTHON) -c 'import sys; sys.exit(None if sys.version_info >= (3, 11) else "elmo needs Python 3.11 or newer, this is " + sys.version.split()[0] + "; run: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)

study: $(STUDY_INSTALLED)  ## Run the study on generated texts in minutes, or on AG News: make study DATA=ag_news
	$(BIN)/elmo study $(DATA) --out $(STUDY) $(STUDY_FLAGS)

test: lint types imports pytest wheel docs  ## Run all checks, as CI does

lint: $(INSTALLED)  ## Check style and formatting (ruff)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(INSTALLED)  ## Check types (pyright, strict)
	$(BIN)/pyright --pythonpath $(BIN)/python

imports: $(INSTALLED)  ## Check that imports point one way (import-linter)
	$(BIN)/lint-imports

# All tests of a file run in one process: their fixtures take longer than the tests.
pytest: $(INSTALLED)  ## Run the tests, one process per core
	$(BIN)/python -m pytest --numprocesses auto --dist loadfile

# --no-compile halves the time: only imported modules are compiled.
wheel: $(INSTALLED)  ## Build the wheel, install it in a clean environment, import every module
	rm -rf $(WHEEL_DIR) $(WHEEL_VENV)
	$(BIN)/python -m build --wheel --no-isolation --outdir $(WHEEL_DIR) . > /dev/null
	$(PYTHON) -m venv $(WHEEL_VENV)
	$(WHEEL_VENV)/bin/python -m pip install --quiet --no-compile $(WHEEL_DIR)/*.whl
	$(WHEEL_VENV)/bin/python -I tests/check_wheel.py src

# Notebooks are executed while the pages are built; a warning is an error.
docs: $(DOCS_INSTALLED)  ## Build the documentation into build/docs
	$(BIN)/python -m sphinx --quiet --jobs auto -W --keep-going -b html docs build/docs

newcomer:  ## Play the newcomer: wheel, fresh environment, each block of the README, each example
	tests/newcomer.sh

soak: $(INSTALLED)  ## Run the long tests: kills, lost machines, damaged files, many clients
	ELMO_SOAK=1 $(BIN)/python -m pytest tests/faults tests/serve

# BENCH_FLAGS is passed to all benchmarks, such as "--repeats 1 --seconds 2 --anyway" for a rehearsal;
# flags of one benchmark have their own variable, such as time_to_quality_flags="--plain-seconds 60".
bench: $(INSTALLED)  ## Measure speed and memory on an idle machine (hours) and write docs/performance.md
	$(foreach one,$(BENCHMARKS),$(BIN)/python benchmarks/$(one).py $(BENCH_FLAGS) $($(one)_flags) &&) \
	$(BIN)/python benchmarks/performance_page.py

format: $(INSTALLED)  ## Fix what ruff can fix
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:  ## Remove everything that make created
	rm -rf $(VENV) build dist .pytest_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests benchmarks -name __pycache__ -type d -prune -exec rm -rf {} +
