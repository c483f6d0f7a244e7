// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package size_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/capstan-io/capstan/internal/webhook/size"
)

func TestLargeObjectsAreNotRead(t *testing.T) {
	const bytesMax = 1000
	object := func(length int) []byte {
		return []byte(`{"a":"` + strings.Repeat("x", length-len(`{"a":""}`)) + `"}`)
	}
	for name, c := range map[string]struct {
		old, object []byte
		refused     bool
	}{
		"as large as it may be": {object: object(bytesMax)},
		"larger":                {object: object(bytesMax + 1), refused: true},
		"larger than it was":    {old: object(bytesMax), object: object(bytesMax + 1), refused: true},
		"larger, as it was":     {old: object(bytesMax + 1), object: object(bytesMax + 1)},
		"deleted":               {old: object(bytesMax + 1)},
	} {
		t.Run(name, func(t *testing.T) {
			read := false
			hook := &admission.Webhook{Handler: admission.HandlerFunc(func(context.Context, admission.Request) admission.Response {
				read = true
				return admission.Allowed("")
			})}
			review := admissionv1.AdmissionReview{Request: &admissionv1.AdmissionRequest{
				UID: "1", Kind: metav1.GroupVersionKind{Kind: "Thing"}, Name: "t",
				Object: runtime.RawExtension{Raw: c.object}, OldObject: runtime.RawExtension{Raw: c.old},
			}}
			review.SetGroupVersionKind(admissionv1.SchemeGroupVersion.WithKind("AdmissionReview"))
			answer := ask(t, size.LimitObjectSize(bytesMax, map[string]*admission.Webhook{"/": hook})["/"], review)
			if answer.Allowed == c.refused || read == c.refused {
				t.Errorf("got allowed %t, and it was read: %t; %+v", answer.Allowed, read, answer.Result)
			}
			if c.refused && (answer.Result.Code != http.StatusRequestEntityTooLarge || !strings.Contains(answer.Result.Message, `the Thing "t" has 1001 bytes, and may have 1000 at most`)) {
				t.Errorf("the refusal is %+v", answer.Result)
			}
		})
	}
}

func ask(t *testing.T, handler http.Handler, review admissionv1.AdmissionReview) *admissionv1.AdmissionResponse {
	t.Helper()
	body, err := json.Marshal(review)
	if err != nil {
		t.Fatal(err)
	}
	request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/", bytes.NewReader(body))
	request.Header.Set("Content-Type", "application/json")
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, request)
	var answer admissionv1.AdmissionReview
	if err := json.Unmarshal(recorder.Body.Bytes(), &answer); err != nil {
		t.Fatal(err)
	}
	return answer.Response
}
