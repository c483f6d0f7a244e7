// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/config"
	"github.com/capstan-io/capstan/test/internal/fleet"
)

// policyHub is a hub whose policies send objects to clusters.
type policyHub struct {
	fleet      *fleet.Fleet
	client     client.WithWatch
	works      *delivery
	controller *fleet.Process // nil while it does not run
}

// start starts the controller with feature gates, which Down stops.
func (h *policyHub) start(ctx context.Context, gates ...string) (err error) {
	args := []string{
		config.PropagationController, "--disable-leader-election", "--health-probe-port=0", "--metrics-port=0",
		"--kubeconfig=" + h.fleet.Path(config.PropagationController+".kubeconfig"),
	}
	if len(gates) > 0 {
		args = append(args, "--feature-gates="+strings.Join(gates, ","))
	}
	h.controller, err = h.fleet.Start(ctx, config.PropagationController, args...)
	if err != nil {
		return err
	}
	h.fleet.Agents = append(h.fleet.Agents, h.controller)
	return nil
}

// stop stops the controller, if it runs.
func (h *policyHub) stop() {
	if h.controller != nil {
		h.controller.Stop()
		h.fleet.Agents = slices.DeleteFunc(h.fleet.Agents, func(p *fleet.Process) bool { return p == h.controller })
		h.controller = nil
	}
}

// round is templates of one policy.
type round struct {
	name      string
	kind      schema.GroupVersionKind
	templates []client.Object
}

// newRound returns templates that are not there yet.
func (h *policyHub) newRound(n int, template func(name string) client.Object) round {
	r := round{name: fmt.Sprintf("p%d", h.works.next())}
	for i := range n {
		object := template(fmt.Sprintf("%s-%04d", r.name, i))
		object.SetNamespace(worksNamespace)
		object.SetLabels(map[string]string{roundLabel: r.name})
		r.kind = object.GetObjectKind().GroupVersionKind() // which the answer to the creation lacks
		r.templates = append(r.templates, object)
	}
	return r
}

// labelled selects the templates, sent their bindings and works.
func (r round) labelled() client.MatchingLabels { return client.MatchingLabels{roundLabel: r.name} }

func (r round) sent() client.MatchingLabels {
	return client.MatchingLabels{policyv1alpha1.LabelPropagationPolicyID: r.name}
}

// deploymentTemplate returns a Deployment.
func deploymentTemplate(name string) client.Object {
	labels := map[string]string{"app": name}
	return &appsv1.Deployment{
		TypeMeta: metav1.TypeMeta{APIVersion: appsv1.SchemeGroupVersion.String(), Kind: "Deployment"}, ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(2)), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{Containers: []corev1.Container{{
					Name: "web", Image: "registry.example.org/web:1", Ports: []corev1.ContainerPort{{ContainerPort: 8080}},
				}}},
			},
		},
	}
}

// configMapTemplate returns a ConfigMap with 1 KiB.
func configMapTemplate(name string) client.Object {
	return configMap(worksNamespace, name, "0", probePayloadBytes)
}

// bindingName is that of the binding of a Deployment.
func bindingName(template string) string { return template + "-deployment" }

// everywhere is a placement on all clusters that have an agent, onClusters on some.
func everywhere() policyv1alpha1.Placement { return onClusters(clusterNames(0, propagateClusters)) }

func onClusters(names []string) policyv1alpha1.Placement {
	return policyv1alpha1.Placement{ClusterAffinity: &policyv1alpha1.ClusterAffinity{ClusterNames: names}}
}

func clusterNames(from, to int) []string {
	var names []string
	for i := from; i < to; i++ {
		names = append(names, clusterName(i))
	}
	return names
}

func mergePatch(format string, args ...any) client.Patch {
	return client.RawPatch(types.MergePatchType, fmt.Appendf(nil, format, args...))
}

func (h *policyHub) createTemplates(ctx context.Context, r round) error {
	return parallel(ctx, len(r.templates), func(ctx context.Context, i int) error {
		return h.client.Create(ctx, r.templates[i])
	})
}

// createPolicy creates the policy for the templates, as admission would make it.
func (h *policyHub) createPolicy(ctx context.Context, r round, placement policyv1alpha1.Placement) error {
	return h.client.Create(ctx, &policyv1alpha1.PropagationPolicy{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: worksNamespace, Name: r.name, Labels: r.sent(), Finalizers: []string{policyv1alpha1.FinalizerPropagationPolicy},
		},
		Spec: policyv1alpha1.PropagationSpec{
			ResourceSelectors: []policyv1alpha1.ResourceSelector{{
				APIVersion: r.kind.GroupVersion().String(), Kind: r.kind.Kind, LabelSelector: &metav1.LabelSelector{MatchLabels: r.labelled()},
			}},
			Placement: placement,
		},
	})
}

