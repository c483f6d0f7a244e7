// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package kept

import (
	"encoding/json"
	"fmt"
	"reflect"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kruntime "k8s.io/apimachinery/pkg/runtime"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// bindingOf returns a binding as a client decodes it.
func bindingOf(t *testing.T, n int) *workv1alpha2.ResourceBinding {
	t.Helper()
	placement := &policyv1alpha1.Placement{
		ClusterAffinity:   &policyv1alpha1.ClusterAffinity{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "front", "env": "prod"}}},
		SpreadConstraints: []policyv1alpha1.SpreadConstraint{{SpreadByField: policyv1alpha1.SpreadByRegion, MinGroups: 1, MaxGroups: 3}},
	}
	applied, err := json.Marshal(placement)
	if err != nil {
		t.Fatal(err)
	}
	b := &workv1alpha2.ResourceBinding{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "team", Name: fmt.Sprintf("web%d-deployment", n), UID: "an-uid",
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "capstan"}},
			Annotations: map[string]string{
				policyv1alpha1.AnnotationAppliedPlacement: string(applied), corev1.LastAppliedConfigAnnotation: "{}", "mine": fmt.Sprint(n),
			},
		},
		Spec: workv1alpha2.ResourceBindingSpec{
			Resource:  workv1alpha2.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "team", Name: fmt.Sprintf("web%d", n)},
			Placement: placement,
		},
	}
	for i := range 10 {
		name := fmt.Sprintf("member%d", i)
		b.Spec.Clusters = append(b.Spec.Clusters, workv1alpha2.TargetCluster{Name: name, Replicas: 1})
		b.Status.AggregatedStatus = append(b.Status.AggregatedStatus, workv1alpha2.AggregatedStatusItem{
			ClusterName: name, Applied: true, Health: workv1alpha2.ResourceHealthy,
			Status: &kruntime.RawExtension{Raw: fmt.Appendf(nil, `{"replicas":1,"readyReplicas":1,"text":%q}`, strings.Repeat(fmt.Sprint(n), 300))},
		})
	}
	return decoded(t, b, &workv1alpha2.ResourceBinding{})
}

func decoded[T any](t *testing.T, from, into T) T {
	t.Helper()
	text, err := json.Marshal(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatal(err)
	}
	return into
}

func TestBindingsKeepWhatIsRead(t *testing.T) {
	common, want := NewSharedValues(), bindingOf(t, 1)
	got := bindingOf(t, 1)
	if _, err := common.SlimBinding(got); err != nil {
		t.Fatal(err)
	}
	want.ManagedFields = nil
	delete(want.Annotations, corev1.LastAppliedConfigAnnotation)
	for i := range want.Status.AggregatedStatus {
		digest := got.Status.AggregatedStatus[i].Status
		if len(digest.Raw) > 40 || !json.Valid(digest.Raw) {
			t.Errorf("the status of a cluster is kept as %s", digest.Raw)
		}
		want.Status.AggregatedStatus[i].Status = digest
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what is kept (-want +got):\n%s", diff)
	}
	again := got.DeepCopy()
	if _, err := common.SlimBinding(again); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(got, again); diff != "" {
		t.Errorf("what is kept of what is kept (-want +got):\n%s", diff)
	}
}

func TestStatusesThatDifferDifferWhenTheyAreKept(t *testing.T) {
	common, one, other := NewSharedValues(), bindingOf(t, 1), bindingOf(t, 2)
	for _, b := range []*workv1alpha2.ResourceBinding{one, other} {
		if _, err := common.SlimBinding(b); err != nil {
			t.Fatal(err)
		}
	}
	if string(one.Status.AggregatedStatus[0].Status.Raw) == string(other.Status.AggregatedStatus[0].Status.Raw) {
		t.Error("two statuses look the same")
	}
}

func TestBindingsShareWhatTheyHaveInCommon(t *testing.T) {
	common, one, other := NewSharedValues(), bindingOf(t, 1), bindingOf(t, 2)
	for _, b := range []*workv1alpha2.ResourceBinding{one, other} {
		if _, err := common.SlimBinding(b); err != nil {
			t.Fatal(err)
		}
	}
	same := func(a, b string) bool { return unsafe.StringData(a) == unsafe.StringData(b) }
	applied := policyv1alpha1.AnnotationAppliedPlacement
	if one.Spec.Placement != other.Spec.Placement || !same(one.Annotations[applied], other.Annotations[applied]) ||
		!same(one.Spec.Clusters[3].Name, other.Spec.Clusters[3].Name) {
		t.Error("they do not share their placement")
	}
}

