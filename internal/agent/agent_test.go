// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aboutv1alpha1 "github.com/capstan-io/capstan/apis/about/v1alpha1"
	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1alpha1 "github.com/capstan-io/capstan/apis/cluster/v1alpha1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/agent"
	"github.com/capstan-io/capstan/internal/agent/clusterspec"
	"github.com/capstan-io/capstan/internal/agent/join"
	"github.com/capstan-io/capstan/internal/agent/managednamespace"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

func TestAgentJoinsAndReports(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	at := h.MakeHome("joins")
	expect.NoError(t, h.Client.Create(t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node"},
	}))
	expect.NoError(t, h.Client.Create(t.Context(), &clusterv1alpha1.ClusterClaim{
		ObjectMeta: metav1.ObjectMeta{Name: clusterv1alpha1.ClaimID}, Spec: clusterv1alpha1.ClusterClaimSpec{Value: "me"},
	}))
	expect.NoError(t, h.Client.Create(t.Context(), &aboutv1alpha1.ClusterProperty{
		ObjectMeta: metav1.ObjectMeta{Name: "region.example.com"}, Spec: aboutv1alpha1.ClusterPropertySpec{Value: "eu"},
	}))
	var mu sync.Mutex
	var trouble []string
	h.RunAgent(at, func(o *agent.PullAgentOptions) {
		o.Log = funcr.New(func(_, line string) {
			mu.Lock()
			defer mu.Unlock()
			if strings.Contains(line, "A part of the agent") {
				trouble = append(trouble, line)
			}
		}, funcr.Options{})
		o.ExpirationSeconds, o.Properties = 7200, true
		o.Annotations = map[string]string{"agent.open-cluster-management.io/x": "y"}
	})
	expect.TextHas(t, h.AwaitReason("joins", operatorv1.JoinReasonBootstrapSecretMissing), "secret joins/bootstrap-hub-kubeconfig does not exist")
	h.SetBootstrap("joins", h.BootstrapConfig("bootstrap-joins", "bootstrap"))
	csr := h.AwaitRequest("joins")
	checkRequest(t, csr, "joins")
	expect.TextHas(t, h.AwaitReason("joins", operatorv1.JoinReasonWaitingForCSRApproval), "kubectl certificate approve "+csr.Name)
	if mc := h.ReadCluster("joins"); mc.Spec.HubAcceptsClient || mc.Annotations["agent.open-cluster-management.io/x"] != "y" {
		t.Errorf("the agent created the ManagedCluster %v", mc)
	}
	h.SignRequest(csr, -time.Minute, time.Hour)
	expect.TextHas(t, h.AwaitReason("joins", operatorv1.JoinReasonWaitingForAcceptance),
		`kubectl patch managedcluster joins --type=merge -p '{"spec":{"hubAcceptsClient":true}}'`)
	start := time.Now()
	h.AcceptCluster("joins")
	h.AwaitAvailable("joins")
	t.Logf("available %s after the acceptance", time.Since(start))
	h.AwaitReason("joins", operatorv1.JoinReasonJoined)
	secret := h.ReadSecret("joins", join.HubSecret)
	for _, key := range []string{"kubeconfig", "tls.crt", "tls.key", "cluster-name", "agent-name"} {
		if len(secret.Data[key]) == 0 {
			t.Errorf("the secret %s has no key %s", join.HubSecret, key)
		}
	}
	h.AwaitState("the pending key to be removed", func() (string, bool) { return "there", len(h.ReadSecret("joins", join.PendingSecret).Data) == 0 })
	h.AwaitState("a heartbeat", func() (string, bool) {
		lease := &coordinationv1.Lease{}
		expect.NoError(t, h.Client.Get(t.Context(), client.ObjectKey{Namespace: "joins", Name: clusterv1.LeaseName}, lease))
		return "", lease.Spec.RenewTime != nil
	})
	mc := h.ReadCluster("joins")
	claims := []clusterv1.ManagedClusterClaim{{Name: clusterv1alpha1.ClaimID, Value: "me"}, {Name: "region.example.com", Value: "eu"}}
	if diff := cmp.Diff(claims, mc.Status.ClusterClaims); diff != "" {
		t.Errorf("claims (-want +got):\n%s", diff)
	}
	if mc.Status.Version.Kubernetes == "" {
		t.Error("the version is not reported")
	}
	if len(h.ListRequests("joins")) != 1 {
		t.Errorf("%d requests were made, want 1", len(h.ListRequests("joins")))
	}
	mu.Lock()
	defer mu.Unlock()
	if len(trouble) > 0 {
		t.Errorf("parts had trouble where there was none: %q", trouble)
	}
}

