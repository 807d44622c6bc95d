# Each target sets up what it needs (see setup.sh) and is quick when nothing is missing.
.PHONY: demo test test-slow test-train lint clean setup setup-all

setup:
	@bash setup.sh

# With the trainer's packages too: torch, transformers, TRL.
setup-all:
	@bash setup.sh server,dev,train

demo: setup-all
	.venv/bin/etude demo

test: setup
	.venv/bin/pytest

test-slow: setup
	.venv/bin/pytest -m slow

# The trainer's tests, which need torch: the other two leave them out where it is not installed, and say so.
test-train: setup-all
	.venv/bin/pytest -m "slow or not slow" --ignore=tests/trainers/integrations/packages tests/trainers tests/benchmarks

# mypy wants the package's folder to be called etude, which a clone's need not be.
lint: setup
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	@link=$$(mktemp -d) && trap 'rm -rf "$$link"' EXIT && ln -s "$(CURDIR)" "$$link/etude" && cd "$$link" && \
	"$(CURDIR)/.venv/bin/mypy" --config-file etude/pyproject.toml --cache-dir "$(CURDIR)/.mypy_cache" -p etude

clean:
	rm -rf .venv build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +
