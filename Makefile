# One line a verb; `make` alone lists them. CI calls the same verbs.
SHELL := /bin/sh
.DEFAULT_GOAL := help
PYTHON := .venv/bin/python
# Some machines forbid Python to keep what it has compiled; tests start hundreds of processes, each of which would wait.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help setup demo test test-full check bench chaos fuzz lock

help: ## list the verbs
	@grep -E '^[a-z-]+:.*## ' Makefile | sed 's/:.*## /\t/' | expand -t 10

setup: ## make .venv with everything that development needs
	@sh scripts/setup dev

demo: ## measure a source tree (make demo path=FOLDER), let two agents repair a program, have an email approved
	@sh scripts/setup run
	@$(PYTHON) examples/audit/audit.py "$(or $(path),.)"
	@echo
	@$(PYTHON) examples/audit/flow.py "$(or $(path),.)"
	@echo
	@$(PYTHON) examples/code_network/code_network.py --pace 0
	@echo
	@$(PYTHON) examples/lead_outreach/lead_outreach.py --form json --decide approved

test: ## run all tests, in two processes beside each other
	@sh scripts/setup dev
	@sh scripts/test $(PYTHON)

test-full: ## the same with all that is drawn and killed at full length; takes long
	@sh scripts/setup dev
	@STATEWRIGHT_FULL=1 sh scripts/test $(PYTHON)

check: ## format, lint and types, as CI wants them
	@sh scripts/setup dev
	@$(PYTHON) -m ruff format --check .
	@$(PYTHON) -m ruff check .
	@$(PYTHON) -m pyright

bench: ## measure speed beside the peers, and write benchmarks/RESULTS.md
	@sh scripts/setup run
	@$(PYTHON) -m benchmarks

chaos: ## kill runs and a server with SIGKILL, and see that nothing is lost: make chaos KILLS=300 SEED=1
	@sh scripts/setup dev
	@$(PYTHON) -m tests.durability.chaos --kills $(or $(KILLS),300) --seed $(or $(SEED),1)
	@$(PYTHON) -m tests.durability.siege --kills $(or $(KILLS),300) --seed $(or $(SEED),1)
	@$(PYTHON) -m tests.durability.rivals --kills $(or $(KILLS),300) --seed $(or $(SEED),1)

fuzz: ## mutate workflow files, and compare templates with Jinja: make fuzz EXAMPLES=10000 TEMPLATES=100000
	@sh scripts/setup dev
	@STATEWRIGHT_FUZZ_EXAMPLES=$(or $(EXAMPLES),10000) $(PYTHON) -m pytest tests/semantics/test_states_bad_input.py
	@STATEWRIGHT_FUZZ_TEMPLATES=$(or $(TEMPLATES),100000) $(PYTHON) -m pytest tests/semantics/test_states_template_oracle.py tests/semantics/test_states_template_work.py

lock: ## pin today's versions in constraints.txt
	@sh scripts/setup dev
	@sh scripts/lock
