# Every target does its own set-up; `make setup` alone is instant when nothing changed.

PYTHON := .venv/bin/python
# One more than CI has cores: who waits for Spark or for a page leaves its core to another.
PYTEST := $(PYTHON) -m pytest -n 3
# One stamp for each state of the lock and the project file: going back to an older state is noticed too.
STAMP  := .venv/.set-up-$(shell cat requirements.lock pyproject.toml | cksum | cut -d ' ' -f 1)

.PHONY: setup demo test test-all soak chaos fuzz audit check format bench bench-peers bench-guard docs clean

setup: $(STAMP)
	@:

$(STAMP): requirements.lock pyproject.toml
	@.ci/setup
	@rm -f .venv/.set-up-*
	@touch $(STAMP)

demo: setup
	@.venv/bin/seqube demo

test: setup
	@$(PYTEST)

# More random cases for every property, and the slow tests.
test-all: setup
	@SEQUBE_EXAMPLES=$${SEQUBE_EXAMPLES:-2500} $(PYTEST) -m "slow or not slow"

# Random cases of every kind for half an hour, or SOAK_MINUTES; on failure it prints the SOAK_SEED that replays it.
SOAK_MINUTES ?= 30
SOAK_SEED ?=
soak: setup
	@$(PYTHON) tests/soak.py --minutes $(SOAK_MINUTES) $(if $(SOAK_SEED),--seed $(SOAK_SEED))

# A pipeline on a standalone cluster to which bad things happen, for half an hour, or CHAOS_MINUTES; says what happened.
CHAOS_MINUTES ?= 30
CHAOS_SEED ?=
CHAOS ?=
chaos: setup
	@$(PYTHON) tests/chaos.py --minutes $(CHAOS_MINUTES) $(if $(CHAOS_SEED),--seed $(CHAOS_SEED)) $(CHAOS)

# Hostile inputs for everything that reads one, by a seed; FUZZ=--guided asks Atheris to look for them (pip install atheris).
FUZZ_INPUTS ?= 10000000
FUZZ_MINUTES ?= 60
FUZZ_SEED ?= 0
FUZZ ?=
fuzz: setup
	@$(PYTHON) tests/hardening/fuzzing.py --inputs $(FUZZ_INPUTS) --minutes $(FUZZ_MINUTES) --seed $(FUZZ_SEED) $(FUZZ)

# Known weaknesses of the pinned packages, where somebody can be asked, or by a file of advisories (ADVISORIES=all.zip); it says where not.
ADVISORIES ?=
audit: setup
	@$(PYTHON) .ci/audit $(ADVISORIES)

check: setup
	@$(PYTHON) -m ruff check
	@$(PYTHON) -m ruff format --check
	@$(PYTHON) -m mypy
	@.venv/bin/lint-imports --no-logo

format: setup
	@$(PYTHON) -m ruff check --fix
	@$(PYTHON) -m ruff format

# The quick report, with the peers that are installed (make bench-peers); hours: make bench BENCH=--full
BENCH ?= --quick
bench: setup
	@$(PYTHON) -m bench $(BENCH)

bench-peers: setup
	@$(PYTHON) -m pip install --quiet --disable-pip-version-check --no-deps -r requirements-peers.lock

# Fails when a kernel has lost more than a quarter of its speed against fixed loops.
bench-guard: setup
	@$(PYTHON) -m bench.guard

# The site, in build/site, after every code block and every row of a truth table in it was run.
docs: setup
	@$(PYTHON) -m pytest tests/test_docs.py tests/test_truth_tables.py
	@NO_MKDOCS_2_WARNING=1 $(PYTHON) -m mkdocs build --quiet

clean:
	rm -rf .venv .seqube .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache build dist spark-warehouse
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
	rm -rf src/*.egg-info
