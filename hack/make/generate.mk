##@ Generate

# The packages whose +kubebuilder:rbac markers tell what a component needs;
# RBAC_SHARED is linked by all of them. Those without code are left out below.
RBAC_SHARED := internal/server/guard/...
RBAC_registration-controller := internal/hub/registration/... $(RBAC_SHARED)
RBAC_registration-webhook := internal/kube/access/... internal/webhook/serving/... internal/webhook/cluster/... $(RBAC_SHARED)
RBAC_work-webhook := internal/kube/access/... internal/webhook/serving/... internal/webhook/propagation/... internal/webhook/work/... $(RBAC_SHARED)
RBAC_work-controller := internal/hub/work/... $(RBAC_SHARED)
RBAC_placement-controller := internal/hub/placement/... $(RBAC_SHARED)
RBAC_propagation-controller := internal/hub/propagation/... $(RBAC_SHARED)
# What else it may do, it may grant itself, and the operator only where an
# administrator lets it: config/samples/propagation.
RBAC_propagation-operator := internal/hub/propagation \
  $(addsuffix /...,$(shell find internal/hub/propagation -mindepth 1 -maxdepth 1 -type d ! -name rights | sort))
RBAC_apiserver := internal/apiserver/... internal/kube/access/...
RBAC_registration-agent := internal/cluster/fleet/... $(if $(wildcard internal/agent/*.go),internal/agent) \
  $(addsuffix /...,$(shell find internal/agent -mindepth 1 -maxdepth 1 -type d ! -name work ! -name push | sort)) $(RBAC_SHARED)
RBAC_work-agent := internal/cluster/fleet/... internal/kube/apply/... internal/agent/work/... $(RBAC_SHARED)
RBAC_push-agent := internal/agent/push/... $(RBAC_SHARED)
# An operator can grant only what it holds, so it has the rules of what it
# installs besides its own.
RBAC_cluster-manager := operators/clustermanager/... internal/server/certs/... internal/operator/render/... $(sort $(RBAC_registration-controller) $(RBAC_registration-webhook) $(RBAC_work-webhook) $(RBAC_work-controller) $(RBAC_placement-controller) $(RBAC_propagation-operator) $(RBAC_apiserver) $(RBAC_push-agent))
RBAC_klusterlet := operators/klusterlet/... internal/operator/render/... $(sort $(RBAC_registration-agent) $(RBAC_work-agent))
# That of ControlPlanes has rules of its own, and others in their namespaces.
RBAC_control-plane := operators/controlplane $(RBAC_SHARED)
RBAC_control-plane-namespace := operators/controlplane/manifests
RBAC_COMPONENTS := cluster-manager klusterlet control-plane control-plane-namespace registration-controller registration-webhook work-webhook work-controller placement-controller propagation-controller apiserver push-agent registration-agent work-agent

.PHONY: generate
generate: generate-deepcopy generate-client generate-openapi generate-crd generate-rbac generate-fence generate-spec generate-cli generate-docs ## Writes deep copies, the client of fleet.capstan.io, OpenAPI definitions, CRDs, roles, fences, the tables of docs/spec, docs/ARCHITECTURE.md and docs/reference/interpreters.md, and docs/reference/cli.md from the code.

.PHONY: generate-deepcopy
generate-deepcopy:
	$(CONTROLLER_GEN) object:headerFile=hack/boilerplate.go.txt paths=./apis/...

# The group that is our own has no other project's clients. Its types do not import
# what is made here, so that who wants them alone does not link it.
FLEET_CLIENT := apis/fleet/client
FLEET_VERSIONS := fleet/v1alpha1

.PHONY: generate-client
generate-client:
	rm -rf $(FLEET_CLIENT)
	$(APPLYCONFIGURATION_GEN) --go-header-file hack/boilerplate.go.txt \
	  --output-dir $(FLEET_CLIENT)/applyconfiguration --output-pkg github.com/capstan-io/capstan/$(FLEET_CLIENT)/applyconfiguration \
	  $(addprefix ./apis/,$(FLEET_VERSIONS))
	$(CLIENT_GEN) --go-header-file hack/boilerplate.go.txt \
	  --clientset-name versioned --output-dir $(FLEET_CLIENT) --output-pkg github.com/capstan-io/capstan/$(FLEET_CLIENT) \
	  --apply-configuration-package github.com/capstan-io/capstan/$(FLEET_CLIENT)/applyconfiguration \
	  --input-base github.com/capstan-io/capstan/apis $(addprefix --input ,$(FLEET_VERSIONS))

# What the aggregated API server serves is described by the types themselves.
OPENAPI_KUBERNETES := $(addprefix k8s.io/apimachinery/pkg/,apis/meta/v1 api/resource runtime version)

.PHONY: generate-openapi
generate-openapi:
	$(OPENAPI_GEN) --go-header-file hack/boilerplate.go.txt --report-filename /dev/null \
	  --output-dir internal/apiserver/openapi --output-pkg github.com/capstan-io/capstan/internal/apiserver/openapi \
	  --output-file zz_generated.openapi.go --output-model-name-file zz_generated.model_name.go \
	  $(addprefix --readonly-pkg ,$(OPENAPI_KUBERNETES)) \
	  ./apis/karmada/cluster/v1alpha1 ./apis/karmada/work/v1alpha1 $(OPENAPI_KUBERNETES)

# A quantity may have an exponent of ten digits, and whoever parses it makes a number with
# as many digits as that says. So the pattern of all quantities is narrower than the one
# that controller-gen knows: it is that of internal/untrusted/quantity.
#
# What API servers take for a date-time is more than what Go reads: "t" for "T", an offset of 99 hours,
# anything after another "t". One such text, which any agent may report, keeps all clients from
# reading any object of the kind. So all of them have the form of RFC 3339 in which Go writes them, and
# years that are not before 0 or after 9999 in any zone.
# Likewise a number that may be a text has 32 bits in Go.
.PHONY: generate-crd
generate-crd:
	rm -f config/crd/*.yaml
	$(CONTROLLER_GEN) crd paths=./apis/... output:crd:dir=config/crd
	sed -i -E '/^ *pattern: \^\(\\\+\|-\)\?\(\(\[0-9\]\+/ s/pattern: .*/pattern: ^[+-]?([0-9]{1,40}(\\.[0-9]{0,40})?|\\.[0-9]{1,40})([KMGTPE]i|[numkMGTPE]|[eE][+-]?[0-9]{1,2})?$$/' config/crd/*.yaml
	sed -i -E 's/^( *)format: date-time$$/&\n\1maxLength: 40\n\1pattern: ^[12][0-9]{3}-[0-9]{2}-[0-9]{2}T([01][0-9]|2[0-3])(:[0-5][0-9]){2}(\\.[0-9]{1,9})?(Z|[+-]([01][0-9]|2[0-3]):[0-5][0-9])$$/' config/crd/*.yaml
	for file in config/crd/*.yaml; do \
	  awk '/x-kubernetes-int-or-string: true/ && before !~ /pattern: \^\[\+-]/ { indent = $$0; sub(/x-.*/, "", indent); print indent "maximum: 2147483647"; print indent "minimum: -2147483648" } \
	    { print; before = $$0 }' "$$file" >"$$file.new" && mv "$$file.new" "$$file"; \
	done

# A component without markers gets no role; that of an earlier one must not stay.
.PHONY: generate-rbac
generate-rbac:
	go run -C hack/tools ./rbac $(CURDIR) $(CURDIR)/config/rbac $(foreach component,$(RBAC_COMPONENTS),$(component)=$(call rbac_folders,$(component)))

# The folders of a component that exist, with commas between them.
comma := ,
empty :=
rbac_folders = $(subst $(empty) $(empty),$(comma),$(strip $(foreach package,$(RBAC_$(1)),$(if $(wildcard $(package:/...=)),$(package)))))

.PHONY: generate-fence
generate-fence:
	go run ./hack/gen fences

.PHONY: generate-spec
generate-spec: generate-crd generate-rbac generate-openapi
	go run ./hack/gen fields served
	go test -short -count=1 -run TestThePageOfModesHasTheCases ./test/integration/conformance -update

.PHONY: generate-cli
generate-cli:
	go run ./hack/gen cli

.PHONY: generate-docs
generate-docs:
	go run ./hack/gen architecture interpreters
