// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package clusterspec syncs the labels and API server addresses in the
// Klusterlet to the ManagedCluster.
//
// Labels that the Klusterlet does not name are left alone, so an
// administrator of the hub may add others; those that it named before and does
// not name any more are taken away. What the hub does not leave to the agent stays
// as it is once the cluster is registered, the label of the cluster set in any case,
// as agents may not move between sets.
package clusterspec

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/cluster/fleet"
	"github.com/capstan-io/capstan/internal/kube/conditions"
	"github.com/capstan-io/capstan/internal/registration/agentlabels"
)

// AnnotationLabels on a ManagedCluster has the keys of the labels that its
// agent put there, separated by commas.
const AnnotationLabels = "agent.open-cluster-management.io/cluster-labels"

const separator = ","

// SpecPart keeps labels and client configs of each cluster.
type SpecPart struct {
	Labels map[string]string
	// ClientConfigs are the addresses of the member's API server. If there are
	// none, those on the hub are left alone.
	ClientConfigs []clusterv1.ClientConfig
	// Failed is told of what failed; it is tried again. May be nil.
	Failed func(ctx context.Context, err error)
}

// Name implements fleet.Part.
func (p *SpecPart) Name() string { return "clusterspec" }

// Engage implements fleet.Part.
func (p *SpecPart) Engage(ctx context.Context, c *fleet.Connection) error {
	informer, err := c.Hub.GetCache().GetInformer(ctx, &clusterv1.ManagedCluster{}, cache.BlockUntilSynced(false))
	if err != nil {
		return fmt.Errorf("watching ManagedCluster %q: %w", c.Name, err)
	}
	loop := fleet.NewLoop(func(ctx context.Context) (time.Duration, error) {
		return 0, p.syncManagedCluster(ctx, c.Hub.GetClient(), string(c.Name))
	})
	loop.Failed = p.Failed
	kick := toolscache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { loop.Kick() },
		UpdateFunc: func(before, after any) {
			was, _ := before.(*clusterv1.ManagedCluster)
			is, _ := after.(*clusterv1.ManagedCluster)
			if was == nil || is == nil || was.Generation != is.Generation ||
				!maps.Equal(was.Labels, is.Labels) || agentlabels.AllowedOf(was).String() != agentlabels.AllowedOf(is).String() {
				loop.Kick()
			}
		},
	}
	registration, err := informer.AddEventHandler(kick)
	if err != nil {
		return fmt.Errorf("watching ManagedCluster %q: %w", c.Name, err)
	}
	c.GoSynced(ctx, func() { loop.Start(ctx) }, registration.HasSyncedChecker())
	return nil
}

// syncManagedCluster writes what differs.
func (p *SpecPart) syncManagedCluster(ctx context.Context, hub client.Client, name string) error {
	mc := &clusterv1.ManagedCluster{}
	if err := hub.Get(ctx, client.ObjectKey{Name: name}, mc); err != nil {
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("reading ManagedCluster %q: %w", name, err)
	}
	want, withheld := p.desiredCluster(mc)
	if !equality.Semantic.DeepEqual(mc, want) {
		if err := hub.Update(ctx, want); err != nil {
			return fmt.Errorf("updating labels and client configs of ManagedCluster %q: %w", name, err)
		}
	}
	return reportWithheldLabels(ctx, hub, mc, withheld)
}

// reportWithheldLabels writes the condition if it says something else than before. That
// nothing is withheld is only said where something was.
func reportWithheldLabels(ctx context.Context, hub client.Client, mc *clusterv1.ManagedCluster, withheld []string) error {
	condition := metav1.Condition{
		Type: clusterv1.ManagedClusterConditionLabelsWithheld, Status: metav1.ConditionFalse,
		Reason: clusterv1.ManagedClusterReasonLabelsInSync, Message: "the labels match the Klusterlet",
	}
	if len(withheld) > 0 {
		condition.Status = metav1.ConditionTrue
		condition.Reason = clusterv1.ManagedClusterReasonNotAllowedByHub
		condition.Message = fmt.Sprintf("the Klusterlet of the cluster wants these labels changed, which the hub does not let clusters change: %s. "+
			"Change them here, or allow the keys in spec.agentLabels of ClusterConnection %q", strings.Join(withheld, ", "), mc.Name)
	}
	list := conditions.SelectByType(mc.Status.Conditions, condition.Type)
	switch had := len(list) > 0; {
	case !had && condition.Status == metav1.ConditionFalse,
		had && list[0].Status == condition.Status && list[0].Message == condition.Message:
		return nil
	}
	conditions.SetCondition(&list, 0, condition)
	return conditions.ApplyStatus(ctx, hub, mc, fleetv1alpha1.FieldOwnerClusterLabels, list, nil)
}

// desiredCluster returns the ManagedCluster with our labels and client configs, and the keys
// of the labels that the hub does not leave to us and that would have to change.
func (p *SpecPart) desiredCluster(mc *clusterv1.ManagedCluster) (want *clusterv1.ManagedCluster, withheld []string) {
	want = mc.DeepCopy()
	allowed := agentlabels.AllowedOf(mc)
	managed := map[string]string{}
	for _, key := range strings.Split(mc.Annotations[AnnotationLabels], separator) {
		_, still := p.Labels[key]
		value, there := mc.Labels[key]
		switch {
		case still || !there || !isSyncableLabel(key):
		case allowed.AllowsKey(key):
			delete(want.Labels, key)
		default: // it stays ours, for when it may go
			managed[key], withheld = value, append(withheld, key)
		}
	}
	for key, value := range p.Labels {
		switch {
		case !isSyncableLabel(key):
		case mc.Labels[key] != value && !allowed.AllowsKey(key):
			withheld = append(withheld, key)
		default:
			metav1.SetMetaDataLabel(&want.ObjectMeta, key, value)
			managed[key] = value
		}
	}
	switch keys := LabelKeys(managed); {
	case keys != "":
		metav1.SetMetaDataAnnotation(&want.ObjectMeta, AnnotationLabels, keys)
	default:
		delete(want.Annotations, AnnotationLabels)
	}
	if len(p.ClientConfigs) > 0 {
		want.Spec.ManagedClusterClientConfigs = p.ClientConfigs
	}
	slices.Sort(withheld)
	return want, withheld
}

// isSyncableLabel reports whether an agent may change the label later.
func isSyncableLabel(key string) bool { return key != "" && key != clusterv1.LabelClusterSet }

// LabelKeys returns the value of AnnotationLabels for labels.
func LabelKeys(labels map[string]string) string {
	var keys []string
	for key := range labels {
		if isSyncableLabel(key) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return strings.Join(keys, separator)
}
