# `make demo` and `make test` set up all they need in a virtual environment of their own.
PYTHON ?= python3
VENV   ?= .venv
UV      = UV_FIND_LINKS="$${PIP_FIND_LINKS:-}" $(VENV)/bin/uv pip install -q -p $(VENV)/bin/python -c constraints.txt

.PHONY: demo test lowest lint docs check clean

demo: $(VENV)/core
	$(VENV)/bin/sidkit demo

test: $(VENV)/dev
	$(VENV)/bin/python -m pytest

# The core with the lowest versions that pyproject.toml admits.
lowest: $(VENV)/bin/uv
	$(VENV)/bin/uv venv -q --clear -p $(PYTHON) $(VENV)-lowest
	$(VENV)/bin/uv pip install -q -p $(VENV)-lowest/bin/python --resolution lowest-direct '.[explore,report]' \
		'pytest>=8' 'pytest-timeout>=2.3' 'hypothesis>=6.100' 'pandas>=2.2' 'polars>=1'
	$(VENV)-lowest/bin/python -m pytest tests/sids tests/data tests/files tests/test_paper.py tests/cli/test_cli.py

lint: $(VENV)/dev
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

docs: $(VENV)/docs
	$(VENV)/bin/zensical build --strict --clean

check: lint docs test

$(VENV)/bin/uv:
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install -q uv

# What the commands that the demo prints need.
$(VENV)/core: $(VENV)/bin/uv pyproject.toml constraints.txt
	$(UV) -e '.[explore,retriever]'
	touch $@

$(VENV)/docs: $(VENV)/bin/uv pyproject.toml constraints.txt
	$(UV) -e '.[docs]'
	touch $@

$(VENV)/dev: $(VENV)/bin/uv pyproject.toml constraints.txt
	$(UV) -e '.[dev]'
	touch $@ $(VENV)/core $(VENV)/docs

clean:
	rm -rf $(VENV) $(VENV)-lowest .mypy_cache .ruff_cache .pytest_cache .hypothesis .cache site
