# Everything a person types. `make` alone lists it. Works with GNU make 3.81 (macOS) and later.
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
ONCE ?=
SUMMARY ?=
DAYS ?= 90
ROUNDS ?= 3000
TASKS ?= 10000

.DEFAULT_GOAL := help
.PHONY: help run test soak check simulate bench clean

help:
	@echo "make run      the whole loop on real input: services, tasks, pool, training, a table; stays up until Ctrl-C"
	@echo "              ONCE=1 leaves after the loop, SUMMARY=FILE writes its figures as JSON"
	@echo "make test     all tests"
	@echo "make soak     collection's fault tests for long: ROUNDS=3000 kills, 30 disks after each power cut;"
	@echo "              TASKS=10000 single tasks with agents that fail, dawdle and crash"
	@echo "make simulate DAYS=90: days go by in the pool, by its real sensors and jobs; the counts balance every day"
	@echo "make check    format, lint, import walls, types"
	@echo "make bench    speed, each figure beside a named peer"
	@echo "make clean    stop what runs; remove .flywheel (everything the loop made), .venv and caches"

run: $(STAMP)
	@$(BIN)/flywheel quickstart $(if $(ONCE),--once) $(if $(SUMMARY),--summary "$(SUMMARY)")

test: $(STAMP)
	$(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder

soak: $(STAMP)
	FLYWHEEL_SOAK_ROUNDS=$(ROUNDS) $(BIN)/python -m pytest --timeout 3600 tests/collection/test_crashes.py \
		tests/collection/test_power_loss.py tests/collection/test_injected_faults.py
	FLYWHEEL_SOAK_TASKS=$(TASKS) $(BIN)/python -m pytest --timeout 3600 tests/arbiter/running/test_soak.py

check: $(STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

simulate: $(STAMP)
	@$(BIN)/python -m scripts.simulate --days $(DAYS)

bench: $(STAMP)
	@for file in benchmarks/[a-z]*.py; do $(BIN)/python "$$file" || exit 1; done

clean:
	@if [ -x $(BIN)/flywheel ] && [ -d .flywheel ]; then $(BIN)/flywheel --home .flywheel down; fi
	rm -rf .flywheel
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

# Made again only when what it is made from changes. A broken build leaves no stamp, so the next one goes on.
$(STAMP): pyproject.toml constraints.txt requirements-data.txt
	@sh scripts/make_venv.sh $(VENV)
	@touch $@
