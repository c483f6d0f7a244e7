// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package harness is a hub with the controllers of propagation, its clusters, and what
// tests of propagation wait for in them.
package harness

import (
	"context"
	"errors"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	configv1alpha1 "github.com/capstan-io/capstan/apis/karmada/config/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	karmadaworkv1alpha1 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// CountClustersWith counts the clusters that are sent an object of the name.
func (w World) CountClustersWith(name string) (n int) {
	w.Helper()
	for cluster := range 3 {
		for _, work := range w.WorksOf(fmt.Sprintf("member%d", cluster+1)) {
			if w.ObjectOf(&work).GetName() == name {
				n++
			}
		}
	}
	return n
}

// BindingsAre returns an error unless there are so many bindings of ConfigMaps, all
// of which ask for so many replicas and are in their cluster.
func (w World) BindingsAre(many int, replicas int32) error {
	list := &workv1alpha2.ResourceBindingList{}
	if err := w.List(w.Context(), list, client.InNamespace(metav1.NamespaceDefault)); err != nil {
		return err
	}
	there := 0
	for i := range list.Items {
		b := &list.Items[i]
		if b.Spec.Resource.Kind == "ConfigMap" && b.Spec.Replicas == replicas && meta.IsStatusConditionTrue(b.Status.Conditions, workv1alpha2.BindingConditionFullyApplied) {
			there++
		}
	}
	if there != many {
		return fmt.Errorf("%d are, of %d", there, many)
	}
	return nil
}

// BindingSays waits until a condition of a binding is False for a reason, and it or what
// is said of its cluster has a text.
func (w World) BindingSays(binding, condition, reason, text string) {
	w.Helper()
	w.Eventually(fmt.Sprintf("binding %s says %s", binding, reason), func() error {
		b := &workv1alpha2.ResourceBinding{}
		if err := w.Get(w.Context(), client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: binding}, b); err != nil {
			return err
		}
		c := meta.FindStatusCondition(b.Status.Conditions, condition)
		if c == nil || c.Status != metav1.ConditionFalse || c.Reason != reason {
			return fmt.Errorf("its status is %+v", b.Status)
		}
		all := c.Message
		for _, item := range b.Status.AggregatedStatus {
			all += "\n" + item.AppliedMessage
		}
		if !strings.Contains(all, text) {
			return fmt.Errorf("it says %s", all)
		}
		w.Log(binding, all)
		return nil
	})
}

// CustomizeKind makes a customization that goes with the test.
func (w World) CustomizeKind(name, apiVersion, kind string, rules configv1alpha1.CustomizationRules) *configv1alpha1.ResourceInterpreterCustomization {
	w.Helper()
	c := &configv1alpha1.ResourceInterpreterCustomization{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: configv1alpha1.ResourceInterpreterCustomizationSpec{
		Target: configv1alpha1.CustomizationTarget{APIVersion: apiVersion, Kind: kind}, Customizations: rules,
	}}
	w.CreateAll(c)
	w.Cleanup(func() {
		if err := w.Delete(context.WithoutCancel(w.Context()), c); client.IgnoreNotFound(err) != nil {
			w.Error(err)
		}
	})
	return c
}

// SendsWorkers waits until the clusters are sent so many workers.
func (w World) SendsWorkers(want map[string]string) {
	w.Helper()
	w.Eventually(fmt.Sprintf("the workers are %v", want), func() error {
		works := &workv1.ManifestWorkList{}
		if err := w.List(w.Context(), works, client.HasLabels{karmadaworkv1alpha1.LabelPermanentID}); err != nil {
			return err
		}
		got := map[string]string{}
		for i := range works.Items {
			object := &unstructured.Unstructured{}
			if err := object.UnmarshalJSON(works.Items[i].Spec.Workload.Manifests[0].Raw); err != nil {
				return err
			}
			if object.GetName() == "workers" {
				got[works.Items[i].Namespace], _, _ = unstructured.NestedString(object.Object, "data", "workers")
			}
		}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			return fmt.Errorf("they are %v", got)
		}
		return nil
	})
}

// ScriptCounts waits until the script says so of the Deployment.
func (w World) ScriptCounts(want int32) {
	w.Helper()
	w.Eventually(fmt.Sprintf("the status counts %d", want), func() error {
		web := &appsv1.Deployment{}
		if err := w.Get(w.Context(), client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: "web"}, web); err != nil {
			return err
		}
		if web.Status.CollisionCount == nil || *web.Status.CollisionCount != want {
			return errors.New("it does not")
		}
		return nil
	})
}

// VersionsOf are those of a binding and its works.
func (w World) VersionsOf(binding string) string {
	w.Helper()
	b, works := &workv1alpha2.ResourceBinding{}, &workv1.ManifestWorkList{}
	if err := w.Get(w.Context(), client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: binding}, b); err != nil {
		w.Fatal(err)
	}
	if err := w.List(w.Context(), works, client.MatchingLabels{workv1alpha2.LabelResourceBindingID: b.Labels[workv1alpha2.LabelResourceBindingID]}); err != nil {
		w.Fatal(err)
	}
	versions := b.ResourceVersion
	for i := range works.Items {
		versions += " " + works.Items[i].ResourceVersion
	}
	return versions
}

