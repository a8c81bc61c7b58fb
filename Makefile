# make run: start headwater here.   make test: every suite, real servers included.   make help: the rest.
PORT ?= 8420
DATA ?= data
DEMO ?= 1
PYTHON ?= python3
BIN = .venv/bin
# Tests start hundreds of Python processes: each would compile every module anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help venv venv-run run test unit check bench soak services services-down clean

help:            ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed 's/:.*## /\t/' | expand -t 18

venv-run:
	@$(PYTHON) tools/venv.py run

venv:            ## the environment with the tools for developing, in .venv
	@$(PYTHON) tools/venv.py dev

run: venv-run    ## start headwater on 127.0.0.1:$(PORT) with its data in ./$(DATA), and run the tour (DEMO=0 leaves it out)
	@exec $(BIN)/headwater serve --port $(PORT) --data $(DATA) $(if $(filter 0,$(DEMO)),,--demo)

check: venv      ## ruff, mypy --strict, the layers
	$(BIN)/ruff format --check src tests tools bench
	$(BIN)/ruff check src tests tools bench
	$(BIN)/mypy
	MYPYPATH=src:. $(BIN)/mypy tests/typed
	$(BIN)/lint-imports

unit: venv       ## the quick tests, a minute or two
	$(BIN)/python -m tools.testrun unit

test: check      ## every suite, real servers included
	$(BIN)/python -m tools.testrun

soak: venv       ## the long counts: kill rounds, model seeds, fuzz
	$(BIN)/python -m tools.testrun --soak

bench: venv      ## every mark as a ratio to a floor or a peer measured in the same run
	$(BIN)/python -m bench

services: venv   ## real Kafka, Cassandra and Spark for tests and for trying things out
	$(BIN)/python -m tools.services up kafka cassandra spark

services-down: venv
	$(BIN)/python -m tools.services down

clean:           ## remove the environment and caches; data stay
	rm -rf .venv .venv-peers .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache bench/results
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
