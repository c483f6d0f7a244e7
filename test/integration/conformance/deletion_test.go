// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"errors"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

func foreground(s *scene) {
	s.namespace()
	s.deliver("a", manifestsOf(configMap("a", "one"), configMap("b", "one")))
	s.applied("a")
	s.edit("a", `{"metadata":{"finalizers":["conformance.example.com/hold"]}}`)
	s.startRemoving("a")
	s.hasNot("b")
	work := s.says("a", workv1.ManifestWorkConditionDeleting, "True WorkDeleting")
	for _, c := range work.Status.Conditions {
		if c.Type == workv1.ManifestWorkConditionDeleting {
			s.contains(c.Message, "a", "conformance.example.com/hold")
		}
	}
	s.edit("a", `{"metadata":{"finalizers":null}}`)
	s.hasNot("a")
	s.gone("a")
}

// free fails the test unless the ConfigMap stays with its value and has no mark
// of a work.
func (s *scene) free(name string) {
	s.Helper()
	eventually(s, "ConfigMap "+name+" is nobody's", func() error {
		found := s.has(name, "one")
		if len(found.OwnerReferences) > 0 || found.Labels[workv1.LabelManaged] != "" {
			return errors.New("it has marks of a work: " + encode(found.ObjectMeta))
		}
		return nil
	})
}

func orphan(s *scene) {
	s.namespace()
	s.deliver("a", "deleteOption: {propagationPolicy: Orphan}\n"+manifestsOf(configMap("a", "one"), configMap("b", "one")))
	s.applied("a")
	s.remove("a")
	s.free("a")
	s.free("b")
}

func selectivelyOrphan(s *scene) {
	s.namespace()
	s.deliver("a", `
deleteOption:
  propagationPolicy: SelectivelyOrphan
  selectivelyOrphans:
    orphaningRules: [{resource: configmaps, namespace: NS, name: "keep-*"}]
`+manifestsOf(configMap("keep-a", "one"), configMap("b", "one")))
	s.applied("a")
	s.remove("a")
	s.hasNot("b")
	s.free("keep-a")
}

func timeToLive(s *scene) {
	s.namespace()
	s.deliver("a", `
deleteOption: {propagationPolicy: Foreground, ttlSecondsAfterFinished: 0}
manifestConfigs:
- resourceIdentifier: {group: batch, resource: jobs, namespace: NS, name: a}
  conditionRules: [{type: WellKnownConditions, condition: Complete}]
`+manifestsOf(job))
	s.applied("a")
	s.finish("a")
	s.gone("a")
	s.goneFromMember(&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: s.id, Name: "a"}})
}

// job is a manifest of a Job.
const job = `{apiVersion: batch/v1, kind: Job, metadata: {name: a, namespace: NS}, spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: a}]}}}}`

// finish tells in the status of a Job that it is complete, as its controller does.
func (s *scene) finish(name string) {
	s.Helper()
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: s.id, Name: name}}
	now := metav1.Now()
	eventually(s, "finishing Job "+name, func() error {
		if err := s.member.client.Get(s.Context(), client.ObjectKeyFromObject(j), j); err != nil {
			return err
		}
		j.Status = batchv1.JobStatus{
			StartTime: &now, CompletionTime: &now, Succeeded: 1, UncountedTerminatedPods: &batchv1.UncountedTerminatedPods{},
			Conditions: []batchv1.JobCondition{
				{Type: batchv1.JobSuccessCriteriaMet, Status: corev1.ConditionTrue, LastTransitionTime: now},
				{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: now},
			},
		}
		return s.member.client.Status().Update(s.Context(), j)
	})
}
