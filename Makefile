# Wraps the installable package: what is real is in `harness`, scripts/setup.sh and storm-topologies/.
PY := .venv/bin/python
SANDBOX := $(PY) -m harness.machine.sandbox where-allowed
EXPERIMENT ?= configs/experiments/all-in-one.yaml

# System tests that need no cluster of others: theirs are in sandboxes of their own, their servers at free ports.
ALONE := $(patsubst %,tests/system/test_%.py,bad_commands builder_run run_command sandboxed_clusters)
OTHERS := $(patsubst %,tests/system/test_%.py,running_cluster spark_cluster storm_versions)
STORES := $(patsubst %,tests/system/test_%.py,influxdb neo4j plan_questions submitted)
FIRST_RUN := tests/system/test_first_run.py
# Starts a cluster by command, at the ports that the shared one of test-system has.
TUTORIAL := tests/system/test_tutorial.py
# One experiment on hosts, from provisioning to the end, their network, quotas and what a worker may reach.
ONE_OF_HOSTS := $(patsubst %,tests/hosts/test_%.py,cluster experiment hostile_worker left link quotas tls zz_end)
RESULTS := build/tests
# Each line of a group says whose it is. Ctrl-C ends the tests, not what shows their last words.
SHELL := bash
.SHELLFLAGS := -o pipefail -c
NAMED = 2>&1 | (trap '' INT; exec sed -u 's/^/$(@:test-%=%): /')
PYTEST = bash scripts/tests.sh $@
MAVEN := mvn -B -Dstyle.color=never -f storm-topologies/pom.xml
# Maven fetches its test runner on first use only; one small test outside the sandbox does that.
RUNNER_FETCHED = $(MAVEN) -q test -pl instrumentation -Dtest=HistogramTest

.PHONY: setup setup-dev setup-deep servers storms published run test test-deep test-long test-measured test-beside test-units test-first-run
.PHONY: test-java test-python test-system test-tutorial test-alone test-others test-storms test-stores test-hosts test-every-host reliability headlines slowest lint bench bench-scale lock docs nightly audit sbom pins wheel wheel-try

setup: ## what every command needs but forecasts, provisioning, tests and benches; quick when nothing changed
	@bash scripts/setup.sh

setup-dev: ## and what tests, lint and benches need
	@bash scripts/setup.sh dev

setup-deep: ## and the programs that make test-deep and harness provision use; names what it installs
	@bash scripts/setup.sh deep

servers: setup ## what not every run needs: InfluxDB (is built once, some minutes) and Neo4j
	@.venv/bin/harness doctor --install --optional

storms: setup-dev ## older Storms, for the test that measures on clusters of them
	@$(PY) tests/support/other_storms.py

published: setup-dev ## topologies that others published, for the test that batches and helps them
	@$(PY) tests/support/published_jars.py

run: setup ## measure EXPERIMENT (default: all-in-one) and judge the models on it
	@.venv/bin/harness run $(EXPERIMENT)

test: ## the quick circle, under 12 minutes: units, and one run on the real cluster from command to report
	@$(MAKE) --no-print-directory test-units
	@$(MAKE) --no-print-directory test-first-run # nothing beside it: it measures

test-deep: ## more, at most 48 minutes: every example, stores, one experiment on hosts, browser, the whole archive
	@$(MAKE) --no-print-directory setup-deep
	@$(MAKE) --no-print-directory servers
	@$(MAKE) --no-print-directory test-java # alone: a cluster in one JVM beside InfluxDB's build failed once in a while
	@$(MAKE) --no-print-directory -k -j2 test-measured test-beside

test-measured: # one after the other: a busy machine makes steps invalid
	@bash scripts/cpu_share.sh whole $(MAKE) --no-print-directory -k -j1 test-system test-hosts

test-beside: # with the CPU time that measurements leave
	@bash scripts/cpu_share.sh rest $(MAKE) --no-print-directory -k -j1 test-alone test-python test-stores

test-long: ## the rest but reliability, before a release: the tutorial, clusters of others and of older Storms, all of hosts
	@$(MAKE) --no-print-directory setup-deep
	@$(MAKE) --no-print-directory servers
	@$(MAKE) --no-print-directory -k -j1 test-tutorial test-others test-every-host

test-units: setup-dev ## Java's and Python's that start no server, with few examples
	@$(MAKE) --no-print-directory -k -j2 test-java-units test-python-units

test-java-units:
	@$(RUNNER_FETCHED) $(NAMED)
	@$(SANDBOX) $(MAVEN) -q -o test -DexcludedGroups=deep $(NAMED)

test-python-units:
	@HARNESS_TESTS=quick $(SANDBOX) $(PYTEST) -n 2 --dist loadfile --ignore=tests/system --ignore=tests/hosts --ignore=tests/reliability $(NAMED)

