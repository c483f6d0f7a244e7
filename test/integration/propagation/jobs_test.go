// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/propagation/deliver"
)

// TestJobsThatAreDivided has two clusters share a work queue, whose Job ends when that of
// each cluster has, and Jobs whose pods have indexes, which no two clusters can share.
func TestJobsThatAreDivided(t *testing.T) {
	w := newWorld(t, 2)
	w.create(jobsPolicy("all"), job("queue", 4, nil), job("indexed", 4, new(int32(4))))
	w.endsWhereItIsDivided("queue")

	w.says("indexed-job", workv1alpha2.BindingConditionFullyApplied, workv1alpha2.BindingReasonFullyAppliedFailed, "each cluster would run the indexes from 0 on")
	for _, cluster := range []string{"member1", "member2"} {
		if sent, err := w.jobIn(cluster, "indexed"); err == nil {
			t.Errorf("%s was sent %+v", cluster, sent.Spec)
		}
	}

	// What the message says helps.
	p := &policyv1alpha1.PropagationPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "all"}}
	w.change(p, func() {
		p.Spec.Placement.ClusterAffinity = only("member1").ClusterAffinity
	})
	w.eventually("one cluster has all indexes", func() error {
		sent, err := w.jobIn("member1", "indexed")
		if err == nil && (*sent.Spec.Completions != 4 || *sent.Spec.Parallelism != 4) {
			err = fmt.Errorf("it has %+v", sent.Spec)
		}
		if err != nil {
			b := &workv1alpha2.ResourceBinding{}
			return errors.Join(err, w.Get(t.Context(), client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: "indexed-job"}, b), fmt.Errorf("the binding is %+v", b))
		}
		return nil
	})
}

// endsWhereItIsDivided waits until each of two clusters has half of a Job without completions,
// and the Job is complete when both say so.
func (w world) endsWhereItIsDivided(name string) {
	w.Helper()
	w.eventually("each cluster has half of the queue", func() error {
		for _, cluster := range []string{"member1", "member2"} {
			sent, err := w.jobIn(cluster, name)
			if err != nil {
				return err
			}
			if *sent.Spec.Parallelism != 2 || sent.Spec.Completions != nil {
				return fmt.Errorf("%s has %+v", cluster, sent.Spec)
			}
		}
		return nil
	})
	ended := `{"succeeded":%d,"startTime":"2026-01-01T00:00:00Z","completionTime":"2026-01-01T00:01:00Z","conditions":[` +
		`{"type":"SuccessCriteriaMet","status":"True","reason":"CompletionsReached","lastTransitionTime":"2026-01-01T00:01:00Z"},` +
		`{"type":"Complete","status":"True","reason":"CompletionsReached","lastTransitionTime":"2026-01-01T00:01:00Z"}]}`
	for i, cluster := range []string{"member1", "member2"} {
		w.reports(cluster, deliver.WorkName("Job", metav1.NamespaceDefault, name), fmt.Sprintf(ended, i+1))
	}
	w.eventually("the queue is complete", func() error {
		queue := &batchv1.Job{}
		if err := w.Get(w.Context(), client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: name}, queue); err != nil {
			return err
		}
		for _, c := range queue.Status.Conditions {
			if c.Type == batchv1.JobComplete && c.Status == corev1.ConditionTrue && queue.Status.Succeeded == 3 && queue.Status.CompletionTime != nil {
				return nil
			}
		}
		return fmt.Errorf("its status is %+v", queue.Status)
	})
}

// jobsPolicy divides all Jobs of namespace default.
func jobsPolicy(name string) *policyv1alpha1.PropagationPolicy {
	p := policy(name, policyv1alpha1.Placement{ReplicaScheduling: &policyv1alpha1.ReplicaSchedulingStrategy{
		ReplicaSchedulingType: policyv1alpha1.ReplicaSchedulingTypeDivided, ReplicaDivisionPreference: policyv1alpha1.ReplicaDivisionPreferenceWeighted,
	}})
	p.Spec.ResourceSelectors[0] = policyv1alpha1.ResourceSelector{APIVersion: "batch/v1", Kind: "Job"}
	return p
}

// job returns a Job of namespace default: with a number of completions its pods have
// indexes, without it is a work queue.
func job(name string, parallelism int32, completions *int32) *batchv1.Job {
	j := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
		Spec: batchv1.JobSpec{Parallelism: &parallelism, Completions: completions, Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "work", Image: "busybox"}},
		}}},
	}
	if completions != nil {
		j.Spec.CompletionMode = new(batchv1.IndexedCompletion)
	}
	return j
}

// jobIn returns a Job as it was sent to a cluster.
func (w world) jobIn(cluster, name string) (*batchv1.Job, error) {
	work, sent := &workv1.ManifestWork{}, &batchv1.Job{}
	if err := w.Get(w.Context(), client.ObjectKey{Namespace: cluster, Name: deliver.WorkName("Job", metav1.NamespaceDefault, name)}, work); err != nil {
		return nil, err //nolint:wrapcheck // it names the work
	}
	if len(work.Spec.Workload.Manifests) == 0 || !work.DeletionTimestamp.IsZero() {
		return nil, errors.New("the work has nothing")
	}
	return sent, json.Unmarshal(work.Spec.Workload.Manifests[0].Raw, sent) //nolint:wrapcheck // it says what
}
