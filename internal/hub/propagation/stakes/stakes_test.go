// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package stakes

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/scheduling/binding"
	"github.com/capstan-io/capstan/internal/testing/growth"
)

const (
	policies    = 50
	ofEach      = 100
	clusterName = "c"
)

// onTeam is a placement on the clusters of a team.
func onTeam(t *testing.T, team int) (*policyv1alpha1.Placement, string) {
	t.Helper()
	placement := &policyv1alpha1.Placement{ClusterAffinity: &policyv1alpha1.ClusterAffinity{
		LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": fmt.Sprint(team)}},
	}}
	text, err := json.Marshal(placement)
	if err != nil {
		t.Fatal(err)
	}
	return placement, string(text)
}

// many are the bindings of 50 policies with 100 objects each.
func many(t *testing.T) (*Stakes, map[string]binding.CompiledPlacement) {
	t.Helper()
	stakes, compiled := &Stakes{}, map[string]binding.CompiledPlacement{}
	for team := range policies {
		placement, text := onTeam(t, team)
		one, problems := binding.CompilePlacement(placement)
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		compiled[text] = one
		for i := range ofEach {
			stakes.Set(bindingOf(fmt.Sprintf("team%d-%d", team, i), text, placement, fmt.Sprintf("other%d", team)))
		}
	}
	return stakes, compiled
}

func bindingOf(name, applied string, placement *policyv1alpha1.Placement, clusters ...string) *workv1alpha2.ResourceBinding {
	b := &workv1alpha2.ResourceBinding{}
	b.Namespace, b.Name = metav1.NamespaceDefault, name
	b.Annotations = map[string]string{policyv1alpha1.AnnotationAppliedPlacement: applied}
	b.Spec.Placement = placement
	b.Spec.Resource = workv1alpha2.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: b.Namespace, Name: name}
	for _, cluster := range clusters {
		b.Spec.Clusters = append(b.Spec.Clusters, workv1alpha2.TargetCluster{Name: cluster})
	}
	return b
}

func labelled(labels map[string]string) *view.Cluster {
	return &view.Cluster{Name: clusterName, Labels: labels, Available: metav1.ConditionTrue}
}

// TestALabelThatIsChangedIsComparedWithTheFewThatCanCare counts how often it is
// asked whether a change of a label of a cluster matters, with 5,000 bindings.
func TestALabelThatIsChangedIsComparedWithTheFewThatCanCare(t *testing.T) {
	stakes, compiled := many(t)
	asked := 0
	affected := func(before, after *view.Cluster) []types.NamespacedName {
		asked = 0
		return stakes.AffectedBindings(clusterName, false, func(of *Group, target bool) bool {
			asked++
			c := compiled[of.Placement]
			return c.AffectedByChange(before, after, of.Stake, target, time.Time{})
		})
	}
	names := affected(labelled(nil), labelled(map[string]string{"team": "7"}))
	if asked > policies {
		t.Errorf("asked %d times, with %d policies", asked, policies)
	}
	if len(names) != ofEach || slices.ContainsFunc(names, func(name types.NamespacedName) bool { return name.Name[:6] != "team7-" }) {
		t.Errorf("%d bindings are affected, want the %d of one policy: %v", len(names), ofEach, names)
	}
	if names := affected(labelled(nil), labelled(map[string]string{"nobody": "cares"})); len(names) > 0 {
		t.Errorf("a label that nobody asks for affects %d bindings", len(names))
	}
}

// TestWhoHasAClusterIsTold is about what everybody cares about who has the
// cluster.
func TestWhoHasAClusterIsTold(t *testing.T) {
	stakes, _ := many(t)
	placement, text := onTeam(t, 3)
	stakes.Set(bindingOf("team3-0", text, placement, clusterName))
	needed := bindingOf("needed", "", nil)
	needed.Spec.RequiredBy = []workv1alpha2.BindingSnapshot{{Name: "team3-0", Clusters: []workv1alpha2.TargetCluster{{Name: clusterName}}}}
	stakes.Set(needed)

	told := func(all bool, affects func(*Group, bool) bool) []string {
		var names []string
		for _, name := range stakes.AffectedBindings(clusterName, all, affects) {
			names = append(names, name.Name)
		}
		slices.Sort(names)
		return names
	}
	never := func(*Group, bool) bool { return false }
	if names := told(true, never); !slices.Equal(names, []string{"needed", "team3-0"}) {
		t.Errorf("of the end of a cluster %v are told", names)
	}
	if names := told(false, func(_ *Group, target bool) bool { return target }); !slices.Equal(names, []string{"team3-0"}) {
		t.Errorf("of what matters to those that the cluster was chosen for %v are told", names)
	}
	if names := told(false, func(of *Group, target bool) bool { return !target && of.Placement == text }); len(names) != ofEach-1 || slices.Contains(names, "team3-0") {
		t.Errorf("of what matters to the others of a policy %d are told: %v", len(names), names)
	}
	if names := told(true, func(of *Group, _ bool) bool { return of.Placement == text }); len(names) != ofEach+1 {
		t.Errorf("%d are told, want each once", len(names))
	}

	stakes.ForgetBinding(types.NamespacedName{Namespace: metav1.NamespaceDefault, Name: "needed"})
	stakes.Set(bindingOf("team3-0", text, placement, "other"))
	if names := told(true, never); len(names) > 0 {
		t.Errorf("%v are told after they have left", names)
	}
}

