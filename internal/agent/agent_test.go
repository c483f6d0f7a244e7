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
)

func TestAgents(t *testing.T) {
	h := newHub(t)
	cases := map[string]func(*testing.T, *hub){
		"an agent joins and reports":                            joinsAndReports,
		"an agent without a name makes one up":                  makesUpAName,
		"an agent killed in the handshake goes on where it was": survivesAKill,
		"a strict bootstrap profile is enough":                  joinsWithoutWatch,
		"a certificate is renewed in place":                     renewsInPlace,
		"an expired certificate is replaced by bootstrapping":   replacesAnExpiredCertificate,
		"another bootstrap kubeconfig is followed":              followsTheBootstrapKubeconfig,
		"a denied cluster comes back when it is accepted":       comesBackAfterDenial,
		"a deleted cluster stays away":                          staysAwayAfterDeletion,
		"another cluster of its name needs another certificate": joinsAgainForAnotherCluster,
		"a denied request waits for its deletion":               waitsAfterADeniedRequest,
		"a flood of requests is not added to":                   asksBesideOthers,
		"a taken name is left alone":                            leavesATakenNameAlone,
		"a cluster that has joined already is told so":          tellsOfAnotherName,
		"the hub is told what the cluster is and has":           tellsWhatItHas,
		"the hub is told what pods request, if it asks":         tellsWhatPodsRequest,
		"an agent that may not list pods says so":               tellsThatPodsAreForbidden,
		"problems with the bootstrap kubeconfig are told":       tellsBootstrapProblems,
		"labels and client configs are kept":                    keepsTheSpec,
		"labels that the hub withholds are left and told":       leavesWithheldLabels,
		"managed namespaces are kept":                           keepsManagedNamespaces,
		"authorities that the hub publishes are followed":       followsTheAuthorities,
	}
	for name, run := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			mine := *h
			mine.t = t
			run(t, &mine)
		})
	}
}

