// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1alpha1 "github.com/capstan-io/capstan/apis/cluster/v1alpha1"
	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	workv1alpha1 "github.com/capstan-io/capstan/apis/work/v1alpha1"
	"github.com/capstan-io/capstan/test/internal/fleet"
)

const (
	replicaSetName = "everywhere"
	// replicaWriters is how many works the controller writes at a time, and so the
	// probe.
	replicaWriters = 32
)

// replicas has a replica set make a work for each cluster, changes its template
// and deletes it. The probe is the same requests for as many works by plain
// clients. No agent takes care of the works.
func (b *placementBench) replicas(ctx context.Context) error {
	if err := b.startReplicas(ctx); err != nil {
		return err
	}
	defer b.works.Stop()
	probe := map[string]string{roundLabel: "probe"}
	plain := make([]*workv1.ManifestWork, fleetSize)
	for i := range plain {
		plain[i] = &workv1.ManifestWork{
			ObjectMeta: metav1.ObjectMeta{Namespace: placedName(i), Name: "plain", Labels: probe}, Spec: replicaTemplate("0"),
		}
	}
	each := func(do func(context.Context, *workv1.ManifestWork) error) (time.Duration, error) {
		started := time.Now()
		err := atOnce(ctx, replicaWriters, len(plain), func(ctx context.Context, i int) error { return do(ctx, plain[i]) })
		return time.Since(started), err
	}
	set := &workv1alpha1.ManifestWorkReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: worksNamespace, Name: replicaSetName}, Spec: workv1alpha1.ManifestWorkReplicaSetSpec{
			ManifestWorkTemplate: replicaTemplate("0"),
			PlacementRefs:        []workv1alpha1.LocalPlacementReference{{Name: "all", RolloutStrategy: clusterv1alpha1.RolloutStrategy{Type: clusterv1alpha1.RolloutTypeAll}}},
		},
	}
	steps := []struct {
		figure string
		plain  func(context.Context, *workv1.ManifestWork) error
		do     func() error
		good   func(watch.EventType, *workv1.ManifestWork) bool
	}{
		{
			figure: replicasFigure, good: func(watch.EventType, *workv1.ManifestWork) bool { return true },
			plain: func(ctx context.Context, w *workv1.ManifestWork) error { return b.hub.client.Create(ctx, w) },
			do:    func() error { return b.hub.client.Create(ctx, set) },
		},
		{
			figure: replicasChangedFigure, good: func(_ watch.EventType, w *workv1.ManifestWork) bool { return w.Generation > 1 },
			plain: func(ctx context.Context, w *workv1.ManifestWork) error {
				before := w.DeepCopy()
				w.Spec = replicaTemplate("1")
				return b.hub.client.Patch(ctx, w, client.MergeFrom(before))
			},
			do: func() error {
				before := set.DeepCopy()
				set.Spec.ManifestWorkTemplate = replicaTemplate("1")
				return b.hub.client.Patch(ctx, set, client.MergeFrom(before))
			},
		},
		{
			figure: replicasDeletedFigure,
			good: func(event watch.EventType, w *workv1.ManifestWork) bool {
				return event == watch.Deleted || !w.DeletionTimestamp.IsZero()
			},
			plain: func(ctx context.Context, w *workv1.ManifestWork) error { return b.hub.client.Delete(ctx, w) },
			do:    func() error { return b.hub.client.Delete(ctx, set) },
		},
	}
	for _, step := range steps {
		plainTook, err := each(step.plain)
		if err != nil {
			return fmt.Errorf("%s, by plain clients: %w", step.figure, err)
		}
		took, err := b.hub.untilWorks(ctx, step.do, step.good)
		if err != nil {
			return fmt.Errorf("%s: %w", step.figure, err)
		}
		b.figure(step.figure).add(took.Seconds(), plainTook.Seconds())
	}
	return b.hub.endWorks(ctx)
}

