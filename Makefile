# make report [PROFILE=quick] · make test · make lab · make bench · make clean
# Every target sets up .venv by itself, and again only when environment.yml changes.
PYTHON ?= $(or $(shell command -v python3.11),$(shell command -v python3),python3)
PROFILE ?= quick
FLAGS ?=
SETUP = $(PYTHON) lib/workbook/install.py
export PYTHONNOUSERSITE = 1

.PHONY: report test lab bench clean
report:
	@$(SETUP) && .venv/bin/python -m lib.report.run $(PROFILE) $(FLAGS)

test:
	@$(SETUP) && .venv/bin/python -m pytest --benchmark-skip $(FLAGS)

lab:
	@$(SETUP) && .venv/bin/python -m jupyterlab notebooks $(FLAGS)

bench:
	@$(SETUP) && .venv/bin/python -m pytest tests/benchmarks --benchmark-only $(FLAGS)

clean:
	rm -rf .venv .venv.lock .snakemake data/generated data/models .pytest_cache .ruff_cache .hypothesis .benchmarks *.egg-info
