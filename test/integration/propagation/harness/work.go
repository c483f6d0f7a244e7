// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	karmadaworkv1alpha1 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/propagation/deliver"
)

// EndsWhereItIsDivided waits until each of two clusters has half of a Job without completions,
// and the Job is complete when both say so.
func (w World) EndsWhereItIsDivided(name string) {
	w.Helper()
	w.Eventually("each cluster has half of the queue", func() error {
		for _, cluster := range []string{"member1", "member2"} {
			sent, err := w.JobIn(cluster, name)
			if err != nil {
				return err
			}
			if *sent.Spec.Parallelism != 2 || sent.Spec.Completions != nil {
				return fmt.Errorf("%s has %+v", cluster, sent.Spec)
			}
		}
		return nil
	})
	ended := `{"succeeded":%d,"startTime":"2026-01-01T00:00:00Z","completionTime":"2026-01-01T00:01:00Z","conditions":[` +
		`{"type":"SuccessCriteriaMet","status":"True","reason":"CompletionsReached","lastTransitionTime":"2026-01-01T00:01:00Z"},` +
		`{"type":"Complete","status":"True","reason":"CompletionsReached","lastTransitionTime":"2026-01-01T00:01:00Z"}]}`
	for i, cluster := range []string{"member1", "member2"} {
		w.ReportStatus(cluster, deliver.WorkName("Job", metav1.NamespaceDefault, name), fmt.Sprintf(ended, i+1))
	}
	w.Eventually("the queue is complete", func() error {
		queue := &batchv1.Job{}
		if err := w.Get(w.Context(), client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: name}, queue); err != nil {
			return err
		}
		for _, c := range queue.Status.Conditions {
			if c.Type == batchv1.JobComplete && c.Status == corev1.ConditionTrue && queue.Status.Succeeded == 3 && queue.Status.CompletionTime != nil {
				return nil
			}
		}
		return fmt.Errorf("its status is %+v", queue.Status)
	})
}

// JobIn returns a Job as it was sent to a cluster.
func (w World) JobIn(cluster, name string) (*batchv1.Job, error) {
	work, sent := &workv1.ManifestWork{}, &batchv1.Job{}
	if err := w.Get(w.Context(), client.ObjectKey{Namespace: cluster, Name: deliver.WorkName("Job", metav1.NamespaceDefault, name)}, work); err != nil {
		return nil, err //nolint:wrapcheck // it names the work
	}
	if len(work.Spec.Workload.Manifests) == 0 || !work.DeletionTimestamp.IsZero() {
		return nil, errors.New("the work has nothing")
	}
	return sent, json.Unmarshal(work.Spec.Workload.Manifests[0].Raw, sent) //nolint:wrapcheck // it says what
}

// LostWorkOf returns a work of a Deployment, whose binding does not exist.
func (w World) LostWorkOf(name string, uid types.UID) *workv1.ManifestWork {
	w.Helper()
	object := Deployment(name, 1)
	object.APIVersion, object.Kind = "apps/v1", "Deployment"
	object.Annotations = map[string]string{workv1alpha2.AnnotationTemplateUID: string(uid)}
	raw, err := json.Marshal(object)
	if err != nil {
		w.Fatal(err)
	}
	id := "id-of-" + name
	return &workv1.ManifestWork{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "member1", Name: name, Labels: map[string]string{workv1alpha2.LabelResourceBindingID: id, karmadaworkv1alpha1.LabelPermanentID: id},
			Annotations: map[string]string{
				workv1alpha2.AnnotationResourceBindingNamespace: metav1.NamespaceDefault, workv1alpha2.AnnotationResourceBindingName: name + "-deployment",
			},
		},
		Spec: workv1.ManifestWorkSpec{Workload: workv1.ManifestsTemplate{Manifests: []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: raw}}}}},
	}
}

// AgentSays changes what the agent of a cluster has said of a work.
func (w World) AgentSays(cluster, name string, change func(*workv1.ManifestWork)) {
	w.Helper()
	w.Eventually("the status of work "+name+" is written", func() error {
		work := &workv1.ManifestWork{}
		if err := w.Get(w.Context(), client.ObjectKey{Namespace: cluster, Name: name}, work); err != nil {
			return err
		}
		change(work)
		return w.Status().Update(w.Context(), work)
	})
}

