// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package push_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/agent/push"
	"github.com/capstan-io/capstan/internal/agent/work"
	"github.com/capstan-io/capstan/internal/cluster/dial"
	"github.com/capstan-io/capstan/internal/testing/expect"
	"github.com/capstan-io/capstan/internal/testing/moods"
)

const (
	connected   = fleetv1alpha1.ClusterConnectionConditionConnected
	credentials = fleetv1alpha1.ClusterConnectionConditionCredentialsValid
)

func TestAPushClusterIsWorkedForThroughItsWholeLife(t *testing.T) {
	l := newLab(t)
	ca := l.member.config.CAData
	l.start(local(), work.PartOptions{})

	// Whatever is missing is told.
	l.connection("c1", l.member.config.Host)
	l.says("c1", connected, fleetv1alpha1.ClusterConnectionReasonManagedClusterMissing)
	l.accept("c1")
	l.says("c1", credentials, fleetv1alpha1.ClusterConnectionReasonSecretMissing)
	l.says("c1", connected, fleetv1alpha1.ClusterConnectionReasonCredentialsInvalid)
	l.secret("c1", l.token, nil)
	l.says("c1", connected, fleetv1alpha1.ClusterConnectionReasonUntrusted)
	l.secret("c1", "nonsense", ca)
	l.says("c1", credentials, fleetv1alpha1.ClusterConnectionReasonUnauthorized)

	// With a good Secret all parts work.
	l.secret("c1", l.token, ca)
	l.says("c1", credentials, fleetv1alpha1.ClusterConnectionReasonAuthenticated)
	l.says("c1", connected, fleetv1alpha1.ClusterConnectionReasonConnected)
	system := &corev1.Namespace{}
	expect.NoError(t, l.member.client.Get(t.Context(), client.ObjectKey{Name: "kube-system"}, system))
	l.eventually("the hub to hear what the cluster is and has", func(ctx context.Context) (string, bool) {
		found := &fleetv1alpha1.ClusterConnection{}
		expect.NoError(t, l.hub.client.Get(ctx, client.ObjectKey{Name: "c1"}, found))
		s := found.Status
		return fmt.Sprint(s), s.ID == string(system.UID) && strings.HasPrefix(s.KubernetesVersion, "v1.") && s.NodeSummary != nil &&
			meta.IsStatusConditionTrue(s.Conditions, fleetv1alpha1.ClusterConnectionConditionCompleteAPIEnablements)
	})
	l.work("c1", "first")
	l.delivered("c1", "first")
	l.eventually("the hub to hear that the cluster is available", func(ctx context.Context) (string, bool) {
		mc, lease := &clusterv1.ManagedCluster{}, &coordinationv1.Lease{}
		expect.NoError(t, l.hub.client.Get(ctx, client.ObjectKey{Name: "c1"}, mc))
		expect.NoError(t, l.hub.client.Get(ctx, client.ObjectKey{Namespace: "c1", Name: clusterv1.LeaseName}, lease))
		joined := meta.IsStatusConditionTrue(mc.Status.Conditions, clusterv1.ManagedClusterConditionJoined)
		available := meta.IsStatusConditionTrue(mc.Status.Conditions, clusterv1.ManagedClusterConditionAvailable)
		return fmt.Sprint(mc.Status, lease.Spec), joined && available && lease.Spec.RenewTime != nil && mc.Status.Version.Kubernetes != ""
	})

	// The same cluster has one name only.
	l.accept("c2")
	l.secret("c2", l.token, ca)
	l.connection("c2", l.member.config.Host)
	if _, message := l.says("c2", connected, fleetv1alpha1.ClusterConnectionReasonAlreadyJoined); !strings.Contains(message, `"c1"`) {
		t.Errorf("the refusal does not name the cluster that it is already: %s", message)
	}

	// A token that goes bad is told, and one that is good again is used at once.
	l.secret("c1", "nonsense", ca)
	l.says("c1", credentials, fleetv1alpha1.ClusterConnectionReasonUnauthorized)
	l.work("c1", "second")
	l.secret("c1", l.token, ca)
	l.says("c1", connected, fleetv1alpha1.ClusterConnectionReasonConnected)
	l.delivered("c1", "second")

	// A cluster that is not accepted any more, or that is Pull, is left alone. The other name of the
	// cluster is neither, as it would take the place of the first.
	l.accepts("c2", false)
	l.says("c2", connected, fleetv1alpha1.ClusterConnectionReasonNotAccepted)
	l.accepts("c1", false)
	l.says("c1", connected, fleetv1alpha1.ClusterConnectionReasonNotAccepted)
	l.accepts("c1", true)
	l.says("c1", connected, fleetv1alpha1.ClusterConnectionReasonConnected)
	l.accepts("c2", true)
	l.says("c2", connected, fleetv1alpha1.ClusterConnectionReasonAlreadyJoined)
	l.work("c1", "third")
	l.delivered("c1", "third")
	expect.NoError(t, l.hub.client.Delete(t.Context(), &fleetv1alpha1.ClusterConnection{ObjectMeta: metav1.ObjectMeta{Name: "c1"}}))
	l.says("c2", connected, fleetv1alpha1.ClusterConnectionReasonConnected)
	l.work("c2", "fourth")
	l.delivered("c2", "fourth")

	// A Pull cluster that was first keeps it out, too; what one only claims does not.
	expect.NoError(t, l.hub.client.Delete(t.Context(), &fleetv1alpha1.ClusterConnection{ObjectMeta: metav1.ObjectMeta{Name: "c2"}}))
	l.pull("first", map[string]string{fleetv1alpha1.AnnotationClusterID: string(system.UID)}, "")
	l.pull("liar", nil, string(system.UID))
	l.connection("c2", l.member.config.Host)
	if _, message := l.says("c2", connected, fleetv1alpha1.ClusterConnectionReasonAlreadyJoined); !strings.Contains(message, `"first"`) {
		t.Errorf("the refusal does not name the cluster that it is already: %s", message)
	}
	l.accepts("first", false)
	l.says("c2", connected, fleetv1alpha1.ClusterConnectionReasonConnected)
}

