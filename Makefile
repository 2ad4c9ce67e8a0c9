SHELL := /bin/bash
.DEFAULT_GOAL := help
.ONESHELL:
.SHELLFLAGS := -euo pipefail -c

PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
# A second sign means: this target is one line that a person could have typed.

.PHONY: help
help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1|/' | awk -F'|' '{printf "  %-16s %s\n", $$1, $$2}'

$(VENV)/.done: requirements/dev.txt pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --require-hashes -r requirements/dev.txt
	$(BIN)/pip install --quiet --no-deps --no-build-isolation -e .
	touch $@

.PHONY: venv
venv: $(VENV)/.done ## Install the locked development environment into .venv

.PHONY: lint
lint: venv ## ruff, mypy --strict, import contracts
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy && $(BIN)/lint-imports

.PHONY: lock
lock: venv ## Resolve the dependencies again into requirements/*.txt
	requirements/lock $(BIN)
