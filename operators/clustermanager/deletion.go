// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clustermanager

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/operator/fence"
	"github.com/capstan-io/capstan/internal/operator/install"
	"github.com/capstan-io/capstan/internal/operator/install/definitions"
	"github.com/capstan-io/capstan/internal/operator/render"
	"github.com/capstan-io/capstan/operators/clustermanager/aggregation"
	"github.com/capstan-io/capstan/operators/clustermanager/manifests"
	"github.com/capstan-io/capstan/operators/clustermanager/teardown"
)

const (
	// DefaultDeletionDeadline is how long after its deletion a ClusterManager waits
	// for clusters that are not Available. Such a cluster has been silent for
	// minutes already, and tools wait for 90 s altogether.
	DefaultDeletionDeadline = time.Minute
	// removalRetry is how often we look whether something has gone.
	removalRetry = time.Second

	// noticeRetry is how often we look whether clusters are left that lose something.
	noticeRetry = 5 * time.Second

	// reasonWorksKept is the reason of the event about works that leave on the
	// members what they delivered.
	reasonWorksKept = "WorksKept"
	// reasonGivenUp is the reason of the event about works and clusters that were
	// not waited for any longer.
	reasonGivenUp = "GivenUp"
	// reasonLeftBehind is the reason of the event about a hub that could not be
	// reached.
	reasonLeftBehind = "HubResourcesLeftBehind"
)

// hubRemoval has the phases that remove a hub.
type hubRemoval struct{ *operatorClusters }

// skipWithoutHub leaves a phase out if nothing is to be removed from the hub.
func skipWithoutHub(phase func(context.Context, *clusterManagerPass) error) func(context.Context, *clusterManagerPass) error {
	return func(ctx context.Context, p *clusterManagerPass) error {
		if p.target == nil {
			return nil
		}
		return phase(ctx, p)
	}
}

// newWaitError ends an installation that has to go on once something has come.
func newWaitError(reason, what string) error {
	return install.WaitError{Reason: reason, Message: what, After: waitRetry}
}

// remainingError ends a removal that has to go on once something has gone.
func remainingError(what string) error {
	return install.WaitError{Message: what, After: removalRetry}
}

// deletionDeadline returns the time after which clusters that are not Available are not
// waited for, and how long after the deletion that is.
func deletionDeadline(cm *operatorv1.ClusterManager) (time.Time, time.Duration) {
	wait, err := time.ParseDuration(cm.Annotations[operatorv1.AnnotationDeletionDeadline])
	if err != nil || wait < 0 {
		wait = DefaultDeletionDeadline
	}
	return cm.DeletionTimestamp.Add(wait), wait
}

func (r *hubRemoval) pastDeadline(cm *operatorv1.ClusterManager) bool {
	at, _ := deletionDeadline(cm)
	return !r.Clock.Now().Before(at)
}

// notifyOfLoss tells what joined clusters are about to lose, and waits: who deletes a
// hub by mistake cannot take that back, but can still keep what runs.
func (r *hubRemoval) notifyOfLoss(ctx context.Context, p *clusterManagerPass) error {
	period := teardown.GracePeriodOf(p.Object)
	left := period.End.Sub(r.Clock.Now())
	if left <= 0 || r.Options.KeepCRDs || teardown.KeepsWorks(p.Object) {
		return nil
	}
	loss, err := teardown.CountHubLoss(ctx, p.target.Live)
	if err != nil || loss.Clusters == 0 {
		return err
	}
	told := meta.FindStatusCondition(p.Before.Status.Conditions, operatorv1.ClusterManagerConditionDeleting)
	if told == nil || told.Reason != operatorv1.ClusterManagerReasonClustersLoseWorks {
		install.RecordRemovalWarning(r.Events, p.Object, operatorv1.ClusterManagerReasonClustersLoseWorks, loss.DescribeLoss(period))
	}
	return install.WaitError{Message: loss.DescribeLoss(period), After: min(left, noticeRetry)}
}

// orphanWorks makes the members keep what works delivered, if the user wants that,
// as long as the works are not being deleted.
func (r *hubRemoval) orphanWorks(ctx context.Context, p *clusterManagerPass) error {
	if r.Options.KeepCRDs || !teardown.KeepsWorks(p.Object) {
		return nil
	}
	if defined, err := r.isDefinitionOurs(ctx, p, worksDefinition); err != nil || !defined {
		return err
	}
	if err := r.removeWebhooksEarly(ctx, p); err != nil {
		return err
	}
	templates, err := teardown.OrphanTemplates(ctx, p.target)
	if err != nil {
		return err
	}
	if templates > 0 { // their controller has to see it before the works are changed
		return remainingError(fmt.Sprintf("%d ManifestWorkReplicaSets are changed so that their works leave on the members what they delivered", templates))
	}
	if err := r.orphanBindings(ctx, p); err != nil {
		return err
	}
	count, err := teardown.OrphanWorks(ctx, p.target)
	if err == nil && count > 0 {
		r.Events.Eventf(p.Object, nil, corev1.EventTypeNormal, reasonWorksKept, install.ActionRemove,
			"%d ManifestWorks leave on their members what they delivered", count)
	}
	return err
}

