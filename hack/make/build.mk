##@ Build

.PHONY: build
build: ## Compiles the executable into bin/.
	go build -ldflags '$(GO_LDFLAGS)' -o bin/ ./cmd/...

# Names under which OCM's charts and tools start the programs in their images.
IMAGE_LINKS := registration-operator registration work
CA_BUNDLE ?= /etc/ssl/certs/ca-certificates.crt

.PHONY: image
image: build ## Makes bin/capstan-image.tar, an image of one static executable.
	$(LAB) image --binary bin/capstan-manager --ref $(IMAGE_NAME) --no-entrypoint \
	  $(foreach link,$(IMAGE_LINKS),--link $(link)) \
	  $(if $(wildcard $(CA_BUNDLE)),--file $(CA_BUNDLE):/etc/ssl/certs/ca-certificates.crt) \
	  -o bin/capstan-image.tar
	@echo "bin/capstan-image.tar has $(IMAGE_NAME)"
	@echo "load it with 'docker load -i', 'ctr -n k8s.io images import' or '$(LAB) load-image'"

.PHONY: clean
clean: ## Removes what was built.
	rm -rf bin
	$(MAKE) -C test/lab clean
