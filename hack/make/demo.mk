##@ Demo

DEMO_DIR ?= /var/lib/capstan-demo

.PHONY: demo
demo: ## From nothing to a joined cluster that runs a workload, on this machine. Needs root.
	DEMO_DIR=$(DEMO_DIR) IMAGE_NAME=$(IMAGE_NAME) hack/demo/demo.sh

.PHONY: clean-demo
clean-demo: ## Removes everything that the demo made.
	DEMO_DIR=$(DEMO_DIR) hack/demo/clean.sh
