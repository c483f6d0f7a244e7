// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	configv1alpha1 "github.com/capstan-io/capstan/apis/karmada/config/v1alpha1"
	"github.com/capstan-io/capstan/apis/karmada/work/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// labelUnanswered is on CronJobs about which the webhook has no answer.
const labelUnanswered = "unanswered"

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
	if json.Unmarshal(question.Request.Object.Raw, object) != nil || object.Labels[labelUnanswered] != "" {
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

// cronJob returns a CronJob with the labels.
func cronJob(labels string) string {
	return "{apiVersion: batch/v1, kind: CronJob, metadata: {name: a, namespace: NS, labels: {" + labels + "}}, " +
		`spec: {schedule: "0 0 1 1 *", suspend: false, jobTemplate: {spec: {` +
		strings.Replace(podTemplate, "spec: {", "spec: {restartPolicy: Never, ", 1) + "}}}}"
}

// interpreted binds a CronJob, and waits until the agent asks the webhook about it.
func (s *scene) interpreted() *batchv1.CronJob {
	s.Helper()
	s.namespace()
	s.hub.apply(s, s.hub.interpreter)
	s.bind("a", manifestsOf(cronJob(`step: "1"`)))
	s.applied("a")
	s.reports("a", v1alpha1.FeedbackStatus, `{"jobs":0}`)
	s.reports("a", v1alpha1.FeedbackHealth, "Unhealthy")
	return &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: s.id, Name: "a"}}
}

func askedWebhook(s *scene) {
	a := s.interpreted()
	s.patchMember(a, `{"spec":{"suspend":true}}`)
	s.rebind("a", cronJob(`step: "2"`))
	eventually(s, "telling the status of the CronJob", func() error {
		if err := s.member.client.Get(s.Context(), client.ObjectKeyFromObject(a), a); err != nil {
			return err
		}
		a.Status.Active = []corev1.ObjectReference{{Namespace: s.id, Name: "a-1"}}
		return s.member.client.Status().Update(s.Context(), a)
	})
	if a.Labels["step"] != "2" || !*a.Spec.Suspend {
		s.Errorf("the object is %s", encode(a))
	}
	s.reports("a", v1alpha1.FeedbackStatus, `{"jobs":1}`)
	s.reports("a", v1alpha1.FeedbackHealth, "Healthy")
}

func unansweredWebhook(s *scene) {
	a := s.interpreted()
	s.deliver("a", manifestsOf(cronJob(`step: "2", `+labelUnanswered+`: "true"`)))
	s.message("a", 0, workv1.ManifestConditionApplied, "False AppliedManifestFailed",
		`webhook "cronjobs.example.com" of ResourceInterpreterWebhookConfiguration "cronjobs", Retain of CronJob`, "it answers with status 503")
	if err := s.member.client.Get(s.Context(), client.ObjectKeyFromObject(a), a); err != nil {
		s.Fatal(err)
	}
	if a.Labels["step"] != "1" {
		s.Errorf("the object is %s", encode(a))
	}
	s.rebind("a", cronJob(`step: "3"`))
}
