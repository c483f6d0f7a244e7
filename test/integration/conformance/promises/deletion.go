// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package promises

import (
	"errors"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/test/integration/conformance/installation"
)

func foreground(s *Scene) {
	s.Namespace()
	s.Deliver("a", manifestsOf(configMap("a", "one"), configMap("b", "one")))
	s.Applied("a")
	s.edit("a", `{"metadata":{"finalizers":["conformance.example.com/hold"]}}`)
	s.startRemoving("a")
	s.HasNot("b")
	work := s.says("a", workv1.ManifestWorkConditionDeleting, "True WorkDeleting")
	for _, c := range work.Status.Conditions {
		if c.Type == workv1.ManifestWorkConditionDeleting {
			s.Contains(c.Message, "a", "conformance.example.com/hold")
		}
	}
	s.edit("a", `{"metadata":{"finalizers":null}}`)
	s.HasNot("a")
	s.gone("a")
}

// free fails the test unless the ConfigMap stays with its value and has no mark
// of a work.
func (s *Scene) free(name string) {
	s.Helper()
	installation.Eventually(s, "ConfigMap "+name+" is nobody's", func() error {
		found := s.Has(name, "one")
		if len(found.OwnerReferences) > 0 || found.Labels[workv1.LabelManaged] != "" {
			return errors.New("it has marks of a work: " + installation.Encode(found.ObjectMeta))
		}
		return nil
	})
}

func orphan(s *Scene) {
	s.Namespace()
	s.Deliver("a", "deleteOption: {propagationPolicy: Orphan}\n"+manifestsOf(configMap("a", "one"), configMap("b", "one")))
	s.Applied("a")
	s.Remove("a")
	s.free("a")
	s.free("b")
}

func selectivelyOrphan(s *Scene) {
	s.Namespace()
	s.Deliver("a", `
deleteOption:
  propagationPolicy: SelectivelyOrphan
  selectivelyOrphans:
    orphaningRules: [{resource: configmaps, namespace: NS, name: "keep-*"}]
`+manifestsOf(configMap("keep-a", "one"), configMap("b", "one")))
	s.Applied("a")
	s.Remove("a")
	s.HasNot("b")
	s.free("keep-a")
}

func timeToLive(s *Scene) {
	s.Namespace()
	s.Deliver("a", `
deleteOption: {propagationPolicy: Foreground, ttlSecondsAfterFinished: 0}
manifestConfigs:
- resourceIdentifier: {group: batch, resource: jobs, namespace: NS, name: a}
  conditionRules: [{type: WellKnownConditions, condition: Complete}]
`+manifestsOf(job))
	s.Applied("a")
	s.finish("a")
	s.gone("a")
	s.GoneFromMember(&batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: s.ID, Name: "a"}})
}

// job is a manifest of a Job.
const job = `{apiVersion: batch/v1, kind: Job, metadata: {name: a, namespace: NS}, spec: {template: {spec: {restartPolicy: Never, containers: [{name: a, image: a}]}}}}`

// finish tells in the status of a Job that it is complete, as its controller does.
func (s *Scene) finish(name string) {
	s.Helper()
	j := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: s.ID, Name: name}}
	now := metav1.Now()
	installation.Eventually(s, "finishing Job "+name, func() error {
		if err := s.Member.Client.Get(s.Context(), client.ObjectKeyFromObject(j), j); err != nil {
			return err
		}
		j.Status = batchv1.JobStatus{
			StartTime: &now, CompletionTime: &now, Succeeded: 1, UncountedTerminatedPods: &batchv1.UncountedTerminatedPods{},
			Conditions: []batchv1.JobCondition{
				{Type: batchv1.JobSuccessCriteriaMet, Status: corev1.ConditionTrue, LastTransitionTime: now},
				{Type: batchv1.JobComplete, Status: corev1.ConditionTrue, LastTransitionTime: now},
			},
		}
		return s.Member.Client.Status().Update(s.Context(), j)
	})
}
