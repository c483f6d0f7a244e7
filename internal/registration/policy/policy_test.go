// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package policy_test

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/asn1"
	"encoding/pem"
	"net"
	"net/url"
	"slices"
	"strings"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/registration/policy"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

const (
	bootstrapper = "system:serviceaccount:open-cluster-management:agent-registration-bootstrap"
	stranger     = "system:bootstrap:abcdef"
)

// makePEM makes a request of agent one of cluster east, changed by the function.
func makePEM(t testing.TB, change func(*x509.CertificateRequest)) []byte {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	expect.NoError(t, err)
	return makePEMWithKey(t, key, change)
}

func makePEMWithKey(t testing.TB, key crypto.Signer, change func(*x509.CertificateRequest)) []byte {
	t.Helper()
	template := &x509.CertificateRequest{Subject: subjectOf("east", "one")}
	if change != nil {
		change(template)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	expect.NoError(t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der})
}

func subjectOf(cluster, agent string) pkix.Name {
	return pkix.Name{
		CommonName:   clusterv1.AgentUser(cluster, agent),
		Organization: []string{clusterv1.AgentGroup(cluster), clusterv1.GroupManagedClusters},
	}
}

// renewal is a request that is in order: agent one of east renews.
func renewal(t testing.TB) policy.SigningRequest {
	return policy.SigningRequest{
		SignerName: certificatesv1.KubeAPIServerClientSignerName,
		Usages: []certificatesv1.KeyUsage{
			certificatesv1.UsageDigitalSignature, certificatesv1.UsageKeyEncipherment, certificatesv1.UsageClientAuth,
		},
		Username:     clusterv1.AgentUser("east", "one"),
		Groups:       []string{clusterv1.AgentGroup("east"), clusterv1.GroupManagedClusters, "system:authenticated"},
		PEM:          makePEM(t, nil),
		ClusterLabel: "east",
	}
}

// first is a request that is in order: a bootstrap identity asks for the first
// certificate of east.
func first(t testing.TB) policy.SigningRequest {
	request := renewal(t)
	request.Username, request.Groups = bootstrapper, []string{"system:serviceaccounts", "system:authenticated"}
	return request
}

// rejoining is cluster east, whose agent was approved with another key, has
// joined, and is not heard of any more; changed by the function.
func rejoining(change func(*policy.ClusterFacts)) policy.ClusterFacts {
	c := policy.ClusterFacts{
		Exists: true, Accepted: true, Joined: true, Requester: bootstrapper, Key: "sha256:another",
	}
	if change != nil {
		change(&c)
	}
	return c
}

