# Two commands matter: `make demo` and `make test`. Both install what they need into .venv.
.POSIX:
.PHONY: demo test check tests pythons soak bench lock clean

PYTHON = $$(sh .ci/pythons | head -n 1)
RUN = .venv/.run-installed
DEV = .venv/.dev-installed
BIN = .venv/bin/python -m

# Test workers, and how much of the expensive tests `make test` does (`make soak` does all).
WORKERS = 2
# The workers use the cores; numpy's own threads would only wait for each other.
TESTS = OPENBLAS_NUM_THREADS=1 $(BIN) pytest -n $(WORKERS)

demo: $(RUN)
	.venv/bin/echelon demo

test: check tests pythons

# Lint, format, types, import directions.
check: $(DEV)
	$(BIN) ruff check .
	$(BIN) ruff format --check .
	$(BIN) mypy
	.venv/bin/lint-imports

# The full suite on one Python, with the coverage gate of the engine.
tests: $(DEV)
	$(BIN) coverage erase
	$(TESTS) --cov --cov-report=term

# Vectors, Cartograph and results_hash on every other supported Python of this machine.
pythons: $(DEV)
	sh .ci/reproduce

# The same tests with larger numbers: every mutant, a million doubles, more crashes.
soak: $(DEV)
	ECHELON_SOAK=1 $(TESTS)
	ECHELON_SOAK=1 sh .ci/reproduce

# Figures, never assertions.
bench: $(DEV)
	.venv/bin/python tests/benchmarks/run.py

$(RUN): requirements.lock pyproject.toml
	test -x .venv/bin/python || "$(PYTHON)" -m venv .venv
	$(BIN) pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	$(BIN) pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $(RUN)

$(DEV): requirements-dev.lock $(RUN)
	$(BIN) pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	touch $(DEV)

# Needs uv; the lock files carry hashes and no index address.
lock:
	uv pip compile pyproject.toml --group build --universal --python-version 3.11 \
		--generate-hashes --no-emit-index-url --no-header -q -o requirements.lock
	uv pip compile pyproject.toml --group dev --universal --python-version 3.11 \
		--generate-hashes --no-emit-index-url --no-header -q -c requirements.lock -o requirements-dev.lock

clean:
	rm -rf .venv .venv-* .echelon .coverage* .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
