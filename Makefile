# Every target installs what it needs into .venv; nothing is installed elsewhere except by `services` as root.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
T ?= tests
WORKERS ?= 2

.PHONY: check test format clean bench-scan
$(VENV)/.dev: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --editable '.[dev,bench]'
	touch $@

check: $(VENV)/.dev
	$(BIN)/ruff format --check src tests
	$(BIN)/ruff check src tests
	$(BIN)/mypy
	$(BIN)/lint-imports

test: $(VENV)/.dev
	$(BIN)/pytest -n $(WORKERS) --durations=10 $(T)

format: $(VENV)/.dev
	$(BIN)/ruff format src tests
	$(BIN)/ruff check --fix src tests

clean:
	rm -rf $(VENV) build dist

# MB, ENGINE: size of each log, and one engine instead of the fastest
bench-scan: $(VENV)/.dev
	$(BIN)/runward bench scan --mb $(or $(MB),20) $(if $(ENGINE),--engine $(ENGINE))
