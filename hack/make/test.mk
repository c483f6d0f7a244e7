##@ Test

# Packages whose tests need a Kubernetes API server get it from the lab's
# executables, in a folder named after what they are; nothing is downloaded.
ENVTEST_ASSETS = $(shell readlink -f bin/envtest)
INTEGRATION_TIMEOUT := 30m
# How many packages test at a time.
INTEGRATION_PACKAGES ?= 2
E2E_TIMEOUT := 40m
FAULT_TIMEOUT := 30m
# Arguments for the fault tests, such as -long, or -seed N to replay one.
FAULT_ARGS ?=
# What chance decides in the fault tests of CI: the same each time. test-fault-chance
# leaves it to chance.
FAULT_SEEDS ?= 20261127
# make verify vets.
TEST_FLAGS ?= -vet=off
# How long fuzz runs each target, and where the inputs that it found interesting
# are kept from run to run. One that fails goes to testdata/fuzz of its package.
FUZZTIME ?= 1m
FUZZ_CORPUS ?= bin/fuzz
# How many of them, the smallest of each target, go to testdata/fuzz to be committed.
FUZZ_KEEP ?= 0
# How often, and beside how many busy processes, soak runs each package.
SOAK_RUNS ?= 10
SOAK_BURNERS ?= 2
# The commit before the changes that soak-changed is about.
SOAK_BASE ?= origin/main

# The commit before the changes that test-mutation-short is about.
MUTATION_BASE ?= HEAD~1
MUTATION_MOST ?= 20
MUTATION = KUBEBUILDER_ASSETS=$(ENVTEST_ASSETS) go run ./test/mutation

CHECKS = go run ./test/checks

# What has not changed since it passed is not tested again, as Go knows from the
# inputs of tests. It does not see what a program reads that a test starts, so the
# packages that start some run each time (hack/packages.sh lists them).

.PHONY: test
test: test-needs ## Runs all tests, and says what failed and what took how long. Needs gcc, and root on Debian for the e2e part.
	$(CHECKS) test

# For .ci/run: arguments of the program, which is compiled with the flags of all others.
.PHONY: checks
checks:
	$(CHECKS) $(CHECKED)

# Tells at once what would be missing after half an hour.
.PHONY: test-needs
test-needs: lab-root lab-packages
	@command -v gcc >/dev/null || { echo "the race detector needs gcc: apt-get install gcc libc6-dev" >&2; exit 1; }

.PHONY: test-unit
test-unit: test-modules ## Tests that need neither an API server nor root.
	go test $(TEST_FLAGS) -short $$(hack/packages.sh raced controllers servers rest)
	go test $(TEST_FLAGS) -short -count=1 $$(hack/packages.sh programs)

# The unit tests that are in none of the other parts.
.PHONY: test-unit-rest
test-unit-rest:
	go test $(TEST_FLAGS) -short $$(hack/packages.sh rest)

# What has a Go module of its own. Go does not see the files that their tests read
# of this one.
.PHONY: test-modules test-differential test-lab-unit
test-modules: test-differential test-lab-unit test-bundle test-olm-unit test-observability test-release-programs
test-differential:
	cd test/differential && go test $(TEST_FLAGS) -count=1 ./...
test-lab-unit:
	$(MAKE) -C test/lab test

# Only these executables of tests are built with cgo; what users get is static.
.PHONY: test-race
test-race: ## Unit tests of what has concurrency under the race detector. Needs gcc.
	CGO_ENABLED=1 go test $(TEST_FLAGS) -race -short $$(hack/packages.sh raced)

.PHONY: test-race-controllers
test-race-controllers: envtest-assets ## Some controller tests under the race detector. Needs gcc.
	KUBEBUILDER_ASSETS=$(ENVTEST_ASSETS) CGO_ENABLED=1 go test $(TEST_FLAGS) -race -p 1 -timeout $(INTEGRATION_TIMEOUT) $$(hack/packages.sh controllers)

