// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package namespaces

import (
	"context"
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/hub/propagation/ownwrites"
	"github.com/capstan-io/capstan/internal/hub/propagation/send"
)

// TestOnlyAgentsThatKnowWhatTheyMadeDeleteANamespace is about the works of a
// namespace that is deleted on the hub.
func TestOnlyAgentsThatKnowWhatTheyMadeDeleteANamespace(t *testing.T) {
	orphan := &workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyOrphan}
	knows, older := workv1.ManifestWork{}, workv1.ManifestWork{}
	for cluster, work := range map[string]*workv1.ManifestWork{"knows": &knows, "older": &older} {
		work.Namespace, work.Name, work.Spec.DeleteOption = cluster, "shop", orphan
	}
	knows.Status.ResourceStatus.Manifests = []workv1.ManifestCondition{{StatusFeedback: workv1.StatusFeedbackResult{
		Values: []workv1.FeedbackValue{{Name: "health"}},
	}}}
	scheme := runtime.NewScheme()
	if err := errors.Join(workv1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	var deletes []string // the clusters whose work was deleted with its namespace
	c := fake.NewClientBuilder().WithScheme(scheme).WithObjects(&knows, &older).WithInterceptorFuncs(interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.DeleteOption) error {
			is := &workv1.ManifestWork{}
			if _, other := object.(*corev1.Namespace); other {
				return c.Delete(ctx, object, options...)
			}
			if err := c.Get(ctx, client.ObjectKeyFromObject(object), is); err != nil {
				return err
			}
			if is.Spec.DeleteOption == nil {
				deletes = append(deletes, is.Namespace)
			}
			return c.Delete(ctx, object, options...)
		},
	}).Build()
	list := &workv1.ManifestWorkList{}
	if err := c.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}

	clk := clocktesting.NewFakePassiveClock(metav1.Now().Time)
	controller := NewNamespaceController(NamespaceDeps{Client: c, Live: c, Writer: send.WorkWriter{Client: c, Live: c, Created: ownwrites.NewCreatedWorks(clk), Restless: send.NewRestlessWorks(clk)}})
	again := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}
	if err := errors.Join(c.Create(t.Context(), again), controller.deleteNamespaceWorks(t.Context(), "shop", list.Items)); err != nil {
		t.Fatal(err)
	}
	if len(deletes) > 0 {
		t.Errorf("the namespace was deleted in clusters %q although the hub has it: only the cache did not", deletes)
	}
	if err := errors.Join(c.Delete(t.Context(), again), controller.deleteNamespaceWorks(t.Context(), "shop", list.Items)); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(deletes, []string{"knows"}) {
		t.Errorf("the namespace was deleted in clusters %q, want only the one whose agent knows what it made", deletes)
	}
	if err := c.List(t.Context(), list); err != nil || len(list.Items) > 0 {
		t.Errorf("there are %d works left: %v", len(list.Items), err)
	}
}

func TestTravels(t *testing.T) {
	clusters := view.NewFleet(view.Cluster{Name: "accepted", Accepted: true}, view.Cluster{Name: "asks"})
	for name, c := range map[string]struct {
		name   string
		labels map[string]string
		want   bool
	}{
		"a user's":                  {name: "shop", want: true},
		"of the hub":                {name: "fleet", labels: map[string]string{operatorv1.LabelCreatedByClusterManager: "fleet"}},
		"the user wants it to stay": {name: "shop", labels: map[string]string{policyv1alpha1.LabelSkipAutoPropagation: "true"}},
		"a cluster's":               {name: "member1", labels: map[string]string{clusterv1.LabelClusterName: "member1"}},
		"an accepted cluster's":     {name: "accepted"},
		"one that a cluster asks":   {name: "asks", want: true},
		"an execution space":        {name: "karmada-es-member1"},
		"there in every cluster":    {name: "default"},
		"Kubernetes' own":           {name: "kube-system"},
	} {
		t.Run(name, func(t *testing.T) {
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: c.name, Labels: c.labels}}
			if got := isPropagated(namespace, clusters); got != c.want {
				t.Errorf("travels(%q, %v) = %t, want %t", c.name, c.labels, got, c.want)
			}
		})
	}
}
