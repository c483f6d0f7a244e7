// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
)

// TestTheConnectionOfTheNextClusterStays has the cache show a cluster that is being deleted, and
// the ClusterConnection of its name, whosever that is.
func TestTheConnectionOfTheNextClusterStays(t *testing.T) {
	of := func(uid types.UID) *clusterv1.ManagedCluster {
		return &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "member1", UID: uid}}
	}
	for name, tc := range map[string]struct {
		live  []client.Object
		stays bool
	}{
		"it is still being deleted":         {[]client.Object{of("first")}, false},
		"it is gone":                        {nil, true},
		"there is another one of this name": {[]client.Object{of("second")}, true},
	} {
		t.Run(name, func(t *testing.T) {
			connection := &fleetv1alpha1.ClusterConnection{ObjectMeta: metav1.ObjectMeta{Name: "member1", UID: "connection"}}
			c := controllerOf(t, of("first"), connection)
			c.writer.live = controllerOf(t, tc.live...).Client
			if err := c.writer.deleteConnection(t.Context(), of("first")); err != nil {
				t.Fatal(err)
			}
			err := c.Client.Get(t.Context(), client.ObjectKeyFromObject(connection), connection)
			if stays := err == nil; stays != tc.stays || err != nil && !apierrors.IsNotFound(err) {
				t.Errorf("the connection stays: %t (%v), want %t", stays, err, tc.stays)
			}
		})
	}
}
