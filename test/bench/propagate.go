// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/test/internal/fleet"
)

const (
	// propagateClusters is how many clusters with agents there are.
	propagateClusters = 10
	// templateChanges is how often a template is changed in a run.
	templateChanges = 20
)

// The names of the figures; %d is how many objects.
const (
	deployFigure        = "%d Deployments x 10 clusters, from the policy until all bindings are FullyApplied"
	deployWritesFigure  = "%d Deployments x 10 clusters, hub writes per Deployment without Events"
	deployEventsFigure  = "%d Deployments x 10 clusters, Events written per Deployment"
	deployHubFigure     = "%d Deployments x 10 clusters, anonymous memory of the controller"
	deployAgentFigure   = "%d Deployments x 10 clusters, anonymous memory of an agent"
	karmadaWritesFigure = "%d Deployments x 10 clusters with KarmadaEvents, hub writes per Deployment without Events"
	karmadaEventsFigure = "%d Deployments x 10 clusters with KarmadaEvents, Events written per Deployment"
	undeployFigure      = "%d Deployments x 10 clusters deleted, until bindings and works are gone"
	moveFigure          = "%d Deployments move from 5 clusters to 5 others, until all works are there and gone"
	templateSentFigure  = "one change of a template, applied in 10 clusters, p50"
	templateBackFigure  = "one change of a template, its status on the template, p50"
	decideFigure        = "%d ConfigMaps to 1 of 100 clusters each, from the start of the controller until all are Scheduled"
	decideRateFigure    = "%d ConfigMaps to 1 of 100 clusters each, bindings per second"
	divideFigure        = "%d Deployments divided by dynamic weight, 100 clusters, from the start of the controller until all are Scheduled"
	divideRateFigure    = "%d Deployments divided by dynamic weight, 100 clusters, bindings per second"
	restartFigure       = "%d bindings: from the start of the controller until it asks for nothing more"
	restartWritesFigure = "%d bindings: hub writes by a restart of the controller"
	restartAnonFigure   = "%d bindings: anonymous memory of the controller"
	bindingMemoryFigure = "%d bindings: memory of the controller per 1,000 bindings"
)

// propagateFigures are what measurePropagate measures, with the goals for 2 cores.
func propagateFigures(o options) []*figure {
	var all []*figure
	add := func(f figure, n int) {
		f.Name = fmt.Sprintf(f.Name, n)
		all = append(all, &f)
	}
	for _, n := range o.deployments {
		add(figure{Name: deployFigure, Unit: "s", GoalRatio: 1.3}, n)
		add(figure{Name: deployWritesFigure, Goal: 28}, n)
		add(figure{Name: deployEventsFigure}, n)
		add(figure{Name: deployHubFigure, Unit: "MiB"}, n)
		add(figure{Name: deployAgentFigure, Unit: "MiB"}, n)
		add(figure{Name: undeployFigure, Unit: "s"}, n)
	}
	add(figure{Name: karmadaWritesFigure, Goal: 28}, o.deployments[0])
	add(figure{Name: karmadaEventsFigure}, o.deployments[0])
	add(figure{Name: moveFigure, Unit: "s"}, o.deployments[0])
	all = append(all, &figure{Name: templateSentFigure, Unit: "ms"}, &figure{Name: templateBackFigure, Unit: "ms"})
	add(figure{Name: decideFigure, Unit: "s"}, o.bindings)
	add(figure{Name: decideRateFigure, Unit: "1/s", Goal: 250}, o.bindings)
	add(figure{Name: divideFigure, Unit: "s"}, divided(o))
	add(figure{Name: divideRateFigure, Unit: "1/s", Goal: 250}, divided(o))
	add(figure{Name: restartFigure, Unit: "s", Goal: 10}, o.bindings)
	add(figure{Name: restartWritesFigure}, o.bindings)
	add(figure{Name: restartAnonFigure, Unit: "MiB"}, o.bindings)
	add(figure{Name: bindingMemoryFigure, Unit: "MiB", Goal: 2}, o.bindings)
	return all
}

