// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package members

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1beta2 "github.com/capstan-io/capstan/apis/cluster/v1beta2"
)

// delays is a queue that keeps what is added after a while.
type delays struct {
	workqueue.TypedRateLimitingInterface[reconcile.Request]
	names []string
	after []time.Duration
}

func (d *delays) AddAfter(request reconcile.Request, after time.Duration) {
	d.names, d.after = append(d.names, request.Name), append(d.after, after)
}

func hub(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := errors.Join(clusterv1.AddToScheme(scheme), clusterv1beta2.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	return fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).WithStatusSubresource(&clusterv1beta2.ManagedClusterSet{}).Build()
}

// exclusive returns a set whose members say so.
func exclusive(name string) *clusterv1beta2.ManagedClusterSet {
	return &clusterv1beta2.ManagedClusterSet{ObjectMeta: metav1.ObjectMeta{Name: name, Generation: 3}}
}

// selecting returns a set that selects clusters; nil selects none.
func selecting(name string, selector *metav1.LabelSelector) *clusterv1beta2.ManagedClusterSet {
	set := exclusive(name)
	set.Spec.ClusterSelector = clusterv1beta2.ManagedClusterSelector{SelectorType: clusterv1beta2.SelectorTypeLabelSelector, LabelSelector: selector}
	return set
}

func mistaken(name string) *clusterv1beta2.ManagedClusterSet {
	return selecting(name, &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "env", Operator: "Like"}}})
}

// cluster returns a cluster with labels, each as KEY=VALUE. A key that is "in" names its
// exclusive set.
func cluster(labels ...string) *clusterv1.ManagedCluster {
	c := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "c" + fmt.Sprint(len(labels)) + strings.Join(labels, "")}}
	c.Name = strings.NewReplacer("=", "-").Replace(c.Name)
	for _, label := range labels {
		key, value, _ := strings.Cut(label, "=")
		if key == "in" {
			key = "cluster.open-cluster-management.io/clusterset"
		}
		metav1.SetMetaDataLabel(&c.ObjectMeta, key, value)
	}
	return c
}

func TestOnlySetsThatAClusterEntersOrLeavesAreCounted(t *testing.T) {
	prod := &metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod"}}
	noEnv := &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "env", Operator: metav1.LabelSelectorOpDoesNotExist}}}
	c := NewClusterSetMemberController(hub(t, exclusive("a"), exclusive("b"), selecting("all", &metav1.LabelSelector{}), selecting("no-env", noEnv), selecting("none", nil), selecting("prod", prod), mistaken("wrong")))
	cases := map[string]struct {
		before, after *clusterv1.ManagedCluster // nil is that there is none
		want          []string
	}{
		"it comes with labels":                {nil, cluster("in=a", "env=prod"), []string{"a", "all", "prod"}},
		"it comes to a set that is not there": {nil, cluster("in=c", "env=dev"), []string{"all"}},
		"it goes":                             {cluster("in=a", "x=y"), nil, []string{"a", "all", "no-env"}},
		"it moves":                            {cluster("in=a"), cluster("in=b"), []string{"a", "b"}},
		"a label makes it a member":           {cluster("in=a", "env=dev"), cluster("in=a", "env=prod"), []string{"prod"}},
		"a label makes it no member":          {cluster("in=a"), cluster("in=a", "env=dev"), []string{"no-env"}},
		"a label that is of no concern":       {cluster("in=a"), cluster("in=a", "x=y"), nil},
		"its first label":                     {cluster(), cluster("env=dev"), []string{"no-env"}},
		"its last label goes":                 {cluster("env=prod"), cluster(), []string{"no-env", "prod"}},
		"its first label is of no concern":    {cluster(), cluster("x=y"), nil},
		"nothing changes":                     {cluster("in=a"), cluster("in=a"), nil},
		"nothing changes where no label is":   {cluster(), cluster(), nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			q := &delays{}
			switch {
			case tc.before == nil:
				c.clusterHandler().Create(t.Context(), event.CreateEvent{Object: tc.after}, q)
			case tc.after == nil:
				c.clusterHandler().Delete(t.Context(), event.DeleteEvent{Object: tc.before}, q)
			default:
				c.clusterHandler().Update(t.Context(), event.UpdateEvent{ObjectOld: tc.before, ObjectNew: tc.after}, q)
			}
			slices.Sort(q.names)
			if diff := cmp.Diff(tc.want, q.names); diff != "" {
				t.Errorf("sets, -want +got:\n%s", diff)
			}
			if slices.ContainsFunc(q.after, func(after time.Duration) bool { return after <= 0 }) {
				t.Error("a set is counted at once: a fleet that joins is a write for each cluster")
			}
		})
	}
}

