// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build fault

package fault

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
	"testing"
	"time"

	admissionv1 "k8s.io/api/admission/v1"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

var widgets = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Widget"}

func widgetDefinition() *apiextensionsv1.CustomResourceDefinition {
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

func TestDefinitionIsReplacedUnderItsObjects(t *testing.T) {
	w := newWorld(t)
	define := func() {
		w.eventually("the definition is there", func(ctx context.Context) error {
			return w.member.Define(ctx, []*apiextensionsv1.CustomResourceDefinition{widgetDefinition()})
		})
	}
	define()
	w.kinds = append(w.kinds, widgets)
	w.during(func() {
		w.pause(time.Second)
		w.must(w.member.Client.Delete(t.Context(), widgetDefinition()))
		w.eventually("the definition is gone", func(ctx context.Context) error {
			err := w.member.Client.Get(ctx, client.ObjectKeyFromObject(widgetDefinition()), &apiextensionsv1.CustomResourceDefinition{})
			if err == nil {
				return errors.New("it is there")
			}
			return client.IgnoreNotFound(err)
		})
		w.pause(2 * time.Second)
		define()
	})
	w.settles()
	w.clear()
	w.must(w.member.Client.Delete(t.Context(), widgetDefinition()))
}

// admission is a webhook on this machine that the member asks.
type admission struct {
	url, name string
	ca        []byte
	asked     atomic.Int64
	// tried is set when it is asked about what would be written.
	tried atomic.Bool
}

// admit starts a webhook that lasts as long as the test.
func (w *world) admit(review func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse) *admission {
	w.t.Helper()
	host, err := theFleet.Host(w.member)
	w.must(err)
	certificate, key, err := cert.GenerateSelfSignedCertKey(host.String(), []net.IP{host}, nil)
	w.must(err)
	pair, err := tls.X509KeyPair(certificate, key)
	w.must(err)
	listener, err := tls.Listen("tcp", net.JoinHostPort(host.String(), "0"), &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12})
	w.must(err)
	a := &admission{url: "https://" + listener.Addr().String(), name: w.ns + ".fault.capstan.io", ca: certificate}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		a.asked.Add(1)
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

// configuration makes the member ask the webhook about ConfigMaps of the world.
func (a *admission) configuration(w *world) (*admissionregistrationv1.ValidatingWebhookConfiguration, *admissionregistrationv1.MutatingWebhookConfiguration) {
	none, fail := admissionregistrationv1.SideEffectClassNone, admissionregistrationv1.Fail
	config := admissionregistrationv1.WebhookClientConfig{URL: &a.url, CABundle: a.ca}
	rules := []admissionregistrationv1.RuleWithOperations{{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create, admissionregistrationv1.Update},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
	}}
	selector := &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: w.ns}}
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

// asks waits until the member asks the webhook about ConfigMaps of the world, or
// until it does so no more. What it learns of a configuration, it learns later.
func (w *world) asks(hook *admission, want bool) {
	w.t.Helper()
	trial := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: "trial"}}
	w.eventually("the member knows which webhooks it has", func(ctx context.Context) error {
		hook.tried.Store(false)
		err := w.member.Client.Create(ctx, trial.DeepCopy(), client.DryRunAll) // refused or not
		if got := hook.tried.Load(); got != want {
			return errors.Join(fmt.Errorf("the webhook was asked: %t, want %t", got, want), err)
		}
		return nil
	})
}