func TestDecide(t *testing.T) {
	accepted := policy.ClusterFacts{Exists: true, Accepted: true, Joined: true}
	unknown := policy.ClusterFacts{Exists: true}
	rsa1024, err := rsa.GenerateKey(rand.Reader, 1024)
	expect.NoError(t, err)
	reshape := func(change func(*x509.CertificateRequest)) func(*policy.SigningRequest) {
		return func(r *policy.SigningRequest) { r.PEM = makePEM(t, change) }
	}
	type want struct {
		verdict policy.RequestVerdict
		reason  string
	}
	cases := map[string]struct {
		reason  string
		base    func(testing.TB) policy.SigningRequest
		change  func(*policy.SigningRequest)
		cluster policy.ClusterFacts
		want    want
	}{
		"an agent renews its certificate": {
			reason: "requester, subject, label and cluster agree", base: renewal, cluster: accepted,
			want: want{policy.Approve, policy.ReasonApproved},
		},
		"an agent renews without key encipherment": {
			reason: "an EC key has no use for it", base: renewal, cluster: accepted,
			change: func(r *policy.SigningRequest) {
				r.Usages = []certificatesv1.KeyUsage{certificatesv1.UsageDigitalSignature, certificatesv1.UsageClientAuth}
			},
			want: want{policy.Approve, policy.ReasonApproved},
		},
		"the organizations may come in any order": {
			reason: "a set has no order", base: renewal, cluster: accepted,
			change: reshape(func(c *x509.CertificateRequest) {
				c.Subject.Organization = []string{clusterv1.GroupManagedClusters, clusterv1.AgentGroup("east")}
			}),
			want: want{policy.Approve, policy.ReasonApproved},
		},
		"an agent of east asks for a certificate of west": {
			reason: "CVE-2026-4740: the admin of a cluster forges another cluster's identity", base: renewal, cluster: accepted,
			change: func(r *policy.SigningRequest) {
				r.ClusterLabel = "west"
				r.PEM = makePEM(t, func(c *x509.CertificateRequest) { c.Subject = subjectOf("west", "one") })
			},
			want: want{policy.Refuse, policy.ReasonIdentity},
		},
		"an agent of east asks for west under its own label": {
			reason: "the label is chosen by the requester", base: renewal, cluster: accepted,
			change: reshape(func(c *x509.CertificateRequest) { c.Subject = subjectOf("west", "one") }),
			want:   want{policy.Refuse, policy.ReasonClusterDiffers},
		},
		"an agent puts the label of west on its own renewal": {
			reason: "all names must agree", base: renewal, cluster: accepted,
			change: func(r *policy.SigningRequest) { r.ClusterLabel = "west" },
			want:   want{policy.Refuse, policy.ReasonClusterDiffers},
		},
		"an agent asks for the certificate of another agent of its cluster": {
			reason: "only one's own certificate is renewed", base: renewal, cluster: accepted,
			change: reshape(func(c *x509.CertificateRequest) { c.Subject = subjectOf("east", "two") }),
			want:   want{policy.Refuse, policy.ReasonIdentity},
		},
		"an agent that is in the group of west as well renews": {
			reason: "whoever has two clusters' groups is no agent", base: renewal, cluster: accepted,
			change: func(r *policy.SigningRequest) { r.Groups = append(r.Groups, clusterv1.AgentGroup("west")) },
			want:   want{policy.Refuse, policy.ReasonIdentity},
		},
		"a user with an agent's name but without its group renews": {
			reason: "the name alone may come from another authenticator", base: renewal, cluster: accepted,
			change: func(r *policy.SigningRequest) { r.Groups = []string{"system:authenticated"} },
			want:   want{policy.Refuse, policy.ReasonIdentity},
		},
		"a stranger in an agent's group asks": {
			reason: "a member of the group is treated as an agent, and its name is another", base: renewal, cluster: accepted,
			change: func(r *policy.SigningRequest) { r.Username = stranger },
			want:   want{policy.Refuse, policy.ReasonIdentity},
		},
		"an approved user in an agent's group asks": {
			reason: "an agent gets no second way in", base: renewal, cluster: unknown,
			change: func(r *policy.SigningRequest) { r.Username = bootstrapper },
			want:   want{policy.Refuse, policy.ReasonIdentity},
		},
		"an agent asks for system:masters besides": {
			reason: "the organizations are the groups", base: renewal, cluster: accepted,
			change: reshape(func(c *x509.CertificateRequest) {
				c.Subject.Organization = append(c.Subject.Organization, "system:masters")
			}),
			want: want{policy.Refuse, policy.ReasonMalformed},
		},
		"an agent asks for the group of its cluster only": {
			reason: "exactly the two", base: renewal, cluster: accepted,
			change: reshape(func(c *x509.CertificateRequest) { c.Subject.Organization = c.Subject.Organization[:1] }),
			want:   want{policy.Refuse, policy.ReasonMalformed},
		},
		"an agent asks for a group twice": {
			reason: "exactly the two", base: renewal, cluster: accepted,
			change: reshape(func(c *x509.CertificateRequest) {
				c.Subject.Organization = append(c.Subject.Organization, c.Subject.Organization[0])
			}),
			want: want{policy.Refuse, policy.ReasonMalformed},
		},
		"an agent asks for a second common name": {
			reason: "readers differ in which one counts", base: renewal, cluster: accepted,
			change: reshape(func(c *x509.CertificateRequest) {
				c.Subject.ExtraNames = []pkix.AttributeTypeAndValue{
					{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: clusterv1.AgentUser("west", "one")},
					{Type: asn1.ObjectIdentifier{2, 5, 4, 3}, Value: clusterv1.AgentUser("east", "one")},
				}
			}),
			want: want{policy.Refuse, policy.ReasonMalformed},
		},
		"an agent asks for an organizational unit": {
			reason: "nothing but CN and O", base: renewal, cluster: accepted,
			change: reshape(func(c *x509.CertificateRequest) { c.Subject.OrganizationalUnit = []string{"x"} }),
			want:   want{policy.Refuse, policy.ReasonMalformed},
		},
		"an agent asks for a DNS name": {
			reason: "no alternative names", base: renewal, cluster: accepted,
			change: reshape(func(c *x509.CertificateRequest) { c.DNSNames = []string{"hub.example.com"} }),
			want:   want{policy.Refuse, policy.ReasonMalformed},
		},
		"an agent asks for an email address": {
			reason: "no alternative names", base: renewal, cluster: accepted,
			change: reshape(func(c *x509.CertificateRequest) { c.EmailAddresses = []string{"a@example.com"} }),
			want:   want{policy.Refuse, policy.ReasonMalformed},
		},
		"an agent asks for an IP address": {
			reason: "no alternative names", base: renewal, cluster: accepted,
			change: reshape(func(c *x509.CertificateRequest) { c.IPAddresses = []net.IP{net.IPv4(10, 0, 0, 1)} }),
			want:   want{policy.Refuse, policy.ReasonMalformed},
		},
		"an agent asks for a URI": {
			reason: "no alternative names", base: renewal, cluster: accepted,
			change: reshape(func(c *x509.CertificateRequest) { c.URIs = []*url.URL{{Scheme: "spiffe", Host: "x"}} }),
			want:   want{policy.Refuse, policy.ReasonMalformed},
		},
		"an agent asks for any other extension": {
			reason: "which agents may not have", base: renewal, cluster: accepted,
			change: reshape(func(c *x509.CertificateRequest) {
				c.ExtraExtensions = []pkix.Extension{{Id: asn1.ObjectIdentifier{2, 5, 29, 19}, Value: []byte{0x30, 0x03, 0x01, 0x01, 0xff}}}
			}),
			want: want{policy.Refuse, policy.ReasonMalformed},
		},
		"an agent asks for server auth": {
			reason: "client certificates only", base: renewal, cluster: accepted,
			change: func(r *policy.SigningRequest) { r.Usages = append(r.Usages, certificatesv1.UsageServerAuth) },
			want:   want{policy.Refuse, policy.ReasonMalformed},
		},
		"an agent asks for no usage": {
			reason: "client auth is the purpose", base: renewal, cluster: accepted,
			change: func(r *policy.SigningRequest) { r.Usages = nil },
			want:   want{policy.Refuse, policy.ReasonMalformed},
		},
		"an agent name with a colon": {
			reason: "the parts of the name must be unmistakable", base: renewal, cluster: accepted,
			change: reshape(func(c *x509.CertificateRequest) { c.Subject.CommonName = clusterv1.AgentUser("east", "one:two") }),
			want:   want{policy.Refuse, policy.ReasonMalformed},
		},
		"an agent name that is too long": {
			reason: "a limit for everything", base: renewal, cluster: accepted,
			change: reshape(func(c *x509.CertificateRequest) {
				c.Subject.CommonName = clusterv1.AgentUser("east", strings.Repeat("a", 64))
			}),
			want: want{policy.Refuse, policy.ReasonMalformed},
		},
		"no agent name": {
			reason: "the name is one of an agent", base: renewal, cluster: accepted,
			change: reshape(func(c *x509.CertificateRequest) { c.Subject.CommonName = clusterv1.AgentGroup("east") }),
			want:   want{policy.Refuse, policy.ReasonMalformed},
		},
		"the cluster is named as the group of all clusters": {
			reason: "its group would be everybody's", base: first, cluster: unknown,
			change: func(r *policy.SigningRequest) {
				r.ClusterLabel = "managed-clusters"
				r.PEM = makePEM(t, func(c *x509.CertificateRequest) { c.Subject = subjectOf("managed-clusters", "one") })
			},
			want: want{policy.Refuse, policy.ReasonMalformed},
		},
		"a weak key": {
			reason: "it can be broken", base: renewal, cluster: accepted,
			change: func(r *policy.SigningRequest) { r.PEM = makePEMWithKey(t, rsa1024, nil) },
			want:   want{policy.Refuse, policy.ReasonMalformed},
		},
		"not PEM": {
			reason: "not a request", base: renewal, cluster: accepted,
			change: func(r *policy.SigningRequest) { r.PEM = []byte("hello") },
			want:   want{policy.Refuse, policy.ReasonMalformed},
		},
		"two requests in one": {
			reason: "readers differ in which one counts", base: renewal, cluster: accepted,
			change: func(r *policy.SigningRequest) { r.PEM = append(r.PEM, makePEM(t, nil)...) },
			want:   want{policy.Refuse, policy.ReasonMalformed},
		},
		"a huge request": {
			reason: "it is not read at all", base: renewal, cluster: accepted,
			change: func(r *policy.SigningRequest) { r.PEM = make([]byte, policy.RequestBytesMax+1) },
			want:   want{policy.Refuse, policy.ReasonMalformed},
		},
		"another signer": {
			reason: "none of our business", base: renewal, cluster: accepted,
			change: func(r *policy.SigningRequest) { r.SignerName = certificatesv1.KubeletServingSignerName },
			want:   want{policy.Ignore, ""},
		},
		"no label": {
			reason: "none of our business", base: renewal, cluster: accepted,
			change: func(r *policy.SigningRequest) { r.ClusterLabel = "" },
			want:   want{policy.Ignore, ""},
		},
		"an add-on's request": {
			reason: "other rules", base: renewal, cluster: accepted,
			change: func(r *policy.SigningRequest) { r.AddOnLabel = "observability" },
			want:   want{policy.Ignore, ""},
		},
		"a renewal for a denied cluster": {
			reason: "a denied cluster that comes back stays out", base: renewal, cluster: policy.ClusterFacts{Exists: true, Denied: true, Joined: true},
			want: want{policy.Refuse, policy.ReasonClusterDenied},
		},
		"a renewal for a deleted cluster": {
			reason: "there is nothing to renew for", base: renewal,
			want: want{policy.Refuse, policy.ReasonClusterMissing},
		},
		"an approved user asks for a new cluster": {
			reason: "what automatic approval is for", base: first, cluster: unknown,
			want: want{policy.Approve, policy.ReasonApproved},
		},
		"an approved user asks before there is a cluster": {
			reason: "whether it is denied is not known yet", base: first,
			want: want{policy.Wait, policy.ReasonClusterMissing},
		},
		"an approved user asks for a denied cluster": {
			reason: "the administrator has the last word", base: first, cluster: policy.ClusterFacts{Exists: true, Denied: true},
			want: want{policy.Refuse, policy.ReasonClusterDenied},
		},
		"an approved user asks for a cluster that is being deleted": {
			reason: "the certificate would outlive it", base: first, cluster: policy.ClusterFacts{Exists: true, Deleting: true},
			want: want{policy.Wait, policy.ReasonClusterMissing},
		},
		"an approved user asks for a cluster that labels itself into a set": {
			reason: "what is delivered to the set would come with it", base: first, cluster: policy.ClusterFacts{Exists: true, Set: "production"},
			want: want{policy.Leave, policy.ReasonNotAutomatic},
		},
		"an approved user asks for a cluster that another user has created": {
			reason: "it would be accepted with the labels that the other one has chosen", base: first,
			cluster: policy.ClusterFacts{Exists: true, WaitsFor: clusterv1.AwaitingMark("system:bootstrap:other1")},
			want:    want{policy.Leave, policy.ReasonNotAutomatic},
		},
		"an approved user asks for a cluster that it has created": {
			reason: "both are its own", base: first, cluster: policy.ClusterFacts{Exists: true, WaitsFor: clusterv1.AwaitingMark(bootstrapper)},
			want: want{policy.Approve, policy.ReasonApproved},
		},
		"an approved user asks for a cluster that an administrator accepted": {
			reason: "its certificate may just be under way", base: first, cluster: policy.ClusterFacts{Exists: true, Accepted: true},
			want: want{policy.Leave, policy.ReasonNotAutomatic},
		},
		"an agent of the name of that of a silent cluster asks with another key": {
			reason: "silence makes nobody else that cluster, and whoever has the credential can read the name", base: first, cluster: rejoining(nil),
			want: want{policy.Refuse, policy.ReasonClusterJoined},
		},
		"an approved user asks again for a cluster that is about to join": {
			reason: "one certificate for one key", base: first, cluster: rejoining(func(c *policy.ClusterFacts) { c.Joined = false }),
			want: want{policy.Refuse, policy.ReasonClusterJoined},
		},
		"an approved user asks again for a cluster whose agent is heard of": {
			reason: "many agents share the bootstrap identity", base: first,
			cluster: rejoining(func(c *policy.ClusterFacts) { c.Alive = true }),
			want:    want{policy.Refuse, policy.ReasonClusterAlive},
		},
		"an agent that is heard of renews": {
			reason: "that is what it is for", base: renewal, cluster: policy.ClusterFacts{Exists: true, Accepted: true, Joined: true, Alive: true},
			want: want{policy.Approve, policy.ReasonApproved},
		},
		"an approved user asks for a cluster that another one joined": {
			reason: "an approved user of another cluster", base: first,
			cluster: policy.ClusterFacts{Exists: true, Accepted: true, Joined: true, Requester: "system:bootstrap:other1"},
			want:    want{policy.Refuse, policy.ReasonClusterJoined},
		},
		"an approved user asks for a cluster that an administrator let in": {
			reason: "a taken name", base: first, cluster: accepted,
			want: want{policy.Refuse, policy.ReasonClusterJoined},
		},
		"an approved user asks for a cluster that another one is about to join": {
			reason: "first come, first served", base: first,
			cluster: policy.ClusterFacts{Exists: true, Accepted: true, Requester: "system:bootstrap:other1"},
			want:    want{policy.Refuse, policy.ReasonClusterJoined},
		},
		"somebody else asks for a new cluster": {
			reason: "exactly the users that were named", base: first, cluster: unknown,
			change: func(r *policy.SigningRequest) { r.Username = stranger },
			want:   want{policy.Leave, policy.ReasonNotAutomatic},
		},
		"somebody whose name begins like an approved one": {
			reason: "exactly the users that were named", base: first, cluster: unknown,
			change: func(r *policy.SigningRequest) { r.Username = bootstrapper + "2" },
			want:   want{policy.Leave, policy.ReasonNotAutomatic},
		},
		"somebody else asks for system:masters": {
			reason: "an administrator who approves by hand is warned", base: first, cluster: unknown,
			change: func(r *policy.SigningRequest) {
				r.Username = stranger
				r.PEM = makePEM(t, func(c *x509.CertificateRequest) { c.Subject.Organization = []string{"system:masters"} })
			},
			want: want{policy.Refuse, policy.ReasonMalformed},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			request := c.base(t)
			if c.change != nil {
				c.change(&request)
			}
			got := policy.DecideRequest(request, c.cluster, policy.AutoApproval{Users: []string{bootstrapper}})
			if (want{got.Verdict, got.Reason}) != c.want {
				t.Errorf("%s: got %s %s (%s), want %v", c.reason, got.Verdict, got.Reason, got.Message, c.want)
			}
			if got.Verdict != policy.Ignore && got.Message == "" {
				t.Error("the decision has no message")
			}
		})
	}
}