func TestAClusterWithoutLabelsIsNotOverlooked(t *testing.T) {
	c := NewClusterSetMemberController(hub(t, exclusive("a"), selecting("all", &metav1.LabelSelector{})))
	for what, tell := range map[string]func(*delays){
		"comes": func(q *delays) { c.clusterHandler().Create(t.Context(), event.CreateEvent{Object: cluster()}, q) },
		"goes":  func(q *delays) { c.clusterHandler().Delete(t.Context(), event.DeleteEvent{Object: cluster()}, q) },
	} {
		q := &delays{}
		if tell(q); !slices.Contains(q.names, "all") {
			t.Errorf("it %s, and sets %v are counted, want the one that has all", what, q.names)
		}
	}
}

// docs/spec/cluster/managedclusterset.md has the words, which OCM's tools print.
func TestWhatASetSaysOfItsMembers(t *testing.T) {
	many := []client.Object{}
	for i := range 3 {
		one := cluster("in=a")
		one.Name = fmt.Sprint("member", i)
		many = append(many, one)
	}
	old := exclusive("a")
	old.Status.Conditions = []metav1.Condition{{Type: "ClusterSetEmpty", Status: metav1.ConditionTrue, Reason: "NoClusterMatched", Message: "No ManagedCluster selected"}}
	going := exclusive("a")
	going.DeletionTimestamp, going.Finalizers = &metav1.Time{Time: time.Unix(1, 0)}, []string{"example.com/wait"}
	cases := map[string]struct {
		set      *clusterv1beta2.ManagedClusterSet
		clusters []client.Object
		want     string
		final    bool // trying again is no use
	}{
		"it has none":                            {exclusive("a"), []client.Object{cluster("in=b")}, "True NoClusterMatched No ManagedCluster selected 3", false},
		"it has some":                            {exclusive("a"), many, "False ClustersSelected 3 ManagedClusters selected 3", false},
		"it had none":                            {old, many, "False ClustersSelected 3 ManagedClusters selected 3", false},
		"it selects all":                         {selecting("a", &metav1.LabelSelector{}), []client.Object{cluster(), cluster("in=b")}, "False ClustersSelected 2 ManagedClusters selected 3", false},
		"it does not say what it selects":        {selecting("a", nil), []client.Object{cluster()}, "True NoClusterMatched No ManagedCluster selected 3", false},
		"it says in a wrong way what it selects": {mistaken("a"), many, "True NoClusterMatched wrong 3", true},
		"it is going":                            {going, many, "", false},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			c := hub(t, append(slices.Clone(tc.clusters), tc.set)...)
			_, err := NewClusterSetMemberController(c).Reconcile(t.Context(), ctrl.Request{NamespacedName: types.NamespacedName{Name: "a"}})
			if errors.Is(err, reconcile.TerminalError(nil)) != tc.final || err != nil && !tc.final {
				t.Errorf("error %v, want a final one: %t", err, tc.final)
			}
			set := &clusterv1beta2.ManagedClusterSet{}
			if err := c.Get(t.Context(), types.NamespacedName{Name: "a"}, set); err != nil {
				t.Fatal(err)
			}
			got := ""
			for _, said := range set.Status.Conditions {
				if strings.Contains(said.Message, `"Like"`) {
					said.Message = "wrong"
				}
				got += fmt.Sprintf("%s %s %s %d", said.Status, said.Reason, said.Message, said.ObservedGeneration)
			}
			if got != tc.want {
				t.Errorf("it says %q, want %q", got, tc.want)
			}
		})
	}
}