func checkRequest(t *testing.T, csr *certificatesv1.CertificateSigningRequest, cluster string) {
	t.Helper()
	block, _ := pem.Decode(csr.Spec.Request)
	request, err := x509.ParseCertificateRequest(block.Bytes)
	expect.NoError(t, err)
	if want := "system:open-cluster-management:" + cluster + ":"; len(request.Subject.CommonName) != len(want)+5 {
		t.Errorf("common name %q, want %sxxxxx", request.Subject.CommonName, want)
	}
	groups := []string{"system:open-cluster-management:" + cluster, "system:open-cluster-management:managed-clusters"}
	if diff := cmp.Diff(groups, request.Subject.Organization); diff != "" {
		t.Errorf("organizations (-want +got):\n%s", diff)
	}
	if csr.Spec.ExpirationSeconds == nil || *csr.Spec.ExpirationSeconds != 7200 {
		t.Errorf("expirationSeconds is not what was asked for")
	}
	if csr.Spec.SignerName != certificatesv1.KubeAPIServerClientSignerName || request.PublicKeyAlgorithm != x509.ECDSA {
		t.Errorf("signer %s, key %s", csr.Spec.SignerName, request.PublicKeyAlgorithm)
	}
}

func TestAgentWithoutANameMakesOneUp(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	at := h.MakeHome("nameless")
	h.SetBootstrap("nameless", h.BootstrapConfig("bootstrap-nameless", "bootstrap"))
	unnamed := func(o *agent.PullAgentOptions) { o.ClusterName = "" }
	r := h.RunAgent(at, unnamed)
	var pending *corev1.Secret
	h.AwaitState("the name", func() (string, bool) {
		pending = h.ReadSecret("nameless", join.PendingSecret)
		return "", pending != nil && len(pending.Data) > 0
	})
	name := string(pending.Data["cluster-name"])
	h.AwaitRequest(name)
	r.Stop()
	h.RunAgent(at, unnamed)
	h.SignRequest(h.AwaitRequest(name), -time.Minute, time.Hour)
	h.AcceptCluster(name)
	h.AwaitAvailable(name)
}

func TestAgentKilledInTheHandshakeGoesOnWhereItWas(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	at := h.MakeHome("killed")
	h.SetBootstrap("killed", h.BootstrapConfig("bootstrap-killed", "bootstrap"))
	r := h.RunAgent(at, nil)
	csr := h.AwaitRequest("killed")
	for range 3 {
		r.Stop()
		r = h.RunAgent(at, nil)
		h.AwaitReason("killed", operatorv1.JoinReasonWaitingForCSRApproval)
	}
	r.Stop()
	h.SignRequest(csr, -time.Minute, time.Hour)
	h.AcceptCluster("killed")
	r = h.RunAgent(at, nil)
	h.AwaitAvailable("killed")
	if n := len(h.ListRequests("killed")); n != 1 {
		t.Errorf("%d requests were made, want 1", n)
	}
	r.Stop()
	before := h.ReadSecret("killed", join.HubSecret)
	h.RunAgent(at, nil)
	h.AwaitReason("killed", operatorv1.JoinReasonJoined)
	if after := h.ReadSecret("killed", join.HubSecret); after.ResourceVersion != before.ResourceVersion {
		t.Error("an agent that has a credential wrote it again")
	}
}

