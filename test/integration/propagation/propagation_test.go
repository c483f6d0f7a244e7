// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/test/integration/propagation/harness"
)

// TestADeploymentGoesToItsClustersAndComesBack is the story of a Deployment: sent,
// scaled, moved and deleted.
func TestADeploymentGoesToItsClustersAndComesBack(t *testing.T) {
	w := harness.NewWorld(t, servers, 3)
	web, p := harness.Deployment("web", 2), harness.Policy("web", policyv1alpha1.Placement{ClusterAffinity: &policyv1alpha1.ClusterAffinity{ClusterNames: []string{"member1", "member2"}}})
	w.CreateAll(web, p)
	w.RunsOn("web", map[string]int32{"member1": 2, "member2": 2})

	// Divided by weight.
	w.ChangeObject(p, func() {
		p.Spec.Placement.ReplicaScheduling = &policyv1alpha1.ReplicaSchedulingStrategy{
			ReplicaSchedulingType: policyv1alpha1.ReplicaSchedulingTypeDivided, ReplicaDivisionPreference: policyv1alpha1.ReplicaDivisionPreferenceWeighted,
			WeightPreference: &policyv1alpha1.ClusterPreferences{StaticWeightList: []policyv1alpha1.StaticClusterWeight{
				{TargetCluster: policyv1alpha1.ClusterAffinity{ClusterNames: []string{"member1"}}, Weight: 2},
				{TargetCluster: policyv1alpha1.ClusterAffinity{ClusterNames: []string{"member2"}}, Weight: 1},
			}},
		}
	})
	w.ChangeObject(web, func() { web.Spec.Replicas = new(int32(6)) })
	w.RunsOn("web", map[string]int32{"member1": 4, "member2": 2})

	// A cluster is silent for a while: nothing moves, and it is said.
	w.SetAvailable("member2", metav1.ConditionUnknown)
	w.HasHealth(web, "member2", workv1alpha2.ResourceUnknown)
	w.SetAvailable("member2", metav1.ConditionTrue)
	w.HasHealth(web, "member2", workv1alpha2.ResourceHealthy)
	w.RunsOn("web", map[string]int32{"member1": 4, "member2": 2})

	// Moved.
	w.ChangeObject(p, func() {
		p.Spec.Placement = policyv1alpha1.Placement{ClusterAffinity: &policyv1alpha1.ClusterAffinity{ClusterNames: []string{"member3"}}}
	})
	w.RunsOn("web", map[string]int32{"member3": 6})
	w.HasWorks(1)

	// The policy goes: what it sent stays, and nobody claims it.
	if err := w.Delete(w.Context(), p); err != nil {
		t.Fatal(err)
	}
	w.IsGone(p)
	if err := w.Get(w.Context(), client.ObjectKeyFromObject(web), web); err != nil {
		t.Fatal(err)
	}
	if web.Labels[policyv1alpha1.LabelPropagationPolicyID] != "" || web.Annotations[policyv1alpha1.AnnotationPropagationPolicyName] != "" {
		t.Errorf("the Deployment is claimed by a policy that is gone: %v %v", web.Labels, web.Annotations)
	}
	w.HasWorks(1)
	w.ChangeObject(web, func() { web.Spec.Template.Spec.Containers[0].Image = "nginx:1.28" })
	w.Eventually("what stays follows the Deployment", func() error {
		works := &workv1.ManifestWorkList{}
		if err := w.List(w.Context(), works, client.HasLabels{workv1alpha2.LabelResourceBindingID}); err != nil {
			return err
		}
		for i := range works.Items {
			if !strings.Contains(string(works.Items[i].Spec.Workload.Manifests[0].Raw), `"nginx:1.28"`) {
				return errors.New("it has another image")
			}
		}
		return nil
	})

	// Another policy takes over, and the Deployment goes.
	w.CreateAll(harness.Policy("other", policyv1alpha1.Placement{}))
	w.RunsOn("web", map[string]int32{"member1": 6, "member2": 6, "member3": 6})
	if err := w.Delete(w.Context(), web); err != nil {
		t.Fatal(err)
	}
	w.IsGone(&workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "web-deployment"}})
	w.HasWorks(0)
}

// TestWhatIsNotReadyYet is about policies that admission has not seen, and about
// clusters that are on their way.
func TestWhatIsNotReadyYet(t *testing.T) {
	w := harness.NewWorld(t, servers, 1)
	p := harness.Policy("web", policyv1alpha1.Placement{})
	p.Labels, p.Finalizers = nil, nil
	web := harness.Deployment("web", 1)
	w.CreateAll(p, web)
	w.RunsOn("web", map[string]int32{"member1": 1})

	// A cluster that has not been accepted has no namespace: the others go on.
	w.CreateAll(&clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "later"}})
	w.Eventually("the binding says why the cluster does not get it", func() error {
		binding := &workv1alpha2.ResourceBinding{}
		if err := w.Get(w.Context(), client.ObjectKey{Namespace: web.Namespace, Name: "web-deployment"}, binding); err != nil {
			return err
		}
		for _, item := range binding.Status.AggregatedStatus {
			if item.ClusterName == "later" && !item.Applied && strings.Contains(item.AppliedMessage, "the hub has not accepted a cluster of this name") {
				return nil
			}
		}
		return fmt.Errorf("it says %+v", binding.Status.AggregatedStatus)
	})
	w.HasHealth(web, "member1", workv1alpha2.ResourceHealthy)
	w.JoinCluster("member2") // a cluster that comes is used at once
	w.HasHealth(web, "member2", workv1alpha2.ResourceHealthy)
}
