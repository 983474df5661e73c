# Tasks of this repository; `make help` lists them, `make` alone checks everything.
# Nothing is installed twice: the environment in .venv is brought up to date when pyproject.toml is newer.

SHELL = /bin/sh
MAKEFLAGS += --no-print-directory
.NOTPARALLEL:
.DEFAULT_GOAL = check

VENV = .venv
BIN = $(VENV)/bin
PIP = $(BIN)/python -m pip --disable-pip-version-check
# Tried in this order, since the wheel with a newer SQLite exists for these versions first.
PYTHONS = python3.11 python3.12 python3.13 python3 python3.14
ARGS =
CLIENT = client-vscode
# Processes that share the test files. Tests that are chosen by ARGS run in one, which shows what they print.
WORKERS = 2

.PHONY: help start check setup model lint fmt type test extension soak bench clean

help: ## list the tasks
	@sed -n 's/^\([a-z]*\):.*## /\1|/p' Makefile | while IFS='|' read -r name text; do \
		printf '  make %-9s %s\n' "$$name" "$$text"; done

start: $(VENV)/.installed ## install, fetch the model, start the daemon, ask a first question (ARGS=--yes asks nothing)
	@$(BIN)/palace-daemon start $(ARGS)

check: setup model lint type test extension ## everything that must pass before a commit: lint, types, tests

setup: $(VENV)/.installed-dev ## make the environment with the tools for development

model: $(VENV)/.installed ## install the embedding model into the cache of this user
	@echo '==> embedding model'
	@$(BIN)/palace-daemon model install

lint: setup ## style and format, changing nothing
	@echo '==> ruff'
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

fmt: setup ## bring style and format in order
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

type: setup ## types, strictly
	@echo '==> mypy'
	@$(BIN)/mypy
	@MYPYPATH=server:tests $(BIN)/mypy --explicit-package-bases tests

test: setup ## tests; ARGS="tests/watch -k limit" chooses
	@echo '==> pytest'
	@$(BIN)/python -m pytest $(if $(ARGS),$(ARGS),-n $(WORKERS) --dist loadfile --no-loadscope-reorder)

extension: setup model $(CLIENT)/node_modules/.installed ## the VS Code extension: types, lint, tests, VSIX, scenarios in a real workbench
	@cd $(CLIENT) && for task in types lint unit rpc workbench; do echo "==> extension: $$task"; npm run --silent $$task || exit 1; done

soak: setup ## the long runs: kills in the middle of mining, damaged and very large transcripts, histories of files
	@echo '==> soak'
	@PALACE_SOAK_KILLS=100 $(BIN)/python -m pytest tests/service/test_kill.py
	@PALACE_FUZZ_RUNS=20000 $(BIN)/python -m pytest tests/core/test_fuzz.py tests/service/test_damaged_files.py
	@PALACE_SOAK_KILLS=100 $(BIN)/python -m pytest tests/service/test_kill_switch.py
	@PALACE_SOAK_TEXTS=50000 $(BIN)/python -m pytest -s tests/service/test_backlog.py
	@PALACE_HISTORIES=500 $(BIN)/python -m pytest tests/service/test_any_history.py
	@PALACE_LARGE_MB=300 $(BIN)/python -m pytest -s tests/service/test_large_sources.py
	@PALACE_LOAD_S=600 $(BIN)/python -m pytest -s tests/rpc/test_load.py
	@PALACE_DAY_S=7200 $(BIN)/python -m pytest tests/e2e/test_working_day.py
	@for round in 1 2 3 4 5 6 7 8 9 10; do $(BIN)/python -m pytest -q tests/e2e/test_live_daemon.py || exit 1; done

bench: $(VENV)/.installed ## measure; without ARGS a few figures of everything, ARGS=embed runs one
	@$(BIN)/palace-daemon --bench $(ARGS)

clean: ## remove what the tools leave behind; the environment stays
	rm -rf build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find bench models server tests -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.installed: pyproject.toml | $(BIN)/python
	@echo '==> installing Palace and its libraries into $(VENV) (about a minute the first time)'
	@$(PIP) install --quiet --editable .
	@touch $@

$(VENV)/.installed-dev: pyproject.toml | $(BIN)/python
	@echo '==> installing Palace, its libraries and the tools for development into $(VENV) (about a minute the first time)'
	@$(PIP) install --quiet --editable '.[dev]'
	@touch $(VENV)/.installed $@

$(CLIENT)/node_modules/.installed: $(CLIENT)/package-lock.json
	@if ! command -v npm >/dev/null; then \
		if [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then \
			echo 'The extension needs Node 20 or newer with npm. On Debian or Ubuntu: sudo apt-get install nodejs npm' >&2; exit 1; \
		fi; \
		echo '==> installing nodejs and npm'; \
		apt-get update -qq && apt-get install -y -qq --no-install-recommends nodejs npm >/dev/null || exit 1; \
	fi; \
	if ! node -e 'process.exit(Number(process.versions.node.split(".")[0]) < 20 ? 1 : 0)'; then \
		echo "The extension needs Node 20 or newer; $$(command -v node) is $$(node --version)." >&2; exit 1; \
	fi
	@echo '==> installing the tools of the extension into $(CLIENT)/node_modules'
	@cd $(CLIENT) && npm ci --no-audit --no-fund --loglevel=error
	@touch $@

$(BIN)/python:
	@found=; for python in $(PYTHONS); do \
		if $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then found=$$python; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
		echo 'Palace needs Python 3.11 or newer; none of these is: $(PYTHONS).' >&2; \
		echo 'Install one, or name it: make PYTHONS=/path/to/python3.' >&2; exit 1; \
	fi; \
	if ! $$found -c 'import ensurepip, venv' 2>/dev/null; then \
		package=$$($$found -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])'); \
		if [ "$$(id -u)" != 0 ] || ! command -v apt-get >/dev/null; then \
			echo "$$found cannot make virtual environments. On Debian or Ubuntu: sudo apt-get install $$package" >&2; exit 1; \
		fi; \
		echo "==> installing $$package"; \
		apt-get update -qq && apt-get install -y -qq --no-install-recommends "$$package" >/dev/null || exit 1; \
	fi; \
	echo "==> making $(VENV) with $$($$found --version)"; \
	$$found -m venv --clear $(VENV)