func TestStrictBootstrapProfileIsEnough(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	at := h.MakeHome("strict")
	h.SetBootstrap("strict", h.BootstrapConfig("bootstrap-strict", "bootstrap-strict"))
	h.RunAgent(at, nil)
	h.SignRequest(h.AwaitRequest("strict"), -time.Minute, time.Hour)
	h.AcceptCluster("strict")
	h.AwaitAvailable("strict")
}

func TestCertificateIsRenewedInPlace(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	at := h.MakeHome("renews")
	h.SetBootstrap("renews", h.BootstrapConfig("bootstrap-renews", "bootstrap"))
	h.RunAgent(at, nil)
	first := h.AwaitRequest("renews")
	// Due for renewal after a second or so, valid for four.
	h.SignRequest(first, -12*time.Second, 4*time.Second)
	h.AcceptCluster("renews")
	h.AwaitAvailable("renews")
	old := h.ReadSecret("renews", join.HubSecret)
	second := h.AwaitRequest("renews")
	if user := second.Spec.Username; user[:len(user)-5] != "system:open-cluster-management:renews:" {
		t.Errorf("the renewal was asked for by %q, want the agent itself", user)
	}
	h.SignRequest(second, -time.Minute, time.Hour)
	h.AwaitState("the new certificate", func() (string, bool) {
		return "the old one", string(h.ReadSecret("renews", join.HubSecret).Data["tls.crt"]) != string(old.Data["tls.crt"])
	})
	h.AwaitState("the condition", func() (string, bool) {
		mc := h.ReadCluster("renews")
		return fmt.Sprint(mc.Status.Conditions), meta.IsStatusConditionTrue(mc.Status.Conditions, clusterv1.ManagedClusterConditionClusterCertificateRotated)
	})
	if again := h.ReadSecret("renews", join.HubSecret); string(again.Data["agent-name"]) != string(old.Data["agent-name"]) {
		t.Error("the renewal changed the name of the agent")
	}
	time.Sleep(4 * time.Second) // until the old certificate is no good
	patch := `{"spec":{"leaseDurationSeconds":61}}`
	before := renewTime(t, h, "renews")
	mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "renews"}}
	expect.NoError(t, h.Client.Patch(t.Context(), mc, client.RawPatch("application/merge-patch+json", []byte(patch))))
	h.AwaitState("a heartbeat with the new certificate", func() (string, bool) {
		return "", renewTime(t, h, "renews").After(before.Time)
	})
}

func renewTime(t *testing.T, h hub, cluster string) metav1.MicroTime {
	t.Helper()
	lease := &coordinationv1.Lease{}
	expect.NoError(t, h.Client.Get(t.Context(), client.ObjectKey{Namespace: cluster, Name: clusterv1.LeaseName}, lease))
	if lease.Spec.RenewTime == nil {
		return metav1.MicroTime{}
	}
	return *lease.Spec.RenewTime
}

func TestExpiredCertificateIsReplacedByBootstrapping(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	at, r := h.JoinCluster("expired", nil)
	r.Stop()
	csr := h.ListRequests("expired")[0]
	block, _ := pem.Decode(csr.Spec.Request)
	request, err := x509.ParseCertificateRequest(block.Bytes)
	expect.NoError(t, err)
	secret := h.ReadSecret("expired", join.HubSecret)
	secret.Data["tls.crt"] = h.IssueCertificate(request.Subject, request.PublicKey, -2*time.Hour, -time.Hour)
	expect.NoError(t, h.Client.Update(t.Context(), secret))
	agentName := string(secret.Data["agent-name"])
	h.RunAgent(at, nil)
	h.SignRequest(h.AwaitRequest("expired"), -time.Minute, time.Hour)
	h.AwaitReason("expired", operatorv1.JoinReasonJoined)
	h.AwaitState("the new certificate", func() (string, bool) {
		pair, err := tls.X509KeyPair(h.ReadSecret("expired", join.HubSecret).Data["tls.crt"], h.ReadSecret("expired", join.HubSecret).Data["tls.key"])
		return fmt.Sprint(err), err == nil && pair.Leaf.NotAfter.After(time.Now())
	})
	if got := string(h.ReadSecret("expired", join.HubSecret).Data["agent-name"]); got != agentName {
		t.Errorf("the agent's name is %q now, want %q", got, agentName)
	}
}

