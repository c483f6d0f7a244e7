// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package promises

import (
	"errors"
	"fmt"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/test/integration/conformance/installation"
)

func reporting() []TestCase {
	return []TestCase{
		{Name: "well-known fields and fields by path are reported, and follow the object", Run: feedback},
		{Name: "a field of a list or an object is not reported without the gate, and says so", Run: rawFeedback},
		{Name: "CEL rules set conditions that follow the object", Run: rules},
		{Name: "a finished Job is Complete and is not recreated", Run: complete},
		{Name: "health is reported for works that enable it", Run: health},
	}
}

// deployment is a manifest of a Deployment with two replicas, which nobody runs.
const deployment = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: a, namespace: NS}, spec: {replicas: 2, selector: {matchLabels: {a: a}}, template: {metadata: {labels: {a: a}}, spec: {containers: [{name: a, image: a}]}}}}`

// ready tells in the status of the Deployment how many replicas are, as its
// controller does.
func (s *Scene) ready(replicas int32) {
	s.Helper()
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: s.ID, Name: "a"}}
	installation.Eventually(s, "telling the status of the Deployment", func() error {
		if err := s.Member.Client.Get(s.Context(), client.ObjectKeyFromObject(d), d); err != nil {
			return err
		}
		d.Status = appsv1.DeploymentStatus{
			ObservedGeneration: d.Generation, Replicas: 2, UpdatedReplicas: 2, ReadyReplicas: replicas, AvailableReplicas: replicas,
			UnavailableReplicas: 2 - replicas,
		}
		return s.Member.Client.Status().Update(s.Context(), d)
	})
}

// reports waits until the first manifest of the work reports the value.
func (s *Scene) reports(name, field, value string) {
	s.Helper()
	work := s.work(name, "{}")
	installation.Eventually(s, fmt.Sprintf("work %s reports %s=%s", name, field, value), func() error {
		if err := s.Hub.Client.Get(s.Context(), client.ObjectKeyFromObject(work), work); err != nil {
			return err
		}
		for _, m := range work.Status.ResourceStatus.Manifests {
			for _, v := range m.StatusFeedback.Values {
				if v.Name == field && textOf(v.FieldValue) == value {
					return nil
				}
			}
		}
		return errors.New(installation.Encode(work.Status.ResourceStatus))
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

func feedback(s *Scene) {
	s.Namespace()
	s.Deliver("a", `
manifestConfigs:
- resourceIdentifier: {group: apps, resource: deployments, namespace: NS, name: a}
  feedbackRules:
  - {type: WellKnownStatus}
  - {type: JSONPaths, jsonPaths: [{name: image, path: ".spec.template.spec.containers[0].image"}, {name: wanted, path: .spec.replicas}]}
`+manifestsOf(deployment))
	s.Applied("a")
	s.reports("a", "image", "a")
	s.reports("a", "wanted", "2")
	s.ready(1)
	s.reports("a", "ReadyReplicas", "1")
	s.ready(2)
	s.reports("a", "ReadyReplicas", "2")
	s.reports("a", "AvailableReplicas", "2")
	s.says("a", workv1.ManifestWorkConditionStatusFeedbackSynced, "True")
}

func rawFeedback(s *Scene) {
	s.Namespace()
	s.Deliver("a", `
manifestConfigs:
- resourceIdentifier: {group: apps, resource: deployments, namespace: NS, name: a}
  feedbackRules: [{type: JSONPaths, jsonPaths: [{name: template, path: .spec.template}, {name: wanted, path: .spec.replicas}]}]
`+manifestsOf(deployment))
	s.Applied("a")
	s.reports("a", "wanted", "2")
	s.message("a", 0, workv1.ManifestWorkConditionStatusFeedbackSynced, "False StatusFeedbackSyncFailed", "template")
}

func rules(s *Scene) {
	s.Namespace()
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
	s.Deliver("a", spec)
	s.Applied("a")
	s.says("a", workv1.ManifestWorkConditionProgressing, "True ConditionRulesAggregated")
	s.message("a", 0, workv1.ManifestWorkConditionProgressing, "True ConditionRuleEvaluated", "waiting")
	s.message("a", 0, "Broken", "False ConditionRuleExpressionError", "nothing")
	s.ready(2)
	s.says("a", workv1.ManifestWorkConditionProgressing, "False ConditionRulesAggregated")
	s.message("a", 0, workv1.ManifestWorkConditionProgressing, "False ConditionRuleEvaluated", "all ready")
}

func complete(s *Scene) {
	s.Namespace()
	s.Deliver("a", `
manifestConfigs:
- resourceIdentifier: {group: batch, resource: jobs, namespace: NS, name: a}
  conditionRules: [{type: WellKnownConditions, condition: Complete}]
