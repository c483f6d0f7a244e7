// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"
	"testing"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-io/capstan/test/internal/fleet"
)

// MemberToken returns a token of an administrator of the member.
func (w *World) MemberToken() string {
	w.t.Helper()
	account := metav1.ObjectMeta{Namespace: w.Namespace, Name: "push"}
	w.Must(w.Member.Client.Create(w.t.Context(), &corev1.ServiceAccount{ObjectMeta: account}))
	w.Must(w.Member.Client.Create(w.t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "push-" + w.Namespace},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: account.Namespace, Name: account.Name}},
	}))
	token, err := w.Member.Kubernetes.CoreV1().ServiceAccounts(account.Namespace).
		CreateToken(w.t.Context(), account.Name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	w.Must(err)
	return token.Status.Token
}

const (
	// patience is how long it may take until everything is as declared. It only
	// decides how long a failure takes.
	patience = 5 * time.Minute
)

// World is a cluster of the fleet with an agent of its own, and the works that
// the test gives it.
type World struct {
	t     testing.TB
	maker *WorldMaker
	Agent fleet.Agent
	// Namespace is where the objects are on the member.
	Namespace   string
	Hub, Member *fleet.Cluster
	// AgentID is what the agent calls itself in its records, and hubURL the hub.
	AgentID, HubURL string
	// Launch starts the agent.
	Launch func(context.Context) (*fleet.Process, error)
	// ToHub and ToMember are what the agent has in between.
	ToHub, ToMember *Proxy
	// Kinds are those of the objects.
	Kinds []schema.GroupVersionKind
	// churns counts how often works have been changed at random.
	churns int

	mu      sync.Mutex
	process *fleet.Process
}

var (
	configMaps = schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}
	secrets    = schema.GroupVersionKind{Version: "v1", Kind: "Secret"}
)

// WorldMaker makes worlds on a fleet.
type WorldMaker struct {
	Fleet *fleet.Fleet
	// Seed is what is chosen by at random.
	Seed uint64
	// made is how many there are, for their names.
	made int
}

// NewWorld starts an agent with further arguments, and expects when the test is over that deleting
// all works leaves nothing behind.
func (m *WorldMaker) NewWorld(t testing.TB, args ...string) *World {
	t.Helper()
	w := m.BareWorld(t)
	w.Agent.Args, w.Agent.Hub = args, w.ToHub.cluster()
	w.Agent.Kubeconfig = m.Fleet.Path(fmt.Sprintf("proxied-%d.kubeconfig", w.Agent.Number))
	w.AgentID, w.HubURL = w.Agent.Name(), w.ToHub.Address
	w.Launch = func(ctx context.Context) (*fleet.Process, error) { return m.Fleet.StartAgent(ctx, w.Agent) }
	kubeconfig, err := clientcmd.LoadFromFile(w.Member.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig.Clusters[kubeconfig.Contexts[kubeconfig.CurrentContext].Cluster] = w.ToMember.cluster()
	text, err := clientcmd.Write(*kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, w.Agent.Kubeconfig, text)
	w.Must(m.Fleet.PrepareAgent(t.Context(), w.Agent))
	w.Start()
	t.Cleanup(func() { w.Kill() })
	w.HasNamespace()
	return w
}

// BareWorld is a world without an agent.
func (m *WorldMaker) BareWorld(t testing.TB) *World {
	t.Helper()
	w := &World{
		t: t, maker: m, Hub: m.Fleet.Hub, Member: m.Fleet.Members[0], Namespace: fmt.Sprintf("objects-%d", m.made),
		ToHub: startProxy(t, m.Fleet.Hub), ToMember: startProxy(t, m.Fleet.Members[0]),
		Kinds: []schema.GroupVersionKind{configMaps, secrets},
	}
	w.Agent = fleet.Agent{Number: m.made, Member: w.Member}
	m.made++
	w.Must(w.Member.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.Namespace}}))
	return w
}

// HasNamespace waits until the hub has accepted the cluster.
func (w *World) HasNamespace() {
	w.t.Helper()
	w.Eventually("the cluster has a namespace on the hub", func(ctx context.Context) error {
		return w.Hub.Client.Get(ctx, client.ObjectKey{Name: w.Agent.Cluster()}, &corev1.Namespace{})
	})
}

// In is the world for a part of the test.
func (w *World) In(t testing.TB) *World {
	whole := w.t
	t.Cleanup(func() { w.t = whole })
	w.t = t
	return w
}

// Must ends the test on an error.
func (w *World) Must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

// Start starts the agent; kill ends it as a crash does.
func (w *World) Start() {
	w.t.Helper()
	p, err := w.Launch(context.WithoutCancel(w.t.Context()))
	w.Must(err)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.process = p
}

// Kill ends the agent without a warning.
func (w *World) Kill() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.process != nil {
		w.process.Kill()
	}
	w.process = nil
}

// Eventually waits until the check returns nil.
func (w *World) Eventually(what string, check func(context.Context) error) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	var last error
	err := fleet.Poll(ctx, func(ctx context.Context) (bool, error) {
		err := check(ctx)
		if err == nil || ctx.Err() == nil {
			last = err
		}
		return err == nil, nil
	})
	if err != nil {
		w.t.Fatalf("%s: not after %s: %v", what, patience, last)
	}
}

// Pause lets things happen.
func (w *World) Pause(d time.Duration) {
	w.Must(fleet.Pause(w.t.Context(), d))
}

func (w *World) recordName(work string) string {
	sum := sha256.Sum256([]byte(w.HubURL))
	return hex.EncodeToString(sum[:]) + "-" + work
}