func TestAnotherBootstrapKubeconfigIsFollowed(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	_, _ = h.JoinCluster("follows", nil)
	other := h.BootstrapConfig("bootstrap-follows", "bootstrap")
	other.Clusters["hub-2"] = other.Clusters["hub"]
	other.Contexts["c"].Cluster = "hub-2"
	h.SetBootstrap("follows", other)
	h.SignRequest(h.AwaitRequest("follows"), -time.Minute, time.Hour)
	h.AwaitState("the new kubeconfig", func() (string, bool) {
		kubeconfig := string(h.ReadSecret("follows", join.HubSecret).Data["kubeconfig"])
		return kubeconfig, strings.Contains(kubeconfig, "hub-2")
	})
	h.AwaitReason("follows", operatorv1.JoinReasonJoined)
}

func TestDeniedClusterComesBackWhenItIsAccepted(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	h.JoinCluster("denied", nil)
	h.AwaitReason("denied", operatorv1.JoinReasonJoined)
	h.DenyCluster("denied")
	expect.TextHas(t, h.AwaitReason("denied", operatorv1.JoinReasonClusterDenied), "kubectl patch managedcluster denied")
	h.AcceptCluster("denied")
	h.AwaitReason("denied", operatorv1.JoinReasonJoined)
	if n := len(h.ListRequests("denied")); n != 1 {
		t.Errorf("%d requests were made, want 1", n)
	}
}

func TestDeletedClusterStaysAway(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	at, r := h.JoinCluster("deleted", nil)
	h.AwaitReason("deleted", operatorv1.JoinReasonJoined)
	expect.NoError(t, h.Client.Delete(t.Context(), h.ReadCluster("deleted")))
	h.AwaitReason("deleted", operatorv1.JoinReasonClusterDeleted)
	r.Stop()
	h.RunAgent(at, nil)
	time.Sleep(time.Second) // a wrong agent would have created it again by now
	if h.ReadCluster("deleted") != nil {
		t.Fatal("the agent created the ManagedCluster again")
	}
	h.SetBootstrap("deleted", h.BootstrapConfig("another-deleted", "bootstrap"))
	h.AwaitCluster("deleted")
	h.joinsAsAnother("deleted")
}

// TestAnotherClusterOfItsNameNeedsAnotherCertificate is about an agent whose ManagedCluster somebody
// deleted and created again, on a hub that does not let its certificate in.
func TestAnotherClusterOfItsNameNeedsAnotherCertificate(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	h.JoinCluster("recreated", nil)
	h.AwaitReason("recreated", operatorv1.JoinReasonJoined)
	expect.NoError(t, h.Client.Delete(t.Context(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "recreated", Name: "registration"}}))
	expect.NoError(t, h.Client.Delete(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "managedcluster:recreated"}}))
	expect.NoError(t, h.Client.Delete(t.Context(), h.ReadCluster("recreated")))
	expect.NoError(t, h.Client.Create(t.Context(), &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "recreated"}}))
	h.joinsAsAnother("recreated")
}

// joinsAsAnother waits for the request of an agent that has joined before, answers
// it, and checks that it is not for the agent that it was: others may have the
// certificate of that one.
func (h hub) joinsAsAnother(name string) {
	h.T.Helper()
	before := string(h.ReadSecret(name, join.HubSecret).Data[join.KeyAgentName])
	h.SignRequest(h.AwaitRequest(name), -time.Minute, time.Hour)
	h.AcceptCluster(name)
	h.AwaitAvailable(name)
	h.AwaitReason(name, operatorv1.JoinReasonJoined)
	if after := string(h.ReadSecret(name, join.HubSecret).Data[join.KeyAgentName]); after == before || after == "" {
		h.T.Errorf("the agent %q joins again as %q", before, after)
	}
}

