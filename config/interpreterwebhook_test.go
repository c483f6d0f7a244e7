// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"encoding/json"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/capstan-io/capstan/apis/karmada/config/v1alpha1"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// interpreterWebhook returns a configuration that is accepted, and its webhook.
func interpreterWebhook() (*configv1alpha1.ResourceInterpreterWebhookConfiguration, *configv1alpha1.ResourceInterpreterWebhook) {
	at := "https://interpreter.example.com:8443/workloads"
	c := &configv1alpha1.ResourceInterpreterWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "workloads"},
		Webhooks: []configv1alpha1.ResourceInterpreterWebhook{{
			Name:         "workloads.example.com",
			ClientConfig: configv1alpha1.WebhookClientConfig{URL: &at},
			Rules: []configv1alpha1.RuleWithOperations{{
				Operations: []configv1alpha1.InterpreterOperation{configv1alpha1.InterpreterOperationRetain, configv1alpha1.InterpreterOperationInterpretHealth},
				Rule:       configv1alpha1.Rule{APIGroups: []string{"example.com"}, APIVersions: []string{"v1"}, Kinds: []string{"Workload"}},
			}},
			InterpreterContextVersions: []string{"v1alpha1"},
		}},
	}
	return c, &c.Webhooks[0]
}

func TestTheDefinitionOfInterpreterWebhooksRefuses(t *testing.T) {
	scheme := runtime.NewScheme()
	expect.NoError(t, configv1alpha1.AddToScheme(scheme))
	hub, err := client.New(startHub(t), client.Options{Scheme: scheme})
	expect.NoError(t, err)
	type webhook = configv1alpha1.ResourceInterpreterWebhook
	of := func(refusal string, change func(*webhook)) interpreterWebhookCase {
		return interpreterWebhookCase{refusal: refusal, change: func(_ *configv1alpha1.ResourceInterpreterWebhookConfiguration, w *webhook) { change(w) }}
	}
	at := func(url, refusal string) interpreterWebhookCase {
		return of(refusal, func(w *webhook) { w.ClientConfig.URL = &url })
	}
	service := func(refusal string, change func(*configv1alpha1.ServiceReference)) interpreterWebhookCase {
		return of(refusal, func(w *webhook) {
			w.ClientConfig = configv1alpha1.WebhookClientConfig{Service: &configv1alpha1.ServiceReference{Namespace: "shop", Name: "interpreter"}, CABundle: []byte("x")}
			change(w.ClientConfig.Service)
		})
	}
	path := func(path, refusal string) interpreterWebhookCase {
		return service(refusal, func(s *configv1alpha1.ServiceReference) { s.Path = &path })
	}
	rule := func(refusal string, change func(*configv1alpha1.RuleWithOperations)) interpreterWebhookCase {
		return of(refusal, func(w *webhook) { change(&w.Rules[0]) })
	}
	number := func(n int32) *int32 { return &n }
	cases := map[string]interpreterWebhookCase{
		"a webhook":   {},
		"no webhooks": {change: func(c *configv1alpha1.ResourceInterpreterWebhookConfiguration, _ *webhook) { c.Webhooks = []webhook{} }},
		"a name twice": {refusal: "webhooks[1]: Duplicate value", change: func(c *configv1alpha1.ResourceInterpreterWebhookConfiguration, w *webhook) {
			c.Webhooks = append(c.Webhooks, *w)
		}},
		"a short name": of("has to be a domain name of at least three parts", func(w *webhook) { w.Name = "example.com" }),

		"neither url nor service":     of("has either url or service", func(w *webhook) { w.ClientConfig.URL = nil }),
		"both":                        of("has either url or service", func(w *webhook) { w.ClientConfig.Service = &configv1alpha1.ServiceReference{Namespace: "a", Name: "b"} }),
		"http":                        at("http://interpreter.example.com", "has to be a URL such as https://"),
		"no host":                     at("https:///workloads", "has to be a URL such as https://"),
		"no URL":                      at("interpreter.example.com", "has to be a URL such as https://"),
		"credentials in the url":      at("https://me:secret@interpreter.example.com/", "must not have credentials"),
		"a query":                     at("https://interpreter.example.com/?token=secret", "must not have credentials, a query or a fragment"),
		"a fragment":                  at("https://interpreter.example.com/#a", "must not have credentials, a query or a fragment"),
		"an at sign in the path":      at("https://interpreter.example.com/a@b", ""),
		"an IPv6 address":             at("https://[2001:db8::1]:8443/", ""),
		"a service":                   service("", func(*configv1alpha1.ServiceReference) {}),
		"a service without namespace": service("webhooks[0].clientConfig.service.namespace", func(s *configv1alpha1.ServiceReference) { s.Namespace = "" }),
		"a service of another form":   service("has to be the name of a Service", func(s *configv1alpha1.ServiceReference) { s.Name = "evil.example.com/" }),
		"a namespace of another form": service("has to be the name of a namespace", func(s *configv1alpha1.ServiceReference) { s.Namespace = "a.b" }),
		"a port that is none":         service("webhooks[0].clientConfig.service.port", func(s *configv1alpha1.ServiceReference) { s.Port = number(0) }),
		"a path":                      path("/workloads/v1", ""),
		"a path without a slash":      path("workloads", "has to be a path such as /workloads"),
		"a path that leads out":       path("/../../secrets", "has to be a path such as /workloads"),
		"a path with a query":         path("/a?b", "has to be a path such as /workloads"),

		"no rules": of("", func(w *webhook) { w.Rules = nil }),
		"everything": rule("", func(r *configv1alpha1.RuleWithOperations) {
			r.Operations = []configv1alpha1.InterpreterOperation{"*"}
			r.APIGroups, r.APIVersions, r.Kinds = []string{"*"}, []string{"*"}, []string{"*"}
		}),
		"the core group": rule("", func(r *configv1alpha1.RuleWithOperations) { r.APIGroups = []string{""} }),
		"no operation":   rule("webhooks[0].rules[0].operations: Invalid value: 0", func(r *configv1alpha1.RuleWithOperations) { r.Operations = []configv1alpha1.InterpreterOperation{} }),
		"an operation of no name": rule("webhooks[0].rules[0].operations[0]: Unsupported value", func(r *configv1alpha1.RuleWithOperations) {
			r.Operations = []configv1alpha1.InterpreterOperation{"Guess"}
		}),
		"all operations and one": rule("* is all operations: remove it, or the others", func(r *configv1alpha1.RuleWithOperations) {
			r.Operations = []configv1alpha1.InterpreterOperation{"*", "Retain"}
		}),
		"no group":              rule("webhooks[0].rules[0].apiGroups", func(r *configv1alpha1.RuleWithOperations) { r.APIGroups = []string{} }),
		"all groups and one":    rule("* is all groups", func(r *configv1alpha1.RuleWithOperations) { r.APIGroups = []string{"apps", "*"} }),
		"no version":            rule("webhooks[0].rules[0].apiVersions", func(r *configv1alpha1.RuleWithOperations) { r.APIVersions = []string{} }),
		"all versions and one":  rule("* is all versions", func(r *configv1alpha1.RuleWithOperations) { r.APIVersions = []string{"v1", "*"} }),
		"no kind":               rule("webhooks[0].rules[0].kinds", func(r *configv1alpha1.RuleWithOperations) { r.Kinds = []string{} }),
		"all kinds and one":     rule("* is all kinds", func(r *configv1alpha1.RuleWithOperations) { r.Kinds = []string{"*", "Workload"} }),
		"a kind without a name": rule("webhooks[0].rules[0].kinds[0]", func(r *configv1alpha1.RuleWithOperations) { r.Kinds = []string{""} }),

		"no time":           of("webhooks[0].timeoutSeconds", func(w *webhook) { w.TimeoutSeconds = number(0) }),
		"a lot of time":     of("webhooks[0].timeoutSeconds", func(w *webhook) { w.TimeoutSeconds = number(31) }),
		"another version":   of("has to contain v1alpha1", func(w *webhook) { w.InterpreterContextVersions = []string{"v1"} }),
		"several versions":  of("", func(w *webhook) { w.InterpreterContextVersions = []string{"v1", "v1alpha1"} }),
		"no version at all": of("has to contain v1alpha1", func(w *webhook) { w.InterpreterContextVersions = []string{} }),
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			object, webhook := interpreterWebhook()
			if c.change != nil {
				c.change(object, webhook)
			}
			err := hub.Create(t.Context(), object, client.DryRunAll)
			switch {
			case c.refusal == "" && err != nil:
				t.Errorf("it is refused: %v", err)
			case c.refusal == "":
				checkDefaults(t, object)
			case !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), c.refusal):
				t.Errorf("got %v, want a refusal with %q", err, c.refusal)
			}
		})
	}
}

