##@ Generate

.PHONY: generate-metrics
generate-metrics: ## Writes the table of docs/reference/metrics.md from what the components register; takes an API server, so it is not part of generate.
	KUBEBUILDER_ASSETS=$(ENVTEST_ASSETS) CAPSTAN_UPDATE_METRICS=1 go test -count=1 -run TestThePageOfMetricsHasWhatComponentsRegister ./cmd/capstan-manager
