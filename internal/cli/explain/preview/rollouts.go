// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/internal/cli/hub"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/propagation/forecast"
	"github.com/capstan-io/capstan/internal/propagation/staged"
)

// stagedRollout is a rollout that has changes reach clusters group by group.
type stagedRollout interface {
	fleetv1alpha1.Rollout
	client.Object
}

// readRollouts reads those that may be about the objects, the oldest first. A hub that
// has none gets along without.
func (r Reader) readRollouts(ctx context.Context, f *previewFacts) error {
	const consequence = "whether clusters would get the change group by group is not shown here"
	wide, err := hub.ListAllPages(ctx, r.Client, func(l *fleetv1alpha1.ClusterPropagationRolloutList) []fleetv1alpha1.ClusterPropagationRollout {
		return l.Items
	})
	if err := f.recordForbidden(ifServed(err), "ClusterPropagationRollouts", consequence); err != nil {
		return err
	}
	for i := range wide {
		f.staged = append(f.staged, &wide[i])
	}
	for _, namespace := range f.subjectNamespaces() {
		own, err := hub.ListAllPages(ctx, r.Client, func(l *fleetv1alpha1.PropagationRolloutList) []fleetv1alpha1.PropagationRollout { return l.Items }, client.InNamespace(namespace))
		if err := f.recordForbidden(ifServed(err), ofNamespace("PropagationRollouts", namespace), consequence); err != nil {
			return err
		}
		for i := range own {
			f.staged = append(f.staged, &own[i])
		}
	}
	slices.SortFunc(f.staged, func(a, b stagedRollout) int {
		return cmp.Or(a.GetCreationTimestamp().Compare(b.GetCreationTimestamp().Time), cmp.Compare(a.GetName(), b.GetName()))
	})
	return nil
}

// ifServed returns an error, but for that of a hub that does not know the kind.
func ifServed(err error) error {
	if meta.IsNoMatchError(err) || apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// findRollout returns the one by which a change of an object goes, nil if there is none:
// one of the object goes before one of the policy that would send it.
func (f *previewFacts) findRollout(k objectKey, policy policyv1alpha1.Policy) stagedRollout {
	var ofPolicy stagedRollout
	for _, one := range f.staged {
		spec := one.RolloutSpec()
		switch {
		case spec.Template != nil:
			kind := schema.FromAPIVersionAndKind(spec.Template.APIVersion, spec.Template.Kind).GroupKind()
			if kind == k.kind.GroupKind() && one.GetNamespace() == k.namespace && spec.Template.Name == k.name {
				return one
			}
		case spec.Policy != nil && ofPolicy == nil && one.GetNamespace() == policy.GetNamespace() && spec.Policy.Name == policy.GetName():
			ofPolicy = one
		}
	}
	return ofPolicy
}

// addRolloutNote notes by which rollout clusters get a change group by group. Replicas follow
// at once, and so does what no policy sends any more.
func (f *previewFacts) addRolloutNote(told *objectPreview, k objectKey, outcome forecast.ObjectForecast) {
	if outcome.Then == nil {
		return
	}
	by := f.findRollout(k, outcome.Then)
	if by == nil {
		return
	}
	plan, mistakes := staged.CompilePlan(by.RolloutSpec())
	groups, leave := f.rolloutGroups(plan, told.Clusters)
	if len(groups) == 0 {
		return
	}
	kind := "PropagationRollout"
	argument := by.GetName() + " -n " + by.GetNamespace()
	if by.GetNamespace() == "" {
		kind, argument = "ClusterPropagationRollout", by.GetName()+" --cluster-scoped"
	}
	told.Rollout = qualifiedName(kind, by.GetNamespace(), by.GetName())
	note := fmt.Sprintf("%s rolls it out group by group: %s.", told.Rollout, strings.Join(groups, ", then "))
	if leave {
		note += " Clusters that lose it keep it until then."
	}
	switch {
	case len(mistakes) > 0:
		note += " No cluster gets it until the rollout is fixed."
	case plan.Paused:
		note += " It is paused: no cluster gets it until it is resumed."
	}
	told.Notes = append(told.Notes, fmt.Sprintf("%s \"capstan rollout status %s\" shows its progress.", note, argument))
}

// rolloutGroups are the groups with clusters that get something else, in the order of their
// turns. leave says that other clusters lose what they have.
func (f *previewFacts) rolloutGroups(plan staged.Plan, clusters []clusterPreview) (groups []string, leave bool) {
	names := map[int]string{}
	sizes := map[int]int{}
	for _, c := range clusters {
		switch {
		case c.Change == forecast.Lost:
			leave = true
		case c.Change == forecast.Gained || c.Change == forecast.Changed && c.other:
			member, known := f.world.Fleet.ClusterNamed(c.Name)
			if !known {
				member = view.Cluster{Name: c.Name}
			}
			n, group := plan.GroupOfCluster(member)
			names[n] = cmp.Or(group, "all others")
			sizes[n]++
		}
	}
	for _, n := range slices.Sorted(maps.Keys(names)) {
		groups = append(groups, fmt.Sprintf("%s (%s)", names[n], countNoun(sizes[n], "cluster", "clusters")))
	}
	return groups, leave
}
