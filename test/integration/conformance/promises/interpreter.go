// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package promises

import (
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-io/capstan/apis/karmada/work/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/test/integration/conformance/installation"
)

// cronJob returns a CronJob with the labels.
func cronJob(labels string) string {
	return "{apiVersion: batch/v1, kind: CronJob, metadata: {name: a, namespace: NS, labels: {" + labels + "}}, " +
		`spec: {schedule: "0 0 1 1 *", suspend: false, jobTemplate: {spec: {` +
		strings.Replace(podTemplate, "spec: {", "spec: {restartPolicy: Never, ", 1) + "}}}}"
}

// interpreted binds a CronJob, and waits until the agent asks the webhook about it.
func (s *Scene) interpreted() *batchv1.CronJob {
	s.Helper()
	s.Namespace()
	s.Hub.ApplyText(s, s.Hub.Interpreter)
	s.bind("a", manifestsOf(cronJob(`step: "1"`)))
	s.Applied("a")
	s.reports("a", v1alpha1.FeedbackStatus, `{"jobs":0}`)
	s.reports("a", v1alpha1.FeedbackHealth, "Unhealthy")
	return &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: s.ID, Name: "a"}}
}

func askedWebhook(s *Scene) {
	a := s.interpreted()
	s.patchMember(a, `{"spec":{"suspend":true}}`)
	s.rebind("a", cronJob(`step: "2"`))
	installation.Eventually(s, "telling the status of the CronJob", func() error {
		if err := s.Member.Client.Get(s.Context(), client.ObjectKeyFromObject(a), a); err != nil {
			return err
		}
		a.Status.Active = []corev1.ObjectReference{{Namespace: s.ID, Name: "a-1"}}
		return s.Member.Client.Status().Update(s.Context(), a)
	})
	if a.Labels["step"] != "2" || !*a.Spec.Suspend {
		s.Errorf("the object is %s", installation.Encode(a))
	}
	s.reports("a", v1alpha1.FeedbackStatus, `{"jobs":1}`)
	s.reports("a", v1alpha1.FeedbackHealth, "Healthy")
}

func unansweredWebhook(s *Scene) {
	a := s.interpreted()
	s.Deliver("a", manifestsOf(cronJob(`step: "2", `+installation.LabelUnanswered+`: "true"`)))
	s.message("a", 0, workv1.ManifestConditionApplied, "False AppliedManifestFailed",
		`webhook "cronjobs.example.com" of ResourceInterpreterWebhookConfiguration "cronjobs", Retain of CronJob`, "it answers with status 503")
	if err := s.Member.Client.Get(s.Context(), client.ObjectKeyFromObject(a), a); err != nil {
		s.Fatal(err)
	}
	if a.Labels["step"] != "1" {
		s.Errorf("the object is %s", installation.Encode(a))
	}
	s.rebind("a", cronJob(`step: "3"`))
}
