// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package promises

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	karmadav1alpha1 "github.com/capstan-io/capstan/apis/karmada/cluster/v1alpha1"
	"github.com/capstan-io/capstan/test/integration/conformance/installation"
)

// clusterAPI is what users of Karmada know the cluster by.
func clusterAPI() []TestCase {
	return []TestCase{
		{Name: "its Cluster (cluster.karmada.io) shows what it is: mode, identity, readiness with Karmada's reason, version, nodes, capacity and APIs", Run: shown},
		{Name: "labels and taints that are written by way of Cluster and of ManagedCluster meet, and neither undoes the other", Run: meets},
	}
}

// cluster waits until the check of the Cluster returns nil.
func (s *Scene) cluster(what string, check func(*karmadav1alpha1.Cluster) error) {
	s.Helper()
	installation.Eventually(s, what, func() error {
		cluster := s.KarmadaCluster()
		if err := s.Hub.Client.Get(s.Context(), client.ObjectKeyFromObject(cluster), cluster); err != nil {
			return err
		}
		return check(cluster)
	})
}

// ClusterReady waits until the Cluster has this status and reason of Ready.
func (s *Scene) ClusterReady(want string) {
	s.Helper()
	s.cluster("its Cluster is Ready: "+want, func(cluster *karmadav1alpha1.Cluster) error {
		c := meta.FindStatusCondition(cluster.Status.Conditions, karmadav1alpha1.ClusterConditionReady)
		if c == nil || string(c.Status)+" "+c.Reason != want {
			return errors.New(installation.Encode(cluster.Status.Conditions))
		}
		return nil
	})
}

// shown has a node that is ready, and compares the Cluster with the member itself.
func shown(s *Scene) {
	s.admin("{apiVersion: v1, kind: Node, metadata: {name: NS-shown}}")
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.ID + "-shown"}}
	if err := s.Member.Client.Status().Patch(s.Context(), node, client.RawPatch("application/strategic-merge-patch+json", []byte(
		`{"status":{"allocatable":{"example.com/fpga":"3"},"conditions":[{"type":"Ready","status":"True"}]}}`))); err != nil {
		s.Fatal(err)
	}
	discovered, err := discovery.NewDiscoveryClientForConfig(s.Member.Config)
	if err != nil {
		s.Fatal(err)
	}
	version, err := discovered.ServerVersion()
	if err != nil {
		s.Fatal(err)
	}
	system := &corev1.Namespace{}
	if err := s.Member.Client.Get(s.Context(), client.ObjectKey{Name: metav1.NamespaceSystem}, system); err != nil {
		s.Fatal(err)
	}
	mode := karmadav1alpha1.Pull
	if s.Mode == installation.ModePush {
		mode = karmadav1alpha1.Push
	}
	s.ClusterReady("True " + karmadav1alpha1.ClusterReasonReady)
	s.cluster("its Cluster shows what it is", func(cluster *karmadav1alpha1.Cluster) error {
		spec, status := &cluster.Spec, &cluster.Status
		fpgas := resourcesOf(status.ResourceSummary)["example.com/fpga"]
		switch {
		case spec.SyncMode != mode || spec.ID != string(system.UID):
			return errors.New("mode or identity: " + installation.Encode(spec))
		case status.KubernetesVersion != version.GitVersion:
			return fmt.Errorf("the version is %s, not %s", status.KubernetesVersion, version.GitVersion)
		case fpgas.String() != "3":
			return errors.New("the capacity: " + installation.Encode(status.ResourceSummary))
		case !slices.ContainsFunc(status.APIEnablements, hasDeployments) ||
			!meta.IsStatusConditionTrue(status.Conditions, karmadav1alpha1.ClusterConditionCompleteAPIEnablements):
			return errors.New("the APIs: " + installation.Encode(status))
		}
		return s.counts(status.NodeSummary)
	})
	if err := s.Member.Client.Delete(s.Context(), node); err != nil {
		s.Fatal(err)
	}
}

