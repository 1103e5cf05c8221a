# Two commands do all on a fresh Debian 12: `make demo` and `make test`. Python packages go into virtual environments
# below this folder; Debian packages that tests with real parts need are installed only as root.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
WORKERS ?= 2
SECONDS_EACH ?= 120
# What to test: `core` is what needs no services, no root and no PyTorch.
T ?= tests
core := tests/app tests/checkpoint_readers tests/config tests/core tests/notify tests/scan tests/store tests/ui
TESTS = $(if $(filter core,$(T)),$(core),$(T))

.PHONY: demo test check format services environments chaos fuzz bench bench-scan fresh-root clean

$(BIN)/pip:
	PYTHON=$(PYTHON) tools/make-venv $(VENV)

$(VENV)/.core: pyproject.toml | $(BIN)/pip
	$(BIN)/pip install --quiet --editable .
	@touch $@

$(VENV)/.dev: pyproject.toml | $(BIN)/pip
	$(BIN)/pip install --quiet --editable '.[dev,bench]'
	@touch $@ $(VENV)/.core

demo: $(VENV)/.core
	tools/demo

test: $(VENV)/.dev $(if $(filter core,$(T)),,services environments)
	$(BIN)/pytest -n $(WORKERS) --dist loadgroup --durations=10 $(TESTS)

check: $(VENV)/.dev
	$(BIN)/ruff format --check src tests tools
	$(BIN)/ruff check src tests tools
	$(BIN)/mypy
	$(BIN)/mypy --config-file tools/mypy.ini
	$(BIN)/lint-imports

services:
	tools/install-services

# PyTorch and Ray for the tests that need them: in CI, or when asked for with TORCH=1, RAY=1.
environments: $(if $(or $(CI),$(TORCH)),.venv-torch/.done) $(if $(or $(CI),$(RAY)),.venv-ray/.done)

.venv-torch/.done:
	PYTHON=$(PYTHON) tools/make-venv .venv-torch
	.venv-torch/bin/pip install --quiet torch==2.13.0 numpy safetensors
	@touch $@

.venv-ray/.done:
	PYTHON=$(PYTHON) tools/make-venv .venv-ray
	.venv-ray/bin/pip install --quiet 'ray[default,train]'
	@touch $@

# Random kills, seeded: SEED=1 KILLS=1000
chaos: $(VENV)/.dev
	$(BIN)/python tools/chaos.py --seconds $(SECONDS_EACH) $(if $(SEED),--seed $(SEED)) $(if $(KILLS),--kills $(KILLS))

fuzz: $(VENV)/.dev
	$(BIN)/pip install --quiet --editable '.[fuzz]' || echo "no atheris for this Python: by mutation only"
	$(BIN)/python tools/fuzz.py --seconds $(SECONDS_EACH)

bench: $(VENV)/.dev
	$(BIN)/python tools/bench --seconds $(SECONDS_EACH)

# MB, ENGINE: size of each log, and one engine instead of the fastest
bench-scan: $(VENV)/.dev
	$(BIN)/runward bench scan --mb $(or $(MB),20) $(if $(ENGINE),--engine $(ENGINE))

# Root, debootstrap: the two commands in a clean Debian 12
fresh-root:
	tools/fresh-root

format: $(VENV)/.dev
	$(BIN)/ruff format src tests tools
	$(BIN)/ruff check --fix src tests tools

clean:
	rm -rf $(VENV) .venv-torch .venv-ray build dist
