// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package replicaset_test

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	clusterv1alpha1 "github.com/capstan-io/capstan/apis/cluster/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	workv1alpha1 "github.com/capstan-io/capstan/apis/work/v1alpha1"
)

// fleetSize is how many clusters there are.
const fleetSize = 100

// TestTwoControllersWithFailingWrites runs two controllers at the same time, as
// in a bad hand-over. Of the writes of both, every seventh fails: half of these
// before, and half after the API server has done it, as on a crash.
func TestTwoControllersWithFailingWrites(t *testing.T) {
	h := start(t)
	h.namespace = "default"
	h.serve(t)
	var names, want []string
	for i := range fleetSize {
		name := fmt.Sprintf("m%03d", i)
		names, want = append(names, name), append(want, name)
	}
	h.clusters(names...)
	for range 2 {
		h.run(t, failing())
	}
	h.choose("p", names[:fleetSize/2], names[fleetSize/2:])
	set := h.set("v1", "p", clusterv1alpha1.RolloutStrategy{Type: "Progressive", Progressive: &clusterv1alpha1.RolloutProgressive{
		MaxConcurrency: intstr.FromString("25%"),
	}})
	have := func(value string) []string {
		var all []string
		for _, name := range want {
			all = append(all, name+"="+value)
		}
		return all
	}
	h.delivered(set, have("v1")...)
	h.says(set, workv1alpha1.ConditionPlacementRolledOut, workv1alpha1.ReasonComplete)
	h.turn(set, "v2")
	h.delivered(set, have("v2")...)
	h.says(set, workv1alpha1.ConditionPlacementRolledOut, workv1alpha1.ReasonComplete, "100 of 100")
	want = names[:fleetSize/2]
	h.choose("p", names[:fleetSize/2], []string{})
	h.delivered(set, have("v2")...)
	for _, w := range h.listed(set) {
		if w.Generation != 2 {
			t.Errorf("the spec of the work of %s was written %d times, want 2", w.Namespace, w.Generation)
		}
	}
	h.MustDelete(set)
	h.UntilRight(func() string { return h.gone(set) })
	h.delivered(set)
}

// failing makes every seventh write of a work fail, before or after it is done.
func failing() interceptor.Funcs {
	var writes atomic.Int64
	do := func(object client.Object, write func() error) error {
		if _, isWork := object.(*workv1.ManifestWork); !isWork {
			return write()
		}
		n := writes.Add(1)
		switch n % 14 {
		case 7:
			return errors.New("the request did not get there")
		case 0:
			if err := write(); err != nil {
				return err
			}
			return errors.New("the response got lost")
		}
		return write()
	}
	return interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			return do(o, func() error { return c.Create(ctx, o, options...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, p client.Patch, options ...client.PatchOption) error {
			return do(o, func() error { return c.Patch(ctx, o, p, options...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteOption) error {
			return do(o, func() error { return c.Delete(ctx, o, options...) })
		},
	}
}
