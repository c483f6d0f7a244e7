// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/agent/connect"
)

func TestDecide(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	hubA := connect.HubEndpoint{Entry: "hub", Server: "https://a:6443", CA: []byte("ca")}
	me := identity{Cluster: "c1", Agent: "abcde"}
	// bare is an agent that has read its secrets and found nothing in them.
	bare := joinFacts{Now: now, HomeRead: true, WantedName: "c1", Bootstrap: bootstrapFact{State: bootstrapMissing, Problem: "no secret"}}
	with := func(f joinFacts, changes ...func(*joinFacts)) joinFacts {
		for _, change := range changes {
			change(&f)
		}
		return f
	}
	bootstrap := func(f *joinFacts) { f.Bootstrap = bootstrapFact{State: bootstrapPresent, Endpoint: hubA, Hash: "h1"} }
	applied := func(state csrState) func(*joinFacts) {
		return func(f *joinFacts) {
			f.Application, f.Applied = &application{identity: me, Server: hubA.Server}, true
			f.CSR, f.Cluster.State = csrFact{State: state, Name: "c1-123"}, clusterWaiting
		}
	}
	credential := func(age, lifetime time.Duration) func(*joinFacts) {
		return func(f *joinFacts) {
			f.Hub = &hubCredential{
				identity: me, Endpoint: hubA, NotBefore: now.Add(-age), NotAfter: now.Add(lifetime - age), Bootstrap: "h1",
			}
		}
	}
	fresh := credential(time.Minute, time.Hour)
	cluster := func(state clusterState) func(*joinFacts) { return func(f *joinFacts) { f.Cluster.State = state } }
	issuedFor := func(uid types.UID) func(*joinFacts) {
		return func(f *joinFacts) {
			credential := *f.Hub
			credential.ClusterUID = uid
			f.Hub = &credential
		}
	}
	reborn := func(uid types.UID) func(*joinFacts) {
		return func(f *joinFacts) { f.Cluster = clusterFact{State: clusterAccepted, UID: uid} }
	}
	auth := func(a authFact) func(*joinFacts) { return func(f *joinFacts) { f.Auth = a } }
	engaged := func(f *joinFacts) {
		f.Engaged = &engagement{identity: me, Endpoint: hubA}
		f.Auth, f.Cluster.State = authPermitted, clusterAccepted
	}
	otherHub := func(f *joinFacts) { f.Bootstrap.Endpoint.CA = []byte("another ca") }

	cases := map[string]struct {
		facts joinFacts
		want  joinDecision // Message is compared by mention
		// mention has to be in the message.
		mention string
	}{
		"nothing is decided before the secrets are read": {
			facts: with(bare, bootstrap, func(f *joinFacts) { f.HomeRead = false }),
		},
		"without a bootstrap kubeconfig it waits": {
			facts: bare, want: joinDecision{Reason: operatorv1.JoinReasonBootstrapSecretMissing}, mention: "no secret",
		},
		"a malformed one is told": {
			facts: with(bare, func(f *joinFacts) { f.Bootstrap = bootstrapFact{State: bootstrapMalformed, Problem: "bad yaml"} }),
			want:  joinDecision{Reason: operatorv1.JoinReasonBootstrapSecretMalformed}, mention: "bad yaml",
		},
		"a name that is no namespace is told": {
			facts: with(bare, bootstrap, func(f *joinFacts) { f.WantedName = "Not_A_Name" }),
			want:  joinDecision{Reason: operatorv1.JoinReasonClusterNameInvalid}, mention: `"Not_A_Name"`,
		},
		"with one it registers": {
			facts: with(bare, bootstrap), want: joinDecision{Do: doRegister},
		},
		"after a restart it registers again, which finds what is there": {
			facts: with(bare, bootstrap, applied(csrUnknown), func(f *joinFacts) { f.Applied = false }), want: joinDecision{Do: doRegister},
		},
		"then it waits for the approval, watching": {
			facts: with(bare, bootstrap, applied(csrWaiting)),
			want: joinDecision{
				Reason: operatorv1.JoinReasonWaitingForCSRApproval, FollowCSR: followByBootstrap, FollowCluster: followByBootstrap,
			},
			mention: "kubectl certificate approve c1-123. The hub has to accept the cluster as well: kubectl patch",
		},
		"an approved request waits for the signer": {
			facts: with(bare, bootstrap, applied(csrApproved)),
			want: joinDecision{
				Reason: operatorv1.JoinReasonWaitingForCSRApproval, FollowCSR: followByBootstrap, FollowCluster: followByBootstrap,
			},
			mention: "not signed yet",
		},
		"a denied request is not repeated": {
			facts: with(bare, bootstrap, applied(csrDenied)),
			want: joinDecision{
				Reason: operatorv1.JoinReasonCSRDenied, FollowCSR: followByBootstrap, FollowCluster: followByBootstrap,
			},
			mention: "kubectl delete csr c1-123",
		},
		"a deleted one is": {
			facts: with(bare, bootstrap, applied(csrGone)), want: joinDecision{Do: doRegister},
		},
		"a certificate is stored": {
			facts: with(bare, bootstrap, applied(csrIssued)),
			want:  joinDecision{Do: doStore, FollowCSR: followByBootstrap, FollowCluster: followByBootstrap},
		},
		"an application for another name is not used": {
			facts: with(bare, bootstrap, applied(csrIssued), func(f *joinFacts) { f.WantedName = "c2" }), want: joinDecision{Do: doRegister},
		},
		"nor one for another hub": {
			facts: with(bare, bootstrap, applied(csrIssued), func(f *joinFacts) { f.Bootstrap.Endpoint.Server = "https://b" }),
			want:  joinDecision{Do: doRegister},
		},
		"a stored credential is tried first": {
			facts: with(bare, bootstrap, fresh), want: joinDecision{Do: doVerify},
		},
		"also without a bootstrap kubeconfig": {
			facts: with(bare, fresh), want: joinDecision{Do: doVerify},
		},
		"an expired one is replaced": {
			facts: with(bare, bootstrap, credential(2*time.Hour, time.Hour)), want: joinDecision{Do: doRegister},
		},
		"an expired one of a member as well, and its parts go on": {
			facts: with(bare, bootstrap, credential(2*time.Hour, time.Hour), engaged), want: joinDecision{Do: doRegister},
		},
		"one for a hub with another CA is replaced": {
			facts: with(bare, bootstrap, fresh, otherHub), want: joinDecision{Do: doRegister},
		},
		"one that the hub does not know any more is replaced": {
			facts: with(bare, bootstrap, fresh, auth(authRefused)), want: joinDecision{Do: doRegister},
		},
		"one for another name is replaced": {
			facts: with(bare, bootstrap, fresh, func(f *joinFacts) { f.WantedName = "c2" }), want: joinDecision{Do: doRegister},
		},
		"one that may see nothing is watched over by the bootstrap kubeconfig": {
			facts: with(bare, bootstrap, fresh, auth(authForbidden), cluster(clusterWaiting)),
			want:  joinDecision{Reason: operatorv1.JoinReasonWaitingForAcceptance, FollowCluster: followByBootstrap}, mention: "kubectl patch managedcluster c1",
		},
		"or asks from time to time": {
			facts: with(bare, fresh, auth(authForbidden)),
			want:  joinDecision{Do: doVerify, Reason: operatorv1.JoinReasonWaitingForAcceptance},
		},
		"but not before it is time to": {
			facts: with(bare, fresh, auth(authForbidden), func(f *joinFacts) { f.VerifyAt = now.Add(time.Second) }),
			want:  joinDecision{Reason: operatorv1.JoinReasonWaitingForAcceptance, Again: time.Second},
		},
		"or asks when the bootstrap kubeconfig is refused": {
			facts: with(bare, bootstrap, fresh, auth(authForbidden), cluster(clusterWaiting), func(f *joinFacts) { f.BootstrapRefused = true }),
			want: joinDecision{
				Do: doVerify, Reason: operatorv1.JoinReasonWaitingForAcceptance, FollowCluster: followByBootstrap,
			},
		},
		"an accepted cluster asks until it has its rights": {
			facts: with(bare, bootstrap, fresh, auth(authForbidden), cluster(clusterAccepted)),
			want:  joinDecision{Do: doVerify, Reason: operatorv1.JoinReasonHubPermissionsMissing, FollowCluster: followByBootstrap},
		},
		"no part starts before": {
			facts: with(bare, bootstrap, fresh, auth(authAdmitted), cluster(clusterAccepted)),
			want:  joinDecision{Do: doVerify, Reason: operatorv1.JoinReasonHubPermissionsMissing, FollowCluster: followByHub},
		},
		"then they start": {
			facts: with(bare, bootstrap, fresh, auth(authPermitted), cluster(clusterAccepted)), want: joinDecision{Do: doEngage},
		},
		"a member has joined": {
			facts: with(bare, bootstrap, fresh, engaged), want: joinDecision{Reason: operatorv1.JoinReasonJoined},
		},
		"a member forgets the key of its application": {
			facts: with(bare, bootstrap, fresh, engaged, func(f *joinFacts) { f.PendingStored = true }),
			want:  joinDecision{Do: doForget, Reason: operatorv1.JoinReasonJoined},
		},
		"a member renews in time": {
			facts: with(bare, bootstrap, credential(50*time.Minute, time.Hour), engaged),
			want:  joinDecision{Do: doRenew, Reason: operatorv1.JoinReasonJoined},
		},
		"with its own credential": {
			facts: with(bare, bootstrap, credential(50*time.Minute, time.Hour), applied(csrWaiting), engaged),
			want:  joinDecision{FollowCSR: followByHub, Reason: operatorv1.JoinReasonJoined},
		},
		"and takes the new certificate": {
			facts: with(bare, bootstrap, credential(50*time.Minute, time.Hour), applied(csrIssued), engaged),
			want:  joinDecision{Do: doStore, Reason: operatorv1.JoinReasonJoined},
		},
		"a member in doubt asks": {
			facts: with(bare, bootstrap, fresh, engaged, func(f *joinFacts) { f.Recheck = true }),
			want:  joinDecision{Do: doVerify, Reason: operatorv1.JoinReasonJoined},
		},
		"a denied member ends its parts": {
			facts: with(bare, bootstrap, fresh, engaged, cluster(clusterDenied)),
			want:  joinDecision{Do: doDisengage, Reason: operatorv1.JoinReasonClusterDenied},
		},
		"and watches quietly": {
			facts: with(bare, bootstrap, fresh, auth(authAdmitted), cluster(clusterDenied)),
			want:  joinDecision{Reason: operatorv1.JoinReasonClusterDenied, FollowCluster: followByHub},
		},
		"a member that may see nothing ends its parts": {
			facts: with(bare, bootstrap, fresh, engaged, auth(authForbidden)), want: joinDecision{Do: doDisengage},
		},
		"a deleted member ends its parts": {
			facts: with(bare, bootstrap, fresh, engaged, cluster(clusterAbsent)),
			want:  joinDecision{Do: doDisengage, Reason: operatorv1.JoinReasonClusterDeleted},
		},
		"and stays away": {
			facts: with(bare, bootstrap, fresh, auth(authForbidden), cluster(clusterAbsent)),
			want:  joinDecision{Reason: operatorv1.JoinReasonClusterDeleted, FollowCluster: followByBootstrap}, mention: "delete the secret",
		},
		"until it is given another bootstrap kubeconfig": {
			facts: with(bare, bootstrap, fresh, cluster(clusterAbsent), func(f *joinFacts) { f.Bootstrap.Hash = "h2" }),
			want:  joinDecision{Do: doStartOver},
		},
		"or finds another ManagedCluster of its name, which its certificate does not count for": {
			facts: with(bare, bootstrap, fresh, auth(authForbidden), issuedFor("old"), reborn("new")),
			want:  joinDecision{Do: doStartOver},
		},
		"but not while the hub has not refused it": {
			facts: with(bare, bootstrap, fresh, auth(authAdmitted), issuedFor("old"), reborn("new")),
			want:  joinDecision{FollowCluster: followByHub, Do: doVerify, Reason: operatorv1.JoinReasonHubPermissionsMissing},
		},
		"nor if it is the one that the certificate was issued for": {
			facts: with(bare, bootstrap, fresh, auth(authForbidden), issuedFor("new"), reborn("new")),
			want:  joinDecision{FollowCluster: followByBootstrap, Do: doVerify, Reason: operatorv1.JoinReasonHubPermissionsMissing},
		},
		"nor if it is not known which that was": {
			facts: with(bare, bootstrap, fresh, auth(authForbidden), reborn("new")),
			want:  joinDecision{FollowCluster: followByBootstrap, Do: doVerify, Reason: operatorv1.JoinReasonHubPermissionsMissing},
		},
		"unless it is given another bootstrap kubeconfig": {
			facts: with(bare, bootstrap, fresh, auth(authForbidden), reborn("new"), func(f *joinFacts) { f.Bootstrap.Hash = "h2" }),
			want:  joinDecision{Do: doStartOver},
		},
		"nor for another bootstrap kubeconfig, if it is the one that the certificate was issued for": {
			facts: with(bare, bootstrap, fresh, auth(authForbidden), issuedFor("new"), reborn("new"), func(f *joinFacts) { f.Bootstrap.Hash = "h2" }),
			want:  joinDecision{FollowCluster: followByBootstrap, Do: doVerify, Reason: operatorv1.JoinReasonHubPermissionsMissing},
		},
		"nor while the hub counts it among the agents of another one": {
			facts: with(bare, bootstrap, fresh, auth(authForbidden), issuedFor("old"), reborn("new"), func(f *joinFacts) { f.Cluster.Agents = "other,abcde" }),
			want:  joinDecision{FollowCluster: followByBootstrap, Do: doVerify, Reason: operatorv1.JoinReasonHubPermissionsMissing},
		},
		"a member notes for which ManagedCluster its certificate works": {
			facts: with(bare, bootstrap, fresh, engaged, func(f *joinFacts) { f.Cluster.UID = "new" }),
			want:  joinDecision{Do: doNote},
		},
		"and beside which bootstrap kubeconfig": {
			facts: with(bare, bootstrap, fresh, engaged, func(f *joinFacts) { f.Bootstrap.Hash = "h2" }),
			want:  joinDecision{Do: doNote},
		},
		"but not another ManagedCluster than the one it was issued for": {
			facts: with(bare, bootstrap, fresh, issuedFor("old"), engaged, func(f *joinFacts) { f.Cluster.UID = "new" }),
			want:  joinDecision{Reason: operatorv1.JoinReasonJoined},
		},
		"certificates that are no good at once are not applied for in a hot loop": {
			facts: with(bare, bootstrap, credential(2*time.Hour, time.Hour), func(f *joinFacts) { f.ApplyAt = now.Add(time.Minute) }),
			want:  joinDecision{Reason: operatorv1.JoinReasonHubCredentialInvalid, Again: time.Minute}, mention: "Compare the clocks",
		},
		"nor are renewals that are due at once": {
			facts: with(bare, bootstrap, credential(55*time.Minute, time.Hour), engaged, func(f *joinFacts) { f.ApplyAt = now.Add(time.Minute) }),
			want:  joinDecision{Reason: operatorv1.JoinReasonJoined, Again: time.Minute},
		},
		"an application that was made is not given up": {
			facts: with(bare, bootstrap, credential(2*time.Hour, time.Hour), applied(csrGone), func(f *joinFacts) { f.ApplyAt = now.Add(time.Minute) }),
			want:  joinDecision{Do: doRegister},
		},
		"an agent that was away for too long says why it applies again": {
			facts: with(bare, bootstrap, credential(2*time.Hour, time.Hour), applied(csrWaiting)),
			want: joinDecision{
				FollowCSR: followByBootstrap, FollowCluster: followByBootstrap, Reason: operatorv1.JoinReasonWaitingForCSRApproval,
			},
			mention: "The hub credential has expired.",
		},
		"a member of another hub changes over": {
			facts: with(bare, bootstrap, fresh, engaged, func(f *joinFacts) { f.Engaged.Endpoint.Server = "https://old" }),
			want:  joinDecision{Do: doDisengage},
		},
		"what the hub publishes in place of its CA is kept": {
			facts: with(bare, bootstrap, fresh, engaged, func(f *joinFacts) { f.PublishedCA = []byte("published") }),
			want:  joinDecision{Do: doTrust, Reason: operatorv1.JoinReasonJoined}, mention: "c1",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got := decideNext(c.facts)
			if !strings.Contains(got.Message, c.mention) {
				t.Errorf("message %q, want it to mention %q", got.Message, c.mention)
			}
			got.Message = ""
			if c.want.Again == 0 {
				got.Again = 0
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("decision (-want +got):\n%s", diff)
			}
		})
	}
}

