##@ Demo

DEMO_DIR ?= /var/lib/capstan-demo
# dedicated, with an API server of its own that the first cluster hosts, or shared:
# the first cluster itself.
HUB ?= dedicated

.PHONY: demo
demo: ## From nothing to a hub with two clusters that run a workload, on this machine. HUB=shared makes a shared hub. Needs root.
	DEMO_DIR=$(DEMO_DIR) IMAGE_NAME=$(IMAGE_NAME) HUB=$(HUB) hack/demo/demo.sh

.PHONY: clean-demo
clean-demo: ## Removes everything that the demo made.
	DEMO_DIR=$(DEMO_DIR) hack/demo/clean.sh
