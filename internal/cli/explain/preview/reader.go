// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"context"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/internal/cli/explain/trial"
	"github.com/capstan-io/capstan/internal/cli/hub"
	"github.com/capstan-io/capstan/internal/cli/interpreters"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/propagation/forecast"
	"github.com/capstan-io/capstan/internal/propagation/scope"
)

// Reader reads what there is to know.
type Reader struct {
	// Client knows all kinds of the hub.
	Client client.Client
	// Namespace is that of objects that do not name one.
	Namespace string
	At        time.Time
	// Beside says that the files are about something else, too, so that they may be
	// those of a hub without policies.
	Beside bool
	// Delete says that the policies of the files would be deleted, instead of applied.
	Delete bool
	// Diff asks for the differences of manifests.
	Diff bool
}

// objectKey names an object.
type objectKey struct {
	kind            schema.GroupVersionKind
	namespace, name string
}

func keyOf(object *unstructured.Unstructured) objectKey {
	return objectKey{object.GroupVersionKind(), object.GetNamespace(), object.GetName()}
}

// previewFacts are what was read.
type previewFacts struct {
	*declaredObjects

	world *forecast.HubState
	// known are who say what objects mean.
	known *interpreters.KnownInterpreters
	// candidates may be concerned; subjects are.
	candidates map[objectKey]*candidate
	subjects   []*previewSubject
	unread     []string
	// selected is how many objects each policy of the files would select, and claimed
	// how many of these it would claim.
	selected, claimed map[policyv1alpha1.Policy]int
	// notes are about policies of the files.
	notes map[policyv1alpha1.Policy][]string
	// staged are rollouts, the oldest first.
	staged []stagedRollout
}

// previewSubject is an object that is concerned.
type previewSubject struct {
	objectKey
	forecast.Subject

	// trial is nil for what is not in the files.
	trial *trial.Trial
}

// ReadPreview finds out what would become of objects. failed are the answers for those of
// the files that the hub does not take.
func (r Reader) ReadPreview(ctx context.Context, written []*unstructured.Unstructured) (found *Preview, failed []error, err error) {
	policies := schema.GroupKind{Group: policyv1alpha1.GroupName, Kind: "PropagationPolicy"}
	if _, err := r.Client.RESTMapper().RESTMapping(policies); meta.IsNoMatchError(err) {
		about := slices.ContainsFunc(written, func(o *unstructured.Unstructured) bool { return o.GroupVersionKind().Group == policies.Group })
		if r.Beside && !about {
			return &Preview{}, nil, nil
		}
		return nil, nil, notPropagating()
	} else if err != nil {
		return nil, nil, err
	}
	d, err := r.declareObjects(ctx, written)
	if err != nil {
		return nil, nil, err
	}
	known, unread, err := interpreters.ReadInterpreters(ctx, r.Client, func() time.Time { return r.At })
	if err != nil {
		return nil, nil, err
	}
	f := &previewFacts{
		declaredObjects: d, known: known, candidates: map[objectKey]*candidate{}, selected: map[policyv1alpha1.Policy]int{}, claimed: map[policyv1alpha1.Policy]int{}, notes: map[policyv1alpha1.Policy][]string{},
		world: &forecast.HubState{Chain: known.Chain(), At: r.At, Priorities: map[string]int32{}},
	}
	if unread != "" {
		f.unread = append(f.unread, unread)
	}
	f.declaredTemplates()
	for _, step := range []func(context.Context, *previewFacts) error{
		r.readClusters, r.readSelected, r.readOverridden, r.readPolicies, r.markConcerned, r.readObjects, r.readBindings, r.readPeers, r.readOverrides, r.readPriorityClasses, r.readHubScope, r.readRollouts,
	} {
		if err := step(ctx, f); err != nil {
			return nil, nil, err
		}
	}
	found, err = r.buildPreview(ctx, f)
	return found, d.failed, err
}

// recordForbidden notes that the user may not read something. Other errors are returned.
func (f *previewFacts) recordForbidden(err error, what, consequence string) error {
	if err == nil || !apierrors.IsForbidden(err) {
		return err
	}
	if text := fmt.Sprintf("%s (%s)", what, consequence); !slices.Contains(f.unread, text) {
		f.unread = append(f.unread, text)
	}
	return nil
}

// readClusters reads the fleet.
func (r Reader) readClusters(ctx context.Context, f *previewFacts) error {
	clusters, err := hub.ListAllPages(ctx, r.Client, func(l *clusterv1.ManagedClusterList) []clusterv1.ManagedCluster { return l.Items })
	if err != nil {
		f.world.Blind = true
		return f.recordForbidden(err, "ManagedClusters", "which clusters would be chosen is not shown here")
	}
	connections, err := hub.ConnectionsByName(ctx, r.Client)
	if err != nil {
		return err
	}
	all := make([]view.Cluster, 0, len(clusters))
	for i := range clusters {
		all = append(all, view.FromClusterWithRoom(&clusters[i], connections[clusters[i].Name]))
	}
	f.world.Fleet = view.NewFleet(all...)
	return nil
}

