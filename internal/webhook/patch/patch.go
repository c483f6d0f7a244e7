// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package patch writes what a webhook changes of an object as a JSON patch. A webhook knows
// what it changes. Whoever finds that out by comparing the object as it was with the object
// as it is pays for all of the object: for two lists, the product of their lengths.
package patch

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"

	"gomodules.xyz/jsonpatch/v2"
	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
)

// operationsMax is how many changes one answer has at most. A webhook changes an object in a
// few places, and in each item of lists that are short in all objects that can be stored.
const operationsMax = 1000

// JSONPatch is what is changed of an object, in this order. The zero value changes nothing.
type JSONPatch struct{ operations []jsonpatch.Operation }

// SetField gives the field at a path a value, whether it has one or not. Its parent has to be
// there. A segment of the path is the name of a field or the index of an item.
func (p *JSONPatch) SetField(value any, path ...string) { p.addOperation("add", value, path) }

// AppendItem adds an item to the end of the list at a path, which has to be there.
func (p *JSONPatch) AppendItem(item any, path ...string) {
	p.addOperation("add", item, append(path, "-"))
}

// UpdateLabels makes the labels of the object, which were as before, what they are now.
func (p *JSONPatch) UpdateLabels(before, now map[string]string) {
	p.updateMetadataMap("labels", before, now)
}

// UpdateAnnotations makes the annotations of the object, which were as before, what they are now.
func (p *JSONPatch) UpdateAnnotations(before, now map[string]string) {
	p.updateMetadataMap("annotations", before, now)
}

// updateMetadataMap makes the entries of a map in the metadata what they are now.
func (p *JSONPatch) updateMetadataMap(of string, before, now map[string]string) {
	if len(before) == 0 && len(now) > 0 { // there may be no field
		p.SetField(now, "metadata", of)
		return
	}
	for _, key := range slices.Sorted(maps.Keys(now)) {
		if value, was := before[key]; !was || value != now[key] {
			p.SetField(now[key], "metadata", of, key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(before)) {
		if _, is := now[key]; !is {
			p.addOperation("remove", nil, []string{"metadata", of, key})
		}
	}
}

// AddFinalizer adds a finalizer to those that the object has, unless it is one of them.
func (p *JSONPatch) AddFinalizer(present []string, finalizer string) {
	switch {
	case slices.Contains(present, finalizer):
	case len(present) == 0: // there may be no field
		p.SetField([]string{finalizer}, "metadata", "finalizers")
	default:
		p.AppendItem(finalizer, "metadata", "finalizers")
	}
}

// addOperation keeps one operation more than there may be, which tells that there are too many.
func (p *JSONPatch) addOperation(operation string, value any, path []string) {
	if len(p.operations) > operationsMax {
		return
	}
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	var pointer strings.Builder
	for _, segment := range path {
		pointer.WriteString("/" + escape.Replace(segment))
	}
	p.operations = append(p.operations, jsonpatch.NewOperation(operation, pointer.String(), value))
}

// AdmissionResponse lets the object in with the changes. One that would need more than a webhook
// makes is refused: the schema of no kind allows it.
func (p *JSONPatch) AdmissionResponse() admission.Response {
	switch {
	case len(p.operations) == 0:
		return admission.Allowed("")
	case len(p.operations) > operationsMax:
		return admission.Errored(http.StatusUnprocessableEntity, fmt.Errorf(
			"the object has so many items that leave something open that more than %d would have to be filled in: fill them in, or divide the object", operationsMax))
	}
	response := admission.Allowed("")
	response.Patches, response.PatchType = p.operations, ptr.To(admissionv1.PatchTypeJSONPatch)
	return response
}
