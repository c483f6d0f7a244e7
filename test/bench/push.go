// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/test/internal/fleet"
)

// restartMax is how long clusters may take to be heard of after a restart.
const restartMax = 10 * time.Minute

// pushBench is a hub with one push agent for many simulated clusters.
type pushBench struct {
	*bench
	fronts *fronts
	token  string // of an administrator of the member
	n      int
}

// measurePush has one push agent work for many clusters, watches it while
// nothing happens, and starts it again.
func measurePush(ctx context.Context, o options) (fmt.Stringer, error) {
	result := table{Columns: []string{
		"clusters", "s to Available", "MiB/cluster", "agent RSS MiB", "agent millicores", "hub requests/cluster/min", "hub writes/cluster/min",
		"member requests/cluster/min", "s after a restart", "probe s", "ratio",
	}}
	for _, n := range o.members {
		err := withFleet(ctx, o, true, func(ctx context.Context, f *bench) error {
			b := &pushBench{bench: f, n: n}
			row, err := b.measure(ctx, o.idle)
			result.add(row...)
			return err
		})
		if err != nil {
			return nil, fmt.Errorf("working for %d Push clusters: %w", n, err)
		}
	}
	return result, nil
}

func (b *pushBench) measure(ctx context.Context, idle time.Duration) (row []float64, err error) {
	if b.fronts, err = newFronts(b.fleet.Members[0]); err != nil {
		return nil, err
	}
	defer b.fronts.close()
	empty, err := b.without(ctx)
	if err != nil {
		return nil, err
	}
	first, err := b.first(ctx)
	if err != nil {
		return nil, err
	}
	if err := fleet.Pause(ctx, settle); err != nil {
		return nil, err
	}
	asked := b.fronts.asked.Load()
	quiet, err := b.watchIdle(ctx, idle)
	if err != nil {
		return nil, err
	}
	members := float64(b.fronts.asked.Load() - asked)
	again, err := b.restart(ctx)
	if err != nil {
		return nil, err
	}
	probe, err := b.heardOf(ctx)
	if err != nil {
		return nil, err
	}
	minutes, each := idle.Minutes(), float64(b.n)
	own := quiet.requests.Minus(scaled(b.empty, minutes))
	return []float64{
		each, first.Seconds(), (quiet.agents.AnonMiB - empty.AnonMiB) / each, quiet.agents.RSSMiB,
		1000 * quiet.agents.CPUSeconds / idle.Seconds(), own.All / each / minutes, own.Writes / each / minutes,
		members / each / minutes, again.Seconds(), probe.Seconds(), again.Seconds() / probe.Seconds(),
	}, nil
}

// without returns what an agent uses that has no cluster.
func (b *pushBench) without(ctx context.Context) (fleet.Usage, error) {
	if err := b.startAgent(ctx); err != nil {
		return fleet.Usage{}, err
	}
	if err := fleet.Pause(ctx, settle); err != nil {
		return fleet.Usage{}, err
	}
	defer b.stopAgent()
	return fleet.Total(b.fleet.Agents)
}

func (b *pushBench) startAgent(ctx context.Context) error {
	agent, err := b.fleet.Start(ctx, "push-agent", "push-agent", "--disable-leader-election", "--metrics-port=0", "--health-probe-port=0",
		"--kubeconfig="+b.fleet.Path("push-agent.kubeconfig"), "--allowed-networks=127.0.0.0/8")
	b.fleet.Agents = []*fleet.Process{agent}
	return err
}

func (b *pushBench) stopAgent() {
	b.fleet.Agents[0].Stop()
	b.fleet.Agents = nil
}

// first makes all clusters and returns how long it takes until they are
// Available, from the start of the agent.
func (b *pushBench) first(ctx context.Context) (time.Duration, error) {
	if _, err := b.accept(ctx, b.n); err != nil {
		return 0, err
	}
	if err := b.admit(ctx); err != nil {
		return 0, err
	}
	if err := parallel(ctx, b.n, b.declare); err != nil {
		return 0, err
	}
	if err := fleet.Pause(ctx, settle); err != nil { // the hub gives the agent its rights
		return 0, err
	}
	done, watching := make(chan error, 1), make(chan struct{})
	go func() { done <- b.awaitClusters(ctx, b.n, watching, clusterv1.ManagedClusterConditionAvailable) }()
	<-watching
	started := time.Now()
	if err := b.startAgent(ctx); err != nil {
		return 0, err
	}
	return b.waited(ctx, started, done)
}

// admit makes the account in the member that the agent works as.
func (b *pushBench) admit(ctx context.Context) error {
	account := metav1.ObjectMeta{Namespace: "default", Name: "push"}
	if err := b.fleet.Members[0].Client.Create(ctx, &corev1.ServiceAccount{ObjectMeta: account}); err != nil {
		return fmt.Errorf("making the account in the member: %w", err)
	}
	err := b.fleet.Members[0].Client.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "push"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: account.Namespace, Name: account.Name}},
	})
	if err != nil {
		return fmt.Errorf("giving rights to the account in the member: %w", err)
	}
	token, err := b.fleet.Members[0].Kubernetes.CoreV1().ServiceAccounts(account.Namespace).
		CreateToken(ctx, account.Name, &authenticationv1.TokenRequest{}, metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("getting a token of the account in the member: %w", err)
	}
	b.token = token.Status.Token
	return nil
}

