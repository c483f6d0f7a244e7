// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package policies

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientevents "k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/hub/propagation/templates"
	"github.com/capstan-io/capstan/internal/kube/events"
	"github.com/capstan-io/capstan/internal/propagation/selector"
	"github.com/capstan-io/capstan/internal/untrusted/labelselector"
)

// objects are Deployments that there are, or none and not listed yet.
type objects struct {
	names  []string
	listed bool
}

// Find implements finder.
func (o *objects) Find(scopes []selector.SearchScope, selects func(*metav1.PartialObjectMetadata) bool) (keys []templates.Key, unknown []selector.SearchScope) {
	if !o.listed {
		return nil, scopes
	}
	for _, name := range o.names {
		object := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
		object.SetGroupVersionKind(scopes[0].Kind)
		if selects(object) {
			keys = append(keys, templates.Key{Kind: scopes[0].Kind, Name: types.NamespacedName{Namespace: "shop", Name: name}})
		}
	}
	return keys, nil
}

// many are objects that take long to be looked for.
type many struct{ looking, done chan struct{} }

// Find implements finder.
func (m *many) Find([]selector.SearchScope, func(*metav1.PartialObjectMetadata) bool) (keys []templates.Key, unknown []selector.SearchScope) {
	m.looking <- struct{}{}
	<-m.done
	return nil, nil
}

// TestNobodyWaitsWhileAPolicyIsLookedAt looks at what the policy of one tenant selects, and
// meanwhile at the policy of another.
func TestNobodyWaitsWhileAPolicyIsLookedAt(t *testing.T) {
	clk, found := clocktesting.NewFakeClock(time.Now()), &many{make(chan struct{}), make(chan struct{})}
	s := &selectionReporter{
		templates: found, clusters: noClusters, events: events.NewRecorder(clientevents.NewFakeRecorder(10)), clock: clk, seen: map[types.NamespacedName]sight{},
	}
	policy := func(namespace string) *policyv1alpha1.PropagationPolicy {
		return &policyv1alpha1.PropagationPolicy{ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: "web", UID: types.UID(namespace), Generation: 1, CreationTimestamp: metav1.NewTime(clk.Now()),
		}}
	}
	clk.Step(s.reportSelection(policy("shop")))
	long, soon := make(chan struct{}), make(chan struct{})
	go func() { s.reportSelection(policy("shop")); close(long) }()
	<-found.looking
	go func() { s.reportSelection(policy("bank")); close(soon) }()
	select {
	case <-soon:
	case <-time.After(time.Minute):
		t.Error("the policy of one tenant waits while that of another is looked at")
	}
	close(found.done)
	<-long
}

func TestAPolicyThatSelectsNothing(t *testing.T) {
	for name, test := range map[string]struct {
		objects objects
		age     time.Duration
		want    int
	}{
		"nothing":                        {objects: objects{names: []string{"api"}, listed: true}, want: 1},
		"something":                      {objects: objects{names: []string{"api", "web"}, listed: true}},
		"of a kind that is not listed":   {},
		"nothing, as it has for long":    {objects: objects{listed: true}, age: time.Hour},
		"nothing, and it is a bit older": {objects: objects{listed: true}, age: time.Minute, want: 1},
	} {
		t.Run(name, func(t *testing.T) {
			clk, recorder := clocktesting.NewFakeClock(time.Now()), clientevents.NewFakeRecorder(10)
			s := &selectionReporter{templates: &test.objects, clusters: noClusters, events: events.NewRecorder(recorder), clock: clk, seen: map[types.NamespacedName]sight{}}
			p := &policyv1alpha1.PropagationPolicy{ObjectMeta: metav1.ObjectMeta{
				Namespace: "shop", Name: "web", UID: "1", Generation: 1, CreationTimestamp: metav1.NewTime(clk.Now().Add(-test.age)),
			}}
			p.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{{APIVersion: "apps/v1", Kind: "Deployment", Name: "web"}}
			told := func(want int, when string) {
				t.Helper()
				if got := len(recorder.Events); got != want {
					t.Fatalf("%s: there are %d events, want %d", when, got, want)
				}
				for range want {
					if event := <-recorder.Events; !strings.HasPrefix(event, "Warning NothingSelected no object of the hub matches spec.resourceSelectors") {
						t.Errorf("%s: the event is %q", when, event)
					}
				}
			}

			wait := s.reportSelection(p)
			told(0, "its objects may come")
			clk.Step(wait)
			s.reportSelection(p)
			told(test.want, "they would have come")
			s.reportSelection(p)
			told(0, "it was told")

			p.Generation = 2
			clk.Step(s.reportSelection(p))
			s.reportSelection(p)
			if test.objects.listed && len(test.objects.names) < 2 {
				told(1, "it was changed")
			} else {
				told(0, "it was changed")
			}
			if s.forgetPolicy(types.NamespacedName{Namespace: "shop", Name: "web"}); len(s.seen) > 0 {
				t.Errorf("of a policy that is gone, %v is remembered", s.seen)
			}
		})
	}
}

