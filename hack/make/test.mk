##@ Test

# Packages whose tests need a Kubernetes API server get it from the lab's
# executables; nothing is downloaded.
ENVTEST_ASSETS := $(CURDIR)/bin/envtest
INTEGRATION_TIMEOUT := 20m
E2E_TIMEOUT := 40m
FAULT_TIMEOUT := 30m
# Arguments for the fault tests, such as -long.
FAULT_ARGS ?=
# The fault tests that every 'make test' runs: two minutes of the eleven that all take.
FAULT_ALWAYS := TestAgentIsKilledAgainAndAgain|TestWatchesBreak|TestRecordsAreDeleted|TestNetworkIsCut/to_both

.PHONY: test
test: ## Runs all tests and tells how long each part took. Needs root on Debian for the e2e part.
	hack/test.sh test-unit test-integration test-e2e

.PHONY: test-unit
test-unit: ## Tests that need neither an API server nor root.
	go test -short ./...
	$(MAKE) -C test/lab test
	$(MAKE) test-bundle

.PHONY: test-integration
test-integration: envtest-assets ## Tests against real API servers (envtest), without nodes.
	KUBEBUILDER_ASSETS=$(ENVTEST_ASSETS) go test -count=1 -p 2 -timeout $(INTEGRATION_TIMEOUT) ./...
	cd test/compat && KUBEBUILDER_ASSETS=$(ENVTEST_ASSETS) go test -count=1 -timeout $(INTEGRATION_TIMEOUT) ./...

.PHONY: test-conformance
test-conformance: envtest-assets ## What registration and works promise, in all modes: prints docs/spec/modes.md as a table of results.
	KUBEBUILDER_ASSETS=$(ENVTEST_ASSETS) go test -count=1 -v -timeout $(INTEGRATION_TIMEOUT) ./test/integration/conformance

.PHONY: test-e2e
test-e2e: lab-build image ## Tests on real clusters with real pods, and some faults. Needs root; installs Debian's packages.
	IMAGE_NAME=$(IMAGE_NAME) go test -tags e2e -count=1 -v -timeout $(E2E_TIMEOUT) ./test/e2e/...
	go test -tags fault -count=1 -v -timeout $(FAULT_TIMEOUT) -run '$(FAULT_ALWAYS)' ./test/fault

.PHONY: test-fault
test-fault: build lab-build ## Breaks API servers, networks and agents while works change. Needs root. FAULT_ARGS=-long for long outages.
	go test -tags fault -count=1 -v -timeout $(FAULT_TIMEOUT) ./test/fault $(if $(FAULT_ARGS),-args $(FAULT_ARGS))
