// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package installation

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/runtime"

	configv1alpha1 "github.com/capstan-io/capstan/apis/karmada/config/v1alpha1"
)

// LabelUnanswered is on CronJobs about which the webhook has no answer.
const LabelUnanswered = "unanswered"

// startInterpreter starts the webhook that all modes ask about CronJobs, and returns
// the configuration that says so.
func startInterpreter(t testing.TB) string {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(interpret))
	t.Cleanup(server.Close)
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return fmt.Sprintf(`
apiVersion: config.karmada.io/v1alpha1
kind: ResourceInterpreterWebhookConfiguration
metadata: {name: cronjobs}
webhooks:
- name: cronjobs.example.com
  clientConfig: {url: %q, caBundle: %s}
  rules: [{operations: [Retain, InterpretStatus, InterpretHealth], apiGroups: [batch], apiVersions: [v1], kinds: [CronJob]}]
  interpreterContextVersions: [v1alpha1]`, server.URL, base64.StdEncoding.EncodeToString(certificate))
}

// interpret leaves to the cluster whether a CronJob is suspended, reports how many Jobs
// are active, and is content with any.
func interpret(w http.ResponseWriter, r *http.Request) {
	question := configv1alpha1.ResourceInterpreterContext{}
	if err := json.NewDecoder(r.Body).Decode(&question); err != nil || question.Request == nil {
		http.Error(w, "this is no question", http.StatusBadRequest)
		return
	}
	object, observed := &batchv1.CronJob{}, &batchv1.CronJob{}
	if json.Unmarshal(question.Request.Object.Raw, object) != nil || object.Labels[LabelUnanswered] != "" {
		w.WriteHeader(http.StatusServiceUnavailable)
		return
	}
	answer := &configv1alpha1.ResourceInterpreterResponse{UID: question.Request.UID, Successful: true}
	switch question.Request.Operation {
	case configv1alpha1.InterpreterOperationRetain:
		if question.Request.ObservedObject == nil || json.Unmarshal(question.Request.ObservedObject.Raw, observed) != nil || observed.Spec.Suspend == nil {
			http.Error(w, "there is no observed object", http.StatusBadRequest)
			return
		}
		answer.PatchType = new(configv1alpha1.PatchTypeJSONPatch)
		answer.Patch = fmt.Appendf(nil, `[{"op":"add","path":"/spec/suspend","value":%t}]`, *observed.Spec.Suspend)
	case configv1alpha1.InterpreterOperationInterpretStatus:
		answer.RawStatus = &runtime.RawExtension{Raw: fmt.Appendf(nil, `{"jobs":%d}`, len(object.Status.Active))}
	default:
		answer.Healthy = new(len(object.Status.Active) > 0)
	}
	_ = json.NewEncoder(w).Encode(configv1alpha1.ResourceInterpreterContext{Response: answer}) // whoever asked may be gone
}