func replicaTemplate(value string) workv1.ManifestWorkSpec {
	return workv1.ManifestWorkSpec{Workload: workv1.ManifestsTemplate{
		Manifests: []workv1.Manifest{manifest(configMap(worksNamespace, "replica", value, probePayloadBytes))},
	}}
}

// startReplicas makes what replica sets need, and starts their controller.
func (b *placementBench) startReplicas(ctx context.Context) (err error) {
	if err := b.hub.makeClusterNamespaces(ctx); err != nil {
		return err
	}
	if err := b.hub.clear(ctx, worksNamespace); err != nil {
		return err
	}
	if _, err := b.hub.decideAll(ctx); err != nil {
		return err
	}
	b.works, err = b.fleet.Start(ctx, "work-controller", "work-controller", "--disable-leader-election", "--health-probe-port=0", "--metrics-port=0",
		"--feature-gates=ManifestWorkReplicaSet=true", "--kubeconfig="+b.fleet.Path("work-controller.kubeconfig"))
	if err != nil {
		return err
	}
	b.fleet.Agents = append(b.fleet.Agents, b.works)
	return fleet.Pause(ctx, calm)
}

// makeClusterNamespaces makes the namespaces of the clusters, once.
func (h *placementHub) makeClusterNamespaces(ctx context.Context) error {
	if h.namespaces {
		return nil
	}
	h.namespaces = true
	return parallel(ctx, fleetSize, func(ctx context.Context, i int) error {
		return h.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: placedName(i), Labels: map[string]string{clusterv1.LabelClusterName: placedName(i)},
		}})
	})
}

// untilWorks returns how long it is from a request until all works of the
// replica set are good.
func (h *placementHub) untilWorks(ctx context.Context, do func() error, good func(watch.EventType, *workv1.ManifestWork) bool) (time.Duration, error) {
	ours := client.MatchingLabels{workv1.LabelManifestWorkReplicaSet: worksNamespace + "." + replicaSetName}
	seen, err := open[*workv1.ManifestWork](ctx, h.client, &workv1.ManifestWorkList{}, ours)
	if err != nil {
		return 0, err
	}
	defer seen.close()
	done := map[string]bool{}
	all := seen.later(ctx, func(event watch.EventType, w *workv1.ManifestWork) bool {
		if good(event, w) {
			done[w.Namespace] = true
		}
		return len(done) == fleetSize
	})
	started := time.Now()
	if err := do(); err != nil {
		return 0, err
	}
	last := <-all
	if last.err != nil {
		return 0, fmt.Errorf("%d of %d works: %w", len(done), fleetSize, last.err)
	}
	return last.at.Sub(started), nil
}

// endWorks takes the finalizers from the works that are being deleted, as their
// agents would, and waits until all are gone.
func (h *placementHub) endWorks(ctx context.Context) error {
	list := &workv1.ManifestWorkList{}
	return fleet.Poll(ctx, func(ctx context.Context) (bool, error) {
		if err := h.client.List(ctx, list); err != nil {
			return false, fmt.Errorf("listing ManifestWorks: %w", err)
		}
		err := parallel(ctx, len(list.Items), func(ctx context.Context, i int) error {
			work := &list.Items[i]
			if len(work.Finalizers) == 0 {
				return nil
			}
			return client.IgnoreNotFound(h.client.Patch(ctx, work, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))))
		})
		return len(list.Items) == 0, err
	})
}

// plainPlacement is a placement that the controller leaves alone, and the
// decisions to write for it: the limit for what the controller does.
type plainPlacement struct {
	placement *clusterv1beta1.Placement
	decisions []*clusterv1beta1.PlacementDecision
}

