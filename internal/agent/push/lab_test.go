// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package push_test

import (
	"context"
	"fmt"
	"net/netip"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/agent/clusterstatus"
	"github.com/capstan-io/capstan/internal/agent/push"
	"github.com/capstan-io/capstan/internal/agent/work"
	"github.com/capstan-io/capstan/internal/cluster/dial"
	"github.com/capstan-io/capstan/internal/cluster/fleet"
	"github.com/capstan-io/capstan/internal/testing/build"
	"github.com/capstan-io/capstan/internal/testing/cluster"
	"github.com/capstan-io/capstan/internal/testing/expect"
	"github.com/capstan-io/capstan/internal/testing/moods"
)

// patience is how long a test waits for what should take seconds.
const patience = 2 * time.Minute

// side is an API server and its administrator.
type side struct {
	config *rest.Config
	client client.Client
}

func newSide(t *testing.T) side {
	t.Helper()
	_, config := servers.Start(t, func(e *envtest.Environment) { e.CRDDirectoryPaths = []string{"../../../config/crd"} })
	return side{config: config, client: cluster.NewClient(t, config, clusterv1.AddToScheme, workv1.AddToScheme, fleetv1alpha1.AddToScheme)}
}

// lab is a hub and a member. The test does what the hub's controllers do.
type lab struct {
	t           *testing.T
	hub, member side
	token       string       // of an administrator of the member
	clock       clock.Clock  // of the agent; nil is the real one
	parts       []fleet.Part // beside works
}

func newLab(t *testing.T) *lab {
	t.Helper()
	ctrl.SetLogger(logr.Discard())
	l := &lab{t: t, hub: newSide(t), member: newSide(t)}
	l.token = cluster.CreateAccount(t, l.member.client, "default", "push")
	cluster.CreateObjects(t, l.member.client, build.ClusterRoleBinding("push", "cluster-admin", build.AccountSubject("default", "push")))
	return l
}

// start runs the agent until the test ends.
func (l *lab) start(guard dial.AddressGuard, options work.PartOptions) {
	l.t.Helper()
	options.Logger = logr.Discard()
	works, err := work.NewManifestWorkPart(options)
	expect.NoError(l.t, err)
	agent, err := push.NewAgent(push.AgentOptions{
		Hub: l.hub.config, Guard: guard, Clock: l.clock, Log: logr.Discard(),
		ClaimRules: clusterstatus.ClaimRules{CustomMax: 20}, Parts: append(l.parts, works),
	})
	expect.NoError(l.t, err)
	ctx, cancel := context.WithCancel(l.t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := works.Start(ctx); err != nil {
			l.t.Errorf("works: %v", err)
		}
	})
	running.Go(func() {
		if err := agent.RunSessions(ctx); err != nil {
			l.t.Errorf("agent: %v", err)
		}
	})
	l.t.Cleanup(func() { cancel(); running.Wait() })
}

// local lets the agent dial the API servers of the test.
func local() dial.AddressGuard {
	return dial.AddressGuard{Allowed: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}
}

// accept makes a ManagedCluster with what the hub's controllers make for it.
func (l *lab) accept(name string) {
	l.t.Helper()
	ctx := l.t.Context()
	expect.NoError(l.t, l.hub.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	seconds, holder := int32(60), clusterv1.LeaseName
	expect.NoError(l.t, l.hub.client.Create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: clusterv1.LeaseName},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds},
	}))
	mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: true}}
	expect.NoError(l.t, l.hub.client.Create(ctx, mc))
	mc.Status.Conditions = []metav1.Condition{{
		Type: clusterv1.ManagedClusterConditionHubAccepted, Status: metav1.ConditionTrue,
		Reason: clusterv1.ManagedClusterReasonHubClusterAdminAccepted, LastTransitionTime: metav1.Now(),
	}}
	expect.NoError(l.t, l.hub.client.Status().Update(ctx, mc))
}

// secret writes the Secret of a cluster, which is never away meanwhile.
func (l *lab) secret(name, token string, ca []byte) {
	l.t.Helper()
	data := map[string][]byte{fleetv1alpha1.SecretKeyToken: []byte(token), fleetv1alpha1.SecretKeyCABundle: ca}
	cluster.PutObject(l.t, l.hub.client, build.Secret(name, fleetv1alpha1.DefaultSecretName, data))
}

// connection makes the ClusterConnection of a Push cluster.
func (l *lab) connection(name, endpoint string) {
	l.t.Helper()
	expect.NoError(l.t, l.hub.client.Create(l.t.Context(), &fleetv1alpha1.ClusterConnection{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       fleetv1alpha1.ClusterConnectionSpec{SyncMode: fleetv1alpha1.SyncModePush, APIEndpoint: endpoint},
	}))
}

// work has a ConfigMap of the same name delivered to a cluster.
func (l *lab) work(cluster, name string) {
	l.t.Helper()
	manifest := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":%q}}`, name)
	expect.NoError(l.t, l.hub.client.Create(l.t.Context(), build.ManifestWork(cluster, name, manifest)))
}

// eventually waits until the function returns true; it says what there is.
func (l *lab) eventually(what string, check func(ctx context.Context) (string, bool)) {
	l.t.Helper()
	expect.EventuallyWithin(l.t, patience, what, func() error {
		is, ok := check(l.t.Context())
		if ok {
			return nil
		}
		return fmt.Errorf("there is %s", is)
	})
}

// delivered waits for the ConfigMap of a work and for the status of the work.
func (l *lab) delivered(cluster, name string) {
	l.t.Helper()
	l.eventually("work "+name+" on the member and its status on the hub", func(ctx context.Context) (string, bool) {
		if err := l.member.client.Get(ctx, client.ObjectKey{Namespace: "default", Name: name}, &corev1.ConfigMap{}); err != nil {
			return err.Error(), false
		}
		work := &workv1.ManifestWork{}
		if err := l.hub.client.Get(ctx, client.ObjectKey{Namespace: cluster, Name: name}, work); err != nil {
			return err.Error(), false
		}
		return fmt.Sprint(work.Status.Conditions), meta.IsStatusConditionTrue(work.Status.Conditions, workv1.ManifestWorkConditionApplied)
	})
}

// says waits until a condition of a ClusterConnection has a reason, and
// returns the ClusterConnection and the message.
func (l *lab) says(cluster, condition, reason string) (found *fleetv1alpha1.ClusterConnection, message string) {
	l.t.Helper()
	found = &fleetv1alpha1.ClusterConnection{}
	l.eventually(fmt.Sprintf("condition %s of %s to have reason %s", condition, cluster, reason), func(ctx context.Context) (string, bool) {
		if err := l.hub.client.Get(ctx, client.ObjectKey{Name: cluster}, found); err != nil {
			return err.Error(), false
		}
		have := meta.FindStatusCondition(found.Status.Conditions, condition)
		if have == nil || have.Reason != reason {
			return fmt.Sprint(found.Status.Conditions), false
		}
		message = have.Message
		return "", true
	})
	return found, message
}

// front returns a further address of the member, which has an identity of its own.
func (l *lab) front(id string) *moods.Front {
	l.t.Helper()
	return moods.StartFront(l.t, l.member.config, id)
}

// join makes a Push cluster behind a front of its own.
func (l *lab) join(name string) *moods.Front {
	l.t.Helper()
	f := l.front("uid-of-" + name)
	l.accept(name)
	l.secret(name, l.token, f.CAData())
	l.connection(name, f.URL)
	return f
}
