// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package diagnosis

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/cli/doctor/evidence"
	"github.com/capstan-io/capstan/internal/cli/requests"
	"github.com/capstan-io/capstan/internal/operator/probe"
	"github.com/capstan-io/capstan/internal/server/certs"
)

const (
	service = "cluster-manager-work-webhook"
	host    = service + "." + operatorv1.DefaultHubNamespace + ".svc"
)

// hub is one of which nothing is known but that it is there, at the time.
func hub(now time.Time) *evidence.HubEvidence {
	return &evidence.HubEvidence{Server: "https://hub", Version: evidence.Reading[string]{Found: true}, Now: now, KnownKinds: 1}
}

// reasons returns what is found in the steps, as step=reason.
func reasons(steps []Step) []string {
	var all []string
	for _, s := range steps {
		for _, f := range s.Findings {
			all = append(all, s.Name+"="+string(f.State)+":"+f.Reason)
		}
	}
	return all
}

func TestCertificatesOfWebhookServers(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	authority, err := certs.NewAuthority("a", now)
	if err != nil {
		t.Fatal(err)
	}
	other, err := certs.NewAuthority("b", now)
	if err != nil {
		t.Fatal(err)
	}
	pair, err := certs.NewServing(authority, []string{host}, now)
	if err != nil {
		t.Fatal(err)
	}
	bundle := func(p *certs.CertificatePair) []byte { return p.CertPEM }
	for name, c := range map[string]struct {
		reason string
		ca     []byte
		secret map[string][]byte
		none   bool
		now    time.Time
		want   string
	}{
		"in order":           {reason: "nothing to say", ca: bundle(authority), secret: map[string][]byte{"tls.crt": pair.CertPEM}, now: now},
		"of another CA":      {reason: "every request is refused", ca: bundle(other), secret: map[string][]byte{"tls.crt": pair.CertPEM}, now: now, want: "WebhookUntrusted"},
		"no CA at all":       {reason: "somebody emptied it", secret: map[string][]byte{"tls.crt": pair.CertPEM}, now: now, want: "WebhookUntrusted"},
		"expired":            {reason: "the operator was off", ca: bundle(authority), secret: map[string][]byte{"tls.crt": pair.CertPEM}, now: now.AddDate(50, 0, 0), want: "ServingCertificateExpired"},
		"no certificate":     {reason: "somebody wrote into it", ca: bundle(authority), secret: map[string][]byte{"tls.crt": []byte("x")}, now: now, want: "ServingCertificateInvalid"},
		"there is no secret": {reason: "somebody deleted it", ca: bundle(authority), none: true, now: now, want: "ServingCertificateMissing"},
	} {
		t.Run(name, func(t *testing.T) {
			h := hub(c.now)
			h.Mutating.Found, h.Mutating.Value = true, &admissionv1.MutatingWebhookConfigurationList{Items: []admissionv1.MutatingWebhookConfiguration{{
				Webhooks: []admissionv1.MutatingWebhook{{ClientConfig: admissionv1.WebhookClientConfig{
					CABundle: c.ca, Service: &admissionv1.ServiceReference{Namespace: operatorv1.DefaultHubNamespace, Name: service},
				}}},
			}}}
			secret := evidence.Reading[*corev1.Secret]{Found: !c.none}
			if secret.Found {
				secret.Value = &corev1.Secret{Data: c.secret}
			}
			h.Serving = map[string]evidence.Reading[*corev1.Secret]{service: secret}
			got := ""
			if found := hubWebhooks(&evidence.Evidence{Hub: h}); len(found) > 0 {
				got = found[0].Reason
			}
			if got != c.want {
				t.Errorf("%s: got %q, want %q", c.reason, got, c.want)
			}
		})
	}
}

