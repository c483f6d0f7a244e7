// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"context"
	"fmt"
	"math"
	"slices"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	"github.com/capstan-io/capstan/internal/scheduling/placement"
)

const (
	// writesAtOnce is how many PlacementDecisions of one Placement are written at a time.
	writesAtOnce = 8
	// writesOfNamespace is how many PlacementDecisions of a namespace are written without a wait,
	// and writesInASecond how many after that: etcd stores each for ten minutes more, of some
	// KiB. All groups of two Placements, or 100 Placements of 2,500 clusters, are written at once.
	writesOfNamespace, writesInASecond = 2500, 25

	maxInt32 = math.MaxInt32
)

// storedDecisions are the PlacementDecisions of a Placement.
type storedDecisions struct {
	slices  []decisionSlice
	objects map[int]*clusterv1beta1.PlacementDecision // by number
	// others are numbers that are somebody else's.
	others []int
	// former are those of a Placement that had this name before.
	former []*clusterv1beta1.PlacementDecision
	// behind says that they are not yet as they were written last.
	behind bool
}

// listDecisions reads the PlacementDecisions of a Placement. They are found by their
// names: labels and owners are what somebody may have taken from them.
func (c *SchedulingController) listDecisions(ctx context.Context, p *clusterv1beta1.Placement) (storedDecisions, error) {
	list := &clusterv1beta1.PlacementDecisionList{}
	err := c.client.List(ctx, list, client.InNamespace(p.Namespace), client.MatchingFields{indexPlacement: p.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return storedDecisions{}, fmt.Errorf("listing the PlacementDecisions of Placement %q: %w", client.ObjectKeyFromObject(p), err)
	}
	d := storedDecisions{objects: map[int]*clusterv1beta1.PlacementDecision{}, behind: !c.expectations.areSatisfiedBy(p, list.Items)}
	for i := range list.Items {
		object := &list.Items[i]
		_, number, _ := placement.ParseDecisionName(object.Name)
		switch owner := metav1.GetControllerOf(object); {
		case !object.DeletionTimestamp.IsZero():
			d.others = append(d.others, number)
		case owner == nil && object.Labels[clusterv1beta1.LabelPlacement] == p.Name, owner != nil && owner.UID == p.UID:
			d.slices = append(d.slices, c.sliceFromDecision(p, number, object))
			d.objects[number] = object.DeepCopy()
		case owner != nil && owner.Kind == "Placement" && owner.Name == p.Name:
			d.former = append(d.former, object.DeepCopy())
		default:
			d.others = append(d.others, number)
		}
	}
	slices.SortFunc(d.slices, byNumber)
	return d, nil
}

// writeDecisions makes the PlacementDecisions what they are to be.
func (c *SchedulingController) writeDecisions(ctx context.Context, p *clusterv1beta1.Placement, have storedDecisions, steps decisionWrites) error {
	for _, object := range have.former {
		if err := c.deleteDecision(ctx, p, object); err != nil {
			return err
		}
	}
	for _, step := range [][]decisionSlice{steps.First, steps.Then} {
		group, ctx := errgroup.WithContext(ctx)
		group.SetLimit(writesAtOnce)
		for _, s := range step {
			object := have.objects[s.Number]
			if object == nil {
				object = &clusterv1beta1.PlacementDecision{}
				have.objects[s.Number] = object
			}
			group.Go(func() error { return c.writeDecision(ctx, p, s, object) })
		}
		if err := group.Wait(); err != nil {
			return err
		}
	}
	for _, s := range steps.Gone {
		if err := c.deleteDecision(ctx, p, have.objects[s.Number]); err != nil {
			return err
		}
	}
	return nil
}

// writeDecision writes one PlacementDecision, as it was read or new.
func (c *SchedulingController) writeDecision(ctx context.Context, p *clusterv1beta1.Placement, s decisionSlice, object *clusterv1beta1.PlacementDecision) error {
	was := object.DeepCopy()
	object.Namespace, object.Name = p.Namespace, placement.DecisionName(p.Name, s.Number)
	if err := c.fillDecision(object, p, s); err != nil {
		return err
	}
	c.model.beginDecisionWrite(client.ObjectKeyFromObject(object), decisionContent{clusters: s.Clusters, fingerprint: fingerprint(object)})
	if err := c.createOrUpdateDecision(ctx, was, object); err != nil {
		c.model.finishDecisionWrite(client.ObjectKeyFromObject(object), "")
		return err
	}
	c.model.finishDecisionWrite(client.ObjectKeyFromObject(object), object.ResourceVersion)
	c.expectations.expectWritten(p, object)
	return nil
}

// createOrUpdateDecision creates or changes a PlacementDecision, and writes its status.
func (c *SchedulingController) createOrUpdateDecision(ctx context.Context, was, object *clusterv1beta1.PlacementDecision) error {
	status := object.Status
	switch {
	case object.ResourceVersion == "":
		if err := c.client.Create(ctx, object); err != nil {
			return fmt.Errorf("creating PlacementDecision %q: %w", object.Namespace+"/"+object.Name, asConflict(err))
		}
	case !equality.Semantic.DeepEqual(was.ObjectMeta, object.ObjectMeta):
		if err := c.client.Update(ctx, object); err != nil {
			return fmt.Errorf("repairing PlacementDecision %q: %w", object.Namespace+"/"+object.Name, asConflict(err))
		}
	}
	object.Status = status
	if err := c.client.Status().Update(ctx, object); err != nil {
		return fmt.Errorf("writing the status of PlacementDecision %q: %w", object.Namespace+"/"+object.Name, asConflict(err))
	}
	return nil
}

// deleteDecision deletes a PlacementDecision, as it was read.
func (c *SchedulingController) deleteDecision(ctx context.Context, p *clusterv1beta1.Placement, object *clusterv1beta1.PlacementDecision) error {
	asRead := client.Preconditions{UID: &object.UID, ResourceVersion: &object.ResourceVersion}
	c.model.lostDecision(client.ObjectKeyFromObject(object)) // before its event, which is no news then
	if err := c.client.Delete(ctx, object, asRead); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("deleting PlacementDecision %q: %w", object.Namespace+"/"+object.Name, err)
	}
	c.expectations.expectDeleted(p, object)
	return nil
}

// asConflict returns an error about an object that is there although the cache does
// not show it, or not there although it does, as the conflict that it is.
func asConflict(err error) error {
	if apierrors.IsAlreadyExists(err) || apierrors.IsNotFound(err) {
		return apierrors.NewConflict(clusterv1beta1.GroupVersion.WithResource("placementdecisions").GroupResource(), "", err)
	}
	return err
}