// TestTokens is about what a bootstrap token may do because of what it was
// bound to, without any user that the administrator named.
func TestTokens(t *testing.T) {
	const (
		bootstrappers = clusterv1.GroupBootstrappers
		forEast       = bootstrappers + ":name:east"
		forWest       = bootstrappers + ":name:west"
		forEas        = bootstrappers + ":prefix:eas:x"
		forEastDash   = bootstrappers + ":prefix:east-:x"
		forAll        = bootstrappers + ":prefix::x"
		autoAccept    = clusterv1.GroupBootstrapAutoAccept
	)
	key := keyOf(t, first(t))
	taken := func(key string) policy.ClusterFacts {
		return policy.ClusterFacts{Exists: true, Accepted: true, Requester: stranger, Key: key}
	}
	type want struct {
		verdict policy.RequestVerdict
		reason  string
	}
	leave, approve := want{policy.Leave, policy.ReasonNotAutomatic}, want{policy.Approve, policy.ReasonApproved}
	beyond, joined := want{policy.Refuse, policy.ReasonTokenBound}, want{policy.Refuse, policy.ReasonClusterJoined}
	cases := map[string]struct {
		reason  string
		groups  []string
		user    string
		cluster policy.ClusterFacts
		sameKey bool
		want    want
	}{
		"bound to the name": {
			reason: "an administrator still decides", groups: []string{forEast}, cluster: policy.ClusterFacts{Exists: true}, want: leave,
		},
		"bound to another name":               {reason: "never, by nobody", groups: []string{forWest}, cluster: policy.ClusterFacts{Exists: true}, want: beyond},
		"bound to names that begin otherwise": {reason: "east- is not the beginning of east", groups: []string{forEastDash}, cluster: policy.ClusterFacts{Exists: true}, want: beyond},
		"bound to an empty prefix":            {reason: "that is no name", groups: []string{forAll, autoAccept}, cluster: policy.ClusterFacts{Exists: true}, want: beyond},
		"bound and accepted": {
			reason: "the purpose of it", groups: []string{forEast, autoAccept}, cluster: policy.ClusterFacts{Exists: true}, want: approve,
		},
		"bound to a prefix and accepted": {
			reason: "the purpose of it", groups: []string{forEas, autoAccept}, cluster: policy.ClusterFacts{Exists: true}, want: approve,
		},
		"accepted and not bound": {
			reason: "that has no effect", groups: []string{bootstrappers, autoAccept}, cluster: policy.ClusterFacts{Exists: true}, want: leave,
		},
		"bound to another name and accepted": {groups: []string{forWest, autoAccept}, cluster: policy.ClusterFacts{Exists: true}, want: beyond},
		"accepted, somebody who is no token": {
			reason: "only tokens are", user: "anna", groups: []string{forEast, autoAccept}, cluster: policy.ClusterFacts{Exists: true}, want: leave,
		},
		"before there is a ManagedCluster": {
			groups: []string{forEast, autoAccept}, want: want{policy.Wait, policy.ReasonClusterMissing},
		},
		"the cluster was denied": {
			reason: "an administrator has the last word", groups: []string{forEast, autoAccept},
			cluster: policy.ClusterFacts{Exists: true, Denied: true}, want: want{policy.Refuse, policy.ReasonClusterDenied},
		},
		"the same request again": {
			reason: "the approval failed after the acceptance", groups: []string{forEast, autoAccept},
			cluster: taken(key), sameKey: true, want: approve,
		},
		"the same key in the name of another agent": {
			reason: "each agent is a user of its own, with requests of its own", groups: []string{forEast, autoAccept},
			cluster: policy.ClusterFacts{Exists: true, Accepted: true, Requester: stranger, Agents: "another"}, sameKey: true, want: joined,
		},
		"the same key in the name of the agent that is noted": {
			groups: []string{forEast, autoAccept}, sameKey: true, want: approve,
			cluster: policy.ClusterFacts{Exists: true, Accepted: true, Requester: stranger, Agents: "*,one"},
		},
		"another holder of the token, before the first has joined": {
			reason: "one cluster, one agent", groups: []string{forEast, autoAccept}, cluster: taken(key), want: joined,
		},
		"another holder of the token, after the first has joined and fell silent": {
			reason: "silence makes nobody else that cluster", groups: []string{forEast, autoAccept},
			cluster: policy.ClusterFacts{Exists: true, Accepted: true, Joined: true, Requester: stranger, Key: key}, want: joined,
		},
		"the agent itself, after it has joined": {
			reason: "it renews with its certificate", groups: []string{forEast, autoAccept}, sameKey: true,
			cluster: policy.ClusterFacts{Exists: true, Accepted: true, Joined: true, Requester: stranger, Key: key}, want: joined,
		},
		"another token asks for a cluster that is about to join": {
			groups: []string{forEast, autoAccept}, cluster: policy.ClusterFacts{Exists: true, Requester: "system:bootstrap:other1", Key: key}, want: joined,
		},
		"a cluster that joined by an administrator": {
			groups: []string{forEast, autoAccept}, cluster: policy.ClusterFacts{Exists: true, Accepted: true, Joined: true}, want: joined,
		},
		"a cluster that an administrator has accepted and that has not joined": {
			reason: "its certificate may just be under way", groups: []string{forEast, autoAccept},
			cluster: policy.ClusterFacts{Exists: true, Accepted: true}, want: leave,
		},
		"a cluster that labels itself into a set": {
			reason: "every bootstrap identity may do that, and the set's works come with it", groups: []string{forEast, autoAccept},
			cluster: policy.ClusterFacts{Exists: true, Set: "production"}, want: leave,
		},
		"a cluster in the default set": {groups: []string{forEast, autoAccept}, cluster: policy.ClusterFacts{Exists: true, Set: "default"}, want: approve},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			request := first(t)
			request.Username, request.Groups = stranger, slices.Concat(c.groups, []string{bootstrappers, "system:authenticated"})
			if c.user != "" {
				request.Username = c.user
			}
			if c.sameKey {
				c.cluster.Key = keyOf(t, request)
			}
			got := policy.DecideRequest(request, c.cluster, policy.AutoApproval{})
			if (want{got.Verdict, got.Reason}) != c.want {
				t.Errorf("%s: got %s %s (%s), want %v", c.reason, got.Verdict, got.Reason, got.Message, c.want)
			}
			if got.Verdict == policy.Approve && (got.Agent == "" || got.Key == "") {
				t.Errorf("the approval does not say whose it is: %+v", got)
			}
		})
	}
}

