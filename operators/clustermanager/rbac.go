// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clustermanager

import (
	"context"

	"github.com/capstan-io/capstan/internal/kube/conditions"
	"github.com/capstan-io/capstan/internal/operator/fence"
)

// What the operator itself may do. What it grants to components and to
// bootstrap identities it has to hold as well: the rules of the components come
// from their own markers, those for bootstrap identities stand below.

// +kubebuilder:rbac:groups=operator.open-cluster-management.io,resources=clustermanagers,verbs=get;list;watch;update;patch
// +kubebuilder:rbac:groups=operator.open-cluster-management.io,resources=clustermanagers/status,verbs=update;patch

// The definitions of the hub.
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=create;get;list;watch
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=managedclusters.cluster.open-cluster-management.io;managedclustersets.cluster.open-cluster-management.io;managedclustersetbindings.cluster.open-cluster-management.io;clusterconnections.fleet.capstan.io;placements.cluster.open-cluster-management.io;placementdecisions.cluster.open-cluster-management.io;addonplacementscores.cluster.open-cluster-management.io;manifestworks.work.open-cluster-management.io;manifestworkreplicasets.work.open-cluster-management.io;workloadrebalancers.apps.karmada.io;resourceinterpretercustomizations.config.karmada.io;resourceinterpreterwebhookconfigurations.config.karmada.io;clusterpropagationrollouts.fleet.capstan.io;propagationrevisions.fleet.capstan.io;propagationrollouts.fleet.capstan.io;clusteroverridepolicies.policy.karmada.io;clusterpropagationpolicies.policy.karmada.io;overridepolicies.policy.karmada.io;propagationpolicies.policy.karmada.io;clusterresourcebindings.work.karmada.io;resourcebindings.work.karmada.io,verbs=update;patch;delete

// What is installed.
// The namespace of a hosted hub has the name of its ClusterManager, which can be any.
// +kubebuilder:rbac:groups="",resources=namespaces,verbs=create;get;list;watch;update;patch;delete
// +kubebuilder:rbac:groups="",resources=serviceaccounts;services,verbs=create;get;list;watch;update;patch;delete
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=create;get;list;watch;update;patch;delete
// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies,verbs=create;get;list;watch;update;patch;delete
// +kubebuilder:rbac:groups=policy,resources=poddisruptionbudgets,verbs=create;get;list;watch;update;patch;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles;clusterrolebindings;roles;rolebindings,verbs=create;get;list;watch;update;patch;delete
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=mutatingwebhookconfigurations;validatingwebhookconfigurations,verbs=create;get;list;watch;update;patch;delete

// The bundle of the signers; the TLS profile; and, held to be granted to
// bootstrap identities, the address and CA of the API server, which are not ours
// to change: every node joins by it.
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=create
// +kubebuilder:rbac:groups="",resources=configmaps,resourceNames=ca-bundle-configmap,verbs=get;list;watch;update;patch;delete
// +kubebuilder:rbac:groups="",resources=configmaps,resourceNames=ocm-tls-profile,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=configmaps,resourceNames=cluster-info;kube-root-ca.crt,verbs=get

// Secrets by name only. Creation cannot be limited to names.
// +kubebuilder:rbac:groups="",resources=secrets,verbs=create
// +kubebuilder:rbac:groups="",resources=secrets,resourceNames=signer-secret;registration-webhook-serving-cert;work-webhook-serving-cert;placement-debug-serving-cert;apiserver-serving-cert;open-cluster-management-image-pull-credentials,verbs=get;list;watch;update;patch;delete

// Those of hosted hubs: the administrator's, and the ones that are made of it for
// components.
// +kubebuilder:rbac:groups="",resources=secrets,resourceNames=external-hub-kubeconfig,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=secrets,resourceNames=registration-controller-sa-kubeconfig;registration-webhook-sa-kubeconfig;work-webhook-sa-kubeconfig;work-controller-sa-kubeconfig;placement-controller-sa-kubeconfig;propagation-controller-sa-kubeconfig;push-agent-sa-kubeconfig;apiserver-sa-kubeconfig,verbs=get;update;patch;delete

// Held to be granted to the push agent, for its clusters.
// +kubebuilder:rbac:groups="",resources=secrets,resourceNames=cluster-connection,verbs=get;list;watch;patch

// Whether there is anything for the push agent to do.
// +kubebuilder:rbac:groups=fleet.capstan.io,resources=clusterconnections,verbs=get;list;watch

// Running.
// +kubebuilder:rbac:groups="",resources=nodes,verbs=list
// +kubebuilder:rbac:groups="",resources=pods,verbs=get
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;patch
// The Leases by which it and the components of a hub elect their leaders.
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=create
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,resourceNames=cluster-manager-lock;registration-controller-lock;work-controller-lock;placement-controller-lock;propagation-controller-lock;push-agent-lock,verbs=get;update
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

