# Each target installs what it needs (see setup.sh); that is quick when nothing is missing.
.PHONY: demo docs test test-slow test-train lint clean setup setup-demo setup-all

setup:
	@bash setup.sh

# The server and the trainer (torch, transformers, TRL), without the tools of developers.
setup-demo:
	@bash setup.sh server,train

setup-all:
	@bash setup.sh server,dev,train

demo: setup-demo
	@.venv/bin/etude demo

# mkdocstrings reads a folder called etude, and a clone may have any name.
docs:
	@bash setup.sh docs
	@link=$$(mktemp -d) && trap 'rm -rf "$$link"' EXIT && ln -s "$(CURDIR)" "$$link/etude" && \
	NO_MKDOCS_2_WARNING=1 PYTHONPATH="$$link" .venv/bin/mkdocs build --strict

# Two files of tests at a time; the fixtures of a file are made once.
test: setup
	.venv/bin/pytest -n 2 --dist loadfile

test-slow: setup
	.venv/bin/pytest -m slow

# The trainer's tests need torch; the other targets leave them out where it is not installed, and say so.
test-train: setup-all
	.venv/bin/pytest -m "slow or not slow" --ignore=tests/trainers/integrations/packages tests/trainers tests/research tests/cli/demo

# mypy needs a folder called etude, and a clone may have any name.
lint: setup
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/python tests/helpers/prose_check.py
	@link=$$(mktemp -d) && trap 'rm -rf "$$link"' EXIT && ln -s "$(CURDIR)" "$$link/etude" && cd "$$link" && \
	"$(CURDIR)/.venv/bin/mypy" --config-file etude/pyproject.toml --cache-dir "$(CURDIR)/.mypy_cache" -p etude

clean:
	rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
