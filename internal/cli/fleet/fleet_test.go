// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1alpha1 "github.com/capstan-io/capstan/apis/cluster/v1alpha1"
	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	clusterv1beta2 "github.com/capstan-io/capstan/apis/cluster/v1beta2"
	"github.com/capstan-io/capstan/internal/cluster/view"
)

// readableHub is a hub with one of everything, where the user may not do what the
// function forbids.
func readableHub(t *testing.T, forbids func(object runtime.Object, namespace string) bool) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	err := errors.Join(clusterv1.AddToScheme(scheme), clusterv1alpha1.AddToScheme(scheme), clusterv1beta1.AddToScheme(scheme), clusterv1beta2.AddToScheme(scheme))
	if err != nil {
		t.Fatal(err)
	}
	decision := func(namespace string) *clusterv1beta1.PlacementDecision {
		return &clusterv1beta1.PlacementDecision{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web-decision-1"},
			Status:     clusterv1beta1.PlacementDecisionStatus{Decisions: []clusterv1beta1.ClusterDecision{{ClusterName: "a"}}},
		}
	}
	binding := func(set string) *clusterv1beta2.ManagedClusterSetBinding {
		return &clusterv1beta2.ManagedClusterSetBinding{
			ObjectMeta: metav1.ObjectMeta{Namespace: "team-a", Name: set}, Spec: clusterv1beta2.ManagedClusterSetBindingSpec{ClusterSet: set},
		}
	}
	until := metav1.NewTime(time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC))
	refuse := func(object runtime.Object, namespace string) error {
		if forbids(object, namespace) {
			return apierrors.NewForbidden(schema.GroupResource{Resource: "things"}, "", errors.New("no"))
		}
		return nil
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(
		&clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "a"}}, decision("team-a"), decision("team-b"), binding("apps"), binding("gone"),
		&clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: "apps"}},
		&clusterv1alpha1.AddOnPlacementScore{
			ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "load"},
			Status:     clusterv1alpha1.AddOnPlacementScoreStatus{ValidUntil: &until, Scores: []clusterv1alpha1.AddOnPlacementScoreItem{{Name: "free", Value: 7}}},
		},
	).WithInterceptorFuncs(interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
			if err := refuse(object, key.Namespace); err != nil {
				return err
			}
			return c.Get(ctx, key, object, options...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
			in := &client.ListOptions{}
			in.ApplyOptions(options)
			if err := refuse(list, in.Namespace); err != nil {
				return err
			}
			return c.List(ctx, list, options...)
		},
	}).Build()
}

func TestReadAll(t *testing.T) {
	s, err := ReadNamespaceState(t.Context(), readableHub(t, func(runtime.Object, string) bool { return false }), "team-a", Needs{Scores: true, Counts: true})
	if err != nil {
		t.Fatal(err)
	}
	c, _ := s.Clusters.ClusterNamed("a")
	if c.Decisions != 2 || c.Scores[view.ScoreName{Resource: "load", Score: "free"}].Value != 7 || len(s.Unread) > 0 || len(s.Decisions) != 1 {
		t.Errorf("the state is %+v with cluster %+v", s, c)
	}
	bound, problems := s.BoundSets()
	if len(bound) != 1 || bound[0].Name != "apps" || len(problems) != 1 || !strings.Contains(problems[0], "\"gone\" was not found") {
		t.Errorf("bound are %+v, with problems %q", bound, problems)
	}
}

func TestWhatMayNotBeReadIsNamed(t *testing.T) {
	cases := map[string]struct {
		forbids func(object runtime.Object, namespace string) bool
		// want are the beginnings of what is unread.
		want   []string
		counts int
	}{
		"decisions of others": {
			forbids: func(o runtime.Object, namespace string) bool {
				_, is := o.(*clusterv1beta1.PlacementDecisionList)
				return is && namespace == ""
			},
			want: []string{"PlacementDecisions of other namespaces"}, counts: 1,
		},
		"decisions": {
			forbids: func(o runtime.Object, _ string) bool { _, is := o.(*clusterv1beta1.PlacementDecisionList); return is },
			want:    []string{"PlacementDecisions of other namespaces", "PlacementDecisions ("},
		},
		"scores": {
			forbids: func(o runtime.Object, _ string) bool {
				_, is := o.(*clusterv1alpha1.AddOnPlacementScoreList)
				return is
			},
			want: []string{"AddOnPlacementScores"}, counts: 2,
		},
		"sets": {
			forbids: func(o runtime.Object, _ string) bool { _, is := o.(*clusterv1beta2.ManagedClusterSet); return is },
			want:    []string{"ManagedClusterSet apps", "ManagedClusterSet gone"}, counts: 2,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			s, err := ReadNamespaceState(t.Context(), readableHub(t, tc.forbids), "team-a", Needs{Scores: true, Counts: true})
			if err != nil {
				t.Fatal(err)
			}
			c, _ := s.Clusters.ClusterNamed("a")
			matches := slices.EqualFunc(tc.want, s.Unread, func(want, got string) bool { return strings.HasPrefix(got, want) })
			if !matches || c.Decisions != tc.counts {
				t.Errorf("unread is %q, want %q; the cluster is chosen %d times, want %d", s.Unread, tc.want, c.Decisions, tc.counts)
			}
		})
	}
	_, err := ReadNamespaceState(t.Context(), readableHub(t, func(o runtime.Object, _ string) bool { _, is := o.(*clusterv1.ManagedClusterList); return is }), "team-a", Needs{})
	if !apierrors.IsForbidden(err) {
		t.Errorf("without the clusters there is nothing to tell, but the error is %v", err)
	}
}

func TestNeedsOf(t *testing.T) {
	config := func(coordinate clusterv1beta1.ScoreCoordinate) clusterv1beta1.PrioritizerConfig {
		return clusterv1beta1.PrioritizerConfig{ScoreCoordinate: &coordinate}
	}
	exact := func(configs ...clusterv1beta1.PrioritizerConfig) clusterv1beta1.PlacementSpec {
		return clusterv1beta1.PlacementSpec{PrioritizerPolicy: clusterv1beta1.PrioritizerPolicy{Mode: clusterv1beta1.PrioritizerPolicyModeExact, Configurations: configs}}
	}
	byScore := exact()
	byScore.Predicates = []clusterv1beta1.ClusterPredicate{{RequiredClusterSelector: clusterv1beta1.ClusterSelector{
		CelSelector: clusterv1beta1.ClusterCelSelector{CelExpressions: []string{`managedCluster.scores("load").size() > 0`}},
	}}}
	cases := map[string]struct {
		spec clusterv1beta1.PlacementSpec
		want Needs
	}{
		"the defaults": {want: Needs{Counts: true}},
		"exact":        {spec: exact(config(clusterv1beta1.ScoreCoordinate{BuiltIn: "Steady"}))},
		"Balance":      {spec: exact(config(clusterv1beta1.ScoreCoordinate{BuiltIn: "Balance"})), want: Needs{Counts: true}},
		"an add-on":    {spec: exact(config(clusterv1beta1.ScoreCoordinate{AddOn: &clusterv1beta1.AddOnScore{}})), want: Needs{Scores: true}},
		"CEL":          {spec: byScore, want: Needs{Scores: true}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := NeedsOf(&clusterv1beta1.Placement{Spec: tc.spec}); got != tc.want {
				t.Errorf("got %+v, want %+v", got, tc.want)
			}
		})
	}
}
