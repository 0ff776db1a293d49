# Wraps the installable package: what is real is in `harness`, scripts/setup.sh and storm-topologies/.
PY := .venv/bin/python
SANDBOX := $(PY) -m harness.backends.sandbox where-allowed
EXPERIMENT ?= configs/experiments/all-in-one.yaml

.PHONY: setup servers run test test-java test-python test-system test-hosts lint bench bench-scale lock docs nightly

setup: ## tools, virtual environment, jars, servers; quick when nothing changed
	@bash scripts/setup.sh

servers: setup ## what not every run needs: InfluxDB (is built once, some minutes) and Neo4j
	@.venv/bin/harness doctor --install --optional

run: setup ## measure EXPERIMENT (default: all-in-one) and judge the models on it
	@.venv/bin/harness run $(EXPERIMENT)

test: ## everything, real servers included, in a private network
	@$(MAKE) --no-print-directory -j2 test-java servers # Java's tests need one core, InfluxDB's build the other
	@$(MAKE) --no-print-directory -j1 test-python test-system test-hosts

test-java: setup
	@# Maven fetches its test runner on first use only; one small test outside the sandbox does that.
	@mvn -B -q -f storm-topologies/pom.xml package -Dtest='KeysTest,HistogramTest' \
	  -Dsurefire.failIfNoSpecifiedTests=false
	$(SANDBOX) mvn -B -o -f storm-topologies/pom.xml package

test-python: servers ## what needs no cluster, in two processes; a file's tests share what they start
	$(SANDBOX) $(PY) -m pytest -n 2 --dist loadfile --ignore=tests/system --ignore=tests/hosts

test-system: servers ## clusters of this machine, one test after the other: they wait more than they work
	$(SANDBOX) $(PY) -m pytest tests/system

test-hosts: servers ## clusters on namespace hosts, which make a sandbox of their own (needs root)
	$(PY) -m pytest tests/hosts

lint: setup
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy

bench: setup bench-scale ## speed of analysis, models and simulators; what the instrumentation costs, in pairs
	$(PY) bench/models.py
	$(PY) bench/instrumentation.py

bench-scale: setup ## the analysis of 50 million samples and 10 million metric rows, in Spark and in DuckDB
	[ -d build/scale ] || $(PY) bench/scale.py make build/scale --samples 50 --metrics 10
	$(PY) bench/scale.py measure build/scale

nightly: setup ## measure configs/nightly.yaml, compare with the baseline, write a page
	$(PY) scripts/nightly.py

docs: setup ## the command reference, from --help
	$(PY) scripts/command_reference.py

lock: ## requirements.lock from pyproject.toml
	.venv/bin/uv pip compile --universal --python-version 3.11 --extra dev --generate-hashes -q \
	  pyproject.toml -o requirements.lock
