// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"encoding/json"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/cli/interpreters"
	"github.com/capstan-io/capstan/internal/propagation/decision"
)

// Trace is the way of an object to the clusters, in the form that scripts read.
type Trace struct {
	AsOf metav1.Time `json:"asOf"`
	// Summary is the sum of it all.
	Summary string `json:"summary"`
	Object  Object `json:"object"`
	// ClaimedBy is the policy that sends the object to clusters.
	ClaimedBy *Policy `json:"claimedBy,omitempty"`
	// Candidates are the other policies that select the object, or come near.
	Candidates []Policy      `json:"candidates,omitempty"`
	Binding    *BindingTrace `json:"binding,omitempty"`
	// Interpreters are who say what objects of the kind mean.
	Interpreters []interpreters.Source `json:"interpreters,omitempty"`
	// Clusters are those that were chosen, and then those that were not.
	Clusters []ClusterTrace `json:"clusters"`
	Notes    []string       `json:"notes,omitempty"`
	// Unread says what the user may not read.
	Unread []string `json:"unread,omitempty"`

	decided *bindingDecision
}

// Object is an object of the hub.
type Object struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace,omitempty"`
	Name       string `json:"name"`
	Replicas   *int64 `json:"replicas,omitempty"`
	Deleting   bool   `json:"deleting,omitempty"`
}

// String returns the object as people call it, such as Deployment shop/web.
func (o Object) String() string { return qualifiedName(o.Kind, o.Namespace, o.Name) }

func qualifiedName(kind, namespace, name string) string {
	if namespace != "" {
		name = namespace + "/" + name
	}
	return kind + " " + name
}

// Policy is a PropagationPolicy or a ClusterPropagationPolicy.
type Policy struct {
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	Priority  int32  `json:"priority"`
	// SelectsBy is name, labels or kind; empty if it does not select the object.
	SelectsBy string `json:"selectsBy,omitempty"`
	// Reason says why it does not claim the object.
	Reason string `json:"reason,omitempty"`
}

// String returns the policy as people call it.
func (p Policy) String() string { return qualifiedName(p.Kind, p.Namespace, p.Name) }

// BindingTrace is which clusters were chosen, and what became of that.
type BindingTrace struct {
	Kind       string      `json:"kind"`
	Namespace  string      `json:"namespace,omitempty"`
	Name       string      `json:"name"`
	Conditions []Condition `json:"conditions"`
	// RequiredBy are the bindings that its object is sent along with.
	RequiredBy []string `json:"requiredBy,omitempty"`
	// Priority is that of the PriorityClass which the policy names.
	Priority *int32 `json:"priority,omitempty"`
}

// Condition is a condition of a binding.
type Condition struct {
	Type    string                 `json:"type"`
	Status  metav1.ConditionStatus `json:"status"`
	Reason  string                 `json:"reason"`
	Message string                 `json:"message,omitempty"`
}

// ClusterTrace is what became of the object in one cluster.
type ClusterTrace struct {
	Name   string `json:"name"`
	Chosen bool   `json:"chosen"`
	// Reason says why it was not chosen, or why the object is not there as it is
	// wanted.
	Reason   string `json:"reason,omitempty"`
	Replicas int32  `json:"replicas,omitempty"`
	// Components are how many replicas of each part it gets of an object with several
	// pod templates.
	Components []workv1alpha2.TargetComponent `json:"components,omitempty"`
	// Work is the ManifestWork that brings the object there.
	Work      string `json:"work,omitempty"`
	Suspended bool   `json:"suspended,omitempty"`
	// Applied is yes, no, unknown, suspended or deleting, or waits if a rollout keeps the
	// latest change from the cluster; else it is empty if there is no work.
	Applied string `json:"applied,omitempty"`
	// Overrides are the policies that changed the object for this cluster.
	Overrides []string        `json:"overrides,omitempty"`
	Health    string          `json:"health,omitempty"`
	Status    json.RawMessage `json:"status,omitempty"`
	// SilentSince is since when the cluster has not been heard of: health and status
	// are as they were then.
	SilentSince *metav1.Time `json:"silentSince,omitempty"`
}

// BuildTrace returns what there is to say.
func BuildTrace(f *ObjectFacts, now time.Time) *Trace {
	t := &Trace{AsOf: metav1.NewTime(now), Object: f.tracedObject(), Interpreters: f.interpreterSources(), Clusters: []ClusterTrace{}, Unread: f.Unread}
	if f.Template != nil {
		t.ClaimedBy, t.Candidates = f.rankPolicies()
	}
	if f.Binding != nil {
		t.decided = f.decideBinding(now)
		t.Binding = f.Binding.traceBinding()
		t.Clusters = f.traceClusters(t.decided)
	}
	t.Summary, t.Notes = t.summarizeTrace(f), append(f.failedOperations(), t.traceNotes(f)...)
	return t
}

func (f *ObjectFacts) tracedObject() Object {
	o := Object{APIVersion: f.Ref.APIVersion, Kind: f.Ref.Kind, Namespace: f.Ref.Namespace, Name: f.Ref.Name}
	if f.Template != nil {
		o.Deleting = f.Template.GetDeletionTimestamp() != nil
		if replicas, found, err := unstructured.NestedInt64(f.Template.Object, "spec", "replicas"); found && err == nil {
			o.Replicas = &replicas
		}
	}
	return o
}