// orphanBindings does so for works that bindings make.
func (r *hubRemoval) orphanBindings(ctx context.Context, p *clusterManagerPass) error {
	if defined, err := r.isDefinitionOurs(ctx, p, policiesDefinition); err != nil || !defined {
		return err
	}
	changed, err := teardown.OrphanBindings(ctx, p.target)
	if err == nil && changed > 0 {
		err = remainingError(fmt.Sprintf("%d policies and bindings are changed so that their works leave on the members what they delivered", changed))
	}
	return err
}

// isDefinitionOurs reports whether a definition is there that is ours and that nobody has
// deleted.
func (r *hubRemoval) isDefinitionOurs(ctx context.Context, p *clusterManagerPass, name string) (bool, error) {
	live := definitions.DefinitionMetadata()
	err := p.target.Live.Get(ctx, client.ObjectKey{Name: name}, live)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading CustomResourceDefinition %q: %w", name, err)
	}
	return isOwnedBy(live, p.Object.Name) && live.DeletionTimestamp.IsZero(), nil
}

// removeAPI removes what leads requests to the aggregated API server.
func (r *hubRemoval) removeAPI(ctx context.Context, p *clusterManagerPass) error {
	return aggregation.RemoveAPIServices(ctx, p.target, p.hub)
}

// removeInstalled removes everything but namespaces: first what would refuse
// others their changes, then those who work on the hub, then what lets them.
func (r *hubRemoval) removeInstalled(ctx context.Context, p *clusterManagerPass) error {
	r.expiries.ReplaceOwner(p.hub.Name, nil)
	if err := podMonitorRequest(r.operatorClusters, p).RemoveMonitors(ctx, r.management); err != nil {
		return err
	}
	if p.target != nil && p.target != r.management {
		if err := removeWebhookConfigs(ctx, p); err != nil {
			return err
		}
	}
	if _, err := r.management.Applier.Prune(ctx, render.PruneScope{Kinds: homeKinds(p.home), Labels: p.hub.OwnerLabels()}, nil); err != nil {
		return err
	}
	if p.target == nil {
		return nil
	}
	if p.target != r.management {
		if _, err := p.target.Applier.Prune(ctx, render.PruneScope{Kinds: hubKinds(), Labels: p.hub.OwnerLabels()}, nil); err != nil {
			return err
		}
	}
	if err := (fence.TemplatesFence{}).RemoveFence(ctx, p.target.Client); err != nil {
		return err
	}
	return p.target.Named.RemoveLabelled(ctx, p.hub.OwnerLabels(), slices.Concat(
		manifests.AgentGuards(p.hub), manifests.PriorityObjects(p.hub), manifests.ConnectionGuard(p.hub), manifests.DeletionProtection(p.hub))...)
}

// removeHubNamespace removes the namespace on a hub that the operator does not
// run on. If it does nevertheless, as the secret leads to its own cluster, the
// namespace goes later: it has the secret that this removal needs.
func (r *hubRemoval) removeHubNamespace(ctx context.Context, p *clusterManagerPass) error {
	if p.target == r.management {
		return nil
	}
	there, err := p.target.GetNamespace(ctx, p.hub.Namespace())
	if err != nil || there == nil {
		return err
	}
	here, err := r.management.GetNamespace(ctx, p.hub.Namespace())
	if err != nil || here != nil && here.UID == there.UID {
		return err
	}
	return r.removeNamespace(ctx, p, p.target)
}

// removeHomeNamespace removes the one that the pods run in.
func (r *hubRemoval) removeHomeNamespace(ctx context.Context, p *clusterManagerPass) error {
	return r.removeNamespace(ctx, p, r.management)
}

// removeNamespace removes the namespace of the hub with what is left in it, and
// waits for its end, but not beyond the deadline: nothing that we could do
// would speed it up.
func (r *hubRemoval) removeNamespace(ctx context.Context, p *clusterManagerPass, where *install.Target) error {
	name := p.hub.Namespace()
	namespace, err := where.GetNamespace(ctx, name)
	if err != nil || namespace == nil || !isOwnedBy(namespace, p.Object.Name) {
		return err
	}
	if err := where.DeleteNamespace(ctx, namespace); err != nil || r.pastDeadline(p.Object) {
		return err
	}
	return remainingError(fmt.Sprintf("namespace %q is being deleted", name))
}
