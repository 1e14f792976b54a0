# Two commands matter: `make serve` and `make test`. Both install what they need, once.

PYTHON ?= python3
UV_VERSION := 0.13.7
UV := .tools/bin/uv
BIN := .venv/bin
export UV_PYTHON_DOWNLOADS := never

.PHONY: help serve test setup check format lint types imports fast cover bench clean

help:  ## Show this list
	@awk -F':.*## ' '/^[a-z]+:.*## /{printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

serve: setup  ## Serve on http://127.0.0.1:8080 with the embedded model
	$(BIN)/antiphon serve $(ARGS)

test: setup  ## Run every test
	$(BIN)/python -m pytest -n 2 --dist loadgroup $(ARGS)

setup: .venv/.ready  ## Make .venv with everything, and fetch the embedded model

.venv/.ready: pyproject.toml uv.lock | $(UV)
	@echo "==> installing packages into .venv (locked)"
	$(UV) sync --locked --all-extras --python $(PYTHON)
	@echo "==> fetching the embedded model (once)"
	$(BIN)/antiphon model fetch
	@touch $@

$(UV):
	@echo "==> installing uv $(UV_VERSION) into .tools"
	$(PYTHON) -m venv .tools
	.tools/bin/pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)

check: setup format lint types imports fast  ## Format, lint, types, imports, fast tests

format:
	$(BIN)/ruff format --check .

lint:
	$(BIN)/ruff check .

types:
	$(BIN)/basedpyright

imports:
	$(BIN)/lint-imports --no-cache

fast:
	$(BIN)/python -m pytest -q -n 2 --dist loadgroup -m "not slow"

cover: setup  ## Run the fast tests with branch coverage
	$(BIN)/coverage run -m pytest -q -m "not slow"
	$(BIN)/coverage report

bench: setup  ## Measure against nginx, LiteLLM and agentic-api, and write the table into the README
	$(BIN)/python -m bench $(ARGS)

clean:  ## Remove everything that can be made again
	rm -rf .venv .tools .pytest_cache .ruff_cache .import_linter_cache .hypothesis .coverage bench/out
