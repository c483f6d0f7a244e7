// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// rowScene is a row in a column, brought in a way.
type rowScene struct {
	*scene
	row manifestRow
	by  way
	// ours and twins are the names in the member of what is delivered, and of what the
	// administrator writes to compare it with.
	ours, twins names
	// user is the client of those who use the hub.
	user bringer
}

// names fill the tokens of manifests.
type names struct{ space, port, cluster, next string }

func (n names) fill(text string) string {
	return strings.NewReplacer("NS", n.space, "PORT", n.port, "CLUSTER", n.cluster, "NEXT", n.next).Replace(text)
}

// portFirst is the first of the numbers that API servers give to no Service by themselves while
// they have others.
const portFirst = 30000

func newRowScene(s *scene, row manifestRow, by way) *rowScene {
	s.id = s.clusterName() + "-" + s.id // which is on the hub, too
	port := portFirst + 8*slices.Index(modes(), s.mode) + 4*row.writesPort
	if by == byPolicy {
		port += 2
	}
	ours := names{space: s.id, port: fmt.Sprint(port), cluster: s.clusterName(), next: s.neighbour()}
	twins := ours
	twins.space, twins.port = s.id+"-twin", fmt.Sprint(port+1)
	return &rowScene{scene: s, row: row, by: by, ours: ours, twins: twins, user: bringerTo(s.hub.cluster, row.generated)}
}

// play does the steps one after the other.
func (s *rowScene) play() {
	for _, n := range []names{s.ours, s.twins} {
		s.member.apply(s, "{apiVersion: v1, kind: Namespace, metadata: {name: "+n.space+"}}")
		s.member.apply(s, n.fill(s.row.twins))
	}
	if s.by == byPolicy {
		s.hub.apply(s, s.ours.fill("{apiVersion: v1, kind: Namespace, metadata: {name: NS, labels: {namespace.karmada.io/skip-auto-propagation: \"true\"}}}"))
		s.hub.apply(s, s.ours.fill(s.row.onHub))
	}
	if s.row.ours != "" {
		object := s.object(s.ours, s.row.ours)
		if err := s.member.client.Create(s.Context(), object, client.FieldOwner("kubectl-client-side-apply")); err != nil {
			s.Fatal(err)
		}
	}
	if s.row.run != nil {
		s.row.run(s)
		return
	}
	for i := range s.row.steps {
		s.step(i)
	}
	if s.row.ends != nil {
		s.row.ends(s)
	}
}

// step brings the manifests of a step to the hub and to the twins, and waits until they are equal.
func (s *rowScene) step(i int) {
	s.Helper()
	step := s.row.steps[i]
	right := step.right
	if right == nil {
		right = step.manifests
	}
	before := s.uids(right)
	s.bring(i)
	for _, manifest := range right {
		s.judge(manifest, step.recreated)
	}
	if len(step.says) > 0 {
		s.says(step.manifests[0], step.says...)
		if object := s.object(s.ours, step.manifests[0]); s.by == byPolicy && slices.Contains(step.says, "Warning") { // who writes templates may not read works
			s.bindingSays(strings.ToLower(object.GetName()+"-"+object.GetKind()), "Warning")
		}
	}
	if step.allow != nil {
		step.allow(s)
	}
	s.equal(i, right)
	if step.drift != "" {
		s.patch(s.ours, step.manifests[0], step.drift)
		s.equal(i, right)
	}
	if step.others != "" {
		s.patch(s.twins, step.manifests[0], step.others)
		s.patch(s.ours, step.manifests[0], step.others)
		s.equal(i, right)
	}
	for n, uid := range s.uids(right) {
		if !step.recreated && before[n] != "" && uid != before[n] {
			s.Errorf("step %d: the object was deleted and made again: %s", i+1, right[n])
		}
	}
}

// uids returns the UIDs of our objects of manifests, empty for those that are not there.
func (s *rowScene) uids(manifests []string) []types.UID {
	s.Helper()
	uids := make([]types.UID, len(manifests))
	for n, manifest := range manifests {
		live, err := s.live(s.ours, manifest)
		if client.IgnoreNotFound(err) != nil {
			s.Fatal(err)
		}
		uids[n] = live.GetUID()
	}
	return uids
}

