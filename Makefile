SHELL := /bin/bash
.DEFAULT_GOAL := help
.SHELLFLAGS := -euo pipefail -c

PYTHON ?= python3
BIN    := .venv/bin
# Tests mostly wait; each worker has clusters of its own.
PARALLEL ?= -n 4 --dist loadfile
# `make demo CONTEXT=name` uses a cluster that you have.
CONTEXT ?=
DEMO_FLAGS ?= $(if $(CONTEXT),--context $(CONTEXT))

.PHONY: help
help: ## Show this list
	@sed -nE 's/^([a-z0-9-]+):.*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 24

.PHONY: demo demo-down
demo: venv ## Train with TensorFlow on a gang of Pods, from nothing to Succeeded (CONTEXT=name: on your cluster)
	$(BIN)/python -m demo up $(DEMO_FLAGS)

demo-down: venv ## Remove what the demo brought
	$(BIN)/python -m demo down $(DEMO_FLAGS)

.PHONY: test test-unit test-apiserver test-e2e
test: lint ## All checks and all tests: what CI runs
	$(BIN)/pytest $(PARALLEL)

test-unit: venv ## The tests that need no cluster
	$(BIN)/pytest -m "not apiserver and not node"

test-apiserver: venv ## The tests against a real kube-apiserver (KUBERNETES=1.30.14: of that version)
	$(BIN)/pytest -m apiserver

test-e2e: venv ## The tests with real Pods on a real node (root)
	$(BIN)/pytest -m node

.PHONY: soak fuzz bench bench-barrier bench-injector
soak: venv ## Twenty thousand random schedules of the controller
	SOAK_EXAMPLES=20000 $(BIN)/pytest tests/controller/core/test_schedules.py

fuzz: venv ## Throw 100,000 broken requests at the injector, guided by coverage (atheris)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/fuzz.txt
	cd tests && ../$(BIN)/python -m injector.guided --inputs 100000

bench: venv ## Measure the controller next to a bare create loop, on simulated nodes
	$(BIN)/python bench/controller.py

bench-barrier: venv ## Measure the barrier: its start, and gangs of 1,000 from the last address to each release
	$(BIN)/python bench/barrier.py

bench-injector: venv ## Measure the injector: reviews a second, latency, what it adds to a create, memory
	$(BIN)/python bench/injector.py

.PHONY: lint format
lint: venv ## ruff, mypy --strict, import contracts, generated files
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache

format: venv ## Format the code, fix what can be fixed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

.PHONY: manifests images lock
manifests: venv ## Write the manifests that are made from code
	$(BIN)/python -m frameworkcontroller.api.crd > controller/manifests/crd.yaml
	$(BIN)/python -m frameworkcontroller.engine.defaults > controller/manifests/config.yaml

images: venv ## Build the images of the three programs and of the example (root)
	$(BIN)/python -m localcluster build

lock: venv ## Resolve the dependencies again into requirements/
	requirements/lock $(BIN)

.PHONY: venv clean
venv: .venv/.done ## Install the locked development environment into .venv

.venv/.done: requirements/dev.txt pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/dev.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $@

clean: ## Remove what was built here (the cluster's cache stays)
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