func joinsAndReports(t *testing.T, h *hub) {
	at := h.home("joins")
	must(t, h.client.Create(t.Context(), &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node"},
	}))
	must(t, h.client.Create(t.Context(), &clusterv1alpha1.ClusterClaim{
		ObjectMeta: metav1.ObjectMeta{Name: clusterv1alpha1.ClaimID}, Spec: clusterv1alpha1.ClusterClaimSpec{Value: "me"},
	}))
	must(t, h.client.Create(t.Context(), &aboutv1alpha1.ClusterProperty{
		ObjectMeta: metav1.ObjectMeta{Name: "region.example.com"}, Spec: aboutv1alpha1.ClusterPropertySpec{Value: "eu"},
	}))
	var mu sync.Mutex
	var trouble []string
	h.run(at, func(o *agent.PullAgentOptions) {
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
	contains(t, h.awaitReason("joins", operatorv1.JoinReasonBootstrapSecretMissing), "secret joins/bootstrap-hub-kubeconfig does not exist")
	h.setBootstrap("joins", h.bootstrap("bootstrap-joins", "bootstrap"))
	csr := h.awaitCSR("joins")
	checkRequest(t, csr, "joins")
	contains(t, h.awaitReason("joins", operatorv1.JoinReasonWaitingForCSRApproval), "kubectl certificate approve "+csr.Name)
	if mc := h.cluster("joins"); mc.Spec.HubAcceptsClient || mc.Annotations["agent.open-cluster-management.io/x"] != "y" {
		t.Errorf("the agent created the ManagedCluster %v", mc)
	}
	h.sign(csr, -time.Minute, time.Hour)
	contains(t, h.awaitReason("joins", operatorv1.JoinReasonWaitingForAcceptance),
		`kubectl patch managedcluster joins --type=merge -p '{"spec":{"hubAcceptsClient":true}}'`)
	start := time.Now()
	h.accept("joins")
	h.awaitAvailable("joins")
	t.Logf("available %s after the acceptance", time.Since(start))
	h.awaitReason("joins", operatorv1.JoinReasonJoined)
	secret := h.secret("joins", join.HubSecret)
	for _, key := range []string{"kubeconfig", "tls.crt", "tls.key", "cluster-name", "agent-name"} {
		if len(secret.Data[key]) == 0 {
			t.Errorf("the secret %s has no key %s", join.HubSecret, key)
		}
	}
	h.await("the pending key to be removed", func() (string, bool) { return "there", len(h.secret("joins", join.PendingSecret).Data) == 0 })
	h.await("a heartbeat", func() (string, bool) {
		lease := &coordinationv1.Lease{}
		must(t, h.client.Get(t.Context(), client.ObjectKey{Namespace: "joins", Name: clusterv1.LeaseName}, lease))
		return "", lease.Spec.RenewTime != nil
	})
	mc := h.cluster("joins")
	claims := []clusterv1.ManagedClusterClaim{{Name: clusterv1alpha1.ClaimID, Value: "me"}, {Name: "region.example.com", Value: "eu"}}
	if diff := cmp.Diff(claims, mc.Status.ClusterClaims); diff != "" {
		t.Errorf("claims (-want +got):\n%s", diff)
	}
	if mc.Status.Version.Kubernetes == "" {
		t.Error("the version is not reported")
	}
	if len(h.csrs("joins")) != 1 {
		t.Errorf("%d requests were made, want 1", len(h.csrs("joins")))
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
	must(t, err)
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

func makesUpAName(t *testing.T, h *hub) {
	at := h.home("nameless")
	h.setBootstrap("nameless", h.bootstrap("bootstrap-nameless", "bootstrap"))
	unnamed := func(o *agent.PullAgentOptions) { o.ClusterName = "" }
	r := h.run(at, unnamed)
	var pending *corev1.Secret
	h.await("the name", func() (string, bool) {
		pending = h.secret("nameless", join.PendingSecret)
		return "", pending != nil && len(pending.Data) > 0
	})
	name := string(pending.Data["cluster-name"])
	h.awaitCSR(name)
	r.stop()
	h.run(at, unnamed)
	h.sign(h.awaitCSR(name), -time.Minute, time.Hour)
	h.accept(name)
	h.awaitAvailable(name)
}

func survivesAKill(t *testing.T, h *hub) {
	at := h.home("killed")
	h.setBootstrap("killed", h.bootstrap("bootstrap-killed", "bootstrap"))
	r := h.run(at, nil)
	csr := h.awaitCSR("killed")
	for range 3 {
		r.stop()
		r = h.run(at, nil)
		h.awaitReason("killed", operatorv1.JoinReasonWaitingForCSRApproval)
	}
	r.stop()
	h.sign(csr, -time.Minute, time.Hour)
	h.accept("killed")
	r = h.run(at, nil)
	h.awaitAvailable("killed")
	if n := len(h.csrs("killed")); n != 1 {
		t.Errorf("%d requests were made, want 1", n)
	}
	r.stop()
	before := h.secret("killed", join.HubSecret)
	h.run(at, nil)
	h.awaitReason("killed", operatorv1.JoinReasonJoined)
	if after := h.secret("killed", join.HubSecret); after.ResourceVersion != before.ResourceVersion {
		t.Error("an agent that has a credential wrote it again")
	}
}

func joinsWithoutWatch(t *testing.T, h *hub) {
	at := h.home("strict")
	h.setBootstrap("strict", h.bootstrap("bootstrap-strict", "bootstrap-strict"))
	h.run(at, nil)
	h.sign(h.awaitCSR("strict"), -time.Minute, time.Hour)
	h.accept("strict")
	h.awaitAvailable("strict")
}

func renewsInPlace(t *testing.T, h *hub) {
	at := h.home("renews")
	h.setBootstrap("renews", h.bootstrap("bootstrap-renews", "bootstrap"))
	h.run(at, nil)
	first := h.awaitCSR("renews")
	// Due for renewal after a second or so, valid for four.
	h.sign(first, -12*time.Second, 4*time.Second)
	h.accept("renews")
	h.awaitAvailable("renews")
	old := h.secret("renews", join.HubSecret)
	second := h.awaitCSR("renews")
	if user := second.Spec.Username; user[:len(user)-5] != "system:open-cluster-management:renews:" {
		t.Errorf("the renewal was asked for by %q, want the agent itself", user)
	}
	h.sign(second, -time.Minute, time.Hour)
	h.await("the new certificate", func() (string, bool) {
		return "the old one", string(h.secret("renews", join.HubSecret).Data["tls.crt"]) != string(old.Data["tls.crt"])
	})
	h.await("the condition", func() (string, bool) {
		mc := h.cluster("renews")
		return fmt.Sprint(mc.Status.Conditions), meta.IsStatusConditionTrue(mc.Status.Conditions, clusterv1.ManagedClusterConditionClusterCertificateRotated)
	})
	if again := h.secret("renews", join.HubSecret); string(again.Data["agent-name"]) != string(old.Data["agent-name"]) {
		t.Error("the renewal changed the name of the agent")
	}
	time.Sleep(4 * time.Second) // until the old certificate is no good
	patch := `{"spec":{"leaseDurationSeconds":61}}`
	before := renewTime(t, h, "renews")
	mc := &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "renews"}}
	must(t, h.client.Patch(t.Context(), mc, client.RawPatch("application/merge-patch+json", []byte(patch))))
	h.await("a heartbeat with the new certificate", func() (string, bool) {
		return "", renewTime(t, h, "renews").After(before.Time)
	})
}

func renewTime(t *testing.T, h *hub, cluster string) metav1.MicroTime {
	t.Helper()
	lease := &coordinationv1.Lease{}
	must(t, h.client.Get(t.Context(), client.ObjectKey{Namespace: cluster, Name: clusterv1.LeaseName}, lease))
	if lease.Spec.RenewTime == nil {
		return metav1.MicroTime{}
	}
	return *lease.Spec.RenewTime
}

func replacesAnExpiredCertificate(t *testing.T, h *hub) {
	at, r := h.joined("expired", nil)
	r.stop()
	csr := h.csrs("expired")[0]
	block, _ := pem.Decode(csr.Spec.Request)
	request, err := x509.ParseCertificateRequest(block.Bytes)
	must(t, err)
	secret := h.secret("expired", join.HubSecret)
	secret.Data["tls.crt"] = h.issue(request.Subject, request.PublicKey, -2*time.Hour, -time.Hour)
	must(t, h.client.Update(t.Context(), secret))
	agentName := string(secret.Data["agent-name"])
	h.run(at, nil)
	h.sign(h.awaitCSR("expired"), -time.Minute, time.Hour)
	h.awaitReason("expired", operatorv1.JoinReasonJoined)
	h.await("the new certificate", func() (string, bool) {
		pair, err := tls.X509KeyPair(h.secret("expired", join.HubSecret).Data["tls.crt"], h.secret("expired", join.HubSecret).Data["tls.key"])
		return fmt.Sprint(err), err == nil && pair.Leaf.NotAfter.After(time.Now())
	})
	if got := string(h.secret("expired", join.HubSecret).Data["agent-name"]); got != agentName {
		t.Errorf("the agent's name is %q now, want %q", got, agentName)
	}
}

func followsTheBootstrapKubeconfig(t *testing.T, h *hub) {
	_, _ = h.joined("follows", nil)
	other := h.bootstrap("bootstrap-follows", "bootstrap")
	other.Clusters["hub-2"] = other.Clusters["hub"]
	other.Contexts["c"].Cluster = "hub-2"
	h.setBootstrap("follows", other)
	h.sign(h.awaitCSR("follows"), -time.Minute, time.Hour)
	h.await("the new kubeconfig", func() (string, bool) {
		kubeconfig := string(h.secret("follows", join.HubSecret).Data["kubeconfig"])
		return kubeconfig, strings.Contains(kubeconfig, "hub-2")
	})
	h.awaitReason("follows", operatorv1.JoinReasonJoined)
}

func comesBackAfterDenial(t *testing.T, h *hub) {
	h.joined("denied", nil)
	h.awaitReason("denied", operatorv1.JoinReasonJoined)
	h.deny("denied")
	contains(t, h.awaitReason("denied", operatorv1.JoinReasonClusterDenied), "kubectl patch managedcluster denied")
	h.accept("denied")
	h.awaitReason("denied", operatorv1.JoinReasonJoined)
	if n := len(h.csrs("denied")); n != 1 {
		t.Errorf("%d requests were made, want 1", n)
	}
}

func staysAwayAfterDeletion(t *testing.T, h *hub) {
	at, r := h.joined("deleted", nil)
	h.awaitReason("deleted", operatorv1.JoinReasonJoined)
	must(t, h.client.Delete(t.Context(), h.cluster("deleted")))
	h.awaitReason("deleted", operatorv1.JoinReasonClusterDeleted)
	r.stop()
	h.run(at, nil)
	time.Sleep(time.Second) // a wrong agent would have created it again by now
	if h.cluster("deleted") != nil {
		t.Fatal("the agent created the ManagedCluster again")
	}
	h.setBootstrap("deleted", h.bootstrap("another-deleted", "bootstrap"))
	h.awaitCluster("deleted")
	h.joinsAsAnother("deleted")
}

// joinsAgainForAnotherCluster is about an agent whose ManagedCluster somebody
// deleted and created again, on a hub that does not let its certificate in.
func joinsAgainForAnotherCluster(t *testing.T, h *hub) {
	h.joined("recreated", nil)
	h.awaitReason("recreated", operatorv1.JoinReasonJoined)
	must(t, h.client.Delete(t.Context(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "recreated", Name: "registration"}}))
	must(t, h.client.Delete(t.Context(), &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "managedcluster:recreated"}}))
	must(t, h.client.Delete(t.Context(), h.cluster("recreated")))
	must(t, h.client.Create(t.Context(), &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "recreated"}}))
	h.joinsAsAnother("recreated")
}

