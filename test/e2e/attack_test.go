// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/capstan-io/capstan/test/e2e/harness"
)

const victim = "victim"

// forgery is a certificate signing request that must not be approved.
type forgery struct {
	commonName    string
	organizations []string
	label         string
	usages        []string
	signer        string
	dnsNames      []string
	ips           []net.IP
	emails        []string
	uris          []*url.URL
}

// renewal is what the agent of a cluster may ask for. Forgeries differ from it.
func renewalOf(clusterName, agent string) forgery {
	return forgery{
		commonName: "system:open-cluster-management:" + clusterName + ":" + agent,
		organizations: []string{
			"system:open-cluster-management:" + clusterName, "system:open-cluster-management:managed-clusters",
		},
		label:  clusterName,
		usages: []string{"digital signature", "key encipherment", "client auth"},
		signer: "kubernetes.io/kube-apiserver-client",
	}
}

func (f forgery) yaml(t *testing.T, name string) string {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject:  pkix.Name{CommonName: f.commonName, Organization: f.organizations},
		DNSNames: f.dnsNames, IPAddresses: f.ips, EmailAddresses: f.emails, URIs: f.uris,
	}, key)
	if err != nil {
		t.Fatal(err)
	}
	request := base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
	return fmt.Sprintf(`
apiVersion: certificates.k8s.io/v1
kind: CertificateSigningRequest
metadata: {name: %s, labels: {%s: %q}}
spec: {signerName: %s, usages: ["%s"], request: %s}
`, name, clusterNameLabel, f.label, f.signer, strings.Join(f.usages, `","`), request)
}

// attackAsBootstrap tries what a leaked bootstrap kubeconfig could be used for.
func (s *story) attackAsBootstrap(t *testing.T) {
	s.hub.ApplyText(t, fmt.Sprintf("{apiVersion: cluster.open-cluster-management.io/v1, kind: ManagedCluster, metadata: {name: %s}, spec: {hubAcceptsClient: true}}", victim))
	s.hub.AwaitCondition(t, "HubAcceptedManagedCluster", "True HubClusterAdminAccepted", "managedcluster/"+victim)
	thief := s.hub.SeenBy(s.hubKubeconfig)

	thief.RunKubectl(t, "get", "managedcluster", s.clusterName) // what it may do works
	for what, args := range map[string][]string{
		"read secrets":                 {"get", "secrets", "-A"},
		"read ConfigMaps":              {"get", "configmaps", "-A"},
		"read works":                   {"get", "manifestworks", "-n", victim},
		"read namespaces":              {"get", "namespaces"},
		"delete a cluster":             {"delete", "managedcluster", victim},
		"change a cluster":             {"label", "managedcluster", victim, "a=b"},
		"read the lease of a cluster":  {"get", "leases", "-n", victim},
		"read pods":                    {"get", "pods", "-n", hubNamespace},
		"get a token of a component":   {"create", "token", "-n", hubNamespace, "registration-controller-sa"},
		"create an RBAC binding":       {"create", "clusterrolebinding", "thief", "--clusterrole=cluster-admin", "--user=thief"},
		"read the hub's configuration": {"get", "clustermanagers"},
	} {
		t.Run(what, func(t *testing.T) { thief.IsRefused(t, "", []string{"forbidden"}, args...) })
	}
	t.Run("join and accept itself", func(t *testing.T) {
		thief.IsRefused(t, "{apiVersion: cluster.open-cluster-management.io/v1, kind: ManagedCluster, metadata: {name: thief}, spec: {hubAcceptsClient: true}}",
			[]string{"accept"}, "create", "-f", "-")
	})
	t.Run("approve a request", func(t *testing.T) {
		thief.RunKubectlWithInput(t, renewalOf(victim, "thief").yaml(t, "bootstrap-for-victim"), "create", "-f", "-")
		thief.IsRefused(t, "", []string{"forbidden"}, "certificate", "approve", "bootstrap-for-victim")
		s.staysUnapproved(t, "bootstrap-for-victim")
	})
}

