// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"context"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/agent/work/inventory"
	"github.com/capstan-io/capstan/internal/apply"
	"github.com/capstan-io/capstan/internal/apply/ignore"
)

// send applies an item and takes in what the server answers.
func (p *pass) send(ctx context.Context, it *item, record *inventory.Record) (*metav1.PartialObjectMetadata, error) {
	stamp := apply.Stamp{
		Label: workv1.LabelManaged, Namespace: it.object.Namespace, Owners: []metav1.OwnerReference{ownerOf(p.record)},
	}
	as := apply.As{Manager: managerOf(p.record.Name), Force: true}
	if it.strategy == apply.StrategyServerSideApply {
		as = apply.As{Manager: it.apply.FieldManager, Force: it.apply.Force}
		if as.Manager == "" {
			as.Manager = workv1.DefaultFieldManager
		}
		if it.ignored != nil || !p.sole(record) {
			var err error
			if as.Manager, err = p.regard(ctx, it, &stamp, as.Manager); err != nil {
				return nil, err
			}
		}
	}
	body, err := apply.Body(p.work.Spec.Workload.Manifests[it.ordinal].Raw, stamp)
	if err != nil {
		return nil, fmt.Errorf("manifest %d: %w", it.ordinal, err)
	}
	if err := p.rehearse(ctx, it, body, as); err != nil {
		return nil, err
	}
	// Only the server can tell whether another work owns a field, unless the
	// object is known to be ours alone.
	written, err := p.member.Apply(ctx, it.resource.Version, it.object, body, apply.As{Manager: as.Manager, Force: as.Force && p.sole(record)})
	if apierrors.IsConflict(err) {
		written, err = p.overrule(ctx, it, body, as, err)
	}
	if err == nil {
		written, err = p.tidy(ctx, it, written, as.Manager)
	}
	if err != nil {
		return nil, err
	}
	p.wrote(it, written)
	return written, nil
}

// sole tells whether the object is known to be there, and no other work's.
func (p *pass) sole(record *inventory.Record) bool {
	return record != nil && len(record.Owners) > 0 &&
		!slices.ContainsFunc(record.Owners, func(o *inventory.Owner) bool { return o.UID != p.record.UID })
}

// regard looks at the object before it is applied with the manager that the
// user chose. It leaves the ignored fields away if the object exists, and
// returns another manager if another work applies the object with this one:
// under one name, each would take away what only the other has.
func (p *pass) regard(ctx context.Context, it *item, stamp *apply.Stamp, manager string) (string, error) {
	if it.ignored != nil {
		stamp.Annotations = map[string]string{workv1.AnnotationConfigSpecHash: hex.EncodeToString(it.manifest.Hash[:])}
	}
	seen, err := p.member.Get(ctx, it.resource.Version, it.object)
	if apierrors.IsNotFound(err) {
		return manager, nil
	}
	if err != nil {
		return "", err
	}
	for i := range seen.OwnerReferences {
		owner := &seen.OwnerReferences[i]
		if owner.Kind == workv1.KindAppliedManifestWork && owner.UID != p.record.UID &&
			slices.Contains(apply.ManagersOf(seen, owner.UID), manager) && !p.takesOver(ctx, owner.Name) {
			manager += strings.TrimPrefix(managerOf(p.record.Name), workv1.DefaultFieldManager)
			break
		}
	}
	if it.ignored == nil {
		return manager, nil
	}
	return manager, p.leaveAlone(ctx, it, stamp, seen, manager)
}

// leaveAlone takes the ignored fields out of what is applied, and gives up
// what we own of them: the server would delete that.
func (p *pass) leaveAlone(
	ctx context.Context, it *item, stamp *apply.Stamp, seen *metav1.PartialObjectMetadata, manager string,
) error {
	content, err := apply.Content(p.work.Spec.Workload.Manifests[it.ordinal].Raw)
	if err != nil {
		return fmt.Errorf("manifest %d: %w", it.ordinal, err)
	}
	changed := changedSince(seen.Annotations[workv1.AnnotationConfigSpecHash], it.manifest.Hash)
	if stamp.Without, err = it.ignored.Select(ctx, content, changed, p.budget); err != nil {
		return err
	}
	rest, owned, err := ignore.Disown(seen.ManagedFields, func(entry *metav1.ManagedFieldsEntry) bool {
		return entry.Manager == manager && entry.Operation == metav1.ManagedFieldsOperationApply || p.isOurs(entry)
	}, content, stamp.Without)
	if err != nil || !owned {
		return err
	}
	body, err := apply.SetManagers(seen, rest)
	if err != nil {
		return err
	}
	_, err = p.member.Merge(ctx, it.resource.Version, it.object, body, apply.As{Manager: manager})
	return err
}

// changedSince tells whether an object was made from a manifest with another
// hash. A hash that is not of ours is of another agent: that the agent changed
// does not mean that the manifest did.
func changedSince(noted string, hash apply.Hash) bool {
	before, err := hex.DecodeString(noted)
	ours := err == nil && len(before) == len(hash)
	return noted == "" || ours && apply.Hash(before) != hash
}

// isOurs tells whether the entry of managedFields is of what this work wrote,
// whatever the strategy was.
func (p *pass) isOurs(entry *metav1.ManagedFieldsEntry) bool {
	return apply.AppliedFor(entry, p.record.UID) || p.isCreation(entry)
}

// isCreation tells whether an entry is of making the object as CreateOnly does.
func (p *pass) isCreation(entry *metav1.ManagedFieldsEntry) bool {
	return entry.Manager == managerOf(p.record.Name) && entry.Operation == metav1.ManagedFieldsOperationUpdate && entry.Subresource == ""
}

