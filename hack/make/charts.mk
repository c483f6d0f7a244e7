##@ Charts

# The version of what is installed, and the registry of its image. They are not
# IMAGE_NAME, as what is committed must not depend on whoever runs this.
CHARTS_VERSION ?= $(VERSION)
CHARTS_REGISTRY ?= quay.io/capstan-io
# Where they are written to; a release writes to its own directory.
CHARTS_DIR ?= deploy

# Names this installation in what kustomize renders.
CHARTS_IMAGE = sed 's|quay.io/capstan-io/capstan:[^ ]*|$(CHARTS_REGISTRY)/capstan:$(CHARTS_VERSION)|'

.PHONY: charts
charts: operator-manifests ## Writes the Helm charts to deploy/helm, and deploy/install.yaml and deploy/install-klusterlet.yaml.
	$(KUSTOMIZE) build config/operator/clustermanager | go run ./hack/charts -version $(CHARTS_VERSION) -registry $(CHARTS_REGISTRY) -out $(CHARTS_DIR)/helm cluster-manager
	$(KUSTOMIZE) build config/operator/klusterlet | go run ./hack/charts -version $(CHARTS_VERSION) -registry $(CHARTS_REGISTRY) -out $(CHARTS_DIR)/helm klusterlet
	{ cat hack/charts/install.txt; $(KUSTOMIZE) build config/operator/clustermanager | $(CHARTS_IMAGE); } > $(CHARTS_DIR)/install.yaml
	{ cat hack/charts/install-klusterlet.txt; $(KUSTOMIZE) build config/operator/klusterlet | $(CHARTS_IMAGE); } > $(CHARTS_DIR)/install-klusterlet.yaml

.PHONY: test-charts
test-charts: ## Renders the charts with Helm, lints them, and compares them with what other ways to install apply.
	go test -count=1 ./hack/charts

# Helm, pinned, for whoever has none: tests and the guides use it.
.PHONY: helm
helm: bin/helm ## Compiles bin/helm. Minutes, the first time.

bin/helm: hack/tools/go.mod hack/tools/go.sum
	go build -modfile=hack/tools/go.mod -ldflags '-s -w' -o $@ helm.sh/helm/v3/cmd/helm
	touch $@