func (b *BindingObject) traceBinding() *BindingTrace {
	told := &BindingTrace{Kind: b.Kind, Namespace: b.Namespace, Name: b.Name, Conditions: []Condition{}}
	for _, kind := range []string{workv1alpha2.BindingConditionScheduled, workv1alpha2.BindingConditionFullyApplied} {
		if c := meta.FindStatusCondition(b.Status.Conditions, kind); c != nil {
			told.Conditions = append(told.Conditions, Condition{Type: c.Type, Status: c.Status, Reason: c.Reason, Message: c.Message})
		}
	}
	if p := b.Spec.SchedulePriority; p != nil {
		told.Priority = &p.Priority
	}
	for _, by := range b.Spec.RequiredBy {
		told.RequiredBy = append(told.RequiredBy, qualifiedName(kindBinding, by.Namespace, by.Name))
	}
	return told
}

// summarizeTrace is what to know first: the earliest step that is not as it should be.
func (t *Trace) summarizeTrace(f *ObjectFacts) string {
	chosen := 0
	right := 0
	for _, c := range t.Clusters {
		if c.Chosen {
			chosen++
			if c.Applied == appliedYes {
				right++
			}
		}
	}
	switch {
	case f.Template == nil && !f.hidden:
		return "it is no longer on the hub"
	case t.Binding == nil && t.ClaimedBy == nil:
		return "no policy sends it to clusters"
	case t.Binding == nil:
		return "it has no binding yet"
	case chosen == 0:
		return "no cluster is chosen"
	default:
		return fmt.Sprintf("%d of %d chosen clusters have it as desired", right, chosen)
	}
}

// traceNotes say what else matters, and what to do next.
func (t *Trace) traceNotes(f *ObjectFacts) []string {
	var notes []string
	if t.Object.Deleting {
		notes = append(notes, "It is being deleted; what is in the clusters goes first.")
	}
	waits := f.waitNotes()
	if text := t.refusalNote(f); text != "" {
		waits = append(waits, text)
	}
	if reason, is := f.isReserved(); is {
		return append(notes, reason.ToSentence())
	}
	switch {
	case f.Binding == nil && len(waits) > 0:
		return append(notes, waits...)
	case f.Binding != nil:
		notes = append(notes, waits...)
		if text := t.decided.decisionDifference(f.Binding.Spec.Clusters); text != "" {
			notes = append(notes, text)
		}
		return append(append(notes, f.Binding.bindingNotes()...), f.replicaMoveNotes(t.AsOf.Time)...)
	case t.ClaimedBy != nil:
		return append(notes, "The hub's propagation controller creates the binding in a moment: if nothing changes, see \"kubectl describe\" of the object for events, and \"capstan doctor\".")
	case f.Template != nil:
		return append(notes, t.unclaimedNote())
	default:
		return notes
	}
}

// bindingNotes say what keeps the clusters as they are.
func (b *BindingObject) bindingNotes() []string {
	var notes []string
	add := func(format string, args ...any) { notes = append(notes, fmt.Sprintf(format, args...)) }
	if len(b.Status.Conditions) == 0 {
		add("The binding has no status yet: if this persists, \"capstan doctor\" shows whether the hub's propagation controller is running.")
	}
	schedule := decision.DecideSchedule(decision.ScheduleFacts{Binding: b.asBinding()})
	if schedule.Code == decision.ScheduleSuspended || schedule.Code == decision.OtherScheduler {
		add("%s", schedule.ToSentence())
	}
	if dispatch := decision.DecideDispatch(&b.Spec); dispatch.Code != decision.Dispatched {
		add("%s", dispatch.ToSentence())
	}
	if text := b.shortageNote(); text != "" {
		add("%s", text)
	}
	if b.divides() && len(b.Spec.Components) > 0 {
		add("All its parts are placed together, in one cluster: they stay there until the object or its policy changes.")
	}
	return notes
}

// shortageNote says what becomes of replicas that have no place.
func (b *BindingObject) shortageNote() string {
	scheduled := meta.FindStatusCondition(b.Status.Conditions, workv1alpha2.BindingConditionScheduled)
	if !b.divides() || scheduled == nil || scheduled.Reason != workv1alpha2.BindingReasonUnschedulable || len(b.Spec.Components) > 0 {
		return ""
	}
	if b.Annotations[fleetv1alpha1.AnnotationPartialPlacement] == "true" {
		return "As many of its replicas are placed as there is room for; the rest are placed when clusters have more room."
	}
	return fmt.Sprintf("Its unplaced replicas are placed all at once or not at all: with annotation %s=true of the policy, as many are placed as there is room for.", fleetv1alpha1.AnnotationPartialPlacement)
}

// divides reports whether each cluster gets a share of the replicas.
func (b *BindingObject) divides() bool {
	p := b.Spec.Placement
	return p != nil && p.ReplicaScheduling != nil && p.ReplicaScheduling.ReplicaSchedulingType != policyv1alpha1.ReplicaSchedulingTypeDuplicated
}

// unclaimedNote says what keeps policies from the object.
func (t *Trace) unclaimedNote() string {
	for _, p := range t.Candidates {
		if p.SelectsBy != "" {
			return fmt.Sprintf("%s selects it: the hub's propagation controller lets it claim the object in a moment. If nothing changes, see \"kubectl describe\" of the object for events, and \"capstan doctor\".", p)
		}
	}
	return fmt.Sprintf("A PropagationPolicy%s or a ClusterPropagationPolicy that selects it (apiVersion %s, kind %s) sends it to clusters.", inNamespace(t.Object.Namespace), t.Object.APIVersion, t.Object.Kind)
}

func inNamespace(namespace string) string {
	if namespace == "" {
		return ""
	}
	return " in namespace " + namespace
}
