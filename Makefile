# Two commands from nothing: `make demo` and `make test`. They need Python 3.11 or newer with venv and pip, git and make;
# everything else goes into .venv, pinned and hashed: for `make demo` only what herdbeat itself needs
# (requirements-run.lock), for the other targets the tools too (requirements.lock). Only
# `make test-system` writes outside of the checkout, and says what.

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
RUN    := $(VENV)/.run
READY  := $(VENV)/.ready
SYSTEM := $(VENV)/.system
# Twice the cores: half of the time of the tests is waiting, for real nodes and their seconds.
WORKERS ?= $(shell echo $$((2 * $$(getconf _NPROCESSORS_ONLN))))
export PATH := $(CURDIR)/$(BIN):$(PATH)
export UV_CACHE_DIR := $(CURDIR)/$(VENV)/.uv-cache
export PIP_CACHE_DIR := $(CURDIR)/$(VENV)/.pip-cache
# Every process that a test starts would compile herdbeat again.
export PYTHONPYCACHEPREFIX :=
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help demo test test-system suite coverage soak check format lint types docs reference bench dist lock clean

help:  ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-11s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(RUN)  ## set up what running needs, then show what herdbeat can do
	@bash demo/run

test: $(READY) check suite  ## set everything up, then every check and every test

suite: $(READY)  ## every test that needs no other programs, without the checks
	@echo "── tests (real agent CLIs, bubblewrap, Ray and a browser: make test-system)"
	@$(BIN)/pytest -n $(WORKERS) --dist worksteal

# Needs root or sudo for Debian packages that are missing, and about 1.4 GB in $XDG_CACHE_HOME/herdbeat-tests for the
# agent CLIs and Ray, both once. TESTS="tests/system -k claude" runs some of them.
TESTS ?= tests/system
test-system: $(SYSTEM)  ## real agent CLIs, bubblewrap, Ray and a browser, on loopback; installs them
	@echo "── system tests: what they need"
	@$(BIN)/python -m tests.system.install
	@echo "── system tests"
	@$(BIN)/python -m tests.system.loopback_only $(BIN)/pytest -n $(WORKERS) --dist worksteal \
	    -o faulthandler_timeout=1500 --basetemp=.system/tmp $(TESTS)

# Not part of `make test`: measuring branches makes the tests of pure code 40 to 80 % slower.
coverage: $(READY)  ## every test, and fail if they reach too little of the code
	@echo "── coverage"
	@$(BIN)/pytest -n $(WORKERS) --dist worksteal --cov --cov-report=term

# One more than the cores: storms mostly wait, for leases and for programs that sleep.
SOAK_WORKERS ?= $(shell echo $$((1 + $$(getconf _NPROCESSORS_ONLN))))
soak: $(READY)  ## the long versions of the fault tests: storms of kills, deep state machines
	@echo "── soak"
	@$(BIN)/pytest -n $(SOAK_WORKERS) --dist worksteal -m soak -o faulthandler_timeout=2700 tests/soak

check: $(READY) lint types docs  ## format, lint, types, docs: what must be clean in every commit

lint: $(READY)
	@echo "── format and lint"
	@$(BIN)/ruff format --check --quiet . || { echo "run: make format"; exit 1; }
	@$(BIN)/ruff check --quiet .

types: $(READY)
	@echo "── types"
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/mypy --no-error-summary --platform darwin src  # what only Linux has is an unknown name there

docs: $(READY)  ## build the docs site, strictly, into site/
	@echo "── docs"
	@$(BIN)/zensical build --strict > $(VENV)/docs.log 2>&1 || { cat $(VENV)/docs.log; exit 1; }

reference: $(READY)  ## write the generated pages and the outputs of the examples anew
	@$(BIN)/python -m scripts.reference
	@$(BIN)/python -m scripts.examples --write

format: $(READY)  ## put the code into its format
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/ruff format .

bench: $(READY)  ## measure against peers, as ratios in one run
	@$(BIN)/python -m bench

# Built with the hatchling of the lock, so that no builder is fetched outside of it.
dist: $(READY)  ## build the sdist and the wheel into dist/; with TAG=v0.1.0, check first that it names this version
	@echo "── dist"
	@test -z "$(TAG)" || $(BIN)/python -m scripts.release "$(TAG)"
	@rm -rf dist
	@$(BIN)/uv build --quiet --no-build-isolation --python $(BIN)/python --out-dir dist

lock: $(READY)  ## freeze the newest versions that fit pyproject.toml into the locks
	@$(BIN)/uv lock --quiet --upgrade
	@$(BIN)/uv export --quiet --format requirements-txt --no-emit-project --group dev --no-annotate --no-header \
	    --output-file requirements.lock
	@$(BIN)/uv export --quiet --format requirements-txt --no-emit-project --no-dev --group build --no-annotate \
	    --no-header --output-file requirements-run.lock
	@$(BIN)/uv export --quiet --format requirements-txt --no-emit-project --only-group system --no-annotate \
	    --no-header --output-file requirements-system.lock
	@rm -f uv.lock
	@$(BIN)/uv pip compile --quiet --upgrade --generate-hashes --universal --python-version 3.11 --no-annotate \
	    --no-header tests/system/ray/requirements.in --output-file tests/system/ray/requirements.lock

clean:  ## remove everything make has made
	@rm -rf $(VENV) .demo .system site dist .mypy_cache .pytest_cache .ruff_cache .hypothesis .coverage

# The locks are the only source of versions: each package is checked against its hash.
# The installed metadata states the version, so a new version in __init__.py installs the checkout again.
$(RUN): requirements-run.lock pyproject.toml src/herdbeat/__init__.py | $(BIN)/python
	@echo "── setting up $(VENV) (once; a few seconds)"
	@$(BIN)/python -m pip install --quiet --require-hashes --only-binary :all: -r requirements-run.lock
	@$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	@touch $@

# First uv by pip, then the rest by uv. It includes what running needs.
$(READY): requirements.lock pyproject.toml src/herdbeat/__init__.py | $(BIN)/python
	@echo "── setting up $(VENV) with the tools (once; about a minute)"
	@awk '/^uv==/ { on = 1 } on { print } on && !/\\$$/ { exit }' requirements.lock > $(VENV)/uv.txt
	@$(BIN)/python -m pip install --quiet --require-hashes --only-binary :all: -r $(VENV)/uv.txt
	@$(BIN)/uv pip sync --quiet --require-hashes requirements.lock
	@$(BIN)/uv pip install --quiet --no-deps --no-build-isolation -e .
	@touch $(RUN) $@

$(SYSTEM): $(READY) requirements-system.lock
	@$(BIN)/uv pip install --quiet --require-hashes -r requirements-system.lock
	@touch $@

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	    || { echo "herdbeat needs Python 3.11 or newer; say which: make PYTHON=python3.11 $(MAKECMDGOALS)"; exit 1; }
	@$(PYTHON) -m venv $(VENV)
