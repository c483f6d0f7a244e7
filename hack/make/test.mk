##@ Test

# Packages whose tests need a Kubernetes API server get it from the lab's
# executables; nothing is downloaded.
ENVTEST_ASSETS := $(CURDIR)/bin/envtest
INTEGRATION_TIMEOUT := 20m
# How many packages test at a time.
INTEGRATION_PACKAGES ?= 2
E2E_TIMEOUT := 40m
FAULT_TIMEOUT := 30m
# Arguments for the fault tests, such as -long, or -seed N to replay one.
FAULT_ARGS ?=
# Packages whose tests take minutes. They begin first, so that the end is not one
# of them alone.
LONG_TESTS := ./operators/... ./internal/agent/work/... ./internal/agent/push/... ./test/integration/... ./internal/hub/registration/...
# Prints the packages whose tests start API servers.
WITH_API_SERVERS := go list -test -f '{{with .ForTest}}{{.}} {{join $$.Deps " "}}{{end}}' ./... | awk '/capstan\/internal\/testing\/env/ { print $$1 }' | sort -u
# Packages that run under the race detector, as far as -short goes, and those of
# them whose controller tests do, too.
RACED := ./internal/... ./operators/... ./cmd/...
RACE_CONTROLLERS := ./internal/election/... ./internal/guard/... ./internal/metrics/... ./internal/watch/...
# How long fuzz runs each target, and where the inputs that it found interesting
# are kept from run to run. One that fails goes to testdata/fuzz of its package.
FUZZTIME ?= 1m
FUZZ_CORPUS ?= bin/fuzz
# How many of them, the smallest of each target, go to testdata/fuzz to be committed.
FUZZ_KEEP ?= 0
# How often, and beside how many busy processes, soak runs each package.
SOAK_RUNS ?= 10
SOAK_BURNERS ?= 2

.PHONY: test
test: test-needs ## Runs all tests and prints how long each part took. Needs gcc, and root on Debian for the e2e part.
	hack/test.sh test-unit-rest test-race test-integration test-e2e

# Tells at once what would be missing after half an hour.
.PHONY: test-needs
test-needs: lab-root lab-packages
	@command -v gcc >/dev/null || { echo "the race detector needs gcc: apt-get install gcc libc6-dev" >&2; exit 1; }

.PHONY: test-unit
test-unit: test-unit-rest ## Tests that need neither an API server nor root.
	go test -short $(RACED)

# The unit tests that test-race does not run.
.PHONY: test-unit-rest
test-unit-rest:
	go test -short $$(go list ./... | grep -vE '/capstan/(internal|operators|cmd)/')
	cd test/differential && go test ./...
	$(MAKE) -C test/lab test
	$(MAKE) test-bundle test-olm-unit test-observability test-release-programs

# Only these executables of tests are built with cgo; what users get is static.
.PHONY: test-race
test-race: envtest-assets ## Unit tests, and some controller tests, under the race detector. Needs gcc.
	CGO_ENABLED=1 go test -race -short -count=1 $(RACED)
	KUBEBUILDER_ASSETS=$(ENVTEST_ASSETS) CGO_ENABLED=1 go test -race -count=1 -p 1 -timeout $(INTEGRATION_TIMEOUT) $(RACE_CONTROLLERS)

.PHONY: test-integration
test-integration: envtest-assets ## Tests against real API servers (envtest), without nodes.
	KUBEBUILDER_ASSETS=$(ENVTEST_ASSETS) go test -count=1 -p $(INTEGRATION_PACKAGES) -timeout $(INTEGRATION_TIMEOUT) $(LONG_TESTS) $$($(WITH_API_SERVERS))
	cd test/compat && KUBEBUILDER_ASSETS=$(ENVTEST_ASSETS) go test -count=1 -timeout $(INTEGRATION_TIMEOUT) ./...

.PHONY: test-conformance
test-conformance: envtest-assets ## What registration and works promise, in all modes: prints docs/spec/modes.md as a table of results.
	KUBEBUILDER_ASSETS=$(ENVTEST_ASSETS) go test -count=1 -v -timeout $(INTEGRATION_TIMEOUT) ./test/integration/conformance

.PHONY: test-conformance-dedicated
test-conformance-dedicated: envtest-assets ## The same on a hub whose API server and controllers are those of a dedicated hub.
	KUBEBUILDER_ASSETS=$(ENVTEST_ASSETS) go test -count=1 -v -timeout $(INTEGRATION_TIMEOUT) -run '^TestConformance$$' ./test/integration/conformance -args -dedicated

