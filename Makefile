# SPDX-License-Identifier: Apache-2.0
#
# The two commands of the README, and their parts. What they make lies under
# $NOVA_RT_LAB. In the checkout, they change only what is to be committed:
# a figure and tables of the manual (figures, operations, faults), and the note
# of what has passed (kernel-tested).

NOVA_RT_LAB ?= /var/lib/nova-rt-lab
export NOVA_RT_LAB
PY := $(NOVA_RT_LAB)/venv/bin/python
CHECK := $(PY) -m tools.check
FAULTS := $(PY) -m lab exec env NOVA_RT_TEST_FAULTS=1 NOVA_RT_TEST_KILLS=all \
	NOVA_RT_TEST_STORM_S=600 $(PY) -W ignore -m unittest -v

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help interface demo check check-full bench bench-exporter venv style \
	unit tools functional property nova-unit host kernel kernel-tested e2e \
	tempest-plugin tempest docs figures operations faults lab lab-down \
	image packages role chapter chapter-cloud runbooks experiments \
	model experiments-full clean

help: ## Show this list
	@sed -n -e 's/^##@ \(.*\)/\1/p' \
		-e 's/^\([a-z0-9-]*\):.*## \(.*\)/\1@\2/p' Makefile | \
		awk -F @ 'NF == 1 { print "\n" $$1; next } \
			{ printf "  make %-17s%s\n", $$1, $$2 }'
	@echo; echo 'Run them as root. Files are kept in $(NOVA_RT_LAB).'

##@ Try

demo: ## Bring up a whole cloud and show real-time servers; NODE=hcbs: in a VM
	@tools/bootstrap.sh demo $(NODE)
	@$(PY) -m lab demo $(if $(NODE),--node $(NODE))

clean: ## Take the lab down and remove what these commands made
	@if [ -x $(PY) ]; then $(PY) -m lab down; fi
	@if [ -d $(NOVA_RT_LAB)/devstack ]; then tools/devstack-run discard; fi
	cd $(NOVA_RT_LAB) && rm -rf bin bootstrap build cache check containers \
		devstack etc host-before.json images install lab.lock log \
		results run var venv

##@ Check

check: venv ## Run what has to pass before a change lands; 35 minutes
	@$(CHECK)

check-full: venv ## Run every check there is; hours; PART="..." runs some of it
	@$(CHECK) --full $(PART)

style: venv ## Check formatting, our own rules, types and spelling
	@$(CHECK) style

docs: venv ## Build the manual and the release notes
	@$(CHECK) docs

unit: venv ## Run the unit tests
	@$(CHECK) unit

tools: venv ## Test the files for operators, and the manual's examples
	@$(CHECK) tools

functional: venv ## Run Nova's services in one process, with threads and eventlet
	@$(CHECK) functional-threading functional-eventlet

property: venv ## Run 10,000 random operations against a model; two hours
	@$(CHECK) --full property-1 property-2 property-3 property-4

nova-unit: venv ## Run Nova's own unit tests on the classes of nova_rt
	@$(CHECK) nova-unit

host: venv ## Run the tests on this machine's own kernel files
	@$(CHECK) host

kernel: venv ## Build the HCBS kernel and run some of every group of its tests
	@$(CHECK) kernel

kernel-tested: ## Note in kernel/tested.toml that kernel and model have passed
	@$(CHECK) --note-tested

e2e: venv ## Run the end-to-end tests on the lab
	@$(CHECK) e2e

tempest-plugin: venv ## Run nova_rt's plug-in of Tempest on the lab
	@$(CHECK) tempest-plugin

tempest: venv ## Compare nova-rt-compute with nova-compute by Tempest
	@$(CHECK) --full tempest

packages: venv ## Build the Debian packages, install, upgrade and purge them
	@$(PY) -m tools.install packages

role: venv ## Lint the Ansible role and run it on nodes in containers, twice
	@$(PY) -m tools.install role

chapter: venv ## Follow the installation chapter on a node in a container
	@$(PY) -m tools.install chapter

chapter-cloud: venv ## Follow the chapter's blocks that need a cloud, on the lab
	@$(PY) -m tools.install chapter-cloud

runbooks: venv ## Follow the runbooks of the manual on the lab
	@$(PY) -m tools.install runbooks

##@ Build

interface:
	@tools/bootstrap.sh kernel

venv: ## Install all that is needed; nothing if it is there
	@tools/bootstrap.sh

image: venv ## Build the image of the lab's containers
	@$(PY) -m lab image

##@ Lab

lab: $(if $(NODE),,interface) venv ## Bring the lab up and leave it running
	@$(PY) -m lab up $(if $(NODE),--node $(NODE))

lab-down: ## Take the lab down, with nothing left behind
	@$(PY) -m lab down

figures: interface demo ## Run the demo, and draw it for the front page
	install -m 644 $(NOVA_RT_LAB)/results/demo/response-times.png \
		doc/source/figures/

operations: venv ## Do all of Nova's operations on the lab, for the manual's table
	@$(PY) -m lab up --computes 2
	@$(PY) -m lab exec env NOVA_RT_TEST_OPERATIONS=note \
		$(PY) -m unittest -v lab.tests.test_operations
	@$(PY) -m lab.operations

faults: venv ## Break everything that a host can lose, for the manual's table
	@$(PY) -m lab.faults --forget
	@$(PY) -m lab up --computes 1
	@$(FAULTS) lab.tests.test_damage lab.tests.test_kills.KillTest
	@$(PY) -m lab down
	@$(PY) -m lab up --computes 2
	@$(FAULTS) lab.tests.test_damage.FullDestinationTest \
		lab.tests.test_kills.EvacuationTest \
		lab.tests.test_kills.ArrivalTest \
		lab.tests.test_kills.MovedTest lab.tests.test_storm \
		lab.tests.test_upgrade
	@$(PY) -m lab.faults

##@ Measure

bench: venv ## Measure scheduler, server create, memory, change
	@mkdir -p $(NOVA_RT_LAB)/results/bench
	@$(PY) bench/scheduler.py \
		--output $(NOVA_RT_LAB)/results/bench/scheduler.json
	@$(PY) -m bench.create
	@$(PY) -m bench.change

bench-exporter: venv ## Measure nova-rt-exporter
	@mkdir -p $(NOVA_RT_LAB)/results/bench
	@$(PY) bench/exporter.py \
		--output $(NOVA_RT_LAB)/results/bench/exporter.json

model: venv ## Hold the model against the HCBS kernel at 13 points
	@$(CHECK) model

experiments: venv ## Measure the papers' figures at a few points, 10 minutes
	@$(PY) -m experiments run small

experiments-full: venv ## Measure all points of the papers' figures; hours
	@$(PY) -m experiments run full
	@cp $(NOVA_RT_LAB)/results/experiments/report/points.csv experiments/
