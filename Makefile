SHELL := /bin/bash
.DEFAULT_GOAL := help
.SHELLFLAGS := -euo pipefail -c

PYTHON ?= python3
# Hundreds of processes of the tests import the same modules: they are compiled once, whatever the environment says.
export PYTHONDONTWRITEBYTECODE :=
BIN    := .venv/bin
# Tests spend most of their time waiting, so there are more workers than cores; they share the run's clusters.
PARALLEL ?= -n 4 --dist loadscope --no-loadscope-reorder
# `make release VERSION=1.2.3 KEY=cosign.key REGISTRY=registry.example.org/team`
VERSION ?=
KEY ?=
REGISTRY ?= docker.io/frameworkcontroller
# `make demo CONTEXT=name` uses the cluster of a kubeconfig context.
CONTEXT ?=
# `make matrix VERSIONS="1.30 1.35"`
VERSIONS ?=
# `make chaos CHAOS_SECONDS=600 SEED=123`
CHAOS_SECONDS ?= 1800
SEED ?=
# `make soak SOAK=1000 SEED=123`: random schedules
SOAK ?= 20000
# `make fuzz COST_SECONDS=3600`: CPU time for each target of the search for what is costly
COST_SECONDS ?= 300
# `make hostile HOSTILE_SECONDS=100 HOSTILE_GANGS=10`: seconds in which the gangs of all kinds arrive, gangs of each
HOSTILE_SECONDS ?= 2240
HOSTILE_GANGS ?= 60
# `make large TASKS=200`
TASKS ?= 10000
# `make bench SCALE=0.1 SHAPES=1x100,200x10`
SCALE ?= 1
SHAPES ?=
# `make bench-start PODS=1000,100000 COMPLETED=100,10000`
PODS ?= 1000,10000,100000
COMPLETED ?= 100,1000,10000
DEMO_FLAGS ?= $(if $(CONTEXT),--context $(CONTEXT))

.PHONY: help
help: ## Show this list
	@sed -nE 's/^([a-z0-9-]+):.*## (.*)/  make \1\t\2/p' $(MAKEFILE_LIST) | expand -t 24

.PHONY: demo demo-down
demo: venv ## Train with TensorFlow on a gang of Pods, from nothing to Succeeded (CONTEXT=name: on your own cluster)
	$(BIN)/python -m frameworkdemo up $(DEMO_FLAGS)

demo-down: venv ## Remove everything that the demo created
	$(BIN)/python -m frameworkdemo down $(DEMO_FLAGS)

.PHONY: example examples
example: venv ## Run one of examples/ on the demo's node until it ends as it should (NAME=pytorch)
	$(BIN)/python -m frameworkdemo.examples $(or $(NAME),'')

examples: venv ## Run all of examples/ in a row on a fresh node, and print a table
	$(BIN)/python -m frameworkdemo.examples --cluster examples --fresh

.PHONY: test figures test-unit test-apiserver test-chart test-e2e
test: venv ## Run all checks and all tests, as CI does
	$(MAKE) lint & lint=$$!; $(BIN)/pytest $(PARALLEL) --junit-xml=build/tests.xml && tests=0 || tests=$$?; wait $$lint && exit $$tests

figures: venv ## Print the lines of each room, and what the last `make test` took
	$(BIN)/python -m frameworkrelease figures

test-unit: venv ## Run the tests that need no cluster
	$(BIN)/pytest -m "not apiserver and not node and not chart and not long"

test-apiserver: venv ## Run the tests against a real kube-apiserver (KUBERNETES=1.30.14: of that version)
	$(BIN)/pytest -m "apiserver and not long"

test-chart: venv ## Run the tests of the Helm chart and of the manifests made from it
	$(BIN)/pytest -m "chart and not long"

test-e2e: venv ## Run the tests with real Pods on a real node (root)
	$(BIN)/pytest -m "node and not long"

.PHONY: matrix
matrix: venv ## Run the API server tests on each supported Kubernetes, end to end on the newest; write docs/operate/releases.md
	$(BIN)/python -m frameworkrelease matrix $(VERSIONS) --pytest="$(PARALLEL)"

