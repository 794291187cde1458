# make demo, make test: each sets up .venv when it is missing or older than pyproject.toml.
# make demo SCALE=0.01 is a small one.

PYTHON ?= python3
SCALE ?= 0.1
VENV := .venv
BIN := $(VENV)/bin
# Bytecode of tests saves most of the time of their collection. More processes would want much memory.
TESTS := PYTHONDONTWRITEBYTECODE= $(BIN)/pytest --numprocesses auto --maxprocesses 4
MINUTES ?= 20
SIMULATORS := client_kills crashes isolation locking postgres_histories postgres_roles postgres_twin threads \
	why_histories wire_fuzz worker_kills
STAMP := $(VENV)/.installed

.PHONY: demo quick test full soak lint check golden docs setup clean

demo: $(STAMP)
	@$(BIN)/kpg tpch --scale $(SCALE)

quick: $(STAMP)
	@$(TESTS) -m "not slow and not soak"

test: $(STAMP)
	@$(TESTS) -m "not soak"

full: $(STAMP)
	@$(TESTS)

soak: $(STAMP)
	$(TESTS) -m soak --draw
	@for simulator in $(SIMULATORS); do \
		echo "$$simulator: $(MINUTES) minutes, seed $${seed:=$$(date +%s)}"; \
		$(BIN)/python -m tests.properties.$$simulator --minutes $(MINUTES) --seed $$seed || exit 1; done

lint: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	@for script in imports classes references layout matches documents prose; do \
		echo "$(BIN)/python .ci/$$script.py"; $(BIN)/python .ci/$$script.py || exit 1; done

check: lint test

golden: $(STAMP)
	$(BIN)/pytest tests/unit/compiler tests/sql --rewrite

docs: $(STAMP)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

setup: $(STAMP)

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "kpg needs Python 3.11 or newer: make PYTHON=/path/to/python3.11 $(MAKECMDGOALS)" >&2; exit 1; }
	@echo "setting up $(VENV): once, a minute or two"
	@$(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --editable '.[dev]'
	@$(BIN)/python -m compileall -q kpg compiler runtime tpch  # some Pythons may write no bytecode when they start
	@touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
