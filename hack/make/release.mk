##@ Release

# Everything that a release consists of, made from one commit: docs/RELEASE.md.
# The programs for it are in hack/tools/release.

RELEASE_DIR ?= dist/$(VERSION)
# Where the command line runs, and where the image does.
RELEASE_PLATFORMS ?= linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64
RELEASE_IMAGE_PLATFORMS ?= linux/amd64 linux/arm64
# What else decides about the bytes that Go writes, whatever the machine has set:
# Go's own settings, a workspace, and variants of architectures.
RELEASE_GO := GOENV=off GOWORK=off GOAMD64=v1 GOARM64=v8.0 GOEXPERIMENT= GOFIPS140=off go
# Where the files of the release will be downloaded.
RELEASE_URL ?= https://github.com/capstan-io/capstan/releases/download/v$(VERSION)
# A private key of cosign, whose password is COSIGN_PASSWORD. Nothing is signed without.
SIGNING_KEY ?=

RELEASE := bin/release
RELEASE_COMMIT = $(shell git rev-parse HEAD)
# All that a release has is of the time of its commit.
RELEASE_ENV = SOURCE_DATE_EPOCH=$${SOURCE_DATE_EPOCH:-$$(git log -1 --format=%ct)}
RELEASE_STEP = $(RELEASE_ENV) $(RELEASE)
# Executables by platform, such as linux-arm64.
RELEASE_BIN := bin/dist
RELEASE_PREFIX = $(RELEASE_DIR)/capstan-$(VERSION)
RELEASE_DIGEST = $(RELEASE_DIR)/image-digest.txt

release_platform = $(subst /,-,$1)
release_archive = $(RELEASE_PREFIX)-$(call release_platform,$1)$(if $(findstring windows,$1),.zip,.tar.gz)
release_cli = capstan$(if $(findstring windows,$1),.exe)

# The order matters, so these call make again. An incomplete release is removed.
.PHONY: release
release: release-arguments $(RELEASE) ## Makes dist/VERSION from a clean tree, always with the same bytes. SIGNING_KEY signs it. Minutes. RELEASE_CHECK=-allow-dirty for a trial.
	@test '$(origin VERSION)' != file || { echo "say which release: make release VERSION=0.2.0" >&2; exit 1; }
	$(RELEASE) check -version '$(VERSION)' $(RELEASE_CHECK)
	rm -rf $(RELEASE_DIR)
	mkdir -p $(RELEASE_DIR)
	@for step in build image cli manifests notes sbom sums; do \
	  $(MAKE) --no-print-directory release-$$step || { rm -rf $(RELEASE_DIR); exit 1; }; \
	done
	@echo "$(RELEASE_DIR) has the release; docs/RELEASE.md says how to publish it"

# What would fail only after minutes.
.PHONY: release-arguments
release-arguments:
	@[[ ' $(RELEASE_PLATFORMS) $(RELEASE_IMAGE_PLATFORMS) ' == *' $(RELEASE_HOST_PLATFORM) '* ]] || \
	  { echo "RELEASE_PLATFORMS or RELEASE_IMAGE_PLATFORMS has to have $(RELEASE_HOST_PLATFORM): this machine runs the command line to make its completions" >&2; exit 1; }
	@for bundle in $(CATALOG_BUNDLES); do \
	  [[ -e $${bundle%%=*}/metadata/annotations.yaml ]] || { echo "CATALOG_BUNDLES: $${bundle%%=*} is no directory with a bundle" >&2; exit 1; }; \
	done

# Go knows whether there is anything to do.
.PHONY: $(RELEASE)
$(RELEASE):
	$(RELEASE_GO) build -C hack/tools -o $(CURDIR)/$@ ./release

# Without what git knows: the same commit has to give the same executables, be it
# tagged, in a shallow clone, or exported. SBOMs and labels have the commit. Go
# leaves an executable alone that is as it would make it.
.PHONY: release-build
release-build: $(addprefix release-build/,$(sort $(RELEASE_PLATFORMS) $(RELEASE_IMAGE_PLATFORMS)))

.PHONY: release-build/%
release-build/%:
	mkdir -p $(RELEASE_BIN)/$(call release_platform,$*)
	GOOS=$(firstword $(subst /, ,$*)) GOARCH=$(lastword $(subst /, ,$*)) $(RELEASE_GO) build -buildvcs=false -ldflags '$(GO_LDFLAGS)' \
	  -o $(RELEASE_BIN)/$(call release_platform,$*)/ $(if $(filter $*,$(RELEASE_IMAGE_PLATFORMS)),./cmd/...,./cmd/capstan)

