// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package affinity

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/internal/cluster/view"
)

// Keys of a field selector.
const (
	keyProvider = "provider"
	keyRegion   = "region"
	keyZone     = "zone"
)

// valuesTold is how many values a message lists.
const valuesTold = 10

// Affinity is a ClusterAffinity that was found to be right. It does not change,
// and may be used from several goroutines. The zero value selects every cluster.
type Affinity struct {
	labels          labels.Selector // nil selects all
	fields          []requirement
	names, excluded []string // sorted
}

// requirement is met by a cluster whose field has one of the values or, if it
// is negated, none of them.
type requirement struct {
	key     string
	values  []string
	negated bool
}

// CompileAffinity checks a ClusterAffinity and prepares it; nil selects every cluster.
// Every error is the user's, and is about the field below path that it names.
func CompileAffinity(affinity *policyv1alpha1.ClusterAffinity, path *field.Path) (Affinity, field.ErrorList) {
	if affinity == nil {
		return Affinity{}, nil
	}
	compiled := Affinity{
		names:    slices.Sorted(slices.Values(affinity.ClusterNames)),
		excluded: slices.Sorted(slices.Values(affinity.ExcludeClusters)),
	}
	var problems field.ErrorList
	if affinity.LabelSelector != nil {
		selector, err := metav1.LabelSelectorAsSelector(affinity.LabelSelector)
		if err != nil {
			problems = append(problems, field.Invalid(path.Child("labelSelector"), metav1.FormatLabelSelector(affinity.LabelSelector), err.Error()))
			selector = labels.Nothing()
		}
		compiled.labels = selector
	}
	if affinity.FieldSelector != nil {
		for i, e := range affinity.FieldSelector.MatchExpressions {
			problems = append(problems, checkRequirement(e, path.Child("fieldSelector", "matchExpressions").Index(i))...)
			compiled.fields = append(compiled.fields, requirement{
				key: e.Key, values: e.Values, negated: e.Operator == corev1.NodeSelectorOpNotIn,
			})
		}
	}
	return compiled, problems
}

func checkRequirement(e corev1.NodeSelectorRequirement, path *field.Path) field.ErrorList {
	var problems field.ErrorList
	if keys := []string{keyProvider, keyRegion, keyZone}; !slices.Contains(keys, e.Key) {
		problems = append(problems, field.NotSupported(path.Child("key"), e.Key, keys))
	}
	if operators := []corev1.NodeSelectorOperator{corev1.NodeSelectorOpIn, corev1.NodeSelectorOpNotIn}; !slices.Contains(operators, e.Operator) {
		problems = append(problems, field.NotSupported(path.Child("operator"), e.Operator, operators))
	}
	if len(e.Values) == 0 {
		problems = append(problems, field.Required(path.Child("values"), "at least one value is needed"))
	}
	return problems
}

// MatchesCluster reports whether a ClusterAffinity selects a cluster; nil selects every
// cluster. To ask about many clusters, compile it once.
func MatchesCluster(affinity *policyv1alpha1.ClusterAffinity, cluster *view.Cluster) (bool, error) {
	compiled, problems := CompileAffinity(affinity, nil)
	if err := problems.ToAggregate(); err != nil {
		return false, err
	}
	return compiled.SelectsCluster(cluster), nil
}

// SelectsCluster reports whether the affinity selects a cluster.
func (a Affinity) SelectsCluster(cluster *view.Cluster) bool {
	if containsSorted(a.excluded, cluster.Name) || len(a.names) > 0 && !containsSorted(a.names, cluster.Name) {
		return false
	}
	if a.labels != nil && !a.labels.Matches(labels.Set(cluster.Labels)) {
		return false
	}
	for _, r := range a.fields {
		if !r.isMetBy(cluster) {
			return false
		}
	}
	return true
}

// ExplainMismatch says why the affinity does not select a cluster, such as "its
// region is \"eu\", not one of us". It is "" if the affinity selects it. What the hub
// knows from the cluster alone is called the cluster's own word.
func (a Affinity) ExplainMismatch(cluster *view.Cluster) string {
	if containsSorted(a.excluded, cluster.Name) {
		return "it is excluded by name"
	}
	if len(a.names) > 0 && !containsSorted(a.names, cluster.Name) {
		return "its name is not one of " + listFirstValues(a.names)
	}
	if a.labels != nil && !a.labels.Matches(labels.Set(cluster.Labels)) {
		return fmt.Sprintf("its labels do not match %q", a.labels)
	}
	for _, r := range a.fields {
		if !r.isMetBy(cluster) {
			return r.explainUnmet(cluster)
		}
	}
	return ""
}

// listFirstValues returns the first of some values: what it is part of is said of each cluster, and
// their author writes as many as he likes.
func listFirstValues(values []string) string {
	if more := len(values) - valuesTold; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(values[:valuesTold], ", "), more)
	}
	return strings.Join(values, ", ")
}

func containsSorted(sorted []string, name string) bool {
	_, found := slices.BinarySearch(sorted, name)
	return found
}

// isMetBy says of a cluster in several zones that it is in each of them: In is met
// if one of them is in the list, NotIn if none is. A cluster whose field is not
// known is in none.
func (r requirement) isMetBy(cluster *view.Cluster) bool {
	among := false
	switch r.key {
	case keyProvider:
		among = cluster.Provider != "" && slices.Contains(r.values, cluster.Provider)
	case keyRegion:
		among = cluster.Region != "" && slices.Contains(r.values, cluster.Region)
	case keyZone:
		among = slices.ContainsFunc(cluster.Zones, func(zone string) bool { return slices.Contains(r.values, zone) })
	}
	return among != r.negated
}

func (r requirement) explainUnmet(cluster *view.Cluster) string {
	is := map[string]string{keyProvider: cluster.Provider, keyRegion: cluster.Region, keyZone: strings.Join(cluster.Zones, ",")}[r.key]
	reported := map[string]bool{keyProvider: cluster.Reported.Provider, keyRegion: cluster.Reported.Region, keyZone: cluster.Reported.Zones}[r.key]
	by := ""
	if reported {
		by = " by its own word"
	}
	switch {
	case is == "":
		return fmt.Sprintf("its %s is not known", r.key)
	case r.negated:
		return fmt.Sprintf("its %s is %q%s", r.key, is, by)
	default:
		return fmt.Sprintf("its %s is %q%s, not one of %s", r.key, is, by, listFirstValues(r.values))
	}
}
