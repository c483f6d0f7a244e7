// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package push_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
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
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, clusterv1.AddToScheme, workv1.AddToScheme, fleetv1alpha1.AddToScheme,
	} {
		must(t, add(scheme))
	}
	c, err := client.New(config, client.Options{Scheme: scheme})
	must(t, err)
	return side{config: config, client: c}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
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
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "push"}}
	must(t, l.member.client.Create(t.Context(), account))
	must(t, l.member.client.Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "push"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: "default", Name: "push"}},
	}))
	request := &authenticationv1.TokenRequest{}
	must(t, l.member.client.SubResource("token").Create(t.Context(), account, request))
	l.token = request.Status.Token
	return l
}

// start runs the agent until the test ends.
func (l *lab) start(guard dial.AddressGuard, options work.PartOptions) {
	l.t.Helper()
	options.Logger = logr.Discard()
	works, err := work.NewManifestWorkPart(options)
	must(l.t, err)
	agent, err := push.NewAgent(push.AgentOptions{
		Hub: l.hub.config, Guard: guard, Clock: l.clock, Log: logr.Discard(),
		ClaimRules: clusterstatus.ClaimRules{CustomMax: 20}, Parts: append(l.parts, works),
	})
	must(l.t, err)
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
	must(l.t, l.hub.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}))
	seconds, holder := int32(60), clusterv1.LeaseName
	must(l.t, l.hub.client.Create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: clusterv1.LeaseName},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds},
	}))
	mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: clusterv1.ManagedClusterSpec{HubAcceptsClient: true}}
	must(l.t, l.hub.client.Create(ctx, mc))
	mc.Status.Conditions = []metav1.Condition{{
		Type: clusterv1.ManagedClusterConditionHubAccepted, Status: metav1.ConditionTrue,
		Reason: clusterv1.ManagedClusterReasonHubClusterAdminAccepted, LastTransitionTime: metav1.Now(),
	}}
	must(l.t, l.hub.client.Status().Update(ctx, mc))
}

// secret writes the Secret of a cluster, which is never away meanwhile.
func (l *lab) secret(name, token string, ca []byte) {
	l.t.Helper()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: fleetv1alpha1.DefaultSecretName},
		Data:       map[string][]byte{fleetv1alpha1.SecretKeyToken: []byte(token), fleetv1alpha1.SecretKeyCABundle: ca},
	}
	err := l.hub.client.Create(l.t.Context(), secret.DeepCopy())
	if apierrors.IsAlreadyExists(err) {
		err = l.hub.client.Update(l.t.Context(), secret) // whatever is there
	}
	must(l.t, err)
}

// connection makes the ClusterConnection of a Push cluster.
func (l *lab) connection(name, endpoint string) {
	l.t.Helper()
	must(l.t, l.hub.client.Create(l.t.Context(), &fleetv1alpha1.ClusterConnection{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       fleetv1alpha1.ClusterConnectionSpec{SyncMode: fleetv1alpha1.SyncModePush, APIEndpoint: endpoint},
	}))
}