// attackAsAgent tries what the administrator of a member could do with the
// agent's certificate, above all what CVE-2026-4740 and CVE-2024-56513 were.
func (s *story) attackAsAgent(t *testing.T) {
	thief := s.thief(t)
	thief.RunKubectl(t, "get", "managedcluster", s.clusterName) // what it may do works

	for what, args := range map[string][]string{
		"read another cluster":              {"get", "managedcluster", victim},
		"list clusters":                     {"get", "managedclusters"},
		"read another cluster's works":      {"get", "manifestworks", "-n", victim},
		"read another cluster's secrets":    {"get", "secrets", "-n", victim},
		"read its own namespace's secrets":  {"get", "secrets", "-n", s.clusterName},
		"change another cluster's lease":    {"patch", "lease", "managed-cluster-lease", "-n", victim, "-p", "{}"},
		"change another cluster's status":   {"patch", "managedcluster", victim, "--subresource=status", "--type=merge", "-p", `{"status":{"version":{"kubernetes":"v0"}}}`},
		"create work in its own namespace":  {"create", "-n", s.clusterName, "-f", filepath.Join(theLab.Root, "hack/demo/work.yaml")},
		"delete work in its own namespace":  {"delete", "manifestwork", "hello", "-n", s.clusterName},
		"delete itself":                     {"delete", "managedcluster", s.clusterName},
		"approve a request":                 {"certificate", "approve", "bootstrap-for-victim"},
		"read namespaces":                   {"get", "namespaces"},
		"create a namespace":                {"create", "namespace", "thief"},
		"impersonate":                       {"get", "managedclusters", "--as=system:admin", "--as-group=system:masters"},
		"grant itself more":                 {"create", "clusterrolebinding", "thief", "--clusterrole=cluster-admin", "--user=thief"},
		"get a token of a hub component":    {"create", "token", "-n", hubNamespace, "registration-controller-sa"},
		"read the bootstrap ServiceAccount": {"get", "serviceaccount", "-n", operatorNamespace, "agent-registration-bootstrap"},
	} {
		t.Run(what, func(t *testing.T) { thief.IsRefused(t, "", []string{"forbidden"}, args...) })
	}
	t.Run("forged renewals", s.forgeRenewals)
	t.Run("a flood of requests", s.floodRequests)
}

// thief is somebody with the certificate that the agent has now: one that was
// stolen before may have expired, and then everything is refused.
func (s *story) thief(t *testing.T) harness.Cluster {
	t.Helper()
	return s.hub.SeenBy(s.agentKubeconfig(t))
}

