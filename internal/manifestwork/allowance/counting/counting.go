// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package counting has a cache tell an allowance what works take up, and shows what that holds back as
// a metric. It decides nothing.
package counting

import (
	"context"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/manifestwork/allowance"
	"github.com/capstan-io/capstan/internal/server/metrics"
)

// WatchAllowance has a cache tell the allowance of all works, which are as allowance.AnnotateSlimWork left them or whole,
// and of the limits of namespaces. It returns what reports whether all that there are were told of.
func WatchAllowance(ctx context.Context, from cache.Cache, a *allowance.Allowance) (counted func() bool, err error) {
	works, err := watchObjects(ctx, from, &workv1.ManifestWork{}, a.ObserveWork)
	if err != nil {
		return nil, err
	}
	limited, err := watchObjects(ctx, from, &corev1.Namespace{}, namespaceLimitHandler(a))
	if err != nil {
		return nil, err
	}
	return func() bool { return works() && limited() }, nil
}

// namespaceLimitHandler returns what takes in what a watch tells of a Namespace. A limit with a mistake counts as none.
func namespaceLimitHandler(a *allowance.Allowance) func(before, after *corev1.Namespace) {
	return func(before, after *corev1.Namespace) {
		if after == nil {
			after = &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: before.Name}}
		}
		for _, owner := range allowance.OwnersIn(after.Name) {
			limit, _ := allowance.LimitOf(after, owner) // whoever has works to write tells of mistakes
			a.SetLimit(owner, limit)
		}
	}
}

// TakeLimit takes in the limit of an owner as a cache has it: whoever was woken by a change of it may be
// earlier than what WatchAllowance tells. It returns what is wrong with the annotation, if that is no limit. Who has
// no namespace has none.
func TakeLimit(ctx context.Context, from client.Reader, a *allowance.Allowance, owner allowance.WorkOwner) (mistake, err error) {
	if owner.Namespace == "" {
		return nil, nil
	}
	namespace := &corev1.Namespace{}
	if err := from.Get(ctx, client.ObjectKey{Name: owner.Namespace}, namespace, client.UnsafeDisableDeepCopy); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading how many bytes the works of namespace %q may have: %w", owner.Namespace, err)
	}
	limit, mistake := allowance.LimitOf(namespace, owner)
	a.SetLimit(owner, limit)
	return mistake, nil
}

// watchObjects has a cache tell of the objects of a kind, nil for none before or after a change.
func watchObjects[T interface {
	comparable
	client.Object
}](ctx context.Context, from cache.Cache, kind T, see func(before, after T)) (synced func() bool, err error) {
	informer, err := from.GetInformer(ctx, kind, cache.BlockUntilSynced(false))
	if err != nil {
		return nil, fmt.Errorf("watching %T for what works may take up: %w", kind, err)
	}
	var none T
	tell := func(before, after any) {
		was, _ := before.(T)
		if is, _ := after.(T); was != none || is != none {
			see(was, is)
		}
	}
	told, err := informer.AddEventHandler(toolscache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { tell(nil, object) },
		UpdateFunc: tell,
		DeleteFunc: func(object any) {
			if missed, is := object.(toolscache.DeletedFinalStateUnknown); is {
				object = missed.Obj
			}
			tell(object, nil)
		},
	})
	if err != nil {
		return nil, fmt.Errorf("watching %T for what works may take up: %w", kind, err)
	}
	return told.HasSynced, nil
}

// HeldBackCollector returns the metric of namespaces that are held back.
func HeldBackCollector(a *allowance.Allowance, name, whose string) prometheus.Collector {
	return metrics.NewComputedGauge(metrics.Definition{
		Name:   name,
		Help:   "Number of namespaces of which works of " + whose + " were held back in the last 15 minutes, by reason: NamespaceFull (their works have as many bytes on the hub as they may), HubFull (they may have no more, as other namespaces have so much), NamespaceThrottled (much was written to them, and others wait for their turn).",
		Labels: []string{"reason"},
	}, func(_ context.Context, set metrics.SetValue) error {
		for reason, count := range a.HeldBack() {
			set(float64(count), string(reason))
		}
		return nil
	})
}