// object returns the object of a manifest.
func (s *rowScene) object(of names, manifest string) *unstructured.Unstructured {
	s.Helper()
	object, err := decodeText(of.fill(manifest))
	if err != nil {
		s.Fatal(err)
	}
	return object
}

// live returns the object of a manifest as it is in the member.
func (s *rowScene) live(of names, manifest string) (*unstructured.Unstructured, error) {
	s.Helper()
	object := s.object(of, manifest)
	live := &unstructured.Unstructured{}
	live.SetGroupVersionKind(object.GroupVersionKind())
	err := s.member.client.Get(s.Context(), client.ObjectKeyFromObject(object), live)
	return live, err
}

func (s *rowScene) patch(of names, manifest, patch string) {
	s.Helper()
	raw, err := yaml.YAMLToJSON([]byte(of.fill(patch)))
	if err != nil {
		s.Fatal(err)
	}
	if err := s.member.client.Patch(s.Context(), s.object(of, manifest), client.RawPatch(types.MergePatchType, raw), client.FieldOwner("somebody")); err != nil {
		s.Fatal(err)
	}
}

// judge lets the API server of the member make the twin of a manifest: by POST, and then by PUT.
func (s *rowScene) judge(manifest string, recreated bool) {
	s.Helper()
	eventually(s, "the API server makes the twin of "+manifest, func() error {
		there, err := s.live(s.twins, manifest)
		twin := s.object(s.twins, manifest)
		switch {
		case err == nil && recreated:
			if err := s.member.client.Delete(s.Context(), there, client.PropagationPolicy(metav1.DeletePropagationBackground), client.GracePeriodSeconds(0)); err != nil {
				return err
			}
			return s.member.client.Create(s.Context(), twin)
		case apierrors.IsNotFound(err):
			return s.member.client.Create(s.Context(), twin)
		case err != nil:
			return err
		}
		twin.SetResourceVersion(there.GetResourceVersion())
		if err := keep(twin, there, s.row.generated); err != nil {
			return err
		}
		return s.member.client.Update(s.Context(), twin)
	})
}

// equal waits until the objects of a step are as their twins, those of the step before that are
// not among them are gone, and the hub says that all is applied.
func (s *rowScene) equal(i int, right []string) {
	s.Helper()
	for _, manifest := range right {
		eventually(s, fmt.Sprintf("step %d: what is delivered is what the API server makes of it (-: the twin, +: ours)", i+1), func() error {
			twin, err := s.live(s.twins, manifest)
			if err != nil {
				return fmt.Errorf("the twin: %w", err)
			}
			ours, err := s.live(s.ours, manifest)
			if err != nil {
				return &unequal{of: s, manifest: manifest, difference: err.Error()}
			}
			if diff := cmp.Diff(s.comparable(twin, s.twins), s.comparable(ours, s.ours)); diff != "" {
				return &unequal{of: s, manifest: manifest, difference: diff}
			}
			return nil
		})
	}
	eventually(s, "the hub says that all is applied", func() error {
		works, err := s.works()
		if err != nil {
			return err
		}
		for _, manifest := range right {
			if text := s.saidIn(works, manifest); !strings.HasPrefix(text, "True ") {
				return fmt.Errorf("of %s it says %q", manifest, text)
			}
		}
		return nil
	})
	if i == 0 {
		return
	}
	for _, manifest := range s.row.steps[i-1].manifests {
		if !slices.ContainsFunc(right, func(other string) bool { return s.same(manifest, other) }) {
			s.goneFromMember(s.object(s.ours, manifest))
		}
	}
}

// unequal is an object that is not as its twin. What the hub says of it is asked when the error
// is told, and not each time that the object is looked at.
type unequal struct {
	of                   *rowScene
	manifest, difference string
}

func (u *unequal) Error() string { return u.difference + "\nthe hub says " + u.of.told(u.manifest) }

// same says if two manifests are of one object.
func (s *rowScene) same(a, b string) bool {
	s.Helper()
	first, second := s.object(s.ours, a), s.object(s.ours, b)
	return first.GroupVersionKind() == second.GroupVersionKind() && client.ObjectKeyFromObject(first) == client.ObjectKeyFromObject(second)
}

