// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package sum

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	karmadaworkv1alpha1 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/interpret"
)

// work returns the work of a cluster in generation 2, applied in the observed
// generation.
func work(cluster string, applied metav1.ConditionStatus, observed int64, status string) workv1.ManifestWork {
	w := workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: "web", Generation: 2}}
	if applied != "" {
		w.Status.Conditions = []metav1.Condition{{
			Type: workv1.ManifestWorkConditionApplied, Status: applied, ObservedGeneration: observed, Message: "of the work",
		}}
	}
	manifest := workv1.ManifestCondition{Conditions: []metav1.Condition{{
		Type: workv1.ManifestConditionApplied, Status: applied, Message: "of the object",
	}}}
	if status != "" {
		manifest.StatusFeedback.Values = []workv1.FeedbackValue{
			{Name: karmadaworkv1alpha1.FeedbackStatus, FieldValue: workv1.FieldValue{Type: workv1.ValueTypeJSONRaw, JSONRaw: &status}},
			{Name: karmadaworkv1alpha1.FeedbackHealth, FieldValue: workv1.FieldValue{Type: workv1.ValueTypeString, String: new("Healthy")}},
		}
	}
	w.Status.ResourceStatus.Manifests = []workv1.ManifestCondition{manifest}
	return w
}

// unsaid is a work of whose object a customization does not say what it says.
func unsaid(w workv1.ManifestWork) workv1.ManifestWork {
	manifest := &w.Status.ResourceStatus.Manifests[0]
	manifest.Conditions = append(manifest.Conditions, metav1.Condition{
		Type: workv1.ManifestConditionStatusFeedbackSynced, Status: metav1.ConditionFalse, Reason: workv1.ManifestReasonInterpretationFailed, Message: "it is wrong",
	})
	return w
}

// remarkedWork is a work of whose object the agent says more than that it is applied.
func remarkedWork(w workv1.ManifestWork, message string) workv1.ManifestWork {
	w.Status.ResourceStatus.Manifests[0].Conditions[0].Message = message
	return w
}

func spec(clusters ...string) *workv1alpha2.ResourceBindingSpec {
	s := &workv1alpha2.ResourceBindingSpec{}
	for _, name := range clusters {
		s.Clusters = append(s.Clusters, workv1alpha2.TargetCluster{Name: name})
	}
	return s
}