// joinsAsAnother waits for the request of an agent that has joined before, answers
// it, and checks that it is not for the agent that it was: others may have the
// certificate of that one.
func (h *hub) joinsAsAnother(name string) {
	h.t.Helper()
	before := string(h.secret(name, join.HubSecret).Data[join.KeyAgentName])
	h.sign(h.awaitCSR(name), -time.Minute, time.Hour)
	h.accept(name)
	h.awaitAvailable(name)
	h.awaitReason(name, operatorv1.JoinReasonJoined)
	if after := string(h.secret(name, join.HubSecret).Data[join.KeyAgentName]); after == before || after == "" {
		h.t.Errorf("the agent %q joins again as %q", before, after)
	}
}

func waitsAfterADeniedRequest(t *testing.T, h *hub) {
	at := h.home("refused")
	h.setBootstrap("refused", h.bootstrap("bootstrap-refused", "bootstrap"))
	h.run(at, nil)
	csr := h.awaitCSR("refused")
	h.answer(csr, certificatesv1.CertificateDenied)
	contains(t, h.awaitReason("refused", operatorv1.JoinReasonCSRDenied), "as the test wants it", "kubectl delete csr "+csr.Name)
	must(t, h.client.Delete(t.Context(), csr))
	h.sign(h.awaitCSR("refused"), -time.Minute, time.Hour)
	h.accept("refused")
	h.awaitAvailable("refused")
}