func (h *policyHub) changePolicy(ctx context.Context, r round, placement policyv1alpha1.Placement) error {
	text, err := json.Marshal(placement)
	if err != nil {
		return err
	}
	policy := &policyv1alpha1.PropagationPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: worksNamespace, Name: r.name}}
	return h.client.Patch(ctx, policy, mergePatch(`{"spec":{"placement":%s}}`, text))
}

// propagated sends the templates to clusters, and waits until they are there.
func (h *policyHub) propagated(ctx context.Context, r round, placement policyv1alpha1.Placement) error {
	if err := h.createTemplates(ctx, r); err != nil {
		return err
	}
	_, err := h.untilBindings(ctx, r, workv1alpha2.BindingConditionFullyApplied, func() error { return h.createPolicy(ctx, r, placement) })
	return err
}

// untilBindings does something and returns how long it took until the condition of
// all bindings was True.
func (h *policyHub) untilBindings(ctx context.Context, r round, condition string, do func() error) (time.Duration, error) {
	seen, err := open[*workv1alpha2.ResourceBinding](ctx, h.client, &workv1alpha2.ResourceBindingList{}, client.InNamespace(worksNamespace), r.sent())
	if err != nil {
		return 0, err
	}
	defer seen.close()
	good := map[string]bool{}
	all := seen.later(ctx, func(_ watch.EventType, binding *workv1alpha2.ResourceBinding) bool {
		c := meta.FindStatusCondition(binding.Status.Conditions, condition)
		if c != nil && c.Status == metav1.ConditionTrue && c.ObservedGeneration == binding.Generation {
			good[binding.Name] = true
		}
		return len(good) == len(r.templates)
	})
	started := time.Now()
	if err := do(); err != nil {
		return 0, err
	}
	last := <-all
	if last.err != nil {
		return 0, fmt.Errorf("%d of %d bindings are %s: %w", len(good), len(r.templates), condition, last.err)
	}
	return last.at.Sub(started), nil
}

// untilMoved does something and returns how long it took until all works were on
// these clusters and nowhere else.
func (h *policyHub) untilMoved(ctx context.Context, r round, to []string, do func() error) (time.Duration, error) {
	seen, err := open[*workv1.ManifestWork](ctx, h.client, &workv1.ManifestWorkList{}, r.sent())
	if err != nil {
		return 0, err
	}
	defer seen.close()
	wanted := map[string]bool{}
	for _, name := range to {
		wanted[name] = true
	}
	there, elsewhere := map[client.ObjectKey]bool{}, map[client.ObjectKey]bool{}
	all := seen.later(ctx, func(event watch.EventType, work *workv1.ManifestWork) bool {
		key := client.ObjectKeyFromObject(work)
		switch {
		case wanted[work.Namespace]:
			there[key] = there[key] || reported(work)
		case event == watch.Deleted:
			delete(elsewhere, key)
		default:
			elsewhere[key] = true
		}
		return len(elsewhere) == 0 && allTrue(there, len(to)*len(r.templates))
	})
	started := time.Now()
	if err := do(); err != nil {
		return 0, err
	}
	last := <-all
	if last.err != nil {
		return 0, fmt.Errorf("%d works are on the new clusters and %d on others: %w", len(there), len(elsewhere), last.err)
	}
	return last.at.Sub(started), nil
}

func allTrue(of map[client.ObjectKey]bool, n int) bool {
	if len(of) < n {
		return false
	}
	for _, is := range of {
		if !is {
			return false
		}
	}
	return true
}

