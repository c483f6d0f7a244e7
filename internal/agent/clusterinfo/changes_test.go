// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterinfo

import (
	"errors"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
)

func TestAChangeOfTheSpecIsNoticedAndOneOfTheStatusIsNot(t *testing.T) {
	kicks, stopped := 0, false
	f := &connectionChanges{kick: func() { kicks++ }, stop: func() { stopped = true }}
	read := &fleetv1alpha1.ClusterConnection{ObjectMeta: metav1.ObjectMeta{UID: "a", Generation: 2}}
	metadata := func(uid types.UID, generation int64) *metav1.PartialObjectMetadata {
		return &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{UID: uid, Generation: generation}}
	}
	expect := func(when string, changed bool, wantKicks int) {
		t.Helper()
		if f.changedSince(read) != changed || kicks != wantKicks {
			t.Errorf("%s: changed is %t after %d kicks, want %t and %d", when, f.changedSince(read), kicks, changed, wantKicks)
		}
	}
	expect("before anything is seen", false, 0)
	f.Replace([]*metav1.PartialObjectMetadata{metadata("a", 1)}, "1")
	expect("when it is seen as it was before", false, 1)
	f.Update(metadata("a", 2))
	f.Update(metadata("a", 2))
	expect("when the status changes", false, 2)
	f.Update(metadata("a", 3))
	expect("when the spec changes", true, 3)
	f.Replace([]*metav1.PartialObjectMetadata{metadata("b", 1)}, "2")
	expect("when there is another one", true, 4)
	f.Delete(metadata("b", 1))
	expect("when it is gone", true, 5)
	f.Failed(errors.New("the hub is away"))
	if stopped || f.refused.Load() {
		t.Error("it gives up when the hub is away")
	}
	f.Failed(apierrors.NewForbidden(schema.GroupResource{Resource: "clusterconnections"}, "", errors.New("no")))
	if !stopped || !f.refused.Load() {
		t.Error("it goes on asking a hub that does not let it watch")
	}
	if (*connectionChanges)(nil).changedSince(read) {
		t.Error("there is a change that nobody saw")
	}
}
