// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	admissionreviewv1 "k8s.io/api/admission/v1"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/test/integration/propagation/harness"
)

// refusedClaims are ConfigMaps by the way in which the hub refuses their change: what it
// says then, and as what that counts.
var refusedClaims = map[string]struct{ says, reason string }{
	"forbidden":   {"labels are for the team that owns them", "Forbidden"},
	"invalid":     {"label team is missing", "Invalid"},
	"unknown":     {`configmaps "unknown" not found`, "NotFound"},
	"denied":      {"denied the request: ask the owners", "Webhook"},
	"teamless":    {"denied the request: there is no such team", "Webhook"},
	"conflicting": {"denied the request: somebody was faster", "Webhook"},
	"broken":      {"failed calling webhook", "Webhook"},
	"down":        {"connection refused", "Webhook"},
}

// owners is a webhook that lets nobody change the ConfigMaps that it is asked about.
type owners struct {
	*testing.T
	mu    sync.Mutex
	asked map[string]int // by the names of the ConfigMaps, without trials
}

func (o *owners) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	review := admissionreviewv1.AdmissionReview{}
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil {
		o.Errorf("the question cannot be read: %v", err)
		return
	}
	name := review.Request.Name
	if review.Request.DryRun == nil || !*review.Request.DryRun {
		o.mu.Lock()
		o.asked[name]++
		o.mu.Unlock()
	}
	status, known := map[string]*metav1.Status{
		"denied":      {Message: "ask the owners", Code: http.StatusForbidden},
		"teamless":    {Message: "there is no such team", Code: http.StatusNotFound},
		"conflicting": {Message: "somebody was faster", Code: http.StatusConflict},
	}[name]
	if !known {
		http.Error(w, "broken", http.StatusInternalServerError)
		return
	}
	review.Response = &admissionreviewv1.AdmissionResponse{UID: review.Request.UID, Result: status}
	if err := json.NewEncoder(w).Encode(review); err != nil {
		o.Errorf("the answer cannot be written: %v", err)
	}
}

// often returns how often it was asked about a ConfigMap.
func (o *owners) often(name string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.asked[name]
}

// changesOfConfigMaps are what is refused.
func changesOfConfigMaps() admissionv1.RuleWithOperations {
	return admissionv1.RuleWithOperations{
		Operations: []admissionv1.OperationType{admissionv1.Update},
		Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
	}
}

// asksOwners has the hub ask a webhook about ConfigMaps of these names.
func asksOwners(name, address string, server *httptest.Server, configMaps string) *admissionv1.ValidatingWebhookConfiguration {
	none, fail := admissionv1.SideEffectClassNone, admissionv1.Fail
	return &admissionv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}, Webhooks: []admissionv1.ValidatingWebhook{{
		Name: name + ".example.com", SideEffects: &none, FailurePolicy: &fail, AdmissionReviewVersions: []string{"v1"},
		ClientConfig:    admissionv1.WebhookClientConfig{URL: &address, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})},
		Rules:           []admissionv1.RuleWithOperations{changesOfConfigMaps()},
		MatchConditions: []admissionv1.MatchCondition{{Name: "names", Expression: "object.metadata.name in " + configMaps}},
	}}}
}

// TestRefusedClaimsAreTold has the hub refuse the marks of a policy in all ways that there
// are: each is told and counted, and tried again ever more seldom until it is let.
func TestRefusedClaimsAreTold(t *testing.T) {
	w := harness.NewHub(t, servers)
	w.JoinCluster("member1")
	hook := &owners{T: t, asked: map[string]int{}}
	server, closed := httptest.NewTLSServer(hook), httptest.NewTLSServer(hook)
	defer server.Close()
	closed.Close()
	down := asksOwners("down", closed.URL, server, "['down']")
	fail, forbidden := admissionv1.Fail, metav1.StatusReasonForbidden
	w.CreateAll(
		&admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "owners"}, Spec: admissionv1.ValidatingAdmissionPolicySpec{
			FailurePolicy:    &fail,
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: changesOfConfigMaps()}}},
			Validations: []admissionv1.Validation{
				{Expression: "object.metadata.name != 'forbidden'", Message: refusedClaims["forbidden"].says, Reason: &forbidden},
				{Expression: "object.metadata.name != 'invalid'", Message: refusedClaims["invalid"].says},
			},
		}},
		&admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "owners"}, Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: "owners", ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		}},
	)
	w.CreateAll(asksOwners("owners", server.URL, server, "['denied', 'teamless', 'conflicting', 'broken']"), down)
	for name, refused := range refusedClaims {
		w.CreateAll(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name, Labels: map[string]string{"refused": "yes"}}})
		if name != "unknown" { // which the API server itself lets
			w.Eventually(name+" may not be changed", func() error { return w.RefusesChange(name, refused.says) })
		}
	}
	registry := prometheus.NewPedanticRegistry()
	w.Options.Metrics = registry
	w.StartControllers(func(next http.RoundTripper) http.RoundTripper {
		// ConfigMap unknown is not found when it is to be changed, as if something that it needs were not there.
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			if request.Method == http.MethodPatch && strings.HasSuffix(request.URL.Path, "/configmaps/unknown") {
				return refusal(request, http.StatusNotFound, metav1.StatusReasonNotFound, refusedClaims["unknown"].says), nil
			}
			return next.RoundTrip(request) //nolint:wrapcheck // it is the transport's own
		})
	})
	p := &policyv1alpha1.PropagationPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "settings"}}
	p.Spec.ResourceSelectors = []policyv1alpha1.ResourceSelector{{APIVersion: "v1", Kind: "ConfigMap", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"refused": "yes"}}}}
	w.CreateAll(p)
	want := map[string]float64{"Other": 0}
	for name, refused := range refusedClaims {
		w.HasEventWith(name, "ApplyPolicyFailed", refused.says)
		want[refused.reason]++
	}
	got := refusals(t, registry)
	for reason, at := range want {
		if count, is := got[reason]; !is || count < at || at == 0 && count > 0 {
			t.Errorf("refused as %s: %v times, want %v at least, and 0 if that is 0", reason, count, at)
		}
	}
	if len(got) != len(want) {
		t.Errorf("the reasons are %v", got)
	}

	if err := w.Delete(t.Context(), down); err != nil {
		t.Fatal(err)
	}
	w.Eventually("what is not refused any more is claimed", func() error {
		return w.Get(t.Context(), client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: "down-configmap"}, &workv1alpha2.ResourceBinding{})
	})
	if often, denied := hook.often("conflicting"), hook.often("denied"); often > 2*denied+5 {
		t.Errorf("what a webhook calls a conflict was tried %d times, and what it denies %d times", often, denied)
	}
}

// refusals returns how many claims were refused, by reason.
func refusals(t *testing.T, from prometheus.Gatherer) map[string]float64 {
	t.Helper()
	families, err := from.Gather()
	if err != nil {
		t.Fatal(err)
	}
	counts := map[string]float64{}
	for _, family := range families {
		if family.GetName() != "capstan_propagation_claims_refused_total" {
			continue
		}
		for _, metric := range family.GetMetric() {
			counts[metric.GetLabel()[0].GetValue()] = metric.GetCounter().GetValue()
		}
	}
	return counts
}
