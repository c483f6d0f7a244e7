##@ Deploy

# Installs what IMAGE_NAME has on any clusters, as users do it. Nothing here
# changes a file of the repository but HUB_KUBECONFIG.

KUBECTL ?= kubectl
# Contexts of kubectl for the hub and the member; the current one if empty.
HUB_CONTEXT ?=
SPOKE_CONTEXT ?=
# The bootstrap kubeconfig: hub-kubeconfig writes it, deploy-spoke reads it.
HUB_KUBECONFIG ?= ./.hub-kubeconfig
# The kubeconfig of the administrator of a dedicated hub: deploy-hub-dedicated
# writes it. DELETE_DATA=yes lets clean-hub-dedicated delete what the hub has stored,
# and FORCE=yes remove a hub that does not answer.
DEDICATED_HUB_KUBECONFIG ?= ./.dedicated-hub-kubeconfig
DELETE_DATA ?=
FORCE ?=
# How long its token is valid; the API server may make it shorter.
BOOTSTRAP_TOKEN_TTL ?= 24h
# The member's name on the hub.
MANAGED_CLUSTER_NAME ?= cluster1
KLUSTERLET_NAME ?= klusterlet
# Singleton (one agent) or Default (one agent for registration, one for work).
KLUSTERLET_MODE ?= Singleton
# The kubeconfig of the member whose agents deploy-spoke-hosted lets run on the
# cluster of SPOKE_CONTEXT.
EXTERNAL_MANAGED_KUBECONFIG ?= ./.external-managed-kubeconfig
# The kubeconfig of the cluster that deploy-hub-hosted makes a hub, whose
# components run on the cluster of HUB_CONTEXT; the name of the ClusterManager
# there, and of the namespace; and the name or IPv4 address under which the hub
# reaches ports 30443 and 31443 of that cluster, the address of a node if empty.
EXTERNAL_HUB_KUBECONFIG ?= ./.external-hub-kubeconfig
HOSTED_CLUSTER_MANAGER_NAME ?= cluster-manager
HOSTED_WEBHOOK_ADDRESS ?=
# Seconds that a step may take until it fails.
WAIT_SECONDS ?= 180

ifneq ($(origin KUBECONFIG),undefined)
export KUBECONFIG
endif
DEPLOY_ENV = KUBECTL='$(KUBECTL)' KUSTOMIZE='$(KUSTOMIZE)' IMAGE_NAME='$(IMAGE_NAME)' WAIT_SECONDS='$(WAIT_SECONDS)' \
  HUB_KUBECONFIG='$(abspath $(HUB_KUBECONFIG))' BOOTSTRAP_TOKEN_TTL='$(BOOTSTRAP_TOKEN_TTL)' \
  MANAGED_CLUSTER_NAME='$(MANAGED_CLUSTER_NAME)' KLUSTERLET_NAME='$(KLUSTERLET_NAME)' KLUSTERLET_MODE='$(KLUSTERLET_MODE)' \
  EXTERNAL_MANAGED_KUBECONFIG='$(abspath $(EXTERNAL_MANAGED_KUBECONFIG))'
ON_HUB = $(DEPLOY_ENV) CONTEXT='$(HUB_CONTEXT)' hack/deploy
# As ON_HUB, where the hub is another cluster than that of HUB_CONTEXT; and on it.
FOR_HUB = EXTERNAL_HUB_KUBECONFIG='$(abspath $(EXTERNAL_HUB_KUBECONFIG))' HOSTED_WEBHOOK_ADDRESS='$(HOSTED_WEBHOOK_ADDRESS)' \
  CLUSTER_MANAGER_NAME='$(HOSTED_CLUSTER_MANAGER_NAME)' $(ON_HUB)
ON_EXTERNAL_HUB = $(DEPLOY_ENV) KUBECONFIG='$(abspath $(EXTERNAL_HUB_KUBECONFIG))' CONTEXT= \
  HUB_NAMESPACE='$(HOSTED_CLUSTER_MANAGER_NAME)' hack/deploy
# On the host of a dedicated hub, and on the hub itself.
ON_HOST = DEDICATED_HUB_KUBECONFIG='$(abspath $(DEDICATED_HUB_KUBECONFIG))' DELETE_DATA='$(DELETE_DATA)' FORCE='$(FORCE)' $(ON_HUB)
ON_DEDICATED_HUB = $(DEPLOY_ENV) KUBECONFIG='$(abspath $(DEDICATED_HUB_KUBECONFIG))' CONTEXT= HUB_NAMESPACE=hub hack/deploy
ON_SPOKE = $(DEPLOY_ENV) CONTEXT='$(SPOKE_CONTEXT)' hack/deploy