func TestItems(t *testing.T) {
	status := func(text string) *runtime.RawExtension { return &runtime.RawExtension{Raw: []byte(text)} }
	for name, test := range map[string]struct {
		reason   string
		works    []workv1.ManifestWork
		problems map[string]error
		want     workv1alpha2.AggregatedStatusItem
		full     bool
	}{
		"Applied": {
			reason: "what the agent says is taken over", works: []workv1.ManifestWork{work("a", metav1.ConditionTrue, 2, `{"readyReplicas":1}`)},
			want: workv1alpha2.AggregatedStatusItem{ClusterName: "a", Applied: true, Health: workv1alpha2.ResourceHealthy, Status: status(`{"readyReplicas":1}`)}, full: true,
		},
		"Silent": {
			reason: "a cluster that is silent keeps its last status", works: []workv1.ManifestWork{work("a", metav1.ConditionTrue, 1, `{"readyReplicas":1}`)},
			want: workv1alpha2.AggregatedStatusItem{
				ClusterName: "a", AppliedMessage: "The cluster has not applied the latest change yet.", Health: workv1alpha2.ResourceHealthy, Status: status(`{"readyReplicas":1}`),
			},
		},
		"Null": {
			reason: "a status that is null is none", works: []workv1.ManifestWork{work("a", metav1.ConditionTrue, 2, "null")},
			want: workv1alpha2.AggregatedStatusItem{ClusterName: "a", Applied: true, Health: workv1alpha2.ResourceHealthy}, full: true,
		},
		"Oversized": {
			reason: "the cache has kept only the beginning of it", works: []workv1.ManifestWork{work("a", metav1.ConditionTrue, 2, `{"x":"`+strings.Repeat("x", workv1.StatusSizeMax))},
			want: workv1alpha2.AggregatedStatusItem{ClusterName: "a", Applied: true, AppliedMessage: oversized, Health: workv1alpha2.ResourceHealthy}, full: true,
		},
		"NullFields": {
			reason: "the hub drops fields that are null, so they would be written at every look",
			works:  []workv1.ManifestWork{work("a", metav1.ConditionTrue, 2, `{"conditions":[{"lastProbeTime":null,"type":"Ready"}],"message":"null","ports":[1,null],"nominated":null}`)},
			want: workv1alpha2.AggregatedStatusItem{
				ClusterName: "a", Applied: true, Health: workv1alpha2.ResourceHealthy, Status: status(`{"conditions":[{"type":"Ready"}],"message":"null","ports":[1,null]}`),
			}, full: true,
		},
		"Failed": {
			reason: "what is said of the object says most", works: []workv1.ManifestWork{work("a", metav1.ConditionFalse, 2, "")},
			want: workv1alpha2.AggregatedStatusItem{ClusterName: "a", AppliedMessage: "of the object", Health: workv1alpha2.ResourceUnknown},
		},
		"NoWord": {
			reason: "no condition is no word", works: []workv1.ManifestWork{work("a", "", 0, "")},
			want: workv1alpha2.AggregatedStatusItem{ClusterName: "a", AppliedMessage: "The cluster has not reported yet whether it has the object.", Health: workv1alpha2.ResourceUnknown},
		},
		"NoWork": {
			reason: "a cluster without a work has an item, too",
			want:   workv1alpha2.AggregatedStatusItem{ClusterName: "a", AppliedMessage: "The cluster has not reported yet whether it has the object.", Health: workv1alpha2.ResourceUnknown},
		},
		"Override": {
			reason:   "a problem on the hub counts more than what the cluster has of earlier",
			works:    []workv1.ManifestWork{work("a", metav1.ConditionTrue, 2, "")},
			problems: map[string]error{"a": errors.New("OverridePolicy default/x: no such path")},
			want:     workv1alpha2.AggregatedStatusItem{ClusterName: "a", AppliedMessage: "OverridePolicy default/x: no such path", Health: workv1alpha2.ResourceUnknown},
		},
		"NotSaid": {
			reason: "who customizes the kind fails to say what the object says, which is applied all the same",
			works:  []workv1.ManifestWork{unsaid(work("a", metav1.ConditionTrue, 2, ""))},
			want:   workv1alpha2.AggregatedStatusItem{ClusterName: "a", Applied: true, AppliedMessage: "it is wrong", Health: workv1alpha2.ResourceUnknown}, full: true,
		},
		"LeftOut": {
			reason: "who has written the template may not read works",
			works:  []workv1.ManifestWork{remarkedWork(work("a", metav1.ConditionTrue, 2, ""), "Warning: the cluster does not know .spec.color")},
			want:   workv1alpha2.AggregatedStatusItem{ClusterName: "a", Applied: true, AppliedMessage: "Warning: the cluster does not know .spec.color", Health: workv1alpha2.ResourceUnknown}, full: true,
		},
		"Adopted": {
			reason: "what somebody brought by hand is gone",
			works:  []workv1.ManifestWork{remarkedWork(work("a", metav1.ConditionTrue, 2, ""), "The object was there before. What went: .spec.x.")},
			want:   workv1alpha2.AggregatedStatusItem{ClusterName: "a", Applied: true, AppliedMessage: "The object was there before. What went: .spec.x.", Health: workv1alpha2.ResourceUnknown}, full: true,
		},
		"NoObject": {
			reason: "the hub would refuse a status that is no object, and those of all other clusters with it",
			works:  []workv1.ManifestWork{work("a", metav1.ConditionTrue, 2, `["x"]`)},
			want:   workv1alpha2.AggregatedStatusItem{ClusterName: "a", Applied: true, AppliedMessage: unstorable, Health: workv1alpha2.ResourceHealthy}, full: true,
		},
		"Deep": {
			reason: "so would it one that is nested deeper than JSON may be",
			works:  []workv1.ManifestWork{work("a", metav1.ConditionTrue, 2, `{"x":`+strings.Repeat("[", 9000)+strings.Repeat("]", 9000)+"}")},
			want:   workv1alpha2.AggregatedStatusItem{ClusterName: "a", Applied: true, AppliedMessage: unstorable, Health: workv1alpha2.ResourceHealthy}, full: true,
		},
		"Huge": {
			reason: "nor could it be read with a number beyond those of 64 bits",
			works:  []workv1.ManifestWork{work("a", metav1.ConditionTrue, 2, `{"x":1e400}`)},
			want:   workv1alpha2.AggregatedStatusItem{ClusterName: "a", Applied: true, AppliedMessage: unstorable, Health: workv1alpha2.ResourceHealthy}, full: true,
		},
		"Brackets": {
			reason: "what is quoted is not nested", works: []workv1.ManifestWork{work("a", metav1.ConditionTrue, 2, `{"x\"":"`+strings.Repeat("[", 2000)+`"}`)},
			want: workv1alpha2.AggregatedStatusItem{
				ClusterName: "a", Applied: true, Health: workv1alpha2.ResourceHealthy, Status: status(`{"x\"":"` + strings.Repeat("[", 2000) + `"}`),
			}, full: true,
		},
		"Values": {
			reason: "to sum up so many values is too much work", works: []workv1.ManifestWork{work("a", metav1.ConditionTrue, 2, `{"x":[0`+strings.Repeat(",0", 10_000)+`]}`)},
			want: workv1alpha2.AggregatedStatusItem{ClusterName: "a", Applied: true, AppliedMessage: excessive, Health: workv1alpha2.ResourceUnknown}, full: true,
		},
		"Conditions": {
			reason: "conditions are compared with those of all clusters",
			works:  []workv1.ManifestWork{work("a", metav1.ConditionTrue, 2, `{"conditions":[{"type":"A"}`+strings.Repeat(`,{"type":"A"}`, 64)+`]}`)},
			want:   workv1alpha2.AggregatedStatusItem{ClusterName: "a", Applied: true, AppliedMessage: excessive, Health: workv1alpha2.ResourceUnknown}, full: true,
		},
		"Addresses": {
			reason: "addresses are, too",
			works:  []workv1.ManifestWork{work("a", metav1.ConditionTrue, 2, `{"loadBalancer":{"ingress":[{}`+strings.Repeat(`,{}`, 256)+`]}}`)},
			want:   workv1alpha2.AggregatedStatusItem{ClusterName: "a", Applied: true, AppliedMessage: excessive, Health: workv1alpha2.ResourceUnknown}, full: true,
		},
		"Others": {
			reason: "another list is not", works: []workv1.ManifestWork{work("a", metav1.ConditionTrue, 2, `{"x":[0`+strings.Repeat(",0", 300)+`]}`)},
			want: workv1alpha2.AggregatedStatusItem{
				ClusterName: "a", Applied: true, Health: workv1alpha2.ResourceHealthy, Status: status(`{"x":[0` + strings.Repeat(",0", 300) + `]}`),
			}, full: true,
		},
		"OddHealth": {
			reason: "a verdict that the hub does not know is none", works: []workv1.ManifestWork{judged(work("a", metav1.ConditionTrue, 2, `{"x":1}`), "Splendid")},
			want: workv1alpha2.AggregatedStatusItem{ClusterName: "a", Applied: true, Health: workv1alpha2.ResourceUnknown, Status: status(`{"x":1}`)}, full: true,
		},
		"NotJSON": {
			reason: "a status that is not JSON would break the binding", works: []workv1.ManifestWork{work("a", metav1.ConditionTrue, 2, `{"x`)},
			want: workv1alpha2.AggregatedStatusItem{ClusterName: "a", Applied: true, Health: workv1alpha2.ResourceHealthy}, full: true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := AggregateItems(SummaryInput{Spec: spec("a"), Works: test.works, Problems: test.problems})
			if diff := cmp.Diff([]workv1alpha2.AggregatedStatusItem{test.want}, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", test.reason, diff)
			}
			if full := FullyAppliedCondition(spec("a"), got).Status == metav1.ConditionTrue; full != test.full {
				t.Errorf("%s: FullyApplied is %t", test.reason, full)
			}
		})
	}
}