func TestACertificateIsRenewedBetween75And80PercentOfItsLifetime(t *testing.T) {
	start := time.Unix(0, 0)
	seen := map[time.Duration]bool{}
	for i := range 50 {
		c := &hubCredential{CertPEM: []byte{byte(i)}, NotBefore: start, NotAfter: start.Add(1000 * time.Hour)}
		after := c.renewAt().Sub(start)
		if after < 750*time.Hour || after > 800*time.Hour {
			t.Errorf("certificate %d is renewed after %s of 1000h, want 750h to 800h", i, after)
		}
		if again := c.renewAt().Sub(start); again != after {
			t.Errorf("certificate %d has two times: %s and %s", i, after, again)
		}
		seen[after] = true
	}
	if len(seen) < 40 {
		t.Errorf("50 certificates have %d times only; agents should not renew together", len(seen))
	}
}

func TestCertificatesInARowAreAppliedForMoreAndMoreRarely(t *testing.T) {
	m := &joinState{}
	m.facts.Now = time.Unix(1_000_000, 0)
	cred := &hubCredential{NotBefore: m.facts.Now, NotAfter: m.facts.Now.Add(24 * time.Hour)}
	var pauses []time.Duration
	for range 6 {
		m.countIssued(cred)
		pauses = append(pauses, m.facts.ApplyAt.Sub(m.facts.Now))
		m.facts.Now = m.facts.ApplyAt
	}
	if diff := cmp.Diff([]time.Duration{0, 0, 0, 5 * time.Second, 10 * time.Second, 20 * time.Second}, pauses); diff != "" {
		t.Errorf("pauses (-want +got):\n%s", diff)
	}
	if got := issuePause(1000, 10*time.Minute); got != 150*time.Second {
		t.Errorf("after very many certificates of ten minutes the pause is %s, want 2m30s, before the next renewal", got)
	}
	m.facts.Now = m.facts.Now.Add(2 * time.Hour)
	if m.countIssued(cred); m.facts.ApplyAt.After(m.facts.Now) {
		t.Error("a renewal after a long time is made to wait")
	}
}

func TestADeletedClusterIsNotCreatedAgainByAnAgentThatHadIt(t *testing.T) {
	endpoint := connect.HubEndpoint{Entry: "hub", Server: "https://a"}
	had := joinFacts{
		Bootstrap: bootstrapFact{State: bootstrapPresent, Endpoint: endpoint, Hash: "h1"},
		Hub:       &hubCredential{identity: identity{Cluster: "c1"}, Endpoint: endpoint, Bootstrap: "h1"},
	}
	cases := map[string]struct {
		facts joinFacts
		name  string
		want  bool
	}{
		"never had one":          {facts: joinFacts{}, name: "c1", want: true},
		"had it":                 {facts: had, name: "c1"},
		"had another":            {facts: had, name: "c2", want: true},
		"had it at another hub":  {facts: func() joinFacts { f := had; f.Bootstrap.Endpoint.Server = "https://b"; return f }(), name: "c1", want: true},
		"was told to join again": {facts: func() joinFacts { f := had; f.Bootstrap.Hash = "h2"; return f }(), name: "c1", want: true},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			if got := c.facts.mayCreateCluster(c.name); got != c.want {
				t.Errorf("mayCreateCluster: %t, want %t", got, c.want)
			}
		})
	}
}