# The order matters also where make runs in parallel, so these call make again.
.PHONY: deploy
deploy: ## All in one: makes a cluster a hub and a member of itself.
	@$(MAKE) --no-print-directory deploy-hub
	@$(MAKE) --no-print-directory cluster-ip
	@$(MAKE) --no-print-directory deploy-spoke

.PHONY: deploy-hub
deploy-hub: ## Makes the cluster of HUB_CONTEXT a hub and writes HUB_KUBECONFIG for its members.
	@$(MAKE) --no-print-directory deploy-hub-operator
	@$(MAKE) --no-print-directory apply-hub-cr
	@$(MAKE) --no-print-directory hub-kubeconfig

.PHONY: deploy-hub-hosted
deploy-hub-hosted: ## Makes the cluster of EXTERNAL_HUB_KUBECONFIG a hub and writes HUB_KUBECONFIG; its components run on that of HUB_CONTEXT.
	@$(MAKE) --no-print-directory external-hub-secret
	@$(MAKE) --no-print-directory deploy-hub-operator
	@$(MAKE) --no-print-directory apply-hub-cr-hosted
	@$(MAKE) --no-print-directory hub-kubeconfig-hosted

.PHONY: deploy-hub-dedicated
deploy-hub-dedicated: ## Makes a dedicated hub, whose API server runs on the cluster of HUB_CONTEXT; writes DEDICATED_HUB_KUBECONFIG and HUB_KUBECONFIG.
	@$(ON_HUB)/operator.sh hub-dedicated apply
	@$(MAKE) --no-print-directory deploy-hub-operator
	@$(ON_HOST)/dedicated-cr.sh apply
	@$(ON_HOST)/dedicated-cr.sh kubeconfig
	@$(ON_DEDICATED_HUB)/hub-kubeconfig.sh

.PHONY: deploy-spoke
deploy-spoke: ## Lets the cluster of SPOKE_CONTEXT join the hub of HUB_KUBECONFIG as MANAGED_CLUSTER_NAME.
	@$(MAKE) --no-print-directory bootstrap-secret
	@$(MAKE) --no-print-directory deploy-spoke-operator
	@$(MAKE) --no-print-directory apply-spoke-cr

.PHONY: deploy-spoke-hosted
deploy-spoke-hosted: ## Lets the cluster of EXTERNAL_MANAGED_KUBECONFIG join as MANAGED_CLUSTER_NAME; its agents are running on that of SPOKE_CONTEXT.
	@$(MAKE) --no-print-directory bootstrap-secret-hosted
	@$(MAKE) --no-print-directory external-managed-secret
	@$(MAKE) --no-print-directory deploy-spoke-operator
	@$(MAKE) --no-print-directory apply-spoke-cr-hosted

.PHONY: deploy-hub-operator
deploy-hub-operator: ## Installs the operator cluster-manager.
	@$(ON_HUB)/operator.sh hub apply

.PHONY: apply-hub-cr
apply-hub-cr: ## Creates the ClusterManager and waits until the hub works.
	@$(ON_HUB)/hub-cr.sh apply

.PHONY: external-hub-secret
external-hub-secret: ## Puts EXTERNAL_HUB_KUBECONFIG onto the management cluster.
	@$(FOR_HUB)/hosted-secret.sh external-hub-kubeconfig EXTERNAL_HUB_KUBECONFIG '$(HOSTED_CLUSTER_MANAGER_NAME)' HUB_CONTEXT cluster-manager

.PHONY: apply-hub-cr-hosted
apply-hub-cr-hosted: ## Creates the ClusterManager of a hosted hub and waits until the hub works.
	@$(FOR_HUB)/hub-cr.sh apply-hosted

.PHONY: hub-kubeconfig-hosted
hub-kubeconfig-hosted: ## Writes HUB_KUBECONFIG for a hosted hub, with a token that may ask to join and no more.
	@$(ON_EXTERNAL_HUB)/hub-kubeconfig.sh

.PHONY: hub-kubeconfig
hub-kubeconfig: ## Writes HUB_KUBECONFIG, with a token that may ask to join and no more.
	@$(ON_HUB)/hub-kubeconfig.sh

.PHONY: cluster-ip
cluster-ip: ## Sets the hub's address in HUB_KUBECONFIG to the one for pods on the hub itself.
	@$(ON_HUB)/cluster-ip.sh