func TestBoundIdentityRenewsOnlyItsOwnNames(t *testing.T) {
	request := renewal(t)
	request.Groups = append(request.Groups, clusterv1.GroupBootstrappers+":name:west")
	if got := policy.DecideRequest(request, policy.ClusterFacts{Exists: true, Accepted: true}, policy.AutoApproval{}); got.Reason != policy.ReasonTokenBound {
		t.Errorf("got %s %s, want %s", got.Verdict, got.Reason, policy.ReasonTokenBound)
	}
}

// keyOf returns the key of a request as decisions tell it.
func keyOf(t *testing.T, request policy.SigningRequest) string {
	t.Helper()
	return policy.DecideRequest(request, policy.ClusterFacts{Exists: true}, policy.AutoApproval{}).Key
}

// TestAnAgentAsksAgainWithItsKey is about an agent whose request was approved,
// and which does not know yet.
func TestAnAgentAsksAgainWithItsKey(t *testing.T) {
	request := first(t)
	cluster := rejoining(func(c *policy.ClusterFacts) { c.Joined, c.Key = false, keyOf(t, request) })
	if got := policy.DecideRequest(request, cluster, policy.AutoApproval{Users: []string{bootstrapper}}); got.Verdict != policy.Approve {
		t.Errorf("got %s %s (%s), want %s", got.Verdict, got.Reason, got.Message, policy.Approve)
	}
}

