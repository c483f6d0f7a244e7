// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/capstan-io/capstan/internal/testing/env"
	"github.com/capstan-io/capstan/internal/testing/outage"
)

// TestAHubThatIsAnHourOld restores the hub from a backup, after which objects had
// come, gone, moved and been scaled. What the backup declares is sent as it was,
// and none of its works is deleted on the way. What the clusters have been sent
// since is for their agents to keep.
func TestAHubThatIsAnHourOld(t *testing.T) {
	w := newHub(t, func(t testing.TB, options ...func(*envtest.Environment)) (*envtest.Environment, *rest.Config) {
		return env.Start(t, append(options, env.WithRestorableData(t))...)
	})
	w.joinMembers(3)
	w.start()
	s := w.open("api", "admin")
	then := s.on("member1", "member2")
	w.become(then, nil)
	w.on("web", map[string]int32{"member1": 2, "member2": 2})
	w.stop()
	backup, before := env.BackUp(t, w.environment), w.remember()

	w.start()
	w.change(s.policy, func() { s.policy.Spec.Placement = onClusters("member2", "member3") })
	w.change(s.web, func() { s.web.Spec.Replicas = new(int32(5)) })
	w.remove(s.others[0])
	w.create(deployment("late", 1))
	since := s.on("member2", "member3")
	delete(since, "Deployment/api")
	since["Deployment/late"] = []string{"member2", "member3"}
	w.become(since, before)
	lost := w.remember()

	// Who restores a hub stops it, with its controllers.
	w.stop()
	env.RestoreServer(t, w.environment, backup)
	server := &outage.WrappedServer{}
	w.start(server.WrapTransport)
	before = sameIn(before, lost)
	w.stay(before)
	w.become(then, before)
	w.on("web", map[string]int32{"member1": 2, "member2": 2})
	w.quiet(writesTo(server))
	w.kept(lost, w.remember())
}

// sameIn returns what was sent before, without the objects that the clusters have lost
// since: those are made anew.
func sameIn(before, since map[string]sentWork) map[string]sentWork {
	all := map[string]sentWork{}
	for key, was := range before {
		if was.applied != since[key].applied {
			was.applied = ""
		}
		all[key] = was
	}
	return all
}

// kept waits until agents have missed the works that the hub does not have any more, and
// sees that the clusters keep what these had brought.
func (w world) kept(before, now map[string]sentWork) {
	w.Helper()
	w.eventually("the agents miss what the hub has forgotten", func() error {
		for key, was := range before {
			if _, there := now[key]; there {
				continue
			}
			cluster, object, _ := strings.Cut(key, "/")
			has, err := w.members[cluster].has(w.Context())
			if err != nil {
				return err
			}
			is := has[object]
			if is == nil || is.GetUID() != was.applied {
				w.Fatalf("%s does not have the %s any more that it had", cluster, object)
			}
			forgotten, err := w.members[cluster].forgotten(w.Context())
			if err != nil {
				return err
			}
			if !slices.ContainsFunc(is.GetOwnerReferences(), func(o metav1.OwnerReference) bool { return forgotten[o.UID] }) {
				return fmt.Errorf("the agent of %s has not missed the work of %s", cluster, object)
			}
		}
		return nil
	})
}