// pull makes an accepted Pull cluster, with what the hub knows of it and what
// its agent says that it is.
func (l *lab) pull(name string, known map[string]string, claims string) {
	l.t.Helper()
	l.accept(name)
	connection := &fleetv1alpha1.ClusterConnection{ObjectMeta: metav1.ObjectMeta{Name: name, Annotations: known}}
	expect.NoError(l.t, l.hub.client.Create(l.t.Context(), connection))
	connection.Status.ID = claims
	expect.NoError(l.t, l.hub.client.Status().Update(l.t.Context(), connection))
}

// accepts says whether the hub accepts a cluster.
func (l *lab) accepts(cluster string, yes bool) {
	l.t.Helper()
	patch := fmt.Appendf(nil, `{"spec":{"hubAcceptsClient":%t}}`, yes)
	mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: cluster}}
	expect.NoError(l.t, l.hub.client.Patch(l.t.Context(), mc, client.RawPatch("application/merge-patch+json", patch)))
}

// slowdownMax is how many times longer the works of a cluster may take beside
// others that are in trouble. If these had the workers, it would be far more.
const slowdownMax = 10

// holdersMany are more clusters than can have all workers if each has as many as
// it may.
const holdersMany = push.Workers/push.WorkersPerCluster + 6

func TestNoClusterSlowsAnother(t *testing.T) {
	l := newLab(t)
	l.start(local(), work.PartOptions{Workers: push.Workers, WorkersPerCluster: push.WorkersPerCluster})
	fronts := map[string]*moods.Front{}
	troubled, well := []string{"hanging", "resetting", "slow"}, []string{"well", "healthy"}
	for _, name := range slices.Concat(troubled, well) {
		fronts[name] = l.join(name)
	}
	holders := l.joinHolders()
	for name := range fronts {
		l.says(name, connected, fleetv1alpha1.ClusterConnectionReasonConnected)
		l.works(name, name+"-first")
	}
	alone := l.takes(well, "alone")
	l.hold(holders)
	l.works("well", "well-beside-holders")
	if n := abandoned(holders); n > 0 {
		t.Errorf("a work was delivered only when the agent had given up %d requests of slow clusters", n)
	}
	fronts["hanging"].Mood.Store(moods.Hang)
	fronts["resetting"].Mood.Store(moods.Reset)
	fronts["slow"].Mood.Store(moods.Slow)
	for i := range 20 {
		for _, name := range troubled {
			l.work(name, fmt.Sprintf("%s-%d", name, i))
		}
	}
	l.eventually("requests to hang", func(context.Context) (string, bool) {
		n := fronts["hanging"].Hanging.Load()
		return fmt.Sprint(n), n > 0
	})
	beside := l.takes(well, "beside")
	t.Logf("works took %s without, and %s beside clusters in trouble", alone, beside)
	if beside > slowdownMax*alone {
		t.Errorf("works took %s beside clusters in trouble and %s without", beside, alone)
	}
	if fronts["hanging"].Hanging.Load() == 0 {
		t.Error("nothing hung any more when the works of the other clusters were delivered, so this proves nothing")
	}
	l.says("hanging", connected, fleetv1alpha1.ClusterConnectionReasonUnreachable)
	l.says("resetting", connected, fleetv1alpha1.ClusterConnectionReasonUnreachable)
	l.eventually("a work of the slow cluster to be applied", func(ctx context.Context) (string, bool) {
		list := &workv1.ManifestWorkList{}
		expect.NoError(t, l.hub.client.List(ctx, list, client.InNamespace("slow")))
		return "none", slices.ContainsFunc(list.Items, func(w workv1.ManifestWork) bool {
			return w.Name != "slow-first" && meta.IsStatusConditionTrue(w.Status.Conditions, workv1.ManifestWorkConditionApplied)
		})
	})
	l.says("slow", connected, fleetv1alpha1.ClusterConnectionReasonConnected)
	l.says("well", connected, fleetv1alpha1.ClusterConnectionReasonConnected)

	// Those who come back get what they missed.
	for _, name := range troubled {
		fronts[name].Mood.Store(moods.Well)
		fronts[name].CloseClientConnections()
	}
	for _, name := range troubled {
		l.says(name, connected, fleetv1alpha1.ClusterConnectionReasonConnected)
		l.delivered(name, name+"-0")
		l.delivered(name, name+"-19")
	}
}

