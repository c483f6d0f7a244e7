// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package replace

import (
	"maps"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// rootField is what API servers call an object as a whole.
const rootField = "<nil>"

// FieldPart is a field of a top-level field, such as spec.serviceName.
type FieldPart struct{ Field, Name string }

// String returns the path as API servers write it.
func (p FieldPart) String() string { return p.Field + "." + p.Name }

func (p FieldPart) fieldPath() fieldpath.Path { return fieldpath.MakePathOrDie(p.Field, p.Name) }

// WholeFields returns the top-level fields that a refusal names as a whole, each once: something in them
// is refused, and the server does not say what. So it is with the spec of a StatefulSet, a Pod or a
// PersistentVolumeClaim, and with rules about the whole spec of a custom resource, or about all of
// it.
func (d *Draft) WholeFields(causes []metav1.StatusCause) (fields []string) {
	for i := range causes[:min(len(causes), causesMax)] {
		field := causes[i].Field
		if field == rootField {
			field = "spec"
		}
		if d.isWhole(field) && !slices.Contains(fields, field) {
			fields = append(fields, field)
		}
	}
	return fields
}

// isWhole reports whether a top-level field has parts.
func (d *Draft) isWhole(field string) bool {
	parts, is := d.live[field].(map[string]any)
	return is && field != "metadata" && field != "status" && len(parts) > 0
}

// ChangedParts returns the parts of a top-level field that the draft has otherwise than the live object.
// Some may be the same to the server, which sets defaults.
func (d *Draft) ChangedParts(field string) []FieldPart {
	live := partsOf(d.live, field)
	draft := partsOf(d.object, field)
	return d.filterParts(field, func(name string) bool { return !reflect.DeepEqual(live[name], draft[name]) })
}

// ForeignParts returns the parts of a top-level field that the draft has beside the manifest since other
// managers own something of them.
func (d *Draft) ForeignParts(field string) []FieldPart {
	manifest := partsOf(d.manifest, field)
	draft := partsOf(d.object, field)
	return d.filterParts(field, func(name string) bool {
		part := FieldPart{field, name}
		within := part.fieldPath()
		owns := d.others.Has(within) || !d.others.WithPrefix(within[0]).WithPrefix(within[1]).Empty()
		return owns && manifest[name] == nil && draft[name] != nil && !d.kept.decisionFor(within[0]).decisionFor(within[1]).isDecided(keepAll) // which is retained
	})
}

// filterParts returns some parts of a top-level field of the live object or of the draft, in their order.
func (d *Draft) filterParts(field string, some func(name string) bool) (parts []FieldPart) {
	all := maps.Clone(partsOf(d.live, field))
	maps.Copy(all, partsOf(d.object, field))
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if some(name) {
			parts = append(parts, FieldPart{field, name})
		}
	}
	return parts
}

// RenderPartPatch returns a JSON patch that makes one part of the live object that of the draft, and changes
// nothing else.
func (d *Draft) RenderPartPatch(part FieldPart) ([]byte, error) {
	return d.renderPatchTo(withPartValue(d.live, part, partsOf(d.object, part.Field)[part.Name]))
}

// RenderPatchWithout returns a JSON patch that makes the live object the draft without one of its parts.
func (d *Draft) RenderPatchWithout(part FieldPart) ([]byte, error) {
	return d.renderPatchTo(withPartValue(d.object, part, nil))
}

// KeepPart has a part stay as it is in the live object, as far as the manifest does not have it. It
// returns false if the draft is the same then: the part is what the manifest says.
func (d *Draft) KeepPart(part FieldPart) bool {
	return d.applyRemedy(remedy{part.fieldPath(), keepUnowned}) || d.applyRemedy(remedy{part.fieldPath(), keepAll})
}

// DropPart has a part go that the manifest does not have. It returns false if the draft is the same then.
func (d *Draft) DropPart(part FieldPart) bool {
	return d.applyRemedy(remedy{part.fieldPath(), keepNone})
}

// StuckFields returns the fields that stay though the manifest does not have them and we wrote them,
// since the server has said that they cannot go.
func (d *Draft) StuckFields() (fields []string) {
	for _, path := range d.stuck {
		if d.kept.ensureDecisionAt(path).isDecided(keepAll) {
			fields = append(fields, path.String())
		}
	}
	return fields
}

// partsOf returns the parts of a top-level field, none if it has none.
func partsOf(object map[string]any, field string) map[string]any {
	parts, _ := object[field].(map[string]any)
	return parts
}

// withPartValue returns an object with another value for a part, nil for none. It shares the rest with the
// object that is given.
func withPartValue(object map[string]any, part FieldPart, value any) map[string]any {
	object = maps.Clone(object)
	parts := maps.Clone(partsOf(object, part.Field))
	if parts == nil {
		parts = map[string]any{}
	}
	if value == nil {
		delete(parts, part.Name)
	} else {
		parts[part.Name] = value
	}
	object[part.Field] = parts
	return object
}
