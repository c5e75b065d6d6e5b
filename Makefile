# Two commands matter: `make demo` and `make test`. Both install what they need into .venv.
.POSIX:
.PHONY: demo test check tests pythons environments soak bench lock clean

PYTHON = $$(sh .ci/pythons | head -n 1)
RUN = .venv/.run-installed
DEV = .venv/.dev-installed
BIN = .venv/bin/python -m

# Test workers, and how much of the expensive tests `make test` does (`make soak` does all).
WORKERS = 3
# One more than the cores of CI: tests wait for processes, too. numpy's own threads would only wait.
TESTS = OPENBLAS_NUM_THREADS=1 $(BIN) pytest -n $(WORKERS)

demo: $(RUN)
	.venv/bin/echelon demo

# The other Pythons are installed beside the checks, which use one core.
test: $(DEV)
	$(MAKE) -j 2 check environments
	$(MAKE) tests
	$(MAKE) pythons

# Lint, format, types, import directions.
check: $(DEV)
	$(BIN) ruff check .
	$(BIN) ruff format --check .
	$(BIN) mypy
	.venv/bin/lint-imports

# The full suite on one Python. A tracer makes Python several times as slow: the engine's own tests
# carry the coverage gate, and what only repeats them by the thousand runs without it.
tests: $(DEV)
	$(BIN) coverage erase
	$(TESTS) -m "not untraced" --cov --cov-report=term tests/theatre
	$(TESTS) -m untraced

# Vectors, Cartograph and results_hash on every other supported Python of this machine.
pythons: $(DEV)
	sh .ci/reproduce

environments: $(DEV)
	sh .ci/reproduce --install-only

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