// ofTheHub are the domains of labels and annotations that twins do not have.
var ofTheHub = []string{"karmada.io", "open-cluster-management.io", "fleet.capstan.io", "kubectl.kubernetes.io"}

// comparable returns what has to be equal: all but the status, what each object has of its own,
// and the marks of the hub.
func (s *rowScene) comparable(object *unstructured.Unstructured, of names) map[string]any {
	s.Helper()
	uid := string(object.GetUID())
	object = object.DeepCopy()
	withoutLabelsOfPods(object)
	delete(object.Object, "status")
	for _, field := range []string{"uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "ownerReferences"} {
		unstructured.RemoveNestedField(object.Object, "metadata", field)
	}
	for _, marks := range []string{"labels", "annotations"} {
		withoutMarks(object.Object, marks)
	}
	for _, path := range s.row.allocated {
		withoutNumbers(object.Object, strings.Split(path, "."), of.port)
	}
	text, err := json.Marshal(object.Object)
	if err != nil {
		s.Fatal(err)
	}
	plain := strings.NewReplacer(of.space, "NS", uid, "UID", ":"+of.port, ":0").Replace(string(text))
	value := map[string]any{}
	if err := json.Unmarshal([]byte(plain), &value); err != nil {
		s.Fatal(err)
	}
	return value
}

// isMark says if a label or an annotation is of the hub, or of kubectl.
func isMark(key string) bool {
	domain, _, _ := strings.Cut(key, "/")
	return slices.ContainsFunc(ofTheHub, func(of string) bool { return domain == of || strings.HasSuffix(domain, "."+of) })
}

// withoutLabelsOfPods removes the labels that the API server shows of a Job without labels: those
// of its pods, for this Job.
func withoutLabelsOfPods(object *unstructured.Unstructured) {
	labels := object.GetLabels()
	for key, value := range map[string]string{"controller-uid": string(object.GetUID()), "job-name": object.GetName()} {
		for _, key := range []string{key, "batch.kubernetes.io/" + key} {
			if labels[key] == value {
				delete(labels, key)
			}
		}
	}
	object.SetLabels(labels)
}

func withoutMarks(object map[string]any, field string) {
	kept := map[string]string{}
	all, _, _ := unstructured.NestedStringMap(object, "metadata", field)
	for key, value := range all {
		if !isMark(key) {
			kept[key] = value
		}
	}
	if len(kept) == 0 {
		unstructured.RemoveNestedField(object, "metadata", field)
		return
	}
	_ = unstructured.SetNestedStringMap(object, kept, "metadata", field)
}

// withoutNumbers removes a field, also in lists, unless it has the number that the user wrote.
func withoutNumbers(value any, path []string, written string) {
	switch value := value.(type) {
	case []any:
		for _, each := range value {
			withoutNumbers(each, path, written)
		}
	case map[string]any:
		if len(path) > 1 {
			withoutNumbers(value[path[0]], path[1:], written)
		} else if fmt.Sprint(value[path[0]]) != written {
			delete(value, path[0])
		}
	}
}

// bring brings the manifests of a step to the hub.
func (s *rowScene) bring(i int) {
	s.Helper()
	step := s.row.steps[i]
	if s.by == byWork {
		s.write(s.workOf(step.manifests), false, false)
		return
	}
	s.write(s.ours.fill(strings.Join(step.manifests, documentsEnd)), step.recreated, i > 0 && s.row.replaces != "")
	if i > 0 {
		for _, manifest := range s.row.steps[i-1].manifests {
			if !slices.ContainsFunc(step.manifests, func(other string) bool { return s.same(manifest, other) }) {
				if err := s.hub.client.Delete(s.Context(), s.object(s.ours, manifest)); err != nil {
					s.Fatal(err)
				}
			}
		}
		return
	}
	if s.row.taken != nil {
		s.row.taken(s)
	}
	s.write(s.policies(), false, false)
}