.PHONY: test-e2e
test-e2e: lab-build image olm-build bin/helm ## Tests on real clusters with real pods, each way to install, and each fault in short. Needs root; installs Debian's packages.
	hack/test.sh test-hub-and-spoke+test-walkthroughs+test-walkthrough-dedicated+test-fault-short test-install-ways+test-olm-ways

# Parts of test-e2e, which builds what they need. Each has a lab of its own and
# waits most of the time, so they run side by side.
.PHONY: test-hub-and-spoke test-walkthroughs test-walkthrough-dedicated test-fault-short
test-hub-and-spoke:
	IMAGE_NAME=$(IMAGE_NAME) go test -tags e2e -count=1 -v -timeout $(E2E_TIMEOUT) -skip '^(TestWalkthroughs|TestDrills)$$' ./test/e2e/...
test-walkthroughs:
	IMAGE_NAME=$(IMAGE_NAME) go test -tags e2e -count=1 -v -timeout $(E2E_TIMEOUT) -run '^TestWalkthroughs$$' -skip '^TestWalkthroughs$$/^dedicated$$' ./test/e2e/...
test-walkthrough-dedicated:
	IMAGE_NAME=$(IMAGE_NAME) go test -tags e2e -count=1 -v -timeout $(E2E_TIMEOUT) -run '^TestWalkthroughs$$/^dedicated$$' ./test/e2e/...
test-fault-short:
	go test -tags fault -count=1 -v -timeout $(FAULT_TIMEOUT) -short ./test/fault $(if $(FAULT_ARGS),-args $(FAULT_ARGS))

# What happens to a dedicated hub rarely, and takes long: CI runs none of it. Each
# drill has a lab of its own, and its last lines say what was seen.
DRILLS := drill-node-restart drill-external-etcd drill-rotation drill-restore drill-upgrade
DRILL_TIMEOUT := 90m

.PHONY: drills $(DRILLS)
drills: ## Runs all drills with dedicated hubs, which CI leaves out. Needs root. Half an hour.
	hack/test.sh $(DRILLS)
drill-node-restart: ## Cuts the power of the host of a dedicated hub while something writes to the hub.
drill-external-etcd: ## A dedicated hub with an etcd elsewhere, and with its certificate expired.
drill-rotation: ## Replaces authorities and keys of a dedicated hub with three replicas under 20 requests a second.
drill-restore: ## Destroys the etcd of a dedicated hub, and brings the hub back to a backup, with a Pull and a Push member.
drill-upgrade: lab-older ## Upgrades the Kubernetes of a dedicated hub by a minor version. Compiles the older one first.
$(DRILLS): drill-%: lab-build image
	IMAGE_NAME=$(IMAGE_NAME) go test -tags e2e -count=1 -v -timeout $(DRILL_TIMEOUT) -run '^TestDrills$$/^$*$$' ./test/e2e

.PHONY: test-fault
test-fault: build lab-build ## Breaks API servers, networks and agents while works change. Needs root. FAULT_ARGS=-long for long outages, '-seed N' to replay.
	go test -tags fault -count=1 -v -timeout $(FAULT_TIMEOUT) ./test/fault $(if $(FAULT_ARGS),-args $(FAULT_ARGS))

.PHONY: test-placement-faults
test-placement-faults: envtest-assets ## The whole form of what test-integration does in short to the placement controller: 500 clusters in a minute.
	KUBEBUILDER_ASSETS=$(ENVTEST_ASSETS) go test -count=1 -v -timeout $(INTEGRATION_TIMEOUT) ./test/integration/placement -args -long

.PHONY: test-propagation-faults
test-propagation-faults: envtest-assets ## The whole form of what test-integration does in short to the propagation controllers: more objects, outages of a minute.
	KUBEBUILDER_ASSETS=$(ENVTEST_ASSETS) go test -count=1 -v -timeout $(INTEGRATION_TIMEOUT) ./test/integration/propagation -args -long

.PHONY: soak
soak: envtest-assets ## Runs every integration package SOAK_RUNS times while SOAK_BURNERS processes keep the CPU busy. Hours.
	KUBEBUILDER_ASSETS=$(ENVTEST_ASSETS) hack/soak.sh $(SOAK_RUNS) $(SOAK_BURNERS)

.PHONY: fuzz
fuzz: ## Fuzzes every fuzz target for FUZZTIME, starting from the inputs kept in FUZZ_CORPUS and testdata/fuzz.
	hack/fuzz.sh $(FUZZTIME) $(FUZZ_CORPUS) $(FUZZ_KEEP)
