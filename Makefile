# Every target does its own set-up in .venv; nothing has to be installed by hand.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
CORE   := $(VENV)/.core.stamp
DEV    := $(VENV)/.dev.stamp
OLD    := .venv-tf215
LOWEST := .venv-lowest
UV     := $(LOWEST)/uv/bin/uv
APT    := apt-get install --yes --no-install-recommends
JOBS   ?= 2
ROUNDS ?= 20
LOAD   ?= 4
AT_ONCE ?= 4
WORKERS ?= 4
WHOLE  := --editable '.[dev,docs,tensorflow,parquet]'
PAGE   := viewer/build.mjs viewer/package-lock.json $(shell find viewer/src -type f)
PIP    := $(BIN)/python -m pip --disable-pip-version-check install --quiet
export TF_CPP_MIN_LOG_LEVEL ?= 3
export TF_ENABLE_ONEDNN_OPTS ?= 0

.PHONY: help demo browser pictures test test-browser test-hard kill losses test-tf215 test-py312 test-py313 check bench bench-advice bench-budget bench-diff bench-workers fuzz search slow-steps soak soak-recorder wheel docs docs-site clean
help:   ## list the targets
	@grep -E '^[a-z0-9-]+: .*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

# Installing makes the viewer's page, too (tools/viewer_page.py).
$(CORE): pyproject.toml $(PAGE) | $(VENV)/bin/python
	$(PIP) --editable .
	@touch $@

# What installs the other environments, in seconds.
$(UV):
	$(PYTHON) -m venv $(LOWEST)/uv
	$(LOWEST)/uv/bin/python -m pip --disable-pip-version-check install --quiet uv

# With uv, where one of these environments brought it, it takes a quarter of the time.
$(DEV): pyproject.toml $(PAGE) | $(VENV)/bin/python
	if test -x $(UV); then $(UV) pip install --quiet --compile-bytecode --python $(VENV) $(WHOLE); \
	else $(PIP) $(WHOLE); fi
	@touch $@ $(CORE)

demo: $(CORE)   ## train a small TensorFlow 1 network on the embedded engine and show what limits it
	$(BIN)/stepscope run --engine embedded --trace full --report --out demo-out examples/demo.py

test: check browser   ## everything: lint, types, import directions, all tests (with real TensorFlow)
	-@$(BIN)/stepscope prepare
	$(BIN)/python -m pytest --numprocesses $(JOBS) --dist loadfile

test-hard: $(DEV)   ## threads, deadlines and processes 20 times under load, then all on one busy core (HALF=rounds, whole)
	-@$(BIN)/stepscope prepare
	$(BIN)/python tests/hard/run_hard.py --rounds $(ROUNDS) --at-once $(AT_ONCE) \
	  --workers $(WORKERS) --load $(LOAD) $(if $(HALF),--half $(HALF)) $(TESTS)

DEATHS ?= 1000
kill: $(DEV)   ## 1,000 scripts that die while they are recorded, in every way (DEATHS=, an hour or two)
	-@$(BIN)/stepscope prepare
	$(BIN)/python tests/hard/kill.py --deaths $(DEATHS) --at-once $(JOBS)

losses: $(DEV)   ## 20,000 runs on our executor by 4 threads, each of them counted (start it beside other work)
	$(BIN)/python tests/hard/losses.py

test-py312: ; @$(MAKE) --no-print-directory other-python VERSION=3.12   ## all tests on Python 3.12, if there is one
test-py313: ; @$(MAKE) --no-print-directory other-python VERSION=3.13   ## all tests on Python 3.13, if there is one

