// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/server/certs"
	"github.com/capstan-io/capstan/internal/testing/dedicated"
	"github.com/capstan-io/capstan/internal/testing/env"
	"github.com/capstan-io/capstan/internal/testing/expect"
	"github.com/capstan-io/capstan/operators/controlplane/manifests"
)

const (
	etcdClients, etcdMembers, apiServerPort = 2379, 2380, fleetv1alpha1.ControlPlanePort
	frontProxy                              = "front-proxy-client"
)

// attacked is a dedicated hub that tests attack, with its administrator: from outside, from a pod of
// the host, and as an administrator of the hub who wants to get into the host.
type attacked struct {
	*dedicated.Processes
	admin client.Client
}

// attackedHubs is one hub for all attacks.
var attackedHubs = env.NewFixtures(servers, func(t testing.TB) attacked {
	p := dedicated.StartProcesses(t, etcdQuota)
	return attacked{Processes: p, admin: p.AdminClient()}
})

func attackedHub(t *testing.T) attacked {
	t.Helper()
	shared := attackedHubs.ShareFixture(t)
	mine := *shared.Processes
	mine.T = t
	return attacked{Processes: &mine, admin: shared.admin}
}

// TestNobodyButTheAPIServerStoresInEtcd connects to etcd with every certificate that the control plane has,
// as somebody does who got into a pod of the host.
func TestNobodyButTheAPIServerStoresInEtcd(t *testing.T) {
	p := attackedHub(t)
	for authority, leaves := range p.Plane.Authorities() {
		for _, leaf := range leaves {
			if leaf.User == "" {
				leaf.User = "somebody" // of servers only
			}
			pair := p.SignLeaf(authority, leaf)
			read := p.SendRequest(p.keys(pair, "/"))
			if stores := authority == manifests.EtcdAuthority; (read.Err == nil && read.Status == http.StatusOK) != stores {
				t.Errorf("with certificate %s etcd says %+v, want that it answers: %t", leaf.Secret, read, stores)
			}
			met := p.SendRequest(dedicated.Request{Port: etcdMembers, Path: "/version", With: pair})
			if member := leaf.User == "etcd-member"; (met.Err == nil) != member {
				t.Errorf("with certificate %s the members say %+v, want that they answer: %t", leaf.Secret, met, member)
			}
		}
	}
	if got := p.SendRequest(p.keys(nil, "/")); got.Err == nil {
		t.Errorf("without a certificate etcd says %+v", got)
	}
}

// keys asks etcd for the first key that begins so, and its value.
func (p attacked) keys(with *certs.CertificatePair, prefix string) dedicated.Request {
	end := prefix[:len(prefix)-1] + string(prefix[len(prefix)-1]+1)
	encode := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	return dedicated.Request{
		Port: etcdClients, With: with, Method: http.MethodPost, Path: "/v3/kv/range",
		Body: fmt.Sprintf(`{"key":%q,"range_end":%q,"limit":1}`, encode(prefix), encode(end)),
	}
}

func TestWhatEtcdStoresOfSecretsIsEncrypted(t *testing.T) {
	p := attackedHub(t)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "mine"}, StringData: map[string]string{"a": "b"}}
	expect.NoError(t, p.admin.Create(t.Context(), secret))
	pair := p.SignLeaf(manifests.EtcdAuthority, certs.Leaf{User: "kube-apiserver"})
	got := p.SendRequest(p.keys(pair, "/registry/secrets/default/mine"))
	_, value, _ := strings.Cut(got.Body, `"value":"`)
	value, _, _ = strings.Cut(value, `"`)
	stored, err := base64.StdEncoding.DecodeString(value)
	if err != nil || !strings.HasPrefix(string(stored), "k8s:enc:secretbox:") {
		t.Errorf("etcd has %q (%v), want that it is encrypted: %+v", stored, err, got)
	}
}