// checkDefaults checks what is filled in of a configuration.
func checkDefaults(t *testing.T, object *configv1alpha1.ResourceInterpreterWebhookConfiguration) {
	t.Helper()
	for _, webhook := range object.Webhooks {
		if *webhook.TimeoutSeconds != 10 {
			t.Errorf("it may take %d seconds, want 10", *webhook.TimeoutSeconds)
		}
		if service := webhook.ClientConfig.Service; service != nil && *service.Port != 443 {
			t.Errorf("the port is %d, want 443", *service.Port)
		}
	}
}

type interpreterWebhookCase struct {
	change func(*configv1alpha1.ResourceInterpreterWebhookConfiguration, *configv1alpha1.ResourceInterpreterWebhook)
	// refusal is a part of the message; empty if the object is accepted.
	refusal string
}

// TestWhatWebhooksAreSent keeps the names of fields that webhooks for Karmada read
// and write.
func TestWhatWebhooksAreSent(t *testing.T) {
	two, yes, kind := int32(2), true, configv1alpha1.PatchTypeJSONPatch
	context := configv1alpha1.ResourceInterpreterContext{
		TypeMeta: metav1.TypeMeta{APIVersion: configv1alpha1.GroupVersion.String(), Kind: configv1alpha1.InterpreterContextKind},
		Request: &configv1alpha1.ResourceInterpreterRequest{
			UID: "u", Kind: metav1.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Workload"}, Name: "a", Namespace: "b",
			Operation: configv1alpha1.InterpreterOperationReviseReplica, Object: runtime.RawExtension{Raw: []byte("{}")},
			ObservedObject: &runtime.RawExtension{Raw: []byte("{}")}, DesiredReplicas: &two,
		},
		Response: &configv1alpha1.ResourceInterpreterResponse{
			UID: "u", Successful: true, Status: &configv1alpha1.RequestStatus{Message: "m", Code: 500}, Patch: []byte("[]"), PatchType: &kind,
			Replicas: &two, Dependencies: []configv1alpha1.DependentObjectReference{{APIVersion: "v1", Kind: "Secret", Namespace: "b", Name: "s"}},
			RawStatus: &runtime.RawExtension{Raw: []byte("{}")}, Healthy: &yes,
		},
	}
	text, err := json.Marshal(context)
	expect.NoError(t, err)
	const want = `{"kind":"ResourceInterpreterContext","apiVersion":"config.karmada.io/v1alpha1",` +
		`"request":{"uid":"u","kind":{"group":"example.com","version":"v1","kind":"Workload"},"name":"a","namespace":"b",` +
		`"operation":"ReviseReplica","object":{},"observedObject":{},"replicas":2},` +
		`"response":{"uid":"u","successful":true,"status":{"message":"m","code":500},"patch":"W10=","patchType":"JSONPatch","replicas":2,` +
		`"dependencies":[{"apiVersion":"v1","kind":"Secret","namespace":"b","name":"s"}],"rawStatus":{},"healthy":true}}`
	if string(text) != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
}
