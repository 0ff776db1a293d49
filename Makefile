# The Makefile only wraps the installable package: everything real is in `harness` and scripts/setup.sh.
PY := .venv/bin/python
EXPERIMENT ?= configs/experiments/all-in-one.yaml

.PHONY: setup run test lint bench docs lock clean

setup:
	@bash scripts/setup.sh

run: setup
	@.venv/bin/harness run $(EXPERIMENT)

test: setup
	@$(PY) -m pytest
	@mvn -B -o -q -f storm-topologies/pom.xml surefire-report:help >/dev/null 2>&1 || true

lint: setup
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy

lock:
	.venv/bin/uv pip compile --universal --python-version 3.11 --extra dev --generate-hashes -q pyproject.toml -o requirements.lock
