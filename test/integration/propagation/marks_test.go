// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/kube/deepcopy"
)

// TestMarksAreThoseOfKarmada compares all labels and annotations of Karmada that clients read: on
// the object of the hub, its binding, its work, and the object in the member. IDs, which are
// random, and the name of the work stand for themselves.
func TestMarksAreThoseOfKarmada(t *testing.T) {
	t.Parallel()
	w := newWorldOfMembers(t, 1)
	overriders := func(value string) []policyv1alpha1.RuleWithCluster {
		return []policyv1alpha1.RuleWithCluster{{Overriders: policyv1alpha1.Overriders{Plaintext: []policyv1alpha1.PlaintextOverrider{
			{Path: "/metadata/labels/" + value, Operator: policyv1alpha1.OverriderOpAdd, Value: policyv1alpha1.JSON{Raw: []byte(`"yes"`)}},
		}}}}
	}
	own := &policyv1alpha1.OverridePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "own"}}
	own.Spec = policyv1alpha1.OverrideSpec{ResourceSelectors: []policyv1alpha1.ResourceSelector{{APIVersion: "apps/v1", Kind: "Deployment"}}, OverrideRules: overriders("own")}
	wide := &policyv1alpha1.ClusterOverridePolicy{ObjectMeta: metav1.ObjectMeta{Name: "wide"}, Spec: *own.Spec.DeepCopy()}
	wide.Spec.OverrideRules = overriders("wide")
	web := deployment("web", 1)
	web.Spec.Template.Spec.Containers[0].EnvFrom = []corev1.EnvFromSource{{
		ConfigMapRef: &corev1.ConfigMapEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "page"}},
	}}
	page := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "page"}}
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "viewer"}}
	sends := policy("sends", policyv1alpha1.Placement{ClusterAffinity: &policyv1alpha1.ClusterAffinity{ClusterNames: []string{"member1"}}})
	sends.Spec.PropagateDeps, sends.Spec.ConflictResolution = true, policyv1alpha1.ConflictOverwrite
	roles := everywhere("roles", "rbac.authorization.k8s.io/v1", "ClusterRole")
	roles.Labels = map[string]string{policyv1alpha1.LabelClusterPropagationPolicyID: "id-of-roles"}
	roles.Spec.ResourceSelectors[0].Name, roles.Spec.Placement = "viewer", sends.Spec.Placement
	w.create(own, wide, page, web, role, sends, roles)
	w.start()

	const placement = `policy.karmada.io/applied-placement={"clusterAffinity":{"clusterNames":["member1"]}}`
	overridden := func(policy string) string {
		return `[{"policyName":"` + policy + `","overriders":{"plaintext":[{"path":"/metadata/labels/` + policy + `","operator":"add","value":"yes"}]}}]`
	}
	claimed := []string{"propagationpolicy.karmada.io/name=sends", "propagationpolicy.karmada.io/namespace=default", "propagationpolicy.karmada.io/permanent-id=id-of-sends"}
	bound := []string{"resourcebinding.karmada.io/name=web-deployment", "resourcebinding.karmada.io/namespace=default", "resourcebinding.karmada.io/permanent-id=ID OF THE BINDING"}
	w.marked(web, &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "web-deployment"}}, marks{
		template: claimed,
		binding: slices.Concat(claimed, []string{
			placement, "resourcebinding.karmada.io/permanent-id=ID OF THE BINDING",
			`resourcebinding.karmada.io/dependencies=[{"apiVersion":"v1","kind":"ConfigMap","namespace":"default","name":"page"}]`,
		}),
		work: slices.Concat(bound, []string{
			"propagationpolicy.karmada.io/permanent-id=id-of-sends", "work.karmada.io/permanent-id=ID OF THE WORK",
			"policy.karmada.io/applied-cluster-overrides=" + overridden("wide"), "policy.karmada.io/applied-overrides=" + overridden("own"),
		}),
		object: slices.Concat(claimed, bound, fromTemplate("overwrite"), []string{
			"resourcetemplate.karmada.io/managed-labels=app,karmada.io/managed,own,propagationpolicy.karmada.io/permanent-id,resourcebinding.karmada.io/permanent-id,wide,work.karmada.io/permanent-id",
			"resourcetemplate.karmada.io/managed-annotations=propagationpolicy.karmada.io/name,propagationpolicy.karmada.io/namespace," +
				"resourcebinding.karmada.io/name,resourcebinding.karmada.io/namespace," + annotatedFromTemplate,
		}),
	})

	// What it needs belongs to no policy, and is known by what needs it.
	bound = []string{"resourcebinding.karmada.io/name=page-configmap", "resourcebinding.karmada.io/namespace=default", "resourcebinding.karmada.io/permanent-id=ID OF THE BINDING"}
	w.marked(page, &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "page-configmap"}}, marks{
		binding: []string{"resourcebinding.karmada.io/permanent-id=ID OF THE BINDING", "resourcebinding.karmada.io/depended-by-HASH=ID OF web-deployment"},
		work:    append([]string{"work.karmada.io/permanent-id=ID OF THE WORK"}, bound...),
		object: slices.Concat(bound, fromTemplate("overwrite"), []string{
			"resourcetemplate.karmada.io/managed-labels=karmada.io/managed,resourcebinding.karmada.io/permanent-id,work.karmada.io/permanent-id",
			"resourcetemplate.karmada.io/managed-annotations=resourcebinding.karmada.io/name,resourcebinding.karmada.io/namespace," + annotatedFromTemplate,
		}),
	})

	claimed = []string{"clusterpropagationpolicy.karmada.io/name=roles", "clusterpropagationpolicy.karmada.io/permanent-id=id-of-roles"}
	bound = []string{"clusterresourcebinding.karmada.io/name=viewer-clusterrole", "clusterresourcebinding.karmada.io/permanent-id=ID OF THE BINDING"}
	w.marked(role, &workv1alpha2.ClusterResourceBinding{ObjectMeta: metav1.ObjectMeta{Name: "viewer-clusterrole"}}, marks{
		template: claimed,
		binding:  slices.Concat(claimed, []string{placement, "clusterresourcebinding.karmada.io/permanent-id=ID OF THE BINDING"}),
		work: slices.Concat(bound, []string{
			"clusterpropagationpolicy.karmada.io/permanent-id=id-of-roles", "work.karmada.io/permanent-id=ID OF THE WORK",
		}),
		object: slices.Concat(claimed, bound, fromTemplate("abort"), []string{
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

// marks are labels and annotations of Karmada, KEY=VALUE in any order.
type marks struct{ template, binding, work, object []string }

// marked waits until a template, its binding, its work and the object in member1 have these marks
// and no others.
func (w world) marked(template client.Object, binding workv1alpha2.Binding, want marks) {
	w.Helper()
	key := client.ObjectKeyFromObject(template)
	w.eventually(fmt.Sprintf("%T %s has its marks", template, key), func() error {
		if err := errors.Join(w.Get(w.Context(), key, template), w.Get(w.Context(), client.ObjectKeyFromObject(binding), binding)); err != nil {
			return err
		}
		work, err := w.workOf(template)
		if err != nil {
			return err
		}
		object := deepcopy.CopyObject(template)
		if err := w.members["member1"].Get(w.Context(), key, object); err != nil {
			return err
		}
		names, err := w.named(template, binding, work)
		if err != nil {
			return err
		}
		got := marks{template: marksOf(template, names), binding: marksOf(binding, names), work: marksOf(work, names), object: marksOf(object, names)}
		for _, list := range []*[]string{&want.template, &want.binding, &want.work, &want.object} {
			slices.Sort(*list)
		}
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(marks{})); diff != "" {
			return fmt.Errorf("(-want +got):\n%s", diff)
		}
		return nil
	})
}

// workOf returns the work that sends the object of a template to member1.
func (w world) workOf(template client.Object) (*workv1.ManifestWork, error) {
	works := w.worksOf("member1")
	for i := range works {
		if w.object(&works[i]).GetAnnotations()[workv1alpha2.AnnotationTemplateUID] == string(template.GetUID()) {
			return &works[i], nil
		}
	}
	return nil, errors.New("there is no work")
}

// named returns what stands for the values that are other ones in each run. IDs are there.
func (w world) named(template client.Object, binding workv1alpha2.Binding, work *workv1.ManifestWork) (*strings.Replacer, error) {
	id := func(labels map[string]string) string {
		return labels[workv1alpha2.LabelResourceBindingID] + labels[workv1alpha2.LabelClusterResourceBindingID]
	}
	values := map[string]string{
		"=" + id(binding.GetLabels()):                                            "=ID OF THE BINDING",
		"=" + work.Labels[workv1alpha2.LabelWorkID]:                              "=ID OF THE WORK",
		"work.karmada.io/name=" + work.Name:                                      "work.karmada.io/name=NAME OF THE WORK",
		"=" + string(template.GetUID()):                                          "=UID",
		fmt.Sprint("karmada.io/generation=", template.GetGeneration()):           "karmada.io/generation=GENERATION",
		workv1alpha2.LabelDependedByPrefix + dependedByHash(binding.GetLabels()): workv1alpha2.LabelDependedByPrefix + "HASH",
	}
	needs := &workv1alpha2.ResourceBinding{}
	if err := w.Get(w.Context(), client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: "web-deployment"}, needs); err != nil {
		return nil, err
	}
	if needs.Name != binding.GetName() {
		values["="+id(needs.Labels)] = "=ID OF web-deployment"
	}
	if _, empty := values["="]; empty {
		return nil, errors.New("an ID is empty")
	}
	var pairs []string
	for value, name := range values {
		pairs = append(pairs, value, name)
	}
	return strings.NewReplacer(pairs...), nil
}

// dependedByHash returns by which binding another one is needed; "-" if by none.
func dependedByHash(labels map[string]string) string {
	for key := range maps.Keys(labels) {
		if hash, is := strings.CutPrefix(key, workv1alpha2.LabelDependedByPrefix); is && hash != "" {
			return hash
		}
	}
	return "-"
}

// marksOf returns the marks of Karmada that an object has.
func marksOf(object client.Object, names *strings.Replacer) []string {
	var all []string
	for _, of := range []map[string]string{object.GetLabels(), object.GetAnnotations()} {
		for key, value := range of {
			if domain, _, _ := strings.Cut(key, "/"); domain == "karmada.io" || strings.HasSuffix(domain, ".karmada.io") {
				all = append(all, names.Replace(key+"="+value))
			}
		}
	}
	slices.Sort(all)
	return all
}