// says waits until the condition Applied of a manifest of the work is False
// with the text.
func (w *world) says(name, text string) {
	w.t.Helper()
	w.eventually("the work says why", func(ctx context.Context) error {
		work := &workv1.ManifestWork{}
		if err := w.hub.Client.Get(ctx, client.ObjectKeyFromObject(w.work(name)), work); err != nil {
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

func TestWebhookOfTheMemberRefuses(t *testing.T) {
	w := newWorld(t)
	hook := w.admit(func(*admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		return &admissionv1.AdmissionResponse{Result: &metav1.Status{Message: "not today", Code: http.StatusForbidden}}
	})
	validating, _ := hook.configuration(w)
	w.during(func() {
		w.must(w.member.Client.Create(t.Context(), validating))
		w.asks(hook, true)
		w.must(w.hub.Client.Create(t.Context(), w.work("refused", w.object("ConfigMap", "refused", "1"))))
		w.says("refused", "not today")
		t.Logf("asked %d times", hook.asked.Load())
		w.must(w.member.Client.Delete(t.Context(), validating))
	})
	w.settles()
	w.clear()
}

func TestWebhookOfTheMemberMutates(t *testing.T) {
	w := newWorld(t)
	patchType := admissionv1.PatchTypeJSONPatch
	hook := w.admit(func(r *admissionv1.AdmissionRequest) *admissionv1.AdmissionResponse {
		answer := &admissionv1.AdmissionResponse{Allowed: true, PatchType: &patchType}
		answer.Patch = []byte(`[{"op":"add","path":"/data/added","value":"by the webhook"}]`)
		if r.Name == "mangled" {
			answer.Patch = []byte(`[{"op":"add","path":"/data/value","value":"mangled"}]`)
		}
		return answer
	})
	_, mutating := hook.configuration(w)
	w.must(w.member.Client.Create(t.Context(), mutating))
	w.asks(hook, true)
	w.during(func() { w.pause(2 * time.Second) })
	w.settles() // what the webhook adds is not ours, and not fought

	// What it makes of our own field is seen by nobody but our next write, so there is none.
	w.must(w.hub.Client.Create(t.Context(), w.work("mangled", w.object("ConfigMap", "mangled", "1"))))
	w.eventually("the work is applied", func(ctx context.Context) error {
		work := &workv1.ManifestWork{}
		if err := w.hub.Client.Get(ctx, client.ObjectKeyFromObject(w.work("mangled")), work); err != nil {
			return err
		}
		return isDone(work)
	})
	before := hook.asked.Load()
	w.worksAreLookedAt()
	w.worksAreLookedAt()
	if asked := hook.asked.Load() - before; asked > 3 {
		t.Errorf("%d writes against a webhook that cannot be overruled, at two looks", asked)
	}
	w.must(w.member.Client.Delete(t.Context(), mutating))
	w.asks(hook, false)
	w.must(w.put(t.Context(), w.work("mangled", w.object("ConfigMap", "mangled", "2"))))
	w.settles()
	w.clear()
}

func TestQuotaIsExceeded(t *testing.T) {
	w := newWorld(t)
	quota := &corev1.ResourceQuota{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.ns, Name: "tight"},
		Spec:       corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{"count/configmaps": resource.MustParse("5")}},
	}
	w.must(w.member.Client.Create(t.Context(), quota))
	w.eventually("the quota counts", func(ctx context.Context) error {
		err := w.member.Client.Get(ctx, client.ObjectKeyFromObject(quota), quota)
		if err == nil && len(quota.Status.Hard) == 0 {
			err = errors.New("it does not")
		}
		return err
	})
	w.during(func() {
		manifests := make([]workv1.Manifest, 0, 10)
		for i := range 10 {
			manifests = append(manifests, w.object("ConfigMap", fmt.Sprintf("many-%d", i), "1"))
		}
		w.must(w.hub.Client.Create(t.Context(), w.work("many", manifests...)))
		w.says("many", "exceeded quota")
		w.must(w.member.Client.Delete(t.Context(), quota))
	})
	w.settles()
	w.clear()
}

// TestRecordsAreDeleted deletes AppliedManifestWorks while works change: no
// object that a work keeps is deleted.
func TestRecordsAreDeleted(t *testing.T) {
	w := newWorld(t)
	w.must(w.hub.Client.Create(t.Context(), w.work("stays", w.object("ConfigMap", "stays", "1"), w.object("Secret", "stays", "AAAA"))))
	w.settles()
	before, err := w.objects(t.Context())
	w.must(err)
	w.during(func() {
		for range 4 {
			records, err := w.records(t.Context())
			w.must(err)
			for _, record := range records {
				if err := w.member.Client.Delete(t.Context(), &record); err != nil && !apierrors.IsNotFound(err) {
					t.Fatal(err)
				}
			}
			w.pause(time.Second)
		}
	})
	w.settles()
	after, err := w.objects(t.Context())
	w.must(err)
	for k, object := range before {
		if now := after[k]; now.GetUID() != object.GetUID() {
			t.Errorf("%v was deleted and made again", k)
		}
	}
	w.clear()
}
