// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package harness is a cluster of a fleet with an agent of its own, what is between this, the
// hub and the member, and how tests see that everything is as declared.
package harness

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

var Widgets = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}

// WidgetDefinition returns a kind that the member does not have by itself.
func WidgetDefinition() *apiextensionsv1.CustomResourceDefinition {
	value := apiextensionsv1.JSONSchemaProps{Type: "string"}
	spec := apiextensionsv1.JSONSchemaProps{Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"value": value}}
	return &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets.example.com"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", Scope: apiextensionsv1.NamespaceScoped,
			Names: apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Singular: "widget", Kind: "Widget", ListKind: "WidgetList"},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
					Type: "object", Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": spec},
				}},
			}},
		},
	}
}

// admission is a webhook on this machine that the member asks.
type admission struct {
	url, name string
	ca        []byte
	Asked     atomic.Int64
	// tried is set when it is asked about what would be written.
	tried atomic.Bool
}

// Admit starts a webhook that lasts as long as the test.
func (w *World) Admit(review func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse) *admission {
	w.t.Helper()
	host, err := w.maker.Fleet.Host(w.Member)
	w.Must(err)
	certificate, key, err := cert.GenerateSelfSignedCertKey(host.String(), []net.IP{host}, nil)
	w.Must(err)
	pair, err := tls.X509KeyPair(certificate, key)
	w.Must(err)
	listener, err := tls.Listen("tcp", net.JoinHostPort(host.String(), "0"), &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12})
	w.Must(err)
	a := &admission{url: "https://" + listener.Addr().String(), name: w.Namespace + ".fault.capstan.io", ca: certificate}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		a.Asked.Add(1)
		ask := &admissionv1.AdmissionReview{}
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = json.Unmarshal(body, ask)
		}
		if err != nil {
			http.Error(rw, err.Error(), http.StatusBadRequest)
			return
		}
		if ask.Request.DryRun != nil && *ask.Request.DryRun {
			a.tried.Store(true)
		}
		answer := &admissionv1.AdmissionReview{TypeMeta: ask.TypeMeta, Response: review(ask.Request)}
		answer.Response.UID = ask.Request.UID
		rw.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(rw).Encode(answer) // who asked may be gone
	})}
	go func() { _ = server.Serve(listener) }()
	w.t.Cleanup(func() { _ = server.Close() })
	return a
}

// Configuration makes the member ask the webhook about ConfigMaps of the world.
func (a *admission) Configuration(w *World) (*admissionregistrationv1.ValidatingWebhookConfiguration, *admissionregistrationv1.MutatingWebhookConfiguration) {
	none, fail := admissionregistrationv1.SideEffectClassNone, admissionregistrationv1.Fail
	config := admissionregistrationv1.WebhookClientConfig{URL: &a.url, CABundle: a.ca}
	rules := []admissionregistrationv1.RuleWithOperations{{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
	}}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: w.Namespace}}
	validating := &admissionregistrationv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: a.name},
		Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: a.name, ClientConfig: config, Rules: rules, SideEffects: &none, FailurePolicy: &fail,
			NamespaceSelector: selector, AdmissionReviewVersions: []string{"v1"},
		}},
	}
	mutating := &admissionregistrationv1.MutatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: a.name},
		Webhooks: []admissionregistrationv1.MutatingWebhook{{
			Name: a.name, ClientConfig: config, Rules: rules, SideEffects: &none, FailurePolicy: &fail,
			NamespaceSelector: selector, AdmissionReviewVersions: []string{"v1"},
		}},
	}
	return validating, mutating
}

// Asks waits until the member asks the webhook about ConfigMaps of the world, or
// until it does so no more. What it learns of a configuration, it learns later.
func (w *World) Asks(hook *admission, want bool) {
	w.t.Helper()
	trial := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.Namespace, Name: "trial"}}
	w.Eventually("the member knows which webhooks it has", func(ctx context.Context) error {
		hook.tried.Store(false)
		err := w.Member.Client.Create(ctx, trial.DeepCopy(), client.DryRunAll) // refused or not
		if got := hook.tried.Load(); got != want {
			return errors.Join(fmt.Errorf("the webhook was asked: %t, want %t", got, want), err)
		}
		return nil
	})
}

// Says waits until the condition Applied of a manifest of the work is False
// with the text.
func (w *World) Says(name, text string) {
	w.t.Helper()
	w.Eventually("the work says why", func(ctx context.Context) error {
		work := &workv1.ManifestWork{}
		if err := w.Hub.Client.Get(ctx, client.ObjectKeyFromObject(w.Work(name)), work); err != nil {
			return err
		}
		for _, manifest := range work.Status.ResourceStatus.Manifests {
			c := meta.FindStatusCondition(manifest.Conditions, workv1.ManifestConditionApplied)
			if c != nil && c.Status == metav1.ConditionFalse && strings.Contains(c.Message, text) {
				return nil
			}
		}
		return fmt.Errorf("no condition has %q: %+v", text, work.Status)
	})
}
