// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/hub/propagation/decide"
	"github.com/capstan-io/capstan/internal/hub/propagation/fleet"
)

// answer is what the hub says to a write of a binding; nil is that it stores it.
type answer func(*workv1alpha2.ResourceBinding) error

// scene is a hub with clusters a and b.
type scene struct {
	*testing.T
	BindingStore
	answer answer
	writes []string // that were tried, but for those of the status
}

func newScene(t *testing.T) *scene {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := workv1alpha2.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	s := &scene{T: t, answer: stores}
	write := func(verb string, object client.Object) error {
		b := object.(*workv1alpha2.ResourceBinding)
		s.writes = append(s.writes, strings.TrimSpace(verb+" "+clusters(b)))
		return s.answer(b)
	}
	hub := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&workv1alpha2.ResourceBinding{}).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			if !s.IsUnfinished(client.ObjectKeyFromObject(object)) {
				t.Error("a binding that is being created is not unfinished")
			}
			if err := write("create", object); err != nil {
				return err
			}
			return c.Create(ctx, object, options...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			if err := write("patch", object); err != nil {
				return err
			}
			return c.Patch(ctx, object, patch, options...)
		},
	}).Build()
	clk := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	known := fleet.NewFleet(clk)
	for _, name := range []string{"a", "b"} {
		known.SetCluster(name, &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: true}})
	}
	s.BindingStore = NewBindingStore(hub, decide.NewDecider(decide.DeciderOptions{Fleet: known, Clock: clk}), known, NewWriteMeter(clk))
	return s
}

func stores(*workv1alpha2.ResourceBinding) error { return nil }

// refuses is the answer of admission that refuses all.
func refuses(*workv1alpha2.ResourceBinding) error {
	return apierrors.NewForbidden(workv1alpha2.GroupVersion.WithResource("resourcebindings").GroupResource(), "web", errors.New("over quota"))
}

// refusesMore is the answer of admission that lets a binding have so many clusters.
func refusesMore(than int) answer {
	return func(b *workv1alpha2.ResourceBinding) error {
		if len(b.Spec.Clusters) > than {
			return refuses(b)
		}
		return nil
	}
}

func fails(with error) answer { return func(*workv1alpha2.ResourceBinding) error { return with } }

func clusters(b *workv1alpha2.ResourceBinding) string {
	var names []string
	for _, target := range b.Spec.Clusters {
		names = append(names, target.Name)
	}
	return strings.Join(names, " ")
}

// to makes a binding want its object on these clusters.
func to(b *workv1alpha2.ResourceBinding, names ...string) *workv1alpha2.ResourceBinding {
	b.Spec.Placement = &policyv1alpha1.Placement{ClusterAffinity: &policyv1alpha1.ClusterAffinity{ClusterNames: names}}
	return b
}

func web() *workv1alpha2.ResourceBinding {
	b := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-configmap"}}
	b.Spec.Resource = workv1alpha2.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: "shop", Name: "web", UID: "u", ResourceVersion: "7"}
	return b
}

// stored returns what the hub has of the binding: its clusters, those that have not
// answered, and what it says of its scheduling.
func (s *scene) stored() string {
	s.Helper()
	b := &workv1alpha2.ResourceBinding{}
	err := s.Client.Get(s.Context(), client.ObjectKeyFromObject(web()), b)
	if apierrors.IsNotFound(err) {
		return "nothing"
	}
	if err != nil {
		s.Fatal(err)
	}
	var items []string
	for _, item := range b.Status.AggregatedStatus {
		items = append(items, fmt.Sprintf("%s %t", item.ClusterName, item.Applied))
	}
	text := fmt.Sprintf("%s | %s |", clusters(b), strings.Join(items, ", "))
	if said := meta.FindStatusCondition(b.Status.Conditions, workv1alpha2.BindingConditionScheduled); said != nil {
		text += fmt.Sprintf(" %s %s", said.Status, said.Reason)
		if strings.Contains(said.Message, "over quota") {
			text += ": over quota"
		}
	}
	return text
}

const (
	scheduled = "True " + workv1alpha2.BindingReasonSuccess
	overQuota = "False " + workv1alpha2.BindingReasonQuotaExceeded + ": over quota"
)