func TestDeniedRequestWaitsForItsDeletion(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	at := h.MakeHome("refused")
	h.SetBootstrap("refused", h.BootstrapConfig("bootstrap-refused", "bootstrap"))
	h.RunAgent(at, nil)
	csr := h.AwaitRequest("refused")
	h.AnswerRequest(csr, certificatesv1.CertificateDenied)
	expect.TextHas(t, h.AwaitReason("refused", operatorv1.JoinReasonCSRDenied), "as the test wants it", "kubectl delete csr "+csr.Name)
	expect.NoError(t, h.Client.Delete(t.Context(), csr))
	h.SignRequest(h.AwaitRequest("refused"), -time.Minute, time.Hour)
	h.AcceptCluster("refused")
	h.AwaitAvailable("refused")
}

// TestFloodOfRequestsIsNotAddedTo has somebody who may ask to join make requests in the name of the cluster.
func TestFloodOfRequestsIsNotAddedTo(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	at := h.MakeHome("flood")
	h.SetBootstrap("flood", h.BootstrapConfig("bootstrap-flood", "bootstrap"))
	others := map[string]bool{}
	for i := range clusterv1.CSRsPerAgentMax {
		csr := someRequest(t, fmt.Sprintf("flood-%d", i), "flood")
		expect.NoError(t, h.Client.Create(t.Context(), csr))
		others[csr.Name] = true
	}
	h.RunAgent(at, nil)
	var own *certificatesv1.CertificateSigningRequest
	h.AwaitState("the request of the agent beside those of others", func() (string, bool) {
		list := h.ListRequests("flood")
		for i := range list {
			if !others[list[i].Name] {
				own = &list[i]
			}
		}
		return fmt.Sprintf("%d requests", len(list)), own != nil
	})
	h.SignRequest(own, -time.Minute, time.Hour)
}

func TestTakenNameIsLeftAlone(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	cases := map[string]*clusterv1.ManagedCluster{
		"taken-uid": {ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{clusterv1.AnnotationClusterUID: "of-another-cluster"}}},
		"taken-heard": {Status: clusterv1.ManagedClusterStatus{Conditions: []metav1.Condition{
			{
				Type: clusterv1.ManagedClusterConditionJoined, Status: metav1.ConditionTrue, Reason: "R",
				LastTransitionTime: metav1.Now(),
			},
			{
				Type: clusterv1.ManagedClusterConditionAvailable, Status: metav1.ConditionTrue, Reason: "R",
				LastTransitionTime: metav1.Now(),
			},
		}}},
	}
	for name, mc := range cases {
		status := mc.Status
		mc.Name = name
		expect.NoError(t, h.Client.Create(t.Context(), mc))
		mc.Status = status
		if len(status.Conditions) > 0 {
			expect.NoError(t, h.Client.Status().Update(t.Context(), mc))
		}
		at := h.MakeHome(name)
		h.SetBootstrap(name, h.BootstrapConfig("bootstrap-"+name, "bootstrap"))
		h.RunAgent(at, nil)
		h.AwaitReason(name, operatorv1.JoinReasonClusterNameTaken)
		if n := len(h.ListRequests(name)); n != 0 {
			t.Errorf("%s: the agent asked for a certificate", name)
		}
	}
	expect.NoError(t, h.Client.Delete(t.Context(), h.ReadCluster("taken-uid")))
	h.AwaitRequest("taken-uid")
}

