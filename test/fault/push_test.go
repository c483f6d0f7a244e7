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

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/test/internal/fleet"
)

// newPushWorld is a world whose cluster is a Push cluster: the agent is one of
// the hub, which dials the member at the proxy.
func newPushWorld(t *testing.T) *world {
	t.Helper()
	w := bareWorld(t)
	w.hubURL = w.hub.Config.Host
	w.launch = func(ctx context.Context) (*fleet.Process, error) {
		p, err := theFleet.Start(ctx, "push-agent", "push-agent", "--disable-leader-election", "--metrics-port=0", "--health-probe-port=0",
			"--kubeconfig="+theFleet.Path("push-agent.kubeconfig"), "--allowed-networks=127.0.0.0/8")
		if err == nil {
			theFleet.Agents = append(theFleet.Agents, p)
		}
		return p, err
	}
	cluster := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: w.agent.Cluster()}}
	cluster.Spec.HubAcceptsClient = true
	w.must(w.hub.Client.Create(t.Context(), cluster))
	w.hasNamespace()
	w.must(w.hub.Client.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.agent.Cluster(), Name: fleetv1alpha1.DefaultSecretName},
		Data:       map[string][]byte{fleetv1alpha1.SecretKeyToken: []byte(w.memberToken()), fleetv1alpha1.SecretKeyCABundle: w.toMember.ca},
	}))
	// Applied as 'capstan join' does: the hub may have made one already.
	connection := &fleetv1alpha1.ClusterConnection{ObjectMeta: metav1.ObjectMeta{Name: w.agent.Cluster()}}
	patch := fmt.Appendf(nil, `{"apiVersion":%q,"kind":"ClusterConnection","metadata":{"name":%q},"spec":{"syncMode":"Push","apiEndpoint":%q}}`,
		fleetv1alpha1.GroupVersion.String(), w.agent.Cluster(), w.toMember.address)
	w.must(w.hub.Client.Patch(t.Context(), connection, client.RawPatch(types.ApplyPatchType, patch), client.FieldOwner("fault"), client.ForceOwnership))
	w.agentID = string(connection.UID)
	w.start()
	t.Cleanup(func() { w.kill() })
	return w
}

// memberToken returns a token of an administrator of the member.
func (w *world) memberToken() string {
	w.t.Helper()
	account := metav1.ObjectMeta{Namespace: w.ns, Name: "push"}
	w.must(w.member.Client.Create(w.t.Context(), &corev1.ServiceAccount{ObjectMeta: account}))
	w.must(w.member.Client.Create(w.t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "push-" + w.ns},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: account.Namespace, Name: account.Name}},
	}))
	token, err := w.member.Kubernetes.CoreV1().ServiceAccounts(account.Namespace).
		CreateToken(w.t.Context(), account.Name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	w.must(err)
	return token.Status.Token
}

// TestSomethingInFrontOfTheMemberFindsNothing has what stands in front of a member
// answer 404 to everything, as it does while the API server behind it is away. An
// agent that takes that for "it is gone" forgets what works have brought there.
func TestSomethingInFrontOfTheMemberFindsNothing(t *testing.T) {
	for name, begin := range map[string]func(*testing.T) *world{
		"of a Push cluster": newPushWorld,
		"of a Pull cluster": func(t *testing.T) *world { return newWorld(t) },
	} {
		t.Run(name, func(t *testing.T) {
			w := begin(t)
			w.during(func() {}) // there is something to forget
			w.settles()
			for what, wellStill := range map[string]string{"everything": "", "all but its health": "/livez"} {
				var given atomic.Int64
				w.during(func() {
					w.toMember.misbehave(func(rw http.ResponseWriter, r *http.Request) bool {
						if r.URL.Path == wellStill {
							return false
						}
						given.Add(1)
						http.NotFound(rw, r)
						return true
					})
					w.toMember.dropWatches() // they begin anew, and are answered like all else
					w.pause(theExtent().outage)
					w.toMember.misbehave(nil)
					w.toMember.dropWatches()
				})
				if given.Load() == 0 {
					t.Errorf("nothing was asked while 404 was the answer to %s, so this shows nothing", what)
				}
				w.settles()
				t.Logf("%d requests got the answer 404 to %s", given.Load(), what)
			}
			w.clear()
		})
	}
}
