// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package accept

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/cli/dryrun"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/kube/deepcopy"
	"github.com/capstan-io/capstan/internal/testing/env"
)

// TestWhatWasReplacedIsLeftAlone has an object go after the user has seen it, and another one
// of its name come. The commands change what was seen, and an API server tells the two apart.
func TestWhatWasReplacedIsLeftAlone(t *testing.T) {
	_, config := env.Start(t, func(e *envtest.Environment) {
		for _, name := range []string{"cluster.open-cluster-management.io_managedclusters", "fleet.capstan.io_clusterconnections"} {
			e.CRDDirectoryPaths = append(e.CRDDirectoryPaths, "../../../config/crd/"+name+".yaml")
		}
	})
	c, err := client.New(config, client.Options{Scheme: fakeHub(t).Build().Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	mode, named := dryrun.Mode{}, metav1.ObjectMeta{Name: "c1"}
	accepted := &clusterv1.ManagedCluster{ObjectMeta: named, Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: true}}
	pushed := &fleetv1alpha1.ClusterConnection{ObjectMeta: named, Spec: fleetv1alpha1.ClusterConnectionSpec{SyncMode: fleetv1alpha1.SyncModePush, APIEndpoint: "https://c1.example.com"}}
	for name, test := range map[string]struct {
		object  client.Object
		change  func(seen client.Object) error
		changed func(now client.Object) bool
	}{
		"a cluster to accept": {
			object: &clusterv1.ManagedCluster{ObjectMeta: named},
			change: func(seen client.Object) error {
				return setAccepted(t.Context(), mode, c, seen.(*clusterv1.ManagedCluster), true)
			},
			changed: func(now client.Object) bool { return now.(*clusterv1.ManagedCluster).Spec.HubAcceptsClient },
		},
		"a cluster to revoke": {
			object: accepted,
			change: func(seen client.Object) error {
				return setAccepted(t.Context(), mode, c, seen.(*clusterv1.ManagedCluster), false)
			},
			changed: func(now client.Object) bool { return !now.(*clusterv1.ManagedCluster).Spec.HubAcceptsClient },
		},
		"a cluster to make a Pull cluster": {
			object: pushed,
			change: func(seen client.Object) error {
				return (&acceptCommand{write: c}).changeToPull(t.Context(), seen.(*fleetv1alpha1.ClusterConnection))
			},
			changed: func(now client.Object) bool {
				return now.(*fleetv1alpha1.ClusterConnection).Spec.SyncMode == fleetv1alpha1.SyncModePull
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			replace := func() client.Object {
				t.Helper()
				another := deepcopy.CopyObject(test.object)
				if err := client.IgnoreNotFound(c.Delete(t.Context(), another)); err != nil {
					t.Fatal(err)
				}
				if err := c.Create(t.Context(), another); err != nil {
					t.Fatal(err)
				}
				return another
			}
			seen := replace()
			now := replace()
			err := test.change(seen)
			switch {
			case err == nil:
				t.Error("another one is there, and the user is told nothing")
			case !strings.Contains(exit.FormatError(err), "replaced in the meantime"), !strings.Contains(exit.FormatError(err), "Run the command again"):
				t.Errorf("another one is there, and the user is told: %s", exit.FormatError(err))
			}
			read := func() client.Object {
				if err := c.Get(t.Context(), client.ObjectKeyFromObject(now), now); err != nil {
					t.Fatal(err)
				}
				return now
			}
			if test.changed(read()) {
				t.Error("what nobody has seen is changed")
			}
			if err := test.change(now); err != nil || !test.changed(read()) {
				t.Errorf("what was seen is not changed: %v", err)
			}
		})
	}
	t.Run("a full cluster", func(t *testing.T) { testAFullClusterIsRevoked(t, c) })
}

// testAFullClusterIsRevoked has an agent fill its ManagedCluster by metadata.generateName, on a hub
// without guards, until "false" is one byte more than there is room for.
func testAFullClusterIsRevoked(t *testing.T, c client.Client) {
	full := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "full"}, Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: true}}
	if err := c.Create(t.Context(), full); err != nil {
		t.Fatal(err)
	}
	tooLarge := func(err error) bool { return err != nil && strings.Contains(err.Error(), "request is too large") }
	for fits, tooMuch := 1_000_000, 2_000_000; tooMuch-fits > 1; {
		half := (fits + tooMuch) / 2
		full.ManagedFields, full.GenerateName = []metav1.ManagedFieldsEntry{{}}, strings.Repeat("x", half)
		switch err := c.Update(t.Context(), full); {
		case err == nil:
			fits = half
		case tooLarge(err):
			tooMuch = half
		default:
			t.Fatal(err)
		}
	}
	revoked := []byte(`{"spec":{"hubAcceptsClient":false},"metadata":{"managedFields":[{}]}}`)
	if err := c.Patch(t.Context(), full.DeepCopy(), client.RawPatch(types.MergePatchType, revoked)); !tooLarge(err) {
		t.Fatalf("the cluster is not full: %v", err)
	}
	if err := setAccepted(t.Context(), dryrun.Mode{}, c, full, false); err != nil {
		t.Fatal(err)
	}
	if err := c.Get(t.Context(), client.ObjectKeyFromObject(full), full); err != nil || full.Spec.HubAcceptsClient || full.GenerateName != "" {
		t.Errorf("hubAcceptsClient is %t and generateName has %d bytes: %v", full.Spec.HubAcceptsClient, len(full.GenerateName), err)
	}
}