.PHONY: test-integration
test-integration: envtest-assets ## Tests against real API servers (envtest), without nodes.
	failed=; \
	KUBEBUILDER_ASSETS=$(ENVTEST_ASSETS) go test $(TEST_FLAGS) -p $(INTEGRATION_PACKAGES) -timeout $(INTEGRATION_TIMEOUT) $$(hack/packages.sh servers) || failed=1; \
	(cd test/peers/ocm && KUBEBUILDER_ASSETS=$(ENVTEST_ASSETS) go test $(TEST_FLAGS) -count=1 -timeout $(INTEGRATION_TIMEOUT) ./...) || failed=1; \
	test -z "$$failed"

.PHONY: test-integration-programs
test-integration-programs: envtest-assets ## Tests that start programs made of this tree, or read it by one: conformance, charts, importers of our types.
	KUBEBUILDER_ASSETS=$(ENVTEST_ASSETS) go test $(TEST_FLAGS) -count=1 -p 1 -timeout $(INTEGRATION_TIMEOUT) $$(hack/packages.sh programs)

.PHONY: test-conformance
test-conformance: envtest-assets ## What registration and works promise, in all modes: prints docs/spec/modes.md as a table of results.
	KUBEBUILDER_ASSETS=$(ENVTEST_ASSETS) go test -count=1 -v -timeout $(INTEGRATION_TIMEOUT) ./test/integration/conformance

.PHONY: test-conformance-dedicated
test-conformance-dedicated: envtest-assets ## The same on a hub whose API server and controllers are those of a dedicated hub.
	KUBEBUILDER_ASSETS=$(ENVTEST_ASSETS) go test -count=1 -v -timeout $(INTEGRATION_TIMEOUT) -run '^TestConformance$$' ./test/integration/conformance -args -dedicated

.PHONY: test-manifests
test-manifests: envtest-assets ## What becomes of manifests that are easy to get wrong, and of their changes: in all modes, by ManifestWork and by policy, brought by kubectl.
	KUBEBUILDER_ASSETS=$(ENVTEST_ASSETS) go test -count=1 -v -timeout $(INTEGRATION_TIMEOUT) -run '^TestManifests$$' ./test/integration/conformance -args -all-modes -kubectl

.PHONY: test-mutation test-mutation-short
test-mutation: envtest-assets ## Takes each field and reason of the proof tables out of the product: one of its tests has to fail. Goes on where it was ended. An hour or two.
	$(MUTATION)
test-mutation-short: envtest-assets ## Does so with the rows whose text, code or tests changed since MUTATION_BASE (HEAD~1), at most MUTATION_MOST (20) of them.
	$(MUTATION) -base $(MUTATION_BASE) -most $(MUTATION_MOST)

.PHONY: test-e2e
test-e2e: test-needs ## Tests on real clusters with real pods, each way to install, and each fault in short. Needs root; installs Debian's packages.
	$(CHECKS) test-e2e

.PHONY: test-builds
test-builds: lab-build image released next olm-build bin/helm

# Parts of test-e2e after test-builds. Each has a lab of its own and waits most of
# the time, so they run side by side.
.PHONY: test-hub-and-spoke test-walkthroughs test-walkthroughs-hosts test-walkthroughs-install test-fault-short test-lab
E2E = IMAGE_NAME=$(IMAGE_NAME) go test $(TEST_FLAGS) -tags e2e -count=1 -v -timeout $(E2E_TIMEOUT) ./test/e2e
# The walk-throughs that need another cluster for API servers or agents, and those that
# install and upgrade in each way.
ON_HOSTS := dedicated|hosted|hosted-agents
INSTALLING := install-[a-z]*|upgrade
test-lab: ## Tries the lab itself: clusters, pods, images, volumes, partitions. Needs root.
	$(MAKE) -C test/lab e2e
test-hub-and-spoke:
	$(E2E) -skip '^(TestWalkthroughs|TestDrills|TestPressure)$$' -clusters hub,member1
test-walkthroughs:
	$(E2E) -run '^TestWalkthroughs$$' -skip '^TestWalkthroughs$$/^($(ON_HOSTS)|$(INSTALLING)|upgrade-.*)$$'
test-walkthroughs-hosts:
	$(E2E) -run '^TestWalkthroughs$$/^($(ON_HOSTS))$$'
test-walkthroughs-install:
	$(E2E) -short -run '^TestWalkthroughs$$/^($(INSTALLING))$$' -clusters hub,member1

# Whose objects store-release-objects writes: the last release.
STORED_RELEASE ?= $(shell awk '/^v/ { last = $$1 } END { print last }' test/upgrade/releases.txt)

