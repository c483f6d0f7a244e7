##@ Build

# Where executables and image go.
BIN := bin

.PHONY: build
build: ## Compiles the executables into bin/: capstan-manager, capstan-apiserver, and the command line capstan.
	go build -ldflags '$(GO_LDFLAGS)' -o $(BIN)/ ./cmd/...

PREFIX ?= /usr/local

# kubectl finds its plugins, and how to complete their arguments, by these names.
.PHONY: install-cli
install-cli: build ## Installs capstan, also as kubectl's plugin, into PREFIX/bin (/usr/local).
	install -D -m 0755 bin/capstan $(DESTDIR)$(PREFIX)/bin/capstan
	ln -sf capstan $(DESTDIR)$(PREFIX)/bin/kubectl-capstan
	ln -sf capstan $(DESTDIR)$(PREFIX)/bin/kubectl_complete-capstan

# Names under which OCM's charts and tools start the programs in their images.
IMAGE_LINKS := registration-operator registration work placement propagation
CA_BUNDLE ?= /etc/ssl/certs/ca-certificates.crt

.PHONY: image
image: build ## Makes bin/capstan-image.tar, an image of the two static executables that run in clusters.
	$(LAB) image --binary $(BIN)/capstan-manager --ref $(IMAGE_NAME) --no-entrypoint \
	  $(foreach link,$(IMAGE_LINKS),--link $(link)) \
	  --file $(BIN)/capstan-apiserver:/capstan-apiserver \
	  $(if $(wildcard $(CA_BUNDLE)),--file $(CA_BUNDLE):/etc/ssl/certs/ca-certificates.crt) \
	  -o $(BIN)/capstan-image.tar
	@echo "$(BIN)/capstan-image.tar has $(IMAGE_NAME)"
	@echo "load it with 'docker load -i', 'ctr -n k8s.io images import' or '$(LAB) load-image'"

# What tests of upgrades lead from and to: the releases of test/upgrade/releases.txt, in
# bin/released, and the code of this tree under the number of a later one.
NEXT_VERSION := 0.2.0
NEXT_IMAGE := $(IMAGE_REGISTRY)/capstan:$(NEXT_VERSION)

.PHONY: released next
released: $(LAB)
	test/upgrade/build.sh
next: $(LAB)
	$(MAKE) --no-print-directory image BIN=bin/next VERSION=$(NEXT_VERSION) IMAGE_NAME=$(NEXT_IMAGE)

.PHONY: clean
clean: ## Removes what was built.
	rm -rf bin
	$(MAKE) -C test/lab clean
