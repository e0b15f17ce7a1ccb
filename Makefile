# Everything a newcomer or the build runs. `make demo` and `make test` work from a fresh clone with only make and
# python3; both prepare .venv on the first run. PYTHON=python3.12 chooses another interpreter.

PYTHON ?= python3
WORKERS ?= 2
EXAMPLES ?= 100000
SEEDS ?= 200

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/ready
READY_FOR_DOCS := $(VENV)/ready-for-docs
TYPED := src tests tools $(if $(wildcard bench/*.py),bench)

.PHONY: help setup demo test test-long format check check-format check-lint check-types check-imports check-licences \
	bench bench-simulator bench-sockets bench-tables bench-brokers sim hunt spec-report docs clean
.DEFAULT_GOAL := help

help:  ## list the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

setup: $(READY)  ## prepare .venv (done by every other command when it is needed)
	@echo "$(VENV) is ready"

$(READY): pyproject.toml constraints.txt tools/setup.sh
	@sh tools/setup.sh "$(PYTHON)" $(VENV) fast,cli,net,spark,lab,dev
	@touch $@

$(READY_FOR_DOCS): $(READY)
	@sh tools/setup.sh "$(PYTHON)" $(VENV) fast,cli,net,spark,lab,dev,docs
	@touch $@

demo: $(READY)  ## a network of brokers, real flights, one broker killed, and Spark at the end; about a minute
	@$(BIN)/tidings demo

test: $(READY)  ## the quick tests
	@$(BIN)/python tools/run_tests.py --workers $(WORKERS)

test-long: $(READY)  ## what takes minutes or a quiet machine; covering, merging and the index with EXAMPLES=100000 cases
	@$(BIN)/python -m pytest --timeout 0 --durations=20 -m long
	@TIDINGS_EXAMPLES=$(EXAMPLES) $(BIN)/python -m pytest -n $(WORKERS) --timeout 0 tests/properties \
		-k "covering or merging or index"

check: check-format check-lint check-types check-imports check-licences  ## formatting, lint, types, import contracts, licences
	@echo "all checks passed"

check-format: $(READY)
	@$(BIN)/ruff format --check --quiet . || { echo "not in the one format: run 'make format'" >&2; exit 1; }

check-lint: $(READY)
	@$(BIN)/ruff check --quiet .

check-types: $(READY)
	@$(BIN)/mypy --no-error-summary $(TYPED)

check-imports: $(READY)
	@$(BIN)/lint-imports > $(VENV)/imports.log 2>&1 || { cat $(VENV)/imports.log >&2; exit 1; }

check-licences: $(READY)
	@$(BIN)/python tools/licences.py --quiet

format: $(READY)  ## rewrite the sources in the one format
	@$(BIN)/ruff format . && $(BIN)/ruff check --fix .

bench: $(READY)  ## measure matching and write docs/benchmarks.md
	@$(BIN)/python -m bench

bench-simulator: $(READY)  ## measure the simulator beside simpy and a bare heap
	@$(BIN)/python -m bench.simulator

bench-sockets: $(READY)  ## measure two hosts beside bare asyncio streams
	@$(BIN)/python -m bench.sockets

bench-tables: $(READY)  ## measure a link with 100,000 subscriptions that breaks and comes back
	@$(BIN)/python -m bench.tables

bench-brokers: $(READY)  ## measure a broker beside NATS, Mosquitto and Redis, where they are installed, and zenoh
	@sh tools/setup.sh "$(PYTHON)" $(VENV) fast,cli,net,spark,lab,dev,uvloop,peers
	@$(BIN)/python -m bench.brokers

sim: $(READY)  ## look for trouble in SEEDS=200 simulated runs
	@$(BIN)/tidings sim hunt gossip-chaos --seeds $(SEEDS)

hunt: $(READY)  ## everything goes wrong at once, with SEEDS=200, and every promise is judged
	@$(BIN)/tidings sim hunt nemesis --seeds $(SEEDS) --all --no-shrink --check sometimes --workers $(WORKERS)

spec-report: $(READY)  ## which numbered requirements are tested, and with what outcome
	@$(BIN)/python tools/spec_report.py

docs: $(READY_FOR_DOCS)  ## build the documentation into site/
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict && echo "open site/index.html"

clean:  ## remove .venv and whatever was built
	@rm -rf $(VENV) site build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache .benchmarks
	@find src tests tools bench -name __pycache__ -prune -exec rm -rf {} + 2>/dev/null || true
