# make demo | test | test-ray | test-trackers | lint | bench | docs; each builds .venv first if it is missing. Python 3.11 or newer with venv is all it takes.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
RAY_VENV := .venv-ray
RAY_BIN := $(RAY_VENV)/bin
RAY_STAMP := $(RAY_VENV)/.installed
RAY_TESTS := $(wildcard tests/maze_ray tests/maze_rllib)
TRACKERS_VENV := .venv-trackers
TRACKERS_BIN := $(TRACKERS_VENV)/bin
TRACKERS_STAMP := $(TRACKERS_VENV)/.installed
WORKERS ?= 2
TYPED := $(wildcard maze_*/src/maze_* plugins/*/src/maze_*) tests/third_party/maze_acme/src/maze_acme

.PHONY: help venv ray-venv trackers-venv demo test test-slow test-ray test-trackers lint format bench reference docs clean

help:
	@echo "make demo    train PPO on CartPole-v1 with a live view"
	@echo "make test    run the tests"
	@echo "make test-ray  run the tests that need Ray, which is installed in $(RAY_VENV)"
	@echo "make test-trackers  run the tests that need MLflow, W&B or trackio, which are installed in $(TRACKERS_VENV)"
	@echo "make lint    formatting, lint rules, types"
	@echo "make bench   throughput beside other libraries"
	@echo "make reference  rewrite the generated pages"
	@echo "make docs    build the documentation into docs/_build/html"

venv: $(STAMP)

$(STAMP): requirements-dev.txt constraints.txt pyproject.toml $(wildcard */pyproject.toml plugins/*/pyproject.toml)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet -r requirements-dev.txt
	$(BIN)/python -m pip install --quiet --no-deps -e ./plugins/maze_ray -e ./plugins/maze_rllib \
	  -e ./plugins/maze_mlflow -e ./plugins/maze_trackio -e ./plugins/maze_wandb
	touch $(STAMP)

ray-venv: $(RAY_STAMP)

# What .venv has, at the same versions, and Ray on top of it.
$(RAY_STAMP): $(STAMP) requirements-ray.txt
	test -x $(RAY_BIN)/python || $(BIN)/python -m venv $(RAY_VENV)
	packages=$$($(BIN)/python -c "import site; print(site.getsitepackages()[0])") && \
	  echo "import site; site.addsitedir('$$packages')" > $$($(RAY_BIN)/python -c "import site; print(site.getsitepackages()[0])")/venv.pth
	$(RAY_BIN)/python -m pip install --quiet -r requirements-ray.txt
	touch $(RAY_STAMP)

trackers-venv: $(TRACKERS_STAMP)

# Likewise with the trackers. One of them keeps Pillow back, and the server of MLflow brings thirty packages.
$(TRACKERS_STAMP): $(STAMP) requirements-trackers.txt
	test -x $(TRACKERS_BIN)/python || $(BIN)/python -m venv $(TRACKERS_VENV)
	packages=$$($(BIN)/python -c "import site; print(site.getsitepackages()[0])") && \
	  echo "import site; site.addsitedir('$$packages')" > $$($(TRACKERS_BIN)/python -c "import site; print(site.getsitepackages()[0])")/venv.pth
	$(TRACKERS_BIN)/python -m pip install --quiet -r requirements-trackers.txt
	touch $(TRACKERS_STAMP)

demo: venv
	$(BIN)/maze train examples/cartpole_ppo.toml

test: venv
	$(BIN)/python -m pytest -n $(WORKERS)

test-slow: venv
	$(BIN)/python -m pytest -m "slow or learning"

test-ray: ray-venv
	$(RAY_BIN)/python -m pytest $(RAY_TESTS)

test-trackers: trackers-venv
	$(TRACKERS_BIN)/python -m pytest tests/maze_mlflow tests/maze_trackio tests/maze_wandb

lint: venv
	$(BIN)/python -m ruff format --check .
	$(BIN)/python -m ruff check .
	$(BIN)/python -m mypy $(TYPED)

format: venv
	$(BIN)/python -m ruff format .
	$(BIN)/python -m ruff check --fix .

bench: venv ray-venv
	$(BIN)/python -m benchmarks

reference: venv
	$(BIN)/python docs/generate.py

docs: venv
	$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

clean:
	rm -rf $(VENV) $(RAY_VENV) $(TRACKERS_VENV) docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis
