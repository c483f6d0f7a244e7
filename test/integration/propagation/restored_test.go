// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"testing"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/capstan-io/capstan/internal/testing/env"
	"github.com/capstan-io/capstan/internal/testing/outage"
	"github.com/capstan-io/capstan/test/integration/propagation/harness"
)

// TestAHubThatIsAnHourOld restores the hub from a backup, after which objects had
// come, gone, moved and been scaled. What the backup declares is sent as it was,
// and none of its works is deleted on the way. What the clusters have been sent
// since is for their agents to keep.
func TestAHubThatIsAnHourOld(t *testing.T) {
	w := harness.NewHubOn(t, servers, func(t testing.TB, options ...func(*envtest.Environment)) (*envtest.Environment, *rest.Config) {
		return env.Start(t, append(options, env.WithRestorableData(t))...)
	})
	w.JoinMembers(3)
	w.StartControllers()
	s := w.OpenShop("api", "admin")
	then := s.DeclaredOn("member1", "member2")
	w.BecomesDeclared(then, nil)
	w.RunsOn("web", map[string]int32{"member1": 2, "member2": 2})
	w.StopControllers()
	backup, before := env.BackUp(t, w.Environment), w.RememberSent()

	w.StartControllers()
	w.ChangeObject(s.Policy, func() { s.Policy.Spec.Placement = harness.OnClusters("member2", "member3") })
	w.ChangeObject(s.Web, func() { s.Web.Spec.Replicas = new(int32(5)) })
	w.Remove(s.Others[0])
	w.CreateAll(harness.Deployment("late", 1))
	since := s.DeclaredOn("member2", "member3")
	delete(since, "Deployment/api")
	since["Deployment/late"] = []string{"member2", "member3"}
	w.BecomesDeclared(since, before)
	lost := w.RememberSent()

	// Who restores a hub stops it, with its controllers.
	w.StopControllers()
	env.RestoreServer(t, w.Environment, backup)
	server := &outage.WrappedServer{}
	w.StartControllers(server.WrapTransport)
	before = sameIn(before, lost)
	w.StaysSent(before)
	w.BecomesDeclared(then, before)
	w.RunsOn("web", map[string]int32{"member1": 2, "member2": 2})
	w.BecomesQuiet(writesTo(server))
	w.KeepsForgotten(lost, w.RememberSent())
}

// sameIn returns what was sent before, without the objects that the clusters have lost
// since: those are made anew.
func sameIn(before, since map[string]harness.SentWork) map[string]harness.SentWork {
	all := map[string]harness.SentWork{}
	for key, was := range before {
		if was.Applied != since[key].Applied {
			was.Applied = ""
		}
		all[key] = was
	}
	return all
}
