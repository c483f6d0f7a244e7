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
)

// TestADeploymentGoesToItsClustersAndComesBack is the story of a Deployment: sent,
// scaled, moved and deleted.
func TestADeploymentGoesToItsClustersAndComesBack(t *testing.T) {
	w := newWorld(t, 3)
	web, p := deployment("web", 2), policy("web", policyv1alpha1.Placement{ClusterAffinity: &policyv1alpha1.ClusterAffinity{ClusterNames: []string{"member1", "member2"}}})
	w.create(web, p)
	w.on("web", map[string]int32{"member1": 2, "member2": 2})

	// Divided by weight.
	w.change(p, func() {
		p.Spec.Placement.ReplicaScheduling = &policyv1alpha1.ReplicaSchedulingStrategy{
			ReplicaSchedulingType: policyv1alpha1.ReplicaSchedulingTypeDivided, ReplicaDivisionPreference: policyv1alpha1.ReplicaDivisionPreferenceWeighted,
			WeightPreference: &policyv1alpha1.ClusterPreferences{StaticWeightList: []policyv1alpha1.StaticClusterWeight{
				{TargetCluster: policyv1alpha1.ClusterAffinity{ClusterNames: []string{"member1"}}, Weight: 2},
				{TargetCluster: policyv1alpha1.ClusterAffinity{ClusterNames: []string{"member2"}}, Weight: 1},
			}},
		}
	})
	w.change(web, func() { web.Spec.Replicas = new(int32(6)) })
	w.on("web", map[string]int32{"member1": 4, "member2": 2})

	// A cluster is silent for a while: nothing moves, and it is said.
	w.heard("member2", metav1.ConditionUnknown)
	w.health(web, "member2", workv1alpha2.ResourceUnknown)
	w.heard("member2", metav1.ConditionTrue)
	w.health(web, "member2", workv1alpha2.ResourceHealthy)
	w.on("web", map[string]int32{"member1": 4, "member2": 2})

	// Moved.
	w.change(p, func() {
		p.Spec.Placement = policyv1alpha1.Placement{ClusterAffinity: &policyv1alpha1.ClusterAffinity{ClusterNames: []string{"member3"}}}
	})
	w.on("web", map[string]int32{"member3": 6})
	w.works(1)

	// The policy goes: what it sent stays, and nobody claims it.
	if err := w.Delete(w.Context(), p); err != nil {
		t.Fatal(err)
	}
	w.gone(p)
	if err := w.Get(w.Context(), client.ObjectKeyFromObject(web), web); err != nil {
		t.Fatal(err)
	}
	if web.Labels[policyv1alpha1.LabelPropagationPolicyID] != "" || web.Annotations[policyv1alpha1.AnnotationPropagationPolicyName] != "" {
		t.Errorf("the Deployment is claimed by a policy that is gone: %v %v", web.Labels, web.Annotations)
	}
	w.works(1)
	w.change(web, func() { web.Spec.Template.Spec.Containers[0].Image = "nginx:1.28" })
	w.eventually("what stays follows the Deployment", func() error {
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
	w.create(policy("other", policyv1alpha1.Placement{}))
	w.on("web", map[string]int32{"member1": 6, "member2": 6, "member3": 6})
	if err := w.Delete(w.Context(), web); err != nil {
		t.Fatal(err)
	}
	w.gone(&workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "web-deployment"}})
	w.works(0)
}

// heard has the hub say whether it hears from a cluster.
func (w world) heard(cluster string, status metav1.ConditionStatus) {
	w.Helper()
	w.eventually("the status of "+cluster+" can be written", func() error {
		object := &clusterv1.ManagedCluster{}
		if err := w.Get(w.Context(), client.ObjectKey{Name: cluster}, object); err != nil {
			return err
		}
		object.Status.Conditions = []metav1.Condition{{
			Type: clusterv1.ManagedClusterConditionAvailable, Status: status, Reason: "Test", LastTransitionTime: metav1.Now(),
		}}
		return w.Status().Update(w.Context(), object)
	})
}

// health waits until the binding of a Deployment says so of a cluster.
func (w world) health(of client.Object, cluster string, want workv1alpha2.ResourceHealth) {
	w.Helper()
	w.eventually(fmt.Sprintf("%s is %s on %s", of.GetName(), want, cluster), func() error {
		binding := &workv1alpha2.ResourceBinding{}
		if err := w.Get(w.Context(), client.ObjectKey{Namespace: of.GetNamespace(), Name: of.GetName() + "-deployment"}, binding); err != nil {
			return err
		}
		for _, item := range binding.Status.AggregatedStatus {
			if item.ClusterName == cluster && item.Health == want && item.Status != nil {
				return nil
			}
		}
		return fmt.Errorf("the binding says %+v", binding.Status.AggregatedStatus)
	})
}

// change changes an object.
func (w world) change(object client.Object, change func()) {
	w.Helper()
	w.eventually(fmt.Sprintf("%T %s can be changed", object, object.GetName()), func() error {
		if err := w.Get(w.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		change()
		return w.Update(w.Context(), object)
	})
}

// gone waits until there is no such object.
func (w world) gone(object client.Object) {
	w.Helper()
	w.eventually(fmt.Sprintf("%T %s is gone", object, object.GetName()), func() error {
		if err := w.Get(w.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			return client.IgnoreNotFound(err)
		}
		return errors.New("it is there")
	})
}

// works waits until bindings have so many works.
func (w world) works(want int) {
	w.Helper()
	w.eventually(fmt.Sprintf("there are %d works", want), func() error {
		works := &workv1.ManifestWorkList{}
		if err := w.List(w.Context(), works, client.HasLabels{workv1alpha2.LabelResourceBindingID}); err != nil {
			return err
		}
		if len(works.Items) != want {
			return fmt.Errorf("there are %d: %v", len(works.Items), names(w.T, works))
		}
		return nil
	})
}

// TestWhatIsNotReadyYet is about policies that admission has not seen, and about
// clusters that are on their way.
func TestWhatIsNotReadyYet(t *testing.T) {
	w := newWorld(t, 1)
	p := policy("web", policyv1alpha1.Placement{})
	p.Labels, p.Finalizers = nil, nil
	web := deployment("web", 1)
	w.create(p, web)
	w.on("web", map[string]int32{"member1": 1})

	// A cluster that has not been accepted has no namespace: the others go on.
	w.create(&clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "later"}})
	w.eventually("the binding says why the cluster does not get it", func() error {
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
	w.health(web, "member1", workv1alpha2.ResourceHealthy)
	w.join("member2") // a cluster that comes is used at once
	w.health(web, "member2", workv1alpha2.ResourceHealthy)
}