// divided is how many Deployments are divided.
func divided(o options) int { return max(1, o.bindings/5) }

// propagateBench is a fleet whose hub has policies.
type propagateBench struct {
	*bench
	*report
	options   options
	hub       *policyHub
	joined    bool // the clusters with agents
	fleetMade bool // the clusters without
}

// propagateScenarios are in an order in which none disturbs those that follow:
// the last ones stop the controller of registration.
func propagateScenarios() []scenario[*propagateBench] {
	return []scenario[*propagateBench]{
		{name: "change", run: (*propagateBench).change},
		{name: "move", run: (*propagateBench).move},
		{name: "deploy", run: (*propagateBench).deploy},
		{name: "events", run: (*propagateBench).events, once: true},
		{name: "decide", run: (*propagateBench).decide},
		{name: "restart", run: (*propagateBench).restart, once: true},
	}
}

// measurePropagate lets policies send objects to clusters.
func measurePropagate(ctx context.Context, o options) (fmt.Stringer, error) {
	chosen, err := choose(propagateScenarios(), o.scenarios)
	if err != nil {
		return nil, err
	}
	o.propagation = true
	result := &report{Runs: o.runs, Figures: propagateFigures(o)}
	err = withFleet(ctx, o, false, func(ctx context.Context, f *bench) error {
		hub := &policyHub{fleet: f.fleet, client: f.fleet.Hub.Client, works: &delivery{fleet: f.fleet}}
		b := &propagateBench{bench: f, report: result, options: o, hub: hub}
		if err := makeNamespaces(ctx, f.fleet.Hub); err != nil {
			return err
		}
		return runAll(ctx, b, chosen, o)
	})
	return result, err
}

// join lets the clusters with agents join, the first time, and has the controller
// run. Then the controller managers stop: that of the hub would run the templates,
// those of the members what the templates become.
func (b *propagateBench) join(ctx context.Context) error {
	if b.hub.controller == nil {
		if err := b.hub.start(ctx); err != nil {
			return err
		}
	}
	if b.joined {
		return nil
	}
	b.joined = true
	if err := makeNamespaces(ctx, b.fleet.Members[0]); err != nil {
		return err
	}
	if _, err := b.bench.join(ctx, 1); err != nil {
		return err
	}
	if err := b.grow(ctx, propagateClusters); err != nil {
		return err
	}
	for _, cluster := range append([]*fleet.Cluster{b.fleet.Hub}, b.fleet.Members...) {
		if err := b.fleet.StopControllers(ctx, cluster); err != nil {
			return err
		}
	}
	// The namespace gets to the clusters with the first object.
	warm := b.hub.newRound(1, deploymentTemplate)
	if err := b.hub.propagated(ctx, warm, everywhere()); err != nil {
		return err
	}
	_, err := b.hub.removed(ctx, warm, propagateClusters)
	return err
}

// change changes one template after the other, and with it what all clusters have.
// At the members the driver says, as their controllers would, that it was seen. The
// probe is the same change of ten works.
func (b *propagateBench) change(ctx context.Context) error {
	if err := b.join(ctx); err != nil {
		return err
	}
	r := b.hub.newRound(propagateClusters, deploymentTemplate)
	if err := b.hub.propagated(ctx, r, everywhere()); err != nil {
		return err
	}
	ready, err := b.hub.readyMade(ctx, r)
	if err != nil {
		return err
	}
	if _, err := b.hub.works.deliver(ctx, ready); err != nil {
		return err
	}
	probes, err := b.changeWorks(ctx, ready)
	if err != nil {
		return err
	}
	observing, stop := context.WithCancel(ctx)
	defer stop()
	seen, err := b.hub.observe(observing)
	if err != nil {
		return err
	}
	sent, back, err := b.changeTemplates(ctx, r)
	stop()
	if err := errors.Join(err, seen()); err != nil {
		return err
	}
	b.figure(templateSentFigure).add(median(sent), median(probes))
	b.figure(templateBackFigure).add(median(back), median(probes))
	_, removeErr := b.hub.works.remove(ctx, ready)
	_, err = b.hub.removed(ctx, r, len(r.templates)*propagateClusters)
	return errors.Join(removeErr, err)
}