.PHONY: deploy-spoke-operator
deploy-spoke-operator: ## Installs the operator klusterlet.
	@$(ON_SPOKE)/operator.sh spoke apply

.PHONY: bootstrap-secret
bootstrap-secret: ## Puts HUB_KUBECONFIG onto the member.
	@$(ON_SPOKE)/bootstrap-secret.sh

.PHONY: apply-spoke-cr
apply-spoke-cr: ## Creates the Klusterlet and tells how to accept the member.
	@$(ON_SPOKE)/spoke-cr.sh apply

.PHONY: bootstrap-secret-hosted
bootstrap-secret-hosted: ## Puts HUB_KUBECONFIG onto the management cluster.
	@$(ON_SPOKE)/hosted-secret.sh bootstrap-hub-kubeconfig HUB_KUBECONFIG '$(KLUSTERLET_NAME)' SPOKE_CONTEXT klusterlet

.PHONY: external-managed-secret
external-managed-secret: ## Puts EXTERNAL_MANAGED_KUBECONFIG onto the management cluster.
	@$(ON_SPOKE)/hosted-secret.sh external-managed-kubeconfig EXTERNAL_MANAGED_KUBECONFIG '$(KLUSTERLET_NAME)' SPOKE_CONTEXT klusterlet

.PHONY: apply-spoke-cr-hosted
apply-spoke-cr-hosted: ## Creates the Klusterlet with hosted agents and tells how to accept the member.
	@HOSTED=yes $(ON_SPOKE)/spoke-cr.sh apply

.PHONY: clean-hub
clean-hub: ## Removes the hub: its members, its components, its operator.
	@$(MAKE) --no-print-directory clean-hub-cr
	@$(MAKE) --no-print-directory clean-hub-operator

.PHONY: clean-hub-hosted
clean-hub-hosted: ## Removes what deploy-hub-hosted has made, on both clusters.
	@$(MAKE) --no-print-directory clean-hub-cr-hosted
	@$(MAKE) --no-print-directory clean-hub-operator

.PHONY: clean-hub-dedicated
clean-hub-dedicated: ## Removes what deploy-hub-dedicated has made, with DELETE_DATA=yes also what the hub has stored.
	@$(MAKE) --no-print-directory clean-hub-dedicated-cr
	@$(ON_HUB)/operator.sh hub-dedicated delete
	@$(MAKE) --no-print-directory clean-hub-operator

.PHONY: clean-hub-dedicated-cr
clean-hub-dedicated-cr: ## Lets the members of a dedicated hub leave, and deletes its ClusterManager and its ControlPlane.
	@$(ON_HOST)/dedicated-cr.sh delete

.PHONY: clean-spoke
clean-spoke: ## Removes the member: its agents and its operator.
	@$(MAKE) --no-print-directory clean-spoke-cr
	@$(MAKE) --no-print-directory clean-spoke-operator

.PHONY: clean-spoke-hosted
clean-spoke-hosted: ## Removes what deploy-spoke-hosted has made, on both clusters.
	@$(MAKE) --no-print-directory clean-spoke-cr
	@$(MAKE) --no-print-directory clean-spoke-operator

.PHONY: clean-hub-cr
clean-hub-cr: ## Deletes all ManagedClusters and the ClusterManager.
	@$(ON_HUB)/hub-cr.sh delete

.PHONY: clean-hub-cr-hosted
clean-hub-cr-hosted: ## Deletes all ManagedClusters of a hosted hub and its ClusterManager.
	@$(FOR_HUB)/hub-cr.sh delete

.PHONY: clean-spoke-cr
clean-spoke-cr: ## Deletes the Klusterlet.
	@$(ON_SPOKE)/spoke-cr.sh delete

.PHONY: clean-hub-operator
clean-hub-operator: ## Removes the operator cluster-manager.
	@$(ON_HUB)/operator.sh hub delete

.PHONY: clean-spoke-operator
clean-spoke-operator: ## Removes the operator klusterlet.
	@$(ON_SPOKE)/operator.sh spoke delete

.PHONY: clean-deploy
clean-deploy: ## Removes what deploy has made.
	@$(ON_HUB)/hub-cr.sh drain
	@$(MAKE) --no-print-directory clean-spoke-cr
	@$(MAKE) --no-print-directory clean-hub-cr
	@$(MAKE) --no-print-directory clean-spoke-operator
	@$(MAKE) --no-print-directory clean-hub-operator
