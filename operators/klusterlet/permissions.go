// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package klusterlet

// What the operator does with objects of its own.
//
// +kubebuilder:rbac:groups=operator.open-cluster-management.io,resources=klusterlets,verbs=get;list;watch;update;patch
// +kubebuilder:rbac:groups=operator.open-cluster-management.io,resources=klusterlets/status,verbs=update;patch
// +kubebuilder:rbac:groups="",resources=namespaces;serviceaccounts,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups="",resources=pods,verbs=get;list;watch
// +kubebuilder:rbac:groups="",resources=nodes,verbs=list
// +kubebuilder:rbac:groups=apps,resources=deployments,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=networking.k8s.io,resources=networkpolicies,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get;list;watch;create
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,resourceNames=clusterclaims.cluster.open-cluster-management.io;clusterproperties.about.k8s.io;appliedmanifestworks.work.open-cluster-management.io,verbs=update;patch
// +kubebuilder:rbac:groups=work.open-cluster-management.io,resources=appliedmanifestworks,verbs=get;list;watch;update;patch;delete
// +kubebuilder:rbac:groups=events.k8s.io,resources=events,verbs=create;update;patch

// What lets Prometheus find and read the metrics. It is created by server-side
// apply, for which names count.
//
// +kubebuilder:rbac:groups=monitoring.coreos.com,resources=podmonitors,resourceNames=capstan-agents;capstan-klusterlet,verbs=create;get;patch;delete
// +kubebuilder:rbac:urls=/metrics,verbs=get

// What the registration agent gets with feature gate ClusterProperty.
//
// +kubebuilder:rbac:groups=about.k8s.io,resources=clusterproperties,verbs=get;list;watch

// The election of a leader among its replicas.
//
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,verbs=create
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,resourceNames=klusterlet-lock,verbs=get;list;watch;update;patch

// Secrets are those of the agents and the pull secret, by name. They can be in
// any namespace, because spec.namespace can be any. Creating cannot be limited
// by name.
//
// +kubebuilder:rbac:groups="",resources=secrets,verbs=create
// +kubebuilder:rbac:groups="",resources=secrets,resourceNames=bootstrap-hub-kubeconfig;hub-kubeconfig-secret;hub-kubeconfig-pending;external-managed-kubeconfig;external-managed-kubeconfig-registration;external-managed-kubeconfig-work;external-managed-kubeconfig-agent;open-cluster-management-image-pull-credentials,verbs=get;list;watch;update;patch;delete

// The agents' report of the handshake.
//
// +kubebuilder:rbac:groups="",resources=configmaps,verbs=create
// +kubebuilder:rbac:groups="",resources=configmaps,resourceNames=agent-join-status,verbs=get;list;watch;update;patch

// The elections among the replicas of the agents: what their roles in their own
// namespace allow, the operator has to hold in all, as it can be any.
//
// +kubebuilder:rbac:groups=coordination.k8s.io,resources=leases,resourceNames=registration-agent-lock;work-agent-lock,verbs=get;list;watch;update;patch

// Roles of the agents. Their rules are held by the operator itself, with two
// exceptions that it may write, and three that it may bind, by their names: what
// the work agent applies for its users is up to these.
//
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles;clusterrolebindings;roles;rolebindings,verbs=get;list;watch;create;update;patch;delete
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles,resourceNames="open-cluster-management:klusterlet-work:execution";"open-cluster-management:klusterlet-work:aggregate",verbs=escalate;bind
// +kubebuilder:rbac:groups=rbac.authorization.k8s.io,resources=clusterroles,resourceNames=admin,verbs=bind
