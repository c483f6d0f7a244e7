// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"errors"
	"fmt"
	"testing"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/test/integration/propagation/harness"
)

// TestJobsThatAreDivided has two clusters share a work queue, whose Job ends when that of
// each cluster has, and Jobs whose pods have indexes, which no two clusters can share.
func TestJobsThatAreDivided(t *testing.T) {
	w := harness.NewWorld(t, servers, 2)
	all := harness.Policy("all", policyv1alpha1.Placement{ReplicaScheduling: &policyv1alpha1.ReplicaSchedulingStrategy{
		ReplicaSchedulingType: policyv1alpha1.ReplicaSchedulingTypeDivided, ReplicaDivisionPreference: policyv1alpha1.ReplicaDivisionPreferenceWeighted,
	}})
	all.Spec.ResourceSelectors[0] = policyv1alpha1.ResourceSelector{APIVersion: "batch/v1", Kind: "Job"}
	w.CreateAll(all, job("queue", 4, nil), job("indexed", 4, new(int32(4))))
	w.EndsWhereItIsDivided("queue")

	w.BindingSays("indexed-job", workv1alpha2.BindingConditionFullyApplied, workv1alpha2.BindingReasonFullyAppliedFailed, "each cluster would run the indexes from 0 on")
	for _, cluster := range []string{"member1", "member2"} {
		if sent, err := w.JobIn(cluster, "indexed"); err == nil {
			t.Errorf("%s was sent %+v", cluster, sent.Spec)
		}
	}

	// What the message says helps.
	p := &policyv1alpha1.PropagationPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "all"}}
	w.ChangeObject(p, func() {
		p.Spec.Placement.ClusterAffinity = only("member1").ClusterAffinity
	})
	w.Eventually("one cluster has all indexes", func() error {
		sent, err := w.JobIn("member1", "indexed")
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
