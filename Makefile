# Every target brings its own environment along: a clean clone needs Python 3.10 or newer and Java 17 or newer.
.DEFAULT_GOAL := help
.PHONY: help venv prepared wheel demo demo-stop quick test coverage test-long matrix mutants proof constraints lint format types docs bench clean

BIN := build/venv/bin
WORKERS ?= 2
export SPARK_LOCAL_IP := 127.0.0.1
# The entries of .ci/words.txt that have several words; codespell looks up what its pattern of a word finds.
PHRASES := \b(of (its|their|our|your) own|for ever|in vain)\b
# Tests start hundreds of Pythons: each would compile again what was edited since the installation, and pytest each test.
unexport PYTHONDONTWRITEBYTECODE

help: ## Show the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' Makefile | expand -t 14

venv:
	@.ci/bootstrap

wheel: venv ## Build dist/airflow_provider_ha-<version>-py3-none-any.whl
	@$(BIN)/python -m tests.support.wheel

demo: venv ## Run the main job end to end through a real Airflow (KEEP=1 leaves Airflow up, CLUSTER=standalone kills hosts)
	@$(BIN)/python -m tests.system.demo $(if $(KEEP),--keep) $(if $(CLUSTER),--cluster $(CLUSTER))

demo-stop: venv ## Stop what `make demo KEEP=1` left running
	@$(BIN)/python -m tests.system.demo --stop

quick: venv ## Check style, types and pure tests, in a minute
	@$(MAKE) --no-print-directory lint types
	@$(BIN)/pytest tests/unit tests/fake lab -q -m "not slow and not long and not hours and not spark and not airflow and not system" -n $(WORKERS)

# A third of a test's time is waiting for a session to expire or for a process to start: three at a time use two cores.
# Most tests of test-long start a Spark: with a third one, drivers lose leases of some seconds.
test coverage: WORKERS = 3
test-long: WORKERS = 2

prepared: venv # What the tests read, and takes minutes to make: once per machine
	@$(BIN)/python -m tests.support.preparation

test: prepared ## Run the quick suite (WORKERS=n test processes)
	@$(BIN)/python -m tests.support.in_memory \
	$(BIN)/pytest -m "not long and not hours and not system" -n $(WORKERS) --dist loadfile --no-loadscope-reorder
	@$(BIN)/python -m tests.support.coverage_figures

coverage: prepared ## Run the quick suite, and measure which lines and branches it executes: build/coverage
	@PYTHONPATH=$(CURDIR)/tests/support/measured_children \
	$(BIN)/pytest -m "not long and not hours and not system" -n $(WORKERS) --dist loadfile --no-loadscope-reorder \
	--cov --cov-config .ci/coverage.toml \
	--cov-report json:build/coverage/coverage.json --cov-report html:build/coverage/html
	@$(BIN)/python -m tests.support.coverage_figures --keep

# One Airflow at a time: three of them at once are slower than one after the other, for what each does all the time. Two
# soaks last a set time, with anything beside them. The demo on one host is `make demo`, which .ci/run runs as well. Each
# test is named as it ends (-v): pytest would show what has failed only after the last one, an hour later.
# What has passed is not run again after an interruption, as long as the repository is the same.
LONG = $(BIN)/python -m pytest -p lab.resume --resume build/long/$(1).txt -v --timeout 1800

test-long: venv ## Run what takes longer: a real Airflow, real kills, full matrices, soaks (up to 90 minutes); it can be interrupted
	@$(BIN)/python -m tests.support.preparation --s3a
	@echo "soaks, then the tests of a whole Airflow one by one, run beside the others; their reports come last" && mkdir -p build/long && \
	{ $(call LONG,apart) -m "(apart or soak) and not hours" > build/long/apart.log 2>&1; apart=$$?; \
	$(call LONG,system) -m "system and not hours" --deselect tests/system/test_demo.py > build/long/system.log 2>&1; \
	exit $$((apart + $$?)); } & beside=$$! && \
	trap 'pkill -P $$beside' INT TERM && \
	{ $(call LONG,others) -m "long and not (apart or soak or system or hours)" --durations 30 -n $(WORKERS) --dist loadfile --no-loadscope-reorder; \
	others=$$?; wait $$beside; of_beside=$$?; cat build/long/apart.log build/long/system.log; \
	failed=$$((others + of_beside)); [ $$failed -ne 0 ] || rm build/long/*.txt; exit $$failed; }

matrix: venv ## Test the wheel with other Pythons, Airflows and Sparks (ONLY=pattern MINUTES=60); it can be interrupted
	@$(BIN)/python -m lab.matrix.run $(if $(ONLY),--only '$(ONLY)') $(if $(MINUTES),--minutes $(MINUTES)) --workers $(WORKERS)

# MINUTES=480 is for each night: it goes on with what was not tried yet.
mutants: venv ## Break the package, one guard at a time, and see a test fail (ONLY=pattern), or at random (RANDOM=n SEED=s, or MINUTES=n SINCE=revision)
	@$(if $(RANDOM)$(MINUTES),nice -n 19 $(BIN)/python -m lab.random_changes.run $(if $(RANDOM),--number $(RANDOM)) \
	$(if $(MINUTES),--minutes $(MINUTES)) $(if $(SINCE),--since $(SINCE)) --seed $(or $(SEED),1),\
	$(BIN)/python -m tests.mutants.run) $(if $(ONLY),--only '$(ONLY)')

proof: venv ## Run what takes hours (SUITE=name); it can be interrupted, and writes docs/reference/proofs.md
	@$(if $(filter tests standbys standbys-alive,$(SUITE)),$(BIN)/python -m tests.support.preparation --s3a)
	@$(BIN)/python -m lab.run $(SUITE)

# Without hosts and URLs: a registry is the business of the machine.
constraints: venv ## Choose releases of what is new in pyproject.toml, for every Python (UPGRADE=1: the newest of everything)
	@echo uv | $(BIN)/uv pip compile pyproject.toml - --all-extras --universal --python-version 3.10 --quiet \
	--no-annotate --no-header --no-emit-index-url $(if $(UPGRADE),--upgrade) --output-file constraints.txt > /dev/null

lint: venv ## Check style and spelling
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/codespell
	@$(BIN)/codespell --dictionary .ci/words.txt --regex "$(PHRASES)|[\w'’-]+" --skip "*.pyc,*.xz,tests/data,*/static/vendor" \
	airflow_provider_ha benchmarks dags docs lab tests README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md

format: venv ## Format the code
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

types: venv ## Check types
	@$(BIN)/mypy --num-workers $(WORKERS)

docs: venv ## Build the documentation; a broken link fails
	@$(BIN)/mkdocs build --strict

bench: venv ## Measure, and print ratios against a baseline of the same run
	@for script in benchmarks/*.py; do $(BIN)/python -m "benchmarks.$$(basename "$$script" .py)" || exit 1; done

clean: ## Remove everything that was built, and stop what a demo left running
	@if [ -x $(BIN)/python ]; then $(BIN)/python -m tests.system.demo --stop; fi
	@rm -rf build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis
