// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"errors"
	"fmt"
	"strings"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
)

// SetQuota lets the hub refuse bindings, and waits until it does.
func (w World) SetQuota() {
	w.Helper()
	fail := admissionv1.Fail
	w.CreateAll(
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
	w.Eventually("the quota is in force", func() error {
		err := w.ProbeQuota()
		if err == nil || !strings.Contains(err.Error(), "exceeded quota") {
			return fmt.Errorf("the hub says %w", errors.Join(err, errors.New("nothing of a quota")))
		}
		return nil
	})
}

// ProbeQuota returns why the hub refuses a binding for which nothing is left.
func (w World) ProbeQuota() error {
	probe := &workv1alpha2.ResourceBinding{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, GenerateName: "never-deployment"}}
	probe.Spec.Resource = workv1alpha2.ObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "never"}
	return w.Create(w.Context(), probe, client.DryRunAll) //nolint:wrapcheck // it names the binding
}

// IsOverQuota waits until a binding says that a quota does not allow what it asks for,
// and still has so many replicas in its cluster; 0 is no cluster.
func (w World) IsOverQuota(name string, replicas int32) {
	w.Helper()
	w.Eventually(name+" is refused", func() error {
		b, err := w.BindingOf(name)
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

// BindingOf returns the binding of a Deployment of namespace default.
func (w World) BindingOf(deployment string) (*workv1alpha2.ResourceBinding, error) {
	b := &workv1alpha2.ResourceBinding{}
	err := w.Get(w.Context(), client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: deployment + "-deployment"}, b)
	return b, err //nolint:wrapcheck // it names the binding
}

// ScaleDeployment gives a Deployment other replicas.
func (w World) ScaleDeployment(d *appsv1.Deployment, replicas int32) {
	w.Helper()
	w.ChangeObject(d, func() { d.Spec.Replicas = &replicas })
}

// PassSecond lets the second pass in which the clusters of a Deployment were chosen: times
// of the API are that exact.
func (w World) PassSecond(name string) {
	w.Helper()
	w.Eventually("a second has passed since the clusters of "+name+" were chosen", func() error {
		binding := &workv1alpha2.ResourceBinding{}
		if err := w.Get(w.Context(), client.ObjectKey{Namespace: metav1.NamespaceDefault, Name: name + "-deployment"}, binding); err != nil {
			return err
		}
		if last := binding.Status.LastScheduledTime; last == nil || time.Since(last.Time) < time.Second {
			return errors.New("it has not")
		}
		return nil
	})
}
