# Everything a machine needs beyond git, make and Python 3.11 is fetched or built on first use.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

PYTHON ?= python3
NODES ?= 3
ARGS ?=
# The kube-scheduler of another minor for all that starts one, such as SCHEDULER=1.35.
SCHEDULER ?=
ifneq ($(SCHEDULER),)
export SCHEDCLASS_KUBE_SCHEDULER := $(SCHEDULER)
endif

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
export PATH := $(CURDIR)/$(BIN):$(PATH)
# Where this is set, each of the hundred processes that the tests start would compile our code anew.
export PYTHONDONTWRITEBYTECODE :=

# Read-only checks that generated files are what their sources say; each prints how to renew.
DRIFT_CHECKS := \
	'python -m crds.generate --check' \
	'python -m generate.fields --check' \
	'python -m generate.cli_docs --check' \
	'python -m generate.metric_docs --check' \
	'python -m generate.cli_schema --check'

.PHONY: help
help: ## Show this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' \
		| while IFS=$$'\t' read -r name text; do printf '  make %-18s %s\n' "$$name" "$$text"; done

.PHONY: venv
venv: $(READY) ## Install the locked Python packages into .venv

# Compiled by all cores, and without what is never imported: the generated models of the Kubernetes client.
$(READY): requirements/dev.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { \
		echo "Error: $(PYTHON) is not Python 3.11 or newer; name one with make PYTHON=python3.x" >&2; \
		exit 1; }
	@lock=$$(cat requirements/dev.txt pyproject.toml | sha256sum | cut -d' ' -f1); \
	if [ "$$(cat $@ 2>/dev/null)" = "$$lock" ]; then touch $@; exit 0; fi; \
	echo "Installing the locked Python packages into $(VENV) ..."; \
	$(PYTHON) -m venv $(VENV) && \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --require-hashes \
		-r requirements/dev.txt && \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps \
		--no-build-isolation -e . && \
	$(BIN)/python -m compileall -q -j 0 -x '/kubernetes/.*/(models|api)/' $(VENV)/lib && \
	echo "$$lock" > $@

.PHONY: programs
programs: $(READY) ## Build the programs of the control plane (once, minutes)
	@$(BIN)/python -m controlplane build

.PHONY: up
up: $(READY) ## Start control plane, NODES=3 fake nodes and the operator; kubeconfig in .run/kubeconfig
	@$(BIN)/python -m controlplane up --nodes=$(NODES)

.PHONY: down
down: $(READY) ## End all that `up` started and drop its data
	@$(BIN)/python -m controlplane down

.PHONY: demo
demo: $(READY) ## Show the whole story on a real control plane, then clean up
	@$(BIN)/python -m controlplane.demo

# Tests of one file share a control plane; each worker has its own.
PARALLEL ?= -n 3 --dist loadfile
# Each fault starts from a healed control plane, whichever that is.
ANYWHERE ?= -n 2 --dist worksteal
# Tests that share nothing, and burn CPU as long as they run.
EVENLY ?= -n 2 --dist load
# Thousands of short ones that share nothing; some wait for a clock.
SHARED_OUT ?= -n 3 --dist worksteal
# Faults wait for most of their time, so they run beside the other tests on a control plane.
TOGETHER ?= -n 3 --dist loadfile

CLUSTER_TESTS = tests/chart tests/cluster -p tests.rights.check

.PHONY: test
test: test-unit test-parity test-together test-browser ## Run every test

.PHONY: test-together
test-together: $(READY) programs ## Run test-cluster and test-faults-short side by side
	@$(BIN)/python -m pytest $(CLUSTER_TESTS) tests/faults $(TOGETHER) $(ARGS)

.PHONY: test-unit
test-unit: $(READY) ## Run the tests that need no control plane
	@$(BIN)/python -m pytest tests/unit $(SHARED_OUT) $(ARGS)

