// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/internal/server/features"
)

// TestABindingThatAQuotaDenies has admission allow two replicas in a cluster at
// most, and nothing at all for one Deployment.
func TestABindingThatAQuotaDenies(t *testing.T) {
	counted := &writes{counts: map[string]int{}}
	w := newWorld(t, 1)
	w.stop()
	w.quota()
	w.withGates(features.KarmadaEvents)
	w.start(counted.count)
	web, other, never := deployment("web", 3), deployment("other", 1), deployment("never", 1)
	w.create(policy("web", policyv1alpha1.Placement{}), web, other, never)
	w.on("other", map[string]int32{"member1": 1})

	// It is created without clusters, and says why.
	w.refused("web", 0)
	for _, name := range []string{"web", "web-deployment"} {
		w.noted(name, "ScheduleBindingFailed", "exceeded quota")
	}
	w.noted("never", "ApplyPolicyFailed", "exceeded quota: nothing is left")

	w.scale(web, 2)
	w.on("web", map[string]int32{"member1": 2})

	// What it has stays when it asks for too much.
	w.scale(web, 5)
	w.refused("web", 2)
	if err := w.sent("web", workv1alpha2.TargetCluster{Name: "member1", Replicas: 2}); err != nil {
		t.Error(err)
	}
	w.scale(web, 2)
	w.eventually("it is content with what it has", func() error {
		b, err := w.bindingOf("web")
		if err == nil && !meta.IsStatusConditionTrue(b.Status.Conditions, workv1alpha2.BindingConditionScheduled) {
			err = fmt.Errorf("its status is %+v", b.Status.Conditions)
		}
		return err
	})
	w.scale(web, 5)
	w.refused("web", 2)

	// The quota grows. What is refused is tried again when others leave room, or when
	// something of it changes.
	if err := w.Delete(t.Context(), &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: "quota"}}); err != nil {
		t.Fatal(err)
	}
	w.eventually("the quota is not in force", w.probe)
	if err := w.Delete(t.Context(), other); err != nil {
		t.Fatal(err)
	}
	w.on("web", map[string]int32{"member1": 5})
	w.scale(never, 2)
	w.on("never", map[string]int32{"member1": 2})

	counted.mu.Lock()
	defer counted.mu.Unlock()
	t.Log(counted.counts)
	if patches := counted.counts["PATCH resourcebindings"]; patches > 8 { // four times scaled, and each time replicas and clusters
		t.Errorf("the bindings were patched %d times", patches)
	}
}

// quota lets the hub refuse bindings, and waits until it does.
func (w world) quota() {
	w.Helper()
	fail := admissionv1.Fail
	w.create(
		&admissionv1.ValidatingAdmissionPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: "quota"},
			Spec: admissionv1.ValidatingAdmissionPolicySpec{
				FailurePolicy: &fail,
				MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
					RuleWithOperations: admissionv1.RuleWithOperations{
						Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
						Rule: admissionv1.Rule{
							APIGroups: []string{workv1alpha2.GroupVersion.Group}, APIVersions: []string{"*"}, Resources: []string{"resourcebindings"},
						},
					},
				}}},
				Validations: []admissionv1.Validation{
					{Expression: "object.spec.resource.name != 'never'", Message: "exceeded quota: nothing is left"},
					{
						Expression: "!has(object.spec.clusters) || object.spec.clusters.all(c, !has(c.replicas) || c.replicas <= 2)",
						Message:    "exceeded quota: two replicas are left",
					},
				},
			},
		},
		&admissionv1.ValidatingAdmissionPolicyBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "quota"},
			Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
				PolicyName: "quota", ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
			},
		})
	w.eventually("the quota is in force", func() error {
		err := w.probe()
		if err == nil || !strings.Contains(err.Error(), "exceeded quota") {
			return fmt.Errorf("the hub says %w", errors.Join(err, errors.New("nothing of a quota")))
		}
		return nil
	})
}

// probe returns why the hub refuses a binding for which nothing is left.
func (w world) probe() error {
	probe := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, GenerateName: "never-deployment"}}
	probe.Spec.Resource = workv1alpha2.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "never"}
	return w.Create(w.Context(), probe, client.DryRunAll) //nolint:wrapcheck // it names the binding
}

// refused waits until a binding says that a quota does not allow what it asks for,
// and still has so many replicas in its cluster; 0 is no cluster.
func (w world) refused(name string, replicas int32) {
	w.Helper()
	w.eventually(name+" is refused", func() error {
		b, err := w.bindingOf(name)
		if err != nil {
			return err
		}
		c := meta.FindStatusCondition(b.Status.Conditions, workv1alpha2.BindingConditionScheduled)
		if c == nil || c.Status != metav1.ConditionFalse || c.Reason != workv1alpha2.BindingReasonQuotaExceeded || !strings.Contains(c.Message, "two replicas are left") {
			return fmt.Errorf("its status is %+v", b.Status)
		}
		if has := len(b.Spec.Clusters) > 0; has != (replicas > 0) || has && b.Spec.Clusters[0].Replicas != replicas {
			return fmt.Errorf("its clusters are %v", b.Spec.Clusters)
		}
		return nil
	})
}

func (w world) bindingOf(deployment string) (*workv1alpha2.ResourceBinding, error) {
	b := &workv1alpha2.ResourceBinding{}
	err := w.Get(w.Context(), client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: deployment + "-deployment"}, b)
	return b, err //nolint:wrapcheck // it names the binding
}

func (w world) scale(d *appsv1.Deployment, replicas int32) {
	w.Helper()
	w.change(d, func() { d.Spec.Replicas = &replicas })
}

// TestAnotherSchedulerChooses has a scheduler choose the clusters that is not ours.
func TestAnotherSchedulerChooses(t *testing.T) {
	w := newWorld(t, 2)
	p := policy("web", policyv1alpha1.Placement{})
	p.Spec.SchedulerName = "other"
	w.create(p, deployment("web", 1))
	b := &workv1alpha2.ResourceBinding{}
	w.eventually("there is a binding", func() (err error) {
		b, err = w.bindingOf("web")
		return err
	})
	if len(b.Spec.Clusters) > 0 || b.Spec.SchedulerName != "other" ||
		meta.FindStatusCondition(b.Status.Conditions, workv1alpha2.BindingConditionScheduled) != nil {
		t.Errorf("the binding has clusters %v and status %+v", b.Spec.Clusters, b.Status)
	}
	w.change(b, func() { b.Spec.Clusters = []workv1alpha2.TargetCluster{{Name: "member2", Replicas: 1}} })
	w.on("web", map[string]int32{"member2": 1})
}
