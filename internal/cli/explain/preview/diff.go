// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package preview

import (
	"fmt"
	"strings"

	"github.com/pmezard/go-difflib/difflib"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/capstan-io/capstan/internal/propagation/forecast"
)

// contextLines is how many lines are shown around each difference.
const contextLines = 3

// unifiedDiff returns the difference of a cluster's manifests, "" if there is none.
func unifiedDiff(c forecast.ClusterForecast) string {
	if change := c.ChangeKind(); change == forecast.Same || change == forecast.Stuck {
		return ""
	}
	text, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{A: manifestLines(c.Now), B: manifestLines(c.Then), Context: contextLines})
	if err != nil { // it is written to memory
		return fmt.Sprintf("the difference cannot be shown: %v\n", err)
	}
	return text
}

// manifestLines returns a manifest as YAML.
func manifestLines(one *forecast.ObjectCopy) []string {
	if one == nil || one.Object == nil {
		return nil
	}
	text, err := sigsyaml.Marshal(one.Object.Object)
	if err != nil { // it was read from JSON
		return []string{err.Error() + "\n"}
	}
	return strings.SplitAfter(strings.TrimSuffix(string(text), "\n")+"\n", "\n")
}

// differsOtherwise reports whether two manifests are different in something but spec.replicas.
func differsOtherwise(a, b *unstructured.Unstructured) bool {
	without := func(object *unstructured.Unstructured) map[string]any {
		rest := object.DeepCopy()
		unstructured.RemoveNestedField(rest.Object, "spec", "replicas")
		return rest.Object
	}
	return !equality.Semantic.DeepEqual(without(a), without(b))
}

// diffs shows each difference once, with the clusters that it is for.
func (o objectPreview) diffs() string {
	var order []string
	of := map[string][]string{}
	for _, c := range o.Clusters {
		if c.Diff == "" {
			continue
		}
		if of[c.Diff] == nil {
			order = append(order, c.Diff)
		}
		of[c.Diff] = append(of[c.Diff], c.Name)
	}
	var b strings.Builder
	for _, diff := range order {
		name := qualifiedName(o.Kind, o.Namespace, o.Name) + " in " + strings.Join(of[diff], ", ")
		fmt.Fprintf(&b, "--- %s, now\n+++ %s, then\n%s", name, name, diff)
	}
	return b.String()
}