// joinHolders makes many clusters join.
func (l *lab) joinHolders() []*moods.Front {
	l.t.Helper()
	var holders []*moods.Front
	for i := range holdersMany {
		holders = append(holders, l.join(holder(i)))
	}
	for i := range holders {
		l.says(holder(i), connected, fleetv1alpha1.ClusterConnectionReasonConnected)
	}
	return holders
}

func holder(i int) string { return fmt.Sprintf("holder-%d", i) }

// hold makes each of the clusters take as many workers as it gets.
func (l *lab) hold(holders []*moods.Front) {
	l.t.Helper()
	for _, f := range holders {
		f.Mood.Store(moods.Hold)
	}
	for n := range push.WorkersPerCluster {
		for i := range holders {
			l.work(holder(i), fmt.Sprintf("%s-%d", holder(i), n))
		}
	}
	l.eventually("requests to each slow cluster to hang", func(context.Context) (string, bool) {
		all, few := int32(0), 0
		for _, f := range holders {
			n := f.Hanging.Load()
			all += n
			if n == 0 {
				few++
			}
		}
		return fmt.Sprintf("%d requests hang, and none to %d clusters", all, few), few == 0 || all >= push.Workers
	})
}

// abandoned counts the requests to clusters that the agent gave up.
func abandoned(fronts []*moods.Front) (n int32) {
	for _, f := range fronts {
		n += f.Abandoned.Load()
	}
	return n
}

// takes returns how long ten works take to be delivered to each cluster.
func (l *lab) takes(clusters []string, name string) time.Duration {
	l.t.Helper()
	start := time.Now()
	for _, deliver := range []func(cluster, name string){l.work, l.delivered} {
		for i := range 10 {
			for _, cluster := range clusters {
				deliver(cluster, fmt.Sprintf("%s-%s-%d", cluster, name, i))
			}
		}
	}
	return time.Since(start)
}

func TestAnEndlessAnswerHarmsNobodyElse(t *testing.T) {
	l := newLab(t)
	l.start(local(), work.PartOptions{Workers: push.Workers, WorkersPerCluster: push.WorkersPerCluster})
	bad, _ := l.join("bad"), l.join("well")
	for _, name := range []string{"bad", "well"} {
		l.says(name, connected, fleetv1alpha1.ClusterConnectionReasonConnected)
		l.works(name, name+"-first")
	}
	bad.Mood.Store(moods.Endless)
	bad.CloseClientConnections() // watches begin anew, and are answered like all else
	l.work("bad", "bad-second")
	_, message := l.says("bad", connected, fleetv1alpha1.ClusterConnectionReasonAnswerTooLarge)
	for _, part := range []string{"was rejected: it exceeds", "bytes"} {
		if !strings.Contains(message, part) {
			t.Errorf("the message lacks %q: %s", part, message)
		}
	}
	l.works("well", "well-second")
	l.says("well", connected, fleetv1alpha1.ClusterConnectionReasonConnected)
	l.says("bad", connected, fleetv1alpha1.ClusterConnectionReasonAnswerTooLarge)

	// With answers that end it gets what it missed.
	bad.Mood.Store(moods.Well)
	bad.CloseClientConnections()
	l.delivered("bad", "bad-second")
}

func TestAnEndpointOfTheHubItselfIsNotDialled(t *testing.T) {
	l := newLab(t)
	l.start(dial.AddressGuard{}, work.PartOptions{})
	front := l.front("uid")
	l.accept("c1")
	l.secret("c1", l.token, front.CAData())
	l.connection("c1", strings.Replace(front.URL, "127.0.0.1", "localhost", 1)) // found out only when it is dialled
	if _, message := l.says("c1", connected, fleetv1alpha1.ClusterConnectionReasonForbiddenAddress); !strings.Contains(message, "loopback") {
		t.Errorf("the message does not say why: %s", message)
	}
	if front.Asked.Load() != 0 {
		t.Error("the address was dialled")
	}
}
