// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/agent/work/inventory"
	"github.com/capstan-io/capstan/internal/apply"
	"github.com/capstan-io/capstan/internal/conditions"
)

// note makes sure, before anything is applied, that the record exists and has
// the types of the objects, and that these are watched.
func (p *pass) note(ctx context.Context) error {
	wanted := p.plan.wanted()
	if p.record == nil {
		record, err := p.createRecord(ctx, p.recordName(p.name), wanted)
		if err != nil {
			return err
		}
		p.setRecord(record)
		if record.DeletionTimestamp != nil {
			return apierrors.NewConflict(schema.GroupResource{Group: workv1.GroupName, Resource: "appliedmanifestworks"},
				record.Name, errGoing)
		}
	}
	if _, ours := p.record.Annotations[workv1.AnnotationResourceTypes]; !ours {
		if err := p.adopt(ctx); err != nil {
			return err
		}
	}
	noted := typesOf(p.record)
	all := sortResources(slices.Concat(noted, wanted))
	if len(all) > len(noted) || p.record.Spec.AgentID != p.connection.AgentID ||
		!slices.Contains(p.record.Finalizers, workv1.FinalizerAppliedManifestWorkCleanup) {
		if err := p.patchRecord(ctx, all); err != nil {
			return err
		}
	}
	p.watch(all)
	return nil
}

// watch makes the inventory watch these types, and no others, on behalf of the
// record. A watch outlives the pass that starts it.
func (p *pass) watch(resources []schema.GroupVersionResource) {
	p.inventory.Use(p.ctx, p.record.Name, resources)
}

// errGoing ends a pass that met a record which someone deletes.
var errGoing = errors.New("it is being deleted")

// createRecord makes a record of the name, or returns the one that is there.
func (p *pass) createRecord(
	ctx context.Context, name string, resources []schema.GroupVersionResource,
) (*workv1.AppliedManifestWork, error) {
	record := &workv1.AppliedManifestWork{
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Annotations: map[string]string{workv1.AnnotationResourceTypes: formatTypes(resources)},
			Finalizers:  []string{workv1.FinalizerAppliedManifestWorkCleanup},
		},
		Spec: workv1.AppliedManifestWorkSpec{
			HubHash: p.hubHash, AgentID: p.connection.AgentID, ManifestWorkName: p.name,
		},
	}
	err := p.connection.Spoke.GetClient().Create(ctx, record)
	if apierrors.IsAlreadyExists(err) { // made before, and not in the cache yet
		err = p.connection.Spoke.GetAPIReader().Get(ctx, client.ObjectKeyFromObject(record), record)
	}
	if err != nil {
		return nil, fmt.Errorf("creating appliedmanifestwork %q: %w", name, err)
	}
	return record, nil
}

// patchRecord writes the types, and what identifies the agent.
func (p *pass) patchRecord(ctx context.Context, resources []schema.GroupVersionResource) error {
	after := p.record.DeepCopy()
	metav1.SetMetaDataAnnotation(&after.ObjectMeta, workv1.AnnotationResourceTypes, formatTypes(resources))
	after.Spec.AgentID = p.connection.AgentID
	if !slices.Contains(after.Finalizers, workv1.FinalizerAppliedManifestWorkCleanup) {
		after.Finalizers = append(after.Finalizers, workv1.FinalizerAppliedManifestWorkCleanup)
	}
	patch := client.MergeFromWithOptions(p.record, client.MergeFromWithOptimisticLock{})
	if err := p.connection.Spoke.GetClient().Patch(ctx, after, patch); err != nil {
		return fmt.Errorf("noting the types of objects in appliedmanifestwork %q: %w", p.record.Name, err)
	}
	p.setRecord(after)
	return nil
}

func (p *pass) setRecord(record *workv1.AppliedManifestWork) {
	p.record = record
	p.state.record.Store(record)
}