`+manifestsOf(job))
	s.Applied("a")
	s.says("a", workv1.ManifestWorkConditionComplete, "False")
	s.finish("a")
	s.says("a", workv1.ManifestWorkConditionComplete, "True")
	background := metav1.DeletePropagationBackground
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: s.ID, Name: "a"}}
	if err := s.Member.Client.Delete(s.Context(), j, &client.DeleteOptions{PropagationPolicy: &background}); err != nil {
		s.Fatal(err)
	}
	s.says("a", workv1.ManifestWorkConditionAvailable, "False")
	s.Deliver("after", manifestsOf(configMap("after", "one")))
	s.Applied("after")
	s.GoneFromMember(j)
	s.says("a", workv1.ManifestWorkConditionComplete, "True")
}

func health(s *Scene) {
	s.Namespace()
	s.Deliver("a", manifestsOf(deployment))
	work := s.Applied("a")
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"annotations":{"`+workv1.AnnotationReportHealth+`":"true"}}}`))
	if err := s.Hub.Client.Patch(s.Context(), work, patch); err != nil {
		s.Fatal(err)
	}
	s.says("a", workv1.ManifestWorkConditionProgressing, "True HealthAggregated")
	s.ready(2)
	s.says("a", workv1.ManifestWorkConditionProgressing, "False HealthAggregated")
	s.says("a", workv1.ManifestWorkConditionDegraded, "False HealthAggregated")
}

// tpuPod has a container that requests the number of a resource that only this
// case has.
const tpuPod = `{apiVersion: v1, kind: Pod, metadata: {name: %s, namespace: NS}, spec: {%s containers: [{name: c, image: c, resources: {requests: {example.com/tpu: %d}, limits: {example.com/tpu: %d}}}]}}`

func requests(s *Scene) {
	s.admin("{apiVersion: v1, kind: Namespace, metadata: {name: NS}}\n---\n{apiVersion: v1, kind: ServiceAccount, metadata: {name: default, namespace: NS}}\n---\n{apiVersion: v1, kind: Node, metadata: {name: NS-node}}")
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.ID + "-node"}}
	if err := s.Member.Client.Status().Patch(s.Context(), node, client.RawPatch("application/merge-patch+json",
		[]byte(`{"status":{"capacity":{"example.com/tpu":"8"},"allocatable":{"example.com/tpu":"8"}}}`))); err != nil {
		s.Fatal(err)
	}
	s.admin(fmt.Sprintf(tpuPod, "placed", "nodeName: NS-node,", 3, 3))
	s.admin(fmt.Sprintf(tpuPod, "waiting", "", 2, 2))
	s.setModels(`[{"grade":0,"ranges":[{"name":"example.com/tpu","min":"0","max":"4"}]},{"grade":1,"ranges":[{"name":"example.com/tpu","min":"4","max":"1k"}]}]`)
	s.summarized("2 waiting, 3 placed, 1 node with four left", func(summary *fleetv1alpha1.ResourceSummary) bool {
		return tpus(summary.Allocating) == "2" && tpus(summary.Allocated) == "3" &&
			len(summary.AllocatableModelings) == 2 && summary.AllocatableModelings[1].Count == 1
	})
	s.admin(fmt.Sprintf(tpuPod, "more", "nodeName: NS-node,", 2, 2))
	s.summarized("5 placed, no node with four left", func(summary *fleetv1alpha1.ResourceSummary) bool {
		return tpus(summary.Allocated) == "5" && summary.AllocatableModelings[1].Count == 0
	})
	s.setModels("null")
	// A hub with the Cluster API asks for every cluster.
	s.summarized("the same, by the nine grades that a cluster has that names none", func(summary *fleetv1alpha1.ResourceSummary) bool {
		return tpus(summary.Allocated) == "5" && tpus(summary.Allocating) == "2" && len(summary.AllocatableModelings) == 9
	})
	if err := s.Member.Client.Delete(s.Context(), node); err != nil {
		s.Fatal(err)
	}
}

func tpus(list fleetv1alpha1.ResourceList) string {
	quantity := list["example.com/tpu"]
	return quantity.String()
}

// setModels sets the models of the cluster, as JSON.
func (s *Scene) setModels(text string) {
	s.Helper()
	connection := &fleetv1alpha1.ClusterConnection{ObjectMeta: metav1.ObjectMeta{Name: s.ClusterName()}}
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"resourceModels":`+text+`}}`))
	installation.Eventually(s, "setting the models", func() error { return s.Hub.Client.Patch(s.Context(), connection, patch) })
}

// summarized waits until the ClusterConnection has a summary as it should be.
func (s *Scene) summarized(what string, is func(*fleetv1alpha1.ResourceSummary) bool) {
	s.Helper()
	installation.Eventually(s, what, func() error {
		connection := &fleetv1alpha1.ClusterConnection{}
		if err := s.Hub.Client.Get(s.Context(), client.ObjectKey{Name: s.ClusterName()}, connection); err != nil {
			return err
		}
		status := connection.Status
		counts := meta.FindStatusCondition(status.Conditions, fleetv1alpha1.ClusterConnectionConditionCompleteResourceSummary)
		switch {
		case status.ResourceSummary == nil || !is(status.ResourceSummary):
			return errors.New(installation.Encode(status.ResourceSummary))
		case counts != nil && counts.Status != metav1.ConditionTrue:
			return errors.New(installation.Encode(counts))
		}
		return nil
	})
}
