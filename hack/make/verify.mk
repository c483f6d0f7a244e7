##@ Verify

.PHONY: verify
verify: verify-generated vet-modules lint ## Regenerates, vets and lints; fails if a committed file is not as generated.

.PHONY: verify-generated
verify-generated: ## Fails if a generated file is not as `make generate bundle charts` makes it.
	hack/verify-generated.sh

.PHONY: vet
vet: vet-modules ## Runs go vet in all modules, with all build tags.
	go vet -tags e2e,bench,fault ./...
	cd hack/release && go vet ./...
	$(MAKE) -C test/lab vet

# Those that lint does not see: it vets what it sees.
.PHONY: vet-modules
vet-modules:
	cd test/compat && go vet ./...
	cd test/differential && go vet ./...
	cd test/olm && go vet ./...
	cd test/olm-e2e && go vet -tags e2e ./...

# All of the lab but its ./cmd/kube, which is Kubernetes.
LAB_LINTED := ./cmd/lab ./images/... ./internal/... ./e2e

.PHONY: lint
lint: ## Runs golangci-lint with the rules of .golangci.yml.
	$(GOLANGCI_LINT) run --timeout 40m ./...
	cd test/lab && go tool -modfile=$(CURDIR)/hack/lint/go.mod golangci-lint run --config $(CURDIR)/.golangci.yml --timeout 40m $(LAB_LINTED)
	cd hack/release && go tool -modfile=$(CURDIR)/hack/lint/go.mod golangci-lint run --config $(CURDIR)/.golangci.yml --timeout 40m ./...

.PHONY: vulncheck
vulncheck: ## Looks up known vulnerabilities of what we link. Needs internet access.
	go run golang.org/x/vuln/cmd/govulncheck@v1.9.0 ./...