.PHONY: store-release-objects
store-release-objects: envtest-assets released ## Writes to test/upgrade/testdata what the last release stores in etcd. Once for each release.
	KUBEBUILDER_ASSETS=$(ENVTEST_ASSETS) go test -count=1 -run '^TestStoredObjectsOfReleases$$' ./test/upgrade -args -store $(STORED_RELEASE)

.PHONY: test-install
test-install: lab-root lab-build image released next bin/helm ## Ways to install, upgrade and remove: Helm, one YAML, the command line; from the last release and back to it. Needs root.
	$(E2E) -run '^TestWalkthroughs$$/^($(INSTALLING))$$' -clusters hub,member1

.PHONY: test-upgrade
test-upgrade: test-install test-olm ## Upgrades from the last release in each way, with a dedicated hub, and the ways back. Needs root.
	$(E2E) -run '^TestWalkthroughs$$/^upgrade-'

test-fault-short:
	for seed in $(FAULT_SEEDS); do go test -tags fault -count=1 -v -timeout $(FAULT_TIMEOUT) -short ./test/fault -args -seed $$seed $(FAULT_ARGS); done

.PHONY: test-fault-chance
test-fault-chance: build lab-build ## Each fault in short, as chance decides. Needs root. A failure says its seed.
	go test -tags fault -count=1 -v -timeout $(FAULT_TIMEOUT) -short ./test/fault $(if $(FAULT_ARGS),-args $(FAULT_ARGS))

# What happens to a dedicated hub rarely, and takes long: CI runs none of it. Each
# drill has a lab of its own, and its last lines say what was seen.
DRILLS := drill-node-restart drill-external-etcd drill-rotation drill-restore drill-upgrade
DRILL_TIMEOUT := 90m

.PHONY: drills $(DRILLS)
drills: $(DRILLS) ## Runs all drills with dedicated hubs, which CI leaves out. Needs root. Half an hour.
drill-node-restart: ## Cuts the power of the host of a dedicated hub while something writes to the hub.
drill-external-etcd: ## A dedicated hub with an etcd elsewhere, and with its certificate expired.
drill-rotation: ## Replaces authorities and keys of a dedicated hub with three replicas under 20 requests a second.
drill-restore: ## Destroys the etcd of a dedicated hub, and brings the hub back to a backup, with a Pull and a Push member.
drill-upgrade: lab-older ## Upgrades the Kubernetes of a dedicated hub by a minor version. Compiles the older one first.
$(DRILLS): drill-%: lab-build image
	IMAGE_NAME=$(IMAGE_NAME) go test -tags e2e -count=1 -v -timeout $(DRILL_TIMEOUT) -run '^TestDrills$$/^$*$$' ./test/e2e

# How many processes keep the processors busy beside the hub of test-pressure.
PRESSURE_BUSY ?= 40

.PHONY: test-pressure
test-pressure: lab-build image ## A hub with 100 works that change, beside 40 busy processes, for ten minutes: nothing restarts, nothing is refused. Needs root.
	$(E2E) -run '^TestPressure$$' -clusters hub,member1 -busy $(PRESSURE_BUSY)

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
soak: envtest-assets ## Runs the tests of every package SOAK_RUNS times while SOAK_BURNERS processes keep the CPU busy. Hours.
	KUBEBUILDER_ASSETS=$(ENVTEST_ASSETS) SOAK_BURNERS=$(SOAK_BURNERS) hack/soak.sh all $(SOAK_RUNS)

.PHONY: soak-changed
soak-changed: envtest-assets ## Does so with the packages that changed since SOAK_BASE, and three times with those that import them. Goes on where it was ended.
	KUBEBUILDER_ASSETS=$(ENVTEST_ASSETS) SOAK_BURNERS=$(SOAK_BURNERS) hack/soak.sh $(SOAK_BASE) $(SOAK_RUNS)

.PHONY: fuzz
fuzz: ## Fuzzes every fuzz target for FUZZTIME, starting from the inputs kept in FUZZ_CORPUS and testdata/fuzz.
	hack/fuzz.sh $(FUZZTIME) $(FUZZ_CORPUS) $(FUZZ_KEEP)
