// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package lua

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/untrusted/quantity"
)

// entriesMax limits how many entries a list of a script has.
const entriesMax = 1000

// unexpectedResultError is the error of a script that returns something else.
func unexpectedResultError(what string, got any) error {
	return fmt.Errorf("it returns %s, want %s", describeValue(got), what)
}

func describeValue(value any) string {
	switch v := value.(type) {
	case nil:
		return "nil"
	case map[string]any:
		return "a table with names as keys"
	case []any:
		return "a list"
	case string:
		return fmt.Sprintf("the string %q", limitMessage(v))
	default:
		return fmt.Sprintf("%v", v)
	}
}

func asObject(value any) (map[string]any, error) {
	object, is := value.(map[string]any)
	if !is || len(object) == 0 {
		return nil, unexpectedResultError("the object", value)
	}
	return object, nil
}

// asStatus reads a status; none is nil.
func asStatus(value any) (map[string]any, error) {
	if value == nil {
		return nil, nil
	}
	status, is := value.(map[string]any)
	if !is {
		return nil, unexpectedResultError("a status, which is a table with names as keys", value)
	}
	return status, nil
}

// asReplicas reads a number of pods; nil is none.
func asReplicas(value any) (int32, error) {
	switch v := value.(type) {
	case nil:
		return 0, nil
	case int64:
		if v >= 0 && v <= math.MaxInt32 {
			return int32(v), nil
		}
	}
	return 0, unexpectedResultError("a whole number of replicas", value)
}

func asRequirements(value any) (*interpret.Requirements, error) {
	if object, is := value.(map[string]any); value == nil || is && len(object) == 0 {
		return nil, nil
	}
	read := &workv1alpha2.ReplicaRequirements{}
	if err := decodeStrict(value, read); err != nil {
		return nil, fmt.Errorf("what it returns as requirements of a pod is none: %w", err)
	}
	needs := &interpret.Requirements{Requests: read.ResourceRequest, PriorityClassName: read.PriorityClassName, Namespace: read.Namespace}
	if claim := read.NodeClaim; claim != nil {
		needs.NodeSelector = claim.NodeSelector
		needs.Tolerations = claim.Tolerations
		needs.HardNodeAffinity = claim.HardNodeAffinity
	}
	if needs.IsZero() {
		return nil, nil
	}
	return needs, nil
}

// decodeStrict reads a value into a type, strictly.
func decodeStrict(value, into any) error {
	object, is := value.(map[string]any)
	if !is {
		return unexpectedResultError("a table with names as keys", value)
	}
	if err := quantity.CheckQuantities(object, into); err != nil {
		return err
	}
	return runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object, into, true)
}

// requirementsJSON is the reverse of asRequirements.
func requirementsJSON(needs *interpret.Requirements) any {
	written := &workv1alpha2.ReplicaRequirements{ResourceRequest: needs.Requests, PriorityClassName: needs.PriorityClassName, Namespace: needs.Namespace}
	if len(needs.NodeSelector) > 0 || len(needs.Tolerations) > 0 || needs.HardNodeAffinity != nil {
		written.NodeClaim = &workv1alpha2.NodeClaim{
			NodeSelector: needs.NodeSelector, Tolerations: needs.Tolerations, HardNodeAffinity: needs.HardNodeAffinity,
		}
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(written)
	if err != nil {
		return nil
	}
	return object
}

// objectEntries returns the objects of a list; nil is none.
func objectEntries(value any, what string) ([]map[string]any, error) {
	list, is := value.([]any)
	if object, empty := value.(map[string]any); value == nil || empty && len(object) == 0 {
		list = nil
		is = true
	}
	if !is {
		return nil, unexpectedResultError("a list of "+what, value)
	}
	if len(list) > entriesMax {
		return nil, fmt.Errorf("it returns %d %s, more than %d", len(list), what, entriesMax)
	}
	found := make([]map[string]any, 0, len(list))
	for i, entry := range list {
		object, is := entry.(map[string]any)
		if !is {
			return nil, fmt.Errorf("entry %d: %w", i+1, unexpectedResultError("a table with names as keys", entry))
		}
		found = append(found, object)
	}
	return found, nil
}

func asComponents(value any) ([]interpret.Component, error) {
	list, err := objectEntries(value, "components")
	if err != nil {
		return nil, err
	}
	components := make([]interpret.Component, 0, len(list))
	for i, entry := range list {
		name, _ := entry["name"].(string)
		if name == "" {
			return nil, fmt.Errorf("component %d has no name", i+1)
		}
		replicas, err := asReplicas(entry["replicas"])
		if err != nil {
			return nil, fmt.Errorf("replicas of component %q: %w", name, err)
		}
		needs, err := asRequirements(entry["replicaRequirements"])
		if err != nil {
			return nil, fmt.Errorf("replicaRequirements of component %q: %w", name, err)
		}
		components = append(components, interpret.Component{Name: name, Replicas: replicas, Needs: needs})
	}
	return components, nil
}

// scriptReference is a dependency as a script writes it.
type scriptReference struct {
	APIVersion    string                `json:"apiVersion"`
	Kind          string                `json:"kind"`
	Namespace     string                `json:"namespace,omitempty"`
	Name          string                `json:"name,omitempty"`
	LabelSelector *metav1.LabelSelector `json:"labelSelector,omitempty"`
}

func asDependencies(value any) ([]interpret.Dependency, error) {
	list, err := objectEntries(value, "references")
	if err != nil {
		return nil, err
	}
	all := make([]interpret.Dependency, 0, len(list))
	for i, entry := range list {
		read := scriptReference{}
		if err := decodeStrict(entry, &read); err != nil {
			return nil, fmt.Errorf("reference %d: %w", i+1, err)
		}
		if read.APIVersion == "" || read.Kind == "" || (read.Name == "") == (read.LabelSelector == nil) {
			text, err := json.Marshal(entry)
			if err != nil {
				return nil, fmt.Errorf("reference %d: %w", i+1, err)
			}
			return nil, fmt.Errorf("reference %d is %s, want apiVersion, kind, and either name or labelSelector", i+1, limitMessage(string(text)))
		}
		all = append(all, interpret.Dependency{
			APIVersion: read.APIVersion, Kind: read.Kind, Namespace: read.Namespace, Name: read.Name, Selector: read.LabelSelector,
		})
	}
	return uniqueDependencies(all), nil
}

// uniqueDependencies returns the dependencies without those that were there before, in their order.
func uniqueDependencies(all []interpret.Dependency) []interpret.Dependency {
	type key struct{ apiVersion, kind, namespace, name, selector string }
	known := map[key]bool{}
	return slices.DeleteFunc(all, func(d interpret.Dependency) bool {
		selector, _ := json.Marshal(d.Selector) // never fails
		of := key{d.APIVersion, d.Kind, d.Namespace, d.Name, string(selector)}
		was := known[of]
		known[of] = true
		return was
	})
}
