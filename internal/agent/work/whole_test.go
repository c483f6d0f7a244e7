// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// The objects of these tests have a field that an API server refuses as a whole, without saying what of it.

// set returns the JSON of a StatefulSet "db" with a spec beside its selector, and a container "db"
// with fields beside its name.
func (s *scene) set(spec, container string) string {
	return fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"StatefulSet","metadata":{"name":"db","namespace":%q},"spec":{%s"selector":{"matchLabels":{"app":"db"}},
		"template":{"metadata":{"labels":{"app":"db"}},"spec":{"containers":[{"name":"db"%s}]}}}}`, s.ns(), spec, container)
}

// demands returns a manifest that allows to delete the object and to make it again.
func demands(manifest string) string {
	return strings.Replace(manifest, `"metadata":{`, `"metadata":{"annotations":{"`+workv1.AnnotationRecreate+`":"true"},`, 1)
}

// holds waits until an object of the member is as the check says.
func holds[T client.Object](s *scene, what, name string, empty func() T, check func(T) error) T {
	s.t.Helper()
	found := empty()
	s.eventually(what, func() error {
		found = empty()
		if err := s.client.Get(s.t.Context(), client.ObjectKey{Namespace: s.ns(), Name: name}, found); err != nil {
			return err
		}
		return check(found)
	})
	return found
}

func newSet() *appsv1.StatefulSet { return &appsv1.StatefulSet{} }
func newPod() *corev1.Pod         { return &corev1.Pod{} }

// countingWrites counts the writes to objects by their path.
func countingWrites(count *atomic.Int64, path string) agentOptions {
	return agentOptions{wrap: func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			if request.Method != http.MethodGet && strings.Contains(request.URL.Path, path) {
				count.Add(1)
			}
			return next.RoundTrip(request)
		})
	}}
}

// TestWhatMayGoOfAStatefulSetGoes has a manifest lose a field that cannot go together with fields that can.
func TestWhatMayGoOfAStatefulSetGoes(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(agentOptions{})
	s.create(s.work("w", s.set(`"serviceName":"db","podManagementPolicy":"Parallel","minReadySeconds":5,`, `,"image":"x","env":[{"name":"A","value":"1"}]`)))
	s.condition("w", "Applied", metav1.ConditionTrue)
	object := holds(s, "it is there", "db", newSet, func(*appsv1.StatefulSet) error { return nil })
	s.edits("them", object, `{"spec":{"persistentVolumeClaimRetentionPolicy":{"whenScaled":"Delete"}}}`)
	for _, image := range []string{"y", "z"} {
		s.change("w", func(w *workv1.ManifestWork) { setManifests(w, s.set(`"serviceName":"db",`, `,"image":"`+image+`"`)) })
		s.condition("w", "Applied", metav1.ConditionTrue)
		object = holds(s, "what may go has gone", "db", newSet, func(set *appsv1.StatefulSet) error {
			container := &set.Spec.Template.Spec.Containers[0]
			return errors.Join(is("image", container.Image, image), is("env", len(container.Env), 0), is("minReadySeconds", set.Spec.MinReadySeconds, int32(0)),
				is("podManagementPolicy", set.Spec.PodManagementPolicy, appsv1.ParallelPodManagement),
				is("whenScaled", set.Spec.PersistentVolumeClaimRetentionPolicy.WhenScaled, appsv1.DeletePersistentVolumeClaimRetentionPolicyType))
		})
		s.settled(object)
		if image == "y" {
			s.says("w", 0, "Applied", "AppliedManifestComplete", "are no longer in the manifest", ".spec.podManagementPolicy")
			if w, err := s.get("w"); err != nil || strings.Contains(message(w, 0, "Applied"), "minReadySeconds") {
				t.Errorf("it says that more is kept: %q, %v", message(w, 0, "Applied"), err)
			}
		}
	}
}

// TestWhatCannotChangeOfAStatefulSetStays has a manifest change what cannot change: the condition says what, though the server
// does not, and nothing else of the manifest is applied, which belongs together.
func TestWhatCannotChangeOfAStatefulSetStays(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	var count atomic.Int64
	s.start(countingWrites(&count, "/statefulsets"))
	s.create(s.work("w", s.set(`"serviceName":"db","minReadySeconds":5,`, `,"image":"x"`)))
	s.condition("w", "Applied", metav1.ConditionTrue)
	before := holds(s, "it is there", "db", newSet, func(*appsv1.StatefulSet) error { return nil })
	count.Store(0)
	other := s.set(`"serviceName":"other","minReadySeconds":6,`, `,"image":"y"`)
	s.change("w", func(w *workv1.ManifestWork) { setManifests(w, other) })
	s.condition("w", "Applied", metav1.ConditionFalse)
	s.says("w", 0, "Applied", "AppliedManifestFailed", "updates to statefulset spec", "Restore spec.serviceName in the manifest", workv1.AnnotationRecreate+"=true")
	if n := count.Load(); n > 24 { // a slow machine has time for a second attempt
		t.Errorf("there were %d requests at once", n)
	}
	after := holds(s, "it is there", "db", newSet, func(*appsv1.StatefulSet) error { return nil })
	if after.UID != before.UID || after.Generation != before.Generation {
		t.Errorf("it was changed: %+v", after.Spec)
	}
	s.replace("w", demands(other))
	holds(s, "it is made again", "db", newSet, func(set *appsv1.StatefulSet) error {
		return errors.Join(is("the same", set.UID == before.UID, false), is("serviceName", set.Spec.ServiceName, "other"), is("image", set.Spec.Template.Spec.Containers[0].Image, "y"))
	})
}

// TestClaimsOfAStatefulSetAreNotDeleted shows that a StatefulSet whose claims go with it is not deleted.
func TestClaimsOfAStatefulSetAreNotDeleted(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	const ends = `"persistentVolumeClaimRetentionPolicy":{"whenDeleted":"Delete"},`
	s.start(agentOptions{})
	s.create(s.work("w", s.set(`"serviceName":"db",`+ends, `,"image":"x"`)))
	s.condition("w", "Applied", metav1.ConditionTrue)
	before := holds(s, "it is there", "db", newSet, func(*appsv1.StatefulSet) error { return nil })
	s.change("w", func(w *workv1.ManifestWork) {
		setManifests(w, demands(s.set(`"serviceName":"other",`, `,"image":"x"`)))
	})
	s.condition("w", "Applied", metav1.ConditionFalse)
	s.says("w", 0, "Applied", "AppliedManifestFailed", "PersistentVolumeClaims would be deleted", "whenDeleted to Retain")
	s.replace("w", demands(s.set(`"serviceName":"db",`+strings.Replace(ends, "Delete\"", "Retain\"", 1), `,"image":"x"`)))
	s.replace("w", demands(s.set(`"serviceName":"other",`, `,"image":"x"`)))
	holds(s, "it is made again", "db", newSet, func(set *appsv1.StatefulSet) error { return is("the same", set.UID == before.UID, false) })
}

// TestAPodIsMadeAgainOnDemand changes what cannot change of a Pod.
func TestAPodIsMadeAgainOnDemand(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(agentOptions{})
	pod := func(value string) string {
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":%q},"spec":{"containers":[{"name":"c","image":"x","env":[{"name":"A","value":%q}]}]}}`, s.ns(), value)
	}
	s.create(s.work("w", pod("1")))
	s.condition("w", "Applied", metav1.ConditionTrue)
	before := holds(s, "it is there", "p", newPod, func(*corev1.Pod) error { return nil })
	s.change("w", func(w *workv1.ManifestWork) { setManifests(w, pod("2")) })
	s.condition("w", "Applied", metav1.ConditionFalse)
	s.says("w", 0, "Applied", "AppliedManifestFailed", "pod updates may not change fields", "Restore spec.containers in the manifest")
	if after := holds(s, "it is there", "p", newPod, func(*corev1.Pod) error { return nil }); after.UID != before.UID {
		t.Error("it was deleted though nobody asked for it")
	}
	s.replace("w", demands(pod("2")))
	holds(s, "it is made again", "p", newPod, func(p *corev1.Pod) error {
		return errors.Join(is("the same", p.UID == before.UID, false), is("A", p.Spec.Containers[0].Env[0].Value, "2"))
	})
}

