// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package binding

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/internal/cluster/affinity"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/scheduling/division"
	"github.com/capstan-io/capstan/internal/scheduling/scheduler"
	"github.com/capstan-io/capstan/internal/scheduling/selection"
)

// CompiledPlacement is a Placement that was found to be right. It does not change, and
// may be used from several goroutines.
type CompiledPlacement struct {
	groups   []affinityGroup // at least one
	strategy division.Strategy
	weights  []affinityWeight
	// clusters and spread are how many clusters and groups of them are chosen, by
	// topology.
	clusters   selection.Bounds
	spread     []selection.GroupConstraint
	topologies []scheduler.Topology
}

// affinityGroup is clusters that may be chosen together.
type affinityGroup struct {
	name string // "" unless it is of clusterAffinities
	// tiers select the clusters: those of the first are used first.
	tiers   []affinity.Affinity
	request scheduler.ClusterRequest
}

// affinityWeight is that of the clusters which an affinity selects.
type affinityWeight struct {
	clusters affinity.Affinity
	weight   int64
}

// CompilePlacement reads a Placement; nil is all clusters, each with all replicas. Every
// error is the user's, and names the field below spec.placement.
func CompilePlacement(placement *policyv1alpha1.Placement) (CompiledPlacement, field.ErrorList) {
	if placement == nil {
		placement = &policyv1alpha1.Placement{}
	}
	path := field.NewPath("spec", "placement")
	if problems := affinity.CheckPlacement(placement, path); len(problems) > 0 {
		return CompiledPlacement{}, problems
	}
	var c CompiledPlacement
	problems := c.readScheduling(placement.ReplicaScheduling, path.Child("replicaScheduling"))
	problems = append(problems, c.readSpread(placement.SpreadConstraints, path.Child("spreadConstraints"))...)
	return c, append(problems, c.readGroups(placement, path)...)
}

// readScheduling reads how replicas are divided.
func (c *CompiledPlacement) readScheduling(s *policyv1alpha1.ReplicaSchedulingStrategy, path *field.Path) field.ErrorList {
	c.strategy = division.Duplicated
	if s == nil {
		return nil
	}
	switch s.ReplicaSchedulingType {
	case policyv1alpha1.ReplicaSchedulingTypeDuplicated:
		return nil
	case policyv1alpha1.ReplicaSchedulingTypeDivided, "":
	default:
		return field.ErrorList{field.NotSupported(path.Child("replicaSchedulingType"), s.ReplicaSchedulingType,
			[]policyv1alpha1.ReplicaSchedulingType{policyv1alpha1.ReplicaSchedulingTypeDuplicated, policyv1alpha1.ReplicaSchedulingTypeDivided})}
	}
	switch s.ReplicaDivisionPreference {
	case policyv1alpha1.ReplicaDivisionPreferenceAggregated:
		c.strategy = division.Aggregated
		return nil
	case policyv1alpha1.ReplicaDivisionPreferenceWeighted, "":
		return c.readWeights(s.WeightPreference, path.Child("weightPreference"))
	default:
		return field.ErrorList{field.NotSupported(path.Child("replicaDivisionPreference"), s.ReplicaDivisionPreference,
			[]policyv1alpha1.ReplicaDivisionPreference{policyv1alpha1.ReplicaDivisionPreferenceAggregated, policyv1alpha1.ReplicaDivisionPreferenceWeighted})}
	}
}

// readWeights reads the weights of clusters. Without any all weigh the same.
func (c *CompiledPlacement) readWeights(preferences *policyv1alpha1.ClusterPreferences, path *field.Path) field.ErrorList {
	c.strategy = division.StaticWeight
	if preferences == nil {
		return nil
	}
	switch preferences.DynamicWeight {
	case "":
	case policyv1alpha1.DynamicWeightByAvailableReplicas:
		c.strategy = division.DynamicWeight
		return nil
	default:
		return field.ErrorList{field.NotSupported(path.Child("dynamicWeight"), preferences.DynamicWeight,
			[]policyv1alpha1.DynamicWeightFactor{policyv1alpha1.DynamicWeightByAvailableReplicas})}
	}
	var problems field.ErrorList
	for i := range preferences.StaticWeightList {
		rule := &preferences.StaticWeightList[i]
		at := path.Child("staticWeightList").Index(i)
		clusters, errs := affinity.CompileAffinity(&rule.TargetCluster, at.Child("targetCluster"))
		problems = append(problems, errs...)
		if rule.Weight < 0 {
			problems = append(problems, field.Invalid(at.Child("weight"), rule.Weight, "must not be negative"))
		}
		c.weights = append(c.weights, affinityWeight{clusters, rule.Weight})
	}
	return problems
}

// weightOf returns the greatest weight of a cluster, 0 if no rule is for it.
func (c *CompiledPlacement) weightOf(cluster *view.Cluster) int64 {
	var greatest int64
	for _, w := range c.weights {
		if w.weight > greatest && w.clusters.SelectsCluster(cluster) {
			greatest = w.weight
		}
	}
	return greatest
}

// byRoom reports whether replicas go where there is room for them.
func (c *CompiledPlacement) byRoom() bool {
	return c.strategy == division.DynamicWeight || c.strategy == division.Aggregated
}

