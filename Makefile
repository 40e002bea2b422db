# SPDX-License-Identifier: Apache-2.0
# `make help` lists the targets. Each sets up what it needs first; a second run finds it done.

SHELL := /bin/sh
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

# Python to make the virtual environment with; 3.11 or later.
PYTHON ?= python3
# More arguments for pytest, such as PYTEST_ARGS="-k queue".
PYTEST_ARGS ?=
# A file at a time, each worker with clusters of its own. Most of what these tests do is waiting, so five workers keep two
# cores busy; one costs seven seconds of CPU to collect, and half a gigabyte. A debugger needs one: PYTEST_ARGS="-n 0 --pdb".
SIDE_BY_SIDE := -n 5 --dist loadfile --no-loadscope-reorder
# Where a cluster is five programs that have work of their own, there are fewer.
REAL_SIDE_BY_SIDE := -n 3 --dist loadfile --no-loadscope-reorder
PARITY_SIDE_BY_SIDE := -n 4 --dist loadfile --no-loadscope-reorder
# Each test runs on the local API server or on the compiled one, by what it needs: see tests/rungs.py.
TESTS := tests --ignore=tests/node -m "not parity" --control-plane=local
REAL_TESTS := tests/integration tests/e2e -m "on_control_plane and not parity"
# What `make test CLUSTER=node` runs. One cluster for all, since a node takes a minute to start and a gigabyte of memory.
NODE_TESTS ?= tests/node
# Programs and options for `make soak`, such as SOAK_ARGS="durability --rounds 2".
SOAK_ARGS ?=
# How long `make simulation` lives worlds with new seeds, and `make mutants` tries defects.
MINUTES ?= 2
# What `make mutants` takes beside MINUTES: rooms (all without), a seed, which chooses the defects, a table to continue,
# and a table of before: what was found there is judged again.
ROOMS ?=
SEED ?= 1
TABLE ?=
AGAINST ?=
# Arguments for `make run`, such as RUN_ARGS="--port=6443".
RUN_ARGS ?=
# Where `make run` and `make test` run: local (one Python process; pods are processes), real (a control plane of
# Kubernetes, compiled here; pods pretend) or node (also a kubelet with real containers; needs root on Linux).
CLUSTER ?= local
# The manager's image for `make deploy` and `make build-image`, such as IMG=registry.example.com/trainwright:1.
IMG ?=
# The https address of the repository for the metadata of `make release`. Without it, the package index shows no links.
URL ?=
export URL
# More distributions with plugins for `make build-image`.
PLUGINS ?=
# Which image `make build-image` builds: manager, dataset-initializer or model-initializer.
TARGET ?= manager
# kubectl for `make deploy` and `make undeploy`; they act on the cluster of its current context.
KUBECTL ?= kubectl
export KUBECTL
# Set in many containers. Without bytecode each of the hundreds of processes of the tests compiles what it imports, which
# doubles its CPU time, and each worker rewrites the assertions of all test modules.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
INSTALLED := .venv/installed

.PHONY: help install run test parity unit integration e2e simulation mutants bench soak generate verify check fmt types docs docs-serve pictures build-image sbom release deploy undeploy chart control-plane lock clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

install: $(INSTALLED) ## Set up .venv with the locked dependencies and the package itself, editable

# If PYTHON is set by the user, replace a .venv that another Python made.
ifneq ($(origin PYTHON),file)
ifneq ($(shell $(PYTHON) hack/install.py --is-current 2>&1 || echo no),)
.PHONY: $(INSTALLED)
endif
endif

$(INSTALLED): hack/requirements.txt pyproject.toml hack/install.py
	@$(PYTHON) hack/install.py

run: ## Start a local cluster and train on it; CLUSTER=real: a real control plane, where pods only pretend; CLUSTER=node: containers
ifeq ($(CLUSTER),real)
	@$(MAKE) --no-print-directory $(INSTALLED)
	@$(BIN)/python -m hack.run_real $(RUN_ARGS)
else ifeq ($(CLUSTER),node)
	@$(MAKE) --no-print-directory $(INSTALLED)
	@$(BIN)/python -m hack.node run $(RUN_ARGS)
else
	@$(PYTHON) hack/run.py $(RUN_ARGS)
endif

test: $(INSTALLED) ## Run the tests that need no Go: units, and all others on the local cluster; CLUSTER=real, CLUSTER=node: on real ones
ifeq ($(CLUSTER),real)
	@$(BIN)/python -m trainwright.controller.runtime.testing --also versitygw
	@$(BIN)/pytest $(REAL_TESTS) $(REAL_SIDE_BY_SIDE) $(PYTEST_ARGS)
else ifeq ($(CLUSTER),node)
	@$(BIN)/python -m hack.node
	@$(BIN)/pytest $(NODE_TESTS) $(PYTEST_ARGS)
else
	@$(BIN)/pytest $(TESTS) $(SIDE_BY_SIDE) $(PYTEST_ARGS)
endif

