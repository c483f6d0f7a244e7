// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package twins

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/capstan-io/capstan/test/integration/conformance/installation"
	"github.com/capstan-io/capstan/test/integration/conformance/promises"
)

// rowScene is a row in a column, brought in a way.
type rowScene struct {
	*promises.Scene
	row manifestRow
	by  way
	// ours and twins are the names in the member of what is delivered, and of what the
	// administrator writes to compare it with.
	ours, twins names
	// users have a client, which is user for those of the hub.
	users userClient
	user  bringer
}

// names fill the tokens of manifests.
type names struct{ space, port, cluster, next string }

func (n names) fill(text string) string {
	return strings.NewReplacer("NS", n.space, "PORT", n.port, "CLUSTER", n.cluster, "NEXT", n.next).Replace(text)
}

// portFirst is the first of the numbers that API servers give to no Service by themselves while
// they have others.
const portFirst = 30000

func newRowScene(s *promises.Scene, row manifestRow, by way, users userClient) *rowScene {
	s.ID = s.ClusterName() + "-" + s.ID // which is on the hub, too
	port := portFirst + 8*slices.Index(installation.JoinModes(), s.Mode) + 4*row.writesPort
	if by == byPolicy {
		port += 2
	}
	ours := names{space: s.ID, port: fmt.Sprint(port), cluster: s.ClusterName(), next: neighbourOf(s.Column)}
	twins := ours
	twins.space, twins.port = s.ID+"-twin", fmt.Sprint(port+1)
	return &rowScene{Scene: s, row: row, by: by, ours: ours, twins: twins, users: users, user: users.bringerTo(s.Hub.Cluster, row.generated)}
}

// play does the steps one after the other.
func (s *rowScene) play() {
	for _, n := range []names{s.ours, s.twins} {
		s.Member.ApplyText(s, "{apiVersion: v1, kind: Namespace, metadata: {name: "+n.space+"}}")
		s.Member.ApplyText(s, n.fill(s.row.twins))
	}
	if s.by == byPolicy {
		s.Hub.ApplyText(s, s.ours.fill("{apiVersion: v1, kind: Namespace, metadata: {name: NS, labels: {namespace.karmada.io/skip-auto-propagation: \"true\"}}}"))
		s.Hub.ApplyText(s, s.ours.fill(s.row.onHub))
	}
	if s.row.ours != "" {
		object := s.object(s.ours, s.row.ours)
		if err := s.Member.Client.Create(s.Context(), object, client.FieldOwner("kubectl-client-side-apply")); err != nil {
			s.Fatal(err)
		}
	}
	if s.row.Run != nil {
		s.row.Run(s)
		return
	}
	for i := range s.row.Steps {
		s.step(i)
	}
	if s.row.ends != nil {
		s.row.ends(s)
	}
}

// step brings the manifests of a step to the hub and to the twins, and waits until they are equal.
func (s *rowScene) step(i int) {
	s.Helper()
	step := s.row.Steps[i]
	right := step.Right
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
	err := s.Member.Client.Get(s.Context(), client.ObjectKeyFromObject(object), live)
	return live, err
}

func (s *rowScene) patch(of names, manifest, patch string) {
	s.Helper()
	raw, err := yaml.YAMLToJSON([]byte(of.fill(patch)))
	if err != nil {
		s.Fatal(err)
	}
	if err := s.Member.Client.Patch(s.Context(), s.object(of, manifest), client.RawPatch(types.MergePatchType, raw), client.FieldOwner("somebody")); err != nil {
		s.Fatal(err)
	}
}

// judge lets the API server of the member make the twin of a manifest: by POST, and then by PUT.
func (s *rowScene) judge(manifest string, recreated bool) {
	s.Helper()
	installation.Eventually(s, "the API server makes the twin of "+manifest, func() error {
		there, err := s.live(s.twins, manifest)
		twin := s.object(s.twins, manifest)
		switch {
		case err == nil && recreated:
			if err := s.Member.Client.Delete(s.Context(), there, client.PropagationPolicy(metav1.DeletePropagationBackground), client.GracePeriodSeconds(0)); err != nil {
				return err
			}
			return s.Member.Client.Create(s.Context(), twin)
		case apierrors.IsNotFound(err):
			return s.Member.Client.Create(s.Context(), twin)
		case err != nil:
			return err
		}
		twin.SetResourceVersion(there.GetResourceVersion())
		if err := keep(twin, there, s.row.generated); err != nil {
			return err
		}
		return s.Member.Client.Update(s.Context(), twin)
	})
}

// equal waits until the objects of a step are as their twins, those of the step before that are
// not among them are gone, and the hub says that all is applied.
func (s *rowScene) equal(i int, right []string) {
	s.Helper()
	for _, manifest := range right {
		installation.Eventually(s, fmt.Sprintf("step %d: what is delivered is what the API server makes of it (-: the twin, +: ours)", i+1), func() error {
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
	installation.Eventually(s, "the hub says that all is applied", func() error {
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
	for _, manifest := range s.row.Steps[i-1].manifests {
		if !slices.ContainsFunc(right, func(other string) bool { return s.same(manifest, other) }) {
			s.GoneFromMember(s.object(s.ours, manifest))
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