// TestHeadersOfAFrontProxyAreBelievedFromTheFrontProxyOnly asks the API server who one is that claims to be somebody else.
func TestHeadersOfAFrontProxyAreBelievedFromTheFrontProxyOnly(t *testing.T) {
	p := attackedHub(t)
	claim := map[string]string{"X-Remote-User": "capstan:admin", "X-Remote-Group": "system:masters"}
	for name, test := range map[string]struct {
		authority, user string
		want            int
		as              string
	}{
		"nobody":                         {"", "", http.StatusUnauthorized, ""},
		"a client":                       {manifests.ClientAuthority, "member", http.StatusCreated, "member"},
		"a client who is called like it": {manifests.ClientAuthority, frontProxy, http.StatusCreated, frontProxy},
		"another one of the authority":   {manifests.FrontProxyAuthority, "aggregated", http.StatusUnauthorized, ""},
		"a member of etcd":               {manifests.EtcdAuthority, frontProxy, http.StatusUnauthorized, ""},
		"the API server itself":          {manifests.ServingAuthority, frontProxy, http.StatusUnauthorized, ""},
		"the front proxy":                {manifests.FrontProxyAuthority, frontProxy, http.StatusCreated, "capstan:admin"},
	} {
		r := dedicated.Request{
			Port: apiServerPort, Method: http.MethodPost, Path: "/apis/authentication.k8s.io/v1/selfsubjectreviews", Header: claim,
			Body: `{"apiVersion":"authentication.k8s.io/v1","kind":"SelfSubjectReview"}`,
		}
		if test.authority != "" {
			r.With = p.SignLeaf(test.authority, certs.Leaf{User: test.user})
		}
		got := p.SendRequest(r)
		if got.Status != test.want || !strings.Contains(got.Body, fmt.Sprintf(`"username":%q`, test.as)) && test.as != "" {
			t.Errorf("%s: got %+v, want %d and user %q", name, got, test.want, test.as)
		}
	}
}

func TestWithoutACredentialThereIsHealthAndClusterInfo(t *testing.T) {
	p := attackedHub(t)
	for path, want := range map[string]int{
		"/livez": http.StatusOK, "/readyz": http.StatusOK,
		dedicated.ClusterInfo:                       http.StatusOK,
		"/api/v1/namespaces/kube-public/configmaps": http.StatusUnauthorized,
		"/version":                          http.StatusUnauthorized,
		"/metrics":                          http.StatusUnauthorized,
		"/openapi/v3":                       http.StatusUnauthorized,
		"/.well-known/openid-configuration": http.StatusUnauthorized,
	} {
		if got := p.SendRequest(dedicated.Request{Port: apiServerPort, Path: path}); got.Status != want {
			t.Errorf("%s: got %+v, want %d", path, got, want)
		}
	}
}

// TestTheAPIServerProxiesToNoAddressOfItsOwnHost lets an administrator name the addresses of the API server's pod,
// and of the metadata of a cloud, wherever the API server would connect to them.
func TestTheAPIServerProxiesToNoAddressOfItsOwnHost(t *testing.T) {
	p := attackedHub(t)
	with := p.SignLeaf(manifests.ClientAuthority, p.AdminLeaf())
	for n, address := range []string{"127.0.0.1", "169.254.169.254", "localhost", "::1"} {
		kind := corev1.NodeInternalIP
		if _, err := netip.ParseAddr(address); err != nil {
			kind = corev1.NodeHostName
		}
		node := p.node(t, fmt.Sprintf("node-%d", n), kind, address, int32(p.Ports[apiServerPort]))
		for _, path := range []string{"/api/v1/nodes/" + node + "/proxy/", fmt.Sprintf("/api/v1/nodes/https:%s:%d/proxy/", node, p.Ports[apiServerPort])} {
			got := p.SendRequest(dedicated.Request{Port: apiServerPort, With: with, Path: path})
			if got.Status < http.StatusBadRequest || !strings.Contains(got.Body, "not allowed") {
				t.Errorf("%s at %s: got %+v, want that the address is not allowed", path, address, got)
			}
		}
		if kind == corev1.NodeHostName {
			continue
		}
		endpoints := &corev1.Endpoints{ //nolint:staticcheck // the API server still proxies to them
			ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: node},
			Subsets: []corev1.EndpointSubset{{ //nolint:staticcheck // as above
				Addresses: []corev1.EndpointAddress{{IP: address}}, Ports: []corev1.EndpointPort{{Port: 80}},
			}},
		}
		if err := p.admin.Create(t.Context(), endpoints); err == nil {
			t.Errorf("the API server takes Endpoints at %s", address)
		}
	}
}

