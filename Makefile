# Every target makes its own virtual environment in .venv; it needs Python >= 3.11, git and make.
#   make demo    a job fails half-way, is retried, and repeats no finished step; no service needed
#   make test    all tests on a private PostgreSQL and Valkey; ARGS="tests/unit -k retry" narrows it
#   make serve   the console on what the demo left, http://127.0.0.1:8000/admin/; PORT=8001 for another
#   make coverage  what of jobs/ the tests reach, branches too; fails below the bar in pyproject.toml
#   make mutants   the kernel's policy and statements broken on purpose: which breaks go unseen?
#   make lint    style, types, import direction, migrations, deployment checks
#   make bench   speed beside raw Celery and others, docs/benchmarks.md; ARGS="recovery memory scale"
#   make lock    pin requirements*.in again, for maintainers

.DEFAULT_GOAL := help
SHELL := /bin/bash
VENV := .venv
PY := $(VENV)/bin/python
PIP := $(PY) -m pip install --quiet --disable-pip-version-check --require-hashes
CHROMIUM := $(shell command -v chromium || command -v chromium-browser || command -v google-chrome)
FIND_PYTHON = for python in python3 python3.13 python3.12 python3.11 python3.14 python; do \
	"$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null \
	&& echo "$$python" && break; done

.PHONY: help demo test coverage mutants serve lint bench lock
help:
	@sed -n 's/^#   //p' Makefile

$(VENV)/bin/python:
	@python="$$($(FIND_PYTHON))"; \
	if [ -z "$$python" ]; then echo "Firedoor needs Python 3.11 or newer on PATH." >&2; exit 1; fi; \
	"$$python" -m venv $(VENV) || { rm -rf $(VENV); \
	echo "$$python cannot make a virtual environment; on Debian: apt install python3-venv" >&2; exit 1; }

$(VENV)/.runtime: requirements.txt | $(VENV)/bin/python
	@$(PIP) -r requirements.txt && touch $@

$(VENV)/.dev: requirements-dev.txt $(VENV)/.runtime
	@$(PIP) -r requirements-dev.txt && touch $@

$(VENV)/.e2e: requirements-e2e.txt $(VENV)/.dev
	@$(PIP) -r requirements-e2e.txt && touch $@

$(VENV)/.bench: requirements-bench.txt $(VENV)/.dev
	@$(PIP) -r requirements-bench.txt && touch $@

$(VENV)/.mutation: requirements-mutation.txt $(VENV)/.dev
	@$(PIP) -r requirements-mutation.txt && touch $@

demo: $(VENV)/.runtime
	@$(PY) manage.py migrate --verbosity 0
	@$(PY) manage.py demo

# Paths in ARGS narrow every part to what they name in it; a part that has none of them runs nothing.
# By other words in ARGS a part may select no test (exit code 5): that is no failure then.
WORDS := $(patsubst ./tests%,tests%,$(ARGS))
# Sorted: pytest 9.1 forgets the fixtures of a folder that it leaves and comes back to (its issue 14964).
PATHS := $(sort $(filter tests tests/%,$(WORDS)))
OPTIONS := $(filter-out $(PATHS),$(WORDS))
PART = $(if $(filter-out tests tests/,$(PATHS)),$(filter $(1) $(1)/%,$(PATHS)),$(1))
APART := tests/acceptance tests/acceptance/% tests/console tests/console/%
FAST := $(filter-out $(APART),$(or $(PATHS),tests))
INLINE := $(filter-out tests/console tests/console/%,$(or $(PATHS),tests))
ACCEPTANCE := $(call PART,tests/acceptance)
CONSOLE := $(call PART,tests/console)
PYTEST = run() { $(PY) -m pytest "$$@" $(OPTIONS) || { c=$$?; [ $$c = 5 ] && $(if $(ARGS),true,false); }; }; run
TOGETHER = -n auto --dist loadfile
test: $(VENV)/.bench $(if $(CHROMIUM),$(VENV)/.e2e)
	$(if $(FAST),$(PYTEST) $(TOGETHER) --ignore=tests/console --ignore=tests/acceptance $(FAST))
	$(if $(INLINE),export FIREDOOR_TEST_DB=sqlite; $(PYTEST) $(TOGETHER) --ignore=tests/console $(INLINE))
	$(if $(ACCEPTANCE),$(PYTEST) $(TOGETHER) $(ACCEPTANCE))
# The console's tests need a browser; they run where there is one.
ifneq ($(CHROMIUM),)
	$(if $(CONSOLE),export CHROMIUM=$(CHROMIUM); $(PYTEST) $(CONSOLE))
else
	@$(if $(CONSOLE),echo "No Chromium on PATH: the console's browser tests did not run.")
endif

# Apart from `make test`, which it would slow. What only a child process reaches is not counted.
coverage: $(VENV)/.dev
	$(PY) -m pytest $(TOGETHER) --cov=jobs tests/unit tests/integration tests/conformance $(ARGS)

# Not part of `make test`: one process, politely, with the few files that say what a move writes.
mutants: $(VENV)/.mutation
	nice -n 19 $(PY) -m pytest -p tests.mutation.plugin -p no:randomly -p no:cacheprovider -q \
	--capture=sys --assert=plain --tb=native --timeout=60 \
	$(addprefix tests/unit/,test_states.py test_state_page.py test_outcomes.py test_backoff.py) \
	$(addprefix tests/integration/kernel/,test_moves.py test_claiming.py test_ending.py \
	test_evidence.py test_waking.py test_incoming.py test_fence.py) \
	tests/integration/test_lanes.py $(ARGS)

serve: $(VENV)/.runtime
	@$(PY) manage.py migrate --verbosity 0
	@exec $(PY) manage.py serve $(if $(PORT),--bind 127.0.0.1:$(PORT)) $(ARGS)

bench: $(VENV)/.bench
	@$(PY) -m benchmarks $(ARGS)

lint: $(VENV)/.e2e $(VENV)/.bench
	$(VENV)/bin/ruff check
	$(VENV)/bin/ruff format --check
	$(VENV)/bin/mypy
	$(VENV)/bin/lint-imports
	@var="$$(mktemp -d)"; trap 'rm -rf "$$var"' EXIT; set -ex; \
	FIREDOOR_VAR="$$var" $(PY) manage.py makemigrations --check --dry-run; \
	FIREDOOR_VAR="$$var" FIREDOOR_ENVIRONMENT=production ALLOWED_HOSTS=ops.example.com \
	DATABASE_URL=postgresql://db.invalid/firedoor SECRET_KEY="$$(head -c 64 /dev/urandom | base64 -w0)" \
	WEBHOOK_SEALING_KEYS="$$(head -c 32 /dev/urandom | base64 | tr +/ -_)" \
	$(PY) manage.py check --deploy --fail-level WARNING

lock: $(VENV)/bin/python
	@var="$$(mktemp -d)"; trap 'rm -rf "$$var"' EXIT; set -e; \
	$(PY) -m venv "$$var/uv"; "$$var/uv/bin/pip" install --quiet uv==0.13.9; \
	for name in requirements requirements-dev requirements-e2e requirements-bench requirements-mutation; do \
	"$$var/uv/bin/uv" pip compile --quiet --universal --generate-hashes --no-emit-index-url \
	--python-version 3.11 --custom-compile-command "make lock" "$$name.in" -o "$$name.txt"; done
