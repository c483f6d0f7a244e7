##@ Observability

OBSERVABILITY_TIMEOUT ?= 40m
# The directory of the lab of test-observability-lab, which then stays; a new one, which
# is removed, if empty.
OBSERVE_DIR ?=

.PHONY: generate-observability
generate-observability: ## Writes dashboards and alert rules to deploy/observability.
	go run ./hack/observability

generate: generate-observability

.PHONY: test-observability
test-observability: ## Dashboards and alert rules against Prometheus' own parser and rule engine.
	cd test/peers/prometheus && go vet -tags e2e ./... && go test -count=1 ./...

.PHONY: test-observability-lab
test-observability-lab: lab-build image ## All queries against what Prometheus reads in a lab, and alerts fired by planted faults. Needs root.
	cd test/peers/prometheus && OBSERVE_DIR=$(OBSERVE_DIR) IMAGE_NAME=$(IMAGE_NAME) go test -tags e2e -count=1 -v -timeout $(OBSERVABILITY_TIMEOUT) -run '^TestInTheLab$$' .