.PHONY: release-image
release-image: $(RELEASE)
	mkdir -p $(RELEASE_DIR)
	$(RELEASE_STEP) image -ref $(IMAGE_NAME) -version $(VERSION) -commit $(RELEASE_COMMIT) -key '$(SIGNING_KEY)' \
	  -layout $(RELEASE_DIR)/image -archive $(RELEASE_PREFIX)-image.oci.tar -docker $(RELEASE_PREFIX)-image- -digest $(RELEASE_DIGEST) \
	  -program capstan-manager -program capstan-apiserver $(addprefix -link ,$(IMAGE_LINKS)) \
	  $(foreach platform,$(RELEASE_IMAGE_PLATFORMS),-platform $(platform)=$(RELEASE_BIN)/$(call release_platform,$(platform)))

# The completions are those of the executable for the machine that makes the release.
RELEASE_HOST_PLATFORM = $(shell go env GOHOSTOS)/$(shell go env GOHOSTARCH)
RELEASE_HOST = $(RELEASE_BIN)/$(call release_platform,$(RELEASE_HOST_PLATFORM))
RELEASE_COMPLETIONS := $(RELEASE_BIN)/completions

.PHONY: release-cli
release-cli: $(RELEASE)
	mkdir -p $(RELEASE_COMPLETIONS)
	$(RELEASE_HOST)/capstan completion bash > $(RELEASE_COMPLETIONS)/capstan.bash
	$(RELEASE_HOST)/capstan completion zsh > $(RELEASE_COMPLETIONS)/_capstan
	$(RELEASE_HOST)/capstan completion fish > $(RELEASE_COMPLETIONS)/capstan.fish
	$(RELEASE_HOST)/capstan completion powershell > $(RELEASE_COMPLETIONS)/capstan.ps1
	$(foreach platform,$(RELEASE_PLATFORMS),$(RELEASE_STEP) archive -o $(call release_archive,$(platform)) \
	  -add LICENSE=LICENSE -add completions=$(RELEASE_COMPLETIONS) \
	  -add $(call release_cli,$(platform))=$(RELEASE_BIN)/$(call release_platform,$(platform))/$(call release_cli,$(platform)) &&) true
	$(RELEASE) krew -version $(VERSION) -base $(RELEASE_URL) -o $(RELEASE_DIR)/capstan.yaml \
	  $(foreach platform,$(RELEASE_PLATFORMS),-archive $(platform)=$(call release_archive,$(platform)))

# What installs the image: each names it by its digest.
.PHONY: release-manifests
release-manifests: release-olm $(if $(wildcard hack/make/charts.mk),release-charts)

