# make demo | test | lint | bench | docs; each builds .venv first if it is missing. Python 3.11 with venv is all it takes.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
WORKERS ?= 2
TYPED := maze_kernel/src/maze_kernel $(foreach part,runtime processes trajectories deployment viewing drawing reports testing suite,plugins/maze_$(part)/src/maze_$(part)) \
         tests/third_party/maze_acme/src/maze_acme

.PHONY: help venv demo test test-slow lint format bench reference docs clean

help:
	@echo "make demo    train PPO on CartPole-v1 with a live view"
	@echo "make test    run the tests"
	@echo "make lint    formatting, lint rules, types"
	@echo "make bench   throughput beside other libraries"
	@echo "make reference  rewrite the generated pages"
	@echo "make docs    build the documentation into docs/_build/html"

venv: $(STAMP)

$(STAMP): requirements-dev.txt constraints.txt pyproject.toml $(wildcard */pyproject.toml plugins/*/pyproject.toml)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -r requirements-dev.txt
	touch $(STAMP)

demo: venv
	$(BIN)/maze train examples/cartpole_ppo.toml

test: venv
	$(BIN)/python -m pytest -n $(WORKERS)

test-slow: venv
	$(BIN)/python -m pytest -m "slow or learning"

lint: venv
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m ruff check .
	$(BIN)/python -m mypy $(TYPED)
	$(BIN)/python -m mypy $(wildcard maze_*/src/*/plugin.py maze_*/src/*/options.py plugins/*/src/*/plugin.py plugins/*/src/*/options.py)

format: venv
	$(BIN)/python -m ruff format .
	$(BIN)/python -m ruff check --fix .

bench: venv
	$(BIN)/python -m benchmarks

reference: venv
	$(BIN)/python docs/generate.py

docs: venv
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

clean:
	rm -rf $(VENV) docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis
