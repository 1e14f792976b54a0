# Two commands matter: `make serve` and `make test`. Both install what they need, once.

PYTHON ?= python3
UV_VERSION := 0.13.7
UV := .tools/bin/uv
BIN := .venv/bin
CODEX_VERSION := 0.166.0
CODEX := .tools/clients/node_modules/.bin/codex
export UV_PYTHON_DOWNLOADS := never

.PHONY: help serve test test-clients setup check format lint types imports fast cover bench clean

help:  ## Show this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

serve: setup  ## Serve on http://127.0.0.1:8080 with the embedded model
	$(BIN)/antiphon serve $(ARGS)

test: setup  ## Run every test
	$(BIN)/python -m pytest -n 2 --dist loadgroup $(ARGS)

test-clients: setup $(CODEX)  ## Install the real codex (once, 440 MB) and run the tests that drive it
	$(BIN)/python -m pytest -m clients $(ARGS)

$(CODEX):
	@command -v npm >/dev/null || { echo "npm is missing: install Node.js 20 or newer, which brings it"; exit 1; }
	@echo "==> installing codex $(CODEX_VERSION) into .tools/clients"
	npm install --silent --no-audit --no-fund --prefix .tools/clients @openai/codex@$(CODEX_VERSION)

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
