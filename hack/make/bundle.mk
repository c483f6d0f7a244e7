##@ Bundle

# The image that the bundles name. It is not IMAGE_NAME, as what is committed
# must not depend on whoever runs this.
BUNDLE_IMAGE ?= quay.io/capstan-io/capstan:$(VERSION)
# When VERSION was, or will be, released; and what it replaces, if it is not the first.
BUNDLE_DATE ?= 2026-11-26T00:00:00Z
BUNDLE_REPLACES ?=
# The digest of BUNDLE_IMAGE, sha256:…, which a release names in place of the tag.
BUNDLE_DIGEST ?=
BUNDLE_DIR ?= bundle

.PHONY: bundle
bundle: operator-manifests ## Writes the OLM bundles of both operators to bundle/.
	for operator in clustermanager klusterlet; do \
	  $(KUSTOMIZE) build config/operator/$$operator | go run ./hack/bundle -version $(VERSION) -date $(BUNDLE_DATE) \
	    -replaces '$(BUNDLE_REPLACES)' -image $(BUNDLE_IMAGE) -digest '$(BUNDLE_DIGEST)' -out $(BUNDLE_DIR) $$operator; \
	done

# The bundles of earlier versions that the catalog has besides that of VERSION, as
# directories, or DIRECTORY=IMAGE; BUNDLE_REPLACES is then the latest of them.
# Without any, what BUNDLE_REPLACES names is not in the catalog.
CATALOG_BUNDLES ?=
CATALOG_DIR ?= bin/catalog

.PHONY: catalog
catalog: ## Writes the file-based catalog of OLM with both operators to bin/catalog. CATALOG_BUNDLES adds those of earlier versions.
	$(MAKE) --no-print-directory bundle BUNDLE_DIR=bin/bundles/$(VERSION)
	rm -rf $(CATALOG_DIR)
	go run ./hack/catalog -out $(CATALOG_DIR) -registry $(IMAGE_REGISTRY) $(CATALOG_BUNDLES) $(addprefix bin/bundles/$(VERSION)/,clustermanager klusterlet)

# Rules that a component needs in one namespace only, its operator needs in all:
# which namespace that is stands in the object that the user creates. So the
# rules of Role documents are appended to those of the ClusterRole.
OPERATOR_ROLE = awk '/^---$$/ && seen { skip = 1 } !skip { print } /^rules:$$/ { seen = 1; skip = 0 }'

# Copies of what `make generate` makes: kustomize, and kubectl apply -k, read
# nothing outside of a base.
.PHONY: operator-manifests
operator-manifests:
	install -m 644 config/crd/operator.open-cluster-management.io_clustermanagers.yaml config/operator/clustermanager/crd.yaml
	install -m 644 config/crd/operator.open-cluster-management.io_klusterlets.yaml config/operator/klusterlet/crd.yaml
	install -m 644 config/crd/fleet.capstan.io_controlplanes.yaml config/operator/controlplane/crd.yaml
	$(OPERATOR_ROLE) config/rbac/cluster-manager/role.yaml > config/operator/clustermanager/role.yaml
	$(OPERATOR_ROLE) config/rbac/klusterlet/role.yaml > config/operator/klusterlet/role.yaml
	$(OPERATOR_ROLE) config/rbac/control-plane/role.yaml > config/operator/controlplane/role.yaml
	sed 's/^  name: control-plane-namespace$$/  name: capstan:control-plane:namespace/' config/rbac/control-plane-namespace/role.yaml > config/operator/controlplane/namespace_role.yaml

.PHONY: test-bundle
test-bundle: ## Validates the bundles as OLM's own tools do.
	cd test/peers/operator-framework && go test -count=1 ./...
