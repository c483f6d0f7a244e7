// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	controllermetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/capstan-io/capstan/internal/server/metrics"
	"github.com/capstan-io/capstan/internal/server/options"
	"github.com/capstan-io/capstan/internal/testing/expect"
	"github.com/capstan-io/capstan/internal/testing/outage"
)

// TestManagersHandOverTheirLease runs managers as the operators and the hub's
// controllers do: the Lease lasts for hours here, so none may have to run out.
func TestManagersHandOverTheirLease(t *testing.T) {
	_, config := servers.Start(t)
	clients, err := kubernetes.NewForConfig(config)
	expect.NoError(t, err)
	first, endFirst := startManager(t, config, clients, "a")
	waitElected(t, first)
	second, endSecond := startManager(t, config, clients, "b")
	select {
	case <-second.Elected():
		t.Fatal("a leader that lives was robbed")
	default:
	}
	// As the kubelet does: first the signal, then the pod is gone.
	endFirst()
	expect.NoError(t, clients.CoreV1().Pods("default").Delete(t.Context(), "a", metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}))
	waitElected(t, second)
	endSecond()
	lease, err := clients.CoordinationV1().Leases("default").Get(t.Context(), "the-lock", metav1.GetOptions{})
	expect.NoError(t, err)
	if holder := ptr.Deref(lease.Spec.HolderIdentity, ""); holder != "" {
		t.Errorf("a manager that has ended must have given up its Lease, but %q has it", holder)
	}
}

// startManager starts a manager in a pod of its own, and returns what ends it.
func startManager(t *testing.T, config *rest.Config, clients kubernetes.Interface, name string) (ctrl.Manager, func()) {
	t.Helper()
	pod, err := clients.CoreV1().Pods("default").Create(t.Context(), &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       corev1.PodSpec{NodeName: "node1", Containers: []corev1.Container{{Name: "c", Image: "i"}}},
	}, metav1.CreateOptions{})
	expect.NoError(t, err)
	t.Setenv("POD_NAMESPACE", pod.Namespace)
	t.Setenv("POD_NAME", pod.Name)
	t.Setenv("POD_UID", string(pod.UID))
	times := options.LeaderElection{LeaseDuration: 3 * time.Hour, RenewDeadline: 2 * time.Hour, RetryPeriod: time.Hour}
	mgr, err := NewManager(ManagerOptions{
		Component: "test", Config: config, Server: options.ServerOptions{}, Election: times, Namespace: "default", Lease: "the-lock",
	})
	expect.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- mgr.Start(ctx) }()
	return mgr, func() {
		t.Helper()
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("the manager of pod %q must end without an error, got %v", name, err)
			}
		case <-time.After(patience):
			t.Fatalf("the manager of pod %q does not end", name)
		}
	}
}

func waitElected(t *testing.T, mgr ctrl.Manager) {
	t.Helper()
	select {
	case <-mgr.Elected():
	case <-time.After(patience):
		t.Fatal("the manager does not lead")
	}
}

// TestAnAgentOfAllPartsHasTheLeasesOfThoseThatItReplaces: while a Klusterlet
// changes its mode, agents of both modes run for a moment.
func TestAnAgentOfAllPartsHasTheLeasesOfThoseThatItReplaces(t *testing.T) {
	_, config := servers.Start(t)
	times := options.DefaultLeaderElection()
	works := func(ran chan<- string, name string) func(context.Context) error {
		return func(ctx context.Context) error {
			ran <- name
			<-ctx.Done()
			return nil
		}
	}
	ran := make(chan string, 2)
	start := func(name string, leases ...string) (end func()) {
		lead, err := WithLeaderElection(config, times, "default", leases, works(ran, name))
		expect.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- lead(ctx) }()
		return func() {
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
	endWork := start("work agent", "work-agent-lock")
	if got := <-ran; got != "work agent" {
		t.Fatalf("%s works, want the work agent", got)
	}
	endAll := start("agent of all parts", "registration-agent-lock", "work-agent-lock")
	waitHolder(t, config, "registration-agent-lock")
	select {
	case got := <-ran:
		t.Fatalf("%s works, but the work agent does still", got)
	default:
	}
	endAll()
	endWork()
	endAll = start("agent of all parts", "registration-agent-lock", "work-agent-lock")
	select {
	case <-ran:
	case <-time.After(patience):
		t.Fatal("both Leases are free, but the agent does not work")
	}
	endAll()
}

// TestAnAgentLeadsAgainAfterAnOutage takes the API server away until the Lease of an agent
// is another one's, and brings it back: the process goes on all the while, and its work
// begins anew, with its metrics.
func TestAnAgentLeadsAgainAfterAnOutage(t *testing.T) {
	_, config := servers.Start(t)
	clients, err := kubernetes.NewForConfig(config)
	expect.NoError(t, err)
	var outages outage.WrappedServer
	cut := rest.CopyConfig(config)
	cut.Wrap(outages.WrapTransport)
	var begun, over atomic.Int32
	work := func(ctx context.Context) error {
		group := metrics.NewCollectorGroup(controllermetrics.Registry)
		defer group.UnregisterAll()
		if err := group.RegisterAll(prometheus.NewCounter(prometheus.CounterOpts{Name: "capstan_test_turns", Help: "Turns."})); err != nil {
			return err
		}
		begun.Add(1)
		defer over.Add(1)
		<-ctx.Done()
		if outages.HasEnded() {
			return errors.New("the API server does not answer") // nothing that ends a process
		}
		return nil
	}
	times := options.LeaderElection{LeaseDuration: 10 * time.Second, RenewDeadline: 5 * time.Second, RetryPeriod: 200 * time.Millisecond}
	// A machine with too much to do can cost the Leases at any time, so the work may begin and end more often.
	lead, err := WithLeaderElection(cut, times, "default", []string{"outer-lock", "inner-lock"}, work)
	expect.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- ServeWhile(ctx, options.ServerOptions{}, cut, "test-agent", lead) }()
	await := func(what string, happened func() bool) {
		t.Helper()
		limit := time.After(3 * patience)
		for !happened() {
			select {
			case err := <-ended:
				t.Fatalf("%s: the process has ended: %v", what, err)
			case <-limit:
				t.Fatalf("%s: it does not come to that", what)
			case <-time.After(5 * time.Millisecond):
			}
		}
	}
	await("the work begins", func() bool { return begun.Load() > 0 })
	outages.EndNow()
	await("the work ends without the API server", func() bool { return over.Load() == begun.Load() })
	before := begun.Load()
	hold(t, clients, "outer-lock", `"another replica"`)
	outages.ComesBack(t, 0)
	hold(t, clients, "outer-lock", "null")
	await("the work begins again", func() bool { return begun.Load() > before })
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("a process that is told to end must end without an error, got %v", err)
	}
}

// hold writes a holder, as JSON, into a Lease, whoever has it.
func hold(t *testing.T, clients kubernetes.Interface, lease, holder string) {
	t.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"holderIdentity":%s}}`, holder)
	if _, err := clients.CoordinationV1().Leases("default").Patch(t.Context(), lease, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
}

func waitHolder(t *testing.T, config *rest.Config, lease string) {
	t.Helper()
	clients, err := kubernetes.NewForConfig(config)
	expect.NoError(t, err)
	watch, err := clients.CoordinationV1().Leases("default").Watch(t.Context(), metav1.ListOptions{FieldSelector: "metadata.name=" + lease})
	expect.NoError(t, err)
	defer watch.Stop()
	select {
	case <-watch.ResultChan():
	case <-time.After(patience):
		t.Fatalf("nobody takes Lease %s", lease)
	}
}
