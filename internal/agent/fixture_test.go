// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/testr"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	aboutv1alpha1 "github.com/capstan-io/capstan/apis/about/v1alpha1"
	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1alpha1 "github.com/capstan-io/capstan/apis/cluster/v1alpha1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/config"
	"github.com/capstan-io/capstan/internal/agent"
	"github.com/capstan-io/capstan/internal/agent/join"
	"github.com/capstan-io/capstan/internal/kube/conditions"
	"github.com/capstan-io/capstan/internal/testing/env"
)

// patience is how long a test waits for something before it fails.
const patience = time.Minute

// hub is an API server that is hub and member in one, without any controller:
// the test does what administrators, the signer and the hub's controllers do.
type hub struct {
	t      *testing.T
	client client.WithWatch // of an administrator
	config *rest.Config
	server *envtest.Environment
	ca     *x509.Certificate
	caKey  *ecdsa.PrivateKey
	users  *sync.Mutex // of the server's CA, which counts its certificates without a lock
}

// home is the namespace and the permissions of one agent.
type home struct {
	namespace string
	config    *rest.Config
}

func newHub(t *testing.T) *hub {
	t.Helper()
	server, cfg := servers.Start(t, func(e *envtest.Environment) {
		e.CRDDirectoryPaths = []string{"../../config/crd"}
	})
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, clusterv1.AddToScheme, clusterv1alpha1.AddToScheme, aboutv1alpha1.AddToScheme, workv1.AddToScheme,
		fleetv1alpha1.AddToScheme, apiextensionsv1.AddToScheme,
	} {
		must(t, add(scheme))
	}
	admin, err := client.NewWithWatch(cfg, client.Options{Scheme: scheme})
	must(t, err)
	h := &hub{t: t, client: admin, config: cfg, server: server, users: &sync.Mutex{}}
	h.makeSigner()
	must(t, h.client.Create(t.Context(), bootstrapRole("bootstrap", "create", "get", "list", "watch")))
	must(t, h.client.Create(t.Context(), bootstrapRole("bootstrap-strict", "create", "get")))
	return h
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// makeSigner makes a CA and lets the API server trust it for clients.
func (h *hub) makeSigner() {
	h.t.Helper()
	var err error
	h.caKey, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(h.t, err)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "signer of the test"},
		NotBefore: time.Now().Add(-48 * time.Hour), NotAfter: time.Now().Add(48 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, h.caKey.Public(), h.caKey)
	must(h.t, err)
	h.ca, err = x509.ParseCertificate(der)
	must(h.t, err)
	file := filepath.Join(h.server.ControlPlane.APIServer.CertDir, "client-cert-auth-ca.crt")
	known, err := os.ReadFile(file)
	must(h.t, err)
	must(h.t, os.WriteFile(file, append(known, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})...), 0o600))
	// A credential of the new CA works once the API server has read the file.
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(h.t, err)
	certPEM := h.issue(pkix.Name{CommonName: "nobody"}, key.Public(), -time.Hour, time.Hour)
	keyDER, err := x509.MarshalECPrivateKey(key)
	must(h.t, err)
	cfg := rest.AnonymousClientConfig(h.config)
	cfg.CertData, cfg.KeyData = certPEM, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER})
	c, err := client.New(cfg, client.Options{Scheme: h.client.Scheme(), Mapper: h.client.RESTMapper()})
	must(h.t, err)
	h.await("the API server to trust the signer", func() (string, bool) {
		err := c.Get(h.t.Context(), client.ObjectKey{Name: "x"}, &clusterv1.ManagedCluster{})
		return fmt.Sprint(err), apierrors.IsForbidden(err)
	})
}

// issue signs a certificate that is valid from and until these times from now.
func (h *hub) issue(subject pkix.Name, public any, from, until time.Duration) []byte {
	h.t.Helper()
	serial, err := rand.Int(rand.Reader, big.NewInt(1<<62))
	must(h.t, err)
	template := &x509.Certificate{
		SerialNumber: serial, Subject: subject, NotBefore: time.Now().Add(from), NotAfter: time.Now().Add(until),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, h.ca, public, h.caKey)
	must(h.t, err)
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
}

func bootstrapRole(name string, verbs ...string) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{certificatesv1.GroupName}, Resources: []string{"certificatesigningrequests"}, Verbs: verbs},
			{APIGroups: []string{clusterv1.GroupName}, Resources: []string{"managedclusters"}, Verbs: verbs},
		},
	}
}

// addUser returns a user of the hub with a certificate. Parallel tests may call it.
func (h *hub) addUser(name string) *envtest.AuthenticatedUser {
	h.t.Helper()
	h.users.Lock()
	defer h.users.Unlock()
	who, err := h.server.AddUser(envtest.User{Name: name}, rest.AnonymousClientConfig(h.config))
	must(h.t, err)
	return who
}

