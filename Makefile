# Everything a fresh clone needs: each target makes its own environment under .venv (Python's venv and pip).

PYTHON ?= python3
BIN := .venv/bin
# Chosen by version where it is used, and what vermin mistakes bytes.decode for.
EXCLUDED := compression compression.zstd str.decode 'str.decode(errors)'
# Tests start hundreds of processes, each of which would compile the package again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test test-all lint bench bench-why clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

demo: .venv/core  ## two small trainings recorded, followed, compared, and their page
	$(BIN)/gputel demo

test: .venv/dev  ## the tests, without the long ones, on all cores
	$(BIN)/pytest -q -n auto --dist loadgroup -m "not long"

test-all: .venv/dev  ## every test, on all cores: kill rounds, fuzz and soak too
	$(BIN)/pytest -q -n auto --dist loadgroup

lint: .venv/dev  ## ruff, mypy, import rules, oldest Python
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy -p gputel -p tests
	MYPYPATH=benchmarks $(BIN)/mypy --explicit-package-bases --exclude /plain/ benchmarks
	$(BIN)/lint-imports
	$(BIN)/vermin -q --no-tips --target=3.10- $(EXCLUDED:%=--exclude %) --violations gputel/cli telemetry analysis trainer

bench: .venv/dev  ## the measurements, each beside what users would pick instead
	for script in benchmarks/*.py; do $(BIN)/python $$script || exit 1; done

bench-why: .venv/dev  ## who holds up a training, and why it is slow: planted hangs and slow steps, as root
	$(BIN)/python benchmarks/why.py
	$(BIN)/python benchmarks/slow_steps.py

clean:  ## the environment and what tools left behind
	rm -rf .venv build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis

.venv/core: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/pip install -q -e .
	@touch $@

.venv/dev: .venv/core
	$(BIN)/pip install -q -e '.[dev]'
	@touch $@
