// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"cmp"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/cli/health"
	"github.com/capstan-io/capstan/internal/propagation/override"
	"github.com/capstan-io/capstan/internal/propagation/staged"
)

// What became of the work of a cluster.
const (
	appliedYes       = "yes"
	appliedNo        = "no"
	appliedUnknown   = "unknown"
	appliedSuspended = "suspended"
	appliedDeleting  = "deleting"
	// appliedWaits says that a rollout keeps the latest change from the cluster.
	appliedWaits = "waits"
)

// traceClusters returns those that were chosen, those that are being left, and those
// that were not chosen, each in the order of names.
func (f *ObjectFacts) traceClusters(d *bindingDecision) []ClusterTrace {
	found := map[string]*ClusterTrace{}
	of := func(name string) *ClusterTrace {
		if found[name] == nil {
			found[name] = &ClusterTrace{Name: name}
		}
		return found[name]
	}
	for _, target := range f.Binding.targetClusters() {
		c := of(target.Name)
		c.Chosen = true
		c.Replicas = target.Replicas
		c.Components = target.Components
	}
	for i := range f.Works {
		of(f.Works[i].Namespace).addWork(&f.Works[i])
	}
	for i := range f.NamespaceWorks {
		if c := found[f.NamespaceWorks[i].Namespace]; c != nil {
			c.addNamespaceState(f.Ref.Namespace, &f.NamespaceWorks[i])
		}
	}
	for i := range f.Binding.Status.AggregatedStatus {
		of(f.Binding.Status.AggregatedStatus[i].ClusterName).addMemberStatus(&f.Binding.Status.AggregatedStatus[i])
	}
	for i := range f.Clusters {
		of(f.Clusters[i].Name).setSilentSince(&f.Clusters[i])
	}
	all := []ClusterTrace{}
	for _, c := range found {
		f.setClusterReason(c, d)
		if c.Chosen || c.Work != "" || c.Reason != "" {
			all = append(all, *c)
		}
	}
	slices.SortFunc(all, func(a, b ClusterTrace) int {
		return cmp.Or(cmp.Compare(a.clusterOrder(), b.clusterOrder()), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// targetClusters returns the clusters that the object is to be in: those that were
// chosen for it, and those of the objects that need it.
func (b *BindingObject) targetClusters() []workv1alpha2.TargetCluster {
	all := slices.Clone(b.Spec.Clusters)
	for _, by := range b.Spec.RequiredBy {
		for _, c := range by.Clusters {
			if !slices.ContainsFunc(all, func(t workv1alpha2.TargetCluster) bool { return t.Name == c.Name }) {
				all = append(all, workv1alpha2.TargetCluster{Name: c.Name})
			}
		}
	}
	return all
}

func (c ClusterTrace) clusterOrder() int {
	switch {
	case c.Chosen:
		return 0
	case c.Work != "":
		return 1
	default:
		return 2
	}
}

// addWork notes what a work says.
func (c *ClusterTrace) addWork(work *workv1.ManifestWork) {
	c.Work = work.Name
	c.Suspended = work.Annotations[workv1.AnnotationSuspendDispatching] == "true"
	c.Overrides = override.AppliedOverrides{
		ClusterOverrides: work.Annotations[policyv1alpha1.AnnotationAppliedClusterOverrides],
		Overrides:        work.Annotations[policyv1alpha1.AnnotationAppliedOverrides],
	}.PolicyNames()
	state := health.WorkReadiness(work)
	applied := meta.FindStatusCondition(work.Status.Conditions, workv1.ManifestWorkConditionApplied)
	switch {
	case work.DeletionTimestamp != nil:
		c.Applied = appliedDeleting
		c.Reason = state.Message
	case c.Suspended:
		c.Applied = appliedSuspended
		c.Reason = "changes are not sent while it is suspended"
	case applied == nil || applied.ObservedGeneration < work.Generation:
		c.Applied = appliedUnknown
		c.Reason = "the agent of the cluster has not processed the latest change yet"
	case applied.Status == metav1.ConditionTrue:
		c.Applied, c.Reason = appliedYes, misinterpreted(work)
	default:
		c.Applied, c.Reason = appliedNo, whyNot(work, applied)
	}
}

// addNamespaceState notes that the namespace of the object is not there yet.
func (c *ClusterTrace) addNamespaceState(name string, work *workv1.ManifestWork) {
	applied := meta.FindStatusCondition(work.Status.Conditions, workv1.ManifestWorkConditionApplied)
	switch {
	case c.Applied != appliedNo && c.Applied != appliedUnknown, applied != nil && applied.Status == metav1.ConditionTrue:
	case applied == nil && c.Applied == appliedNo: // what is said of the object says more
	case applied == nil:
		c.Reason = fmt.Sprintf("namespace %s is not in the cluster yet: its agent has not processed work %s", name, work.Name)
	default:
		c.Reason = fmt.Sprintf("namespace %s is not in the cluster: %s", name, whyNot(work, applied))
	}
}

// whyNot prefers what the agent says of the object to the sum of it.
func whyNot(work *workv1.ManifestWork, sum *metav1.Condition) string {
	for _, object := range work.Status.ResourceStatus.Manifests {
		if c := meta.FindStatusCondition(object.Conditions, workv1.ManifestConditionApplied); c != nil && c.Status != metav1.ConditionTrue {
			return c.Message
		}
	}
	return sum.Message
}

// misinterpreted says why health and status of an object that is applied are not
// known, if its agent says that this is because of who customizes the kind.
func misinterpreted(work *workv1.ManifestWork) string {
	for _, object := range work.Status.ResourceStatus.Manifests {
		if c := meta.FindStatusCondition(object.Conditions, workv1.ManifestConditionStatusFeedbackSynced); c != nil && c.Reason == workv1.ManifestReasonInterpretationFailed {
			return c.Message
		}
	}
	return ""
}

// addMemberStatus notes what the hub knows of the object in the cluster.
func (c *ClusterTrace) addMemberStatus(item *workv1alpha2.AggregatedStatusItem) {
	c.Health = string(item.Health)
	if item.Status != nil {
		c.Status = item.Status.Raw
	}
	switch {
	case item.Applied:
		if c.Reason == "" && workv1.IsManifestRemark(item.AppliedMessage) {
			c.Reason = item.AppliedMessage
		}
	case staged.IsWaitingMessage(item.AppliedMessage) && (c.Applied == "" || c.Applied == appliedYes):
		c.Applied = appliedWaits
		c.Reason = item.AppliedMessage // what it has is an earlier one
	case c.Reason == "":
		c.Reason = item.AppliedMessage
	}
}

// setSilentSince notes since when the cluster has not been heard of.
func (c *ClusterTrace) setSilentSince(cluster *clusterv1.ManagedCluster) {
	available := meta.FindStatusCondition(cluster.Status.Conditions, clusterv1.ManagedClusterConditionAvailable)
	if available != nil && available.Status != metav1.ConditionTrue {
		c.SilentSince = available.LastTransitionTime.DeepCopy()
	}
}

// setClusterReason says why the cluster is or is not as it should be, as far as that is not
// said yet.
func (f *ObjectFacts) setClusterReason(c *ClusterTrace, d *bindingDecision) {
	known := slices.ContainsFunc(f.Clusters, func(k clusterv1.ManagedCluster) bool { return k.Name == c.Name })
	switch {
	case c.Chosen && !known && !f.clustersHidden:
		c.Reason = "the cluster no longer exists"
	case c.Chosen && c.Work == "" && c.Applied != appliedWaits && !f.worksHidden:
		c.Reason = "it has no work yet"
	case !c.Chosen && c.Work != "" && f.Binding.evicting(c.Name):
		c.Reason = "it is being moved away from here"
	case !c.Chosen && c.Work != "":
		c.Reason = "it is no longer chosen: the work is being removed"
	case !c.Chosen:
		c.Reason = d.refusalReason(c.Name)
	}
}

func (b *BindingObject) evicting(cluster string) bool {
	return slices.ContainsFunc(b.Spec.GracefulEvictionTasks, func(t workv1alpha2.GracefulEvictionTask) bool { return t.FromCluster == cluster })
}