.PHONY: test-parity
test-parity: $(READY) ## Compare placement with the stock scheduler's plugins, in SCHEDCLASS_CASES=5000 cases
	@$(BIN)/python -m pytest tests/differential $(EVENLY) $(ARGS)

.PHONY: browser
browser: $(READY) ## Find a Chromium or Chrome; as root on Debian, install one (once)
	@$(BIN)/python -m tests.browser.chromium

.PHONY: test-browser
test-browser: $(READY) browser ## Look at the report in a real browser
	@$(BIN)/python -m pytest tests/browser $(EVENLY) $(ARGS)

.PHONY: test-cluster
test-cluster: $(READY) programs ## Render the chart, and run the tests on a real control plane
	@$(BIN)/python -m pytest $(CLUSTER_TESTS) $(PARALLEL) $(ARGS)

.PHONY: test-scheduler
test-scheduler: $(READY) programs ## Run the tests of placement; SCHEDULER=1.35 for that kube-scheduler
	@$(BIN)/python -m pytest tests/cluster/scheduling tests/cluster/test_scheduler_version.py $(PARALLEL) $(ARGS)

.PHONY: test-faults-short
test-faults-short: $(READY) programs ## Break one part after the other under load
	@$(BIN)/python -m pytest tests/faults $(ANYWHERE) $(ARGS)

.PHONY: test-faults
test-faults: $(READY) programs ## The same with more rounds and real time limits; a quarter of an hour
	@$(BIN)/python -m pytest tests/faults --long-faults $(ANYWHERE) $(ARGS)

.PHONY: test-rights
test-rights: $(READY) programs ## Take each right of the chart away and show which test misses it; an hour
	@$(BIN)/python -m tests.rights $(ARGS)

.PHONY: bench
bench: $(READY) programs ## Measure admission against the API server's own limit; see bench-scheduler
	@$(BIN)/python -m bench $(ARGS)

.PHONY: bench-scheduler
bench-scheduler: $(READY) programs ## Measure placing by class beside the stock scheduler; ARGS=--short
	@$(BIN)/python -m bench.scheduler $(ARGS)

.PHONY: bench-scale
bench-scale: $(READY) programs ## Measure start, memory and propagation with 10,000 namespaces
	@$(BIN)/python -m bench.scale $(ARGS)

.PHONY: check
check: $(READY) ## Check format, lint, types, layers and generated files; changes nothing
	ruff format --check .
	ruff check .
	mypy
	lint-imports
	yamllint --strict .
	hadolint Dockerfile
	@for check in $(DRIFT_CHECKS); do echo "$$check"; bash -c "$$check"; done

.PHONY: docs
docs: $(READY) programs ## Run the commands in docs/ anew and write their output there
	@$(BIN)/python -m generate.cli_docs
	@$(BIN)/python -m generate.metric_docs
	@$(BIN)/python -m generate.cluster_docs

.PHONY: format
format: $(READY) ## Format the Python code and fix what the linter can
	ruff check --fix-only .
	ruff format .

UV_COMPILE = $$uv/bin/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-header --no-annotate $(ARGS)

.PHONY: lock
lock: ## Renew requirements/*.txt; ARGS=--upgrade takes newer versions
	@uv=$$(mktemp -d); trap 'rm -rf "$$uv"' EXIT; \
	echo "Resolving the dependencies of pyproject.toml ..."; \
	$(PYTHON) -m venv "$$uv"; \
	"$$uv/bin/python" -m pip install --quiet --disable-pip-version-check uv; \
	$(UV_COMPILE) pyproject.toml -o requirements/run.txt >/dev/null; \
	$(UV_COMPILE) --extra dev pyproject.toml -o requirements/dev.txt >/dev/null; \
	$(UV_COMPILE) requirements/go.in -o requirements/go.txt >/dev/null

.PHONY: clean
clean: ## Remove .venv, .run and the caches of the tools (not the built programs)
	@if [ -x $(BIN)/python ] && [ -d .run ]; then $(BIN)/python -m controlplane down; fi
	rm -rf $(VENV) .run dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