// tidy ends what the work owns under other names than the one that it applies
// with now, from other strategies: it would keep fields that the manifest
// loses later.
func (p *pass) tidy(ctx context.Context, it *item, seen *metav1.PartialObjectMetadata, manager string) (*metav1.PartialObjectMetadata, error) {
	entries := slices.DeleteFunc(slices.Clone(seen.ManagedFields), func(entry metav1.ManagedFieldsEntry) bool { return p.isCreation(&entry) })
	if len(entries) < len(seen.ManagedFields) {
		body, err := apply.SetManagers(seen, entries)
		if err != nil {
			return nil, err
		}
		if seen, err = p.member.Merge(ctx, it.resource.Version, it.object, body, apply.As{Manager: manager}); err != nil {
			return nil, err
		}
	}
	for _, old := range apply.ManagersOf(seen, p.record.UID) {
		if old == manager || p.sharedManager(seen, old) {
			continue
		}
		body, err := apply.Release(it.manifest.Kind, it.object, seen.UID, seen.ResourceVersion)
		if err != nil {
			return nil, err
		}
		if seen, err = p.member.Apply(ctx, it.resource.Version, it.object, body, apply.As{Manager: old}); err != nil {
			return nil, err
		}
	}
	return seen, nil
}

// sharedManager tells whether another work applied the object with the manager.
func (p *pass) sharedManager(seen *metav1.PartialObjectMetadata, manager string) bool {
	return slices.ContainsFunc(seen.OwnerReferences, func(owner metav1.OwnerReference) bool {
		return owner.UID != p.record.UID && slices.Contains(apply.ManagersOf(seen, owner.UID), manager)
	})
}

// overrule applies an item again with force, if that is wanted, unless another
// work owns a field that the two do not agree about: works do not overrule
// each other.
func (p *pass) overrule(
	ctx context.Context, it *item, body []byte, as apply.As, conflict error,
) (*metav1.PartialObjectMetadata, error) {
	managers := apply.Explain(conflict, "apply", it.object).Managers
	if len(managers) == 0 {
		return nil, conflict // the object is not the one that we looked at
	}
	seen, err := p.member.Get(ctx, it.resource.Version, it.object)
	if err != nil {
		return nil, err
	}
	works := map[string]string{}
	for i := range seen.OwnerReferences {
		owner := &seen.OwnerReferences[i]
		if owner.Kind != workv1.KindAppliedManifestWork || owner.UID == p.record.UID || p.takesOver(ctx, owner.Name) {
			continue
		}
		theirs := apply.ManagersOf(seen, owner.UID)
		if !as.Force { // what another work made and does not keep up is theirs, too
			theirs = append(theirs, managerOf(owner.Name))
		}
		for _, manager := range theirs {
			if slices.Contains(managers, manager) {
				works[manager] = p.workOf(owner.Name)
			}
		}
	}
	if len(works) > 0 {
		return nil, &disagreement{works: works, conflict: conflict}
	}
	if !as.Force {
		return nil, conflict
	}
	return p.member.Apply(ctx, it.resource.Version, it.object, body, as)
}

// disagreement is a conflict with other works, by their field managers.
type disagreement struct {
	works    map[string]string
	conflict error
}

func (d *disagreement) Error() string {
	return strings.Join(slices.Sorted(maps.Values(d.works)), ", ") + ": " + d.conflict.Error()
}
func (d *disagreement) Unwrap() error { return d.conflict }

// explain puts the works into the message of the conflict.
func (d *disagreement) explain(message string) string {
	for manager, work := range d.works {
		message = strings.ReplaceAll(message, "("+manager+")", "("+work+")")
	}
	return message + " Works do not overwrite each other: leave the fields to one of them."
}

// workOf names the work of a record for messages.
func (p *pass) workOf(record string) string {
	if work, ours := strings.CutPrefix(record, p.hubHash+"-"); ours {
		return fmt.Sprintf("ManifestWork %q", work)
	}
	_, work, _ := strings.Cut(record, "-")
	return fmt.Sprintf("ManifestWork %q of another hub", work)
}

// create makes an object, and only becomes an owner of one that is there.
func (p *pass) create(ctx context.Context, it *item) {
	written, err := p.makeOrOwn(ctx, it)
	if err != nil {
		p.failed(ctx, it, err)
		return
	}
	p.wrote(it, written)
}

func (p *pass) makeOrOwn(ctx context.Context, it *item) (*metav1.PartialObjectMetadata, error) {
	stamp := apply.Stamp{
		Label: workv1.LabelManaged, Namespace: it.object.Namespace, Owners: []metav1.OwnerReference{ownerOf(p.record)},
	}
	as := apply.As{Manager: managerOf(p.record.Name), Force: true}
	raw := p.work.Spec.Workload.Manifests[it.ordinal].Raw
	missing := p.session == nil // what an executor needs depends on whether the object is there
	if !missing {
		_, err := p.member.Get(ctx, it.resource.Version, it.object)
		if missing = apierrors.IsNotFound(err); err != nil && !missing {
			return nil, err
		}
	}
	if missing {
		body, err := apply.Body(raw, stamp)
		if err == nil {
			err = p.rehearse(ctx, it, body, as)
		}
		if err != nil {
			return nil, err
		}
		if made, err := p.member.Create(ctx, it.resource.Version, it.object, body, as.Manager); !apierrors.IsAlreadyExists(err) {
			return made, err
		}
	}
	seen, err := p.member.Get(ctx, it.resource.Version, it.object)
	if err != nil {
		return nil, err
	}
	stamp.MetadataOnly, stamp.UID = true, seen.UID
	body, err := apply.Body(raw, stamp)
	if err == nil {
		err = p.rehearse(ctx, it, body, as)
	}
	if err != nil {
		return nil, err
	}
	return p.member.Apply(ctx, it.resource.Version, it.object, body, as)
}
