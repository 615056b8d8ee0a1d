# SPDX-License-Identifier: Apache-2.0
# Every target sets up what it needs first (scripts/setup.sh); a second run finds it done.
SHELL := /bin/bash
.DEFAULT_GOAL := help
ENV := . scripts/env.sh &&
ROBOT ?= coco
VIEWER ?= 0
N ?= 3
WORKERS ?= 2
SHARES := $(shell nproc)
SHARED = $(MAKE) --no-print-directory --keep-going --output-sync=target -j $(SHARES)
CLOCK := test/integration/test_clock_jumps.py
SHELL_DOMAIN := export ROS_DOMAIN_ID=$${ROS_DOMAIN_ID:-$$((RANDOM % 100 + 1))};
# A test that fails now and then is marked `quarantined` and runs nowhere until it is mended. There is none.
QUICK := not slow and not faults and not quarantined

# The tests start hundreds of processes: each module is compiled for the first of them and not for each.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help setup build test test-slow test-faults test-security test-browser test-moveit test-extras soak fuzz lint unit component integration repeat demo bench clean

help: ## these lines
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1\t\2/p' Makefile | expand -t 24

setup: ## Debian packages, virtual environment, build; what is up to date is left alone
	@scripts/setup.sh

build: setup ## the same: the build is its last step

test: lint unit component integration ## lint, unit, component and integration

lint: setup ## ruff, the import contract, mypy
	@$(ENV) ruff check .
	@$(ENV) ruff format --check --quiet .
	@$(ENV) lint-imports --no-logo
	@$(ENV) mypy

unit: setup ## the cores and tools on a virtual clock, without ROS
	@$(SHARED) $(patsubst %,unit-share-%,$(shell seq $(SHARES)))

component: setup ## what they meet: real physics, pictures, servers, processes and files, without ROS
	@$(SHARED) $(patsubst %,component-share-%,$(shell seq $(SHARES)))

# Each process loads only its own share, and none has to tell another of thousands of tests that passed.
unit-share-%:
	@$(ENV) pytest -q -m "$(QUICK) and not component" --share $*/$(SHARES) test/unit

component-share-%:
	@$(ENV) pytest -q -m "$(QUICK) and component" --share $*/$(SHARES) test/unit

integration: setup ## real nodes over real DDS, two files at a time in ROS domains of their own (WORKERS=0: one after the other)
	@$(ENV) $(SHELL_DOMAIN) pytest -q -n $(WORKERS) --dist loadfile -m "$(QUICK)" test/integration test/launch

repeat: setup ## the integration tests N times over (N=3), to find what fails now and then
	@$(ENV) $(SHELL_DOMAIN) for round in $$(seq $(N)); do \
	    echo "== round $$round of $(N)"; pytest -q -m "$(QUICK)" test/integration test/launch || exit; done

test-slow: setup ## what takes minutes, and the property tests with all their examples
	@$(ENV) pytest -q -n auto --hypothesis-profile thorough -m "(slow or hypothesis) and not faults and not quarantined" test/unit
	@$(ENV) $(SHELL_DOMAIN) pytest -q -m "slow and not faults and not quarantined" test/integration test/launch

test-faults: setup ## nodes killed, links cut, floods, races, recordings replayed: minutes; then an hour of chaos
	@$(ENV) $(SHELL_DOMAIN) pytest -q -m "faults and not quarantined" --ignore $(CLOCK) test
	@$(ENV) $(SHELL_DOMAIN) pytest -q $(CLOCK)
	@$(MAKE) --no-print-directory soak

soak: MINUTES ?= 60
soak: setup ## chaos on two robots, drawn from a seed, and the laws that hold afterwards (MINUTES=60, SEED=… to repeat one)
	@$(ENV) SOAK_MINUTES=$(MINUTES) SOAK_SEED=$(SEED) pytest -q -s -o faulthandler_timeout=0 test/integration/soak.py

fuzz: MINUTES ?= 10
fuzz: setup ## fuzzers of parser, guard, offline parser, loaders and recordings, each for MINUTES=10; finds are in out/fuzz
	@$(ENV) python3 -c 'import atheris' 2>/dev/null || python3 -m pip install --quiet -r requirements/fuzzing.txt
	@$(ENV) python3 test/fuzz/fuzz.py --minutes $(MINUTES)

test-security: setup ## the keystore of SROS 2 with a Fast DDS that has the security plug-in (Debian's, 20 MB into .secure-dds)
	@scripts/secure_dds.sh
	@$(ENV) $(SHELL_DOMAIN) pytest -q test/integration/test_security.py

test-browser: setup ## the operator's page in Debian's Chromium (installs it, Playwright and axe-core; pictures are in out/browser)
	@scripts/browser.sh
	@$(ENV) $(SHELL_DOMAIN) pytest -q test/browser

test-moveit: setup ## the arms' ways by MoveIt, against a server of its action (builds moveit_msgs, a minute, once)
	@scripts/setup.sh --moveit
	@$(ENV) $(SHELL_DOMAIN) pytest -q -m "not slow and not faults" test/integration/test_moveit.py

test-extras: setup ## what only the heavy extras have (ultralytics, sentence-transformers, a small model: 7 GB into .venv-extras)
	@scripts/extras.sh

demo: setup ## a simulated robot follows a stream of function tokens (ROBOT=coco, kalos, kitchen, team or tabletop, VIEWER=1 for a window)
	@ROBOT=$(ROBOT) VIEWER=$(VIEWER) ./ghostshell demo

bench: setup ## the benchmarks, each beside its reference
	@$(ENV) python3 -m bench.run_all

clean: ## removes all that the other targets made, except out/
	rm -rf .venv .venv-apt .venv-extras .secure-dds .browser build build-apt install install-apt log .mypy_cache .ruff_cache .pytest_cache .hypothesis *.egg-info
