##@ Verify

.PHONY: verify
verify: verify-generated lint ## Regenerates, vets and lints; fails if a committed file is not as generated.

.PHONY: verify-generated
verify-generated: ## Fails if a generated file is not as `make generate bundle charts` makes it.
	hack/verify-generated.sh

.PHONY: vet
vet: ## Runs go vet in all modules, with all build tags.
	go vet -tags e2e,bench,fault ./...
	for module in $(LINTED_MODULES); do (cd $$module && go vet -tags e2e ./...); done
	$(MAKE) -C test/lab vet

# All of the lab but its ./cmd/kube, which is Kubernetes.
LAB_LINTED := ./cmd/lab ./images/... ./internal/... ./e2e
# The other modules with code.
LINTED_MODULES := hack/tools test/differential test/peers/argocd test/peers/ocm test/peers/olm test/peers/operator-framework test/peers/prometheus
LINTS := lint-main lint-lab $(addprefix lint-,$(LINTED_MODULES))
LINT_ELSEWHERE := $(GOLANGCI_LINT) run --config $(CURDIR)/.golangci.yml --timeout 40m

# It vets as well.
.PHONY: lint $(LINTS)
lint: $(LINTS) ## Runs golangci-lint with the rules of .golangci.yml in all modules.
lint-main:
	$(GOLANGCI_LINT) run --timeout 40m ./...
lint-lab:
	cd test/lab && $(LINT_ELSEWHERE) $(LAB_LINTED)
$(addprefix lint-,$(LINTED_MODULES)): lint-%:
	cd $* && $(LINT_ELSEWHERE) ./...

.PHONY: vulncheck
vulncheck: ## Looks up known vulnerabilities of what we link. Needs internet access.
	go run golang.org/x/vuln/cmd/govulncheck@v1.9.0 ./...