// TestABindingOfManyClusters is what a tenant can write as long as no schema keeps him from
// it. No cluster is looked for among all of them.
func TestABindingOfManyClusters(t *testing.T) {
	growth.InProportion(t, 5_000, 16, func(many int) func() {
		b := bindingOf("many", "", nil)
		b.Spec.RequiredBy = []workv1alpha2.BindingSnapshot{{Name: "other", Clusters: []workv1alpha2.TargetCluster{{Name: "needed"}}}}
		for i := range many {
			b.Spec.Clusters = append(b.Spec.Clusters, workv1alpha2.TargetCluster{Name: fmt.Sprintf("cluster-%d", i)})
		}
		return func() {
			var stakes Stakes
			stakes.Set(b)
			for cluster, chosen := range map[string]bool{"cluster-0": true, fmt.Sprintf("cluster-%d", many-1): true, "needed": false} {
				if is, has := stakes.bindingsSentTo(cluster)[types.NamespacedName{Namespace: b.Namespace, Name: b.Name}]; !has || is != chosen {
					t.Errorf("%s is noted: %t, and as chosen: %t; want the latter to be %t", cluster, has, is, chosen)
				}
			}
		}
	})
}

// TestNamesThatAreNoClustersAreNotIndexed has bindings that name thousands of clusters that do
// not exist, which would take many times their length if each were a way to find them.
func TestNamesThatAreNoClustersAreNotIndexed(t *testing.T) {
	const many = 20_000
	var stakes Stakes
	forged := bindingOf("forged", "", nil)
	snapshot := workv1alpha2.BindingSnapshot{Name: "other"}
	for i := range many {
		snapshot.Clusters = append(snapshot.Clusters, workv1alpha2.TargetCluster{Name: fmt.Sprintf("none-%d", i)})
	}
	forged.Spec.RequiredBy = []workv1alpha2.BindingSnapshot{snapshot}
	before := bindingOf("before", "", nil, clusterName)
	stakes.Set(forged)
	stakes.Set(before)
	told := func() (names []string) {
		for _, name := range stakes.AffectedBindings(clusterName, true, func(*Group, bool) bool { return false }) {
			names = append(names, name.Name)
		}
		slices.Sort(names)
		return names
	}
	if names := told(); !slices.Equal(names, []string{"before"}) {
		t.Errorf("%v are told", names)
	}
	stakes.Set(bindingOf("after", "", nil, clusterName))
	if names := told(); !slices.Equal(names, []string{"after", "before"}) {
		t.Errorf("%v are told once there is one more", names)
	}
	if len(stakes.at) != 1 {
		t.Errorf("bindings are found by %d names, of which one is a cluster that has changed", len(stakes.at))
	}
	stakes.ForgetCluster(clusterName)
	if len(stakes.at) != 0 {
		t.Error("a cluster that is gone is remembered")
	}
	stakes.FollowClusters([]string{clusterName, "none-7"})
	if of := stakes.at[clusterName]; len(of) != 2 || len(stakes.at["none-7"]) != 1 || len(stakes.at) != 2 {
		t.Errorf("%v are found by the clusters of one look, want two of one and one of the other", stakes.at)
	}
	stakes.ForgetBinding(types.NamespacedName{Namespace: metav1.NamespaceDefault, Name: "before"})
	if names := told(); !slices.Equal(names, []string{"after"}) {
		t.Errorf("%v are told once the cluster is there again", names)
	}
}

// TestNobodyWaitsWhileGroupsAreAskedAbout notes a binding in the middle of a look at all, which
// may take long for the placements of some.
func TestNobodyWaitsWhileGroupsAreAskedAbout(t *testing.T) {
	var stakes Stakes
	stakes.Set(bindingOf("before", `{"a":1}`, &policyv1alpha1.Placement{}))
	asked := 0
	names := stakes.AffectedBindings(clusterName, false, func(*Group, bool) bool {
		if asked++; !stakes.mu.TryLock() {
			t.Error("whoever notes a binding waits")
			return false
		}
		stakes.mu.Unlock()
		stakes.Set(bindingOf("meanwhile", `{"b":1}`, &policyv1alpha1.Placement{}))
		return false
	})
	if asked != 1 || len(names) != 1 || names[0].Name != "meanwhile" {
		t.Errorf("asked about %d groups, %v are told, want the one that nobody was asked about", asked, names)
	}
}