func TestProblemsWithTheBootstrapKubeconfigAreTold(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	at := h.MakeHome("problems")
	h.RunAgent(at, nil)
	set := func(change func(user, server *string, ca *[]byte)) {
		kubeconfig := h.BootstrapConfig("bootstrap-problems", "bootstrap")
		user, server, ca := "", kubeconfig.Clusters["hub"].Server, kubeconfig.Clusters["hub"].CertificateAuthorityData
		change(&user, &server, &ca)
		kubeconfig.Clusters["hub"].Server, kubeconfig.Clusters["hub"].CertificateAuthorityData = server, ca
		switch user {
		case "":
		case "token":
			kubeconfig.AuthInfos["u"].ClientCertificateData, kubeconfig.AuthInfos["u"].ClientKeyData = nil, nil
			kubeconfig.AuthInfos["u"].Token = "expired"
		default:
			other := h.BootstrapConfig(user, "")
			kubeconfig.AuthInfos["u"] = other.AuthInfos["u"]
		}
		h.SetBootstrap("problems", kubeconfig)
	}
	stranger := httptest.NewTLSServer(nil)
	defer stranger.Close()
	strangerCA := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: stranger.Certificate().Raw})
	expect.NoError(t, h.Client.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "problems", Name: join.BootstrapSecret},
		Data:       map[string][]byte{"kubeconfig": []byte("clusters: [")},
	}))
	h.AwaitReason("problems", operatorv1.JoinReasonBootstrapSecretMalformed)
	set(func(user, _ *string, _ *[]byte) { *user = "token" })
	h.AwaitReason("problems", operatorv1.JoinReasonBootstrapUnauthorized)
	set(func(user, _ *string, _ *[]byte) { *user = "nobody-in-particular" })
	h.AwaitReason("problems", operatorv1.JoinReasonBootstrapForbidden)
	set(func(_, _ *string, ca *[]byte) { *ca = strangerCA })
	h.AwaitReason("problems", operatorv1.JoinReasonHubCertificateUntrusted)
	set(func(_, server *string, _ *[]byte) { *server = "https://127.0.0.1:1" })
	h.AwaitReason("problems", operatorv1.JoinReasonHubUnreachable)
	set(func(_, _ *string, _ *[]byte) {})
	h.SignRequest(h.AwaitRequest("problems"), -time.Minute, time.Hour)
	h.AcceptCluster("problems")
	h.AwaitAvailable("problems")
}

func TestLabelsAndClientConfigsAreKept(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	with := func(labels map[string]string) func(*agent.PullAgentOptions) {
		return func(o *agent.PullAgentOptions) {
			o.Labels = labels
			o.ClientConfigs = []clusterv1.ClientConfig{{URL: "https://member:6443", CABundle: []byte("ca")}}
		}
	}
	at, r := h.JoinCluster("spec", with(map[string]string{"a": "1", "b": "2", clusterv1.LabelClusterSet: "s"}))
	mc := h.ReadCluster("spec")
	if diff := cmp.Diff(map[string]string{"a": "1", "b": "2", clusterv1.LabelClusterSet: "s"}, mc.Labels); diff != "" {
		t.Errorf("labels after joining (-want +got):\n%s", diff)
	}
	r.Stop()
	mc = h.ReadCluster("spec")
	mc.Labels["a"], mc.Labels["theirs"] = "changed", "kept"
	mc.Spec.ManagedClusterClientConfigs = nil
	expect.NoError(t, h.Client.Update(t.Context(), mc))
	h.RunAgent(at, with(map[string]string{"a": "1", "c": "3"}))
	want := map[string]string{"a": "1", "c": "3", "theirs": "kept", clusterv1.LabelClusterSet: "s"}
	h.AwaitState("the labels and the address", func() (string, bool) {
		mc := h.ReadCluster("spec")
		return fmt.Sprint(mc.Labels, mc.Spec), cmp.Equal(want, mc.Labels) && len(mc.Spec.ManagedClusterClientConfigs) == 1 &&
			mc.Annotations[clusterspec.AnnotationLabels] == "a,c"
	})
}