// declare makes the Secret and the ClusterConnection of a cluster.
func (b *pushBench) declare(ctx context.Context, i int) error {
	name := b.agent(i).Cluster()
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: fleetv1alpha1.DefaultSecretName},
		Data:       map[string][]byte{fleetv1alpha1.SecretKeyToken: []byte(b.token), fleetv1alpha1.SecretKeyCABundle: b.fronts.ca()},
	}
	if err := b.fleet.Hub.Client.Create(ctx, secret); err != nil {
		return fmt.Errorf("making the Secret of %s: %w", name, err)
	}
	have := &fleetv1alpha1.ClusterConnection{ObjectMeta: metav1.ObjectMeta{Name: name}}
	patch := fmt.Appendf(nil, `{"apiVersion":%q,"kind":"ClusterConnection","metadata":{"name":%q},"spec":{"syncMode":"Push","apiEndpoint":%q}}`,
		fleetv1alpha1.GroupVersion.String(), name, b.fronts.endpoint(i))
	err := b.fleet.Hub.Client.Patch(ctx, have, client.RawPatch("application/apply-patch+yaml", patch), client.FieldOwner("bench"), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("making the ClusterConnection of %s: %w", name, err)
	}
	return nil
}

// restart starts the agent again and returns how long it takes until the hub
// has heard of all clusters.
func (b *pushBench) restart(ctx context.Context) (time.Duration, error) {
	b.stopAgent()
	ctx, cancel := context.WithTimeout(ctx, restartMax)
	defer cancel()
	watch, err := b.fleet.Hub.Client.Watch(ctx, &coordinationv1.LeaseList{})
	if err != nil {
		return 0, fmt.Errorf("watching leases: %w", err)
	}
	defer watch.Stop()
	started := time.Now()
	if err := b.startAgent(ctx); err != nil {
		return 0, err
	}
	heard := map[string]bool{}
	for event := range watch.ResultChan() {
		lease, ok := event.Object.(*coordinationv1.Lease)
		if ok && lease.Name == clusterv1.LeaseName && lease.Spec.RenewTime != nil && lease.Spec.RenewTime.After(started) {
			heard[lease.Namespace] = true
		}
		if len(heard) == b.n {
			return time.Since(started), nil
		}
	}
	return 0, fmt.Errorf("only %d of %d clusters were heard of after a restart; logs are in %s", len(heard), b.n, b.fleet.Path("logs"))
}

// heardOf is the limit for a restart: what the hub and a cluster have to be
// asked for at the least until the hub has heard of it, by plain clients.
func (b *pushBench) heardOf(ctx context.Context) (time.Duration, error) {
	started := time.Now()
	err := parallel(ctx, b.n, func(ctx context.Context, i int) error {
		name := b.agent(i).Cluster()
		transport := b.fronts.server.Client().Transport.(*http.Transport).Clone()
		defer transport.CloseIdleConnections()
		asker := &http.Client{Transport: transport}
		for _, path := range []string{"/livez", "/api/v1/namespaces/kube-system", "/version", "/apis/work.open-cluster-management.io/v1/appliedmanifestworks"} {
			if err := b.ask(ctx, asker, b.fronts.endpoint(i)+path); err != nil {
				return err
			}
		}
		key := client.ObjectKey{Namespace: name, Name: clusterv1.LeaseName}
		lease := &coordinationv1.Lease{}
		if err := b.fleet.Hub.Client.Get(ctx, client.ObjectKey{Name: name}, &clusterv1.ManagedCluster{}); err != nil {
			return fmt.Errorf("reading ManagedCluster %s: %w", name, err)
		}
		if err := b.fleet.Hub.Client.Get(ctx, key, lease); err != nil {
			return fmt.Errorf("reading the lease of %s: %w", name, err)
		}
		now := metav1.NowMicro()
		lease.Spec.RenewTime = &now
		if err := b.fleet.Hub.Client.Update(ctx, lease); err != nil {
			return fmt.Errorf("renewing the lease of %s: %w", name, err)
		}
		return nil
	})
	return time.Since(started), err
}

func (b *pushBench) ask(ctx context.Context, asker *http.Client, address string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+b.token)
	response, err := asker.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close() //nolint:errcheck // it was read
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return err
	}
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("GET %s: %s", address, response.Status)
	}
	return nil
}

// fronts make one member look like many clusters: each has an endpoint, and
// says that it is another one.
type fronts struct {
	server *httptest.Server
	behind http.Handler
	// asked counts requests, also watches when they begin.
	asked atomic.Int64
}

func newFronts(member *fleet.Cluster) (*fronts, error) {
	target, err := url.Parse(member.Config.Host)
	if err != nil {
		return nil, fmt.Errorf("reading the address of %s: %w", member.Name, err)
	}
	transport, err := rest.TransportFor(rest.AnonymousClientConfig(member.Config))
	if err != nil {
		return nil, fmt.Errorf("making a way to %s: %w", member.Name, err)
	}
	f := &fronts{behind: &httputil.ReverseProxy{
		Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }, Transport: transport, FlushInterval: -1,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { w.WriteHeader(http.StatusBadGateway) },
	}}
	f.server = httptest.NewUnstartedServer(f)
	f.server.EnableHTTP2 = true
	f.server.StartTLS()
	return f, nil
}

func (f *fronts) close() {
	f.server.CloseClientConnections()
	f.server.Close()
}

// endpoint is that of a cluster: all have the address, each a path of its own.
func (f *fronts) endpoint(i int) string { return f.server.URL + "/" + strconv.Itoa(i) }

func (f *fronts) ca() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: f.server.Certificate().Raw})
}

// ServeHTTP implements http.Handler.
func (f *fronts) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.asked.Add(1)
	cluster, path, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	if path == "api/v1/namespaces/kube-system" {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"kube-system","uid":"uid-of-%s"}}`, cluster) // who asked may have gone
		return
	}
	r.URL.Path, r.URL.RawPath = "/"+path, ""
	f.behind.ServeHTTP(w, r)
}