// work has a ConfigMap of the same name delivered to a cluster.
func (l *lab) work(cluster, name string) {
	l.t.Helper()
	manifest := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"default","name":%q}}`, name)
	must(l.t, l.hub.client.Create(l.t.Context(), &workv1.ManifestWork{
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: name},
		Spec: workv1.ManifestWorkSpec{Workload: workv1.ManifestsTemplate{
			Manifests: []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: []byte(manifest)}}},
		}},
	}))
}

// eventually waits until the function returns true; it says what there is.
func (l *lab) eventually(what string, check func(ctx context.Context) (string, bool)) {
	l.t.Helper()
	deadline := time.NewTimer(patience)
	defer deadline.Stop()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		is, ok := check(l.t.Context())
		if ok {
			return
		}
		select {
		case <-deadline.C:
			l.t.Fatalf("waited %s for %s: there is %s", patience, what, is)
		case <-tick.C:
		}
	}
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

// The moods of a front.
const (
	moodWell int32 = iota
	moodHang
	moodReset
	moodSlow
	// moodGone answers 404 to everything, moodHalfGone to all but the question how
	// it is: what stands in front of an API server does, while that is away.
	moodGone
	moodHalfGone
	// moodHold does not answer who creates an AppliedManifestWork, and all else.
	moodHold
	// moodEndless answers a gzip without end to all but the questions how and who it
	// is.
	moodEndless
)

// slowness is how long a slow cluster takes for each answer.
const slowness = 5 * time.Second

// front is a further address of the member that can be in a bad mood, and has
// an identity of its own.
type front struct {
	*httptest.Server
	id      string
	mood    atomic.Int32
	hanging atomic.Int32
	asked   atomic.Int32
	// abandoned counts the requests that hung until who asked gave up.
	abandoned atomic.Int32
	// denied counts the answers 404 of the front itself.
	denied atomic.Int32
	// minted counts the requests for tokens; beforeMint, if there is one, is called
	// before each.
	minted     atomic.Int32
	beforeMint atomic.Pointer[func()]
	behind     http.Handler
}

func (l *lab) front(id string) *front {
	l.t.Helper()
	target, err := url.Parse(l.member.config.Host)
	must(l.t, err)
	transport, err := rest.TransportFor(rest.AnonymousClientConfig(l.member.config))
	must(l.t, err)
	f := &front{id: id}
	f.behind = &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: transport, FlushInterval: -1,
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) {}, // who asked has gone
	}
	f.Server = httptest.NewUnstartedServer(f)
	f.EnableHTTP2 = true
	f.StartTLS()
	l.t.Cleanup(func() { f.CloseClientConnections(); f.Close() })
	return f
}

func (f *front) ca() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.Certificate().Raw})
}

// join makes a Push cluster behind a front of its own.
func (l *lab) join(name string) *front {
	l.t.Helper()
	f := l.front("uid-of-" + name)
	l.accept(name)
	l.secret(name, l.token, f.ca())
	l.connection(name, f.URL)
	return f
}

// hang does not answer, until who asks has gone.
func (f *front) hang(r *http.Request) {
	f.hanging.Add(1)
	defer f.hanging.Add(-1)
	<-r.Context().Done()
	f.abandoned.Add(1)
}

// endless answers with a gzip of spaces until nobody reads it any more.
func endless(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Encoding", "gzip")
	zip, spaces := gzip.NewWriter(w), bytes.Repeat([]byte(" "), 1<<20)
	for {
		if _, err := zip.Write(spaces); err != nil {
			return
		}
	}
}

// misbehave treats a request as the mood is. It returns false if the API server is
// to answer it.
func (f *front) misbehave(w http.ResponseWriter, r *http.Request) bool {
	switch f.mood.Load() {
	case moodHang:
		f.hang(r)
		return true
	case moodHold:
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/appliedmanifestworks") {
			f.hang(r)
			return true
		}
	case moodEndless:
		if r.URL.Path != "/livez" && r.URL.Path != "/api/v1/namespaces/kube-system" {
			endless(w)
			return true
		}
	case moodReset:
		panic(http.ErrAbortHandler)
	case moodGone:
		f.denied.Add(1)
		http.NotFound(w, r)
		return true
	case moodHalfGone:
		if r.URL.Path != "/livez" {
			f.denied.Add(1)
			http.NotFound(w, r)
			return true
		}
	case moodSlow:
		timer := time.NewTimer(slowness)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done():
			return true
		}
	}
	return false
}

// ServeHTTP implements http.Handler.
func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.asked.Add(1)
	if f.misbehave(w, r) {
		return
	}
	if r.URL.Path == "/api/v1/namespaces/kube-system" {
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(&corev1.Namespace{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"}, ObjectMeta: metav1.ObjectMeta{Name: "kube-system", UID: types.UID(f.id)},
		})
		return
	}
	if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "/token") {
		f.minted.Add(1)
		if before := f.beforeMint.Load(); before != nil {
			(*before)()
		}
	}
	f.behind.ServeHTTP(w, r)
}

// cut ends all connections, as when a cluster goes away.
func (f *front) cut() { f.CloseClientConnections() }
