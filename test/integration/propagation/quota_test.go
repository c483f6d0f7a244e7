// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"fmt"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/server/features"
	"github.com/capstan-io/capstan/test/integration/propagation/harness"
)

// TestABindingThatAQuotaDenies has admission allow two replicas in a cluster at
// most, and nothing at all for one Deployment.
func TestABindingThatAQuotaDenies(t *testing.T) {
	counted := &writes{counts: map[string]int{}}
	w := harness.NewWorld(t, servers, 1)
	w.StopControllers()
	w.SetQuota()
	w.WithGates(features.KarmadaEvents)
	w.StartControllers(counted.count)
	web, other, never := harness.Deployment("web", 3), harness.Deployment("other", 1), harness.Deployment("never", 1)
	w.CreateAll(harness.Policy("web", policyv1alpha1.Placement{}), web, other, never)
	w.RunsOn("other", map[string]int32{"member1": 1})

	// It is created without clusters, and says why.
	w.IsOverQuota("web", 0)
	for _, name := range []string{"web", "web-deployment"} {
		w.HasEventWith(name, "ScheduleBindingFailed", "exceeded quota")
	}
	w.HasEventWith("never", "ApplyPolicyFailed", "exceeded quota: nothing is left")

	w.ScaleDeployment(web, 2)
	w.RunsOn("web", map[string]int32{"member1": 2})

	// What it has stays when it asks for too much.
	w.ScaleDeployment(web, 5)
	w.IsOverQuota("web", 2)
	if err := w.HasSent("web", workv1alpha2.TargetCluster{Name: "member1", Replicas: 2}); err != nil {
		t.Error(err)
	}
	w.ScaleDeployment(web, 2)
	w.Eventually("it is content with what it has", func() error {
		b, err := w.BindingOf("web")
		if err == nil && !meta.IsStatusConditionTrue(b.Status.Conditions, workv1alpha2.BindingConditionScheduled) {
			err = fmt.Errorf("its status is %+v", b.Status.Conditions)
		}
		return err
	})
	w.ScaleDeployment(web, 5)
	w.IsOverQuota("web", 2)

	// The quota grows. What is refused is tried again when others leave room, or when
	// something of it changes.
	if err := w.Delete(t.Context(), &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "quota"}}); err != nil {
		t.Fatal(err)
	}
	w.Eventually("the quota is not in force", w.ProbeQuota)
	if err := w.Delete(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	w.RunsOn("web", map[string]int32{"member1": 5})
	w.ScaleDeployment(never, 2)
	w.RunsOn("never", map[string]int32{"member1": 2})

	counted.mu.Lock()
	defer counted.mu.Unlock()
	t.Log(counted.counts)
	if patches := counted.counts["PATCH resourcebindings"]; patches > 8 { // four times scaled, and each time replicas and clusters
		t.Errorf("the bindings were patched %d times", patches)
	}
}

// TestAnotherSchedulerChooses has a scheduler choose the clusters that is not ours.
func TestAnotherSchedulerChooses(t *testing.T) {
	w := harness.NewWorld(t, servers, 2)
	p := harness.Policy("web", policyv1alpha1.Placement{})
	p.Spec.SchedulerName = "other"
	w.CreateAll(p, harness.Deployment("web", 1))
	b := &workv1alpha2.ResourceBinding{}
	w.Eventually("there is a binding", func() (err error) {
		b, err = w.BindingOf("web")
		return err
	})
	if len(b.Spec.Clusters) > 0 || b.Spec.SchedulerName != "other" ||
		meta.FindStatusCondition(b.Status.Conditions, workv1alpha2.BindingConditionScheduled) != nil {
		t.Errorf("the binding has clusters %v and status %+v", b.Spec.Clusters, b.Status)
	}
	w.ChangeObject(b, func() { b.Spec.Clusters = []workv1alpha2.TargetCluster{{Name: "member2", Replicas: 1}} })
	w.RunsOn("web", map[string]int32{"member2": 1})
}
