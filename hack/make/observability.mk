##@ Observability

OBSERVABILITY_TIMEOUT ?= 30m

.PHONY: generate-observability
generate-observability: ## Writes dashboards and alert rules to deploy/observability.
	go run ./hack/observability

generate: generate-observability

.PHONY: test-observability
test-observability: ## Dashboards and alert rules against Prometheus' own parser and rule engine.
	cd test/observability && go vet -tags e2e ./... && go test -count=1 ./...