parity: $(INSTALLED) ## Run the long comparisons with the real programs, and make run
	@$(BIN)/python -m trainwright.controller.runtime.testing --also helm
	@$(BIN)/pytest tests --ignore=tests/node -m parity $(PARITY_SIDE_BY_SIDE) $(PYTEST_ARGS)

unit: $(INSTALLED) ## Run the unit tests; they need no control plane
	@$(BIN)/pytest tests/unit $(SIDE_BY_SIDE) $(PYTEST_ARGS)

integration: control-plane ## Run the tests against a real API server
	@$(BIN)/pytest tests/integration $(REAL_SIDE_BY_SIDE) $(PYTEST_ARGS)

e2e: control-plane ## Run the tests of the whole chain
	@$(BIN)/pytest tests/e2e $(REAL_SIDE_BY_SIDE) $(PYTEST_ARGS)

simulation: $(INSTALLED) ## Live simulated worlds with new seeds for MINUTES=2; a failure prints the command that replays it
	@$(BIN)/python -m tests.simulation --minutes "$(MINUTES)" --jobs 2 --quiet

mutants: $(INSTALLED) ## Plant small defects in copies of the code, and count those that tests find; MINUTES=20 ROOMS="trainer plugins" SEED=7
	@$(BIN)/python -m hack.mutants --minutes "$(MINUTES)" --rooms "$(ROOMS)" --seed "$(SEED)" \
		$(if $(TABLE),--table "$(TABLE)") $(if $(AGAINST),--against "$(AGAINST)")

bench: control-plane ## Run the scripts of tests/bench one after the other; docs/figures.json keeps the figures that pages give
	@for script in tests/bench/machine.py $(filter-out tests/bench/machine.py,$(wildcard tests/bench/*.py)); do echo "$$script"; \
		$(BIN)/python "$$script" || { echo "failed: $$script"; exit 1; }; done | $(BIN)/python -m hack.figures

generate: $(INSTALLED) ## Generate models, CRDs, roles, webhooks, what the charts copy, and reference pages
	@$(BIN)/python -m trainwright.codegen
	@$(BIN)/python -m hack.manifests
	@$(BIN)/python -m hack.reference

verify: $(INSTALLED) ## Fail if anything generated differs from what its sources say
	@$(BIN)/python -m trainwright.codegen --check
	@$(BIN)/python -m hack.manifests --check
	@$(BIN)/python -m hack.reference --check

soak: control-plane ## Run the programs of tests/soak one after the other; they repeat, kill, wait and count
	@$(BIN)/python -m tests.soak $(SOAK_ARGS)

check: $(INSTALLED) ## Run every check that is not a test: format, lint, types, layers, shell
	@hack/check

fmt: $(INSTALLED) ## Format the code and mend what the linter can
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/ruff format .

types: $(INSTALLED) ## Check the types only: mypy and pyright
	@hack/check types

docs: $(INSTALLED) ## Check the spelling and build the site of docs/ into build/site; broken links and anchors are errors
	@hack/check docs

docs-serve: $(INSTALLED) ## Show the site on 127.0.0.1:8000, rebuilt after every change
	@$(BIN)/mkdocs serve

pictures: $(INSTALLED) ## Make docs/images: draw docs/drawings with Graphviz, photograph a running dashboard in Chromium
	@$(BIN)/python -m hack.pictures

build-image: $(INSTALLED) ## Build the manager's image IMG with docker or podman; PLUGINS="name==version …" adds distributions; TARGET=dataset-initializer builds that image
	@hack/build-image "$(IMG)" "$(PLUGINS)" "$(TARGET)"

sbom: $(INSTALLED) ## List what the image holds, without an engine: SBOM, licences, sizes, in dist/image
	@$(BIN)/python -m hack.sbom

release: $(INSTALLED) ## Make wheel, sdist, charts, SBOM, changelog and checksums in dist/, and try them; URL=https://…
	@$(BIN)/python -m hack.release

deploy: $(INSTALLED) ## Put the manager with the image IMG and the shipped runtimes into the cluster of kubectl
	@$(BIN)/python hack/deploy.py "$(IMG)"

undeploy: $(INSTALLED) ## Take the manager out of the cluster again; what users made stays
	@$(BIN)/python hack/deploy.py --undeploy

chart: $(INSTALLED) ## Package the Helm charts into build/charts, with JobSet's chart as an option
	@$(BIN)/python -m hack.chart_package

control-plane: $(INSTALLED) ## Provide the programs of the test control plane, building what is missing
	@$(BIN)/python -m trainwright.controller.runtime.testing

lock: $(INSTALLED) ## Resolve the development dependencies into hack/requirements.txt
	@hack/lock

clean: ## Delete what the targets made in this folder; the control plane's cache stays
	@! grep -aqs "$(CURDIR)/[.]run/venv/bin/python" /proc/[0-9]*/cmdline || { \
		echo "error: a cluster of make run is up; end it first: .run/venv/bin/trainwright local down --delete" >&2; exit 1; }
	rm -rf .venv .run .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist *.egg-info
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