// asksBesideOthers has somebody who may ask to join make requests in the name of the cluster.
func asksBesideOthers(t *testing.T, h *hub) {
	at := h.home("flood")
	h.setBootstrap("flood", h.bootstrap("bootstrap-flood", "bootstrap"))
	others := map[string]bool{}
	for i := range clusterv1.CSRsPerAgentMax {
		csr := someRequest(t, fmt.Sprintf("flood-%d", i), "flood")
		must(t, h.client.Create(t.Context(), csr))
		others[csr.Name] = true
	}
	h.run(at, nil)
	var own *certificatesv1.CertificateSigningRequest
	h.await("the request of the agent beside those of others", func() (string, bool) {
		list := h.csrs("flood")
		for i := range list {
			if !others[list[i].Name] {
				own = &list[i]
			}
		}
		return fmt.Sprintf("%d requests", len(list)), own != nil
	})
	h.sign(own, -time.Minute, time.Hour)
}

func leavesATakenNameAlone(t *testing.T, h *hub) {
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
		must(t, h.client.Create(t.Context(), mc))
		mc.Status = status
		if len(status.Conditions) > 0 {
			must(t, h.client.Status().Update(t.Context(), mc))
		}
		at := h.home(name)
		h.setBootstrap(name, h.bootstrap("bootstrap-"+name, "bootstrap"))
		h.run(at, nil)
		h.awaitReason(name, operatorv1.JoinReasonClusterNameTaken)
		if n := len(h.csrs(name)); n != 0 {
			t.Errorf("%s: the agent asked for a certificate", name)
		}
	}
	must(t, h.client.Delete(t.Context(), h.cluster("taken-uid")))
	h.awaitCSR("taken-uid")
}

