# make report [PROFILE=quick] · make dataset [WORLDS="…"] · make train [PROFILE=full] [PARTS="…"]
# make test [FAST=1] · make lab · make bench · make clean
# Every target sets up .venv by itself, and again only when environment.yml changes.
PYTHON ?= $(or $(shell command -v python3.11),$(shell command -v python3),python3)
PROFILE ?= quick
FLAGS ?=
# PARTS: which trained parts `make train` makes, of those in lib/assistant/parts.py and lib/workflows/parts.py; empty: all.
PARTS ?=
# WORLDS: what `make dataset` writes, of mixed, explicit, hard and workflows; empty: the profile's world, and workflows.
WORLDS ?=
# FAST=1 leaves out what starts notebooks, kills runs or trains. Files of tests are spread over the cores, long ones first.
FAST ?=
SPREAD = -n logical --maxprocesses 4 --dist loadfile --no-loadscope-reorder
SETUP = $(PYTHON) lib/workbook/install.py
# JupyterLab starts in the project's folder, on the list of notebooks, which lab/overrides.json lets it show as a page.
LAB = --LabApp.default_url=/lab/tree/notebooks/README.md --LabApp.app_settings_dir=lib/workbook/lab
export PYTHONNOUSERSITE = 1
# threads that wait sleep, or they take the time of the threads they wait for: see lib/workbook/machine.py
export OMP_WAIT_POLICY ?= passive
ifeq ($(OMP_WAIT_POLICY),passive)
export GOMP_SPINCOUNT ?= 2000
endif

.PHONY: report dataset train test lab bench clean
report:
	@$(SETUP) && .venv/bin/python -m lib.report.run $(PROFILE) $(FLAGS)

dataset:
	@$(SETUP) && .venv/bin/python -m lib.report.release $(PROFILE) $(WORLDS)

train:
	@$(SETUP) && .venv/bin/python -m lib.report.train $(PROFILE) $(PARTS)

test:
	@$(SETUP) && .venv/bin/python -m pytest --benchmark-skip --durations=30 --durations-min=5 $(SPREAD) $(if $(FAST),-m "not slow") $(FLAGS)

lab:
	@$(SETUP) && .venv/bin/python -m jupyterlab $(LAB) $(FLAGS)

bench:
	@$(SETUP) && .venv/bin/python -m pytest tests/benchmarks --benchmark-only $(FLAGS)

clean:
	rm -rf .venv .venv.lock .snakemake data/generated data/release data/models .pytest_cache .ruff_cache .mypy_cache .hypothesis .benchmarks *.egg-info
