// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package deliver

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/capstan-io/capstan/internal/agent/work/plan"
	"github.com/capstan-io/capstan/internal/kube/apply"
	"github.com/capstan-io/capstan/internal/kube/apply/ignore"
	"github.com/capstan-io/capstan/internal/kube/apply/owned"
	"github.com/capstan-io/capstan/internal/kube/apply/replace"
)

const (
	// goneMax is how many fields that go a message names, and how many managers that had set
	// them; namedCharactersMax is how many characters of each.
	goneMax            = 20
	namedCharactersMax = 100
)

// fieldAdoption takes over, when a work takes an object for the first time, what whoever brought
// it to the cluster by hand set before: the work is in their place now, so what the manifest
// does not have goes, as if it had been theirs all the time. What controllers own stays.
type fieldAdoption struct {
	of *object
	as apply.FieldWriter
	// seen is the object as it was met.
	seen *metav1.PartialObjectMetadata
	// from are the managers, missing what they owned that the manifest does not have, and
	// before is the object as it was.
	from             []string
	missing          *fieldpath.Set
	before, manifest map[string]any
}

// takeOver takes the fields over, so that the body that is applied next removes them. An executor
// has to be allowed to write the body first: otherwise the object is not touched.
func (a *fieldAdoption) takeOver(ctx context.Context, body []byte, stamp apply.Stamp) error {
	want := a.of.want
	seen := a.seen
	if seen.DeletionTimestamp != nil || slices.ContainsFunc(seen.ManagedFields, a.isOurs) {
		return nil // which we have taken before
	}
	if err := (executorRights{a.of}).rehearseWrite(ctx, body, a.as); err != nil {
		return err
	}
	if err := a.of.keepContent(ctx); err != nil {
		return err
	}
	seen, err := a.ensureManaged(ctx, seen, stamp)
	if err != nil {
		return err
	}
	after, taken, err := replace.TakeOver(seen.ManagedFields, a.takeFields, a.as.Manager, want.Manifest.Kind.GroupVersion().String())
	if err != nil || taken.Empty() {
		return err
	}
	if a.manifest, err = a.of.manifestContent(ctx); err != nil {
		return err
	}
	a.missing = taken.Difference(owned.FieldsWithin(taken, a.manifest))
	after, _, err = ignore.DisownFields(after, a.isHeir, a.manifest, stamp.Without, a.of.Declared.DeclaredFor(ctx, want.Manifest.Kind)) // what is the cluster's stays
	if err != nil {
		return err
	}
	before, err := a.of.Member.ReadObject(ctx, want.Resource.Version, want.Object)
	if err != nil {
		return err
	}
	a.before = before.Object
	patch, err := apply.SetManagers(seen, after)
	if err != nil {
		return err
	}
	written, err := a.of.Member.MergePatch(ctx, want.Resource.Version, want.Object, patch, a.as)
	if err != nil {
		return err
	}
	if a.of.seen != nil { // what is applied was made by it, and is not different
		a.of.seen.SetResourceVersion(written.ResourceVersion)
		a.of.seen.SetManagedFields(written.ManagedFields)
	}
	a.of.adopted = a
	return nil
}

// ensureManaged has the server note who owns what of an object, if nobody does: that it was all there
// before something was applied.
func (a *fieldAdoption) ensureManaged(
	ctx context.Context, seen *metav1.PartialObjectMetadata, stamp apply.Stamp,
) (*metav1.PartialObjectMetadata, error) {
	if len(seen.ManagedFields) > 0 {
		return seen, nil
	}
	stamp.MetadataOnly = true
	stamp.UID = seen.UID
	body, err := apply.RenderBody(ctx, a.of.rawManifest(), stamp)
	if err != nil {
		return nil, fmt.Errorf("manifest %d: %w", a.of.want.Ordinal, err)
	}
	return a.of.applyBody(ctx, body, a.as)
}

// takeFields returns what to take over of an entry of managedFields.
func (a *fieldAdoption) takeFields(entry *metav1.ManagedFieldsEntry, fields *fieldpath.Set) *fieldpath.Set {
	if !byHand(entry) {
		return fieldpath.NewSet()
	}
	if !slices.Contains(a.from, entry.Manager) {
		a.from = append(a.from, entry.Manager)
	}
	return adoptableFields(fields)
}

// isOurs reports whether an entry of managedFields is of what this work wrote.
func (a *fieldAdoption) isOurs(entry metav1.ManagedFieldsEntry) bool {
	return a.isHeir(&entry) || a.of.isOurs(&entry)
}

// isHeir reports whether an entry is that of what we apply.
func (a *fieldAdoption) isHeir(entry *metav1.ManagedFieldsEntry) bool {
	return entry.Manager == a.as.Manager && entry.Operation == metav1.ManagedFieldsOperationApply && entry.Subresource == ""
}