// bootstrap returns the kubeconfig of an identity with a role.
func (h *hub) bootstrap(user, role string) clientcmdapi.Config {
	h.t.Helper()
	who := h.addUser(user)
	if role != "" {
		must(h.t, client.IgnoreAlreadyExists(h.client.Create(h.t.Context(), &rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: user},
			Subjects:   []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: user}},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		})))
		granted := &rbacv1.ClusterRole{}
		must(h.t, h.client.Get(h.t.Context(), client.ObjectKey{Name: role}, granted))
		env.WaitAllowed(h.t.Context(), h.t, h.config, authorizationv1.SubjectAccessReviewSpec{User: user}, "", granted.Rules[0], true)
	}
	cfg := who.Config()
	return clientcmdapi.Config{
		Clusters: map[string]*clientcmdapi.Cluster{"hub": {
			Server: cfg.Host, CertificateAuthorityData: cfg.CAData,
		}},
		AuthInfos:      map[string]*clientcmdapi.AuthInfo{"u": {ClientCertificateData: cfg.CertData, ClientKeyData: cfg.KeyData}},
		Contexts:       map[string]*clientcmdapi.Context{"c": {Cluster: "hub", AuthInfo: "u"}},
		CurrentContext: "c",
	}
}

// home makes what the Klusterlet operator does for the registration agent: a
// namespace with the secrets that it may write but not create, and an identity
// with exactly its permissions.
func (h *hub) home(namespace string) home {
	h.t.Helper()
	ctx := h.t.Context()
	must(h.t, h.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}))
	for _, name := range []string{join.HubSecret, join.PendingSecret} {
		must(h.t, h.client.Create(ctx, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}))
	}
	cluster, namespaced, err := config.Rules(config.RegistrationAgent)
	must(h.t, err)
	cluster = append(cluster, rbacv1.PolicyRule{ // as with feature gate ClusterProperty
		APIGroups: []string{aboutv1alpha1.GroupName}, Resources: []string{"clusterproperties"}, Verbs: []string{"get", "list", "watch"},
	})
	user := "home-" + namespace
	subjects := []rbacv1.Subject{{Kind: "User", APIGroup: rbacv1.GroupName, Name: user}}
	meta := metav1.ObjectMeta{Name: user, Namespace: namespace}
	must(h.t, h.client.Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: user}, Rules: cluster}))
	must(h.t, h.client.Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: namespaced}))
	must(h.t, h.client.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: user}, Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: user},
	}))
	must(h.t, h.client.Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: meta, Subjects: subjects, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: user},
	}))
	review := authorizationv1.SubjectAccessReviewSpec{User: user}
	env.WaitAllowed(ctx, h.t, h.config, review, "", cluster[0], true)
	env.WaitAllowed(ctx, h.t, h.config, review, namespace, namespaced[0], true)
	cfg := h.addUser(user).Config()
	cfg.QPS, cfg.Burst = -1, 0
	return home{namespace: namespace, config: cfg}
}

// setBootstrap writes the secret with the bootstrap kubeconfig.
func (h *hub) setBootstrap(namespace string, kubeconfig clientcmdapi.Config) {
	h.t.Helper()
	data, err := clientcmd.Write(kubeconfig)
	must(h.t, err)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: join.BootstrapSecret},
		Data:       map[string][]byte{"kubeconfig": data},
	}
	err = h.client.Create(h.t.Context(), secret)
	if apierrors.IsAlreadyExists(err) {
		err = h.client.Update(h.t.Context(), secret)
	}
	must(h.t, err)
}

// running is an agent that runs.
type running struct {
	agent *agent.PullAgent
	stop  func()
}

// run starts an agent; it ends with the test or with stop.
func (h *hub) run(at home, change func(*agent.PullAgentOptions)) *running {
	h.t.Helper()
	options := agent.PullAgentOptions{
		Home: at.config, Member: at.config, Namespace: at.namespace, ClusterName: at.namespace,
		Claims: true, Log: quiet(h.t),
	}
	options.ClaimRules.CustomMax = 20
	if change != nil {
		change(&options)
	}
	a, err := agent.NewPullAgent(options)
	must(h.t, err)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = a.RunAgent(ctx) }()
	stop := sync.OnceFunc(func() {
		cancel()
		select {
		case <-ended:
		case <-time.After(patience):
			h.t.Errorf("the agent did not end within %s", patience)
		}
	})
	h.t.Cleanup(stop)
	return &running{agent: a, stop: stop}
}

