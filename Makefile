# The front door. Needs make and Python 3.11 or newer; everything else goes into .venv.

PYTHON ?= python3
ARGS ?=

BIN := .venv/bin
RUNTIME := .venv/.runtime
DEV := .venv/.dev
AUDIT_BIN := .venv/audit/bin
AUDIT := .venv/audit/.installed
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet

.DEFAULT_GOAL := help
.PHONY: help demo serve test check lint types rooms wire dashboards-alike dependencies dockerfile \
	protos dashboards bench bench-check soak fuzz sbom audit engine outages lock prometheus chromium .venv

help: ## This list
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST)

demo: $(RUNTIME) ## Emulated engines, the scaler, a stand-in for KEDA (ARGS=--once: one cycle)
	@$(BIN)/scaler demo $(ARGS)

serve: $(RUNTIME) ## The scaler itself (ARGS="--source scrape --targets FILE")
	@$(BIN)/scaler serve $(ARGS)

test: $(DEV) prometheus chromium ## The tests (ARGS go to pytest)
	@$(BIN)/python -m pytest $(ARGS)

check: lint types rooms wire dashboards-alike dependencies dockerfile ## Everything that can be said without running

lint: $(DEV)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(DEV)
	$(BIN)/mypy

rooms: $(DEV)
	$(BIN)/lint-imports --no-logo

wire: $(DEV)
	$(BIN)/python protos/generate.py --check

dashboards-alike: $(DEV)
	$(BIN)/python -m manifests.grafana.build --check

dependencies: $(DEV)
	$(BIN)/deptry .

dockerfile: $(DEV)
	$(BIN)/hadolint Dockerfile

protos: $(DEV) ## Generate scaler/wire anew
	$(BIN)/python protos/generate.py

dashboards: $(DEV) ## Write Grafana's dashboards in manifests/grafana anew
	$(BIN)/python -m manifests.grafana.build

bench: $(DEV) ## The benchmarks: slow, and best on a quiet machine
	@$(BIN)/python -m benchmarks $(ARGS)

bench-check: $(DEV) ## The benchmarks' ratios against the kept ones (ARGS="rpc tick": some)
	@$(BIN)/python -m benchmarks --check $(ARGS)

soak: $(DEV) ## KEDA's bad days for an hour: memory, files and threads stay flat (ARGS=SECONDS)
	@$(BIN)/python -m benchmarks.soak $(ARGS)

outages: $(DEV) ## The outage matrix in full: writes docs/reference/outages.md
	@$(BIN)/python -m tests.outages

fuzz: $(DEV) ## Odd input at each door, for as long as you like (FUZZ=20000: examples for each)
	@FUZZ=$(or $(FUZZ),20000) $(BIN)/python -m pytest tests/fuzz $(ARGS)

sbom: $(AUDIT) ## What the image holds, as CycloneDX, in dist/sbom.json
	@mkdir -p dist
	@$(AUDIT_BIN)/cyclonedx-py requirements requirements.lock --pyproject pyproject.toml \
		--output-reproducible --of JSON --output-file dist/sbom.json

audit: $(AUDIT) ## Known weaknesses in what is locked (asks a service on the internet)
	@$(AUDIT_BIN)/pip-audit --require-hashes --disable-pip --requirement requirements.lock

# ENGINE and MODEL reach it in its environment.
engine: $(DEV) ## The engine model against a real vLLM (ENGINE=DIR; without, it says what it needs)
	@$(BIN)/python -m benchmarks.engine $(ARGS)

LOCK := $(BIN)/uv pip compile --quiet --universal --python-version 3.11 --generate-hashes \
	--no-emit-index-url --no-emit-find-links --no-header $(ARGS)

lock: $(DEV) ## Lock the dependencies (ARGS=--upgrade: at the newest versions)
	$(LOCK) pyproject.toml --output-file requirements.lock
	$(LOCK) pyproject.toml --group dev --constraint requirements.lock \
		--output-file requirements-dev.lock
	$(LOCK) --group pyproject.toml:audit --output-file requirements-audit.lock
	$(LOCK) --group pyproject.toml:build --constraint requirements-dev.lock \
		--output-file requirements-build.lock

# --- the environment: each stamp says what .venv holds --------------------------------------------

.venv: $(DEV)

$(RUNTIME): requirements.lock requirements-build.lock pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "scaler needs Python 3.11 or newer, and $(PYTHON) is older or missing:" \
			"name a newer one with PYTHON=python3.12" >&2; exit 1; }
	@echo "Setting .venv up (only once)" >&2
	@$(BIN)/python -c '' 2>/dev/null || $(PYTHON) -m venv --clear .venv
	@$(PIP) --require-hashes -r requirements.lock
	@$(PIP) --require-hashes -r requirements-build.lock
	@$(PIP) --no-deps --no-build-isolation --editable .
	@touch $@

$(DEV): $(RUNTIME) requirements-dev.lock
	@echo "Adding the tools for development to .venv (only once)" >&2
	@$(PIP) --require-hashes -r requirements-dev.lock
	@touch $@

$(AUDIT): requirements-audit.lock
	@$(PYTHON) -m venv --clear .venv/audit
	@$(AUDIT_BIN)/python -m pip --disable-pip-version-check install --quiet --require-hashes \
		-r requirements-audit.lock
	@touch $@

# Some tests ask a real Prometheus. Installing it takes root and Debian's packages.
prometheus:
	@command -v prometheus >/dev/null || { \
		[ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get -qq update && \
		DEBIAN_FRONTEND=noninteractive apt-get -qq --yes --no-install-recommends \
			install prometheus >/dev/null; } || { \
		echo "==================================================================="; \
		echo "No prometheus on this machine, and it could not be installed here:"; \
		echo "THE TESTS AGAINST A REAL PROMETHEUS ARE SKIPPED."; \
		echo "Cure: apt-get install prometheus"; \
		echo "==================================================================="; } >&2

# The page is tested in a real browser, which comes the same way.
chromium:
	@command -v chromium >/dev/null || { \
		[ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get -qq update && \
		DEBIAN_FRONTEND=noninteractive apt-get -qq --yes --no-install-recommends \
			install chromium >/dev/null; } || { \
		echo "==================================================================="; \
		echo "No chromium on this machine, and it could not be installed here:"; \
		echo "THE TESTS OF THE PAGE IN A BROWSER ARE SKIPPED."; \
		echo "Cure: apt-get install chromium"; \
		echo "==================================================================="; } >&2