.PHONY: test-all test-roles hangs large chaos hostile soak fuzz bench bench-start bench-restart bench-queue bench-others bench-hangs bench-history scale bench-barrier bench-injector
# What must run alone, or for longer than once.
ALONE := e2e/gangs/test_hangs $(addprefix apiserver/controller/test_,chaos hostile_neighbours large_life)
test-all: lint ## Run all tests without a choice, and what is too long for CI for a short time each; a release needs it
	EVERYTHING=1 $(BIN)/pytest $(PARALLEL) -m "" $(ALONE:%=--ignore=tests/%.py)
	$(MAKE) test-roles
	$(MAKE) hangs
	$(MAKE) large TASKS=1000
	$(MAKE) chaos CHAOS_SECONDS=180
	$(MAKE) hostile HOSTILE_SECONDS=400 HOSTILE_GANGS=20
	$(MAKE) soak SOAK=2000
	$(MAKE) fuzz COST_SECONDS=10
	$(BIN)/python -m tests.support.select

test-roles: venv ## Run the end-to-end tests with the chart installed for one namespace each, with Roles only (root)
	FRAMEWORKCONTROLLER_ROLES_ONLY=1 $(BIN)/pytest -m "node and not long" tests/e2e

hangs: venv ## Let twenty gangs hang on a real node, and twenty that only take long, which are left alone (root)
	$(BIN)/pytest -s -m long tests/e2e/gangs/test_hangs.py

large: venv ## Follow ten thousand Tasks of one Framework through their life on simulated nodes (TASKS=200)
	LARGE_TASKS="$(TASKS)" $(BIN)/pytest -s -m long tests/apiserver/controller/test_large_life.py

chaos: venv ## Let everything go wrong at random for 30 minutes on a real API server (CHAOS_SECONDS=600 SEED=123)
	CHAOS_SECONDS="$(CHAOS_SECONDS)" SEED="$(SEED)" $(BIN)/pytest -s -m long tests/apiserver/controller/test_chaos.py

hostile: venv ## Run healthy gangs beside hostile Frameworks of each kind, on simulated nodes (HOSTILE_KINDS=roles)
	HOSTILE_SECONDS="$(HOSTILE_SECONDS)" HOSTILE_GANGS="$(HOSTILE_GANGS)" $(BIN)/pytest -s -m long tests/apiserver/controller/test_hostile_neighbours.py

soak: venv ## Run the controller through twenty thousand random schedules (SOAK=1000)
	SOAK_EXAMPLES="$(SOAK)" $(BIN)/pytest tests/controller/core/{reconcile/test_schedules,foreign/test_lives}.py $(if $(SEED),--hypothesis-seed=$(SEED))

fuzz: venv ## Send broken input to injector, watches and barrier, and search for what is costly (COST_SECONDS=300)
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements/fuzz.txt
	$(BIN)/python -m tests.injector.coverage_fuzzer --inputs 100000
	$(BIN)/python -m tests.kube.wire_fuzzer --inputs 100000
	FUZZ_EXAMPLES=20000 $(BIN)/pytest tests/barrier/test_hostile_documents.py
	$(BIN)/python -m tests.cost.fuzzer --seconds "$(COST_SECONDS)"

bench: venv ## Measure the controller against a bare create loop, on simulated nodes (SCALE=0.1 SHAPES=1x100,200x10)
	$(BIN)/python -m bench.controller --scale "$(SCALE)" $(if $(SHAPES),--shapes "$(SHAPES)")

bench-start: venv ## Measure a start of the controller in a full cluster (PODS=1000,100000 COMPLETED=100,10000)
	$(BIN)/python -m bench.start --pods "$(PODS)" --completed "$(COMPLETED)"

bench-restart: venv ## Measure how long a gang is away after a crash: in place, and by a Framework retry (root; CRASHES=10)
	$(BIN)/python -m bench.restart $(if $(CRASHES),--crashes "$(CRASHES)")

bench-queue: venv ## Measure what a queue of Kueue costs: 200 Frameworks with it and without (root)
	$(BIN)/python -m bench.queues

bench-others: venv ## Measure what a gang of a JobSet costs, beside a Framework of the same size (root)
	$(BIN)/python -m bench.others

bench-hangs: venv ## Count false alarms of the watch over gangs, and how soon it finds hangs, under a virtual clock; measure its cost (HOURS=100)
	$(BIN)/python -m bench.hangs $(if $(HOURS),--hours "$(HOURS)")
	$(BIN)/python -m bench.hangs_cost