func TestAgents(t *testing.T) {
	cases := map[string]struct {
		reason string
		agents policy.AgentNames
		names  []string
		with   policy.AgentNames // one more, "b"
	}{
		"none":       {reason: "nobody was let in yet", agents: "", with: "b"},
		"all":        {reason: "who becomes known first need not be the one at work", agents: policy.AnyAgent, with: "*,b"},
		"the same":   {reason: "an agent renews", agents: "a,b", names: []string{"a", "b"}, with: "a,b"},
		"another":    {reason: "an agent was made anew", agents: "a", names: []string{"a"}, with: "a,b"},
		"known, too": {reason: "somebody is known, and others are not", agents: "a,*", names: []string{"a"}, with: "a,*,b"},
		"not a name": {reason: "somebody wrote it by hand", agents: "a,, *,c", names: []string{"a", "c"}, with: "a,c,b"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := tc.agents.NamedAgents(); !slices.Equal(got, tc.names) {
				t.Errorf("%s: the names are %q, want %q", tc.reason, got, tc.names)
			}
			if got := tc.agents.WithAgent("b"); got != tc.with {
				t.Errorf("%s: with b they are %q, want %q", tc.reason, got, tc.with)
			}
		})
	}
}

func TestNobodyIsApprovedAutomaticallyUnlessNamed(t *testing.T) {
	got := policy.DecideRequest(first(t), policy.ClusterFacts{Exists: true}, policy.AutoApproval{})
	if got.Verdict != policy.Leave {
		t.Errorf("got %s, want %s", got.Verdict, policy.Leave)
	}
}