// ruled has the work "definition" define a kind with rules, and returns the JSON of an object "r" of it.
func (s *scene) ruled(kind string) (object func(spec string) string, empty func() *unstructured.Unstructured) {
	lower := strings.ToLower(kind)
	s.create(s.work("definition", fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"%[1]ss.example.com"},
		"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"%[1]ss","singular":"%[1]s","kind":"%[2]s"},
		"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object",
		"x-kubernetes-validations":[{"rule":"self.size == oldSelf.size","message":"the size stays"},{"rule":"!(has(self.a) && has(self.b))","message":"either a or b"}],
		"properties":{"size":{"type":"integer","maximum":100},"class":{"type":"string","x-kubernetes-validations":[{"rule":"self == oldSelf","message":"the class stays"}]},
		"color":{"type":"string"},"a":{"type":"string"},"b":{"type":"string"},"c":{"type":"string"}}}}}}}]}}`, lower, kind)))
	s.condition("definition", "Applied", metav1.ConditionTrue)
	object = func(spec string) string {
		return fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":%q,"metadata":{"name":"r","namespace":%q},"spec":{%s}}`, kind, s.ns(), spec)
	}
	s.create(s.work("w", object(`"size":1,"class":"k","color":"red"`)))
	s.condition("w", "Applied", metav1.ConditionTrue)
	return object, func() *unstructured.Unstructured {
		return unstructuredOf(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: kind}, s.ns(), "r")
	}
}

