// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/kube/deepcopy"
	"github.com/capstan-io/capstan/test/internal/fleet"
)

const (
	// scaleClusters are clusters without agents.
	scaleClusters = 100
	scaleLabel    = "scale"
	// bindingWorkers is how many bindings the controller looks at at a time, and so
	// the probe.
	bindingWorkers = 16
	// A controller is idle when it asked for no more than quietRequests in each of
	// quietSeconds one after the other.
	quietSeconds, quietRequests = 5, 5
)

// unserved makes the clusters without agents, the first time. The controller that
// would find them out is stopped.
func (b *propagateBench) unserved(ctx context.Context) error {
	if b.fleetMade {
		return nil
	}
	b.fleetMade = true
	b.fleet.HubProcesses[0].Stop()
	b.fleet.HubProcesses = b.fleet.HubProcesses[1:]
	if !b.joined {
		if err := b.fleet.StopControllers(ctx, b.fleet.Hub); err != nil {
			return err
		}
	}
	return parallel(ctx, scaleClusters, func(ctx context.Context, i int) error {
		cluster := &clusterv1.ManagedCluster{
			ObjectMeta: metav1.ObjectMeta{Name: placedName(i), Labels: map[string]string{scaleLabel: "true"}},
			Spec:       clusterv1.ManagedClusterSpec{HubAcceptsClient: true},
		}
		if err := b.hub.client.Create(ctx, cluster); err != nil {
			return fmt.Errorf("creating ManagedCluster %q: %w", cluster.Name, err)
		}
		before := cluster.DeepCopy()
		cluster.Status = statusOf(i)
		if err := b.hub.client.Status().Patch(ctx, cluster, client.MergeFrom(before)); err != nil {
			return fmt.Errorf("writing the status of ManagedCluster %q: %w", cluster.Name, err)
		}
		return b.hub.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: cluster.Name, Labels: map[string]string{clusterv1.LabelClusterName: cluster.Name},
		}})
	})
}

// onUnserved is a placement on clusters without agents. It tolerates the taint of
// clusters whose agent has not come.
func onUnserved() policyv1alpha1.Placement {
	return policyv1alpha1.Placement{
		ClusterAffinity: &policyv1alpha1.ClusterAffinity{
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{scaleLabel: "true"}},
		},
		ClusterTolerations: []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
	}
}

// onOneUnserved is a placement on one of them.
func onOneUnserved() policyv1alpha1.Placement {
	placement := onUnserved()
	placement.SpreadConstraints = []policyv1alpha1.SpreadConstraint{{SpreadByField: policyv1alpha1.SpreadByCluster, MinGroups: 1, MaxGroups: 1}}
	return placement
}

// dividedUnserved is a placement that divides replicas among them by their room.
func dividedUnserved() policyv1alpha1.Placement {
	placement := onUnserved()
	placement.ReplicaScheduling = &policyv1alpha1.ReplicaSchedulingStrategy{
		ReplicaSchedulingType:     policyv1alpha1.ReplicaSchedulingTypeDivided,
		ReplicaDivisionPreference: policyv1alpha1.ReplicaDivisionPreferenceWeighted,
		WeightPreference:          &policyv1alpha1.ClusterPreferences{DynamicWeight: policyv1alpha1.DynamicWeightByAvailableReplicas},
	}
	return placement
}

// decide lets the controller find many objects whose clusters have not been chosen.
func (b *propagateBench) decide(ctx context.Context) error {
	if err := b.unserved(ctx); err != nil {
		return err
	}
	n := b.options.bindings
	if err := b.decideMany(ctx, b.hub.newRound(n, configMapTemplate), onOneUnserved(), decideFigure, decideRateFigure); err != nil {
		return err
	}
	return b.decideMany(ctx, b.hub.newRound(divided(b.options), deploymentTemplate), dividedUnserved(), divideFigure, divideRateFigure)
}

// decideMany measures from the start of the controller until clusters were chosen
// for all templates. The probe is the same writes by plain clients.
func (b *propagateBench) decideMany(ctx context.Context, r round, placement policyv1alpha1.Placement, total, rate string) error {
	b.hub.stop()
	if err := b.hub.createTemplates(ctx, r); err != nil {
		return err
	}
	if err := b.hub.createPolicy(ctx, r, placement); err != nil {
		return err
	}
	n := len(r.templates)
	before, err := fleet.CountRequests(ctx, b.fleet.Hub.Kubernetes)
	if err != nil {
		return err
	}
	took, err := b.hub.untilBindings(ctx, r, workv1alpha2.BindingConditionScheduled, func() error { return b.hub.start(ctx) })
	if err != nil {
		return err
	}
	after, err := fleet.CountRequests(ctx, b.fleet.Hub.Kubernetes)
	if err != nil {
		return err
	}
	if err := writeKinds(after.Minus(before), n, b.options.profiles, "propagate-"+r.name); err != nil {
		return err
	}
	if _, _, err := b.hub.untilIdle(ctx); err != nil {
		return err
	}
	b.hub.stop()
	probe, err := b.hub.plainBindings(ctx, r)
	if err != nil {
		return fmt.Errorf("writing as much without the controller: %w", err)
	}
	b.figure(fmt.Sprintf(total, n)).add(took.Seconds(), probe.Seconds())
	b.figure(fmt.Sprintf(rate, n)).add(float64(n)/took.Seconds(), 0)
	if err := b.hub.start(ctx); err != nil {
		return err
	}
	return b.hub.cleared(ctx, r)
}

