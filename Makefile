# Wraps the installable package: what is real is in `harness`, scripts/setup.sh and storm-topologies/.
PY := .venv/bin/python
SANDBOX := $(PY) -m harness.machine.sandbox where-allowed
EXPERIMENT ?= configs/experiments/all-in-one.yaml

# System tests that need no cluster of others: theirs are in sandboxes of their own, their servers at free ports.
ALONE := $(patsubst %,tests/system/test_%.py,neo4j run_command run_trouble sandboxed_clusters spark_cluster stores_run)
COMPILED_FOR := $(firstword $(wildcard reports/runs/all-in-one/*))
# Each line of a group says whose it is. Ctrl-C ends the tests, not what shows their last words.
SHELL := bash
.SHELLFLAGS := -o pipefail -c
NAMED = 2>&1 | (trap '' INT; exec sed -u 's/^/$(@:test-%=%): /')

.PHONY: setup servers run test test-java test-python test-system test-alone test-hosts compiled lint bench bench-scale lock docs nightly audit sbom pins

setup: ## tools, virtual environment, jars, servers; quick when nothing changed
	@bash scripts/setup.sh

servers: setup ## what not every run needs: InfluxDB (is built once, some minutes) and Neo4j
	@.venv/bin/harness doctor --install --optional

run: setup ## measure EXPERIMENT (default: all-in-one) and judge the models on it
	@.venv/bin/harness run $(EXPERIMENT)

test: ## everything, real servers included; the groups that need no valid step beside each other
	@$(MAKE) --no-print-directory -j2 test-java servers # Java's tests need one core, InfluxDB's build the other
	@$(MAKE) --no-print-directory -k -j2 test-python test-alone
	@$(MAKE) --no-print-directory -k -j1 test-system test-hosts # nothing beside them: a busy machine makes steps invalid

test-java: setup
	@# Maven fetches its test runner on first use only; one small test outside the sandbox does that.
	@mvn -B -q -f storm-topologies/pom.xml package -Dtest='KeysTest,HistogramTest' \
	  -Dsurefire.failIfNoSpecifiedTests=false $(NAMED)
	$(SANDBOX) mvn -B -o -f storm-topologies/pom.xml package $(NAMED)

test-python: compiled ## what needs no cluster, in two processes; a file's tests share what they start
	$(SANDBOX) $(PY) -m pytest -n 2 --dist loadfile --ignore=tests/system --ignore=tests/hosts $(NAMED)

test-system: servers compiled ## what shares one cluster of this machine, one test after the other
	$(SANDBOX) $(PY) -m pytest -vv tests/system $(ALONE:%=--ignore=%) $(NAMED)

test-alone: servers compiled ## what starts clusters and servers of its own on this machine
	$(SANDBOX) $(PY) -m pytest -vv $(ALONE) $(NAMED)

test-hosts: servers compiled ## clusters on namespace hosts, which make a sandbox of their own (needs root)
	$(PY) -m pytest -vv tests/hosts $(NAMED)

compiled: setup # the models' machine code; on a clean checkout every group would make it again, at a minute's work
	@copy=$$(mktemp -d) && trap "rm -r $$copy" EXIT && cp -r $(COMPILED_FOR)/. $$copy && \
	  .venv/bin/harness predict $$copy $(NAMED)

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

audit: setup ## locked packages against known vulnerabilities; exit status 4 where the service does not answer
	@$(PY) scripts/audit.py

sbom: setup ## sbom.json, what all of this is made of (CycloneDX)
	@$(PY) scripts/sbom.py

pins: setup ## SHA-256 of the servers' jars, fetched anew; after a change of their versions
	@$(PY) scripts/pin_servers.py

lock: ## requirements.lock from pyproject.toml
	.venv/bin/uv pip compile --universal --python-version 3.11 --extra dev --generate-hashes -q \
	  pyproject.toml -o requirements.lock
