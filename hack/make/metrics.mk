.PHONY: generate-metrics
generate-metrics: $(ENVTEST_READY) ## Writes the table of docs/reference/metrics.md from what the components register; takes an API server, so it is not part of generate.
	CAPSTAN_UPDATE_METRICS=1 go test -count=1 -run TestThePageOfMetricsHasWhatComponentsRegister ./cmd/capstan-manager
