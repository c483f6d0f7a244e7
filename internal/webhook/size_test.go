// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package webhook_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/webhook/cluster"
	"github.com/capstan-io/capstan/internal/webhook/propagation"
	"github.com/capstan-io/capstan/internal/webhook/work"
)

// TestNoWebhookReadsWhatCannotBeStored sends what whoever may try to write a kind can send.
// To read an object takes many times what it has as a text.
func TestNoWebhookReadsWhatCannotBeStored(t *testing.T) {
	clients, err := kubernetes.NewForConfig(&rest.Config{})
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]http.Handler{}
	add := func(handlers map[string]http.Handler, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		maps.Copy(all, handlers)
	}
	add(cluster.WebhookHandlers(t.Context(), cluster.WebhookOptions{Clients: clients, Clock: clocktesting.NewFakePassiveClock(now())}))
	add(work.WebhookHandlers(work.WebhookOptions{Clients: clients, ManifestsSizeMax: workv1.ManifestsSizeMax}))
	add(propagation.WebhookHandlers(propagation.WebhookOptions{Clients: clients}))
	object := `{"metadata":{"name":"x"},"spec":{"list":[` + strings.Repeat("0,", 1_500_000) + `0]}}`
	for path, handler := range all {
		t.Run(path, func(t *testing.T) {
			review := admissionv1.AdmissionReview{Request: &admissionv1.AdmissionRequest{
				UID: "1", Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: []byte(object)},
			}}
			review.SetGroupVersionKind(admissionv1.SchemeGroupVersion.WithKind("AdmissionReview"))
			body, err := json.Marshal(review)
			if err != nil {
				t.Fatal(err)
			}
			request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, bytes.NewReader(body))
			request.Header.Set("Content-Type", "application/json")
			recorder := httptest.NewRecorder()
			handler.ServeHTTP(recorder, request)
			var answer admissionv1.AdmissionReview
			if err := json.Unmarshal(recorder.Body.Bytes(), &answer); err != nil {
				t.Fatal(err)
			}
			if answer.Response.Allowed || answer.Response.Result.Code != http.StatusRequestEntityTooLarge {
				t.Errorf("got allowed %t, %.200v", answer.Response.Allowed, answer.Response.Result)
			}
		})
	}
}
