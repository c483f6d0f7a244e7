// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/test/integration/propagation/harness"
)

// TestMarksAreThoseOfKarmada compares all labels and annotations of Karmada that clients read: on
// the object of the hub, its binding, its work, and the object in the member. IDs, which are
// random, and the name of the work stand for themselves.
func TestMarksAreThoseOfKarmada(t *testing.T) {
	t.Parallel()
	w := harness.NewWorldOfMembers(t, servers, 1)
	overriders := func(value string) []policyv1alpha1.RuleWithCluster {
		return []policyv1alpha1.RuleWithCluster{{Overriders: policyv1alpha1.Overriders{Plaintext: []policyv1alpha1.PlaintextOverrider{
			{Path: "/metadata/labels/" + value, Operator: policyv1alpha1.OverriderOpAdd, Value: policyv1alpha1.JSON{Raw: []byte(`"yes"`)}},
		}}}}
	}
	own := &policyv1alpha1.OverridePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "own"}}
	own.Spec = policyv1alpha1.OverrideSpec{ResourceSelectors: []policyv1alpha1.ResourceSelector{{APIVersion: "apps/v1", Kind: "Deployment"}}, OverrideRules: overriders("own")}
	wide := &policyv1alpha1.ClusterOverridePolicy{ObjectMeta: metav1.ObjectMeta{Name: "wide"}, Spec: *own.Spec.DeepCopy()}
	wide.Spec.OverrideRules = overriders("wide")
	web := harness.Deployment("web", 1)
	web.Spec.Template.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{
		ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "page"}},
	}}
	page := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "page"}}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "viewer"}}
	sends := harness.Policy("sends", policyv1alpha1.Placement{ClusterAffinity: &policyv1alpha1.ClusterAffinity{ClusterNames: []string{"member1"}}})
	sends.Spec.PropagateDeps, sends.Spec.ConflictResolution = true, policyv1alpha1.ConflictOverwrite
	roles := everywhere("roles", "rbac.authorization.k8s.io/v1", "ClusterRole")
	roles.Labels = map[string]string{policyv1alpha1.LabelClusterPropagationPolicyID: "id-of-roles"}
	roles.Spec.ResourceSelectors[0].Name, roles.Spec.Placement = "viewer", sends.Spec.Placement
	w.CreateAll(own, wide, page, web, role, sends, roles)
	w.StartControllers()

	const placement = `policy.karmada.io/applied-placement={"clusterAffinity":{"clusterNames":["member1"]}}`
	overridden := func(policy string) string {
		return `[{"policyName":"` + policy + `","overriders":{"plaintext":[{"path":"/metadata/labels/` + policy + `","operator":"add","value":"yes"}]}}]`
	}
	claimed := []string{"propagationpolicy.karmada.io/name=sends", "propagationpolicy.karmada.io/namespace=default", "propagationpolicy.karmada.io/permanent-id=id-of-sends"}
	bound := []string{"resourcebinding.karmada.io/name=web-deployment", "resourcebinding.karmada.io/namespace=default", "resourcebinding.karmada.io/permanent-id=ID OF THE BINDING"}
	w.HasMarks(web, &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "web-deployment"}}, harness.Marks{
		Template: claimed,
		Binding: slices.Concat(claimed, []string{
			placement, "resourcebinding.karmada.io/permanent-id=ID OF THE BINDING",
			`resourcebinding.karmada.io/dependencies=[{"apiVersion":"v1","kind":"ConfigMap","namespace":"default","name":"page"}]`,
		}),
		Work: slices.Concat(bound, []string{
			"propagationpolicy.karmada.io/permanent-id=id-of-sends", "work.karmada.io/permanent-id=ID OF THE WORK",
			"policy.karmada.io/applied-cluster-overrides=" + overridden("wide"), "policy.karmada.io/applied-overrides=" + overridden("own"),
		}),
		Object: slices.Concat(claimed, bound, fromTemplate("overwrite"), []string{
			"resourcetemplate.karmada.io/managed-labels=app,karmada.io/managed,own,propagationpolicy.karmada.io/permanent-id,resourcebinding.karmada.io/permanent-id,wide,work.karmada.io/permanent-id",
			"resourcetemplate.karmada.io/managed-annotations=propagationpolicy.karmada.io/name,propagationpolicy.karmada.io/namespace," +
				"resourcebinding.karmada.io/name,resourcebinding.karmada.io/namespace," + annotatedFromTemplate,
		}),
	})

	// What it needs belongs to no policy, and is known by what needs it.
	bound = []string{"resourcebinding.karmada.io/name=page-configmap", "resourcebinding.karmada.io/namespace=default", "resourcebinding.karmada.io/permanent-id=ID OF THE BINDING"}
	w.HasMarks(page, &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "page-configmap"}}, harness.Marks{
		Binding: []string{"resourcebinding.karmada.io/permanent-id=ID OF THE BINDING", "resourcebinding.karmada.io/depended-by-HASH=ID OF web-deployment"},
		Work:    append([]string{"work.karmada.io/permanent-id=ID OF THE WORK"}, bound...),
		Object: slices.Concat(bound, fromTemplate("overwrite"), []string{
			"resourcetemplate.karmada.io/managed-labels=karmada.io/managed,resourcebinding.karmada.io/permanent-id,work.karmada.io/permanent-id",
			"resourcetemplate.karmada.io/managed-annotations=resourcebinding.karmada.io/name,resourcebinding.karmada.io/namespace," + annotatedFromTemplate,
		}),
	})

	claimed = []string{"clusterpropagationpolicy.karmada.io/name=roles", "clusterpropagationpolicy.karmada.io/permanent-id=id-of-roles"}
	bound = []string{"clusterresourcebinding.karmada.io/name=viewer-clusterrole", "clusterresourcebinding.karmada.io/permanent-id=ID OF THE BINDING"}
	w.HasMarks(role, &workv1alpha2.ClusterResourceBinding{ObjectMeta: metav1.ObjectMeta{Name: "viewer-clusterrole"}}, harness.Marks{
		Template: claimed,
		Binding:  slices.Concat(claimed, []string{placement, "clusterresourcebinding.karmada.io/permanent-id=ID OF THE BINDING"}),
		Work: slices.Concat(bound, []string{
			"clusterpropagationpolicy.karmada.io/permanent-id=id-of-roles", "work.karmada.io/permanent-id=ID OF THE WORK",
		}),
		Object: slices.Concat(claimed, bound, fromTemplate("abort"), []string{
			"resourcetemplate.karmada.io/managed-labels=clusterpropagationpolicy.karmada.io/permanent-id,clusterresourcebinding.karmada.io/permanent-id,karmada.io/managed,work.karmada.io/permanent-id",
			"resourcetemplate.karmada.io/managed-annotations=clusterpropagationpolicy.karmada.io/name,clusterresourcebinding.karmada.io/name," + annotatedFromTemplate,
		}),
	})
}

// fromTemplate are marks of all objects in a member.
func fromTemplate(conflict string) []string {
	return []string{
		"karmada.io/managed=true", "work.karmada.io/conflict-resolution=" + conflict, "work.karmada.io/name=NAME OF THE WORK", "work.karmada.io/namespace=karmada-es-member1",
		"work.karmada.io/permanent-id=ID OF THE WORK", "resourcetemplate.karmada.io/generation=GENERATION", "resourcetemplate.karmada.io/uid=UID",
	}
}

// annotatedFromTemplate are the annotations among these.
const annotatedFromTemplate = "resourcetemplate.karmada.io/generation,resourcetemplate.karmada.io/managed-annotations,resourcetemplate.karmada.io/managed-labels," +
	"resourcetemplate.karmada.io/uid,work.karmada.io/conflict-resolution,work.karmada.io/name,work.karmada.io/namespace"