// removed deletes the templates, returns how long it took until their bindings and
// so many works were gone, and deletes the policy.
func (h *policyHub) removed(ctx context.Context, r round, works int) (time.Duration, error) {
	bindingsSeen, err := open[*workv1alpha2.ResourceBinding](ctx, h.client, &workv1alpha2.ResourceBindingList{}, client.InNamespace(worksNamespace), r.sent())
	if err != nil {
		return 0, err
	}
	defer bindingsSeen.close()
	worksSeen, err := open[*workv1.ManifestWork](ctx, h.client, &workv1.ManifestWorkList{}, r.sent())
	if err != nil {
		return 0, err
	}
	defer worksSeen.close()
	bindingsGone := bindingsSeen.later(ctx, deletedTimes[*workv1alpha2.ResourceBinding](len(r.templates)))
	worksGone := worksSeen.later(ctx, deletedTimes[*workv1.ManifestWork](works))
	started := time.Now()
	err = parallel(ctx, len(r.templates), func(ctx context.Context, i int) error { return h.client.Delete(ctx, r.templates[i]) })
	if err != nil {
		return 0, err
	}
	ended := started
	for what, gone := range map[string]<-chan sight{"bindings": bindingsGone, "works": worksGone} {
		last := <-gone
		if last.err != nil {
			return 0, fmt.Errorf("waiting until the %s are gone: %w", what, last.err)
		}
		if last.at.After(ended) {
			ended = last.at
		}
	}
	return ended.Sub(started), h.removePolicy(ctx, r)
}

// deletedTimes is true when so many objects have been deleted.
func deletedTimes[T client.Object](n int) func(watch.EventType, T) bool {
	return func(event watch.EventType, _ T) bool {
		if event == watch.Deleted {
			n--
		}
		return n == 0
	}
}

func (h *policyHub) removePolicy(ctx context.Context, r round) error {
	return h.client.Delete(ctx, &policyv1alpha1.PropagationPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: worksNamespace, Name: r.name}})
}

// readyMade returns works such as the controller has made of the templates, for
// objects of other names. Nothing marks them as works of bindings. Those of an
// object are side by side.
func (h *policyHub) readyMade(ctx context.Context, r round) ([]*workv1.ManifestWork, error) {
	label := fmt.Sprintf("r%d", h.works.next())
	byTemplate := map[string][]*workv1.ManifestWork{}
	list := &workv1.ManifestWorkList{}
	if err := h.client.List(ctx, list, r.sent()); err != nil {
		return nil, err
	}
	for i := range list.Items {
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(list.Items[i].Spec.Workload.Manifests[0].Raw); err != nil {
			return nil, err
		}
		name := object.GetName()
		object.SetName(label + "-" + name)
		work := &workv1.ManifestWork{
			ObjectMeta: metav1.ObjectMeta{Namespace: list.Items[i].Namespace, Name: object.GetName(), Labels: map[string]string{roundLabel: label}},
			Spec:       list.Items[i].Spec,
		}
		work.Spec.Workload.Manifests = []workv1.Manifest{manifest(object)}
		byTemplate[name] = append(byTemplate[name], work)
	}
	var works []*workv1.ManifestWork
	for _, template := range r.templates {
		works = append(works, byTemplate[template.GetName()]...)
	}
	if len(works) == 0 {
		return nil, fmt.Errorf("the controller has made no works of policy %q", r.name)
	}
	return works, nil
}

// sentGeneration is the generation of the template that a work has, 0 if nobody
// knows.
func sentGeneration(work *workv1.ManifestWork) int64 {
	var object metav1.PartialObjectMetadata
	if err := json.Unmarshal(work.Spec.Workload.Manifests[0].Raw, &object); err != nil {
		return 0
	}
	generation, _ := strconv.ParseInt(object.Annotations[workv1alpha2.AnnotationTemplateGeneration], 10, 64)
	return generation
}

// observe says at all members of each generation of a Deployment that it was seen,
// until ctx ends. The function that is returned waits for that.
func (h *policyHub) observe(ctx context.Context) (func() error, error) {
	var group errgroup.Group
	for _, member := range h.fleet.Members {
		seen, err := open[*appsv1.Deployment](ctx, member.Client, &appsv1.DeploymentList{}, client.InNamespace(worksNamespace))
		if err != nil {
			return nil, err
		}
		group.Go(func() error {
			defer seen.close()
			return observeAt(ctx, member, seen)
		})
	}
	return group.Wait, nil
}

func observeAt(ctx context.Context, member *fleet.Cluster, seen *stream[*appsv1.Deployment]) error {
	for {
		var changed *appsv1.Deployment
		_, err := seen.await(ctx, func(event watch.EventType, d *appsv1.Deployment) bool {
			changed = d
			return event != watch.Deleted && d.Status.ObservedGeneration != d.Generation
		})
		if ctx.Err() != nil {
			return nil //nolint:nilerr // nobody asks any more
		}
		if err != nil {
			return err
		}
		err = member.Client.Status().Patch(ctx, changed, mergePatch(`{"status":{"observedGeneration":%d}}`, changed.Generation))
		if ctx.Err() == nil && client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("writing the status of Deployment %q at %s: %w", changed.Name, member.Name, err)
		}
	}
}
