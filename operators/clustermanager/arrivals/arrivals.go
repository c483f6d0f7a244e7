// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package arrivals

import (
	"k8s.io/apimachinery/pkg/util/sets"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
)

// pushArrivals knows the Push clusters of a hub, and tells when there are some and
// there were none, or the other way round. It is a watch.Handler.
type pushArrivals struct {
	push    sets.Set[string]
	changed func()
}

// Replace implements watch.Handler.
func (a *pushArrivals) Replace(all []*fleetv1alpha1.ClusterConnection, _ string) {
	a.notifyOnChange(func() {
		a.push = sets.New[string]()
		for _, connection := range all {
			a.trackConnection(connection)
		}
	})
}

// Update implements watch.Handler.
func (a *pushArrivals) Update(connection *fleetv1alpha1.ClusterConnection) {
	a.notifyOnChange(func() { a.trackConnection(connection) })
}

// Delete implements watch.Handler.
func (a *pushArrivals) Delete(connection *fleetv1alpha1.ClusterConnection) {
	a.notifyOnChange(func() { a.push.Delete(connection.Name) })
}

// Bookmark implements watch.Handler.
func (*pushArrivals) Bookmark(string) {}

// Failed implements watch.Handler: what was known counts until more is.
func (*pushArrivals) Failed(error) {}

func (a *pushArrivals) trackConnection(connection *fleetv1alpha1.ClusterConnection) {
	if connection.Spec.SyncMode == fleetv1alpha1.SyncModePush {
		a.push.Insert(connection.Name)
		return
	}
	a.push.Delete(connection.Name)
}

func (a *pushArrivals) notifyOnChange(change func()) {
	had := len(a.push) > 0
	change()
	if had != (len(a.push) > 0) {
		a.changed()
	}
}