bench-history: venv ## Measure the archive: writes, searches and pages among a million Frameworks, and logs (FRAMEWORKS=10000)
	$(BIN)/python -m bench.history $(if $(FRAMEWORKS),--frameworks "$(FRAMEWORKS)")
	$(BIN)/python -m bench.history_logs

scale: venv ## Keep what the benchmarks have measured in docs/performance.csv, and write docs/performance.md
	$(BIN)/python -m frameworkrelease scale

bench-barrier: venv ## Measure the barrier: its start, and the release of gangs of 1,000
	$(BIN)/python -m bench.barrier

bench-injector: venv ## Measure the injector: reviews per second, latency, its share in a create, memory
	$(BIN)/python -m bench.injector

.PHONY: lint docs links format
lint: docs ## Run ruff, mypy --strict, the import contracts and codespell, and build the site
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache
	$(BIN)/codespell *.md docs examples charts deploy barrier injector controller kube client history tools
	$(BIN)/pytest -q -n 0 -p no:cacheprovider tests/test_documents.py

docs: venv ## Build the site into build/docs/html: strictly, without a warning
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going --fresh-env --jobs auto -c docs -d build/docs/doctrees . build/docs/html

links: venv ## Ask for every address that the pages name (needs the Internet)
	$(BIN)/sphinx-build --quiet --keep-going --jobs auto -b linkcheck -c docs -d build/docs/doctrees . build/docs/links

format: venv ## Format the code and apply safe fixes
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

PRESET_FILE = barrier/frameworkbarrier/presets/$(NAME).toml
.PHONY: manifests preset images cut release release-check publish release-key lock lock-base
manifests: venv ## Write what is generated from code: files of the chart, and the manifests made from the chart
	$(BIN)/python -m frameworkrelease manifests

preset: venv ## Begin a preset, or renew its goldens and the pages once its file has changed (NAME=x)
	test -f '$(PRESET_FILE)' || $(BIN)/python -m frameworkrelease preset '$(NAME)'
	FB_WRITE_GOLDENS=1 $(BIN)/pytest -q -n 0 tests/barrier/test_goldens.py
	FRAMEWORKINJECTOR_WRITE_GOLDENS=1 $(BIN)/pytest -q -n 0 tests/injector/test_goldens.py
	$(MAKE) manifests

images: venv ## Build the images of the programs and of the examples (root)
	$(BIN)/python -m localcluster build

cut: venv ## Name the next version in all files, and turn "Unreleased" of the changelog into it (VERSION=1.2.3)
	$(BIN)/python -m frameworkrelease cut '$(VERSION)'
	$(BIN)/bump-my-version bump --new-version '$(VERSION)'
	$(MAKE) manifests

release: venv ## Build and sign all artefacts of a version into build/release (VERSION=1.2.3 KEY=cosign.key; root)
	$(BIN)/python -m frameworkrelease build '$(VERSION)' --key='$(KEY)' --registry='$(REGISTRY)'

release-check: venv ## Verify a release, and install it from a local registry (VERSION=1.2.3 KEY=cosign.key; root)
	$(BIN)/python -m frameworkrelease check '$(VERSION)' --key='$(KEY)'

publish: venv ## Push the images and the chart of a release, and sign them (VERSION=1.2.3 KEY=cosign.key REGISTRY=prefix)
	$(BIN)/python -m frameworkrelease publish '$(VERSION)' --key='$(KEY)' --registry='$(REGISTRY)'

release-key: venv ## Make a pair of keys for releases, cosign.key and cosign.pub
	$(BIN)/python -m frameworkrelease key cosign

lock: venv ## Resolve the dependencies into requirements/
	requirements/lock $(BIN)

lock-base: venv ## Lock the base image of releases to Debian's packages of today (root)
	$(BIN)/python -m frameworkrelease lock-base

.PHONY: venv clean
venv: .venv/.done ## Install the locked development environment into .venv

# Python compiles what it imports; to compile all that is installed would take a third of the time.
.venv/.done: requirements/dev.txt pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --no-compile --disable-pip-version-check --require-hashes -r requirements/dev.txt
	$(BIN)/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	touch $@

clean: ## Remove everything that was built here (the cache of clusters and programs stays)
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
