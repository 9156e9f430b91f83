# `make demo` and `make test` set up all they need in a virtual environment of their own.
PYTHON ?= python3
VENV   ?= .venv
UV      = UV_FIND_LINKS="$${PIP_FIND_LINKS:-}" $(VENV)/bin/uv pip install -q -p $(VENV)/bin/python -c constraints.txt

.PHONY: demo test offline readers lowest newest lint docs wheel check clean

demo: $(VENV)/core
	$(VENV)/bin/sidkit demo

test: $(VENV)/dev
	$(VENV)/bin/python -m pytest

# The tests where only the loopback device is there, so no route to any other machine; as root.
offline: $(VENV)/dev
	unshare --net sh -c 'ip link set lo up && ! ip route get 192.0.2.1 && exec $(VENV)/bin/python -m pytest'

# Exports against readers that cannot be dependencies: FlashRec asks for transformers 4 and CUDA, semantic-id for a solver
# of 30 MB that its reader does not need; and the interface of SGLang, which asks for CUDA. They lie beside the environment,
# so that nothing else sees them.
readers: $(VENV)/dev
	$(UV) --no-deps --target $(VENV)/readers $(READERS)
	PYTHONPATH=$(VENV)/readers $(VENV)/bin/python -m pytest tests/export tests/decoding \
		-k "flashrec or semantic_id or sglang_itself"

READERS = semantic-id==0.2.5 flashrec==0.1.2 sglang==0.5.23 dill==0.4.1

# A short suite of the core with the lowest versions that pyproject.toml admits, and with the newest that there are.
CORE  = '.[explore,report]' 'pytest>=8' 'pytest-timeout>=2.3' 'hypothesis>=6.100' 'pandas>=2.2' 'polars>=1'
SHORT = tests/sids tests/files tests/tokenizer/test_store.py tests/data/test_embeddings.py tests/data/test_frames.py \
	tests/cli/test_outputs.py tests/test_paper.py

lowest: $(VENV)/bin/uv
	$(call short_suite,lowest,lowest-direct)

newest: $(VENV)/bin/uv
	$(call short_suite,newest,highest)

define short_suite
$(VENV)/bin/uv venv -q --clear -p $(PYTHON) $(VENV)-$(1)
$(VENV)/bin/uv pip install -q -p $(VENV)-$(1)/bin/python --resolution $(2) $(CORE)
$(VENV)-$(1)/bin/python -m pytest $(SHORT)
endef

lint: $(VENV)/dev
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

docs: $(VENV)/docs
	$(VENV)/bin/zensical build --strict --clean

# The files of a release, with the compiled kernels, and what an index would say to them.
wheel: $(VENV)/dev
	rm -rf dist
	$(VENV)/bin/python -m build --no-isolation
	$(VENV)/bin/twine check --strict dist/*

check: lint docs wheel test

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
	rm -rf $(VENV) $(VENV)-lowest $(VENV)-newest .mypy_cache .ruff_cache .pytest_cache .hypothesis .cache site dist