func TestHowABindingIsCreated(t *testing.T) {
	mine := to(web(), "a", "b")
	mine.Spec.SchedulerName = "mine"
	cases := map[string]struct {
		b       *workv1alpha2.ResourceBinding
		answer  answer
		created bool
		creates []string
		stored  string
		wrong   func(error) bool // nil is that nothing is
	}{
		"the hub takes it": {
			to(web(), "a", "b"), stores, true, []string{"create a b"}, "a b | a false, b false | " + scheduled, nil,
		},
		"whoever chooses the clusters says so": {mine, stores, true, []string{"create"}, " |  |", nil},
		"admission refuses its clusters": {
			to(web(), "a", "b"), refusesMore(0), true, []string{"create a b", "create"}, " |  | " + overQuota, nil,
		},
		"admission refuses the binding": {
			to(web(), "a", "b"), refuses, false, []string{"create a b", "create"}, "nothing", IsRefused,
		},
		"admission refuses a binding that has no clusters": {mine, refuses, false, []string{"create"}, "nothing", IsRefused},
		"the hub fails, which is no refusal": {
			to(web(), "a", "b"), fails(apierrors.NewInternalError(errors.New("no leader"))), false,
			[]string{"create a b"},
			"nothing",
			func(err error) bool { return apierrors.IsInternalError(err) && !IsRefused(err) },
		},
		"somebody else was first, so that it is to be read again": {
			to(web(), "a", "b"), fails(apierrors.NewAlreadyExists(workv1alpha2.GroupVersion.WithResource("resourcebindings").GroupResource(), "web")),
			false,
			[]string{"create a b"},
			"nothing", apierrors.IsConflict,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			s.answer = tc.answer
			created, err := s.ScheduleAndCreate(t.Context(), tc.b.DeepCopy())
			if created != tc.created || (err != nil) != (tc.wrong != nil) || err != nil && !tc.wrong(err) {
				t.Errorf("created %t, error %v", created, err)
			}
			creates := slices.DeleteFunc(s.writes, func(write string) bool { return !strings.HasPrefix(write, "create") })
			if diff := cmp.Diff(tc.creates, creates); diff != "" {
				t.Errorf("what was tried, -want +got:\n%s", diff)
			}
			if got := s.stored(); got != tc.stored {
				t.Errorf("the hub has %q, want %q", got, tc.stored)
			}
			if s.IsUnfinished(client.ObjectKeyFromObject(tc.b)) {
				t.Error("it is unfinished for good")
			}
		})
	}
}

func TestHowABindingIsChanged(t *testing.T) {
	cases := map[string]struct {
		change  func(*workv1alpha2.ResourceBinding)
		answer  answer
		wrote   bool
		writes  []string
		version string // of the object, that the binding has then
		stored  string
		wrong   func(error) bool // nil is that nothing is
	}{
		"nothing is to be changed, so that its version stays": {
			func(*workv1alpha2.ResourceBinding) {}, stores, false, nil, "7", "a | a false | " + scheduled, nil,
		},
		"it gets the version of what it changes for": {
			func(b *workv1alpha2.ResourceBinding) { b.Spec.Replicas = 3 }, stores, true, []string{"patch a"}, "8", "a | a false | " + scheduled, nil,
		},
		"it goes elsewhere": {
			func(b *workv1alpha2.ResourceBinding) { to(b, "b") }, stores, true, []string{"patch b"}, "8", "b | a false | " + scheduled, nil,
		},
		"admission refuses the clusters, so that it keeps those that it has": {
			func(b *workv1alpha2.ResourceBinding) { to(b, "a", "b") }, refusesMore(1), true,
			[]string{"patch a b", "patch a"},
			"8",
			"a | a false | " + overQuota, nil,
		},
		"admission refuses the change": {
			func(b *workv1alpha2.ResourceBinding) { to(b, "a", "b") }, refuses, false,
			[]string{"patch a b", "patch a"},
			"7",
			"a | a false | " + scheduled, IsRefused,
		},
		"admission refuses a change that is not about clusters": {
			func(b *workv1alpha2.ResourceBinding) { b.Labels = map[string]string{"team": "a"} }, refuses, false,
			[]string{"patch a"},
			"7",
			"a | a false | " + scheduled, IsRefused,
		},
		"somebody else changed it, which is no refusal": {
			func(b *workv1alpha2.ResourceBinding) { to(b, "a", "b") },
			fails(apierrors.NewConflict(workv1alpha2.GroupVersion.WithResource("resourcebindings").GroupResource(), "web", errors.New("changed"))),
			false,
			[]string{"patch a b"},
			"7", "a | a false | " + scheduled, func(err error) bool { return apierrors.IsConflict(err) && !IsRefused(err) },
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s := newScene(t)
			before := to(web(), "a")
			if _, err := s.ScheduleAndCreate(t.Context(), before); err != nil {
				t.Fatal(err)
			}
			s.answer, s.writes = tc.answer, nil
			after := before.DeepCopy()
			tc.change(after)
			_, wrote, err := s.ScheduleAndUpdate(t.Context(), before, after, "8")
			if wrote != tc.wrote || (err != nil) != (tc.wrong != nil) || err != nil && !tc.wrong(err) {
				t.Errorf("wrote %t, error %v", wrote, err)
			}
			if diff := cmp.Diff(tc.writes, s.writes); diff != "" {
				t.Errorf("writes, -want +got:\n%s", diff)
			}
			if got := s.stored(); got != tc.stored {
				t.Errorf("the hub has %q, want %q", got, tc.stored)
			}
			b := &workv1alpha2.ResourceBinding{}
			if err := s.Client.Get(t.Context(), client.ObjectKeyFromObject(before), b); err != nil || b.Spec.Resource.ResourceVersion != tc.version {
				t.Errorf("it has version %q of the object, want %q (%v)", b.Spec.Resource.ResourceVersion, tc.version, err)
			}
		})
	}
}