// readOverrides reads the policies that override, and lays those of the files over them.
func (r Reader) readOverrides(ctx context.Context, f *previewFacts) error {
	wide, err := hub.ListAllPages(ctx, r.Client, func(l *policyv1alpha1.ClusterOverridePolicyList) []policyv1alpha1.ClusterOverridePolicy {
		return l.Items
	})
	if err := f.recordForbidden(err, "ClusterOverridePolicies", "they do not count here"); err != nil {
		return err
	}
	f.world.Present.ClusterOverrides = wide
	f.world.Planned.ClusterOverrides = laidOver(wide, f.wide, func(a, b *policyv1alpha1.ClusterOverridePolicy) bool { return a.Name == b.Name })
	var own []policyv1alpha1.OverridePolicy
	for _, namespace := range f.subjectNamespaces() {
		some, err := hub.ListAllPages(ctx, r.Client, func(l *policyv1alpha1.OverridePolicyList) []policyv1alpha1.OverridePolicy { return l.Items }, client.InNamespace(namespace))
		if err := f.recordForbidden(err, ofNamespace("OverridePolicies", namespace), "they do not count here"); err != nil {
			return err
		}
		own = append(own, some...)
	}
	f.world.Present.Overrides = own
	f.world.Planned.Overrides = laidOver(own, f.overrides, func(a, b *policyv1alpha1.OverridePolicy) bool {
		return a.Namespace == b.Namespace && a.Name == b.Name
	})
	return nil
}

// laidOver returns the policies with those of the files in their places.
func laidOver[T any](there []T, files []changedPolicy[*T], same func(a, b *T) bool) []T {
	all := slices.DeleteFunc(slices.Clone(there), func(one T) bool {
		return slices.ContainsFunc(files, func(c changedPolicy[*T]) bool { return same(&one, c.then) })
	})
	for _, c := range files {
		if !c.trial.Gone {
			all = append(all, *c.then)
		}
	}
	return all
}

// readPriorityClasses reads the PriorityClasses that policies name.
func (r Reader) readPriorityClasses(ctx context.Context, f *previewFacts) error {
	for _, policy := range f.world.Planned.Propagation {
		asked := policy.PropagationSpec().SchedulePriority
		if asked == nil {
			continue
		}
		if _, known := f.world.Priorities[asked.PriorityClassName]; known {
			continue
		}
		class := &unstructured.Unstructured{}
		class.SetGroupVersionKind(schema.GroupVersionKind{Group: "scheduling.k8s.io", Version: "v1", Kind: "PriorityClass"})
		err := r.Client.Get(ctx, client.ObjectKey{Name: asked.PriorityClassName}, class)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err := f.recordForbidden(err, "PriorityClasses", "they are assumed to exist"); err != nil {
			return err
		}
		value, _, _ := unstructured.NestedInt64(class.Object, "value") // none is 0
		f.world.Priorities[asked.PriorityClassName] = int32(value)     //nolint:gosec // the API has 32 bits
	}
	return nil
}

// readHubScope finds out whether the hub runs what is applied to it, as the hub itself does:
// by its nodes.
func (r Reader) readHubScope(ctx context.Context, f *previewFacts) error {
	matters := func(s *previewSubject) bool {
		return s.Binding == nil && (scope.Hub{Runs: true}).OwnsKind(s.kind.GroupKind())
	}
	if !slices.ContainsFunc(f.subjects, matters) {
		return nil
	}
	nodes := &metav1.PartialObjectMetadataList{}
	nodes.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "NodeList"})
	err := r.Client.List(ctx, nodes, client.Limit(1))
	f.world.Hub = scope.Hub{Runs: len(nodes.Items) > 0}
	if err := f.recordForbidden(err, "Nodes", "the hub is assumed to run no workloads itself"); err != nil || !f.world.Hub.Runs {
		return err
	}
	labels := map[string]map[string]string{}
	for _, one := range f.templates {
		if one.Then.GetKind() == "Namespace" {
			labels[one.Then.GetName()] = one.Then.GetLabels()
		}
	}
	for _, s := range f.subjects {
		if _, known := labels[s.namespace]; !known && s.namespace != "" {
			namespace := &metav1.PartialObjectMetadata{}
			namespace.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Namespace"})
			err := client.IgnoreNotFound(r.Client.Get(ctx, client.ObjectKey{Name: s.namespace}, namespace))
			if err := f.recordForbidden(err, "Namespace "+s.namespace, "it is assumed to have no labels"); err != nil {
				return err
			}
			labels[s.namespace] = namespace.Labels
		}
		s.NamespaceLabels = labels[s.namespace]
	}
	return nil
}

// subjectNamespaces returns those of the objects that are concerned, or all as "" if they
// are many. Objects without one do not count.
func (f *previewFacts) subjectNamespaces() []string {
	var all []string
	for _, s := range f.subjects {
		if s.namespace != "" {
			all = append(all, s.namespace)
		}
	}
	slices.Sort(all)
	if all = slices.Compact(all); len(all) > fewMax {
		return []string{""}
	}
	return all
}

func ofNamespace(what, namespace string) string {
	if namespace == "" {
		return what
	}
	return what + " of namespace " + namespace
}