func (s *story) forgeRenewals(t *testing.T) {
	agent := s.agentName(t)
	change := func(edit func(*forgery)) forgery {
		f := renewalOf(s.clusterName, agent)
		edit(&f)
		return f
	}
	own := renewalOf(s.clusterName, agent)
	for name, f := range map[string]forgery{
		"another-cluster":      renewalOf(victim, agent),
		"another-common-name":  change(func(f *forgery) { f.commonName = "system:open-cluster-management:" + victim + ":" + agent }),
		"another-agent":        change(func(f *forgery) { f.commonName = "system:open-cluster-management:" + s.clusterName + ":other" }),
		"another-organization": change(func(f *forgery) { f.organizations[0] = "system:open-cluster-management:" + victim }),
		"extra-organization":   change(func(f *forgery) { f.organizations = append(f.organizations, "fleet-admins") }),
		"extra-cluster":        change(func(f *forgery) { f.organizations = append(f.organizations, "system:open-cluster-management:"+victim) }),
		"missing-organization": change(func(f *forgery) { f.organizations = f.organizations[:1] }),
		"another-label":        change(func(f *forgery) { f.label = victim }),
		"dns-name":             change(func(f *forgery) { f.dnsNames = []string{"kubernetes.default.svc"} }),
		"ip-address":           change(func(f *forgery) { f.ips = []net.IP{net.IPv4(10, 0, 0, 1)} }),
		"email-address":        change(func(f *forgery) { f.emails = []string{"admin@example.org"} }),
		"uri":                  change(func(f *forgery) { f.uris = []*url.URL{{Scheme: "spiffe", Host: "example.org"}} }),
		"server-authentication": change(func(f *forgery) {
			f.usages = []string{"digital signature", "server auth"}
			f.signer = "example.org/serving"
		}),
	} {
		t.Run(name, func(t *testing.T) {
			csr := "forged-" + name
			if f.label != s.clusterName {
				s.thief(t).IsRefused(t, f.yaml(t, csr), []string{"its own cluster only"}, "create", "-f", "-")
				return
			}
			s.thief(t).RunKubectlWithInput(t, f.yaml(t, csr), "create", "-f", "-")
			s.staysUnapproved(t, csr)
		})
	}
	t.Run("the true renewal is approved", func(t *testing.T) {
		s.thief(t).RunKubectlWithInput(t, own.yaml(t, "true-renewal"), "create", "-f", "-")
		harness.Eventually(t, func() error {
			if approved := s.hub.ReadPath(t, `{.status.conditions[?(@.type=="Approved")].status}`, "csr/true-renewal"); approved != "True" {
				return fmt.Errorf("the renewal that differs in nothing is not approved: %q", approved)
			}
			return nil
		})
	})
	t.Run("refusals are told", func(t *testing.T) {
		harness.Eventually(t, func() error {
			events := s.hub.RunKubectl(t, "get", "events.events.k8s.io", "-A", "-o", "jsonpath={range .items[*]}{.regarding.name} {.reason} {.note}{'\\n'}{end}")
			// One event stands for all refusals of a kind within some minutes.
			for _, reason := range []string{"CertificateRequestMalformed", "CertificateRequestForOtherIdentity"} {
				if !strings.Contains(events, reason) {
					return fmt.Errorf("no event tells of a refusal with reason %s; events:\n%s", reason, events)
				}
			}
			return nil
		})
	})
	s.hub.RunKubectl(t, "delete", "csr", "-l", clusterNameLabel)
}

// floodRequests has the hub go on while a cluster files requests in the name of another.
func (s *story) floodRequests(t *testing.T) {
	thief := s.thief(t)
	const flood = 50
	var all strings.Builder
	for i := range flood {
		all.WriteString("---\n" + renewalOf(victim, "flood").yaml(t, fmt.Sprintf("flood-%d", i)))
	}
	thief.IsRefused(t, all.String(), []string{"its own cluster only"}, "create", "-f", "-")
	thief.RunKubectlWithInput(t, renewalOf(s.clusterName, s.agentName(t)).yaml(t, "after-the-flood"), "create", "-f", "-")
	harness.Eventually(t, func() error {
		if approved := s.hub.ReadPath(t, `{.status.conditions[?(@.type=="Approved")].status}`, "csr/after-the-flood"); approved != "True" {
			return fmt.Errorf("a true renewal behind %d forged ones is not approved", flood)
		}
		return nil
	})
	if approved := s.hub.ReadPath(t, `{.items[*].status.certificate}`, "csr", "-l", clusterNameLabel+"="+victim); approved != "" {
		t.Error("a request of the flood got a certificate")
	}
	s.hub.RunKubectl(t, "delete", "csr", "-l", clusterNameLabel)
	s.hub.RunKubectl(t, "delete", "managedcluster", victim, "--timeout", harness.Patience.String())
}

