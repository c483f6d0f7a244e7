// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package arrivals

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/operator/probe"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

func connection(name string, mode fleetv1alpha1.SyncMode) *fleetv1alpha1.ClusterConnection {
	return &fleetv1alpha1.ClusterConnection{
		ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: fleetv1alpha1.ClusterConnectionSpec{SyncMode: mode},
	}
}

func TestTheFirstAndTheLastPushClusterAreTold(t *testing.T) {
	const pull, push = fleetv1alpha1.SyncModePull, fleetv1alpha1.SyncModePush
	told := 0
	a := &pushArrivals{changed: func() { told++ }}
	all := func(list ...*fleetv1alpha1.ClusterConnection) func() { return func() { a.Replace(list, "1") } }
	for _, step := range []struct {
		what string
		do   func()
		told bool
	}{
		{"there are Pull clusters only", all(connection("a", pull)), false},
		{"a Pull cluster comes", func() { a.Update(connection("b", pull)) }, false},
		{"the first Push cluster comes", func() { a.Update(connection("c", push)) }, true},
		{"a second one comes", func() { a.Update(connection("d", push)) }, false},
		{"one reports", func() { a.Update(connection("d", push)) }, false},
		{"a Pull cluster goes", func() { a.Delete(connection("a", pull)) }, false},
		{"one of two goes", func() { a.Delete(connection("c", push)) }, false},
		{"the last becomes a Pull cluster", func() { a.Update(connection("d", pull)) }, true},
		{"one came while nobody looked", all(connection("d", push)), true},
		{"the hub is away", func() { a.Failed(nil) }, false},
		{"it is back as it was", all(connection("d", push)), false},
		{"all went while nobody looked", all(), true},
	} {
		before := told
		if step.do(); (told > before) != step.told {
			t.Errorf("%s: told is %t, want %t", step.what, told > before, step.told)
		}
	}
}

func TestAHubIsWatchedOnceAndAnewWithAnotherCredential(t *testing.T) {
	scheme := runtime.NewScheme()
	expect.NoError(t, fleetv1alpha1.AddToScheme(scheme))
	s := NewPushClusterSource(scheme)
	watch := func(fingerprint string) {
		t.Helper()
		config := &rest.Config{Host: "https://hub.invalid:6443"}
		expect.NoError(t, s.WatchHub("hub", probe.Credential{Config: config, Fingerprint: fingerprint}))
	}
	watch("a")
	if len(s.watched) != 0 {
		t.Error("a hub is watched before the controller runs, which nobody would end")
	}
	expect.NoError(t, s.Start(t.Context(), nil))
	ended := false
	watch("a")
	known := s.watched["hub"]
	s.watched["hub"] = watchedHub{fingerprint: known.fingerprint, stop: func() { ended = true; known.stop() }}
	if watch("a"); ended {
		t.Error("the same credential begins a second watch")
	}
	if watch("b"); !ended || s.watched["hub"].fingerprint != "b" {
		t.Error("the watch goes on with a credential that was replaced")
	}
	if s.ForgetHub("hub"); len(s.watched) != 0 {
		t.Error("a hub that is gone is watched")
	}
	s.ForgetHub("hub")
}
