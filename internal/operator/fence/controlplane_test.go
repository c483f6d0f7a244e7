// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package fence_test

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/config"
	"github.com/capstan-io/capstan/internal/operator/fence"
	"github.com/capstan-io/capstan/internal/testing/build"
	"github.com/capstan-io/capstan/internal/testing/cluster"
	"github.com/capstan-io/capstan/internal/testing/env"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// statefulSet is one of the pods of a Deployment.
func statefulSet(d *appsv1.Deployment) *appsv1.StatefulSet {
	return &appsv1.StatefulSet{ObjectMeta: d.ObjectMeta, Spec: appsv1.StatefulSetSpec{Selector: d.Spec.Selector, Template: d.Spec.Template}}
}

func tokenless(pod *corev1.PodSpec) {
	no := false
	pod.AutomountServiceAccountToken = &no
}

// projected asks for a token by a volume instead.
func projected(pod *corev1.PodSpec) {
	pod.Volumes = append(pod.Volumes, corev1.Volume{Name: "token", VolumeSource: corev1.VolumeSource{
		Projected: &corev1.ProjectedVolumeSource{Sources: []corev1.VolumeProjection{{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{Path: "token"}}}},
	}})
}

// TestFenceOfTheOperatorOfControlPlanes lets the account of that operator try what
// it shall not, where somebody has given it more permissions than it needs.
func TestFenceOfTheOperatorOfControlPlanes(t *testing.T) {
	_, admin := servers.Start(t)
	root := cluster.NewClient(t, admin)
	const home, hub = "hub-control-plane", "hub"
	for _, n := range []*corev1.Namespace{
		build.Namespace(home, operatorv1.LabelOperatedBy, fleetv1alpha1.ControlPlaneOperator), build.Namespace(hub), build.Namespace(foreign),
	} {
		expect.NoError(t, root.Create(t.Context(), n))
	}
	objects, err := config.Operator(config.ControlPlaneOperator)
	expect.NoError(t, err)
	for _, object := range objects {
		if kind := object.GetKind(); kind != "ClusterRole" && kind != "ClusterRoleBinding" {
			continue
		}
		expect.NoError(t, root.Create(t.Context(), object))
	}
	for _, n := range []string{home, hub, foreign} {
		binding := roleBinding(n, "control-plane", fleetv1alpha1.ControlPlaneNamespaceRole)
		binding.Subjects = []rbacv1.Subject{{
			Kind: rbacv1.ServiceAccountKind, Namespace: operatorv1.DefaultOperatorNamespace, Name: fleetv1alpha1.ControlPlaneOperator,
		}}
		expect.NoError(t, root.Create(t.Context(), binding))
		rule := rbacv1.PolicyRule{APIGroups: []string{"apps"}, Resources: []string{"statefulsets"}, Verbs: []string{"create"}}
		env.WaitAllowed(t.Context(), t, admin, env.ServiceAccountReview(operatorv1.DefaultOperatorNamespace, fleetv1alpha1.ControlPlaneOperator), n, rule, true)
	}
	attacks := map[string]try{
		"pods with a token":                        create(deployment(home, "")),
		"members with a token":                     create(statefulSet(deployment(home, ""))),
		"members as a strong account":              create(statefulSet(deployment(home, "strong"))),
		"pods with a token in a volume":            create(deployment(home, "", tokenless, projected)),
		"members with files of the node":           create(statefulSet(deployment(home, "", tokenless, hostPath))),
		"privileged members":                       create(statefulSet(deployment(home, "", tokenless, privileged))),
		"members in somebody else's namespace":     create(statefulSet(deployment(foreign, "", tokenless))),
		"a Secret in somebody else's namespace":    create(secret(foreign, "x", corev1.SecretTypeOpaque)),
		"a Secret of the hub's operator":           create(secret(hub, "signer-secret", corev1.SecretTypeOpaque)),
		"a token Secret":                           create(secret(home, "x", corev1.SecretTypeServiceAccountToken)),
		"a token Secret called as a kubeconfig":    create(secret(hub, operatorv1.ExternalHubKubeConfigSecret, corev1.SecretTypeServiceAccountToken)),
		"a Service before somebody else's pods":    create(&corev1.Service{ObjectMeta: meta(foreign, "x"), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 1}}}}),
		"a ConfigMap in somebody else's namespace": create(&corev1.ConfigMap{ObjectMeta: meta(foreign, "x")}),
	}
	works := map[string]try{
		"members of etcd": create(statefulSet(deployment(home, "", tokenless))),
		"API servers":     create(deployment(home, "", tokenless)),
		"Secrets":         create(secret(home, "hub-etcd-ca", corev1.SecretTypeOpaque)),
		"the kubeconfig":  create(secret(hub, operatorv1.ExternalHubKubeConfigSecret, corev1.SecretTypeOpaque)),
		"bundles":         create(&corev1.ConfigMap{ObjectMeta: meta(home, "hub-etcd-ca")}),
	}
	o := fence.ControlPlaneOperator(operatorv1.DefaultOperatorNamespace)
	operator := as(t, admin, fleetv1alpha1.ControlPlaneOperator)
	admitted(t, operator, "without a fence this does not work, so it proves nothing", attacks, works)
	put(t, root, operator, o)
	refused(t, operator, o.FenceName(), attacks)
	admitted(t, operator, "the fence stops what the operator has to do", works)
	unmovable(t, operator, o)
	admitted(t, root, "the fence stops an administrator", map[string]try{"a pod": create(deployment(foreign, ""))})
}
