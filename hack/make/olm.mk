##@ OLM

# OLM itself, and the tool of its catalogs, from their Go modules: test/peers/olm
# pins them.
OLM_TIMEOUT := 30m
# The programs of each of the two images that OLM runs.
OLM_IN_OLM := ./tools/cp $(addprefix github.com/operator-framework/operator-lifecycle-manager/,cmd/olm cmd/catalog cmd/copy-content util/cpb)
OLM_IN_OPM := ./tools/grpc_health_probe github.com/operator-framework/operator-registry/cmd/opm

.PHONY: test-olm
test-olm: lab-root lab-build olm-build ## Installs, upgrades and removes both operators with OLM on real clusters. Needs root.
	cd test/peers/olm && go test -tags e2e -count=1 -v -timeout $(OLM_TIMEOUT) .

.PHONY: test-olm-short
test-olm-short: lab-root lab-build olm-build ## The same without what OLM has to refuse or to hold back.
	@$(MAKE) --no-print-directory test-olm-ways

# For test-e2e, which builds what it needs.
.PHONY: test-olm-ways
test-olm-ways:
	cd test/peers/olm && go test -tags e2e -short -count=1 -v -timeout $(OLM_TIMEOUT) .

# What needs no cluster.
.PHONY: test-olm-unit
test-olm-unit:
	cd test/peers/olm && go test -count=1 ./images

# The first build compiles OLM, which takes minutes.
.PHONY: olm-build
olm-build: $(LAB) released next olm-programs olm-bundles
	$(LAB) image --binary bin/olm/images/olm/olm --ref quay.io/operator-framework/olm:lab --no-entrypoint --link bin/olm \
	  $(foreach program,catalog copy-content cpb cp,--file bin/olm/images/olm/$(program):/bin/$(program)) -o bin/olm/olm.tar

.PHONY: olm-programs
olm-programs: OLM_GO_BUILD = go build -tags containers_image_openpgp,json1 -ldflags '-s -w'
olm-programs:
	cd test/peers/olm && $(OLM_GO_BUILD) -o $(CURDIR)/bin/olm/images/olm/ $(OLM_IN_OLM)
	cd test/peers/olm && $(OLM_GO_BUILD) -o $(CURDIR)/bin/olm/images/opm/bin/ $(OLM_IN_OPM)

.PHONY: olm-bundles
olm-bundles: released
	mkdir -p bin/olm
	rm -rf bin/olm/bundles
	cp -r bin/released/v0.1.0/bin/bundles bin/olm/bundles
	$(MAKE) --no-print-directory bundle BUNDLE_DIR=bin/olm/bundles/$(NEXT_VERSION) VERSION=$(NEXT_VERSION) BUNDLE_IMAGE=$(NEXT_IMAGE) BUNDLE_REPLACES=0.1.0
