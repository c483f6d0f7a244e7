// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package override

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
)

// podSpec returns where a kind has the spec of its pods, nil if it has none.
func podSpec(kind string) []string {
	switch kind {
	case "Pod":
		return []string{"spec"}
	case "Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController", "Job":
		return []string{"spec", "template", "spec"}
	case "CronJob":
		return []string{"spec", "jobTemplate", "spec", "template", "spec"}
	default:
		return nil
	}
}

// podContainers returns the containers of a workload, to be changed in place: those
// that run first, and then those that stay. Other kinds have none.
func podContainers(object *unstructured.Unstructured, left *effortBudget) ([]map[string]any, error) {
	path := podSpec(object.GetKind())
	if path == nil {
		return nil, nil
	}
	var all []map[string]any
	for _, name := range []string{"initContainers", "containers"} {
		// What is not a list has no containers; the cluster will refuse it.
		value, _, _ := unstructured.NestedFieldNoCopy(object.Object, append(slices.Clone(path), name)...)
		list, _ := value.([]any)
		if err := left.takeEffort(len(list), entryEffort); err != nil {
			return nil, err
		}
		for _, entry := range list {
			if container, is := entry.(map[string]any); is {
				all = append(all, container)
			}
		}
	}
	return all, nil
}

// overrideList changes the command or the arguments, whichever field is, of the
// container of a name. There does not have to be one.
func overrideList(object *unstructured.Unstructured, field string, o policyv1alpha1.CommandArgsOverrider, left *effortBudget) error {
	all, err := podContainers(object, left)
	if err != nil {
		return err
	}
	for _, c := range all {
		if c["name"] != o.ContainerName {
			continue
		}
		list, _ := c[field].([]any)
		if err := left.takeEffort(len(list)+len(o.Value), entryEffort); err != nil {
			return err
		}
		switch o.Operator {
		case policyv1alpha1.ListOverriderOpAdd:
			for _, value := range o.Value {
				list = append(list, value)
			}
		case policyv1alpha1.ListOverriderOpRemove:
			removed := sets.New(o.Value...) // looking through two long lists would take their product
			list = slices.DeleteFunc(list, func(entry any) bool {
				text, is := entry.(string)
				return is && removed.Has(text)
			})
		default:
			return fmt.Errorf("unknown operator %q: use add or remove", o.Operator)
		}
		if len(list) == 0 {
			delete(c, field)
			continue
		}
		c[field] = list
	}
	return nil
}

// overrideMap changes the labels or the annotations of the object, whichever
// field is.
func overrideMap(object *unstructured.Unstructured, field string, o policyv1alpha1.LabelAnnotationOverrider, left *effortBudget) error {
	all, _, err := unstructured.NestedStringMap(object.Object, "metadata", field)
	if err != nil {
		return fmt.Errorf("read them: %w", err)
	}
	if err := left.takeEffort(len(all)+len(o.Value), entryEffort); err != nil {
		return err
	}
	if all == nil {
		all = map[string]string{}
	}
	for key, value := range o.Value {
		_, has := all[key]
		switch o.Operator {
		case policyv1alpha1.OverriderOpAdd:
			all[key] = value
		case policyv1alpha1.OverriderOpReplace:
			if has {
				all[key] = value
			}
		case policyv1alpha1.OverriderOpRemove:
			delete(all, key)
		default:
			return unknownOperatorError(o.Operator)
		}
	}
	if len(all) == 0 {
		unstructured.RemoveNestedField(object.Object, "metadata", field)
		return nil
	}
	return unstructured.SetNestedStringMap(object.Object, all, "metadata", field)
}
