# Two commands do all the set-up:  make train [ARGS="parallel=fsdp precision=bf16"]   make test
PYTHON ?= python3
VENV ?= .venv
ARGS ?=
JOBS ?= 2

.PHONY: train test test-long test-slurm lint clean

train: $(VENV)/installed
	$(VENV)/bin/python -m train $(ARGS)

test: $(VENV)/installed-dev
	$(VENV)/bin/python -m pytest -n $(JOBS) --dist worksteal $(ARGS)

test-long: $(VENV)/installed-dev
	$(VENV)/bin/python -m pytest -m long -s $(ARGS)

test-slurm: $(VENV)/installed-dev
	$(VENV)/bin/python -m pytest -m slurm $(ARGS)

lint: $(VENV)/installed-dev
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy

$(VENV)/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/pip install --quiet -c constraints.txt -e .
	touch $@

$(VENV)/installed-dev: $(VENV)/installed
	$(VENV)/bin/pip install --quiet -c constraints.txt -e '.[dev]'
	touch $@

clean:
	rm -rf $(VENV) build *.egg-info .pytest_cache .mypy_cache .ruff_cache
