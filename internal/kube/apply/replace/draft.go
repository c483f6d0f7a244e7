// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package replace

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/capstan-io/capstan/internal/kube/apply/ignore"
	"github.com/capstan-io/capstan/internal/kube/apply/owned"
)

// ErrItems says that an object cannot be replaced since items of its lists are to be left to
// the cluster: which these are is known from the manifest only.
var ErrItems = errors.New("ignoreFields selects items of lists")

// Draft is what an object is to be replaced with. The manifest is all in it. Of what the
// object has besides, these stay:
//
//   - fields of other managers,
//   - labels, annotations, finalizers and owners that nobody manages,
//   - what is retained,
//   - what the server says has to be there: see HandleRefusal.
//
// So fields go that we wrote before, or the server set by default, and that the manifest
// does not have.
type Draft struct {
	live, manifest map[string]any
	others, ours   *fieldpath.Set
	declared       owned.Declared
	// kept says what of fields stays.
	kept *keepDecision
	// stuck are the paths of what was kept because the server said so, though we wrote it.
	stuck  []fieldpath.Path
	object map[string]any
	// tried is how many remedies were tried.
	tried int
}

// keepRule is what stays of the fields of an object that its manifest does not have.
type keepRule uint8

const (
	// keepOthers: what other managers own.
	keepOthers keepRule = iota
	// keepUnowned: that, and what nobody owns.
	keepUnowned
	// keepAll is everything.
	keepAll
	// keepNone is nothing.
	keepNone
)

// FieldOwners say who owns what of an object.
type FieldOwners struct {
	// Managers are its managedFields.
	Managers []metav1.ManagedFieldsEntry
	// Ours tells which of them are of what we wrote.
	Ours func(*metav1.ManagedFieldsEntry) bool
	// Declared is asked what is one value to the API where the managers do not say it.
	Declared owned.Declared
}

// NewDraft returns the draft for an object that is there as live. The manifest is as it is applied,
// without the fields at the paths: these are retained. The error is ErrItems if they lead into
// lists.
func NewDraft(live, manifest map[string]any, owners FieldOwners, retained []ignore.Path) (*Draft, error) {
	d := &Draft{live: live, manifest: manifest, declared: owners.Declared, kept: &keepDecision{}}
	var ours, others []*fieldpath.Set
	for i := range owners.Managers {
		set, err := owned.DecodeManagedFields(&owners.Managers[i])
		switch {
		case err != nil:
			return nil, err
		case owners.Ours(&owners.Managers[i]):
			ours = append(ours, set)
		default:
			others = append(others, set)
		}
	}
	d.ours, d.others = owned.UnionSets(ours...), owned.UnionSets(others...)
	if len(owners.Managers) == 0 { // nobody can tell whose what is
		d.kept.decideKeep(keepUnowned)
	}
	for _, field := range []string{"labels", "annotations", "finalizers", "ownerReferences"} {
		d.kept.ensureDecisionAt(fieldpath.MakePathOrDie("metadata", field)).decideKeep(keepUnowned)
	}
	for _, path := range retained {
		var fields fieldpath.Path
		for _, step := range path {
			name, is := step.(string)
			if !is {
				return nil, fmt.Errorf("%w: %s", ErrItems, path)
			}
			fields = append(fields, fieldpath.PathElement{FieldName: &name})
		}
		d.kept.ensureDecisionAt(fields).decideKeep(keepAll)
	}
	d.object = d.buildObject()
	return d, nil
}

// DesiredObject returns the object as it is to be. It is not to be changed.
func (d *Draft) DesiredObject() map[string]any { return d.object }

// RenderPatch returns a JSON patch that makes the live object the draft, provided that it is still
// as it was read.
//
// To the server it is the same as a PUT: what the patch leaves of the object is validated,
// admitted and stored as a whole. But it needs no permission that server-side apply does not.
func (d *Draft) RenderPatch() ([]byte, error) { return d.renderPatchTo(d.object) }

// renderPatchTo returns a JSON patch that makes the live object another one.
func (d *Draft) renderPatchTo(object map[string]any) ([]byte, error) {
	type operation struct {
		Op    string `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value,omitempty"`
	}
	var patch []operation
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	for _, field := range slices.Sorted(maps.Keys(object)) {
		if field != "apiVersion" && field != "kind" && object[field] != nil {
			patch = append(patch, operation{Op: "add", Path: "/" + escape.Replace(field), Value: object[field]}) // or replace
		}
	}
	for _, field := range slices.Sorted(maps.Keys(d.live)) {
		if object[field] == nil {
			patch = append(patch, operation{Op: "remove", Path: "/" + escape.Replace(field)})
		}
	}
	body, err := json.Marshal(patch)
	if err != nil {
		return nil, fmt.Errorf("encoding what replaces the object: %w", err)
	}
	return body, nil
}

// buildObject puts the manifest and what stays of the object together.
func (d *Draft) buildObject() map[string]any {
	object := runtime.DeepCopyJSON(d.manifest)
	root := valuePlace{keep: d.kept.keep, kept: d.kept, others: d.others, ours: d.ours}
	given, _ := object["metadata"].(map[string]any)
	metadata, _ := d.mergeValue(given, true, d.live["metadata"], root.fieldPlace("metadata")).(map[string]any)
	live, _ := d.live["metadata"].(map[string]any)
	for field, value := range live {
		switch field {
		case "labels", "annotations", "finalizers", "ownerReferences", "managedFields":
		default: // what the server says of an object
			metadata[field] = value
		}
	}
	for _, field := range slices.Sorted(maps.Keys(d.live)) {
		if field == "apiVersion" || field == "kind" || field == "metadata" {
			continue
		}
		value, has := object[field]
		if merged := d.mergeValue(value, has, d.live[field], root.fieldPlace(field)); merged != nil {
			object[field] = merged
		}
	}
	object["metadata"] = metadata
	return object
}
