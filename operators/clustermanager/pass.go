// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clustermanager

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/kube/conditions"
	"github.com/capstan-io/capstan/internal/kube/rights"
	"github.com/capstan-io/capstan/internal/operator/install"
	"github.com/capstan-io/capstan/internal/operator/probe"
	"github.com/capstan-io/capstan/internal/operator/render"
	"github.com/capstan-io/capstan/operators/clustermanager/allowed"
	"github.com/capstan-io/capstan/operators/clustermanager/manifests"
	"github.com/capstan-io/capstan/operators/clustermanager/status"
)

// clusterManagerPass is one walk and what its phases leave for each other.
type clusterManagerPass struct {
	*install.ReconcilePass[*operatorv1.ClusterManager]
	// hub is what manifests are made of.
	hub manifests.Hub
	// target is the cluster of the hub, once it was found. In a removal it is nil if
	// there is nothing to be removed from it.
	target *install.Target
	// home and rights are what the operator may do where it runs, and on the hub.
	home, rights rights.Rights
	// features says which ones the hub can have.
	features allowed.FeatureDecision
	// credential leads to the hub in mode Hosted.
	credential probe.Credential
	// api is what is known of the aggregated API; nil until it is known whether there
	// is to be one.
	api *status.AggregatedAPI
	// rollouts of the components; nil until they were applied.
	rollouts []status.ComponentRollout
}

func newClusterManagerPass(base *install.ReconcilePass[*operatorv1.ClusterManager], operatorNamespace string) *clusterManagerPass {
	p := &clusterManagerPass{ReconcilePass: base}
	if base.Object.DeletionTimestamp.IsZero() {
		p.DueIn(resync)
	} else {
		p.hub = hubOf(base.Object, operatorNamespace)
	}
	return p
}

// applyObjects applies what the hub is made of.
func (p *clusterManagerPass) applyObjects(ctx context.Context, to *install.Target, objects []render.Object) error {
	return p.Apply(ctx, to, objects...)
}

// hubOf returns the hub of the ClusterManager as it is installed, as far as names
// go, whatever became of the spec since.
func hubOf(cm *operatorv1.ClusterManager, operatorNamespace string) manifests.Hub {
	h := manifests.Hub{Name: cm.Name, Spec: *cm.Spec.DeepCopy(), OperatorNamespace: operatorNamespace}
	h.Spec.DeployOption.Mode = installedMode(cm)
	return h
}

// installedMode returns the mode that the hub is installed in, or that of the
// spec if nothing is.
func installedMode(cm *operatorv1.ClusterManager) operatorv1.InstallMode {
	for _, related := range cm.Status.RelatedResources {
		switch {
		case related.Resource != "deployments":
		case related.Namespace == operatorv1.DefaultHubNamespace:
			return operatorv1.InstallModeDefault
		default:
			return operatorv1.InstallModeHosted
		}
	}
	hosted := cm.Spec.DeployOption.Mode == operatorv1.InstallModeHosted
	if hosted || controllerutil.ContainsFinalizer(cm, operatorv1.FinalizerClusterManagerHostedCleanup) {
		return operatorv1.InstallModeHosted
	}
	return operatorv1.InstallModeDefault
}

// statusInventory is what the status says of everything that is installed.
func statusInventory(cm *operatorv1.ClusterManager) install.Inventory {
	return install.Inventory{Related: cm.Status.RelatedResources, Generations: cm.Status.Generations}
}

// reportInstallOutcome writes what a walk found into the status, in memory.
func reportInstallOutcome(p *clusterManagerPass, o install.PassOutcome) {
	cm := p.Object
	next := statusInventory(cm).AfterPass(p.Records, o.Result == install.Done)
	cm.Status.RelatedResources = next.Related
	cm.Status.Generations = next.Generations
	list := &cm.Status.Conditions
	conditions.SetCondition(list, cm.Generation, status.AppliedCondition(*list, o))
	if p.rollouts != nil {
		conditions.SetCondition(list, cm.Generation, status.RegistrationCondition(p.rollouts))
		reportPropagation(p)
	}
	reportAPI(p)
	if o.Result == install.Unreachable {
		return // of a generation that was not installed yet nothing may look finished
	}
	if p.rollouts != nil || o.GenerationObserved() {
		cm.Status.ObservedGeneration = cm.Generation
	}
	if p.rollouts != nil {
		conditions.SetCondition(list, cm.Generation, status.ProgressingCondition(p.rollouts))
		conditions.SetCondition(list, cm.Generation, status.PlacementCondition(p.rollouts))
	}
}

// reportPropagation says whether pods of propagation are missing, if it is on.
func reportPropagation(p *clusterManagerPass) {
	list := &p.Object.Status.Conditions
	if !p.hub.PropagationEnabled() {
		meta.RemoveStatusCondition(list, operatorv1.ClusterManagerConditionHubPropagationDegraded)
		return
	}
	conditions.SetCondition(list, p.Object.Generation, status.PropagationCondition(p.rollouts))
}

// reportAPI says whether the aggregated API is available, as far as that is known.
func reportAPI(p *clusterManagerPass) {
	cm := p.Object
	if p.api == nil {
		return
	}
	if !p.api.Wanted {
		meta.RemoveStatusCondition(&cm.Status.Conditions, operatorv1.ClusterManagerConditionHubAPIServerDegraded)
	}
	if condition, known := status.APIServerCondition(*p.api, p.rollouts); known {
		conditions.SetCondition(&cm.Status.Conditions, cm.Generation, condition)
	}
}

// reportRemoval says what a removal waits for.
func reportRemoval(p *clusterManagerPass, o install.PassOutcome) {
	reason := o.Reason
	if o.Result != install.Waiting {
		reason = operatorv1.ClusterManagerReasonCleanupFailed
	}
	conditions.SetCondition(&p.Object.Status.Conditions, p.Object.Generation, metav1.Condition{
		Type: operatorv1.ClusterManagerConditionDeleting, Status: metav1.ConditionTrue, Reason: reason, Message: o.Message,
	})
}

// upgradeBlockReason says why OLM must not replace the operator now.
func upgradeBlockReason(cm *operatorv1.ClusterManager) string {
	changing := status.IsTrue(cm.Status.Conditions, operatorv1.ClusterManagerConditionProgressing) ||
		status.IsTrue(cm.Status.Conditions, operatorv1.ClusterManagerConditionDeleting)
	if !changing {
		return ""
	}
	return fmt.Sprintf("the hub of ClusterManager %q is being updated", cm.Name)
}

// isOwnedBy reports whether an object was made for the ClusterManager of the name.
func isOwnedBy(object client.Object, name string) bool {
	return object.GetLabels()[operatorv1.LabelCreatedByClusterManager] == name
}