// TestLabelsThatTheHubWithholdsAreLeftAndTold has a hub that lets its agents change one label, and then another.
func TestLabelsThatTheHubWithholdsAreLeftAndTold(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	with := func(labels map[string]string) func(*agent.PullAgentOptions) {
		return func(o *agent.PullAgentOptions) {
			o.Labels = labels
			o.ClientConfigs = []clusterv1.ClientConfig{{URL: "https://member:6443"}}
		}
	}
	allow := func(keys string) {
		patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, fleetv1alpha1.AnnotationAgentLabels, keys)
		expect.NoError(t, h.Client.Patch(t.Context(), h.ReadCluster("withheld"), client.RawPatch("application/merge-patch+json", []byte(patch))))
	}
	sees := func(what string, labels map[string]string, keys string, status metav1.ConditionStatus, message string) {
		h.AwaitState(what, func() (string, bool) {
			mc := h.ReadCluster("withheld")
			withheld := meta.FindStatusCondition(mc.Status.Conditions, clusterv1.ManagedClusterConditionLabelsWithheld)
			return fmt.Sprint(mc.Labels, mc.Annotations, withheld), cmp.Equal(labels, mc.Labels) && mc.Annotations[clusterspec.AnnotationLabels] == keys &&
				withheld != nil && withheld.Status == status && strings.Contains(withheld.Message, message) && len(mc.Spec.ManagedClusterClientConfigs) == 1
		})
	}
	at, r := h.JoinCluster("withheld", with(map[string]string{"env": "staging", "gone": "soon", "team": "shop"}))
	r.Stop()
	allow("team")
	h.RunAgent(at, with(map[string]string{"env": "production", "team": "bank", "tier": "gold"}))
	sees("what it may change to be changed, and the rest to be told", map[string]string{"env": "staging", "gone": "soon", "team": "bank"}, "gone,team",
		metav1.ConditionTrue, `which the hub does not let clusters change: env, gone, tier. Change them here, or allow the keys in spec.agentLabels of ClusterConnection "withheld"`)
	allow("*")
	sees("all to be changed", map[string]string{"env": "production", "team": "bank", "tier": "gold"}, "env,team,tier",
		metav1.ConditionFalse, "the labels match the Klusterlet")
}

func TestManagedNamespacesAreKept(t *testing.T) {
	t.Parallel()
	h := newHub(t)
	h.JoinCluster("spaces", nil)
	label := managednamespace.NamespaceLabelKey(strings.TrimSuffix(h.Config.Host, "/"))
	setNamespaces := func(list ...clusterv1.ClusterSetManagedNamespaceConfig) {
		h.AwaitState("the namespaces to be set", func() (string, bool) {
			mc := h.ReadCluster("spaces")
			mc.Status.ManagedNamespaces = list
			err := h.Client.Status().Update(t.Context(), mc)
			return fmt.Sprint(err), err == nil
		})
	}
	namespace := func() *corev1.Namespace {
		ns := &corev1.Namespace{}
		if err := h.Client.Get(t.Context(), client.ObjectKey{Name: "managed-one"}, ns); client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
		return ns
	}
	setNamespaces(clusterv1.ClusterSetManagedNamespaceConfig{
		ManagedNamespaceConfig: clusterv1.ManagedNamespaceConfig{Name: "managed-one"}, ClusterSet: "s",
	})
	h.AwaitState("the namespace", func() (string, bool) { return fmt.Sprint(namespace().Labels), namespace().Labels[label] == "true" })
	h.AwaitState("its condition", func() (string, bool) {
		list := h.ReadCluster("spaces").Status.ManagedNamespaces
		return fmt.Sprint(list), len(list) == 1 && meta.IsStatusConditionTrue(list[0].Conditions, clusterv1.ManagedNamespaceConditionAvailable)
	})
	setNamespaces()
	h.AwaitState("the label to be taken off", func() (string, bool) { return fmt.Sprint(namespace().Labels), namespace().Labels[label] == "false" })
}
