# SPDX-License-Identifier: Apache-2.0
#
# The two commands of the README, and their parts. Everything that is made
# lies under $NOVA_RT_LAB, nothing in the checkout.

NOVA_RT_LAB ?= /var/lib/nova-rt-lab
export NOVA_RT_LAB
PY := $(NOVA_RT_LAB)/venv/bin/python
CHECK := $(PY) tools/check.py

.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help demo check bench bench-reports venv style unit tools functional \
	nova-unit host kernel e2e tempest docs figures lab lab-down image clean

help: ## Show this list
	@sed -n 's/^\([a-z0-9-]*\):.*## \(.*\)/\1@\2/p' Makefile | \
		awk -F @ '{ printf "  make %-14s%s\n", $$1, $$2 }'
	@echo 'Run them as root. Files are kept in $(NOVA_RT_LAB).'

demo: venv ## Bring up a whole cloud and show a real-time server on it
	@$(PY) -m lab demo

check: venv ## Run every check of the project, end to end included
	@$(CHECK)

bench: venv ## Measure what nova_rt costs: scheduler, server create, memory
	@mkdir -p $(NOVA_RT_LAB)/results/bench
	@$(PY) bench/scheduler.py \
		--output $(NOVA_RT_LAB)/results/bench/scheduler.json
	@$(PY) -m bench.create

bench-reports: venv ## Measure database, conductor and exporter; 20 minutes
	@mkdir -p $(NOVA_RT_LAB)/results/bench
	@$(PY) -m bench.samples --rows 10000000 \
		--output $(NOVA_RT_LAB)/results/bench/samples.json
	@$(PY) -m bench.reports --hosts 1000 --servers 20 --interval 60 \
		--seconds 180 --output $(NOVA_RT_LAB)/results/bench/reports.json
	@$(PY) bench/exporter.py \
		--output $(NOVA_RT_LAB)/results/bench/exporter.json

venv: ## Install all that is needed; nothing if it is there
	@tools/bootstrap.sh

style: venv ## Check formatting, our own rules, types and spelling
	@$(CHECK) style

unit: venv ## Run the unit tests
	@$(CHECK) unit

tools: venv ## Test the files for operators, the tools and the lab's modules
	@$(CHECK) tools

functional: venv ## Run Nova's services in one process, with threads and eventlet
	@$(CHECK) functional-threading functional-eventlet

nova-unit: venv ## Run Nova's own unit tests on the classes of nova_rt
	@$(CHECK) nova-unit

host: venv ## Run the tests on this machine's own kernel files
	@$(CHECK) host

kernel: venv ## Build the HCBS kernel and run some of every group of its tests
	@$(CHECK) kernel

e2e: venv ## Run the end-to-end tests on the lab
	@$(CHECK) e2e

tempest: venv ## Compare nova-rt-compute with nova-compute by Tempest
	@$(CHECK) tempest

docs: venv ## Build the manual and the release notes
	@$(CHECK) docs

figures: demo ## Run the demo and put its picture on the front page
	install -m 644 $(NOVA_RT_LAB)/results/demo/response-times.png \
		doc/source/figures/

lab: venv ## Bring the lab up and leave it running
	@$(PY) -m lab up

lab-down: ## Take the lab down, with nothing left behind
	@$(PY) -m lab down

image: venv ## Build the image of the lab's containers
	@$(PY) -m lab image

clean: ## Take the lab down and remove what these commands made
	@if [ -x $(PY) ]; then $(PY) -m lab down; fi
	cd $(NOVA_RT_LAB) && rm -rf bin bootstrap build cache check etc \
		host-before.json images lab.lock log results \
		run var venv