// TestServersOfAggregatedAPIs has an APIService without a condition, which the API
// server has not looked at yet.
func TestServersOfAggregatedAPIs(t *testing.T) {
	api := func(labels, service map[string]any, status string) unstructured.Unstructured {
		return unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"name": "v1.example.com", "labels": labels},
			"spec":     map[string]any{"service": service},
			"status":   map[string]any{"conditions": []any{map[string]any{"type": "Available", "status": status, "reason": "MissingEndpoints", "message": "there are none"}}},
		}}
	}
	ours, service := map[string]any{operatorv1.LabelCreatedByClusterManager: "hub"}, map[string]any{"namespace": "n", "name": "s"}
	local := api(ours, nil, "False")
	unstructured.RemoveNestedField(local.Object, "spec", "service")
	fresh := api(ours, service, "")
	unstructured.RemoveNestedField(fresh.Object, "status")
	for name, c := range map[string]struct {
		reason string
		api    unstructured.Unstructured
		want   []string
	}{
		"ours is down":        {reason: "the Cluster API is ours to mend", api: api(ours, service, "False"), want: []string{"hub/apis=Broken:APIUnavailable"}},
		"another one is down": {reason: "the hub works, but namespaces stay", api: api(nil, service, "False"), want: []string{"hub/apis=Odd:APIUnavailable"}},
		"it answers":          {reason: "nothing to say", api: api(ours, service, "True")},
		"new":                 {reason: "the API server has not looked yet", api: fresh},
		"of the API server":   {reason: "nobody else is asked", api: local},
	} {
		t.Run(name, func(t *testing.T) {
			h := hub(time.Time{})
			h.APIServices = evidence.Reading[*unstructured.UnstructuredList]{Found: true, Value: &unstructured.UnstructuredList{Items: []unstructured.Unstructured{c.api}}}
			got := slices.DeleteFunc(reasons(DiagnoseHub(&evidence.Evidence{Hub: h})), func(found string) bool { return !strings.HasPrefix(found, "hub/apis") })
			if !slices.Equal(got, c.want) {
				t.Errorf("%s: got %q, want %q", c.reason, got, c.want)
			}
		})
	}
}

// TestWhatCannotBeReadIsNotGuessed gives the diagnosis nothing but errors.
func TestWhatCannotBeReadIsNotGuessed(t *testing.T) {
	no := errors.New("no")
	h := hub(time.Time{})
	h.KindsErr, h.Managers.Err, h.Operator.Deployment.Err, h.Mutating.Err, h.Validating.Err, h.Tokens.Err, h.Requests.Err, h.APIServices.Err = no, no, no, no, no, no, no, no
	h.Bootstrap = []evidence.ObjectPresence{{Reading: evidence.Reading[struct{}]{Err: no}}}
	e := &evidence.Evidence{Hub: h, Cluster: &evidence.ClusterEvidence{Name: "c"}, Member: &evidence.MemberEvidence{Silent: true}}
	e.Cluster.Managed.Err, e.Cluster.Connection.Err, e.Cluster.Others.Err, e.Cluster.Works.Err, e.Member.UID.Err = no, no, no, no, no
	steps := append(DiagnoseHub(e), DiagnoseCluster(e)...)
	for _, found := range reasons(steps) {
		if !strings.Contains(found, string(Unseen)) {
			t.Errorf("it says %s", found)
		}
	}
	if _, _, blind := FindBlindSpot(steps); !blind {
		t.Error("it does not say that it could not look")
	}
}