func TestABindingThatIsGoneNeedsNoChange(t *testing.T) {
	s := newScene(t)
	before := to(web(), "a")
	if _, err := s.ScheduleAndCreate(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	if err := s.Client.Delete(t.Context(), before.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.ScheduleAndUpdate(t.Context(), before, to(before.DeepCopy(), "b"), ""); err != nil {
		t.Errorf("changing what somebody has deleted: %v", err)
	}
}

func TestRefusedClustersAreTriedLater(t *testing.T) {
	s := newScene(t)
	s.answer = refusesMore(0)
	b := to(web(), "a")
	if _, err := s.ScheduleAndCreate(t.Context(), b.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	if s.Decider.RefusalBackoff(b) <= 0 {
		t.Error("they are tried at once, want after a while")
	}
	if b.Spec.Replicas++; s.Decider.RefusalBackoff(b) != 0 {
		t.Error("what asks for something else has to wait")
	}
}

func TestWhatARefusalIs(t *testing.T) {
	of := workv1alpha2.GroupVersion.WithResource("resourcebindings").GroupResource()
	cause := errors.New("no")
	cases := map[string]struct {
		err  error
		want bool
	}{
		"success":                           {nil, false},
		"a quota":                           {apierrors.NewForbidden(of, "web", cause), true},
		"a webhook that chooses no code":    {apierrors.NewBadRequest("no"), true},
		"a validation":                      {apierrors.NewInvalid(workv1alpha2.GroupVersion.WithKind("ResourceBinding").GroupKind(), "web", nil), true},
		"a webhook that cannot be asked":    {apierrors.NewInternalError(cause), false},
		"somebody else's change":            {apierrors.NewConflict(of, "web", cause), false},
		"somebody else's deletion":          {apierrors.NewNotFound(of, "web"), false},
		"a hub that has too much to do":     {apierrors.NewTooManyRequests("later", 1), false},
		"credentials that have expired":     {apierrors.NewUnauthorized("no"), false},
		"a hub that cannot be reached":      {cause, false},
		"a quota, told by who asked for it": {fmt.Errorf("creating: %w", apierrors.NewForbidden(of, "web", cause)), true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			err := wrapRefused(tc.err)
			if err != nil {
				err = fmt.Errorf("writing: %w", err)
			}
			if got := IsRefused(err); got != tc.want {
				t.Errorf("refused: got %t, want %t", got, tc.want)
			}
			if tc.err != nil && !errors.Is(err, tc.err) {
				t.Error("what the hub said is lost")
			}
		})
	}
}
