// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package announce

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/kube/events"
)

// told returns kind, type, reason and note of events, in one line each.
func told(all []Event) []string {
	var lines []string
	for _, e := range all {
		lines = append(lines, strings.Join([]string{e.About.Kind, e.About.Namespace + "/" + e.About.Name, e.Type, e.Reason, e.Note}, " | "))
	}
	return lines
}

func TestWhatHappensToABinding(t *testing.T) {
	binding := func(change ...func(*workv1alpha2.ResourceBinding)) *workv1alpha2.ResourceBinding {
		b := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-deployment"}}
		b.Spec.Resource = workv1alpha2.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "shop", Name: "web"}
		b.Spec.Clusters = []workv1alpha2.TargetCluster{{Name: "a", Replicas: 2}, {Name: "b"}}
		for _, f := range change {
			f(b)
		}
		return b
	}
	scheduled := func(status metav1.ConditionStatus, message string, at int64) func(*workv1alpha2.ResourceBinding) {
		return func(b *workv1alpha2.ResourceBinding) {
			since := metav1.Unix(at, 0)
			b.Status.LastScheduledTime = &since
			b.Status.Conditions = []metav1.Condition{{Type: workv1alpha2.BindingConditionScheduled, Status: status, Reason: "R", Message: message}}
		}
	}
	summed := func(b *workv1alpha2.ResourceBinding) {
		b.Status.AggregatedStatus = []workv1alpha2.AggregatedStatusItem{{ClusterName: "a"}}
	}
	cases := map[string]struct {
		reason        string
		before, after *workv1alpha2.ResourceBinding
		want          []string
	}{
		"new": {"no decision was made yet", binding(), binding(), nil},
		"chosen": {"both the binding and its object tell", binding(), binding(scheduled("True", "ok", 1)), []string{
			"ResourceBinding | shop/web-deployment | Normal | ScheduleBindingSucceed | The object goes to: a (2), b.",
			"Deployment | shop/web | Normal | ScheduleBindingSucceed | The object goes to: a (2), b.",
		}},
		"confirmed": {"nothing has happened", binding(scheduled("True", "ok", 1)), binding(scheduled("True", "ok", 1), func(b *workv1alpha2.ResourceBinding) { b.Generation = 2 }), nil},
		"refused": {"the note is that of the condition", binding(scheduled("True", "ok", 1)), binding(scheduled("False", "no cluster fits", 1)), []string{
			"ResourceBinding | shop/web-deployment | Warning | ScheduleBindingFailed | no cluster fits",
			"Deployment | shop/web | Warning | ScheduleBindingFailed | no cluster fits",
		}},
		"summed up": {"the status of the object is known", binding(), binding(summed), []string{
			"ResourceBinding | shop/web-deployment | Normal | AggregateStatusSucceed | The status that clusters report was aggregated.",
			"Deployment | shop/web | Normal | AggregateStatusSucceed | The status that clusters report was aggregated.",
		}},
		"replicas": {"they are known", binding(), binding(func(b *workv1alpha2.ResourceBinding) {
			b.Spec.Replicas, b.Spec.ReplicaRequirements = 3, &workv1alpha2.ReplicaRequirements{}
		}), []string{"Deployment | shop/web | Normal | GetReplicasSucceed | The object asks for 3 replicas."}},
		"the same replicas": {"nothing has happened", binding(func(b *workv1alpha2.ResourceBinding) {
			b.Spec.Replicas, b.Spec.ReplicaRequirements = 3, &workv1alpha2.ReplicaRequirements{}
		}), binding(func(b *workv1alpha2.ResourceBinding) {
			b.Spec.Replicas, b.Spec.ReplicaRequirements = 3, &workv1alpha2.ReplicaRequirements{}
		}), nil},
		"parts": {"they are known", binding(), binding(func(b *workv1alpha2.ResourceBinding) {
			b.Spec.Components = []workv1alpha2.Component{{Name: "head"}, {Name: "worker"}}
		}), []string{"Deployment | shop/web | Normal | GetComponentsSucceed | The object has 2 parts."}},
		"needs others": {"they are named", binding(), binding(func(b *workv1alpha2.ResourceBinding) {
			b.Annotations = map[string]string{workv1alpha2.AnnotationDependencies: "[]"}
		}), []string{
			"ResourceBinding | shop/web-deployment | Normal | GetDependenciesSucceed | The object needs: []",
			"Deployment | shop/web | Normal | GetDependenciesSucceed | The object needs: []",
		}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := told(bindingChangeEvents(c.before, c.after)); !slices.Equal(got, c.want) {
				t.Errorf("%s: got\n%s\nwant\n%s", c.reason, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

func TestWhatHappensToAWork(t *testing.T) {
	work := func(change ...func(*workv1.ManifestWork)) *workv1.ManifestWork {
		w := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "web-1", Generation: 2}}
		for _, f := range change {
			f(w)
		}
		return w
	}
	says := func(condition string, status metav1.ConditionStatus, generation int64, message string) func(*workv1.ManifestWork) {
		return func(w *workv1.ManifestWork) {
			w.Status.Conditions = append(w.Status.Conditions, metav1.Condition{Type: condition, Status: status, ObservedGeneration: generation, Message: message})
		}
	}
	reports := func(name, value string) func(*workv1.ManifestWork) {
		return func(w *workv1.ManifestWork) {
			w.Status.ResourceStatus.Manifests = []workv1.ManifestCondition{{StatusFeedback: workv1.StatusFeedbackResult{
				Values: []workv1.FeedbackValue{{Name: name, FieldValue: workv1.FieldValue{String: &value, JSONRaw: &value}}},
			}}}
		}
	}
	misread := func(w *workv1.ManifestWork) {
		w.Status.ResourceStatus.Manifests[0].Conditions = []metav1.Condition{{
			Type: workv1.ManifestConditionStatusFeedbackSynced, Status: metav1.ConditionFalse, Reason: workv1.ManifestReasonInterpretationFailed, Message: "it fails",
		}}
	}
	const on = "Work | karmada-es-a/web-1 | "
	cases := map[string]struct {
		reason        string
		before, after *workv1.ManifestWork
		want          []string
	}{
		"new": {"the cluster has not said anything yet", work(), work(), nil},
		"applied": {"both are told", work(), work(says("Applied", "True", 2, "")), []string{
			on + "Normal | WorkDispatching | Work is being dispatched to member clusters.",
			on + "Normal | SyncSucceed | Cluster a has the object as desired.",
		}},
		"suspended": {"programs compare the words", work(says("Applied", "True", 2, "")), work(says("Applied", "True", 2, ""), says("Dispatching", "False", 2, "")), []string{
			on + "Normal | WorkDispatching | Work dispatching is in a suspended state.",
		}},
		"an older generation": {"the latest change is still on its way", work(says("Dispatching", "True", 2, "")), work(says("Dispatching", "True", 2, ""), says("Applied", "True", 1, "")), nil},
		"refused": {"the message says why", work(says("Applied", "True", 2, "")), work(says("Applied", "False", 2, "quota exceeded")), []string{
			on + "Warning | SyncFailed | Cluster a does not have the object as desired: quota exceeded",
		}},
		"status": {"it is there", work(), work(reports("status", "{}")), []string{on + "Normal | ReflectStatusSucceed | Cluster a reports the status of the object."}},
		"health": {"it has changed", work(reports("health", "Unknown")), work(reports("health", "Healthy")), []string{on + "Normal | InterpretHealthSucceed | The object is Healthy in cluster a."}},
		"no health": {"the script has failed", work(reports("health", "Healthy")), work(reports("health", "Unknown"), misread), []string{
			on + "Warning | ReflectStatusFailed | it fails", on + "Warning | InterpretHealthFailed | it fails",
		}},
		"no health, still": {"it was told", work(reports("health", "Unknown"), misread), work(reports("health", "Unknown"), misread), nil},
		"no status":        {"the health is known", work(reports("health", "Healthy")), work(reports("health", "Healthy"), misread), []string{on + "Warning | ReflectStatusFailed | it fails"}},
		"nothing":          {"nothing has changed", work(reports("health", "Healthy")), work(reports("health", "Healthy")), nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := told(workChangeEvents(c.before, c.after)); !slices.Equal(got, c.want) {
				t.Errorf("%s: got\n%s\nwant\n%s", c.reason, strings.Join(got, "\n"), strings.Join(c.want, "\n"))
			}
		})
	}
}

func TestWhatCameOfSending(t *testing.T) {
	b := &workv1alpha2.ResourceBinding{}
	reasons := func(s SendResult) string {
		var all []string
		for _, e := range s.Events(b) {
			all = append(all, e.Reason)
		}
		return strings.Join(all, ",")
	}
	for want, s := range map[string]SendResult{
		"":                                {},
		"SyncWorkSucceed,SyncWorkSucceed": {Wrote: true},
		"SyncWorkSucceed,SyncWorkSucceed,ApplyOverridePolicySucceed": {Wrote: true, Overridden: true},
		"SyncWorkFailed,SyncWorkFailed":                              {Wrote: true, Failed: errors.New("no")},
		"ApplyOverridePolicyFailed":                                  {Mistakes: errors.New("no")},
	} {
		if got := reasons(s); got != want {
			t.Errorf("%+v: got %q, want %q", s, got, want)
		}
	}
}

func TestWhatWasSaidIsNotSaidAgain(t *testing.T) {
	clk := clocktesting.NewFakePassiveClock(time.Unix(0, 0))
	m := newMemory(clk)
	event := func(reason, note, part string) Event {
		return Event{About: corev1.ObjectReference{Kind: "Work", Name: "web"}, Reason: reason, Note: note, Part: part}
	}
	for i, step := range []struct {
		event Event
		want  bool
	}{
		{event("SyncSucceed", "well", ""), true},
		{event("SyncSucceed", "well", ""), false},
		{event("SyncSucceed", "well", "a"), true}, // another part
		{event("SyncFailed", "why", ""), true},
		{event("SyncFailed", "another reason", ""), true},
		{event("SyncSucceed", "well", ""), true}, // it was not in between
		{event("WorkDispatching", "well", ""), true},
	} {
		if got := m.recordIfNew(step.event); got != step.want {
			t.Errorf("step %d, %+v: news is %t, want %t", i, step.event, got, step.want)
		}
	}
	clk.SetTime(clk.Now().Add(rememberMin))
	if m.recordIfNew(event("SyncSucceed", "well", "")) {
		t.Error("what was said a generation ago is said again")
	}
	clk.SetTime(clk.Now().Add(rememberMin))
	m.recordIfNew(event("Another", "", ""))
	clk.SetTime(clk.Now().Add(rememberMin))
	if !m.recordIfNew(event("SyncSucceed", "well", "")) {
		t.Error("what was not spoken of for two generations is remembered")
	}
}

// TestNobodyWaitsForEvents tells of more than can wait.
func TestNobodyWaitsForEvents(t *testing.T) {
	a := NewAnnouncer(AnnouncerOptions{Clock: clocktesting.NewFakePassiveClock(time.Unix(0, 0))})
	for i := range pendingMax + 5 {
		of := "shop-" + strconv.Itoa(i%3) // one alone has less
		a.RecordEvents(Event{About: corev1.ObjectReference{Namespace: of, Name: strconv.Itoa(i)}, Type: corev1.EventTypeNormal, Reason: "SyncSucceed"})
	}
	a.RecordEvents(Event{Type: corev1.EventTypeWarning, Reason: "SyncFailed"})
	if len(a.normal.waiting) != pendingMax || len(a.warnings.waiting) != 1 {
		t.Errorf("%d events and %d warnings wait", len(a.normal.waiting), len(a.warnings.waiting))
	}
	var none *Announcer
	none.RecordEvents(Event{}) // the gate is off
}

// TestManyEventsOfANamespaceLeaveRoomForOthers has one namespace tell of more than can wait, in notes that are longer than
// they may be: what a binding says that its object needs is up to who writes it.
func TestManyEventsOfANamespaceLeaveRoomForOthers(t *testing.T) {
	const long = 1 << 20
	a := NewAnnouncer(AnnouncerOptions{Clock: clocktesting.NewFakePassiveClock(time.Unix(0, 0))})
	note := strings.Repeat("x", long)
	for i := range 2 * pendingMax {
		a.RecordEvents(Event{About: corev1.ObjectReference{Namespace: "tenant", Name: strconv.Itoa(i)}, Type: corev1.EventTypeNormal, Reason: ReasonGetDependenciesSucceed, Note: note})
	}
	waiting := len(a.normal.waiting)
	a.RecordEvents(Event{About: corev1.ObjectReference{Namespace: "other", Name: note}, Type: corev1.EventTypeNormal, Reason: ReasonGetDependenciesSucceed})
	if len(a.normal.waiting) != waiting+1 {
		t.Errorf("%d events of one namespace wait, and that of another one is lost", waiting)
	}
	for range waiting + 1 {
		if event := <-a.normal.waiting; len(event.Note) > events.NoteBytesMax || len(event.About.Name) > events.NoteBytesMax {
			t.Fatalf("a note of %d bytes about a name of %d waits", len(event.Note), len(event.About.Name))
		}
	}
}

// TestEventsStayInTheNamespaceOfABinding has a binding name an object, and bindings that
// need its object, in another namespace or in none.
func TestEventsStayInTheNamespaceOfABinding(t *testing.T) {
	for _, elsewhere := range []string{"victim", ""} {
		b := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "web-deployment"}}
		b.Spec.Resource = workv1alpha2.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: elsewhere, Name: "web"}
		b.Spec.RequiredBy = []workv1alpha2.BindingSnapshot{{Namespace: elsewhere, Name: "web-deployment"}, {Namespace: "tenant", Name: "own-deployment"}}
		b.Annotations = map[string]string{workv1alpha2.AnnotationDependencies: "[]"}
		b.Status.AggregatedStatus = []workv1alpha2.AggregatedStatusItem{{ClusterName: "a"}}
		all := slices.Concat(
			bindingChangeEvents(&workv1alpha2.ResourceBinding{}, b), FailureEvents(b, ReasonGetDependenciesFailed, "no"),
			SendResult{Wrote: true, Overridden: true}.Events(b), SendResult{Mistakes: errors.New("no"), Failed: errors.New("no")}.Events(b),
		)
		for _, event := range all {
			if event.About.Namespace != "tenant" {
				t.Errorf("event %s is about %s %s/%s", event.Reason, event.About.Kind, event.About.Namespace, event.About.Name)
			}
		}
		if len(all) != 5 {
			t.Errorf("%d events are about the binding itself, want 5", len(all))
		}
		if of := newlyRequired(&workv1alpha2.ResourceBinding{}, b); len(of) != 1 || of[0].Namespace != "tenant" {
			t.Errorf("that clusters were handed on is told of %v", of)
		}
	}
	wide := &workv1alpha2.ClusterResourceBinding{ObjectMeta: metav1.ObjectMeta{Name: "web-deployment"}}
	wide.Spec.Resource = workv1alpha2.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Namespace: "victim", Name: "web"}
	if all := FailureEvents(wide, ReasonScheduleBindingFailed, "no"); len(all) != 1 {
		t.Errorf("of a binding without a namespace it is told %v", told(all))
	}
}
