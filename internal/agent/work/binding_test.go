// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/apis/karmada/work/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// ofBinding returns the work as a binding makes it.
func ofBinding(work *workv1.ManifestWork) *workv1.ManifestWork {
	work.Labels = map[string]string{v1alpha1.LabelPermanentID: "id-of-" + work.Name}
	return work
}

func TestBindingReportsTheStateOfAnObject(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(seldom())
	s.create(ofBinding(s.work("w", s.triple("d"))))
	work := s.reports("w", 0, `health={"string":"Unhealthy"}`)
	s.contains(message(work, 0, "StatusFeedbackSynced"), "True StatusFeedbackSynced")
	s.status(deploymentKind, "d", `{"observedGeneration":1,"replicas":3,"updatedReplicas":3,"readyReplicas":3,"availableReplicas":3}`)
	s.reports("w", 0, `status={"jsonRaw":"{\"availableReplicas\":3,\"generation\":1,\"observedGeneration\":1,`)
	s.reports("w", 0, `health={"string":"Healthy"}`)
	s.delete("w")
	s.gone("w")
	s.nothingLeft()
}

func TestStateOfABindingThatIsTooLargeIsLeftOut(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(seldom())
	s.create(ofBinding(s.work("w", fmt.Sprintf(
		`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":%q},"spec":{"containers":[{"name":"c","image":"i"}]}}`, s.ns()))))
	s.condition("w", "Applied", metav1.ConditionTrue)
	s.status("Pod", "p", fmt.Sprintf(`{"phase":"Running","message":%q}`, strings.Repeat("x", workv1.StatusSizeMax)))
	work := s.tells("w", 0, "StatusFeedbackSynced", "at most 262144")
	s.contains(message(work, 0, "StatusFeedbackSynced"), "False StatusFeedbackSyncFailed", `"status"`)
	if got := values(work, 0); got != `health={"string":"Unhealthy"}` {
		t.Errorf("the agent reports %.1000s", got)
	}
	s.status("Pod", "p", fmt.Sprintf(`{"phase":"Running","message":%q}`, strings.Repeat("x", workv1.StatusSizeMax-1000)))
	s.reports("w", 0, `status={"jsonRaw":"{\"message\"`)
}

// with returns the JSON of an object with a label or an annotation.
func with(t testing.TB, object, field, key, value string) string {
	t.Helper()
	u := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(object), u); err != nil {
		t.Fatal(err)
	}
	if err := unstructured.SetNestedField(u.Object, value, "metadata", field, key); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(u)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// overwriting returns the JSON of an object that takes over one that exists.
func overwriting(t testing.TB, object string) string {
	t.Helper()
	return with(t, object, "annotations", policyv1alpha1.AnnotationConflictResolution, policyv1alpha1.ConflictResolutionOverwrite)
}

// foreign makes a ConfigMap in the member that is not ours.
func (s *scene) foreign(name string, labels map[string]string) *corev1.ConfigMap {
	s.t.Helper()
	object := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.ns(), Name: name, Labels: labels}, Data: map[string]string{"key": "theirs"},
	}
	if err := s.client.Create(s.t.Context(), object, client.FieldOwner("helm")); err != nil {
		s.t.Fatal(err)
	}
	return object
}

const alreadyExists = "False AppliedManifestFailed: resource(kind=ConfigMap, "

func TestBindingLeavesAnObjectOfSomebodyElseAlone(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(seldom())
	object := s.foreign("c", nil)
	s.create(ofBinding(s.work("w", s.configMap("c", "1"))))
	work := s.tells("w", 0, "Applied", alreadyExists+s.ns()+"/c) already exists in the cluster "+s.cluster+
		" and the work.karmada.io/conflict-resolution strategy value is empty, Karmada will not manage this resource; it belongs to field manager helm.")
	s.sums("w", "Applied", "False AppliedManifestWorkFailed: resource(kind=ConfigMap, ")
	if got := values(work, 0); got != `health={"string":"Unknown"}` {
		t.Errorf("the agent reports %s", got)
	}
	if err := s.client.Delete(t.Context(), object); err != nil {
		t.Fatal(err)
	}
	s.has("c", "1")
	s.reports("w", 0, `health={"string":"Healthy"}`)
	s.delete("w")
	s.gone("w")
	s.nothingLeft()
}