test-first-run: setup-dev
	@$(PYTEST) -vv $(FIRST_RUN) $(NAMED)

test-java: setup-dev
	@$(RUNNER_FETCHED) $(NAMED)
	$(SANDBOX) $(MAVEN) -o test -Dgroups=deep $(NAMED)

test-python: setup-dev ## what needs no cluster and the quick circle left out; a file's tests share what they start
	HARNESS_TESTS=rest $(SANDBOX) $(PYTEST) -n 2 --dist loadfile --ignore=tests/system --ignore=tests/hosts --ignore=tests/reliability $(NAMED)

test-system: servers setup-dev published ## what shares one cluster of this machine, one test after the other
	$(SANDBOX) $(PYTEST) -vv tests/system $(addprefix --ignore=,$(ALONE) $(OTHERS) $(STORES) $(FIRST_RUN) $(TUTORIAL)) $(NAMED)

test-tutorial: setup-dev ## the tutorial's page, command by command
	$(SANDBOX) $(PYTEST) -vv $(TUTORIAL) $(NAMED)

test-alone: setup-dev ## what starts clusters of its own on this machine
	$(SANDBOX) $(PYTEST) -vv $(ALONE) $(NAMED)

test-others: servers setup-dev storms ## clusters that the harness did not start, of older Storms, and of Spark
	$(SANDBOX) $(PYTEST) -vv $(OTHERS) $(NAMED)

test-storms: servers storms ## a step on clusters of each older Storm
	$(SANDBOX) $(PYTEST) -vv tests/system/test_storm_versions.py $(NAMED)

test-stores: servers setup-dev ## what starts InfluxDB or Neo4j of its own on this machine
	$(SANDBOX) $(PYTEST) -vv $(STORES) $(NAMED)

test-hosts: servers setup-deep ## an experiment on namespace hosts, which make a sandbox of their own (needs root)
	$(PYTEST) -vv $(ONE_OF_HOSTS) $(NAMED)

test-every-host: servers setup-deep ## and hosts that exist, their stores and troubles
	$(PYTEST) -vv tests/hosts $(NAMED)

reliability: servers setup-deep ## the tests of docs/reliability.md, with their figures (at most 40 minutes)
	@$(PY) scripts/reliability.py

headlines: servers setup-deep ## measure anew all that reports/headlines.md has (about five hours)
	@bash scripts/headlines.sh

slowest: ## the 25 slowest tests of the last test runs, and those that failed
	@$(PY) scripts/slowest_tests.py $(RESULTS) $(wildcard storm-topologies/*/target/surefire-reports)

lint: setup-dev
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/mypy
	$(PY) scripts/prose.py

bench: setup-dev bench-scale ## speed of analysis, models and simulators; what the instrumentation costs, in pairs
	$(PY) bench/models.py
	$(PY) bench/instrumentation.py

bench-scale: setup-dev ## the analysis of 50 million samples and 10 million metric rows, and the memory of predictions
	[ -d build/scale ] || $(PY) bench/scale.py make build/scale --samples 50 --metrics 10 --repeats 5
	$(PY) bench/scale.py measure build/scale
	$(PY) bench/scale.py predict build/scale

nightly: setup ## measure configs/nightly.yaml, compare with the baseline, write a page
	.venv/bin/harness nightly

wheel: setup ## dist/*.whl, with jars, experiments and schemas in it
	@rm -rf dist && .venv/bin/uv build -q --wheel --out-dir dist . && ls -l dist/*.whl

wheel-try: wheel ## install the wheel into an empty environment, measure quick there and report, away from the checkout
	@bash scripts/try_wheel.sh dist/*.whl

docs: setup ## the command reference, from --help; lists of modules, measures and metrics
	$(PY) scripts/command_reference.py
	$(PY) scripts/module_index.py
	$(PY) scripts/measured_words.py
	$(PY) scripts/file_keys.py

audit: setup-dev ## locked packages against known vulnerabilities, or one line where the service does not answer
	@$(PY) scripts/audit.py

sbom: setup-dev ## sbom.json, what all of this is made of (CycloneDX)
	@$(PY) scripts/sbom.py

pins: setup-dev ## SHA-256 of the servers' jars, fetched anew; after a change of their versions
	@$(PY) scripts/pin_servers.py

# What measuring needs is a part of what developing needs, at the same versions.
lock: ## requirements-dev.lock and requirements.lock from pyproject.toml
	.venv/bin/uv pip compile --universal --python-version 3.11 --extra dev --generate-hashes -q \
	  pyproject.toml -o requirements-dev.lock
	cp requirements-dev.lock requirements.lock
	.venv/bin/uv pip compile --universal --python-version 3.11 --generate-hashes -q \
	  pyproject.toml -o requirements.lock