// FuzzDecide checks that whatever is approved names one cluster everywhere.
func FuzzDecide(f *testing.F) {
	f.Add("east", "one", "system:masters", "east", clusterv1.AgentUser("east", "one"), clusterv1.AgentGroup("east"), "", uint8(7))
	f.Add("east", "one", "", "east", clusterv1.AgentUser("east", "one"), clusterv1.AgentGroup("east"), "", uint8(7))
	f.Add("west", "one", "", "east", clusterv1.AgentUser("east", "one"), clusterv1.AgentGroup("east"), "x.example.com", uint8(3))
	f.Add("east", "one", "", "east", bootstrapper, "system:authenticated", "", uint8(1))
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	expect.NoError(f, err)
	f.Fuzz(func(t *testing.T, cluster, agent, organization, label, user, group, dns string, bits uint8) {
		template := &x509.CertificateRequest{Subject: subjectOf(cluster, agent)}
		if organization != "" {
			template.Subject.Organization = append(template.Subject.Organization, organization)
		}
		if dns != "" {
			template.DNSNames = []string{dns}
		}
		der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
		if err != nil {
			t.Skipf("no such request can be made, so none can be forged: %v", err)
		}
		request := policy.SigningRequest{
			SignerName: certificatesv1.KubeAPIServerClientSignerName,
			Usages:     []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth},
			Username:   user, Groups: []string{group}, ClusterLabel: label,
			PEM: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}),
		}
		facts := policy.ClusterFacts{Exists: bits&1 != 0, Accepted: bits&2 != 0, Joined: bits&4 != 0, Denied: bits&8 != 0, Alive: bits&16 != 0}
		got := policy.DecideRequest(request, facts, policy.AutoApproval{Users: []string{bootstrapper}})
		if got.Verdict != policy.Approve {
			return
		}
		if label != cluster || organization != "" || dns != "" || !facts.Exists || got.Agent != agent {
			t.Errorf("approved %+v for %+v", request, facts)
		}
		if !mayBeApproved(got.Kind, request, facts, agent) {
			t.Errorf("approved %+v as %v for %+v", request, got.Kind, facts)
		}
	})
}