// specIs returns a check that a custom resource has a spec, and whether it is another object.
func specIs(before types.UID, another bool, want map[string]any) func(*unstructured.Unstructured) error {
	return func(u *unstructured.Unstructured) error {
		return errors.Join(is("another", u.GetUID() != before, another), is("spec", u.Object["spec"], want))
	}
}

// TestARuleOfACustomResourceKeepsWhatItFixes breaks transition rules, which say in their own words that a field cannot change.
func TestARuleOfACustomResourceKeepsWhatItFixes(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(agentOptions{})
	object, empty := s.ruled("Ruled")
	before := holds(s, "it is there", "r", empty, func(*unstructured.Unstructured) error { return nil })
	for fixed, spec := range map[string]string{"spec.class": `"size":1,"class":"l","color":"blue"`, "spec.size": `"size":2,"class":"k","color":"blue"`} {
		s.change("w", func(w *workv1.ManifestWork) { setManifests(w, object(spec)) })
		s.condition("w", "Applied", metav1.ConditionFalse)
		s.says("w", 0, "Applied", "AppliedManifestFailed", "stays", "Restore "+fixed+" in the manifest", workv1.AnnotationRecreate+"=true")
	}
	holds(s, "nothing has changed", "r", empty, specIs(before.GetUID(), false, map[string]any{"size": int64(1), "class": "k", "color": "red"}))
	s.replace("w", demands(object(`"size":2,"class":"l","color":"blue"`)))
	holds(s, "it is made again", "r", empty, specIs(before.GetUID(), true, map[string]any{"size": int64(2), "class": "l", "color": "blue"}))
}

// TestAContradictionWithinACustomResourceIsResolved has a manifest contradict a field of somebody else, and no other one of theirs.
func TestAContradictionWithinACustomResourceIsResolved(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(agentOptions{})
	object, empty := s.ruled("Exclusive")
	before := holds(s, "it is there", "r", empty, func(*unstructured.Unstructured) error { return nil })
	s.edits("them", before, `{"spec":{"b":"theirs","c":"theirs"}}`)
	s.replace("w", object(`"size":1,"class":"k","color":"red","a":"ours"`))
	holds(s, "what contradicts has gone", "r", empty, specIs(before.GetUID(), false, map[string]any{"size": int64(1), "class": "k", "color": "red", "a": "ours", "c": "theirs"}))
}

// TestWhatNoServerWouldMakeIsNotDeleted has a manifest demand to make again what no server would make.
func TestWhatNoServerWouldMakeIsNotDeleted(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(agentOptions{})
	object, empty := s.ruled("Limited")
	before := holds(s, "it is there", "r", empty, func(*unstructured.Unstructured) error { return nil })
	for _, spec := range []string{`"size":101,"class":"k"`, `"size":101,"class":"l"`, `"size":2,"class":"k","a":"1","b":"2"`} {
		s.change("w", func(w *workv1.ManifestWork) { setManifests(w, demands(object(spec))) })
		s.condition("w", "Applied", metav1.ConditionFalse)
		s.says("w", 0, "Applied", "AppliedManifestFailed", "spec")
		holds(s, "it is as it was", "r", empty, specIs(before.GetUID(), false, map[string]any{"size": int64(1), "class": "k", "color": "red"}))
	}
}
