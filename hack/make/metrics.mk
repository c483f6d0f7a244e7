##@ Generate

.PHONY: generate-metrics
generate-metrics: envtest-assets ## Writes the table of docs/reference/metrics.md from what the components register; takes an API server, so it is not part of generate.
	KUBEBUILDER_ASSETS=$(ENVTEST_ASSETS) go run ./hack/gen metrics
