// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package label

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	testingclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/cli/hub"
)

func TestEditTaintsKeepsTheOthersAndTheirTimes(t *testing.T) {
	silent := clusterv1.Taint{Key: clusterv1.TaintUnreachable, Effect: clusterv1.TaintEffectNoSelect, TimeAdded: metav1.Unix(1, 0)}
	gpu := clusterv1.Taint{Key: "dedicated", Value: "gpu", Effect: clusterv1.TaintEffectNoSelect, TimeAdded: metav1.Unix(2, 0)}
	batch := gpu
	batch.Value = "batch"
	cases := map[string]struct {
		reason    string
		change    string
		overwrite bool
		want      []clusterv1.Taint
		fails     bool
	}{
		"a new one":              {reason: "it comes last", change: "new:PreferNoSelect", want: []clusterv1.Taint{silent, gpu, {Key: "new", Effect: clusterv1.TaintEffectPreferNoSelect}}},
		"another effect":         {reason: "it is another taint", change: "dedicated=gpu:NoExecute-", want: []clusterv1.Taint{silent}},
		"another value":          {reason: "nothing is replaced unasked", change: "dedicated=batch:NoSelect", fails: true},
		"another value, by will": {reason: "the hub knows the time of the edited taint", change: "dedicated=batch:NoSelect", overwrite: true, want: []clusterv1.Taint{silent, batch}},
		"off":                    {reason: "by its key", change: "dedicated-", want: []clusterv1.Taint{silent}},
		"off, other effect":      {reason: "that one is not there", change: "dedicated:NoSelectIfNew-", fails: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			change, err := parseTaint(c.change)
			if err != nil {
				t.Fatal(err)
			}
			given := []clusterv1.Taint{silent, gpu}
			got, err := editTaints(given, []taintChange{change}, c.overwrite)
			if (err != nil) != c.fails {
				t.Fatalf("%s: got error %v, want one: %t", c.reason, err, c.fails)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", c.reason, diff)
			}
			if diff := cmp.Diff([]clusterv1.Taint{silent, gpu}, given); diff != "" {
				t.Errorf("the taints that were given have changed:\n%s", diff)
			}
		})
	}
}

// TestATaintThatTheHubSetsMeanwhileStays lets the hub's controller write its
// taint between the reading and the writing of the command.
func TestATaintThatTheHubSetsMeanwhileStays(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := clusterv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	cluster := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "member1"}}
	stored := fake.NewClientBuilder().WithScheme(scheme).WithObjects(cluster).Build()
	writes := 0
	raced := interceptor.NewClient(stored, interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			if writes++; writes == 1 {
				now := &clusterv1.ManagedCluster{}
				if err := c.Get(ctx, client.ObjectKeyFromObject(object), now); err != nil {
					return err
				}
				now.Spec.Taints = append(now.Spec.Taints, clusterv1.Taint{Key: clusterv1.TaintUnreachable, Effect: clusterv1.TaintEffectNoSelect})
				if err := c.Update(ctx, now); err != nil {
					return err
				}
				return apierrors.NewConflict(schema.GroupResource{Resource: "managedclusters"}, "member1", nil)
			}
			return c.Patch(ctx, object, patch, options...)
		},
	})
	session := hub.NewSession(genericiooptions.NewTestIOStreamsDiscard(), testingclock.NewFakePassiveClock(time.Time{}))
	c := &clusterChange{session: session}
	err := c.editCluster(t.Context(), raced, raced, "member1", func(cluster *clusterv1.ManagedCluster) (string, error) {
		cluster.Spec.Taints = append(cluster.Spec.Taints, clusterv1.Taint{Key: "mine", Effect: clusterv1.TaintEffectNoSelect})
		return "tainted", nil
	})
	if err != nil {
		t.Fatal(err)
	}
	got := &clusterv1.ManagedCluster{}
	if err := stored.Get(t.Context(), client.ObjectKey{Name: "member1"}, got); err != nil {
		t.Fatal(err)
	}
	var keys []string
	for _, taint := range got.Spec.Taints {
		keys = append(keys, taint.Key)
	}
	slices.Sort(keys)
	if diff := cmp.Diff([]string{clusterv1.TaintUnreachable, "mine"}, keys); diff != "" {
		t.Errorf("the taints after both wrote (-want +got):\n%s", diff)
	}
	if writes < 2 {
		t.Errorf("the command wrote %d times: it did not meet the hub's write", writes)
	}
}