// mayBeApproved reports whether who made the request may have it approved for an
// agent, so far as its kind decides that.
func mayBeApproved(kind policy.CertificateKind, request policy.SigningRequest, facts policy.ClusterFacts, agent string) bool {
	switch kind {
	case policy.Renewal:
		return facts.Accepted && request.Username == clusterv1.AgentUser(request.ClusterLabel, agent) &&
			request.Groups[0] == clusterv1.AgentGroup(request.ClusterLabel)
	case policy.Bootstrap:
		return request.Username == bootstrapper && !facts.Denied && !facts.Joined && !facts.Alive
	default:
		return true
	}
}

// TestOneKeyIsOneAgent is about a named user, for whom the same key counts after the join as well.
func TestOneKeyIsOneAgent(t *testing.T) {
	request, automatic := first(t), policy.AutoApproval{Users: []string{bootstrapper}}
	for agents, want := range map[policy.AgentNames]policy.RequestVerdict{"": policy.Approve, "*": policy.Approve, "one": policy.Approve, "zero": policy.Refuse, "zero,*": policy.Refuse} {
		cluster := rejoining(func(c *policy.ClusterFacts) { c.Key, c.Agents = keyOf(t, request), agents })
		if got := policy.DecideRequest(request, cluster, automatic); got.Verdict != want {
			t.Errorf("where the agents %q are known, agent one gets %s (%s), want %s", agents, got.Verdict, got.Message, want)
		}
	}
}

// TestALiveAgentKeepsOthersOut asks again with the key that the hub remembers, as who
// could write the ManagedCluster could make it.
func TestALiveAgentKeepsOthersOut(t *testing.T) {
	request, automatic := first(t), policy.AutoApproval{Users: []string{bootstrapper}}
	key := policy.DecideRequest(request, policy.ClusterFacts{Exists: true}, automatic).Key
	for name, c := range map[string]struct {
		change func(*policy.ClusterFacts)
		want   policy.RequestVerdict
		reason string
	}{
		"it is about to join":     {func(c *policy.ClusterFacts) { c.Joined = false }, policy.Approve, policy.ReasonApproved},
		"the hub hears of no one": {func(*policy.ClusterFacts) {}, policy.Approve, policy.ReasonApproved},
		"an agent lives":          {func(c *policy.ClusterFacts) { c.Alive = true }, policy.Refuse, policy.ReasonClusterAlive},
	} {
		cluster := rejoining(c.change)
		cluster.Key = key
		if got := policy.DecideRequest(request, cluster, automatic); got.Verdict != c.want || got.Reason != c.reason {
			t.Errorf("%s: got %s (%s), want %s (%s)", name, got.Verdict, got.Reason, c.want, c.reason)
		}
	}
}
