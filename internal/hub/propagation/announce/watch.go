// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package announce

import (
	"context"
	"fmt"
	"slices"

	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karmadaworkv1alpha1 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/hub/propagation/lookup"
	"github.com/capstan-io/capstan/internal/propagation/deliver"
)

// watchObjects tells of what happens to bindings and works from now on. What had happened
// before was told then.
func (a *Announcer) watchObjects(ctx context.Context) (stop func(), err error) {
	var stops []func()
	stop = func() {
		for _, one := range stops {
			one()
		}
	}
	binding := func(before, after any) { a.announceBinding(ctx, before, after) }
	for _, of := range []struct {
		kind client.Object
		take func(before, after any)
	}{
		{&workv1alpha2.ResourceBinding{}, binding},
		{&workv1alpha2.ClusterResourceBinding{}, binding},
		{&workv1.ManifestWork{}, func(before, after any) { a.announceWork(ctx, before, after) }},
	} {
		informer, err := a.Cache.GetInformer(ctx, of.kind)
		if err != nil {
			stop()
			return nil, fmt.Errorf("watching %T: %w", of.kind, err)
		}
		handle, err := informer.AddEventHandler(toolscache.ResourceEventHandlerDetailedFuncs{
			AddFunc: func(object any, initial bool) {
				if !initial {
					of.take(nil, object)
				}
			},
			UpdateFunc: of.take,
		})
		if err != nil {
			stop()
			return nil, fmt.Errorf("watching %T: %w", of.kind, err)
		}
		stops = append(stops, func() { _ = informer.RemoveEventHandler(handle) }) // the informer ends, too
	}
	return stop, nil
}

// announceBinding tells of what has happened to a binding; before is nil if it is new.
func (a *Announcer) announceBinding(ctx context.Context, before, after any) {
	is, ok := after.(workv1alpha2.Binding)
	if !ok {
		return
	}
	var was workv1alpha2.Binding = &workv1alpha2.ResourceBinding{}
	if before != nil {
		if was, ok = before.(workv1alpha2.Binding); !ok {
			return
		}
	}
	a.RecordEvents(bindingChangeEvents(was, is)...)
	for _, key := range newlyRequired(was, is) {
		referrer := &workv1alpha2.ResourceBinding{}
		if a.Client.Get(ctx, key, referrer, client.UnsafeDisableDeepCopy) == nil {
			a.RecordEvents(dependencySyncEvent(referrer))
		}
	}
}

// announceWork tells of what has happened to a work of a binding; before is nil if it is
// new. Whether a cluster has the object is told of the object as well.
func (a *Announcer) announceWork(ctx context.Context, before, after any) {
	is, ok := after.(*workv1.ManifestWork)
	if !ok || is.Labels[karmadaworkv1alpha1.LabelPermanentID] == "" {
		return
	}
	was := &workv1.ManifestWork{}
	if before != nil {
		if was, ok = before.(*workv1.ManifestWork); !ok {
			return
		}
	}
	for _, event := range workChangeEvents(was, is) {
		a.RecordEvents(event)
		if event.Reason != ReasonSyncSucceed && event.Reason != ReasonSyncFailed {
			continue
		}
		if b := a.bindingOfWork(ctx, is); b != nil {
			for _, same := range aboutObject(b, event.Type, event.Reason, event.Note) {
				same.Part = is.Namespace
				a.RecordEvents(same)
			}
		}
	}
}

// bindingOfWork returns the binding of a work; nil if there is none, or if the work has not the
// name of its works: a member may write there what it likes.
func (a *Announcer) bindingOfWork(ctx context.Context, work *workv1.ManifestWork) workv1alpha2.Binding {
	name := deliver.BindingOf(work)
	var b lookup.Binding = &workv1alpha2.ResourceBinding{}
	if name.Namespace == "" {
		b = &workv1alpha2.ClusterResourceBinding{}
	}
	if name.Name == "" || a.Client.Get(ctx, name, b) != nil || !slices.Contains(deliver.NamesOfWorks(b), work.Name) {
		return nil
	}
	return b
}
