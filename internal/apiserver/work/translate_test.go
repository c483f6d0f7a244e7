// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/capstan-io/capstan/apis/karmada/work/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

const deployment = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":"shop"}}`

// delivered is a ManifestWork of a binding about which everything is known.
func delivered(changes ...func(*workv1.ManifestWork)) *workv1.ManifestWork {
	text := func(value string) *string { return &value }
	work := &workv1.ManifestWork{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "member1", Name: "web-5d8", UID: "5e7b1d3c-0c5a-4a7e-9a65-1d1c5f3c2b1a", ResourceVersion: "7", Generation: 3,
			Labels: map[string]string{v1alpha1.LabelPermanentID: "id"}, Annotations: map[string]string{"a": "b"}, Finalizers: []string{"of-the-agent"},
			OwnerReferences: []metav1.OwnerReference{{Name: "elsewhere"}},
			ManagedFields:   []metav1.ManagedFieldsEntry{{Manager: "m"}},
		},
		Spec: workv1.ManifestWorkSpec{
			Workload:     workv1.ManifestsTemplate{Manifests: []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: []byte(deployment)}}}},
			DeleteOption: &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyOrphan},
		},
		Status: workv1.ManifestWorkStatus{
			Conditions: []metav1.Condition{
				{Type: workv1.ManifestWorkConditionApplied, Status: metav1.ConditionTrue, Reason: "AppliedManifestWorkComplete", Message: "done", ObservedGeneration: 3, LastTransitionTime: metav1.NewTime(time.Unix(1e9, 0))},
				{Type: "Available", Status: metav1.ConditionTrue},
			},
			ResourceStatus: workv1.ManifestResourceStatus{Manifests: []workv1.ManifestCondition{{
				ResourceMeta: workv1.ManifestResourceMeta{Ordinal: 0, Group: "apps", Version: "v1", Kind: "Deployment", Resource: "deployments", Namespace: "shop", Name: "web"},
				StatusFeedback: workv1.StatusFeedbackResult{Values: []workv1.FeedbackValue{
					{Name: "status", FieldValue: workv1.FieldValue{Type: workv1.ValueTypeJSONRaw, JSONRaw: text(`{"readyReplicas":2}`)}},
					{Name: "health", FieldValue: workv1.FieldValue{Type: workv1.ValueTypeString, String: text("Healthy")}},
				}},
			}}},
		},
	}
	for _, change := range changes {
		change(work)
	}
	return work
}

func TestAManifestWorkShowsAsAWork(t *testing.T) {
	preserves := true
	want := &v1alpha1.Work{
		TypeMeta: metav1.TypeMeta{APIVersion: "work.karmada.io/v1alpha1", Kind: "Work"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "karmada-es-member1", Name: "web-5d8", UID: "0", ResourceVersion: "7", Generation: 3,
			Labels: map[string]string{v1alpha1.LabelPermanentID: "id"}, Annotations: map[string]string{"a": "b"}, Finalizers: []string{v1alpha1.Finalizer},
		},
		Spec: v1alpha1.WorkSpec{
			Workload:                    v1alpha1.WorkloadTemplate{Manifests: []runtime.RawExtension{{Raw: []byte(deployment)}}},
			SuspendDispatching:          nil,
			PreserveResourcesOnDeletion: &preserves,
		},
		Status: v1alpha1.WorkStatus{
			Conditions: []metav1.Condition{{
				Type: v1alpha1.WorkConditionApplied, Status: metav1.ConditionTrue, Reason: v1alpha1.WorkReasonAppliedSuccessful,
				Message: "done", LastTransitionTime: metav1.NewTime(time.Unix(1e9, 0)),
			}, {
				Type: v1alpha1.WorkConditionDispatching, Status: metav1.ConditionTrue, Reason: v1alpha1.WorkReasonDispatching,
				Message: "Changes are dispatched to the cluster.",
			}},
			ManifestStatuses: []v1alpha1.ManifestStatus{{
				Identifier: v1alpha1.ResourceIdentifier{Ordinal: 0, Group: "apps", Version: "v1", Kind: "Deployment", Resource: "deployments", Namespace: "shop", Name: "web"},
				Status:     &runtime.RawExtension{Raw: []byte(`{"readyReplicas":2}`)},
				Health:     v1alpha1.ResourceHealthy,
			}},
		},
	}
	got := workOf(delivered())
	want.UID = got.UID
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the Work (-want +got):\n%s", diff)
	}
	if stays := workOf(delivered(func(w *workv1.ManifestWork) { w.Spec.DeleteOption = nil })); stays.Spec.PreserveResourcesOnDeletion != nil {
		t.Error("objects that are deleted with the Work are said to be preserved")
	}
	if got := firstKind(got); got != "Deployment" {
		t.Errorf("the first object is said to be a %q", got)
	}
}

