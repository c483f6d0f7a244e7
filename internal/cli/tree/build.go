// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package tree

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/cli/health"
)

// noCluster is the reason of works that no agent will ever look at.
const noCluster = "NoCluster"

// treeNode is a line of the tree with those below it.
type treeNode struct {
	name     string
	state    health.ReadinessState
	created  time.Time
	status   []metav1.Condition
	children []treeNode
}

// buildTree returns the clusters with their works and the objects of these. Works in
// namespaces that belong to no cluster come last.
func buildTree(clusters []clusterv1.ManagedCluster, works []workv1.ManifestWork) []treeNode {
	of := map[string][]treeNode{}
	works = slices.Clone(works)
	slices.SortStableFunc(works, func(a, b workv1.ManifestWork) int { return cmp.Compare(a.Name, b.Name) })
	for i := range works {
		of[works[i].Namespace] = append(of[works[i].Namespace], workNode(&works[i]))
	}
	var nodes []treeNode
	for i := range clusters {
		cluster := &clusters[i]
		nodes = append(nodes, treeNode{
			name: "cluster " + cluster.Name, state: health.ClusterReadiness(cluster), created: cluster.CreationTimestamp.Time,
			status: cluster.Status.Conditions, children: of[cluster.Name],
		})
		delete(of, cluster.Name)
	}
	slices.SortStableFunc(nodes, byName)
	var strays []treeNode
	for namespace, children := range of {
		strays = append(strays, treeNode{name: "namespace " + namespace, children: children, state: health.ReadinessState{
			Ready: metav1.ConditionUnknown, Reason: noCluster, Message: "there is no cluster of this name",
		}})
	}
	slices.SortStableFunc(strays, byName)
	return append(nodes, strays...)
}

func byName(a, b treeNode) int { return cmp.Compare(a.name, b.name) }

func workNode(work *workv1.ManifestWork) treeNode {
	n := treeNode{name: "work " + work.Name, state: health.WorkReadiness(work), created: work.CreationTimestamp.Time, status: work.Status.Conditions}
	reported := map[int32]workv1.ManifestCondition{}
	for _, object := range work.Status.ResourceStatus.Manifests {
		reported[object.ResourceMeta.Ordinal] = object
	}
	for i, manifest := range work.Spec.Workload.Manifests {
		name := objectTitle(manifest)
		wanted := reported[int32(i)]
		// What stands in the status may be about the object that was in this place
		// before the latest change.
		if meta := wanted.ResourceMeta; name != qualifiedName(meta.Kind, meta.Namespace, meta.Name) {
			wanted = workv1.ManifestCondition{}
		}
		n.children = append(n.children, treeNode{name: name, state: health.ObjectReadiness(wanted.Conditions), status: wanted.Conditions})
	}
	return n
}

// objectTitle names an object of a work.
func objectTitle(manifest workv1.Manifest) string {
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(manifest.Raw); err != nil {
		return "an object that cannot be read"
	}
	return qualifiedName(object.GetKind(), object.GetNamespace(), object.GetName())
}

func qualifiedName(kind, namespace, name string) string {
	if namespace != "" {
		name = namespace + "/" + name
	}
	return kind + " " + name
}

// unready returns only what is not ready, with what it is below.
func unready(nodes []treeNode) []treeNode {
	var kept []treeNode
	for _, n := range nodes {
		n.children = unready(n.children)
		if n.state.Ready != metav1.ConditionTrue || len(n.children) > 0 {
			kept = append(kept, n)
		}
	}
	return kept
}

// treeRow is a line of the tree.
type treeRow struct{ name, ready, age, conditions, why string }

// treeRows returns the lines of the nodes, each with the branches before its name.
func treeRows(nodes []treeNode, indent string, age func(time.Time) string) []treeRow {
	var lines []treeRow
	for i, n := range nodes {
		branch := "├─ "
		below := "│  "
		if i == len(nodes)-1 {
			branch = "└─ "
			below = "   "
		}
		r := treeRow{name: indent + branch + n.name, ready: string(n.state.Ready), conditions: formatConditions(n.status)}
		if !n.created.IsZero() {
			r.age = age(n.created)
		}
		if r.why = n.state.Reason; n.state.Message != "" {
			r.why += ": " + strings.Join(strings.Fields(n.state.Message), " ")
		}
		lines = append(append(lines, r), treeRows(n.children, indent+below, age)...)
	}
	return lines
}

// formatConditions says which conditions something has: the name alone if it is as it
// should be, else with the status.
func formatConditions(all []metav1.Condition) string {
	var texts []string
	for _, c := range health.SortConditions(all) {
		// The types of clusters repeat what they are about.
		text := strings.TrimPrefix(strings.Replace(c.Type, "ManagedCluster", "", 1), "Condition")
		if c.Status != metav1.ConditionTrue || !health.IsConditionFine(c) {
			text += "=" + string(c.Status)
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, ",")
}

// summarizeCounts sums up the clusters and works for the first line.
func summarizeCounts(nodes []treeNode) string {
	clusters := 0
	ready := 0
	works := 0
	worksReady := 0
	for _, n := range nodes {
		if n.state.Reason != noCluster {
			clusters++
			ready += readyCount(n.state)
		}
		for _, work := range n.children {
			works++
			worksReady += readyCount(work.state)
		}
	}
	return fmt.Sprintf("%d of %d clusters and %d of %d works are ready", ready, clusters, worksReady, works)
}

func readyCount(state health.ReadinessState) int {
	if state.Ready == metav1.ConditionTrue {
		return 1
	}
	return 0
}
