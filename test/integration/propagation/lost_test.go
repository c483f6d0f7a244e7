// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"testing"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/test/integration/propagation/harness"
)

// TestWorksWithoutABinding has works that a controller has left which led before:
// those of an object that is gone, too, are deleted, at the start and as they come.
// What is made of an object that the hub has stays.
func TestWorksWithoutABinding(t *testing.T) {
	w := harness.NewWorldOfMembers(t, servers, 1)
	there, other := harness.Deployment("there", 1), harness.Policy("other", policyv1alpha1.Placement{})
	other.Spec.ResourceSelectors[0].Name = "other" // Deployments are watched for it
	w.CreateAll(there, other)
	stays, found, late := w.LostWorkOf("there", there.UID), w.LostWorkOf("found", "1"), w.LostWorkOf("late", "2")
	w.CreateAll(stays, found)
	w.MemberHas("member1", "Deployment/there", "Deployment/found")
	before := w.RememberSent()
	w.StartControllers()
	w.IsGone(found)
	w.CreateAll(late)
	w.IsGone(late)
	w.MemberHas("member1", "Deployment/there")
	w.StaysSent(map[string]harness.SentWork{"member1/Deployment/there": before["member1/Deployment/there"]})
	w.Remove(there)
	w.IsGone(stays)
	w.MemberHas("member1")
}