// HasRecorded waits for an event of a reason about KIND NAMESPACE/NAME.
func (w World) HasRecorded(reason, about string) {
	w.Helper()
	w.Eventually(fmt.Sprintf("there is an event %s about %s", reason, about), func() error {
		list, told := &eventsv1.EventList{}, sets.New[string]()
		if err := w.List(w.Context(), list); err != nil {
			return err
		}
		for i := range list.Items {
			of := list.Items[i].Regarding
			one := of.Kind + " " + of.Namespace + "/" + of.Name
			if list.Items[i].Reason == reason && one == about {
				return nil
			}
			if one == about {
				told.Insert(list.Items[i].Reason + ": " + list.Items[i].Note)
			}
		}
		return fmt.Errorf("about it there are %q", sets.List(told))
	})
}

// RefusesChange returns nil if the hub refuses a change of a ConfigMap with these words.
func (w World) RefusesChange(name, says string) error {
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name}}
	err := w.Patch(w.Context(), object, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"trial":"yes"}}}`)), client.DryRunAll)
	if err == nil || !strings.Contains(err.Error(), says) {
		return fmt.Errorf("the hub says %w", errors.Join(err, errors.New("nothing of that")))
	}
	return nil
}

// RefuseAs has a cluster without an agent say why it does not apply what it was
// sent.
func (w World) RefuseAs(cluster, why string) {
	w.Helper()
	w.Eventually("cluster "+cluster+" refuses it", func() error {
		works := &workv1.ManifestWorkList{}
		if err := w.List(w.Context(), works, client.InNamespace(cluster), client.HasLabels{karmadaworkv1alpha1.LabelPermanentID}); err != nil {
			return err
		}
		if len(works.Items) != 1 {
			return fmt.Errorf("it has been sent %d works", len(works.Items))
		}
		work := &works.Items[0]
		failed := metav1.Condition{
			Type: workv1.ManifestWorkConditionApplied, Status: metav1.ConditionFalse, Reason: "AppliedManifestFailed", Message: "Failed to apply 1 of 1 manifests",
			ObservedGeneration: work.Generation, LastTransitionTime: metav1.Now(),
		}
		work.Status.Conditions = []metav1.Condition{failed}
		failed.ObservedGeneration, failed.Message = 0, why
		work.Status.ResourceStatus.Manifests = []workv1.ManifestCondition{{Conditions: []metav1.Condition{failed}}}
		return w.Status().Update(w.Context(), work)
	})
}

// ReportRoom has a cluster say for how many pods it has room.
func (w World) ReportRoom(cluster, pods string) {
	w.Helper()
	w.Eventually(cluster+" has room for "+pods+" pods", func() error {
		connection := &fleetv1alpha1.ClusterConnection{}
		if err := w.Get(w.Context(), client.ObjectKey{Name: cluster}, connection); err != nil {
			return err
		}
		connection.Status.ResourceSummary = &fleetv1alpha1.ResourceSummary{Allocatable: fleetv1alpha1.ResourceList{"pods": resource.MustParse(pods)}}
		return w.Status().Update(w.Context(), connection)
	})
}

// ReportStatus has a cluster report a status of an object.
func (w World) ReportStatus(cluster, work, status string) {
	w.Helper()
	w.Eventually("cluster "+cluster+" reports a status", func() error {
		is := &workv1.ManifestWork{}
		if err := w.Get(w.Context(), client.ObjectKey{Namespace: cluster, Name: work}, is); err != nil {
			return err
		}
		applied := metav1.Condition{
			Type: workv1.ManifestWorkConditionApplied, Status: metav1.ConditionTrue, Reason: "Applied",
			ObservedGeneration: is.Generation, LastTransitionTime: metav1.Now(),
		}
		is.Status.Conditions = []metav1.Condition{applied}
		is.Status.ResourceStatus.Manifests = []workv1.ManifestCondition{{
			Conditions: []metav1.Condition{applied},
			StatusFeedback: workv1.StatusFeedbackResult{Values: []workv1.FeedbackValue{
				{Name: karmadaworkv1alpha1.FeedbackStatus, FieldValue: workv1.FieldValue{Type: workv1.ValueTypeJSONRaw, JSONRaw: &status}},
			}},
		}}
		return w.Status().Update(w.Context(), is)
	})
}
