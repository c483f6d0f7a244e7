// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karmadaworkv1alpha1 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// AwaitApplied waits until all is said about a Deployment: that its clusters have it or
// why they do not.
func (w World) AwaitApplied(namespace, name string) {
	w.Helper()
	w.Eventually("all is said about "+name, func() error {
		b := &workv1alpha2.ResourceBinding{}
		if err := w.Get(w.Context(), client.ObjectKey{Namespace: namespace, Name: name + "-deployment"}, b); err != nil {
			return err
		}
		if items := b.Status.AggregatedStatus; len(items) != 1 || !items[0].Applied && !strings.Contains(items[0].AppliedMessage, "metadata.namespace would change") {
			return fmt.Errorf("its status is %+v", b.Status)
		}
		return nil
	})
}

// WorkOf returns the work that brings an object of the name to a cluster.
func (w World) WorkOf(cluster, name string) workv1.ManifestWork {
	w.Helper()
	for _, work := range w.WorksOf(cluster) {
		if w.ObjectOf(&work).GetName() == name {
			return work
		}
	}
	w.Fatalf("cluster %s has not been sent %s", cluster, name)
	return workv1.ManifestWork{}
}

// WorksOf returns the works of a cluster.
func (w World) WorksOf(cluster string) []workv1.ManifestWork {
	w.Helper()
	works := &workv1.ManifestWorkList{}
	if err := w.List(w.Context(), works, client.InNamespace(cluster)); err != nil {
		w.Fatal(err)
	}
	return works.Items
}

// ObjectOf returns the object that a work brings.
func (w World) ObjectOf(work *workv1.ManifestWork) *unstructured.Unstructured {
	w.Helper()
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(work.Spec.Workload.Manifests[0].Raw); err != nil {
		w.Fatal(err)
	}
	return object
}

// HasOnlyNamespace checks that a cluster is sent a namespace, what is in it, and nothing
// else.
func (w World) HasOnlyNamespace(namespace, cluster string) {
	w.Helper()
	for _, work := range w.WorksOf(cluster) {
		object := w.ObjectOf(&work)
		if object.GetNamespace() != namespace && (object.GetKind() != "Namespace" || object.GetName() != namespace) {
			w.Errorf("cluster %s is sent %s %s/%s", cluster, object.GetKind(), object.GetNamespace(), object.GetName())
		}
	}
}

// HasBindings checks that these are the bindings of a namespace.
func (w World) HasBindings(namespace string, want ...string) {
	w.Helper()
	var list client.ObjectList = &workv1alpha2.ResourceBindingList{}
	if namespace == "" {
		list = &workv1alpha2.ClusterResourceBindingList{}
	}
	if err := w.List(w.Context(), list, client.InNamespace(namespace)); err != nil {
		w.Fatal(err)
	}
	if got := ListNames(w.TB, list); fmt.Sprint(got) != fmt.Sprint(want) {
		w.Errorf("the bindings of namespace %q are %v, want %v", namespace, got, want)
	}
}

// ListNames returns the names of what is in a list.
func ListNames(t testing.TB, list client.ObjectList) []string {
	t.Helper()
	objects, err := meta.ExtractList(list)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, object := range objects {
		all = append(all, object.(client.Object).GetName()) //nolint:forcetypeassert // of our own lists
	}
	return all
}

// SendsObjects waits until exactly these objects of a kind are sent, as CLUSTER/NAME.
func (w World) SendsObjects(kind string, want ...string) {
	w.Helper()
	w.Eventually(fmt.Sprintf("the %ss that are sent are %v", kind, want), func() error {
		works := &workv1.ManifestWorkList{}
		if err := w.List(w.Context(), works, client.HasLabels{karmadaworkv1alpha1.LabelPermanentID}); err != nil {
			return err
		}
		sent := map[string]bool{}
		for i := range works.Items {
			object := &unstructured.Unstructured{}
			if err := object.UnmarshalJSON(works.Items[i].Spec.Workload.Manifests[0].Raw); err != nil {
				return err
			}
			if object.GetKind() == kind {
				sent[works.Items[i].Namespace+"/"+object.GetName()] = true
			}
		}
		slices.Sort(want)
		if got := slices.Sorted(maps.Keys(sent)); !slices.Equal(got, want) {
			return fmt.Errorf("they are %v", got)
		}
		return nil
	})
}

// SendsNamespace waits until a namespace has been sent to these clusters, and to no
// others, with these values of label team.
func (w World) SendsNamespace(name string, teams map[string]string) {
	w.Helper()
	w.Eventually(fmt.Sprintf("namespace %s is sent as %v", name, teams), func() error {
		works := &workv1.ManifestWorkList{}
		if err := w.List(w.Context(), works, client.MatchingLabels{"fleet.capstan.io/namespace": name}); err != nil {
			return err
		}
		if len(works.Items) != len(teams) {
			return fmt.Errorf("there are %d works", len(works.Items))
		}
		for i := range works.Items {
			work, sent := &works.Items[i], &corev1.Namespace{}
			if err := json.Unmarshal(work.Spec.Workload.Manifests[0].Raw, sent); err != nil {
				return err
			}
			if want, is := teams[work.Namespace]; !is || sent.Labels["team"] != want {
				return fmt.Errorf("cluster %s has it with labels %v", work.Namespace, sent.Labels)
			}
			if id := work.Labels[workv1alpha2.LabelWorkID]; id == "" || sent.Labels[workv1alpha2.LabelWorkID] != id || sent.Labels[workv1alpha2.LabelManaged] != "true" {
				return errors.New("it does not say which work sent it")
			}
		}
		return nil
	})
}

// ClusterRoles returns the ClusterRoles of a member.
func (m *Member) ClusterRoles(w World) map[string]rbacv1.ClusterRole {
	w.Helper()
	list := &rbacv1.ClusterRoleList{}
	if err := m.List(w.Context(), list); err != nil {
		w.Fatal(err)
	}
	all := map[string]rbacv1.ClusterRole{}
	for _, role := range list.Items {
		all[role.Name] = role
	}
	return all
}

// SendsOf waits until these are the objects of a kind that member1 and member2 are sent
// together, as NAMESPACE/NAME in this order.
func (w World) SendsOf(kind string, want ...string) {
	w.Helper()
	w.Eventually(fmt.Sprintf("of kind %s clusters are sent %v", kind, want), func() error {
		var got []string
		for _, cluster := range []string{"member1", "member2"} {
			for _, work := range w.WorksOf(cluster) {
				if object := w.ObjectOf(&work); object.GetKind() == kind {
					got = append(got, object.GetNamespace()+"/"+object.GetName())
				}
			}
		}
		slices.Sort(got)
		if got = slices.Compact(got); !slices.Equal(got, want) {
			return fmt.Errorf("they are sent [%s]", strings.Join(got, " "))
		}
		return nil
	})
}

// HasRoles waits until the member has exactly these Roles.
func (w World) HasRoles(want ...string) {
	w.Helper()
	slices.Sort(want)
	w.Eventually(fmt.Sprintf("the member has the Roles %q", want), func() error {
		list := &rbacv1.RoleList{}
		if err := w.Members["member1"].List(w.Context(), list, client.InNamespace(metav1.NamespaceDefault), client.HasLabels{workv1.LabelManaged}); err != nil {
			return err
		}
		var got []string
		for i := range list.Items {
			got = append(got, list.Items[i].Name)
		}
		if slices.Sort(got); !slices.Equal(got, want) {
			return fmt.Errorf("it has %q", got)
		}
		return nil
	})
}