// adopt labels the objects of a record that another agent left, so that they
// are seen by the inventory. Only when all are does the record get our
// annotation.
func (p *pass) adopt(ctx context.Context) error {
	label, err := json.Marshal(map[string]any{"metadata": map[string]any{"labels": map[string]string{workv1.LabelManaged: "true"}}})
	if err != nil {
		return fmt.Errorf("encoding the label %q: %w", workv1.LabelManaged, err)
	}
	resources := p.record.Status.AppliedResources
	for i := range resources {
		object := objectOf(&resources[i])
		seen, err := p.member.Get(ctx, resources[i].Version, object)
		if err == nil && string(seen.UID) == resources[i].UID && seen.Labels[workv1.LabelManaged] == "" {
			_, err = p.member.Merge(ctx, resources[i].Version, object, label, apply.As{Manager: managerOf(p.record.Name)})
		}
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
			return err
		}
	}
	return nil
}

// list writes which objects there are into the record's status, and drops
// types that have none any more.
func (p *pass) list(ctx context.Context) error {
	after := p.record.DeepCopy()
	after.Status.EvictionStartTime = nil
	after.Status.AppliedResources = p.roster().list
	if p.listLater(after) {
		return nil
	}
	if err := conditions.PatchStatus(ctx, p.connection.Spoke.GetClient(), p.record, after); err != nil {
		if shorter := p.listRoom() / 2; tooLarge(err) && shorter >= listBytesLeast {
			p.state.listRoom = shorter
			p.comeBack(conflictRetry) // and says first what the list will lack
			return nil
		}
		return fmt.Errorf("listing the objects of manifestwork %q: %w", p.name, err)
	}
	if after.ResourceVersion != p.record.ResourceVersion {
		p.setRecord(after)
		// The cache may have it already, and then nothing else looks again.
		if _, _, err := p.readRecord(ctx, p.state, after.Name); err != nil {
			return err
		}
	}
	wanted := p.plan.wanted()
	if len(p.leftovers) > 0 || p.pending() || len(wanted) == len(typesOf(p.record)) ||
		slices.ContainsFunc(p.plan.items, func(it *item) bool { return !it.resolved }) {
		return nil
	}
	if err := p.patchRecord(ctx, wanted); err != nil {
		return err
	}
	p.watch(sortResources(slices.Concat(wanted, typesOf(p.record))))
	return nil
}

// listLater tells whether the list can wait, and makes the pass come again for
// it then. Objects that the inventory knows are found without the list, which
// says the same for people and other agents; so it gives way to works that
// wait for their first write, and many changes cost one write.
func (p *pass) listLater(after *workv1.AppliedManifestWork) bool {
	same := equality.Semantic.DeepEqual(after.Status, p.record.Status)
	if same || p.record.Status.EvictionStartTime != nil || p.blind() {
		p.state.listAt = time.Time{}
		return false
	}
	now := p.options.Clock.Now()
	if p.state.listAt.IsZero() {
		p.state.listAt = now.Add(p.options.ListDelay)
	}
	if now.Before(p.state.listAt) {
		p.comeBack(p.state.listAt.Sub(now))
		return true
	}
	p.state.listAt = time.Time{}
	return false
}

// blind tells whether the objects of a noted type cannot be known.
func (p *pass) blind() bool {
	return slices.ContainsFunc(typesOf(p.record), func(r schema.GroupVersionResource) bool {
		err := p.inventory.State(r.GroupResource())
		return err != nil && !errors.Is(err, inventory.ErrPending)
	})
}

