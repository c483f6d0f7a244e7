// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build fault

package fault

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/test/fault/harness"
	"github.com/capstan-io/capstan/test/internal/fleet"
)

// newPushWorld is a world whose cluster is a Push cluster: the agent is one of
// the hub, which dials the member at the proxy.
func newPushWorld(t *testing.T) *harness.World {
	t.Helper()
	w := worlds.BareWorld(t)
	w.HubURL = w.Hub.Config.Host
	w.Launch = func(ctx context.Context) (*fleet.Process, error) {
		p, err := worlds.Fleet.Start(ctx, "push-agent", "push-agent", "--disable-leader-election", "--metrics-port=0", "--health-probe-port=0",
			"--kubeconfig="+worlds.Fleet.Path("push-agent.kubeconfig"), "--allowed-networks=127.0.0.0/8")
		if err == nil {
			worlds.Fleet.Agents = append(worlds.Fleet.Agents, p)
		}
		return p, err
	}
	cluster := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: w.Agent.Cluster()}}
	cluster.Spec.HubAcceptsClient = true
	w.Must(w.Hub.Client.Create(t.Context(), cluster))
	w.HasNamespace()
	w.Must(w.Hub.Client.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Agent.Cluster(), Name: fleetv1alpha1.DefaultSecretName},
		Data:       map[string][]byte{fleetv1alpha1.SecretKeyToken: []byte(w.MemberToken()), fleetv1alpha1.SecretKeyCABundle: w.ToMember.CA},
	}))
	// Applied as 'capstan join' does: the hub may have made one already.
	connection := &fleetv1alpha1.ClusterConnection{ObjectMeta: metav1.ObjectMeta{Name: w.Agent.Cluster()}}
	patch := fmt.Appendf(nil, `{"apiVersion":%q,"kind":"ClusterConnection","metadata":{"name":%q},"spec":{"syncMode":"Push","apiEndpoint":%q}}`,
		fleetv1alpha1.GroupVersion.String(), w.Agent.Cluster(), w.ToMember.Address)
	w.Must(w.Hub.Client.Patch(t.Context(), connection, client.RawPatch(types.ApplyPatchType, patch), client.FieldOwner("fault"), client.ForceOwnership))
	w.AgentID = string(connection.UID)
	w.Start()
	t.Cleanup(func() { w.Kill() })
	return w
}

// TestSomethingInFrontOfTheMemberFindsNothing has what stands in front of a member
// answer 404 to everything, as it does while the API server behind it is away. An
// agent that takes that for "it is gone" forgets what works have brought there.
func TestSomethingInFrontOfTheMemberFindsNothing(t *testing.T) {
	for name, begin := range map[string]func(*testing.T) *harness.World{
		"of a Push cluster": newPushWorld,
		"of a Pull cluster": func(t *testing.T) *harness.World { return worlds.NewWorld(t) },
	} {
		t.Run(name, func(t *testing.T) {
			w := begin(t)
			w.During(func() {}) // there is something to forget
			w.Settles()
			for what, wellStill := range map[string]string{"everything": "", "all but its health": "/livez"} {
				var given atomic.Int64
				w.During(func() {
					w.ToMember.Misbehave(func(rw http.ResponseWriter, r *http.Request) bool {
						if r.URL.Path == wellStill {
							return false
						}
						given.Add(1)
						http.NotFound(rw, r)
						return true
					})
					w.ToMember.DropWatches() // they begin anew, and are answered like all else
					w.Pause(theExtent().outage)
					w.ToMember.Misbehave(nil)
					w.ToMember.DropWatches()
				})
				if given.Load() == 0 {
					t.Errorf("nothing was asked while 404 was the answer to %s, so this shows nothing", what)
				}
				w.Settles()
				t.Logf("%d requests got the answer 404 to %s", given.Load(), what)
			}
			w.Clear()
		})
	}
}
