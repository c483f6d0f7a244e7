// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package accept

import (
	"strings"
	"testing"
	"time"

	certificatesv1 "k8s.io/api/certificates/v1"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/requests"
)

// TestAPushClusterBecomesPullOnlyIfTheUserSaysSo: a request alone, which any
// bootstrap token can make, must not take a cluster from the push agent.
func TestAPushClusterBecomesPullOnlyIfTheUserSaysSo(t *testing.T) {
	f := acceptanceFacts{cluster: &clusterv1.ManagedCluster{}, connection: &fleetv1alpha1.ClusterConnection{}}
	f.cluster.Name, f.cluster.Spec.HubAcceptsClient = "east", true
	f.connection.Spec.SyncMode = fleetv1alpha1.SyncModePush
	request := &certificatesv1.CertificateSigningRequest{}
	request.Name = "east-1"
	f.requests.Ready = []requests.ReadyRequest{{Request: request, Agent: "a"}}

	_, err := decideAcceptance(f)
	if text := exit.FormatError(err); !strings.Contains(text, "--request NAME") || !strings.Contains(text, "Pull") {
		t.Errorf("without a choice: %s", text)
	}
	f.chosen = "east-1"
	p, err := decideAcceptance(f)
	if err != nil || p.pull != f.connection || len(p.approve) != 1 || p.accept {
		t.Errorf("the request is chosen, and the plan is %+v (%v)", p, err)
	}
	f.connection.Spec.SyncMode = fleetv1alpha1.SyncModePull
	if p, err = decideAcceptance(f); err != nil || p.pull != nil {
		t.Errorf("a Pull cluster has nothing to change, and the plan is %+v (%v)", p, err)
	}
}

// TestACopiedRequestIsNotApproved is a stranger who asks with the shared bootstrap
// token in the name of an agent that waits, and has a key of his own.
func TestACopiedRequestIsNotApproved(t *testing.T) {
	agents, strangers := asks(t, "c1-agent", "c1"), asks(t, "c1-stranger", "c1")
	again := agents.DeepCopy()
	again.Name = "c1-again"
	sorted := func(all ...*certificatesv1.CertificateSigningRequest) acceptanceFacts {
		f := acceptanceFacts{cluster: &clusterv1.ManagedCluster{}, now: time.Now()}
		f.cluster.Name = "c1"
		var items []certificatesv1.CertificateSigningRequest
		for _, request := range all {
			items = append(items, *request)
		}
		f.requests = requests.Sort("c1", items)
		return f
	}

	f := sorted(agents, strangers)
	p, err := decideAcceptance(f)
	if err == nil || len(p.approve) > 0 {
		t.Fatalf("two keys ask, and %d requests are to be approved", len(p.approve))
	}
	for _, ready := range f.requests.Ready {
		if text := exit.FormatError(err); ready.Key == "" || !strings.Contains(text, whoAsks(ready, f.now)) {
			t.Errorf("%s with the key %q is not told apart: %s", ready.Request.Name, ready.Key, text)
		}
	}
	f.chosen = agents.Name
	if p, err = decideAcceptance(f); err != nil || len(p.approve) != 1 || p.approve[0].Request.Name != agents.Name {
		t.Errorf("one is chosen, and the plan is %+v (%v)", p, err)
	}
	if p, err = decideAcceptance(sorted(agents, again)); err != nil || len(p.approve) != 2 {
		t.Errorf("one key asks twice, and the plan is %+v (%v)", p, err)
	}
}

// TestANameForgesNoFingerprint is a stranger whose request has a name that goes on like what we print of the
// request of the agent.
func TestANameForgesNoFingerprint(t *testing.T) {
	const name, command = "c1-x: agent agent with the key sha256:00\n  c1-y", "x;reboot"
	f := acceptanceFacts{cluster: &clusterv1.ManagedCluster{}, now: time.Now()}
	f.cluster.Name = "c1"
	f.requests = requests.Sort("c1", []certificatesv1.CertificateSigningRequest{*asks(t, name, "c1"), *asks(t, command, "c1")})
	said := []string{whoAsks(requests.ReadyRequest{Request: asks(t, name, "c1"), Agent: "agent", Key: "sha256:11"}, f.now)}
	for _, f.chosen = range []string{"", name, command} {
		p, err := decideAcceptance(f)
		if err == nil || len(p.approve) > 0 {
			t.Errorf("request %q is chosen, and %d are to be approved", f.chosen, len(p.approve))
		}
		_, next, _ := strings.Cut(exit.FormatError(err), "\n")
		said = append(said, next)
	}
	said = append(said, exit.FormatError(revokeNeededError("c1", []certificatesv1.CertificateSigningRequest{*asks(t, command, "c1")})))
	for _, text := range said {
		if strings.Contains(text, "with the key sha256:00") || strings.Contains(text, command) || strings.Contains(text, "\n  c1-y") {
			t.Errorf("it says %s", text)
		}
	}
}

// TestARequestInThePlaceOfAnotherIsNotApproved is a request of the same name, made
// after the administrator has seen the one before.
func TestARequestInThePlaceOfAnotherIsNotApproved(t *testing.T) {
	seen, other := asks(t, "c1-agent", "c1"), asks(t, "c1-agent", "c1")
	seen.UID, other.UID = "seen", "other"
	c := fakeHub(t, other).Build()
	a := &acceptCommand{read: c, write: c}
	if err := a.approveRequest(t.Context(), seen); err == nil {
		t.Error("a request was approved that nobody has looked at")
	}
}

// TestAClusterOfANameIsRecognized has a stranger ask under a name that was shown, and deleted since.
func TestAClusterOfANameIsRecognized(t *testing.T) {
	now := time.Now()
	cluster := &clusterv1.ManagedCluster{}
	cluster.Name = "c1"
	cluster.UID = "first"
	cluster.CreationTimestamp.Time = now.Add(-time.Hour)
	if got, want := identifyCluster(cluster, now), `Cluster "c1" has the UID first and asked to join 60m ago`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