func TestBindingTakesAnObjectOverIfThatIsAsked(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(seldom())
	s.foreign("c", nil)
	s.create(ofBinding(s.work("w", s.configMap("c", "1"))))
	s.tells("w", 0, "Applied", alreadyExists)
	s.has("c", "theirs")
	s.change("w", func(w *workv1.ManifestWork) { setManifests(w, overwriting(t, s.configMap("c", "1"))) })
	s.has("c", "1")
	// What it took over is its own.
	s.change("w", func(w *workv1.ManifestWork) { setManifests(w, s.configMap("c", "2")) })
	s.has("c", "2")
}

func TestBindingAppliesAnObjectOfItsWorkAgain(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	work := ofBinding(s.work("w", s.configMap("c", "1"), s.configMap("d", "1")))
	s.foreign("c", map[string]string{workv1alpha2.LabelManaged: "true", workv1alpha2.LabelWorkID: work.Labels[workv1alpha2.LabelWorkID]})
	s.foreign("d", map[string]string{workv1alpha2.LabelManaged: "true", workv1alpha2.LabelWorkID: "another"})
	s.start(seldom())
	s.create(work)
	s.has("c", "1")
	s.tells("w", 1, "Applied", alreadyExists)
}

func TestBindingLeavesAnObjectOfAnotherWorkAlone(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(seldom())
	s.create(ofBinding(s.work("first", s.configMap("c", "1"))))
	s.has("c", "1")
	s.create(ofBinding(s.work("w", s.configMap("c", "1"))))
	s.tells("w", 0, "Applied", `it belongs to ManifestWork "first"`)
	s.delete("first")
	s.gone("first")
	s.has("c", "1")
	s.condition("w", "Applied", metav1.ConditionTrue)
}

func TestBindingLeavesANamespaceThatWasThere(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(seldom())
	manifest := fmt.Sprintf(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":%q}}`, s.ns())
	s.create(ofBinding(s.work("w", manifest)))
	s.condition("w", "Applied", metav1.ConditionTrue)
	s.change("w", func(w *workv1.ManifestWork) { setManifests(w, with(t, manifest, "labels", "a", "b")) })
	s.condition("w", "Applied", metav1.ConditionTrue)
	s.delete("w")
	s.gone("w")
	found := &corev1.Namespace{}
	if err := s.client.Get(t.Context(), client.ObjectKey{Name: s.ns()}, found); err != nil {
		t.Fatal(err)
	}
	if found.DeletionTimestamp != nil || len(found.OwnerReferences) > 0 || len(found.Annotations) > 0 || found.Labels["a"] != "" {
		t.Errorf("the namespace is %+v", found.ObjectMeta)
	}
}

// sent returns the JSON of an object as a binding sends it with the work w.
func sent(t testing.TB, object string) string {
	t.Helper()
	for _, mark := range [][3]string{
		{"labels", workv1alpha2.LabelManaged, "true"},
		{"labels", workv1alpha2.LabelWorkID, "id-of-w"},
		{"labels", policyv1alpha1.LabelPropagationPolicyID, "id"},
		{"labels", "app.example.com/name", "web"},
		{"annotations", workv1alpha2.AnnotationTemplateUID, "uid"},
		{"annotations", policyv1alpha1.AnnotationConflictResolution, "abort"},
		{"annotations", policyv1alpha1.AnnotationPropagationPolicyName, "p"},
		{"annotations", "example.com/note", "kept"},
	} {
		object = with(t, object, mark[0], mark[1], mark[2])
	}
	return object
}

func TestObjectOfABindingThatIsPreservedLosesMarks(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(seldom())
	work := ofBinding(s.work("w", sent(t, s.configMap("stays", "1")), sent(t, s.configMap("gone", "1"))))
	work.Spec.DeleteOption = &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyOrphan}
	s.create(work)
	s.condition("w", "Applied", metav1.ConditionTrue)
	s.change("w", func(w *workv1.ManifestWork) {
		metav1.SetMetaDataAnnotation(&w.ObjectMeta, workv1.AnnotationSuspendDispatching, "true")
	})
	s.sums("w", "Dispatching", "False")
	if err := s.client.Delete(t.Context(), s.has("gone", "1")); err != nil {
		t.Fatal(err)
	}
	s.delete("w")
	s.gone("w")
	left := s.has("stays", "1")
	if len(left.OwnerReferences) > 0 || len(left.Labels) != 1 || left.Labels["app.example.com/name"] != "web" ||
		len(left.Annotations) != 1 || left.Annotations["example.com/note"] != "kept" {
		t.Errorf("the object that stays is %+v", left.ObjectMeta)
	}
	s.hasNot("gone")
}

