// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterinfo

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/kube/conditions"
)

const (
	// groupVersionsMax is how many groups and versions are told, resourcesMax how many
	// resources of all of them, and namesBytesMax how long all names are together. The hub
	// takes no more of an agent.
	groupVersionsMax = 500
	resourcesMax     = 5000
	namesBytesMax    = 256 << 10
	// nameBytesMax is the longest name of a resource, a kind, or a group and
	// version that is told. Kubernetes has none that is longer.
	nameBytesMax = 320
	// namesMax is how many groups and versions a message names.
	namesMax = 10
)

// setEnablements says what the cluster serves, in the status of a ClusterConnection that
// has what was known before.
func (d *apiDiscovery) setEnablements(connection *fleetv1alpha1.ClusterConnection) {
	var found []servedGroupVersion
	var failed []string
	for _, doc := range d.documents {
		found = append(found, doc.found...)
		if doc.isUnavailable() {
			failed = append(failed, "/"+doc.path)
		}
	}
	list, condition := mergeEnablements(connection.Status.APIEnablements, found, failed)
	connection.Status.APIEnablements = list
	conditions.SetCondition(&connection.Status.Conditions, connection.Generation, condition)
}

// mergeEnablements returns what to tell of what was found, and of what was known
// before where something is missing. failed are the documents that the API
// server did not give.
func mergeEnablements(known []fleetv1alpha1.APIEnablement, found []servedGroupVersion, failed []string) ([]fleetv1alpha1.APIEnablement, metav1.Condition) {
	if len(found) == 0 || len(failed) == len(apiDiscovery{}.documents) {
		return known, incompleteCondition(fleetv1alpha1.ClusterConnectionReasonEmpty, "API discovery failed; the previous list is kept")
	}
	before := map[string]fleetv1alpha1.APIEnablement{}
	for _, e := range known {
		before[e.GroupVersion] = e
	}
	var list []fleetv1alpha1.APIEnablement
	var stale []string
	for _, s := range found {
		e := fleetv1alpha1.APIEnablement{GroupVersion: s.groupVersion, Resources: reportableResources(s.resources)}
		if s.stale {
			stale = append(stale, s.groupVersion)
			if old, ok := before[s.groupVersion]; ok && len(e.Resources) == 0 {
				e = old
			}
		}
		delete(before, s.groupVersion)
		if len(e.Resources) > 0 && len(e.GroupVersion) <= nameBytesMax {
			list = append(list, e)
		}
	}
	for _, e := range before { // gone, unless the document that it stood in was not given
		if slices.Contains(failed, documentOf(e.GroupVersion)) {
			list = append(list, e)
		}
	}
	slices.SortFunc(list, func(a, b fleetv1alpha1.APIEnablement) int { return cmp.Compare(a.GroupVersion, b.GroupVersion) })
	list = slices.CompactFunc(list, func(a, b fleetv1alpha1.APIEnablement) bool { return a.GroupVersion == b.GroupVersion })
	told := limitEnablements(list)
	slices.Sort(stale)
	switch {
	case len(failed)+len(stale) > 0:
		missing := slices.Concat(failed, stale)
		text := strings.Join(missing[:min(len(missing), namesMax)], ", ")
		if more := len(missing) - namesMax; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
		return told, incompleteCondition(fleetv1alpha1.ClusterConnectionReasonPartial, "not discovered: "+text+"; their previous entries are kept")
	case len(told) < len(list):
		return told, incompleteCondition(fleetv1alpha1.ClusterConnectionReasonPartial, fmt.Sprintf("the cluster serves %d groups and versions, only %d are listed", len(list), len(told)))
	}
	return told, metav1.Condition{
		Type: fleetv1alpha1.ClusterConnectionConditionCompleteAPIEnablements, Status: metav1.ConditionTrue,
		Reason: fleetv1alpha1.ClusterConnectionReasonComplete, Message: "all resources that the API server serves are listed",
	}
}

func incompleteCondition(reason, message string) metav1.Condition {
	return metav1.Condition{
		Type: fleetv1alpha1.ClusterConnectionConditionCompleteAPIEnablements, Status: metav1.ConditionFalse, Reason: reason, Message: message,
	}
}

// documentOf returns the document that a group and version stands in.
func documentOf(groupVersion string) string {
	if strings.Contains(groupVersion, "/") {
		return "/apis"
	}
	return "/api"
}

// isReportable reports whether a resource has names as those of Kubernetes are.
func (r servedResource) isReportable() bool {
	return r.name != "" && r.kind != "" && len(r.name) <= nameBytesMax && len(r.kind) <= nameBytesMax
}

// reportableResources returns the resources in the order of their names, each once.
func reportableResources(found []servedResource) []fleetv1alpha1.APIResource {
	var list []fleetv1alpha1.APIResource
	for _, r := range found {
		if r.isReportable() {
			list = append(list, fleetv1alpha1.APIResource{Name: r.name, Kind: r.kind})
		}
	}
	slices.SortFunc(list, func(a, b fleetv1alpha1.APIResource) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Kind, b.Kind))
	})
	return slices.CompactFunc(list, func(a, b fleetv1alpha1.APIResource) bool { return a.Name == b.Name })
}

// limitEnablements returns the first ones that may be told. One for which there is no room
// leaves it to those after it: the last one is the core.
func limitEnablements(list []fleetv1alpha1.APIEnablement) []fleetv1alpha1.APIEnablement {
	var told []fleetv1alpha1.APIEnablement
	resources, bytes := 0, 0
	for _, e := range list {
		names := len(e.GroupVersion)
		for _, r := range e.Resources {
			names += len(r.Name) + len(r.Kind)
		}
		if len(told) == groupVersionsMax || resources+len(e.Resources) > resourcesMax || bytes+names > namesBytesMax {
			continue
		}
		told = append(told, e)
		resources += len(e.Resources)
		bytes += names
	}
	return told
}