// plainBindings writes what the controller writes until clusters are chosen, and
// while it goes on with what was chosen before: each template is claimed, its
// binding is created and gets a status, and its works are created. Then everything
// is deleted.
func (h *policyHub) plainBindings(ctx context.Context, r round) (time.Duration, error) {
	example, works, err := h.example(ctx, r)
	if err != nil {
		return 0, err
	}
	probes := h.newRound(len(r.templates), func(name string) client.Object {
		object := deepcopy.CopyObject(r.templates[0])
		object.SetName(name)
		object.SetResourceVersion("")
		object.SetUID("")
		return object
	})
	for _, object := range probes.templates {
		object.SetNamespace(probeNamespace)
	}
	if err := h.createTemplates(ctx, probes); err != nil {
		return 0, err
	}
	started := time.Now()
	err = atOnce(ctx, bindingWorkers, len(probes.templates), func(ctx context.Context, i int) error {
		return h.plainBinding(ctx, probes.templates[i], probes.labelled(), example, works)
	})
	took := time.Since(started)
	if err != nil {
		return 0, err
	}
	for _, list := range []client.Object{r.templates[0], &workv1alpha2.ResourceBinding{}} {
		if err := h.client.DeleteAllOf(ctx, list, client.InNamespace(probeNamespace), probes.labelled()); err != nil {
			return 0, fmt.Errorf("deleting what was written: %w", err)
		}
	}
	for _, work := range works {
		if err := h.client.DeleteAllOf(ctx, &workv1.ManifestWork{}, client.InNamespace(work.Namespace), probes.labelled()); err != nil {
			return 0, fmt.Errorf("deleting the works that were written: %w", err)
		}
	}
	return took, nil
}

// example returns a binding of the templates and its works.
func (h *policyHub) example(ctx context.Context, r round) (*workv1alpha2.ResourceBinding, []workv1.ManifestWork, error) {
	bindings := &workv1alpha2.ResourceBindingList{}
	if err := h.client.List(ctx, bindings, client.InNamespace(worksNamespace), r.sent(), client.Limit(1)); err != nil {
		return nil, nil, err
	}
	if len(bindings.Items) == 0 {
		return nil, nil, fmt.Errorf("policy %q has no bindings", r.name)
	}
	one := &bindings.Items[0]
	works := &workv1.ManifestWorkList{}
	id := client.MatchingLabels{workv1alpha2.LabelResourceBindingID: one.Labels[workv1alpha2.LabelResourceBindingID]}
	if err := h.client.List(ctx, works, id); err != nil {
		return nil, nil, err
	}
	return one, works.Items, nil
}

// plainBinding writes what is written for one template.
func (h *policyHub) plainBinding(
	ctx context.Context, template client.Object, labels map[string]string, example *workv1alpha2.ResourceBinding, works []workv1.ManifestWork,
) error {
	claimed := deepcopy.CopyObject(template)
	if err := h.client.Patch(ctx, claimed, mergePatch(`{"metadata":{"labels":{%q:"probe"}}}`, policyv1alpha1.LabelPropagationPolicyID)); err != nil {
		return err
	}
	binding := &workv1alpha2.ResourceBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: probeNamespace, Name: template.GetName(), Labels: labels, Annotations: example.Annotations},
		Spec:       *example.Spec.DeepCopy(),
	}
	if err := h.client.Create(ctx, binding); err != nil {
		return err
	}
	before := binding.DeepCopy()
	example.Status.DeepCopyInto(&binding.Status)
	if err := h.client.Status().Patch(ctx, binding, client.MergeFrom(before)); err != nil {
		return err
	}
	for i := range works {
		work := &workv1.ManifestWork{
			ObjectMeta: metav1.ObjectMeta{Namespace: works[i].Namespace, Name: template.GetName(), Labels: labels, Annotations: unrelated(works[i].Annotations)},
			Spec:       works[i].Spec,
		}
		if err := h.client.Create(ctx, work); err != nil {
			return err
		}
	}
	return nil
}

// unrelated returns as many annotations of the same lengths, which name no binding:
// the controller looks into what became of the objects of works that name one of
// its own.
func unrelated(annotations map[string]string) map[string]string {
	others := make(map[string]string, len(annotations))
	for key, value := range annotations {
		others["x"+key[1:]] = value
	}
	return others
}

// deletedAtOnce is how many templates one request deletes: the API server ends one
// that takes longer than a minute.
const deletedAtOnce = 500