// quiet logs to the test as long as it runs.
func quiet(t *testing.T) logr.Logger {
	if os.Getenv("AGENT_TEST_LOG") == "" {
		return logr.Discard()
	}
	return testr.New(t)
}

// await waits for a condition and tells at a timeout what it last said.
func (h *hub) await(what string, condition func() (state string, ok bool)) {
	h.t.Helper()
	var state string
	for end := time.Now().Add(patience); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		var ok bool
		if state, ok = condition(); ok {
			return
		}
	}
	h.t.Fatalf("waited %s for %s; at last: %s", patience, what, state)
}

// csrs returns the certificate signing requests of a cluster.
func (h *hub) csrs(cluster string) []certificatesv1.CertificateSigningRequest {
	h.t.Helper()
	list := &certificatesv1.CertificateSigningRequestList{}
	must(h.t, h.client.List(h.t.Context(), list, client.MatchingLabels{clusterv1.LabelClusterName: cluster}))
	return list.Items
}

// awaitCSR waits for a request that waits for approval.
func (h *hub) awaitCSR(cluster string) *certificatesv1.CertificateSigningRequest {
	h.t.Helper()
	var found *certificatesv1.CertificateSigningRequest
	h.await("a certificate signing request of "+cluster, func() (string, bool) {
		list := h.csrs(cluster)
		for i := range list {
			if len(list[i].Status.Conditions) == 0 {
				found = &list[i]
			}
		}
		return fmt.Sprintf("%d requests", len(list)), found != nil
	})
	return found
}

// sign approves a request and signs it.
func (h *hub) sign(csr *certificatesv1.CertificateSigningRequest, from, until time.Duration) {
	h.t.Helper()
	h.answer(csr, certificatesv1.CertificateApproved)
	block, _ := pem.Decode(csr.Spec.Request)
	request, err := x509.ParseCertificateRequest(block.Bytes)
	must(h.t, err)
	csr.Status.Certificate = h.issue(request.Subject, request.PublicKey, from, until)
	must(h.t, h.client.Status().Update(h.t.Context(), csr))
}

// answer approves or denies a request.
func (h *hub) answer(csr *certificatesv1.CertificateSigningRequest, with certificatesv1.RequestConditionType) {
	h.t.Helper()
	csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{
		Type: with, Status: corev1.ConditionTrue, Reason: "Test", Message: "as the test wants it",
	})
	must(h.t, h.client.SubResource("approval").Update(h.t.Context(), csr))
}

// accept does what an administrator and the hub's controllers do.
func (h *hub) accept(cluster string) {
	h.t.Helper()
	ctx := h.t.Context()
	ignore := func(err error) { h.t.Helper(); must(h.t, client.IgnoreAlreadyExists(err)) }
	ignore(h.client.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: cluster}}))
	ignore(h.client.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: clusterv1.LeaseName}}))
	h.setAccepts(cluster, true)
	subjects := []rbacv1.Subject{{Kind: "Group", APIGroup: rbacv1.GroupName, Name: clusterv1.AgentGroup(cluster)}}
	h.put(clusterRole(cluster, true))
	ignore(h.client.Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "managedcluster:" + cluster}, Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "managedcluster:" + cluster},
	}))
	ignore(h.client.Create(ctx, &rbacv1.Role{
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: "registration"},
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{"coordination.k8s.io"}, Resources: []string{"leases"}, ResourceNames: []string{clusterv1.LeaseName},
			Verbs: []string{"get", "list", "watch", "update"},
		}},
	}))
	ignore(h.client.Create(ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: "registration"}, Subjects: subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "registration"},
	}))
	h.setAccepted(cluster, metav1.ConditionTrue, clusterv1.ManagedClusterReasonHubClusterAdminAccepted)
}

// deny takes the acceptance back.
func (h *hub) deny(cluster string) {
	h.t.Helper()
	h.setAccepts(cluster, false)
	h.put(clusterRole(cluster, false))
	must(h.t, h.client.Delete(h.t.Context(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: "registration"}}))
	h.setAccepted(cluster, metav1.ConditionFalse, clusterv1.ManagedClusterReasonHubClusterAdminDenied)
}