// readSpread reads the spread constraints. Static weights ignore them.
func (c *CompiledPlacement) readSpread(constraints []policyv1alpha1.SpreadConstraint, path *field.Path) field.ErrorList {
	var problems field.ErrorList
	for i, constraint := range constraints {
		at := path.Index(i)
		bounds := selection.Bounds{Min: constraint.MinGroups, Max: constraint.MaxGroups}
		switch {
		case bounds.Min < 0:
			problems = append(problems, field.Invalid(at.Child("minGroups"), bounds.Min, "must not be negative"))
		case bounds.Max < 0 || bounds.Max > 0 && bounds.Max < bounds.Min:
			problems = append(problems, field.Invalid(at.Child("maxGroups"), bounds.Max, "must be at least minGroups, or 0 for no limit"))
		}
		topology := scheduler.Topology{Label: constraint.SpreadByLabel}
		switch constraint.SpreadByField {
		case policyv1alpha1.SpreadByCluster:
			if c.strategy != division.StaticWeight {
				c.clusters = bounds
			}
			continue
		case policyv1alpha1.SpreadByRegion:
			topology = scheduler.Topology{Field: scheduler.FieldRegion}
		case policyv1alpha1.SpreadByZone:
			topology = scheduler.Topology{Field: scheduler.FieldZone}
		case policyv1alpha1.SpreadByProvider:
			topology = scheduler.Topology{Field: scheduler.FieldProvider}
		case "":
			if constraint.SpreadByLabel == "" {
				problems = append(problems, field.Required(at.Child("spreadByField"), "set spreadByField or spreadByLabel"))
			}
		default:
			problems = append(problems, field.NotSupported(at.Child("spreadByField"), constraint.SpreadByField, []policyv1alpha1.SpreadFieldValue{
				policyv1alpha1.SpreadByCluster, policyv1alpha1.SpreadByRegion, policyv1alpha1.SpreadByZone, policyv1alpha1.SpreadByProvider,
			}))
		}
		if c.strategy != division.StaticWeight {
			c.topologies = append(c.topologies, topology)
			c.spread = append(c.spread, selection.GroupConstraint{Bounds: bounds, Topology: topology.String()})
		}
	}
	return problems
}

// readGroups reads the affinities. Whoever has none may use all clusters.
func (c *CompiledPlacement) readGroups(placement *policyv1alpha1.Placement, path *field.Path) field.ErrorList {
	single, problems := affinity.CompileAffinity(placement.ClusterAffinity, path.Child("clusterAffinity"))
	for i := range placement.ClusterAffinities {
		term := &placement.ClusterAffinities[i]
		at := path.Child("clusterAffinities").Index(i)
		first, errs := affinity.CompileAffinity(&term.ClusterAffinity, at)
		problems = append(problems, errs...)
		g := affinityGroup{name: term.AffinityName, tiers: []affinity.Affinity{first}}
		for k := range term.OverflowAffinities {
			next, errs := affinity.CompileAffinity(&term.OverflowAffinities[k].ClusterAffinity, at.Child("overflowAffinities").Index(k))
			problems = append(problems, errs...)
			g.tiers = append(g.tiers, next)
		}
		c.groups = append(c.groups, g)
	}
	if len(c.groups) == 0 {
		c.groups = []affinityGroup{{tiers: []affinity.Affinity{single}}}
	}
	tolerations := tolerationsOf(placement.ClusterTolerations, path.Child("clusterTolerations"))
	for i := range c.groups {
		request, errs := scheduler.CompileBinding(scheduler.BindingSpec{
			Affinities: c.groups[i].tiers, Tolerations: tolerations, Topologies: c.topologies,
		})
		c.groups[i].request = request
		if i == 0 { // the tolerations are the same for all
			problems = append(problems, errs...)
		}
	}
	return problems
}

// tolerationsOf reads tolerations, whose taints are stored with other effects.
func tolerationsOf(list []corev1.Toleration, path *field.Path) []scheduler.Toleration {
	var tolerations []scheduler.Toleration
	for i, t := range list {
		tolerations = append(tolerations, scheduler.Toleration{
			Path: path.Index(i), Key: t.Key, Value: t.Value, Operator: scheduler.Operator(t.Operator), Effect: effectOf(t.Effect),
		})
	}
	return tolerations
}

func effectOf(effect corev1.TaintEffect) view.Effect {
	switch effect {
	case corev1.TaintEffectNoExecute:
		return view.NoSelect
	case corev1.TaintEffectNoSchedule:
		return view.NoSelectIfNew
	case corev1.TaintEffectPreferNoSchedule:
		return view.PreferNoSelect
	default:
		return view.Effect(effect)
	}
}

// firstGroupIndex returns the place of the group to begin with: the one that the clusters
// are from, unless they are to be chosen anew.
func (c *CompiledPlacement) firstGroupIndex(observed string, fresh bool) int {
	for i := range c.groups {
		if !fresh && observed != "" && c.groups[i].name == observed {
			return i
		}
	}
	return 0
}

// tierOfCluster returns the place of the first affinity that selects a cluster.
func (g *affinityGroup) tierOfCluster(cluster *view.Cluster) int {
	for n := range g.tiers {
		if g.tiers[n].SelectsCluster(cluster) {
			return n
		}
	}
	return len(g.tiers)
}