// deniedComesBack: the certificate of a denied cluster is of no use, and
// neither is a new join request.
func (s *story) deniedComesBack(t *testing.T) {
	kubeconfig := s.agentKubeconfig(t)
	s.accept(t, false)
	s.hub.AwaitCondition(t, "HubAcceptedManagedCluster", "False HubClusterAdminDenied", "managedcluster/"+s.clusterName)
	thief := s.hub.SeenBy(kubeconfig)
	harness.Eventually(t, func() error {
		if out, err := thief.TryKubectl(t.Context(), "", "get", "manifestworks", "-n", s.clusterName); err == nil {
			return fmt.Errorf("a denied cluster reads its works: %s", out)
		}
		return nil
	})
	thief.IsRefused(t, "", []string{"forbidden"}, "patch", "managedcluster", s.clusterName, "--type=merge", "-p", `{"spec":{"hubAcceptsClient":true}}`)
	thief.IsRefused(t, renewalOf(s.clusterName, s.agentName(t)).yaml(t, "denied-renewal"), []string{"forbidden"}, "create", "-f", "-")
	bootstrap := s.hub.SeenBy(s.hubKubeconfig)
	bootstrap.RunKubectlWithInput(t, renewalOf(s.clusterName, "again").yaml(t, "denied-bootstrap"), "create", "-f", "-")
	s.staysUnapproved(t, "denied-bootstrap")
	s.hub.RunKubectl(t, "delete", "csr", "denied-bootstrap")
	s.accept(t, true)
	s.isAvailable(t)
}

// staysUnapproved fails the test if the hub approves the request. It knows
// that the hub has looked at it by a true renewal that was filed later and is
// approved.
func (s *story) staysUnapproved(t *testing.T, csr string) {
	t.Helper()
	if s.hub.ReadPath(t, "{.spec.hubAcceptsClient}", "managedcluster/"+s.clusterName) == "true" {
		probe := "probe-" + csr
		s.hub.SeenBy(s.agentKubeconfig(t)).RunKubectlWithInput(t, renewalOf(s.clusterName, s.agentName(t)).yaml(t, probe), "create", "-f", "-")
		harness.Eventually(t, func() error {
			if s.hub.ReadPath(t, `{.status.conditions[?(@.type=="Approved")].status}`, "csr/"+probe) != "True" {
				return fmt.Errorf("the probe %s is not approved", probe)
			}
			return nil
		})
		s.hub.RunKubectl(t, "delete", "csr", probe)
	}
	if status := s.hub.ReadPath(t, `{.status.conditions[?(@.type=="Approved")].status}{.status.certificate}`, "csr/"+csr); status != "" {
		t.Errorf("the request %s was approved", csr)
	}
}

func (s *story) agentName(t *testing.T) string {
	t.Helper()
	return s.fromHubSecret(t, "agent-name")
}

func (s *story) fromHubSecret(t *testing.T, key string) string {
	t.Helper()
	return string(s.hubSecret(t, key)[key])
}

// hubSecret returns what the Secret of the agent has, which has to have the keys: all
// of one moment, since the agent renews its certificate meanwhile.
func (s *story) hubSecret(t *testing.T, keys ...string) map[string][]byte {
	t.Helper()
	var data map[string][]byte
	if err := json.Unmarshal([]byte(s.member.ReadPath(t, "{.data}", "-n", agentNamespace, "secret/hub-kubeconfig-secret")), &data); err != nil {
		t.Fatalf("reading hub-kubeconfig-secret: %v", err)
	}
	for _, key := range keys {
		if len(data[key]) == 0 {
			t.Fatalf("hub-kubeconfig-secret has no key %s", key)
		}
	}
	return data
}

// agentKubeconfig writes the agent's own kubeconfig, as the administrator of
// the member can, and returns its path.
func (s *story) agentKubeconfig(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	keys := []string{"kubeconfig", "tls.crt", "tls.key"}
	data := s.hubSecret(t, keys...)
	for _, key := range keys {
		if err := os.WriteFile(filepath.Join(dir, key), data[key], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return filepath.Join(dir, "kubeconfig")
}