// clusterRole is what an agent may do in the whole hub.
func clusterRole(cluster string, accepted bool) *rbacv1.ClusterRole {
	role := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "managedcluster:" + cluster}}
	verbs := []string{"get", "list", "watch"}
	if accepted {
		verbs = append(verbs, "update")
		role.Rules = append(role.Rules,
			rbacv1.PolicyRule{
				APIGroups: []string{certificatesv1.GroupName}, Resources: []string{"certificatesigningrequests"},
				Verbs: []string{"create", "get", "list", "watch"},
			},
			rbacv1.PolicyRule{
				APIGroups: []string{clusterv1.GroupName}, Resources: []string{"managedclusters/status"},
				ResourceNames: []string{cluster}, Verbs: []string{"patch", "update"},
			},
			rbacv1.PolicyRule{
				APIGroups: []string{fleetv1alpha1.GroupName}, Resources: []string{"clusterconnections"},
				ResourceNames: []string{cluster}, Verbs: []string{"get", "list", "watch"},
			},
			rbacv1.PolicyRule{
				APIGroups: []string{fleetv1alpha1.GroupName}, Resources: []string{"clusterconnections/status"},
				ResourceNames: []string{cluster}, Verbs: []string{"patch"},
			})
	}
	role.Rules = append(role.Rules, rbacv1.PolicyRule{
		APIGroups: []string{clusterv1.GroupName}, Resources: []string{"managedclusters"}, ResourceNames: []string{cluster}, Verbs: verbs,
	})
	return role
}

func (h *hub) put(role *rbacv1.ClusterRole) {
	h.t.Helper()
	err := h.client.Create(h.t.Context(), role.DeepCopy())
	if apierrors.IsAlreadyExists(err) {
		err = h.client.Update(h.t.Context(), role)
	}
	must(h.t, err)
}

func (h *hub) setAccepts(cluster string, accepts bool) {
	h.t.Helper()
	mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: cluster}}
	patch := fmt.Sprintf(`{"spec":{"hubAcceptsClient":%t}}`, accepts)
	must(h.t, h.client.Patch(h.t.Context(), mc, client.RawPatch("application/merge-patch+json", []byte(patch))))
}

func (h *hub) setAccepted(cluster string, status metav1.ConditionStatus, reason string) {
	h.t.Helper()
	mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: cluster}}
	conditions.SetCondition(&mc.Status.Conditions, 0, metav1.Condition{
		Type: clusterv1.ManagedClusterConditionHubAccepted, Status: status, Reason: reason, Message: "-",
	})
	must(h.t, conditions.ApplyStatus(h.t.Context(), h.client, mc, "hub", mc.Status.Conditions, nil))
}

// cluster returns the ManagedCluster, or nil.
func (h *hub) cluster(name string) *clusterv1.ManagedCluster {
	h.t.Helper()
	mc := &clusterv1.ManagedCluster{}
	err := h.client.Get(h.t.Context(), client.ObjectKey{Name: name}, mc)
	if apierrors.IsNotFound(err) {
		return nil
	}
	must(h.t, err)
	return mc
}

func (h *hub) awaitCluster(name string) {
	h.t.Helper()
	h.await("ManagedCluster "+name, func() (string, bool) { return "absent", h.cluster(name) != nil })
}

// awaitAvailable waits until the agent says that the cluster is well.
func (h *hub) awaitAvailable(name string) {
	h.t.Helper()
	h.await("cluster "+name+" to be available", func() (string, bool) {
		mc := h.cluster(name)
		if mc == nil {
			return "absent", false
		}
		return fmt.Sprint(mc.Status.Conditions),
			meta.IsStatusConditionTrue(mc.Status.Conditions, clusterv1.ManagedClusterConditionAvailable) &&
				meta.IsStatusConditionTrue(mc.Status.Conditions, clusterv1.ManagedClusterConditionJoined)
	})
}

// awaitReason waits for the ConfigMap to tell the reason, and returns its message.
func (h *hub) awaitReason(namespace, reason string) string {
	h.t.Helper()
	var message string
	h.await("the reason "+reason, func() (string, bool) {
		cm := &corev1.ConfigMap{}
		err := h.client.Get(h.t.Context(), client.ObjectKey{Namespace: namespace, Name: operatorv1.JoinStatusConfigMap}, cm)
		message = cm.Data["message"]
		return fmt.Sprint(cm.Data, err), cm.Data["reason"] == reason
	})
	return message
}

// secret returns a secret of an agent, or nil.
func (h *hub) secret(namespace, name string) *corev1.Secret {
	h.t.Helper()
	secret := &corev1.Secret{}
	err := h.client.Get(h.t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, secret)
	if apierrors.IsNotFound(err) {
		return nil
	}
	must(h.t, err)
	return secret
}

// joined brings an agent into the hub.
func (h *hub) joined(name string, change func(*agent.PullAgentOptions)) (home, *running) {
	h.t.Helper()
	at := h.home(name)
	h.setBootstrap(name, h.bootstrap("bootstrap-"+name, "bootstrap"))
	r := h.run(at, change)
	h.sign(h.awaitCSR(name), -time.Minute, time.Hour)
	h.accept(name)
	h.awaitAvailable(name)
	return at, r
}

func contains(t *testing.T, message string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(message, part) {
			t.Errorf("the message %q does not contain %q", message, part)
		}
	}
}
