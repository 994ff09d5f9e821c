# Works on a machine with python3 (3.11 or newer), make and a package index: everything lives in .venv.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
ARGS ?=

.PHONY: quickstart test lint bench conformance docs docs-check stubs wheel clean help

help:
	@echo "make quickstart   set up, train six encodings on text and on sorting, write report.html (5 minutes on 2 cores)"
	@echo "make test         set up, run all tests"
	@echo "make lint         style, types, the direction of imports"
	@echo "make bench        speed against peers, in the same run"
	@echo "make conformance  hold every encoding to the contract, compilation and export too, with times"
	@echo "make docs         write the pages of docs/encodings and docs/agreement.md from the registry"
	@echo "make docs-check   run what README and docs show"
	@echo "make stubs        write the list of encodings for type checkers"
	@echo "make clean        remove what was built; runs/ and report.html stay"

quickstart: .venv/lab
	$(BIN)/lengthwise compare $(ARGS)

# One process a core; what a file prepares for its tests is prepared once. In the order of the files: sorted by their
# number of tests, the longest ones, which have one each, would come last and leave a core idle.
test: .venv/dev
	$(BIN)/python -m pytest --numprocesses auto --dist loadfile --no-loadscope-reorder $(ARGS)

lint: .venv/dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check --quiet .
	$(BIN)/basedpyright
	$(BIN)/lint-imports --no-cache
	$(BIN)/python tools/write_stubs.py --check

bench: .venv/dev
	@set -e; for script in benchmarks/*.py; do echo "== $$script"; $(BIN)/python $$script; done

conformance: .venv/dev
	$(BIN)/python -m lengthwise.testing $(ARGS)
	$(BIN)/python -m pytest -m slow

docs: .venv/dev
	$(BIN)/python tools/write_docs.py

docs-check: .venv/dev
	$(BIN)/python -m pytest tests/test_docs.py tests/test_examples.py $(ARGS)

stubs: .venv/dev
	$(BIN)/python tools/write_stubs.py

wheel: .venv/dev
	$(PIP) wheel --no-deps --wheel-dir dist .

clean:
	rm -rf build dist src/*.egg-info .pytest_cache .ruff_cache .hypothesis .benchmarks .import_linter_cache
	find src tests tools benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} +

# PyTorch first and pinned: left to a dependency, pip would fetch a CUDA build of several GB.
.venv/torch: constraints.txt
	$(PYTHON) -c "import sys; sys.exit(sys.version_info < (3, 11) and 'lengthwise needs Python 3.11 or newer: make PYTHON=python3.11')"
	$(PYTHON) -m venv .venv
	$(PIP) install --constraint constraints.txt "$$(grep '^torch==' constraints.txt)" setuptools
	@touch $@

.venv/lab: .venv/torch pyproject.toml
	$(PIP) install --constraint constraints.txt --no-build-isolation --editable '.[lab]'
	@touch $@

.venv/dev: .venv/lab
	$(PIP) install --constraint constraints.txt --no-build-isolation --editable '.[dev]'
	@touch $@
