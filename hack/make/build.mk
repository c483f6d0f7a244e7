##@ Build

.PHONY: build
build: ## Compiles the executables into bin/: capstan-manager, capstan-apiserver, and the command line capstan.
	go build -ldflags '$(GO_LDFLAGS)' -o bin/ ./cmd/...

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
	$(LAB) image --binary bin/capstan-manager --ref $(IMAGE_NAME) --no-entrypoint \
	  $(foreach link,$(IMAGE_LINKS),--link $(link)) \
	  --file bin/capstan-apiserver:/capstan-apiserver \
	  $(if $(wildcard $(CA_BUNDLE)),--file $(CA_BUNDLE):/etc/ssl/certs/ca-certificates.crt) \
	  -o bin/capstan-image.tar
	@echo "bin/capstan-image.tar has $(IMAGE_NAME)"
	@echo "load it with 'docker load -i', 'ctr -n k8s.io images import' or '$(LAB) load-image'"

.PHONY: clean
clean: ## Removes what was built.
	rm -rf bin
	$(MAKE) -C test/lab clean