// TestWhatManyHaveInCommonIsOneMap compares what is kept of the annotations of two
// bindings of a policy, and of one that has an annotation of its own.
func TestWhatManyHaveInCommonIsOneMap(t *testing.T) {
	common := NewSharedValues()
	kept := func(n int, own bool) reflect.Value {
		b := bindingOf(t, n)
		if !own {
			delete(b.Annotations, "mine")
		}
		if _, err := common.SlimBinding(b); err != nil {
			t.Fatal(err)
		}
		return reflect.ValueOf(b.Annotations)
	}
	one, other, own := kept(1, false), kept(2, false), kept(3, true)
	if one.Pointer() != other.Pointer() || one.Pointer() == own.Pointer() {
		t.Error("bindings of a policy do not have the same map, or one has that of others")
	}
}

func TestWorksKeepWhatIsRead(t *testing.T) {
	raw, health := `{"replicas":1}`, "Healthy"
	condition := func(kind string) metav1.Condition {
		return metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: "Applied", Message: "It is applied."}
	}
	work := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: "member1", Name: "web"}}
	work.Spec.Workload.Manifests = []workv1.Manifest{{RawExtension: kruntime.RawExtension{Raw: []byte(`{"kind":"ConfigMap"}`)}}}
	work.Status.Conditions = []metav1.Condition{condition(workv1.ManifestWorkConditionApplied), condition("Available")}
	feedback := workv1.StatusFeedbackResult{Values: []workv1.FeedbackValue{
		{Name: "status", FieldValue: workv1.FieldValue{Type: workv1.ValueTypeJSONRaw, JSONRaw: &raw}},
		{Name: "health", FieldValue: workv1.FieldValue{Type: workv1.ValueTypeString, String: &health}},
	}}
	work.Status.ResourceStatus.Manifests = []workv1.ManifestCondition{{
		ResourceMeta: workv1.ManifestResourceMeta{Kind: "Deployment", Name: "web"}, StatusFeedback: feedback,
		Conditions: []metav1.Condition{condition(workv1.ManifestConditionApplied), condition("Available")},
	}}
	kept, err := NewSharedValues().SlimWork(work)
	if err != nil {
		t.Fatal(err)
	}
	want := workv1.ManifestWorkStatus{
		Conditions: []metav1.Condition{condition(workv1.ManifestWorkConditionApplied)},
		ResourceStatus: workv1.ManifestResourceStatus{Manifests: []workv1.ManifestCondition{{
			StatusFeedback: feedback, Conditions: []metav1.Condition{condition(workv1.ManifestConditionApplied)},
		}}},
	}
	if diff := cmp.Diff(want, kept.(*workv1.ManifestWork).Status); diff != "" {
		t.Errorf("what is kept of the status (-want +got):\n%s", diff)
	}
}