func TestSilentClustersKeepTheirLastStatusWithItsAge(t *testing.T) {
	since := time.Date(2026, time.March, 4, 5, 6, 7, 0, time.UTC)
	for status, note := range map[metav1.ConditionStatus]string{
		metav1.ConditionUnknown: "The hub has not heard from the cluster since 2026-03-04T05:06:07Z; this is its last report.",
		metav1.ConditionFalse:   "The cluster has not been available since 2026-03-04T05:06:07Z; this is its last report.",
	} {
		fleet := view.NewFleet(view.Cluster{Name: "a", Available: status, AvailableSince: since})

		items := AggregateItems(SummaryInput{Spec: spec("a"), Works: []workv1.ManifestWork{work("a", metav1.ConditionTrue, 2, `{"readyReplicas":1}`)}, Fleet: fleet})

		want := workv1alpha2.AggregatedStatusItem{
			ClusterName: "a", Applied: true, Health: workv1alpha2.ResourceUnknown, Status: &runtime.RawExtension{Raw: []byte(`{"readyReplicas":1}`)},
			AppliedMessage: note,
		}
		if diff := cmp.Diff([]workv1alpha2.AggregatedStatusItem{want}, items); diff != "" {
			t.Errorf("%s: (-want +got):\n%s", status, diff)
		}
	}
}

