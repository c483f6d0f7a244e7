// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

const (
	// loadEvery makes 20 requests a second.
	loadEvery = 50 * time.Millisecond
	// loadTimeout is after which a request without an answer has failed.
	loadTimeout = time.Minute
	// loadAttempts and loadPause are how often, and after which time, a refused
	// connection is tried again, which reaches no server.
	loadAttempts, loadPause = 10, time.Second
	// loadErrors is how many errors are kept.
	loadErrors = 10
	// lostWithLeader is what etcd answers to a write that was on its way to a leader
	// which is no more.
	lostWithLeader = "etcdserver: request timed out"
)

// load is 20 requests a second to a hub and what became of them: half of them on
// one connection that is kept, as controllers have it, and half each on its own, as
// people with kubectl; a quarter of them writes. A request has failed if client-go
// returns an error, which repeats what is answered with Retry-After and reads whose
// connection breaks. Only a refused connection is tried again here, and counted.
//
// Of those that have failed, the ones are counted apart that etcd has lost together
// with its leader: it says so after seven seconds, nothing can tell whether they
// were carried out, and no API server repeats them.
type load struct {
	kept, fresh                 kubernetes.Interface
	sent, failed, lost, refused atomic.Int64
	cancel                      context.CancelFunc
	done                        sync.WaitGroup

	mu     sync.Mutex
	took   []time.Duration
	Errors []string
}

// StartLoad makes requests until stop is called.
func StartLoad(t testing.TB, hub Cluster) *load {
	t.Helper()
	rules := &clientcmd.ClientConfigLoadingRules{ExplicitPath: hub.Kubeconfig}
	config, err := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: hub.Name}).ClientConfig()
	if err != nil {
		t.Fatal(err)
	}
	config.QPS = -1 // the load is limited here
	l := &load{}
	if l.kept, err = kubernetes.NewForConfig(config); err != nil {
		t.Fatal(err)
	}
	trust, err := rest.TLSConfigFor(config)
	if err != nil {
		t.Fatal(err)
	}
	each := &http.Client{Transport: &http.Transport{TLSClientConfig: trust, DisableKeepAlives: true}}
	if l.fresh, err = kubernetes.NewForConfigAndClient(config, each); err != nil {
		t.Fatal(err)
	}
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "load"}}
	if _, err := l.kept.CoreV1().ConfigMaps(metav1.NamespaceDefault).Create(t.Context(), object, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	l.cancel = cancel
	t.Cleanup(cancel)
	l.done.Go(func() { l.RunLoad(ctx) })
	return l
}

// RunLoad sends requests until its context is done.
func (l *load) RunLoad(ctx context.Context) {
	tick := time.NewTicker(loadEvery)
	defer tick.Stop()
	for n := 0; ; n++ {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			// What is under way is brought to its end, so that stopping fails nothing.
			l.done.Go(func() { l.request(context.WithoutCancel(ctx), n) })
		}
	}
}

// request makes one request, and writes down what became of it.
func (l *load) request(ctx context.Context, n int) {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	client, name := l.kept, "a kept connection"
	if n%2 == 1 {
		client, name = l.fresh, "a new connection"
	}
	start := time.Now()
	err := l.attempt(ctx, client, n)
	for attempt := 1; attempt < loadAttempts && utilnet.IsConnectionRefused(err); attempt++ {
		l.refused.Add(1)
		time.Sleep(loadPause)
		err = l.attempt(ctx, client, n)
	}
	took := time.Since(start)
	l.sent.Add(1)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.took = append(l.took, took)
	if err == nil {
		return
	}
	l.failed.Add(1)
	if strings.Contains(err.Error(), lostWithLeader) {
		l.lost.Add(1)
	}
	if len(l.Errors) < loadErrors {
		l.Errors = append(l.Errors, fmt.Sprintf("%s on %s, after %s: %v", start.Format(time.TimeOnly), name, took.Round(time.Millisecond), err))
	}
}

// attempt sends the request once: in turn a list, a read, a write and a read.
func (l *load) attempt(ctx context.Context, client kubernetes.Interface, n int) error {
	objects := client.CoreV1().ConfigMaps(metav1.NamespaceDefault)
	const kinds = 4
	var err error
	switch n / 2 % kinds {
	case 0:
		_, err = client.CoreV1().Secrets(metav1.NamespaceAll).List(ctx, metav1.ListOptions{Limit: 1})
	case 1:
		change := fmt.Appendf(nil, `{"data":{"n":"%d"}}`, n)
		_, err = objects.Patch(ctx, "load", types.MergePatchType, change, metav1.PatchOptions{})
	default:
		_, err = objects.Get(ctx, "load", metav1.GetOptions{})
	}
	return err
}

// loadCounts are how many requests there were.
type loadCounts struct{ sent, Failed, Lost int64 }

// CountRequests returns how many requests there were so far.
func (l *load) CountRequests() loadCounts {
	return loadCounts{sent: l.sent.Load(), Failed: l.failed.Load(), Lost: l.lost.Load()}
}

// Since returns how many there were since others were.
func (c loadCounts) Since(before loadCounts) loadCounts {
	return loadCounts{sent: c.sent - before.sent, Failed: c.Failed - before.Failed, Lost: c.Lost - before.Lost}
}

func (c loadCounts) String() string {
	text := fmt.Sprintf("%d requests, %d failed", c.sent, c.Failed)
	if c.Lost > 0 {
		text += fmt.Sprintf(", %d of them writes that etcd lost with its leader", c.Lost)
	}
	return text
}

// StopLoad ends the load and sums it up.
func (l *load) StopLoad() []string {
	l.cancel()
	l.done.Wait()
	l.mu.Lock()
	defer l.mu.Unlock()
	slices.Sort(l.took)
	at := func(share float64) time.Duration {
		return l.took[int(share*float64(len(l.took)-1))].Round(time.Millisecond)
	}
	return []string{
		fmt.Sprintf("in all %s; connections refused and tried again: %d", l.CountRequests(), l.refused.Load()),
		fmt.Sprintf("half of requests took up to %s, 99 of 100 up to %s, the slowest %s", at(0.5), at(0.99), at(1)),
	}
}
