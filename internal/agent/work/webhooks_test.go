// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/capstan-io/capstan/apis/karmada/config/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// interpreter is a webhook that leaves the replicas of Deployments to the cluster,
// reports their number, and is content with more than one.
type interpreter struct {
	*testing.T
	away atomic.Bool
}

func (i *interpreter) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	question := configv1alpha1.ResourceInterpreterContext{}
	if err := json.NewDecoder(r.Body).Decode(&question); err != nil {
		i.Errorf("the question cannot be read: %v", err)
	}
	if i.away.Load() {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	of := question.Request
	read := func(raw []byte) (d appsv1.Deployment) {
		if err := json.Unmarshal(raw, &d); err != nil {
			i.Errorf("the object cannot be read: %v", err)
		}
		return d
	}
	answer := &configv1alpha1.ResourceInterpreterResponse{UID: of.UID, Successful: true}
	switch of.Operation {
	case configv1alpha1.InterpreterOperationRetain:
		answer.PatchType = new(configv1alpha1.PatchTypeJSONPatch)
		answer.Patch = fmt.Appendf(nil, `[{"op":"replace","path":"/spec/replicas","value":%d}]`, *read(of.ObservedObject.Raw).Spec.Replicas)
	case configv1alpha1.InterpreterOperationInterpretStatus:
		answer.RawStatus = &runtime.RawExtension{Raw: fmt.Appendf(nil, `{"count":%d}`, read(of.Object.Raw).Status.Replicas)}
	case configv1alpha1.InterpreterOperationInterpretHealth:
		answer.Healthy = new(read(of.Object.Raw).Status.Replicas > 1)
	default:
		i.Errorf("an agent asks for %s", of.Operation)
	}
	if err := json.NewEncoder(w).Encode(configv1alpha1.ResourceInterpreterContext{Response: answer}); err != nil {
		i.Errorf("the answer cannot be written: %v", err)
	}
}

// asks makes a configuration with a webhook for all operations of Deployments, until
// the test ends.
func (s *scene) asks(name string, at configv1alpha1.WebhookClientConfig) *configv1alpha1.ResourceInterpreterWebhookConfiguration {
	s.t.Helper()
	c := &configv1alpha1.ResourceInterpreterWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: name}}
	c.Webhooks = []configv1alpha1.ResourceInterpreterWebhook{{
		Name: "deployments.example.com", ClientConfig: at, InterpreterContextVersions: []string{"v1alpha1"},
		Rules: []configv1alpha1.RuleWithOperations{{
			Operations: []configv1alpha1.InterpreterOperation{configv1alpha1.InterpreterOperationAll},
			Rule:       configv1alpha1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"*"}, Kinds: []string{deploymentKind}},
		}},
	}}
	if err := s.client.Create(s.t.Context(), c); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		if err := s.client.Delete(context.WithoutCancel(s.t.Context()), c); client.IgnoreNotFound(err) != nil {
			s.t.Error(err)
		}
	})
	return c
}

// TestKindsThatWebhooksInterpret runs an agent on works of bindings with a kind that a
// webhook interprets, which goes away and comes back.
func TestKindsThatWebhooksInterpret(t *testing.T) {
	t.Parallel()
	answers := &interpreter{T: t}
	server := httptest.NewTLSServer(answers)
	defer server.Close()
	s := takeScene(t)
	c := s.asks("deployments", configv1alpha1.WebhookClientConfig{URL: &server.URL, CABundle: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})})
	s.start(seldom())
	s.create(ofBinding(s.work("w", s.triple("d"))))
	s.create(ofBinding(s.work("other", s.configMap("c", "1"))))
	s.runs("d", "i", 3)
	s.reports("w", 0, `health={"string":"Unhealthy"}`)
	s.autoscale("d", 5)
	s.change("w", func(w *workv1.ManifestWork) { setManifests(w, s.imaged("d", "j")) })
	s.runs("d", "j", 5)
	s.status(deploymentKind, "d", `{"observedGeneration":1,"replicas":2}`)
	s.reports("w", 0, `status={"jsonRaw":"{\"count\":2}"`)
	s.reports("w", 0, `health={"string":"Healthy"}`)

	// While it is away, what it says of is left as it is, and everything else goes on.
	answers.away.Store(true)
	s.change("w", func(w *workv1.ManifestWork) { setManifests(w, s.imaged("d", "k")) })
	s.tells("w", 0, "Applied", `The object is left as it is in the cluster, because the fields to retain could not be determined. `+
		`webhook "deployments.example.com" of ResourceInterpreterWebhookConfiguration "deployments", Retain of Deployment "`+s.ns()+`/d": it answers with status 503, want 200. `)
	s.status(deploymentKind, "d", `{"observedGeneration":1,"replicas":3}`)
	s.reports("w", 0, `health={"string":"Unknown"}`)
	s.tells("w", 0, "StatusFeedbackSynced", `InterpretHealth of Deployment "`+s.ns()+`/d": it answers with status 503`)
	s.change("other", func(w *workv1.ManifestWork) { setManifests(w, s.configMap("c", "2")) })
	s.has("c", "2")
	s.runs("d", "j", 5)

	// Nothing but the webhook tells that it is back.
	answers.away.Store(false)
	s.runs("d", "k", 5)
	s.condition("w", "Applied", metav1.ConditionTrue)
	s.reports("w", 0, `status={"jsonRaw":"{\"count\":3}"`)
	s.reports("w", 0, `health={"string":"Healthy"}`)

	// An agent does not call what has the name of the Service in its cluster.
	s.edit(c, func() {
		c.Webhooks[0].ClientConfig = configv1alpha1.WebhookClientConfig{Service: &configv1alpha1.ServiceReference{Namespace: "default", Name: "kubernetes"}}
	})
	s.tells("w", 0, "Applied", "it is a Service of the hub, which cannot be called from here. Correct clientConfig: it needs a url")
	if err := s.client.Delete(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	s.runs("d", "k", 3)
}

// edit changes a configuration.
func (s *scene) edit(c *configv1alpha1.ResourceInterpreterWebhookConfiguration, change func()) {
	s.t.Helper()
	change()
	if err := s.client.Update(s.t.Context(), c); err != nil {
		s.t.Fatal(err)
	}
}
