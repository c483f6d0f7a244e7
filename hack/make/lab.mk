##@ Lab

# Kubernetes clusters on this machine, with nodes that run pods, made of plain
# processes: no container engine, no registry. test/lab/README.md explains them.

# The clusters that lab-up starts. Those of an earlier lab-up stay.
LAB_CLUSTERS ?= hub member1
# What the lab keeps: everything that belongs to it is in here, or named after it.
LAB_DIR ?= /var/lib/capstan-lab
export LAB_DIR

LAB := test/lab/bin/lab
LAB_KUBE := test/lab/bin/kube
LAB_KUBECTL := test/lab/bin/kubectl
LAB_KUBECONFIG := $(LAB_DIR)/kubeconfig

.PHONY: lab-up
lab-up: lab-root lab-packages lab-build ## Starts the clusters LAB_CLUSTERS (hub member1). Needs root; installs Debian's packages.
	$(LAB) up $(foreach cluster,$(LAB_CLUSTERS),--name $(cluster))

# Tells who is not root before anything is compiled.
.PHONY: lab-root
lab-root:
	@test "$$(id -u)" = 0 || { echo "clusters with nodes need root: run make as root, or with sudo" >&2; exit 1; }

.PHONY: lab-down
lab-down: $(LAB) ## Removes the clusters, and checks that nothing of them is left on the machine.
	$(LAB) down
	$(LAB) leftovers

.PHONY: lab-status
lab-status: $(LAB) ## Tells how the clusters are.
	@$(LAB) status

.PHONY: lab-kubeconfig
lab-kubeconfig: $(LAB) ## Prints the path of the kubeconfig that has a context for each cluster.
	@$(LAB) kubeconfig --path

.PHONY: lab-packages
lab-packages: $(LAB) ## Installs the packages that the clusters need (Debian, as root), or names them.
	$(LAB) prerequisites --install-packages

# The first build compiles all of Kubernetes.
.PHONY: lab-build
lab-build: ## Compiles test/lab/bin: lab, kube (Kubernetes), kubectl and images. Minutes, the first time.
	$(MAKE) -C test/lab build

# Compiled only for who asks for it: as many packages again.
.PHONY: lab-older
lab-older: ## Compiles test/lab/bin/older.tar: API server and controller manager one minor version before. Minutes, the first time.
	$(MAKE) -C test/lab older

.PHONY: lab-clean
lab-clean: ## Removes what lab-build and envtest-assets have made.
	$(MAKE) -C test/lab clean
	rm -rf bin/envtest $(ENVTEST_CACHE)

# build.mk is read before LAB is known.
image: $(LAB)

# Go knows whether there is anything to do.
.PHONY: $(LAB)
$(LAB):
	@$(MAKE) -s --no-print-directory -C test/lab bin/lab

$(LAB_KUBE): test/lab/go.mod test/lab/go.sum test/lab/Makefile $(wildcard test/lab/cmd/kube/*.go)
	$(MAKE) -C test/lab bin/kube
	touch $@

# The folder is named after what is in it, as Go keeps the results of tests by the
# value of KUBEBUILDER_ASSETS and does not look into the programs.
ENVTEST_CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/capstan/envtest

.PHONY: envtest-assets
envtest-assets: bin/envtest/kube-controller-manager ## Lays out bin/envtest for envtest (KUBEBUILDER_ASSETS) and prints its path.
	@echo $(CURDIR)/bin/envtest

bin/envtest/kube-controller-manager: $(LAB_KUBE)
	$(MAKE) -C test/lab bin/lab
	hash=$$(sha256sum $(LAB_KUBE) | cut -c1-16); folder=$(ENVTEST_CACHE)/$$hash; \
	if [[ ! -e $$folder ]]; then \
	  mkdir -p $(ENVTEST_CACHE); new=$$(mktemp -d $(ENVTEST_CACHE)/new.XXXX); \
	  $(LAB) assets $$new; mv -T $$new $$folder; \
	fi; \
	mkdir -p bin; rm -rf bin/envtest; ln -s $$folder bin/envtest; touch $$folder/kube
