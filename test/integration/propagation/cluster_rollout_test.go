// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
)

// TestARolloutOfAClusterPropagationPolicy holds an object without a namespace and
// one with a namespace together, and lets both be undone.
func TestARolloutOfAClusterPropagationPolicy(t *testing.T) {
	w := newWorld(t, 3)
	web := deployment("web", 1)
	viewer := &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "viewer"}, Rules: reading("pods")}
	wide := &policyv1alpha1.ClusterPropagationPolicy{
		ObjectMeta: metav1.ObjectMeta{
			Name: "wide", Labels: map[string]string{policyv1alpha1.LabelClusterPropagationPolicyID: "id-of-wide"},
			Finalizers: []string{policyv1alpha1.FinalizerClusterPropagationPolicy},
		},
		Spec: policyv1alpha1.PropagationSpec{ResourceSelectors: []policyv1alpha1.ResourceSelector{
			{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole", Name: "viewer"},
			{APIVersion: "apps/v1", Kind: "Deployment", Namespace: metav1.NamespaceDefault, Name: "web"},
		}},
	}
	r := &fleetv1alpha1.ClusterPropagationRollout{ObjectMeta: metav1.ObjectMeta{Name: "wide"}, Spec: stages(nil).Spec}
	r.Spec.Policy.Name = "wide"
	w.create(viewer, web, wide)
	w.have("web", "1 1.27 x1, 2 1.27 x1, 3 1.27 x1")
	w.roles("1 pods, 2 pods, 3 pods")
	w.create(r)
	w.wideIs(r, 2, fleetv1alpha1.PropagationRolloutReasonComplete, "3 of 3 clusters")

	w.image(web, brokenImage)
	w.wideIs(r, 3, fleetv1alpha1.PropagationRolloutReasonTooManyFailures, "member2: default/web-deployment")
	w.change(viewer, func() { viewer.Rules = reading("secrets") })
	w.roles("1 secrets, 2 secrets, 3 pods")
	w.have("web", "1 broken x1, 2 broken x1, 3 1.27 x1")
	w.wideIs(r, 4, fleetv1alpha1.PropagationRolloutReasonTooManyFailures, "member2: default/web-deployment")

	w.change(r, func() { r.Spec.Undo = new(r.Status.Revision) })
	w.roles("1 pods, 2 pods, 3 pods")
	w.have("web", "1 1.27 x1, 2 1.27 x1, 3 1.27 x1")
	w.wideIs(r, 4, fleetv1alpha1.PropagationRolloutReasonUndone, "before revision")

	w.image(web, "nginx:1.28")
	w.have("web", "1 1.28 x1, 2 1.28 x1, 3 1.28 x1")
	w.roles("1 pods, 2 pods, 3 pods") // its own change is undone still
	w.change(r, func() { r.Spec.Undo = nil })
	w.roles("1 secrets, 2 secrets, 3 secrets")
	w.wideIs(r, 5, fleetv1alpha1.PropagationRolloutReasonComplete, "3 of 3 clusters")
}

// reading lets a resource of the core group be read.
func reading(resource string) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{resource}, Verbs: []string{"get"}}}
}

// roles waits until the clusters are sent ClusterRole viewer for these resources.
func (w world) roles(want string) {
	w.Helper()
	w.eventually("the role lets read "+want, func() error {
		sent, err := w.everySent()
		var all []string
		for key, work := range sent {
			cluster, object, _ := strings.Cut(key, "/")
			if object != "ClusterRole/viewer" || work.going {
				continue
			}
			rules, _, _ := unstructured.NestedSlice(work.object.Object, "rules")
			resources, _, _ := unstructured.NestedStringSlice(rules[0].(map[string]any), "resources")
			all = append(all, strings.TrimPrefix(cluster, "member")+" "+resources[0])
		}
		slices.Sort(all)
		if got := strings.Join(all, ", "); err == nil && got != want {
			err = errors.New("it is sent as " + got)
		}
		return err
	})
}

// wideIs waits until a rollout that has no namespace says why it is complete, or not.
func (w world) wideIs(r *fleetv1alpha1.ClusterPropagationRollout, revision int64, reason, part string) {
	w.Helper()
	w.eventually(fmt.Sprintf("revision %d is %s", revision, reason), func() error {
		if err := w.Get(w.Context(), client.ObjectKeyFromObject(r), r); err != nil {
			return err
		}
		c := meta.FindStatusCondition(r.Status.Conditions, fleetv1alpha1.PropagationRolloutConditionComplete)
		if c == nil || r.Status.Revision != revision || r.Status.ObservedGeneration != r.Generation || c.Reason != reason || !strings.Contains(c.Message, part) {
			return fmt.Errorf("it says %+v", r.Status)
		}
		return nil
	})
}