func TestASuspendedManifestWorkShowsAsASuspendedWork(t *testing.T) {
	at := metav1.NewTime(time.Unix(2e9, 0))
	suspended := func(status metav1.ConditionStatus) func(*workv1.ManifestWork) {
		return func(w *workv1.ManifestWork) {
			w.Annotations[workv1.AnnotationSuspendDispatching] = "true"
			w.Status.Conditions = []metav1.Condition{{Type: workv1.ManifestWorkConditionDispatching, Status: status, LastTransitionTime: at}}
		}
	}
	for status, reason := range map[metav1.ConditionStatus]string{
		metav1.ConditionFalse: v1alpha1.WorkReasonSuspendDispatching, metav1.ConditionTrue: v1alpha1.WorkReasonDispatching,
	} {
		work := workOf(delivered(suspended(status)))
		if is := work.Spec.SuspendDispatching; is == nil || !*is {
			t.Errorf("suspendDispatching is %v, want true", is)
		}
		c := work.Status.Conditions[0]
		if c.Type != v1alpha1.WorkConditionDispatching || c.Status != status || c.Reason != reason || !c.LastTransitionTime.Equal(&at) {
			t.Errorf("Dispatching is %+v, want %s %s since %s", c, status, reason, at)
		}
	}
	if c := workOf(delivered(func(w *workv1.ManifestWork) { w.Status.Conditions = nil })).Status.Conditions; len(c) > 0 {
		t.Errorf("before the agent has reported there is %+v", c)
	}
}

func TestTheUIDNeverChanges(t *testing.T) {
	const want = "417bcc5a-2966-547c-a99d-d54f957b70cf"
	if got := workOf(delivered()).UID; string(got) != want {
		t.Errorf("UID is %s, want %s", got, want)
	}
}

func TestAWorkThatIsNotAppliedSaysWhy(t *testing.T) {
	for _, status := range []metav1.ConditionStatus{metav1.ConditionFalse, metav1.ConditionUnknown} {
		conditions := workOf(delivered(func(w *workv1.ManifestWork) {
			w.Status.Conditions[0].Status, w.Status.Conditions[0].Message = status, "no such kind"
		})).Status.Conditions
		if c := conditions[0]; c.Status != status || c.Reason != v1alpha1.WorkReasonAppliedFailed || c.Message != "no such kind" {
			t.Errorf("Applied is %+v, want %s %s with the message", c, status, v1alpha1.WorkReasonAppliedFailed)
		}
	}
}

// TestWhatAnAgentReportsBreaksNoAnswer has an agent report what is no object, or no
// health: a list has the Works of other clusters, too.
func TestWhatAnAgentReportsBreaksNoAnswer(t *testing.T) {
	for name, raw := range map[string]string{
		"nothing": "", "half of an object": `{"a":`, "two objects": `{}{}`, "a list": `[1]`, "a number": `1`, "text": `"x"`, "null": `null`, "a number that nobody reads": `{"a":1e400}`,
		"what is nested without end": `{"a":` + strings.Repeat("[", 9_000) + strings.Repeat("]", 9_000) + `}`,
	} {
		t.Run(name, func(t *testing.T) {
			work := workOf(delivered(func(w *workv1.ManifestWork) {
				values := w.Status.ResourceStatus.Manifests[0].StatusFeedback.Values
				values[0].FieldValue.JSONRaw, values[1].FieldValue.String = &raw, &raw
			}))
			if got := work.Status.ManifestStatuses[0]; got.Status != nil || got.Health != v1alpha1.ResourceUnknown {
				t.Errorf("it is believed: %+v", got)
			}
			if _, err := json.Marshal(work); err != nil {
				t.Errorf("the answer is broken: %v", err)
			}
		})
	}
}

func TestNamespacesOfNoClusterHaveNoWorks(t *testing.T) {
	for namespace, want := range map[string]string{
		"karmada-es-member1": "member1", "karmada-es-": "", "default": "", "karmada-es": "", "member1": "", "": "",
		"karmada-es-karmada-es-a": "karmada-es-a",
	} {
		if got := clusterOfNamespace(namespace); got != want {
			t.Errorf("namespace %q is that of cluster %q, want %q", namespace, got, want)
		}
	}
}
