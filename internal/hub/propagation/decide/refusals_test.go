// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package decide

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clocktesting "k8s.io/utils/clock/testing"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
)

// TestWhatIsRefusedIsTriedAgainEverMoreRarely is about a binding that a quota does
// not allow its clusters.
func TestWhatIsRefusedIsTriedAgainEverMoreRarely(t *testing.T) {
	clk := clocktesting.NewFakePassiveClock(time.Unix(1000, 0))
	r := newRefusals(clk)
	b := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web-deployment"}}
	b.Spec.Replicas = 3
	wait := func(why string, want time.Duration) {
		t.Helper()
		if got := r.refusalWait(b); got != want {
			t.Errorf("%s: wait %s, want %s", why, got, want)
		}
	}
	wait("nothing was refused", 0)
	r.addRefusal(b)
	wait("once", refusedMin)
	clk.SetTime(clk.Now().Add(refusedMin))
	wait("it is time", 0)
	r.addRefusal(b)
	wait("twice", 2*refusedMin)
	for range 20 {
		r.addRefusal(b)
	}
	wait("often", refusedMax)

	b.Spec.Clusters = []workv1alpha2.TargetCluster{{Name: "member1"}}
	wait("clusters are what is chosen, not what is asked for", refusedMax)
	b.Spec.Replicas = 2
	wait("it asks for less", 0)
	b.Spec.Replicas = 3

	if again := r.freedBindings("bank"); len(again) != 0 {
		t.Errorf("another namespace frees %v", again)
	}
	if again := r.freedBindings("shop"); again[bindingKey(b)] != refusedMin {
		t.Errorf("when others take less, it is tried again in %v", again)
	}
	wait("others take less", refusedMin)
	r.forgetRefusal(bindingKey(b))
	wait("it was allowed", 0)
}