// TestWorksKeepNothingOfTheirAgents trims a work into which an agent has written as much
// as fits, wherever it may write.
func TestWorksKeepNothingOfTheirAgents(t *testing.T) {
	raw, health := `{"replicas":1}`, "Healthy"
	ordinary := func() *workv1.ManifestWork {
		said := metav1.Condition{Type: workv1.ManifestWorkConditionApplied, Status: metav1.ConditionTrue, Reason: "Applied", Message: "It is applied."}
		work := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{
			Namespace: "member1", Name: "web", UID: "uid", ResourceVersion: "1", Generation: 2,
			Labels:      map[string]string{workv1alpha2.LabelResourceBindingID: "an-id"},
			Annotations: map[string]string{workv1alpha2.AnnotationResourceBindingName: "web-deployment"},
		}}
		work.Spec.Workload.Manifests = []workv1.Manifest{{RawExtension: kruntime.RawExtension{Raw: []byte(`{"kind":"ConfigMap"}`)}}}
		work.Status.Conditions = []metav1.Condition{said}
		work.Status.ResourceStatus.Manifests = []workv1.ManifestCondition{{
			Conditions: []metav1.Condition{said},
			StatusFeedback: workv1.StatusFeedbackResult{Values: []workv1.FeedbackValue{
				{Name: "status", FieldValue: workv1.FieldValue{Type: workv1.ValueTypeJSONRaw, JSONRaw: &raw}},
				{Name: "health", FieldValue: workv1.FieldValue{Type: workv1.ValueTypeString, String: &health}},
			}},
		}}
		return work
	}
	kept := func(work *workv1.ManifestWork) *workv1.ManifestWork {
		object, err := NewSharedValues().SlimWork(work)
		if err != nil {
			t.Fatal(err)
		}
		again, err := NewSharedValues().SlimWork(object.(*workv1.ManifestWork).DeepCopy())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(object, again); diff != "" {
			t.Errorf("what is kept of what is kept (-want +got):\n%.2000s", diff)
		}
		return object.(*workv1.ManifestWork)
	}
	long, hostile := strings.Repeat("é", 500_000), ordinary()
	for i := range 1000 {
		key := fmt.Sprint("k", i)
		metav1.SetMetaDataLabel(&hostile.ObjectMeta, key, key)
		metav1.SetMetaDataAnnotation(&hostile.ObjectMeta, key, key)
		hostile.Finalizers = append(hostile.Finalizers, "example.com/"+key)
		hostile.OwnerReferences = append(hostile.OwnerReferences, metav1.OwnerReference{Name: key})
		hostile.ManagedFields = append(hostile.ManagedFields, metav1.ManagedFieldsEntry{Manager: key})
		hostile.Status.Conditions = append(hostile.Status.Conditions, metav1.Condition{Type: key})
		first := &hostile.Status.ResourceStatus.Manifests[0]
		first.Conditions = append(first.Conditions, metav1.Condition{Type: key})
		first.StatusFeedback.Values = append(first.StatusFeedback.Values, workv1.FeedbackValue{Name: key, FieldValue: workv1.FieldValue{JSONRaw: &long}})
	}
	if diff := cmp.Diff(kept(ordinary()), kept(hostile)); diff != "" {
		t.Errorf("what is kept (-want +got):\n%.2000s", diff)
	}

	hostile = ordinary()
	hostile.Annotations["fleet.capstan.io/content"] = "what the hub would keep in the place of the manifests"
	if got, want := kept(hostile), kept(ordinary()); cmp.Diff(want, got) != "" {
		t.Errorf("an agent may say what a work has (-want +got):\n%.2000s", cmp.Diff(want, got))
	}

	hostile = ordinary()
	hostile.Annotations[workv1alpha2.AnnotationResourceBindingName], hostile.Annotations[policyv1alpha1.AnnotationAppliedOverrides] = long, long
	hostile.Status.Conditions[0].Message = long
	manifest := hostile.Status.ResourceStatus.Manifests[0]
	manifest.Conditions = []metav1.Condition{{Type: workv1.ManifestConditionApplied, Message: long}}
	manifest.StatusFeedback.Values = []workv1.FeedbackValue{
		{Name: "status", FieldValue: workv1.FieldValue{JSONRaw: &long}}, {Name: "health", FieldValue: workv1.FieldValue{String: &long, JSONRaw: &long}},
	}
	for range 1000 {
		hostile.Status.ResourceStatus.Manifests = append(hostile.Status.ResourceStatus.Manifests, manifest)
	}
	text, err := json.Marshal(kept(hostile))
	if err != nil {
		t.Fatal(err)
	}
	if most := workv1.StatusSizeMax + 2*messageMax*(manifestsMax+1); len(text) > most {
		t.Errorf("%d bytes are kept, want %d at most", len(text), most)
	}
}

// TestWhatATenantWritesDoesNotStay compares what stays of bindings that are gone with
// what was in them. Usual ones have placements and annotations of a few hundred bytes.
func TestWhatATenantWritesDoesNotStay(t *testing.T) {
	for name, write := range map[string]func(b *workv1alpha2.ResourceBinding, text string){
		"placements": func(b *workv1alpha2.ResourceBinding, text string) {
			b.Spec.Placement = &policyv1alpha1.Placement{ClusterAffinity: &policyv1alpha1.ClusterAffinity{ClusterNames: []string{text}}}
		},
		"annotations": func(b *workv1alpha2.ResourceBinding, text string) {
			b.Annotations = map[string]string{policyv1alpha1.AnnotationAppliedPlacement: text}
		},
	} {
		t.Run(name, func(t *testing.T) {
			common, written := NewSharedValues(), 0
			var before, after runtime.MemStats
			runtime.GC()
			runtime.ReadMemStats(&before)
			for i := range 300 {
				b, text := bindingOf(t, i), strings.Repeat(fmt.Sprint(i%10), 200_000)+fmt.Sprint(i)
				write(b, text)
				written += len(text)
				if _, err := common.SlimBinding(b); err != nil {
					t.Fatal(err)
				}
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			runtime.KeepAlive(common)
			if stays := int(after.HeapAlloc) - int(before.HeapAlloc); stays > written/3 {
				t.Errorf("%d of %d bytes stay", stays, written)
			}
		})
	}
}

// TestBytesOfABinding compares what bindings take in memory, as they are read and
// as they are kept.
func TestBytesOfABinding(t *testing.T) {
	const bindings = 1000
	take := func(transform func(any) (any, error)) int {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		all := make([]any, bindings)
		for i := range all {
			object, err := transform(bindingOf(t, i))
			if err != nil {
				t.Fatal(err)
			}
			all[i] = object
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		runtime.KeepAlive(all)
		return int(after.HeapAlloc-before.HeapAlloc) / bindings
	}
	whole, kept := take(func(obj any) (any, error) { return obj, nil }), take(NewSharedValues().SlimBinding)
	t.Logf("%d bytes, and %d as it is kept", whole, kept)
	if kept*3 > whole {
		t.Errorf("%d bytes are kept of %d, want a third at most", kept, whole)
	}
}