// Removing a hub whose clusters are silent.
// +kubebuilder:rbac:groups=cluster.open-cluster-management.io,resources=managedclusters;managedclustersets;managedclustersetbindings,verbs=list;patch
// +kubebuilder:rbac:groups=work.open-cluster-management.io,resources=manifestworks,verbs=list;patch
// +kubebuilder:rbac:groups=fleet.capstan.io,resources=clusterconnections,verbs=list;patch
// +kubebuilder:rbac:groups=apps.karmada.io,resources=workloadrebalancers,verbs=list;patch
// +kubebuilder:rbac:groups=config.karmada.io,resources=resourceinterpretercustomizations;resourceinterpreterwebhookconfigurations,verbs=list;patch
// +kubebuilder:rbac:groups=fleet.capstan.io,resources=clusterpropagationrollouts;propagationrevisions;propagationrollouts,verbs=list;patch
// +kubebuilder:rbac:groups=policy.karmada.io,resources=propagationpolicies;clusterpropagationpolicies;overridepolicies;clusteroverridepolicies,verbs=list;patch
// +kubebuilder:rbac:groups=work.karmada.io,resources=resourcebindings;clusterresourcebindings,verbs=list;patch

// Held to be granted to bootstrap identities.
// +kubebuilder:rbac:groups=certificates.k8s.io,resources=certificatesigningrequests,verbs=create;get;list;watch
// +kubebuilder:rbac:groups=cluster.open-cluster-management.io,resources=managedclusters,verbs=create;get;list;watch
// +kubebuilder:rbac:groups=cluster.open-cluster-management.io,resources=managedclustersets/join,verbs=create

// Held to be granted to those who administrate a cluster's namespace.
// +kubebuilder:rbac:groups=work.open-cluster-management.io,resources=manifestworks,resourceNames="system:serviceaccount::klusterlet-work-sa",verbs=execute-as

// Held to be granted to the users of a namespace: see manifests.UserRules.
// +kubebuilder:rbac:groups=cluster.open-cluster-management.io,resources=placements;placementdecisions;managedclustersetbindings;addonplacementscores,verbs=get;list;watch
// +kubebuilder:rbac:groups=work.open-cluster-management.io,resources=manifestworks;manifestworkreplicasets,verbs=get;list;watch
// +kubebuilder:rbac:groups=cluster.open-cluster-management.io,resources=placements;managedclustersetbindings,verbs=create;update;patch;delete

// What lets Prometheus find and read the metrics. It is created by server-side
// apply, for which names count.
// +kubebuilder:rbac:groups=monitoring.coreos.com,resources=podmonitors,resourceNames=capstan-hub;capstan-cluster-manager,verbs=create;get;patch;delete
// +kubebuilder:rbac:urls=/metrics,verbs=get

// What leads requests to the aggregated API server: by name, as any other would
// put the operator between all users and an API. Objects are created by
// server-side apply, for which names count.
// +kubebuilder:rbac:groups=apiregistration.k8s.io,resources=apiservices,resourceNames=v1alpha1.cluster.karmada.io;v1alpha1.work.karmada.io,verbs=create;get;patch;delete

// What keeps agents from changing what administrators say of their clusters and the hub of
// their works, and others from forging what the Cluster API stores.
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingadmissionpolicies;validatingadmissionpolicybindings,resourceNames=capstan-guard-clusterconnections;capstan-guard-events;capstan-guard-joining;capstan-guard-managedclusters;capstan-guard-managedfields;capstan-guard-manifestworks;capstan-guard-nesting,verbs=get;patch;delete

// What has the API server answer heartbeats and admission first. It is created by
// server-side apply, for which names count.
// +kubebuilder:rbac:groups=flowcontrol.apiserver.k8s.io,resources=flowschemas;prioritylevelconfigurations,resourceNames=capstan-liveness;capstan-admission;capstan-heartbeats,verbs=create;get;patch;delete

// What keeps objects from being deleted whose users want that.
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingadmissionpolicies;validatingadmissionpolicybindings,resourceNames=capstan-deletion-protection,verbs=get;patch;delete

// The fence of the operator, which it may make but not move.
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingadmissionpolicies;validatingadmissionpolicybindings,verbs=create
// +kubebuilder:rbac:groups=admissionregistration.k8s.io,resources=validatingadmissionpolicies;validatingadmissionpolicybindings,resourceNames=capstan-fence-cluster-manager-v1,verbs=get

// fencePhase makes sure that the operator is fenced in before it does anything.
type fencePhase struct {
	keeper   *fence.PolicyInstaller
	operator fence.FencedOperator
}

// ensureFence tells if the operator is not fenced in. It works all the same: who has no
// right to fence it in still wants a hub.
func (f fencePhase) ensureFence(ctx context.Context, p *clusterManagerPass) error {
	conditions.SetCondition(&p.Object.Status.Conditions, p.Object.Generation, f.keeper.EnsureFence(ctx, f.operator).UnfencedCondition())
	return nil
}