func tellsBootstrapProblems(t *testing.T, h *hub) {
	at := h.home("problems")
	h.run(at, nil)
	set := func(change func(user, server *string, ca *[]byte)) {
		kubeconfig := h.bootstrap("bootstrap-problems", "bootstrap")
		user, server, ca := "", kubeconfig.Clusters["hub"].Server, kubeconfig.Clusters["hub"].CertificateAuthorityData
		change(&user, &server, &ca)
		kubeconfig.Clusters["hub"].Server, kubeconfig.Clusters["hub"].CertificateAuthorityData = server, ca
		switch user {
		case "":
		case "token":
			kubeconfig.AuthInfos["u"].ClientCertificateData, kubeconfig.AuthInfos["u"].ClientKeyData = nil, nil
			kubeconfig.AuthInfos["u"].Token = "expired"
		default:
			other := h.bootstrap(user, "")
			kubeconfig.AuthInfos["u"] = other.AuthInfos["u"]
		}
		h.setBootstrap("problems", kubeconfig)
	}
	stranger := httptest.NewTLSServer(nil)
	defer stranger.Close()
	strangerCA := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: stranger.Certificate().Raw})
	must(t, h.client.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "problems", Name: join.BootstrapSecret},
		Data:       map[string][]byte{"kubeconfig": []byte("clusters: [")},
	}))
	h.awaitReason("problems", operatorv1.JoinReasonBootstrapSecretMalformed)
	set(func(user, _ *string, _ *[]byte) { *user = "token" })
	h.awaitReason("problems", operatorv1.JoinReasonBootstrapUnauthorized)
	set(func(user, _ *string, _ *[]byte) { *user = "nobody-in-particular" })
	h.awaitReason("problems", operatorv1.JoinReasonBootstrapForbidden)
	set(func(_, _ *string, ca *[]byte) { *ca = strangerCA })
	h.awaitReason("problems", operatorv1.JoinReasonHubCertificateUntrusted)
	set(func(_, server *string, _ *[]byte) { *server = "https://127.0.0.1:1" })
	h.awaitReason("problems", operatorv1.JoinReasonHubUnreachable)
	set(func(_, _ *string, _ *[]byte) {})
	h.sign(h.awaitCSR("problems"), -time.Minute, time.Hour)
	h.accept("problems")
	h.awaitAvailable("problems")
}

func keepsTheSpec(t *testing.T, h *hub) {
	with := func(labels map[string]string) func(*agent.PullAgentOptions) {
		return func(o *agent.PullAgentOptions) {
			o.Labels = labels
			o.ClientConfigs = []clusterv1.ClientConfig{{URL: "https://member:6443", CABundle: []byte("ca")}}
		}
	}
	at, r := h.joined("spec", with(map[string]string{"a": "1", "b": "2", clusterv1.LabelClusterSet: "s"}))
	mc := h.cluster("spec")
	if diff := cmp.Diff(map[string]string{"a": "1", "b": "2", clusterv1.LabelClusterSet: "s"}, mc.Labels); diff != "" {
		t.Errorf("labels after joining (-want +got):\n%s", diff)
	}
	r.stop()
	mc = h.cluster("spec")
	mc.Labels["a"], mc.Labels["theirs"] = "changed", "kept"
	mc.Spec.ManagedClusterClientConfigs = nil
	must(t, h.client.Update(t.Context(), mc))
	h.run(at, with(map[string]string{"a": "1", "c": "3"}))
	want := map[string]string{"a": "1", "c": "3", "theirs": "kept", clusterv1.LabelClusterSet: "s"}
	h.await("the labels and the address", func() (string, bool) {
		mc := h.cluster("spec")
		return fmt.Sprint(mc.Labels, mc.Spec), cmp.Equal(want, mc.Labels) && len(mc.Spec.ManagedClusterClientConfigs) == 1 &&
			mc.Annotations[clusterspec.AnnotationLabels] == "a,c"
	})
}

