// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package replace

import (
	"reflect"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/capstan-io/capstan/internal/kube/apply/owned"
)

// What is looked at of refusals, which are the server's to word: each remedy that is tried puts
// the whole object together anew.
const (
	// causesMax is how many causes of one refusal are looked at, the others if the next
	// refusal has them, too.
	causesMax = 20
	// remediesMax is how many remedies are tried in all.
	remediesMax = 60
	// fieldBytesMax is how long the path of a field may be.
	fieldBytesMax = 1 << 10
)

// HandleRefusal takes in that the server refused the draft, and why. It returns false if no other
// draft is left to try by what the server names: see WholeFields for what it names as a whole.
//
// A field that the server names may be one that cannot change or has to be there, and then
// stays: as nobody's, or else though we wrote it. Or it contradicts the manifest, and then
// goes whoever owns it: a field by itself, an item of a list that the manifest does not
// have, or all such items of the list.
//
// A refusal may name a field more than once, or a field and one inside of it. That is one
// thing to try: what the first cause has brought back would go again for the second one.
func (d *Draft) HandleRefusal(causes []metav1.StatusCause) (again bool) {
	causes = causes[:min(len(causes), causesMax)]
	all := make([]refusedField, len(causes)) // as they are in the draft that was refused
	for i := range causes {
		all[i] = d.findField(stepsOf(causes[i].Field))
	}
	var tried []fieldpath.Path
	for _, named := range all {
		if slices.ContainsFunc(tried, func(path fieldpath.Path) bool { return isNestedPath(path, named.path) }) {
			continue
		}
		for _, remedy := range d.remediesFor(named) {
			if d.applyRemedy(remedy) {
				tried = append(tried, remedy.path)
				break
			}
		}
	}
	return len(tried) > 0
}

// isNestedPath reports whether one of two paths leads to the other one, or both are the same.
func isNestedPath(a, b fieldpath.Path) bool {
	shorter := min(len(a), len(b))
	return a[:shorter].Equals(b[:shorter])
}

// HasImproved reports whether drafts have come nearer to what the server takes than the manifest
// by itself: whatever it has against the last of them, it had against the manifest as well.
// If not, only what it had against the manifest is the manifest's fault.
func HasImproved(manifest, draft []metav1.StatusCause) bool {
	manifest, draft = manifest[:min(len(manifest), causesMax)], draft[:min(len(draft), causesMax)]
	return len(draft) > 0 && !slices.ContainsFunc(draft, func(cause metav1.StatusCause) bool {
		return !slices.ContainsFunc(manifest, func(before metav1.StatusCause) bool {
			return before.Type == cause.Type && before.Field == cause.Field
		})
	})
}

// remedy is something to try about a refusal: what stays of the fields at a path.
type remedy struct {
	path fieldpath.Path
	keep keepRule
}

// applyRemedy makes another draft by a remedy, unless it would be the same draft.
func (d *Draft) applyRemedy(r remedy) bool {
	at := d.kept.ensureDecisionAt(r.path)
	before := *at
	if before.said && before.keep >= r.keep || d.tried == remediesMax {
		return false
	}
	d.tried++
	at.decideKeep(r.keep)
	object := d.buildObject()
	if !reflect.DeepEqual(object, d.object) {
		d.object = object
		if r.keep == keepAll {
			d.stuck = append(d.stuck, r.path)
		}
		return true
	}
	at.keep = before.keep
	at.said = before.said
	return false
}

// refusedField is where the field is that a refusal names.
type refusedField struct {
	path fieldpath.Path
	// list is the innermost list around it, and item the outermost item around it that the
	// manifest does not have; nil for none.
	list, item fieldpath.Path
}

func (d *Draft) remediesFor(n refusedField) []remedy {
	switch {
	case len(n.path) == 0, *n.path[0].FieldName == "metadata":
		return nil
	case len(n.path) == 1 && d.isWhole(*n.path[0].FieldName): // what of it has to stay or go is to be found out
		return []remedy{{n.path, keepUnowned}}
	case n.item != nil:
		return []remedy{{n.item, keepNone}}
	}
	remedies := []remedy{{n.path, keepUnowned}, {n.path, keepAll}, {n.path, keepNone}}
	if n.list != nil {
		remedies = append(remedies, remedy{n.list, keepNone})
	}
	return remedies
}

// findField finds a field of the draft by the way there.
func (d *Draft) findField(steps []any) (found refusedField) {
	type position struct{ draft, live, manifest any }
	at := position{d.object, d.live, d.manifest}
	inside := valuePlace{others: d.others, ours: d.ours}
	for _, step := range steps {
		if name, is := step.(string); is {
			at = position{fieldOf(at.draft, name), fieldOf(at.live, name), fieldOf(at.manifest, name)}
			inside = inside.fieldPlace(name)
			found.path = inside.fieldPath()
			continue
		}
		index, _ := step.(int)
		list, _ := at.draft.([]any)
		identity, known := inside.itemIdentity()
		if !known || index >= len(list) {
			break // more cannot be told apart
		}
		live, _ := at.live.([]any)
		manifest, _ := at.manifest.([]any)
		next := position{draft: list[index], live: likeIn(live, identity, list[index]), manifest: likeIn(manifest, identity, list[index])}
		whole := next.draft
		if next.live != nil { // which has what the server sets by default
			whole = next.live
		}
		element, complete := owned.NewListItems(nil, identity).ElementFor(whole)
		if !complete {
			break
		}
		found.list = inside.fieldPath()
		at, inside = next, inside.childPlace(element)
		found.path = inside.fieldPath()
		if next.manifest == nil && found.item == nil {
			found.item = inside.fieldPath()
		}
	}
	return found
}

func fieldOf(object any, name string) any {
	fields, _ := object.(map[string]any)
	return fields[name]
}

// likeIn returns the item of a list that is like another one, nil if there is none.
func likeIn(list []any, identity owned.ItemIdentity, item any) any {
	like := owned.NewListItems(list, identity).IndexesLike(item)
	if len(like) == 0 {
		return nil
	}
	return list[like[0]]
}

// stepsOf reads the path of a field as the API server writes it, such as
// spec.ports[1].name: names, and indexes of lists.
func stepsOf(field string) (steps []any) {
	if len(field) > fieldBytesMax {
		return nil
	}
	for field != "" {
		if inside, is := strings.CutPrefix(field, "["); is {
			key, rest, _ := strings.Cut(inside, "]")
			if index, err := strconv.Atoi(key); err == nil && index >= 0 {
				steps = append(steps, index)
			} else {
				steps = append(steps, key)
			}
			field = strings.TrimPrefix(rest, ".")
			continue
		}
		end := strings.IndexAny(field, ".[")
		if end < 0 {
			return append(steps, field)
		}
		steps = append(steps, field[:end])
		field = strings.TrimPrefix(field[end:], ".")
	}
	return steps
}