// changeTemplates returns how many milliseconds after the request all clusters had
// applied a change, and the template told that they have seen it.
func (b *propagateBench) changeTemplates(ctx context.Context, r round) (sent, back []float64, err error) {
	works, err := open[*workv1.ManifestWork](ctx, b.hub.client, &workv1.ManifestWorkList{}, r.sent())
	if err != nil {
		return nil, nil, err
	}
	defer works.close()
	templates, err := open[*appsv1.Deployment](ctx, b.hub.client, &appsv1.DeploymentList{}, client.InNamespace(worksNamespace), r.labelled())
	if err != nil {
		return nil, nil, err
	}
	defer templates.close()
	for i := range templateChanges {
		name := r.templates[i%len(r.templates)].GetName()
		template := &appsv1.Deployment{}
		if err := b.hub.client.Get(ctx, client.ObjectKey{Namespace: worksNamespace, Name: name}, template); err != nil {
			return nil, nil, err
		}
		generation := template.Generation + 1
		applied := map[string]bool{}
		atMembers := works.later(ctx, func(_ watch.EventType, work *workv1.ManifestWork) bool {
			if work.Annotations[workv1alpha2.AnnotationResourceBindingName] == bindingName(name) && reported(work) && sentGeneration(work) == generation {
				applied[work.Namespace] = true
			}
			return len(applied) == propagateClusters
		})
		atHub := templates.later(ctx, func(_ watch.EventType, d *appsv1.Deployment) bool {
			return d.Name == name && d.Status.ObservedGeneration == generation
		})
		started := time.Now()
		if err := b.hub.client.Patch(ctx, template, mergePatch(`{"spec":{"minReadySeconds":%d}}`, i+1)); err != nil {
			return nil, nil, fmt.Errorf("changing Deployment %q: %w", name, err)
		}
		members, hub := <-atMembers, <-atHub
		if err := errors.Join(members.err, hub.err); err != nil {
			return nil, nil, fmt.Errorf("change %d, seen in %d clusters: %w", i+1, len(applied), err)
		}
		sent = append(sent, milliseconds(members.at.Sub(started)))
		back = append(back, milliseconds(hub.at.Sub(started)))
	}
	return sent, back, nil
}

// changeWorks returns how many milliseconds it takes to change the works of an
// object in all clusters.
func (b *propagateBench) changeWorks(ctx context.Context, works []*workv1.ManifestWork) ([]float64, error) {
	var took []float64
	for i := range templateChanges {
		change, err := b.hub.works.untilAll(ctx, works[:propagateClusters],
			func(ctx context.Context, work *workv1.ManifestWork) error {
				manifests, err := revised(work, i+1)
				if err != nil {
					return err
				}
				return b.hub.client.Patch(ctx, work, mergePatch(`{"spec":{"workload":{"manifests":%s}}}`, manifests))
			},
			func(_ watch.EventType, work *workv1.ManifestWork) bool {
				return work.Generation == int64(i+2) && reported(work)
			})
		if err != nil {
			return nil, fmt.Errorf("changing works that were made before: %w", err)
		}
		took = append(took, milliseconds(change))
	}
	return took, nil
}

// revised returns the manifests of a work with another minReadySeconds, as JSON.
func revised(work *workv1.ManifestWork, seconds int) ([]byte, error) {
	var object map[string]any
	if err := json.Unmarshal(work.Spec.Workload.Manifests[0].Raw, &object); err != nil {
		return nil, err
	}
	spec, ok := object["spec"].(map[string]any)
	if !ok {
		return nil, fmt.Errorf("the object of ManifestWork %q has no spec", work.Name)
	}
	spec["minReadySeconds"] = seconds
	return json.Marshal([]any{object})
}