// reportAdopted says what was taken over of the object in a pass that is over: with an error if the object could not
// be applied. An executor that may not read the object is told nothing of it.
func (o *object) reportAdopted(ctx context.Context, err error) {
	switch {
	case o.outcome.Denied:
		return
	case err == nil && o.adopted != nil:
		o.adopted.reportGone(ctx)
	case err == nil && o.history.Adopted != nil && !o.history.Adopted.Gone: // by a pass before
		o.history.Adopted.Gone = true
		o.outcome.Note = noteOf(o.history)
		return
	case o.adopted != nil:
		o.adopted.reportTaken()
	}
	if err != nil && o.history.Adopted != nil && !o.history.Adopted.Gone {
		o.outcome.Problem.Message = strings.TrimSuffix(o.outcome.Problem.Message, ".") + ". " + o.history.Adopted.AdoptionNote()
	}
}

// reportGone says in the condition of the object, and in an Event, which fields have gone. It is
// called when the manifest has been applied.
func (a *fieldAdoption) reportGone(ctx context.Context) {
	want := a.of.want
	after := a.manifest
	if live, err := a.of.Member.ReadObject(ctx, want.Resource.Version, want.Object); err == nil { // with what the server set by default again
		after = live.Object
	}
	a.setAdopted(&plan.AdoptedFields{Managers: a.managerNames(), Fields: a.lostFields(after), Gone: true})
	a.of.outcome.Note = noteOf(a.of.history)
}

// reportTaken says what the work has taken over of an object that it could not apply then.
func (a *fieldAdoption) reportTaken() {
	a.setAdopted(&plan.AdoptedFields{Managers: a.managerNames(), Fields: a.lostFields(a.manifest)})
}

// setAdopted remembers what there is to say, and says it in an Event.
func (a *fieldAdoption) setAdopted(adopted *plan.AdoptedFields) {
	want := a.of.want
	a.of.history.Adopted = adopted
	note := adopted.AdoptionNote()
	if note == "" {
		a.of.history.Adopted = nil
		return
	}
	a.of.Adopted(a.of.Work, want.String()+": "+note)
}

// managerNames returns those whose fields are taken over, fit for a message.
func (a *fieldAdoption) managerNames() []string {
	return listNames(slices.Sorted(slices.Values(a.from)))
}

// lostFields returns what of the fields another state of the object does not have, fit for a message.
func (a *fieldAdoption) lostFields(after map[string]any) []string {
	return listNames(replace.DifferingPaths(a.missing, a.before, after, goneMax+1))
}

// byHand reports whether an entry of managedFields is of a tool with which people, or their
// pipelines, bring objects to a cluster, or of before anybody noted whose what is.
func byHand(entry *metav1.ManagedFieldsEntry) bool {
	return strings.HasPrefix(entry.Manager, "kubectl") || entry.Manager == "helm" || entry.Manager == "before-first-apply"
}

// adoptableFields returns what of the fields a manifest is about. Of the metadata these are labels and
// annotations only: finalizers and owners are promises to others. That somebody restarted
// pods, or how many replicas there are, is no part of what was brought either: to remove
// these would restart them, or scale them down.
func adoptableFields(fields *fieldpath.Set) *fieldpath.Set {
	some := fieldpath.NewSet()
	fields.Iterate(func(path fieldpath.Path) {
		last := fieldAt(path, len(path)-1)
		switch root := fieldAt(path, 0); {
		case root == "": // whoever writes an object chooses what its entries have
		case root == "status", root == "apiVersion", root == "kind":
		case root == "metadata" && (len(path) < 3 || fieldAt(path, 1) != "labels" && fieldAt(path, 1) != "annotations"):
		case root == "spec" && len(path) == 2 && last == "replicas":
		case last == "kubectl.kubernetes.io/restartedAt":
		default:
			some.Insert(path.Copy())
		}
	})
	return some
}

// fieldAt returns the name of the field at a step of a path, "" if that is an item of a list.
func fieldAt(path fieldpath.Path, step int) string {
	if step >= len(path) || path[step].FieldName == nil {
		return ""
	}
	return *path[step].FieldName
}

// listNames returns some of the names, fit for a message.
func listNames(names []string) []string {
	some := make([]string, 0, goneMax+1)
	for _, name := range names[:min(len(names), goneMax)] {
		some = append(some, printableName(name))
	}
	if len(names) > goneMax {
		some = append(some, "and more")
	}
	return some
}

// printableName makes a name fit for a message: who writes an object chooses the names in it.
func printableName(name string) string {
	characters := []rune(strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return '?'
		}
		return r
	}, name))
	if len(characters) > namedCharactersMax {
		return string(characters[:namedCharactersMax]) + "…"
	}
	return string(characters)
}