// applied returns the objects that there are, sorted.
func (p *pass) applied() []workv1.AppliedManifestResourceMeta {
	var list []workv1.AppliedManifestResourceMeta
	have := map[apply.Object]struct{}{}
	for _, it := range p.plan.items {
		// What was done for an object of a kind that is not known now, the
		// inventory and the record know.
		if !it.resolved || it.past.Mark.UID == "" || it.strategy == apply.StrategyReadOnly {
			continue
		}
		have[it.object] = struct{}{}
		list = append(list, metaOf(it.object, it.resource.Version, it.past.Mark.UID))
	}
	for _, object := range p.inventory.OwnedBy(p.record.UID) {
		record, _ := p.inventory.Get(object)
		if _, ok := have[object]; !ok && record != nil {
			have[object] = struct{}{}
			list = append(list, metaOf(object, record.Version, record.Mark.UID))
		}
	}
	// What cannot be watched, or is not listed yet, stays until it is known to be gone.
	for i := range p.record.Status.AppliedResources {
		old := &p.record.Status.AppliedResources[i]
		_, ok := have[objectOf(old)]
		if !ok && p.inventory.State(groupResource(old)) != nil && !p.gone[objectOf(old)] {
			list = append(list, *old)
		}
	}
	slices.SortFunc(list, func(a, b workv1.AppliedManifestResourceMeta) int {
		return strings.Compare(objectOf(&a).String(), objectOf(&b).String())
	})
	return list
}

// pending tells whether the objects of a noted type are not listed yet.
func (p *pass) pending() bool {
	return slices.ContainsFunc(typesOf(p.record), func(r schema.GroupVersionResource) bool {
		return errors.Is(p.inventory.State(r.GroupResource()), inventory.ErrPending)
	})
}

// takesOver tells whether the record is of a hub that this agent worked for
// before, so that its objects are now ours.
func (p *pass) takesOver(ctx context.Context, record string) bool {
	other := &workv1.AppliedManifestWork{}
	if err := p.connection.Spoke.GetClient().Get(ctx, client.ObjectKey{Name: record}, other); err != nil {
		return false
	}
	return other.Spec.HubHash != p.hubHash && other.Spec.AgentID == p.connection.AgentID && p.connection.AgentID != ""
}

// typesOf returns the types that a record has noted, sorted.
func typesOf(record *workv1.AppliedManifestWork) []schema.GroupVersionResource {
	var resources []schema.GroupVersionResource
	for noted := range strings.SplitSeq(record.Annotations[workv1.AnnotationResourceTypes], ",") {
		if parts := strings.Split(noted, "/"); len(parts) == 3 {
			resources = append(resources, schema.GroupVersionResource{Group: parts[0], Version: parts[1], Resource: parts[2]})
		}
	}
	for i := range record.Status.AppliedResources {
		r := &record.Status.AppliedResources[i]
		if !slices.ContainsFunc(resources, func(g schema.GroupVersionResource) bool { return g.GroupResource() == groupResource(r) }) {
			resources = append(resources, schema.GroupVersionResource{Group: r.Group, Version: r.Version, Resource: r.Resource})
		}
	}
	return sortResources(resources)
}

func formatTypes(resources []schema.GroupVersionResource) string {
	texts := make([]string, 0, len(resources))
	for _, r := range resources {
		texts = append(texts, r.Group+"/"+r.Version+"/"+r.Resource)
	}
	return strings.Join(texts, ",")
}

func objectOf(r *workv1.AppliedManifestResourceMeta) apply.Object {
	return apply.Object{Group: r.Group, Resource: r.Resource, Namespace: r.Namespace, Name: r.Name}
}

func groupResource(r *workv1.AppliedManifestResourceMeta) schema.GroupResource {
	return schema.GroupResource{Group: r.Group, Resource: r.Resource}
}

func metaOf(object apply.Object, version string, uid types.UID) workv1.AppliedManifestResourceMeta {
	return workv1.AppliedManifestResourceMeta{
		ResourceIdentifier: workv1.ResourceIdentifier{
			Group: object.Group, Resource: object.Resource, Namespace: object.Namespace, Name: object.Name,
		},
		Version: version, UID: string(uid),
	}
}

func ownerOf(record *workv1.AppliedManifestWork) metav1.OwnerReference {
	return ownerReference(record.Name, record.UID)
}

func ownerReference(record string, uid types.UID) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: workv1.GroupVersion.String(), Kind: workv1.KindAppliedManifestWork, Name: record, UID: uid,
	}
}