func resourcesOf(summary *karmadav1alpha1.ResourceSummary) corev1.ResourceList {
	if summary == nil {
		return nil
	}
	return summary.Allocatable
}

func hasDeployments(e karmadav1alpha1.APIEnablement) bool {
	return e.GroupVersion == "apps/v1" &&
		slices.Contains(e.Resources, karmadav1alpha1.APIResource{Name: "deployments", Kind: "Deployment"})
}

// counts compares the summary with the nodes that there are now; other cases make
// some, too.
func (s *Scene) counts(summary *karmadav1alpha1.NodeSummary) error {
	nodes := &corev1.NodeList{}
	if err := s.Member.Client.List(s.Context(), nodes); err != nil {
		return err
	}
	want := karmadav1alpha1.NodeSummary{TotalNum: int32(len(nodes.Items))}
	for i := range nodes.Items {
		for _, c := range nodes.Items[i].Status.Conditions {
			if c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue {
				want.ReadyNum++
			}
		}
	}
	if summary == nil || *summary != want {
		return fmt.Errorf("the nodes are %s, not %s", installation.Encode(summary), installation.Encode(want))
	}
	return nil
}

// changeCluster changes the Cluster as its clients do: what they have read, and
// again if somebody was faster.
func (s *Scene) changeCluster(change func(*karmadav1alpha1.Cluster)) {
	s.Helper()
	s.cluster("changing the Cluster", func(cluster *karmadav1alpha1.Cluster) error {
		change(cluster)
		return s.Hub.Client.Update(s.Context(), cluster)
	})
}

// changeManaged does the same by way of the ManagedCluster.
func (s *Scene) changeManaged(change func(*clusterv1.ManagedCluster)) {
	s.Helper()
	s.managed("changing the ManagedCluster", func(mc *clusterv1.ManagedCluster) error {
		change(mc)
		return s.Hub.Client.Update(s.Context(), mc)
	})
}

// meets writes by turns, without waiting until the other side has seen it. Then each
// side takes back something that the other wrote.
func meets(s *Scene) {
	byCluster, byManaged := s.ID+"-cluster-%d", s.ID+"-managed-%d"
	for n := range 3 {
		s.changeCluster(func(cluster *karmadav1alpha1.Cluster) {
			key := fmt.Sprintf(byCluster, n)
			metav1.SetMetaDataLabel(&cluster.ObjectMeta, key, "yes")
			cluster.Spec.Taints = append(cluster.Spec.Taints, corev1.Taint{Key: key, Effect: corev1.TaintEffectPreferNoSchedule})
		})
		s.changeManaged(func(mc *clusterv1.ManagedCluster) {
			key := fmt.Sprintf(byManaged, n)
			metav1.SetMetaDataLabel(&mc.ObjectMeta, key, "yes")
			mc.Spec.Taints = append(mc.Spec.Taints, clusterv1.Taint{Key: key, Effect: clusterv1.TaintEffectPreferNoSelect})
		})
	}
	s.marked("cluster-0", "cluster-1", "cluster-2", "managed-0", "managed-1", "managed-2")
	s.changeCluster(func(cluster *karmadav1alpha1.Cluster) {
		key := fmt.Sprintf(byManaged, 0)
		delete(cluster.Labels, key)
		cluster.Spec.Taints = slices.DeleteFunc(cluster.Spec.Taints, func(t corev1.Taint) bool { return t.Key == key })
	})
	s.changeManaged(func(mc *clusterv1.ManagedCluster) {
		key := fmt.Sprintf(byCluster, 1)
		delete(mc.Labels, key)
		mc.Spec.Taints = slices.DeleteFunc(mc.Spec.Taints, func(t clusterv1.Taint) bool { return t.Key == key })
	})
	s.marked("cluster-0", "cluster-2", "managed-1", "managed-2")
}