// write writes objects to the hub by the client of its users.
func (s *rowScene) write(text string, recreated, replaces bool) {
	s.Helper()
	eventually(s, "writing "+text, func() error {
		switch {
		case recreated:
			return s.user.recreate(s.Context(), text)
		case replaces:
			return s.user.replace(s.Context(), text)
		default:
			return s.user.bring(s.Context(), text)
		}
	})
}

// workOf is a ManifestWork with the manifests, and the fields of a spec.
func (s *rowScene) workOf(manifests []string, spec ...string) string {
	spec = append(spec, "workload: {manifests: [\n"+strings.Join(manifests, ",\n")+"]}")
	return s.ours.fill("{apiVersion: work.open-cluster-management.io/v1, kind: ManifestWork, metadata: {namespace: CLUSTER, name: NS}, spec: {" + strings.Join(spec, ", ") + "}}")
}

// policies are those for all manifests of the row: one for namespaced objects, one for others.
func (s *rowScene) policies() string {
	s.Helper()
	selectors := map[string][]string{}
	for _, step := range s.row.steps {
		for _, manifest := range step.manifests {
			object := s.object(s.ours, manifest)
			kind := "PropagationPolicy"
			if object.GetNamespace() == "" {
				kind = "ClusterPropagationPolicy"
			}
			selector := fmt.Sprintf("{apiVersion: %s, kind: %s, name: %q}", object.GetAPIVersion(), object.GetKind(), object.GetName())
			if !slices.Contains(selectors[kind], selector) {
				selectors[kind] = append(selectors[kind], selector)
			}
		}
	}
	var policies []string
	for kind, selectors := range selectors {
		policies = append(policies, s.policy(kind, "NS", selectors))
	}
	return strings.Join(policies, documentsEnd)
}

// policy is a policy for what is selected.
func (s *rowScene) policy(kind, name string, selectors []string) string {
	namespace := "namespace: NS, "
	if kind == "ClusterPropagationPolicy" {
		namespace = ""
	}
	spec := s.row.policy
	if spec == "" {
		spec = "placement: {clusterAffinity: {clusterNames: [CLUSTER]}}"
	}
	return s.ours.fill(fmt.Sprintf("{apiVersion: policy.karmada.io/v1alpha1, kind: %s, metadata: {%sname: %s}, spec: {resourceSelectors: [%s], %s}}",
		kind, namespace, name, strings.Join(selectors, ", "), spec))
}

// says waits until the condition Applied of a manifest, for what its work is now, begins with the
// first part or has it, and has the others in its message.
func (s *rowScene) says(manifest string, parts ...string) {
	s.Helper()
	eventually(s, fmt.Sprintf("the hub says %q of %s", parts, manifest), func() error {
		if text := s.told(manifest); lacking(text, parts) != "" {
			return errors.New(text)
		}
		return nil
	})
}

// works returns the works of the cluster.
func (s *rowScene) works() ([]workv1.ManifestWork, error) {
	works := &workv1.ManifestWorkList{}
	err := s.hub.client.List(s.Context(), works, client.InNamespace(s.clusterName()))
	return works.Items, err
}

// told returns what the hub says of the object of a manifest.
func (s *rowScene) told(manifest string) string {
	s.Helper()
	works, err := s.works()
	if err != nil {
		return err.Error()
	}
	return s.saidIn(works, manifest)
}

// saidIn returns the condition Applied of the object of a manifest in the works that have it and
// have been applied in their present generation.
func (s *rowScene) saidIn(works []workv1.ManifestWork, manifest string) string {
	s.Helper()
	object := s.object(s.ours, manifest)
	var texts []string
	for i := range works {
		applied := meta.FindStatusCondition(works[i].Status.Conditions, workv1.ManifestWorkConditionApplied)
		if applied == nil || applied.ObservedGeneration != works[i].Generation {
			continue
		}
		for _, m := range works[i].Status.ResourceStatus.Manifests {
			of := m.ResourceMeta
			if of.Kind != object.GetKind() || of.Name != object.GetName() || of.Namespace != object.GetNamespace() {
				continue
			}
			if c := meta.FindStatusCondition(m.Conditions, workv1.ManifestConditionApplied); c != nil {
				texts = append(texts, string(c.Status)+" "+c.Reason+": "+c.Message)
			}
		}
	}
	return strings.Join(texts, "\n")
}