.PHONY: other-python
other-python: | $(UV)
	@found=; \
	for python in python$(VERSION) "$${PYENV_ROOT:-$$HOME/.pyenv}"/versions/$(VERSION).*/bin/python; do \
	  "$$python" -c 'import sys; sys.exit(sys.version_info[:2] != tuple(map(int, "$(VERSION)".split("."))))' \
	    2>/dev/null && { found="$$python"; break; }; \
	done; \
	test -n "$$found" || { echo "There is no Python $(VERSION) here: nothing was tried."; exit 0; }; \
	set -ex; \
	test -x .venv-py$(VERSION)/bin/python || "$$found" -m venv .venv-py$(VERSION); \
	$(UV) pip install --quiet --python .venv-py$(VERSION) $(WHOLE); \
	.venv-py$(VERSION)/bin/python -m pytest --numprocesses $(JOBS) --dist loadfile $(TESTS)

$(OLD)/.stamp: pyproject.toml | $(UV)
	$(PYTHON) -m venv $(OLD)
	$(UV) pip install --quiet --python $(OLD) --editable '.[dev]' 'tensorflow-cpu==2.15.*'
	@touch $@

test-tf215: $(OLD)/.stamp   ## the adapter on TensorFlow 2.15, the last with Estimator (Python 3.11)
	-@$(OLD)/bin/stepscope prepare
	$(OLD)/bin/python -m pytest --numprocesses $(JOBS) --dist loadfile tests/unit/adapters \
	  tests/unit/analysis tests/contract tests/golden tests/unit/cli/script/test_cli_tensorflow.py \
	  tests/unit/cli/script/test_cli_estimator.py tests/unit/programs/test_estimator_on_tensorflow.py

browser:   ## Chromium for the tests that need a browser, as the Debian package, if there is none
	@command -v chromium >/dev/null || command -v google-chrome >/dev/null \
	|| { test "$$(id -u)" = 0 && $(APT) chromium >/dev/null \
	     || { apt-get update -qq && $(APT) chromium >/dev/null; }; } 2>/dev/null \
	|| echo "No browser, and none could be installed: tests/browser will be skipped." \
	        "As root: apt-get install chromium"

test-browser: $(DEV) browser   ## every page of every kind of input in view, reports and TensorBoard, in a browser (minutes)
	$(BIN)/python -m pytest --numprocesses $(JOBS) --dist worksteal -m 'everywhere or not everywhere' tests/browser

pictures: $(DEV) browser   ## take the pictures of TensorBoard in docs/pictures again
	STEPSCOPE_PICTURES=docs/pictures $(BIN)/python -m pytest tests/browser

check: $(DEV)   ## ruff, mypy --strict, import-linter; types and unit tests of the viewer's page
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python tools/check_viewer.py

bench: $(DEV)   ## side by side with TensorFlow, as ratios; writes benchmarks/results.json
	$(BIN)/python -m benchmarks

bench-advice: $(DEV)   ## what `advise` predicts against what a change achieves, and replays (some minutes)
	$(BIN)/python -m benchmarks advice replays

bench-budget: $(DEV)   ## what a Recorder costs against its budget, on four programs (a quarter of an hour)
	@for program in keras embedded session eager; do $(BIN)/python -m benchmarks budget_$$program || exit 1; done

bench-diff: $(DEV)   ## how often `diff` is right, on 750 pairs of real sets of runs (some minutes)
	$(BIN)/python -m benchmarks.diff_trials

bench-workers: $(DEV)   ## the files of 1,000 workers, merged and asked about (20 minutes, 9 GB of disk)
	STEPSCOPE_WORKERS=1000 STEPSCOPE_WORKER_STEPS=100 $(BIN)/python -m benchmarks workers

fuzz: $(DEV)   ## 100,000 broken files into every reader (some minutes)
	$(BIN)/python tests/fuzz/fuzz_readers.py

# As somebody has it who installs the package today beside the oldest of what it depends on: only what
# pyproject.toml names is old, and nothing else is there.
OLDEST := $(LOWEST)/env/bin/python -m pytest -p no:cacheprovider