// marked waits until both objects have the labels and taints of this case that are
// wanted, and no others of it.
func (s *Scene) marked(want ...string) {
	s.Helper()
	ours := func(labels map[string]string, taints []string) error {
		for what, keys := range map[string][]string{"labels": slices.Collect(maps.Keys(labels)), "taints": taints} {
			var has []string
			for _, key := range keys {
				if name, ok := strings.CutPrefix(key, s.ID+"-"); ok {
					has = append(has, name)
				}
			}
			slices.Sort(has)
			if !slices.Equal(has, want) {
				return fmt.Errorf("the %s are %q", what, has)
			}
		}
		return nil
	}
	s.cluster(fmt.Sprintf("the Cluster has %q", want), func(cluster *karmadav1alpha1.Cluster) error {
		var taints []string
		for _, taint := range cluster.Spec.Taints {
			taints = append(taints, taint.Key)
		}
		return ours(cluster.Labels, taints)
	})
	s.managed(fmt.Sprintf("the ManagedCluster has %q", want), func(mc *clusterv1.ManagedCluster) error {
		var taints []string
		for _, taint := range mc.Spec.Taints {
			taints = append(taints, taint.Key)
		}
		return ours(mc.Labels, taints)
	})
}

// uninstalledWholly waits until the namespace of agents that were removed is gone:
// what is written into it would go with it.
func (s *Scene) uninstalledWholly() {
	s.Helper()
	on := s.Member
	if s.Mode == installation.ModeHosted {
		on = s.Hub.Cluster
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.AgentPods()[0].Namespace}}
	installation.Eventually(s, "namespace "+namespace.Name+" is gone or stays", func() error {
		err := on.Client.Get(s.Context(), client.ObjectKeyFromObject(namespace), namespace)
		if err == nil && !namespace.DeletionTimestamp.IsZero() {
			return errors.New("it is being deleted")
		}
		return client.IgnoreNotFound(err)
	})
}

// leavesByCluster comes after the cluster has left for the first time.
func leavesByCluster(s *Scene) {
	s.uninstalledWholly()
	Joins(s)
	s.ClusterReady("True " + karmadav1alpha1.ClusterReasonReady)
	s.Namespace()
	s.Deliver("a", manifestsOf(configMap("a", "one")))
	s.Applied("a")
	s.edit("a", `{"metadata":{"finalizers":["conformance.example.com/hold"]}}`)
	cluster := s.KarmadaCluster()
	for range 2 { // who is not sure does it again
		if err := s.Hub.Client.Delete(s.Context(), cluster); err != nil {
			s.Fatal(err)
		}
	}
	s.cluster("its Cluster tells that it leaves", func(cluster *karmadav1alpha1.Cluster) error {
		if cluster.DeletionTimestamp == nil || !slices.Contains(cluster.Finalizers, karmadav1alpha1.Finalizer) {
			return errors.New(installation.Encode(cluster.ObjectMeta))
		}
		return nil
	})
	s.managed("the ManagedCluster says what remains", func(mc *clusterv1.ManagedCluster) error {
		c := meta.FindStatusCondition(mc.Status.Conditions, clusterv1.ManagedClusterConditionDeleting)
		if mc.DeletionTimestamp == nil || c == nil || !strings.Contains(c.Message, s.ID+"-a") {
			return errors.New("it does not")
		}
		return nil
	})
	s.edit("a", `{"metadata":{"finalizers":null}}`)
	s.HasNot("a")
	for _, object := range []client.Object{cluster, &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: s.ClusterName()}}} {
		installation.Eventually(s, fmt.Sprintf("the %T is gone", object), func() error {
			err := s.Hub.Client.Get(s.Context(), client.ObjectKeyFromObject(object), object)
			if err == nil {
				return errors.New("it is there")
			}
			return client.IgnoreNotFound(err)
		})
	}
}