// preparePlain creates n placements and returns them with decisions for some
// clusters each, which are not there yet.
func (h *placementHub) preparePlain(ctx context.Context, n, clusters int) ([]plainPlacement, error) {
	all := make([]plainPlacement, n)
	return all, parallel(ctx, n, func(ctx context.Context, i int) error {
		p := placement(probeNamespace, fmt.Sprintf("app-%04d", i), nil)
		p.Annotations = map[string]string{clusterv1beta1.AnnotationSchedulingDisable: "true"}
		if err := h.client.Create(ctx, p); err != nil {
			return fmt.Errorf("creating Placement %q: %w", p.Name, err)
		}
		all[i].placement = p
		for from := 0; from < clusters; from += clusterv1beta1.DecisionsMax {
			d := &clusterv1beta1.PlacementDecision{ObjectMeta: metav1.ObjectMeta{
				Namespace: p.Namespace, Name: fmt.Sprintf("%s-decision-%d", p.Name, len(all[i].decisions)+1),
				Labels: map[string]string{
					clusterv1beta1.LabelPlacement: p.Name, clusterv1beta1.LabelDecisionGroupIndex: "0", clusterv1beta1.LabelDecisionGroupName: "",
				},
			}}
			if err := controllerutil.SetControllerReference(p, d, h.client.Scheme()); err != nil {
				return fmt.Errorf("owning PlacementDecision %q: %w", d.Name, err)
			}
			for c := from; c < min(clusters, from+clusterv1beta1.DecisionsMax); c++ {
				d.Status.Decisions = append(d.Status.Decisions, clusterv1beta1.ClusterDecision{ClusterName: "plain-" + strconv.Itoa(10000+c)})
			}
			all[i].decisions = append(all[i].decisions, d)
		}
		return nil
	})
}

// writePlain writes the decisions and then says so in the placements, with as
// many requests at a time as the controller.
func (h *placementHub) writePlain(ctx context.Context, all []plainPlacement) (time.Duration, error) {
	started := time.Now()
	err := atOnce(ctx, controllerWorkers, len(all), func(ctx context.Context, i int) error {
		err := atOnce(ctx, controllerWorkers, len(all[i].decisions), func(ctx context.Context, k int) error {
			return h.writeDecision(ctx, all[i].decisions[k])
		})
		if err != nil {
			return err
		}
		return h.writeSelected(ctx, all[i])
	})
	return time.Since(started), err
}

// writeDecision creates a decision with its status, or changes the status of
// one that is there.
func (h *placementHub) writeDecision(ctx context.Context, d *clusterv1beta1.PlacementDecision) error {
	decisions := d.Status.Decisions
	if d.ResourceVersion == "" {
		if err := h.client.Create(ctx, d); err != nil {
			return fmt.Errorf("creating PlacementDecision %q: %w", d.Name, err)
		}
	} else {
		decisions = decisions[1:]
	}
	d.Status.Decisions = decisions
	if err := h.client.Status().Update(ctx, d); err != nil {
		return fmt.Errorf("writing the status of PlacementDecision %q: %w", d.Name, err)
	}
	return nil
}

// writeSelected writes the status of a placement as the controller does.
func (h *placementHub) writeSelected(ctx context.Context, plain plainPlacement) error {
	p := plain.placement
	before := p.DeepCopy()
	group := clusterv1beta1.DecisionGroupStatus{}
	for _, d := range plain.decisions {
		group.Decisions = append(group.Decisions, d.Name)
		group.ClustersCount += int32(len(d.Status.Decisions))
	}
	p.Status.NumberOfSelectedClusters = group.ClustersCount
	p.Status.DecisionGroups = []clusterv1beta1.DecisionGroupStatus{group}
	p.Status.Conditions = []metav1.Condition{
		{
			Type: clusterv1beta1.PlacementConditionSatisfied, Status: metav1.ConditionTrue, LastTransitionTime: metav1.Now(),
			Reason: clusterv1beta1.PlacementReasonAllDecisionsScheduled, Message: "As many clusters were chosen as are wanted",
		},
		{
			Type: clusterv1beta1.PlacementConditionMisconfigured, Status: metav1.ConditionFalse, LastTransitionTime: metav1.Now(),
			Reason: clusterv1beta1.PlacementReasonSucceedConfigured, Message: "The spec is right",
		},
	}
	patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
	if err := h.client.Status().Patch(ctx, p, patch); err != nil {
		return fmt.Errorf("writing the status of Placement %q: %w", p.Name, err)
	}
	return nil
}