// leavesWithheldLabels has a hub that lets its agents change one label, and then another.
func leavesWithheldLabels(t *testing.T, h *hub) {
	with := func(labels map[string]string) func(*agent.PullAgentOptions) {
		return func(o *agent.PullAgentOptions) {
			o.Labels = labels
			o.ClientConfigs = []clusterv1.ClientConfig{{URL: "https://member:6443"}}
		}
	}
	allow := func(keys string) {
		patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, fleetv1alpha1.AnnotationAgentLabels, keys)
		must(t, h.client.Patch(t.Context(), h.cluster("withheld"), client.RawPatch("application/merge-patch+json", []byte(patch))))
	}
	sees := func(what string, labels map[string]string, keys string, status metav1.ConditionStatus, message string) {
		h.await(what, func() (string, bool) {
			mc := h.cluster("withheld")
			withheld := meta.FindStatusCondition(mc.Status.Conditions, clusterv1.ManagedClusterConditionLabelsWithheld)
			return fmt.Sprint(mc.Labels, mc.Annotations, withheld), cmp.Equal(labels, mc.Labels) && mc.Annotations[clusterspec.AnnotationLabels] == keys &&
				withheld != nil && withheld.Status == status && strings.Contains(withheld.Message, message) && len(mc.Spec.ManagedClusterClientConfigs) == 1
		})
	}
	at, r := h.joined("withheld", with(map[string]string{"env": "staging", "gone": "soon", "team": "shop"}))
	r.stop()
	allow("team")
	h.run(at, with(map[string]string{"env": "production", "team": "bank", "tier": "gold"}))
	sees("what it may change to be changed, and the rest to be told", map[string]string{"env": "staging", "gone": "soon", "team": "bank"}, "gone,team",
		metav1.ConditionTrue, `which the hub does not let clusters change: env, gone, tier. Change them here, or allow the keys in spec.agentLabels of ClusterConnection "withheld"`)
	allow("*")
	sees("all to be changed", map[string]string{"env": "production", "team": "bank", "tier": "gold"}, "env,team,tier",
		metav1.ConditionFalse, "the labels match the Klusterlet")
}

func keepsManagedNamespaces(t *testing.T, h *hub) {
	h.joined("spaces", nil)
	label := managednamespace.NamespaceLabelKey(strings.TrimSuffix(h.config.Host, "/"))
	setNamespaces := func(list ...clusterv1.ClusterSetManagedNamespaceConfig) {
		h.await("the namespaces to be set", func() (string, bool) {
			mc := h.cluster("spaces")
			mc.Status.ManagedNamespaces = list
			err := h.client.Status().Update(t.Context(), mc)
			return fmt.Sprint(err), err == nil
		})
	}
	namespace := func() *corev1.Namespace {
		ns := &corev1.Namespace{}
		if err := h.client.Get(t.Context(), client.ObjectKey{Name: "managed-one"}, ns); client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
		return ns
	}
	setNamespaces(clusterv1.ClusterSetManagedNamespaceConfig{
		ManagedNamespaceConfig: clusterv1.ManagedNamespaceConfig{Name: "managed-one"}, ClusterSet: "s",
	})
	h.await("the namespace", func() (string, bool) { return fmt.Sprint(namespace().Labels), namespace().Labels[label] == "true" })
	h.await("its condition", func() (string, bool) {
		list := h.cluster("spaces").Status.ManagedNamespaces
		return fmt.Sprint(list), len(list) == 1 && meta.IsStatusConditionTrue(list[0].Conditions, clusterv1.ManagedNamespaceConditionAvailable)
	})
	setNamespaces()
	h.await("the label to be taken off", func() (string, bool) { return fmt.Sprint(namespace().Labels), namespace().Labels[label] == "false" })
}