// TestMessagesAreBounded lets clusters say more of their objects than the hub can store.
func TestMessagesAreBounded(t *testing.T) {
	var targets []string
	problems := map[string]error{}
	for i := range 4000 {
		name := fmt.Sprintf("c%04d", i)
		targets = append(targets, name)
		problems[name] = errors.New(strings.Repeat("é", 16<<10))
	}
	total := 0
	for _, item := range AggregateItems(SummaryInput{Spec: spec(targets...), Problems: problems}) {
		if total += len(item.AppliedMessage); !utf8.ValidString(item.AppliedMessage) || len(item.AppliedMessage) > messageMin+len("...") {
			t.Fatalf("cluster %s has a message of %d bytes", item.ClusterName, len(item.AppliedMessage))
		}
	}
	if total > 1<<20 {
		t.Errorf("the messages have %d bytes together", total)
	}
}

// judged is a work of whose object an agent thinks this.
func judged(w workv1.ManifestWork, health string) workv1.ManifestWork {
	values := w.Status.ResourceStatus.Manifests[0].StatusFeedback.Values
	for i := range values {
		if values[i].Name == karmadaworkv1alpha1.FeedbackHealth {
			values[i].FieldValue.String = &health
		}
	}
	return w
}

func TestItemsHaveTheObjectsThatOthersNeed(t *testing.T) {
	s := spec("b")
	s.RequiredBy = []workv1alpha2.BindingSnapshot{{Clusters: []workv1alpha2.TargetCluster{{Name: "a"}, {Name: "b"}}}}
	items := AggregateItems(SummaryInput{Spec: s})
	if len(items) != 2 || items[0].ClusterName != "a" || items[1].ClusterName != "b" {
		t.Errorf("got %v", items)
	}
}

func TestLargestStatusesAreLeftOut(t *testing.T) {
	text := func(n int) string { return `{"x":"` + strings.Repeat("x", n) + `"}` }
	clusters, works := []string{"a", "b", "c", "d", "e"}, []workv1.ManifestWork{}
	for i, cluster := range clusters { // b has the largest
		size := []int{100, workv1.StatusSizeMax - 20, workv1.StatusSizeMax - 1000, workv1.StatusSizeMax - 1000, workv1.StatusSizeMax - 1000}[i]
		works = append(works, work(cluster, metav1.ConditionTrue, 2, text(size)))
	}
	works = append(works, work("f", metav1.ConditionTrue, 2, text(10_000)))
	items := AggregateItems(SummaryInput{Spec: spec(append(clusters, "f")...), Works: works})
	if items[0].Status == nil || items[1].Status != nil || items[2].Status == nil {
		t.Error("not the largest status was left out")
	}
	if !items[1].Applied || !strings.Contains(items[1].AppliedMessage, "omitted") {
		t.Errorf("it does not say so: %+v", items[1])
	}
}