// ClaimedByPolicy waits until the policy of a name claims an object.
func (w World) ClaimedByPolicy(object client.Object, name string) {
	w.Helper()
	w.Eventually(fmt.Sprintf("%s is claimed by %s", object.GetName(), name), func() error {
		if err := w.Get(w.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		if is := object.GetAnnotations()[policyv1alpha1.AnnotationPropagationPolicyName]; is != name {
			return fmt.Errorf("it is claimed by %q", is)
		}
		return nil
	})
}

// ChangeLabel changes a label of an object.
func (w World) ChangeLabel(object client.Object, value string) {
	w.Helper()
	w.ChangeObject(object, func() { object.SetLabels(map[string]string{"touched": value}) })
}

// RestartControllers starts the controllers anew.
func (w World) RestartControllers() {
	w.Helper()
	w.StopControllers()
	w.StartControllers()
}

// StaysOn checks that a Deployment stays on a cluster: what is decided for another
// Deployment after that is done.
func (w World) StaysOn(name, cluster string) {
	w.Helper()
	witness := Deployment("witness", 1)
	w.CreateAll(witness)
	w.Eventually("another Deployment is bound", func() error {
		return w.Get(w.Context(), client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: "witness-deployment"}, &workv1alpha2.ResourceBinding{})
	})
	w.RunsOn(name, map[string]int32{cluster: 1})
	if err := w.Delete(w.Context(), witness); err != nil {
		w.Fatal(err)
	}
	w.IsGone(&workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "witness-deployment"}})
}

// IsUnbound fails if a Deployment of namespace default has a binding.
func (w World) IsUnbound(name string) {
	w.Helper()
	binding := &workv1alpha2.ResourceBinding{}
	err := w.Get(w.Context(), client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: name + "-deployment"}, binding)
	if client.IgnoreNotFound(err) != nil || err == nil {
		w.Fatalf("Deployment %s is bound already: %v, %v", name, binding.Spec.Clusters, err)
	}
}

// HasPriority waits until the binding of a Deployment has a priority, nil for none.
func (w World) HasPriority(name string, want *int32) {
	w.Helper()
	w.Eventually(fmt.Sprintf("the binding of %s has its priority", name), func() error {
		b := &workv1alpha2.ResourceBinding{}
		if err := w.Get(w.Context(), client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: name + "-deployment"}, b); err != nil {
			return err
		}
		switch has := b.Spec.SchedulePriority; {
		case has == nil && want == nil, has != nil && want != nil && has.Priority == *want:
			return nil
		default:
			return fmt.Errorf("it has %v", has)
		}
	})
}

// IsClaimed checks which policy of the namespace has claimed a Deployment.
func (w World) IsClaimed(object *appsv1.Deployment, by string) {
	w.Helper()
	if err := w.Get(w.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		w.Fatal(err)
	}
	want := map[string]string{policyv1alpha1.AnnotationPropagationPolicyName: by, policyv1alpha1.AnnotationClusterPropagationPolicyName: ""}
	for key, name := range want {
		if object.Annotations[key] != name {
			w.Errorf("annotation %s is %q, want %q", key, object.Annotations[key], name)
		}
	}
}

// SetAvailable has the hub say whether it hears from a cluster.
func (w World) SetAvailable(cluster string, status metav1.ConditionStatus) {
	w.Helper()
	w.Eventually("the status of "+cluster+" can be written", func() error {
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

// HasHealth waits until the binding of a Deployment says so of a cluster.
func (w World) HasHealth(of client.Object, cluster string, want workv1alpha2.ResourceHealth) {
	w.Helper()
	w.Eventually(fmt.Sprintf("%s is %s on %s", of.GetName(), want, cluster), func() error {
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

// ChangeObject changes an object.
func (w World) ChangeObject(object client.Object, change func()) {
	w.Helper()
	w.Eventually(fmt.Sprintf("%T %s can be changed", object, object.GetName()), func() error {
		if err := w.Get(w.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		change()
		return w.Update(w.Context(), object)
	})
}

// IsGone waits until there is no such object.
func (w World) IsGone(object client.Object) {
	w.Helper()
	w.Eventually(fmt.Sprintf("%T %s is gone", object, object.GetName()), func() error {
		if err := w.Get(w.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			return client.IgnoreNotFound(err)
		}
		return errors.New("it is there")
	})
}

// HasWorks waits until bindings have so many works.
func (w World) HasWorks(want int) {
	w.Helper()
	w.Eventually(fmt.Sprintf("there are %d works", want), func() error {
		works := &workv1.ManifestWorkList{}
		if err := w.List(w.Context(), works, client.HasLabels{workv1alpha2.LabelResourceBindingID}); err != nil {
			return err
		}
		if len(works.Items) != want {
			return fmt.Errorf("there are %d: %v", len(works.Items), ListNames(w.TB, works))
		}
		return nil
	})
}
