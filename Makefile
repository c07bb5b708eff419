# `make` alone lists the targets. CI calls the same ones.
SHELL := /bin/sh
.DEFAULT_GOAL := help
PYTHON := .venv/bin/python
# Some machines set this variable. Tests start hundreds of processes, and each would compile all modules again.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: help setup demo ui pictures test test-full check bench chaos fuzz lock

help: ## list the targets
	@grep -E '^[a-z-]+:.*## ' Makefile | sed 's/:.*## /\t/' | expand -t 10

setup: ## create .venv with all development dependencies
	@sh scripts/setup dev

demo: ## run the examples: audit a source tree (make demo path=FOLDER), agents that fix a program, an email approval
	@sh scripts/setup run
	@$(PYTHON) examples/audit/audit.py "$(or $(path),.)"
	@echo
	@$(PYTHON) examples/audit/flow.py "$(or $(path),.)"
	@echo
	@$(PYTHON) examples/code_network/code_network.py --pace 0
	@echo
	@$(PYTHON) examples/lead_outreach/lead_outreach.py --form json --decide approved

ui: ## build the web page, which `statewright dev` and `serve` serve under /ui/
	@sh scripts/setup dev
	@$(PYTHON) scripts/build_page.py

pictures: ## take the pictures of the web page in docs/pictures, with Chromium
	@sh scripts/setup dev
	@$(PYTHON) scripts/build_page.py
	@$(PYTHON) scripts/pictures

test: ## run all tests, in three parallel processes
	@sh scripts/setup dev
	@$(PYTHON) scripts/build_page.py --if-possible
	@sh scripts/test $(PYTHON)

test-full: ## run all tests, with randomized and crash tests at full length (slow)
	@sh scripts/setup dev
	@$(PYTHON) scripts/build_page.py --if-possible
	@STATEWRIGHT_FULL=1 sh scripts/test $(PYTHON)

check: ## check format, lint and types, as CI does
	@sh scripts/setup dev
	@$(PYTHON) -m ruff format --check .
	@$(PYTHON) -m ruff check .
	@$(PYTHON) -m pyright

bench: ## compare performance with other libraries, and write benchmarks/RESULTS.md
	@sh scripts/setup run
	@$(PYTHON) scripts/build_page.py --if-possible
	@$(PYTHON) -m benchmarks

chaos: ## kill runs, servers and Postgres, and check that nothing is lost: make chaos KILLS=300 SEED=1
	@sh scripts/setup dev
	@$(PYTHON) -m tests.durability.chaos --kills $(or $(KILLS),300) --seed $(or $(SEED),1)
	@$(PYTHON) -m tests.durability.siege --kills $(or $(KILLS),300) --seed $(or $(SEED),1)
	@$(PYTHON) -m tests.durability.siege --database postgres --servers 4 --kills $(or $(KILLS),300) --restarts 20 --seed $(or $(SEED),1)
	@$(PYTHON) -m tests.durability.rivals --kills $(or $(KILLS),300) --seed $(or $(SEED),1)

fuzz: ## mutate workflow files, and compare templates with Jinja: make fuzz EXAMPLES=10000 TEMPLATES=100000
	@sh scripts/setup dev
	@STATEWRIGHT_FUZZ_EXAMPLES=$(or $(EXAMPLES),10000) $(PYTHON) -m pytest tests/semantics/test_states_bad_input.py
	@STATEWRIGHT_FUZZ_TEMPLATES=$(or $(TEMPLATES),100000) $(PYTHON) -m pytest tests/semantics/test_states_template_oracle.py tests/semantics/test_states_template_work.py

lock: ## pin current versions in constraints.txt
	@sh scripts/setup dev
	@sh scripts/lock