func TestFullyAppliedNamesClusters(t *testing.T) {
	clusters := []string{"a", "b", "c", "d", "e", "f", "g"}
	got := FullyAppliedCondition(spec(clusters...), AggregateItems(SummaryInput{Spec: spec(clusters...)}))
	if want := "7 of 7 clusters do not have the object as desired: a, b, c, d, e and 2 more. status.aggregatedStatus says why."; got.Message != want {
		t.Errorf("got %q, want %q", got.Message, want)
	}
	if none := FullyAppliedCondition(spec(), nil); none.Status != metav1.ConditionFalse || none.Message != "No cluster has been chosen." {
		t.Errorf("got %+v", none)
	}
}

func TestDifference(t *testing.T) {
	object := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{
		"same": int64(1), "old": "x", "gone": true, "loadBalancer": map[string]any{"ingress": []any{"a"}}, "capacity": map[string]any{"storage": "1Gi"}, "text": "x",
	}}}
	got := StatusDifference(object, map[string]any{
		"same": int64(1), "old": "y", "new": "z", "loadBalancer": map[string]any{}, "capacity": map[string]any{"storage": "1Gi"}, "text": map[string]any{"a": "b"},
	})
	want := map[string]any{"old": "y", "new": "z", "gone": nil, "loadBalancer": map[string]any{"ingress": nil}, "text": map[string]any{"a": "b"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestAnEmptyFieldIsNoDifference(t *testing.T) {
	type object = map[string]any
	for name, c := range map[string]struct{ present, wanted, want object }{
		"a list":                    {object{"a": "x"}, object{"a": "x", "conditions": []any{}}, nil},
		"an object":                 {object{"a": "x"}, object{"a": "x", "loadBalancer": object{}}, nil},
		"one in another":            {object{"in": object{"a": "x"}}, object{"in": object{"a": "x", "list": []any{}, "deep": object{"list": []any{}}}}, nil},
		"beside a change":           {object{"a": "x"}, object{"a": "y", "conditions": []any{}}, object{"a": "y", "conditions": []any{}}},
		"in the place of a list":    {object{"list": []any{"x"}}, object{"list": []any{}}, object{"list": []any{}}},
		"in the place of a text":    {object{"in": "x"}, object{"in": object{}}, object{"in": object{}}},
		"a list that goes":          {object{"list": []any{}}, object{}, object{"list": nil}},
		"an object that gets empty": {object{"in": object{"a": "x"}}, object{"in": object{}}, object{"in": object{"a": nil}}},
	} {
		t.Run(name, func(t *testing.T) {
			got := StatusDifference(&unstructured.Unstructured{Object: object{"status": c.present}}, c.wanted)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestInterpretersAreToldWhyAnObjectIsNotApplied(t *testing.T) {
	items := ForTemplate([]workv1alpha2.AggregatedStatusItem{{ClusterName: "a", AppliedMessage: "no room", Health: workv1alpha2.ResourceUnknown}})
	if want := (interpret.ClusterItem{Cluster: "a", Message: "no room", Health: interpret.Unknown}); len(items) != 1 || !cmp.Equal(want, items[0]) {
		t.Errorf("got %+v, want %+v", items, want)
	}
}

func TestNumbersOfAStatusStayWhole(t *testing.T) {
	items := ForTemplate([]workv1alpha2.AggregatedStatusItem{{ClusterName: "a", Status: &runtime.RawExtension{Raw: []byte(`{"port":9007199254740993}`)}}})
	if diff := cmp.Diff(map[string]any{"port": int64(9007199254740993)}, items[0].Status); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWhatGoesAlongWithAnObjectSaysNothingOfIt(t *testing.T) {
	one := work("a", metav1.ConditionTrue, 2, `{"acceptedNames":{}}`)
	other := one.Status.ResourceStatus.Manifests[0].DeepCopy()
	other.StatusFeedback.Values = []workv1.FeedbackValue{{Name: "health", FieldValue: workv1.FieldValue{Type: workv1.ValueTypeString, String: new("Unhealthy")}}}
	one.Status.ResourceStatus.Manifests = append(one.Status.ResourceStatus.Manifests, *other)
	if got := AggregateItems(SummaryInput{Spec: spec("a"), Works: []workv1.ManifestWork{one}})[0]; got.Health != workv1alpha2.ResourceHealthy || got.Status == nil {
		t.Errorf("it is %+v", got)
	}
}