// cleared deletes the templates, lets their works go as agents would, and waits
// until no binding is left.
func (h *policyHub) cleared(ctx context.Context, r round) error {
	some := &client.DeleteAllOfOptions{ListOptions: client.ListOptions{Limit: deletedAtOnce}}
	for range len(r.templates)/deletedAtOnce + 1 {
		if err := h.client.DeleteAllOf(ctx, r.templates[0], client.InNamespace(worksNamespace), r.labelled(), some); err != nil {
			return fmt.Errorf("deleting the templates: %w", err)
		}
	}
	err := fleet.Poll(ctx, func(ctx context.Context) (bool, error) {
		works, bindings := &workv1.ManifestWorkList{}, &workv1alpha2.ResourceBindingList{}
		if err := h.client.List(ctx, works, r.sent()); err != nil {
			return false, fmt.Errorf("listing ManifestWorks: %w", err)
		}
		err := parallel(ctx, len(works.Items), func(ctx context.Context, i int) error {
			if works.Items[i].DeletionTimestamp.IsZero() {
				return nil
			}
			patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
			return client.IgnoreNotFound(h.client.Patch(ctx, &works.Items[i], patch))
		})
		if err != nil {
			return false, fmt.Errorf("letting ManifestWorks go: %w", err)
		}
		err = h.client.List(ctx, bindings, client.InNamespace(worksNamespace), r.sent(), client.Limit(1))
		if err != nil || len(works.Items)+len(bindings.Items) == 0 {
			return err == nil, err
		}
		return false, fleet.Pause(ctx, time.Second) // lists of many works keep the hub busy
	})
	if err != nil {
		return fmt.Errorf("waiting until bindings and works are gone: %w", err)
	}
	return h.removePolicy(ctx, r)
}

// restart gives a controller many bindings, and starts another in its place.
func (b *propagateBench) restart(ctx context.Context) error {
	if err := b.unserved(ctx); err != nil {
		return err
	}
	n := b.options.bindings
	empty, err := b.startedAnew(ctx)
	if err != nil {
		return err
	}
	r := b.hub.newRound(n, configMapTemplate)
	if err := b.hub.createTemplates(ctx, r); err != nil {
		return err
	}
	_, err = b.hub.untilBindings(ctx, r, workv1alpha2.BindingConditionScheduled, func() error { return b.hub.createPolicy(ctx, r, onOneUnserved()) })
	if err != nil {
		return err
	}
	if _, _, err := b.hub.untilIdle(ctx); err != nil {
		return err
	}
	full, err := b.startedAnew(ctx)
	if err != nil {
		return err
	}
	written, _ := writesOf(full.asked)
	b.figure(fmt.Sprintf(restartFigure, n)).add(full.took.Seconds(), 0)
	b.figure(fmt.Sprintf(restartWritesFigure, n)).add(written, 0)
	b.figure(fmt.Sprintf(restartAnonFigure, n)).add(full.anon, 0)
	b.figure(fmt.Sprintf(bindingMemoryFigure, n)).add((full.anon-empty.anon)/(float64(n)/1000), 0)
	return writeKinds(full.asked, n, b.options.profiles, "propagate-restart")
}

// beginning is what a controller needed until it was idle, and the memory that it
// then had, in MiB.
type beginning struct {
	took  time.Duration
	asked fleet.Requests
	anon  float64
}

// startedAnew stops the controller, starts another, and waits until it is idle.
func (b *propagateBench) startedAnew(ctx context.Context) (beginning, error) {
	b.hub.stop()
	if err := fleet.Pause(ctx, calm); err != nil {
		return beginning{}, err
	}
	if err := b.hub.start(ctx); err != nil {
		return beginning{}, err
	}
	took, asked, err := b.hub.untilIdle(ctx)
	if err != nil {
		return beginning{}, err
	}
	if err := fleet.Pause(ctx, memorySettle); err != nil {
		return beginning{}, err
	}
	used, err := b.hub.controller.Usage()
	return beginning{took: took, asked: asked, anon: used.AnonMiB}, err
}

// untilIdle waits until the hub is asked for hardly anything. It returns after how
// long that was so, and what was asked for until then.
func (h *policyHub) untilIdle(ctx context.Context) (time.Duration, fleet.Requests, error) {
	first, err := fleet.CountRequests(ctx, h.fleet.Hub.Kubernetes)
	if err != nil {
		return 0, fleet.Requests{}, err
	}
	started, last := time.Now(), first
	busy := started
	for quiet := 0; quiet < quietSeconds; {
		if err := fleet.Pause(ctx, time.Second); err != nil {
			return 0, fleet.Requests{}, err
		}
		now, err := fleet.CountRequests(ctx, h.fleet.Hub.Kubernetes)
		if err != nil {
			return 0, fleet.Requests{}, err
		}
		quiet++
		if now.Minus(last).All > quietRequests {
			quiet, busy = 0, time.Now()
		}
		last = now
	}
	return busy.Sub(started), last.Minus(first), nil
}