// TestAPolicyThatSelectsWhatIsNeverSent is about one that selects all roles, among
// which are those of Kubernetes.
func TestAPolicyThatSelectsWhatIsNeverSent(t *testing.T) {
	clk, recorder := clocktesting.NewFakeClock(time.Now()), clientevents.NewFakeRecorder(10)
	s := &selectionReporter{
		templates: &objects{names: []string{"web", "system:node", "system:discovery"}, listed: true}, clusters: noClusters,
		events: events.NewRecorder(recorder), clock: clk, seen: map[types.NamespacedName]sight{},
	}
	p := &policyv1alpha1.ClusterPropagationPolicy{ObjectMeta: metav1.ObjectMeta{Name: "roles", UID: "1", Generation: 1, CreationTimestamp: metav1.NewTime(clk.Now())}}
	all := policyv1alpha1.ResourceSelector{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole"}
	p.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{all, all}
	clk.Step(s.reportSelection(p))
	s.reportSelection(p)
	want := "Warning ObjectsReserved spec.resourceSelectors match 2 objects that are not sent: ClusterRole system:discovery is never sent to clusters: names that begin with system: are for those of Kubernetes; " +
		"what a cluster needs of this, such as the webhooks of an operator, an administrator can bring there with a ManifestWork"
	select {
	case event := <-recorder.Events:
		if event != want {
			t.Errorf("the event is %q, want %q", event, want)
		}
	default:
		t.Error("there is no event")
	}
	s.reportSelection(p)
	if len(recorder.Events) > 0 {
		t.Errorf("it is told again: %q", <-recorder.Events)
	}
}

// TestAPolicyWithTooManyTermsIsTold is about one that admission has let through.
func TestAPolicyWithTooManyTermsIsTold(t *testing.T) {
	clk, recorder := clocktesting.NewFakeClock(time.Now()), clientevents.NewFakeRecorder(10)
	s := &selectionReporter{
		templates: &objects{names: []string{"web"}, listed: true}, clusters: noClusters,
		events: events.NewRecorder(recorder), clock: clk, seen: map[types.NamespacedName]sight{},
	}
	p := &policyv1alpha1.PropagationPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: "1", Generation: 1, CreationTimestamp: metav1.NewTime(clk.Now())}}
	p.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{{APIVersion: "apps/v1", Kind: "Deployment", LabelSelector: &metav1.LabelSelector{
		MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: metav1.LabelSelectorOpIn, Values: make([]string, labelselector.TermsMax+1)}},
	}}}
	clk.Step(s.reportSelection(p))
	s.reportSelection(p)
	want := "Warning SelectorsInvalid these selectors select nothing until they are fixed: spec.resourceSelectors: Too many: 1001"
	select {
	case event := <-recorder.Events:
		if !strings.HasPrefix(event, want) {
			t.Errorf("the event is %q, want %q", event, want)
		}
	default:
		t.Error("there is no event")
	}
}

func noClusters() view.Fleet { return view.Fleet{} }