.PHONY: test-lowest smoke-lowest sanitize clean-lowest
$(LOWEST)/.stamp: pyproject.toml | $(UV)
	$(UV) venv --quiet --allow-existing --python 3.11 $(LOWEST)/env
	$(UV) pip install --quiet --python $(LOWEST)/env --resolution lowest-direct --editable '.[dev,parquet]'
	$(UV) pip install --quiet --python $(LOWEST)/env pip
	@touch $@

test-lowest: $(LOWEST)/.stamp smoke-lowest   ## all that needs no TensorFlow, on the lowest versions allowed (Python 3.11)
	$(OLDEST) --numprocesses $(JOBS) --dist loadfile tests/golden tests/property tests/contract tests/unit \
	  --ignore tests/unit/adapters --ignore tests/unit/export/test_tensorboard_http.py \
	  --ignore tests/unit/cli/script/test_cli_estimator.py
	@# The server of TensorBoard 2.15, not its messages, needs a setuptools that has pkg_resources.
	$(UV) pip install --quiet --python $(LOWEST)/env --target $(LOWEST)/setuptools 'setuptools<81'
	PYTHONPATH=$(LOWEST)/setuptools $(OLDEST) tests/unit/export/test_tensorboard_http.py \
	  tests/unit/cli/script/test_cli_estimator.py

smoke-lowest: $(LOWEST)/.stamp   ## every command once on the lowest versions allowed, without a warning
	$(LOWEST)/env/bin/python -W error -m stepscope info docs/questions/recorded/classify
	$(OLDEST) tests/unit/metadata/test_messages_kept.py tests/golden/test_golden_commands.py \
	  tests/golden/test_golden_memory.py -k 'not 160'

sanitize: $(DEV)   ## the native log under AddressSanitizer and ThreadSanitizer, at length (minutes)
	STEPSCOPE_ROUNDS=2000 $(BIN)/python -m pytest tests/native

clean: clean-lowest
clean-lowest:
	rm -rf $(LOWEST)

search: $(DEV)   ## every random test with 2,000 examples that differ each time (some minutes)
	STEPSCOPE_HYPOTHESIS=search $(BIN)/python -m pytest --numprocesses $(JOBS) --timeout=1800 \
	  $$(grep --recursive --files-with-matches --include='test_*.py' '^@given' tests)

MINUTES ?= 10
soak: $(DEV)   ## many threads for ten minutes on each engine: hangs, wrong values, late deadlines, growth
	$(BIN)/python tests/soak/soak.py --engine embedded --minutes $(MINUTES)
	STEPSCOPE_EXECUTOR=off $(BIN)/python tests/soak/soak.py --engine tensorflow --minutes $(MINUTES)
	-@$(BIN)/stepscope prepare
	$(BIN)/python tests/soak/soak.py --engine tensorflow --minutes $(MINUTES)

KILLS ?= 100
soak-recorder: $(DEV)   ## an always-on recorder for ten minutes, then 100 random kills (MINUTES=, KILLS=)
	$(BIN)/python tests/soak/recorder_soak.py --minutes $(MINUTES) --kills $(KILLS)

TRIALS ?= 20
slow-steps: $(DEV)   ## ten slow steps among 2,000, 20 times on each engine: all kept and explained (TRIALS=)
	-@$(BIN)/stepscope prepare
	$(BIN)/python tests/hard/slow_steps_trials.py --trials $(TRIALS)

wheel: $(DEV)   ## for this platform, with the executor compiled for each TensorFlow from 2.15 on (an hour; then a minute)
	$(BIN)/python tools/make_wheel.py $(WHEEL)

docs: $(DEV)   ## write again the pages that are generated from the code
	$(BIN)/python -m stepscope.cli.output.support_table docs/support.md
	$(BIN)/python docs/make_pages.py
	$(BIN)/python docs/make_ops_page.py
	$(BIN)/python docs/make_names_page.py

docs-site: $(DEV)   ## the documentation as a site, in build/site; a warning fails it
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet

clean:   ## remove what the other targets made
	rm -rf $(VENV) $(OLD) .venv-py3.* demo-out build dist .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