func TestBindingDoesNotMakeAJobAgainThatIsDone(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(seldom())
	s.create(ofBinding(s.work("w", s.job("j"))))
	s.condition("w", "Applied", metav1.ConditionTrue)
	s.status(jobKind, "j", jobRuns)
	s.status(jobKind, "j", jobDone)
	s.tells("w", 0, "Complete", "True")
	reported := values(s.reports("w", 0, "succeeded"), 0)
	job, err := s.live(jobKind, "j")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.client.Delete(t.Context(), job, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		t.Fatal(err)
	}
	work := s.condition("w", "Available", metav1.ConditionFalse) // it is not made again
	s.contains(message(work, 0, "Applied"), "True")
	if got := values(work, 0); got != reported {
		t.Errorf("the agent reports %s; want %s", got, reported)
	}
}

func TestObjectOfABindingWaitsForItsNamespace(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(seldom())
	later := s.ns() + "-later"
	s.create(ofBinding(s.work("w", strings.Replace(s.configMap("c", "1"), s.ns(), later, 1))))
	s.sums("w", "Applied", "False AppliedManifestWorkFailed: Waiting for namespace")
	s.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: later}})
	s.condition("w", "Applied", metav1.ConditionTrue)
}

func TestSuspendedBindingReportsItsState(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	first := s.start(seldom())
	s.create(ofBinding(s.work("w", s.triple("d"))))
	s.reports("w", 0, "health")
	s.change("w", func(w *workv1.ManifestWork) {
		metav1.SetMetaDataAnnotation(&w.ObjectMeta, workv1.AnnotationSuspendDispatching, "true")
	})
	s.sums("w", "Dispatching", "False SuspendDispatching")
	s.status(deploymentKind, "d", `{"replicas":2}`)
	work := s.reports("w", 0, `\"replicas\":2`)
	applied := message(work, 0, "Applied")
	s.contains(applied, "True")
	first.stop()
	s.change("w", func(w *workv1.ManifestWork) { setManifests(w, with(t, s.triple("d"), "labels", "a", "b")) })
	s.status(deploymentKind, "d", `{"replicas":3}`)
	s.start(seldom())
	work = s.reports("w", 0, `\"replicas\":3`)
	if got := message(work, 0, "Applied"); got != applied {
		t.Errorf("Applied of the object is %s; want %s", got, applied)
	}
	if c := meta.FindStatusCondition(work.Status.Conditions, workv1.ManifestWorkConditionApplied); c == nil || c.ObservedGeneration == work.Generation {
		t.Errorf("Applied of the work is %+v", c)
	}
	s.change("w", func(w *workv1.ManifestWork) { w.Annotations = nil })
	s.condition("w", "Applied", metav1.ConditionTrue)
	s.becomes("d", "it is applied", func(d *appsv1.Deployment) bool { return d.Labels["a"] == "b" })
}