# Charts as Helm packs them, but the same each time, and what kubectl applies.
RELEASE_CHARTS := bin/release-charts
.PHONY: release-charts
release-charts: $(RELEASE)
	rm -rf $(RELEASE_CHARTS)
	mkdir -p $(RELEASE_CHARTS)/helm
	$(MAKE) --no-print-directory charts CHARTS_DIR=$(RELEASE_CHARTS) CHARTS_VERSION=$(VERSION) CHARTS_REGISTRY=$(IMAGE_REGISTRY)
	$(foreach chart,cluster-manager klusterlet,$(RELEASE_STEP) archive -o $(RELEASE_DIR)/$(chart)-$(VERSION).tgz \
	  -add $(chart)=$(RELEASE_CHARTS)/helm/$(chart) &&) true
	install -m 644 $(RELEASE_CHARTS)/*.yaml $(RELEASE_DIR)/

# make's date and digest, as the shell knows them.
RELEASE_ISO_DATE = $(shell $(RELEASE_ENV); date -u -d "@$$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
RELEASE_SHA = $(lastword $(subst @, ,$(shell cat $(RELEASE_DIGEST))))
RELEASE_OLM := bin/release-olm
release_operator = -add operators/$1/ci.yaml=bin/bundles/$(VERSION)/$2/ci.yaml \
  $(foreach part,manifests metadata tests,-add operators/$1/$(VERSION)/$(part)=bin/bundles/$(VERSION)/$2/$(part))

# The bundles are laid out as OperatorHub's repositories have them: by
# package and version, with ci.yaml beside the versions.
.PHONY: release-olm
release-olm: $(RELEASE)
	rm -rf $(RELEASE_OLM) bin/bundles/$(VERSION)
	$(MAKE) --no-print-directory catalog CATALOG_DIR=$(RELEASE_OLM)/catalog \
	  BUNDLE_IMAGE=$(IMAGE_NAME) BUNDLE_DIGEST=$(RELEASE_SHA) BUNDLE_DATE=$(RELEASE_ISO_DATE)
	$(RELEASE_STEP) archive -o $(RELEASE_PREFIX)-olm.tar.gz -add catalog=$(RELEASE_OLM)/catalog \
	  $(call release_operator,capstan-hub,clustermanager) $(call release_operator,capstan-klusterlet,klusterlet)

.PHONY: release-notes
release-notes: $(RELEASE)
	$(RELEASE) notes -version $(VERSION) -image "$$(cat $(RELEASE_DIGEST))" -o $(RELEASE_DIR)/RELEASE_NOTES.md

# Bills of materials, in CycloneDX: of each command line, and of the image for each platform.
.PHONY: release-sbom
release-sbom: $(RELEASE)
	$(foreach platform,$(RELEASE_PLATFORMS),$(RELEASE_STEP) sbom -version $(VERSION) -commit $(RELEASE_COMMIT) -platform $(platform) \
	  -o $(RELEASE_PREFIX)-$(call release_platform,$(platform)).cdx.json $(RELEASE_BIN)/$(call release_platform,$(platform))/$(call release_cli,$(platform)) &&) true
	$(foreach platform,$(RELEASE_IMAGE_PLATFORMS),$(RELEASE_STEP) sbom -version $(VERSION) -commit $(RELEASE_COMMIT) -platform $(platform) -image "$$(cat $(RELEASE_DIGEST))" \
	  -o $(RELEASE_PREFIX)-image-$(call release_platform,$(platform)).cdx.json $(addprefix $(RELEASE_BIN)/$(call release_platform,$(platform))/,capstan-manager capstan-apiserver) &&) true

.PHONY: release-sums
release-sums: $(RELEASE)
	$(RELEASE) sums -dir $(RELEASE_DIR) -key '$(SIGNING_KEY)'

.PHONY: release-verify
release-verify: $(RELEASE) ## Verifies dist/VERSION: checksums, digests and, with PUBLIC_KEY, signatures.
	$(RELEASE) verify -dir $(RELEASE_DIR) -layout $(RELEASE_DIR)/image -key '$(PUBLIC_KEY)'

.PHONY: release-check
release-check: ## Makes the release of VERSION again from a clone in another directory, and compares it with dist/VERSION.
	@case '$(RELEASE_DIR)/' in /*|*../*) \
	  echo "RELEASE_DIR=$(RELEASE_DIR): write it relative to the repository and within it, as the clone would remove this one" >&2; exit 1;; \
	esac
	rm -rf bin/again
	git clone --quiet --no-hardlinks . bin/again
	$(MAKE) --no-print-directory -C bin/again release VERSION=$(VERSION) IMAGE_REGISTRY=$(IMAGE_REGISTRY) \
	  SIGNING_KEY='$(if $(SIGNING_KEY),$(abspath $(SIGNING_KEY)))' CATALOG_BUNDLES='$(abspath $(CATALOG_BUNDLES))'
	diff -r $(RELEASE_DIR) bin/again/$(RELEASE_DIR)
	rm -rf bin/again
	@echo "$(RELEASE_DIR) is the same, byte for byte"

.PHONY: release-push
release-push: $(RELEASE) ## Pushes the image of dist/VERSION, and its signature, to IMAGE_NAME.
	$(RELEASE) push -dir $(RELEASE_DIR) -layout $(RELEASE_DIR)/image -to $(IMAGE_NAME)

.PHONY: test-release-programs
test-release-programs: ## Tests the programs that make releases, with small files.
	cd hack/tools && go test -count=1 ./release/...

RELEASE_TEST_TIMEOUT := 15m

.PHONY: test-release
test-release: lab-build ## Tests dist/VERSION: executables of all platforms, and the image in pods of a real cluster. Needs root. Makes what is not there, also from a tree with changes.
	[[ -e $(RELEASE_DIR)/SHA256SUMS ]] || $(MAKE) --no-print-directory release VERSION=$(VERSION) RELEASE_CHECK=-allow-dirty
	$(MAKE) --no-print-directory release-verify
	VERSION=$(VERSION) RELEASE_DIR=$(abspath $(RELEASE_DIR)) IMAGE_NAME=$(IMAGE_NAME) RELEASE_PLATFORMS='$(RELEASE_PLATFORMS)' RELEASE_IMAGE_PLATFORMS='$(RELEASE_IMAGE_PLATFORMS)' \
	  go test -tags e2e -count=1 -v -timeout $(RELEASE_TEST_TIMEOUT) ./test/release
