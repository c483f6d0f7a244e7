// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"errors"
	"fmt"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

func reporting() []testCase {
	return []testCase{
		{name: "well-known fields and fields by path are reported, and follow the object", run: feedback},
		{name: "a field of a list or an object is not reported without the gate, and says so", run: rawFeedback},
		{name: "CEL rules set conditions that follow the object", run: rules},
		{name: "a finished Job is Complete and is not recreated", run: complete},
		{name: "health is reported for works that enable it", run: health},
	}
}

// deployment is a manifest of a Deployment with two replicas, which nobody runs.
const deployment = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: a, namespace: NS}, spec: {replicas: 2, selector: {matchLabels: {a: a}}, template: {metadata: {labels: {a: a}}, spec: {containers: [{name: a, image: a}]}}}}`

// ready tells in the status of the Deployment how many replicas are, as its
// controller does.
func (s *scene) ready(replicas int32) {
	s.Helper()
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: s.id, Name: "a"}}
	eventually(s, "telling the status of the Deployment", func() error {
		if err := s.member.client.Get(s.Context(), client.ObjectKeyFromObject(d), d); err != nil {
			return err
		}
		d.Status = appsv1.DeploymentStatus{
			ObservedGeneration: d.Generation, Replicas: 2, UpdatedReplicas: 2, ReadyReplicas: replicas, AvailableReplicas: replicas,
			UnavailableReplicas: 2 - replicas,
		}
		return s.member.client.Status().Update(s.Context(), d)
	})
}

// reports waits until the first manifest of the work reports the value.
func (s *scene) reports(name, field, value string) {
	s.Helper()
	work := s.work(name, "{}")
	eventually(s, fmt.Sprintf("work %s reports %s=%s", name, field, value), func() error {
		if err := s.hub.client.Get(s.Context(), client.ObjectKeyFromObject(work), work); err != nil {
			return err
		}
		for _, m := range work.Status.ResourceStatus.Manifests {
			for _, v := range m.StatusFeedback.Values {
				if v.Name == field && textOf(v.FieldValue) == value {
					return nil
				}
			}
		}
		return errors.New(encode(work.Status.ResourceStatus))
	})
}

func textOf(v workv1.FieldValue) string {
	switch {
	case v.Integer != nil:
		return strconv.FormatInt(*v.Integer, 10)
	case v.String != nil:
		return *v.String
	case v.Boolean != nil:
		return strconv.FormatBool(*v.Boolean)
	case v.JSONRaw != nil:
		return *v.JSONRaw
	}
	return ""
}

func feedback(s *scene) {
	s.namespace()
	s.deliver("a", `
manifestConfigs:
- resourceIdentifier: {group: apps, resource: deployments, namespace: NS, name: a}
  feedbackRules:
  - {type: WellKnownStatus}
  - {type: JSONPaths, jsonPaths: [{name: image, path: ".spec.template.spec.containers[0].image"}, {name: wanted, path: .spec.replicas}]}
`+manifestsOf(deployment))
	s.applied("a")
	s.reports("a", "image", "a")
	s.reports("a", "wanted", "2")
	s.ready(1)
	s.reports("a", "ReadyReplicas", "1")
	s.ready(2)
	s.reports("a", "ReadyReplicas", "2")
	s.reports("a", "AvailableReplicas", "2")
	s.says("a", workv1.ManifestWorkConditionStatusFeedbackSynced, "True")
}

func rawFeedback(s *scene) {
	s.namespace()
	s.deliver("a", `
manifestConfigs:
- resourceIdentifier: {group: apps, resource: deployments, namespace: NS, name: a}
  feedbackRules: [{type: JSONPaths, jsonPaths: [{name: template, path: .spec.template}, {name: wanted, path: .spec.replicas}]}]
`+manifestsOf(deployment))
	s.applied("a")
	s.reports("a", "wanted", "2")
	s.message("a", 0, workv1.ManifestWorkConditionStatusFeedbackSynced, "False StatusFeedbackSyncFailed", "template")
}

func rules(s *scene) {
	s.namespace()
	spec := `
manifestConfigs:
- resourceIdentifier: {group: apps, resource: deployments, namespace: NS, name: a}
  conditionRules:
  - type: CEL
    condition: Progressing
    celExpressions: ["object.?status.readyReplicas.orValue(0) < object.spec.replicas"]
    messageExpression: "result ? 'waiting' : 'all ready'"
  - {type: CEL, condition: Broken, celExpressions: ["object.spec.nothing.here"]}
` + manifestsOf(deployment)
	s.deliver("a", spec)
	s.applied("a")
	s.says("a", workv1.ManifestWorkConditionProgressing, "True ConditionRulesAggregated")
	s.message("a", 0, workv1.ManifestWorkConditionProgressing, "True ConditionRuleEvaluated", "waiting")
	s.message("a", 0, "Broken", "False ConditionRuleExpressionError", "nothing")
	s.ready(2)
	s.says("a", workv1.ManifestWorkConditionProgressing, "False ConditionRulesAggregated")
	s.message("a", 0, workv1.ManifestWorkConditionProgressing, "False ConditionRuleEvaluated", "all ready")
}

func complete(s *scene) {
	s.namespace()
	s.deliver("a", `
manifestConfigs:
- resourceIdentifier: {group: batch, resource: jobs, namespace: NS, name: a}
  conditionRules: [{type: WellKnownConditions, condition: Complete}]
`+manifestsOf(job))
	s.applied("a")
	s.says("a", workv1.ManifestWorkConditionComplete, "False")
	s.finish("a")
	s.says("a", workv1.ManifestWorkConditionComplete, "True")
	background := metav1.DeletePropagationBackground
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: s.id, Name: "a"}}
	if err := s.member.client.Delete(s.Context(), j, &client.DeleteOptions{PropagationPolicy: &background}); err != nil {
		s.Fatal(err)
	}
	s.says("a", workv1.ManifestWorkConditionAvailable, "False")
	s.deliver("after", manifestsOf(configMap("after", "one")))
	s.applied("after")
	s.goneFromMember(j)
	s.says("a", workv1.ManifestWorkConditionComplete, "True")
}

func health(s *scene) {
	s.namespace()
	s.deliver("a", manifestsOf(deployment))
	work := s.applied("a")
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"`+workv1.AnnotationReportHealth+`":"true"}}}`))
	if err := s.hub.client.Patch(s.Context(), work, patch); err != nil {
		s.Fatal(err)
	}
	s.says("a", workv1.ManifestWorkConditionProgressing, "True HealthAggregated")
	s.ready(2)
	s.says("a", workv1.ManifestWorkConditionProgressing, "False HealthAggregated")
	s.says("a", workv1.ManifestWorkConditionDegraded, "False HealthAggregated")
}
