# Everything that a developer or a user does with Capstan is a target here.
# `make help` lists them. The parts stand in hack/make.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

VERSION ?= 0.1.0
IMAGE_REGISTRY ?= quay.io/capstan-io
IMAGE_TAG ?= $(VERSION)
IMAGE_NAME ?= $(IMAGE_REGISTRY)/capstan:$(IMAGE_TAG)

# The same flags everywhere, so that all targets share what they have compiled. What debuggers
# read is left out: it takes a seventh of the time, and executables are stripped of it.
export CGO_ENABLED := 0
export GOFLAGS := -trimpath -gcflags=all=-dwarf=false
GO_LDFLAGS := -s -w -X github.com/capstan-io/capstan/internal/server/version.release=$(VERSION) \
  -X github.com/capstan-io/capstan/internal/server/version.image=$(IMAGE_NAME)

# Not by `go tool`, which knows no -trimpath: it would compile all of Go's library again.
CONTROLLER_GEN := go run -modfile=hack/tools/go.mod sigs.k8s.io/controller-tools/cmd/controller-gen
OPENAPI_GEN := go run -modfile=hack/tools/go.mod k8s.io/kube-openapi/cmd/openapi-gen
APPLYCONFIGURATION_GEN := go run -modfile=hack/tools/go.mod k8s.io/code-generator/cmd/applyconfiguration-gen
CLIENT_GEN := go run -modfile=hack/tools/go.mod k8s.io/code-generator/cmd/client-gen
KUSTOMIZE := go run -modfile=hack/tools/go.mod sigs.k8s.io/kustomize/kustomize/v5
GOLANGCI_LINT := go run -modfile=$(CURDIR)/hack/lint/go.mod github.com/golangci/golangci-lint/v2/cmd/golangci-lint

include $(sort $(wildcard hack/make/*.mk))

##@ Help

.PHONY: help
help: ## Lists the targets.
	@awk 'BEGIN { FS = ":.*## " } \
	  /^##@/ { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-zA-Z0-9_-]+:.*## / { printf "  %-22s %s\n", $$1, $$2 }' Makefile hack/make/*.mk