func TestCluster(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	push := func(e *evidence.Evidence) {
		e.Cluster.Connection.Found, e.Cluster.Connection.Value = true, &fleetv1alpha1.ClusterConnection{Spec: fleetv1alpha1.ClusterConnectionSpec{SyncMode: fleetv1alpha1.SyncModePush}}
		e.Member = &evidence.MemberEvidence{}
	}
	for name, c := range map[string]struct {
		reason string
		change func(*evidence.Evidence)
		want   string
	}{
		"a hub that is installed from elsewhere": {
			reason: "its pods are not here, which is no fault", change: func(*evidence.Evidence) {}, want: "hub/operator=Odd:HubHosted",
		},
		"a request that asks for something else": {
			reason: "a bootstrap token can write what it likes",
			change: func(e *evidence.Evidence) {
				e.Hub.Requests.Found, e.Hub.Requests.Value = true, &certificatesv1.CertificateSigningRequestList{Items: []certificatesv1.CertificateSigningRequest{{
					ObjectMeta: metav1.ObjectMeta{Name: "c-1", Labels: map[string]string{clusterv1.LabelClusterName: "c"}},
					Spec:       certificatesv1.CertificateSigningRequestSpec{SignerName: certificatesv1.KubeAPIServerClientSignerName, Request: []byte("nonsense")},
				}}}
			},
			want: "cluster/requests=Broken:RequestRefused",
		},
		"a push agent that somebody has scaled to 0": {
			reason: "the operator gives it pods while there are Push clusters",
			change: func(e *evidence.Evidence) {
				push(e)
				e.Hub.Components = []evidence.Workload{{Name: "cluster-manager-push-agent"}}
				e.Hub.Components[0].Deployment.Found, e.Hub.Components[0].Deployment.Value = true, &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](0)}}
			},
			want: "cluster/pushagent=Broken:ScaledToZero",
		},
		"a Push member without an account": {
			reason: "somebody has cleaned up", change: push, want: "member/account=Broken:AccountMissing",
		},
		"a Push member without a role": {
			reason: "somebody has cleaned up",
			change: func(e *evidence.Evidence) {
				push(e)
				e.Member.Accounts.Found, e.Member.Accounts.Value = true, &corev1.ServiceAccountList{Items: make([]corev1.ServiceAccount, 1)}
				e.Member.AccountGrants = []evidence.ObjectPresence{{Kind: "ClusterRole", Name: "r"}}
			},
			want: "member/account=Broken:AccountRightsMissing",
		},
		"a hub that is reached from the member, but not from here": {
			reason: "the member does not complain",
			change: func(e *evidence.Evidence) {
				k := &operatorv1.Klusterlet{Status: operatorv1.KlusterletStatus{Conditions: []metav1.Condition{{Type: operatorv1.KlusterletJoined, Reason: operatorv1.JoinReasonJoined}}}}
				e.Member = &evidence.MemberEvidence{Klusterlet: k, HubAnswer: probe.CheckOutcome{Verdict: probe.Unreachable, Message: "no"}}
			},
			want: "member/credential=Odd:HubUnreachable",
		},
	} {
		t.Run(name, func(t *testing.T) {
			e := &evidence.Evidence{Hub: hub(now), Cluster: &evidence.ClusterEvidence{Name: "c"}}
			e.Cluster.Managed.Found, e.Cluster.Managed.Value = true, &clusterv1.ManagedCluster{ObjectMeta: metav1.ObjectMeta{Name: "c"}}
			c.change(e)
			if got := reasons(append(DiagnoseHub(e), DiagnoseCluster(e)...)); !slices.Contains(got, c.want) {
				t.Errorf("%s: got %v, want %s", c.reason, got, c.want)
			}
		})
	}
}

// TestAStrayRequestCostsAClusterNothing is junk in the name of a cluster: the
// advice must not be to deny the cluster.
func TestAStrayRequestCostsAClusterNothing(t *testing.T) {
	request := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "c-1"}}
	for _, joined := range []bool{true, false} {
		for name, f := range map[string]Finding{
			"refused": refusedRequest(requests.RefusedRequest{Request: request}, joined),
			"ready":   pendingRequest(&evidence.Evidence{Cluster: &evidence.ClusterEvidence{Name: "c"}}, requests.ReadyRequest{Request: request, Key: "sha256:abcd"}, joined),
		} {
			if strings.Contains(f.Next, "capstan deny") || !strings.Contains(f.Next, "kubectl certificate deny c-1") {
				t.Errorf("%s, joined is %t: %s", name, joined, f.Next)
			}
			if said := f.Cause + f.Next; name == "ready" && !strings.Contains(said, "sha256:abcd") {
				t.Errorf("ready, joined is %t: the key is not shown, by which a request is known: %s", joined, said)
			}
		}
	}
}