// node makes a node with an address, where its kubelet listens on the port.
func (p attacked) node(t *testing.T, name string, kind corev1.NodeAddressType, address string, port int32) string {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	expect.NoError(t, p.admin.Create(t.Context(), node))
	node.Status.Addresses = []corev1.NodeAddress{{Type: kind, Address: address}}
	node.Status.DaemonEndpoints.KubeletEndpoint.Port = port
	expect.NoError(t, p.admin.Status().Update(t.Context(), node))
	return name
}

// TestTheAPIServerGivesNoCredentialAway lets an administrator make the API server connect to a server
// of the administrator's, by a Node and by a webhook, and looks at what it sends:
// nothing that the host or etcd would take for a credential.
func TestTheAPIServerGivesNoCredentialAway(t *testing.T) {
	p := attackedHub(t)
	seen := make(chan *http.Request, 10)
	// It has to be an address of this machine that the API server proxies to.
	addresses, err := net.InterfaceAddrs()
	expect.NoError(t, err)
	found := slices.IndexFunc(addresses, func(a net.Addr) bool {
		network, ok := a.(*net.IPNet)
		return ok && network.IP.To4() != nil && network.IP.IsGlobalUnicast()
	})
	if found < 0 {
		t.Fatalf("this machine has no address but loopback ones, to which the API server does not proxy: %v", addresses)
	}
	address := addresses[found].(*net.IPNet).IP.String() //nolint:forcetypeassert // as above
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", net.JoinHostPort(address, "0"))
	expect.NoError(t, err)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen <- r
		w.WriteHeader(http.StatusTeapot)
	}))
	_ = server.Listener.Close()
	server.Listener = listener
	server.TLS = p.ServerConfig(address)
	server.StartTLS()
	defer server.Close()
	port := listener.Addr().(*net.TCPAddr).Port //nolint:forcetypeassert // of TCP

	token := map[string]string{"Authorization": "Bearer of-somebody"}
	p.node(t, "mine", corev1.NodeInternalIP, address, int32(port))
	p.SendRequest(dedicated.Request{
		Port: apiServerPort, With: p.SignLeaf(manifests.ClientAuthority, p.AdminLeaf()), Path: fmt.Sprintf("/api/v1/nodes/https:mine:%d/proxy/pods", port), Header: token,
	})
	p.bare(t, "a Node", seen)

	hook := &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "mine"}, Webhooks: []admissionv1.ValidatingWebhook{{
		Name: "mine.example.com", SideEffects: ptr.To(admissionv1.SideEffectClassNone), AdmissionReviewVersions: []string{"v1"},
		ClientConfig: admissionv1.WebhookClientConfig{
			URL: ptr.To(fmt.Sprintf("https://%s/admit", listener.Addr())), CABundle: p.Authorities[manifests.ServingAuthority].CertPEM,
		},
		Rules: []admissionv1.RuleWithOperations{{
			Operations: []admissionv1.OperationType{admissionv1.Create},
			Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
		}},
	}}}
	expect.NoError(t, p.admin.Create(t.Context(), hook))
	expect.EventuallyWithin(t, 2*time.Minute, "the API server knows of the webhook", func() error {
		if p.admin.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, GenerateName: "any-"}}) == nil {
			return errors.New("it was done")
		}
		return nil
	})
	p.bare(t, "a webhook", seen)
}

// bare looks at the next request that came.
func (p attacked) bare(t *testing.T, by string, seen <-chan *http.Request) {
	t.Helper()
	select {
	case r := <-seen:
		if len(r.TLS.PeerCertificates) > 0 {
			t.Errorf("by %s the API server shows the certificate of %s", by, r.TLS.PeerCertificates[0].Subject)
		}
		for header := range r.Header {
			if header == "Authorization" || strings.HasPrefix(header, "X-Remote-") {
				t.Errorf("by %s the API server sends header %s: %v", by, header, r.Header[header])
			}
		}
	case <-time.After(hubTimeout):
		t.Errorf("by %s the API server did not connect, so nothing is shown", by)
	}
}
