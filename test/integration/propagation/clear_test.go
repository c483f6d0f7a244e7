// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"context"
	"errors"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	appsv1alpha1 "github.com/capstan-io/capstan/apis/karmada/apps/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// clear stops the controllers, and takes away what a test has left on the hub.
func (w world) clear() {
	w.Helper()
	w.stop()
	ctx := context.WithoutCancel(w.Context())
	for _, list := range []client.ObjectList{
		&policyv1alpha1.PropagationPolicyList{}, &policyv1alpha1.ClusterPropagationPolicyList{}, &policyv1alpha1.OverridePolicyList{},
		&policyv1alpha1.ClusterOverridePolicyList{}, &appsv1.DeploymentList{}, &corev1.ConfigMapList{}, &corev1.NodeList{},
		&workv1alpha2.ResourceBindingList{}, &workv1alpha2.ClusterResourceBindingList{}, &workv1.ManifestWorkList{},
		&clusterv1.ManagedClusterList{}, &fleetv1alpha1.ClusterConnectionList{}, &schedulingv1.PriorityClassList{}, &eventsv1.EventList{},
		&corev1.NamespaceList{}, &appsv1alpha1.WorkloadRebalancerList{},
		&fleetv1alpha1.PropagationRolloutList{}, &fleetv1alpha1.ClusterPropagationRolloutList{}, &fleetv1alpha1.PropagationRevisionList{},
	} {
		if err := w.List(ctx, list); err != nil {
			w.Errorf("listing what the test has left: %v", err)
			continue
		}
		_ = meta.EachListItem(list, func(item runtime.Object) error { // it returns none
			if object, ok := item.(client.Object); ok && !ofKubernetes(object) {
				w.take(ctx, object)
			}
			return nil
		})
	}
}

// ofKubernetes tells whether the API server itself keeps an object.
func ofKubernetes(object client.Object) bool {
	if namespace := object.GetNamespace(); namespace != "" {
		return strings.HasPrefix(namespace, "kube-")
	}
	name := object.GetName()
	return strings.HasPrefix(name, "kube-") || strings.HasPrefix(name, "system-") || name == metav1.NamespaceDefault
}

// take deletes an object with nobody there to take off its finalizers.
func (w world) take(ctx context.Context, object client.Object) {
	w.Helper()
	if len(object.GetFinalizers()) > 0 {
		patch := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
		err := w.Patch(ctx, object, patch)
		if apierrors.IsNotFound(err) && object.GetNamespace() != "" { // nothing can be changed in one that is gone
			namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: object.GetNamespace()}}
			err = errors.Join(client.IgnoreAlreadyExists(w.Create(ctx, namespace)), w.Patch(ctx, object, patch))
		}
		if client.IgnoreNotFound(err) != nil {
			w.Errorf("taking the finalizers off %T %s: %v", object, object.GetName(), err)
		}
	}
	if err := w.Delete(ctx, object); client.IgnoreNotFound(err) != nil {
		w.Errorf("deleting %T %s: %v", object, object.GetName(), err)
	}
	if namespace, ok := object.(*corev1.Namespace); ok {
		err := w.Get(ctx, client.ObjectKeyFromObject(object), namespace)
		if namespace.Spec.Finalizers = nil; err == nil {
			err = w.SubResource("finalize").Update(ctx, namespace)
		}
		if client.IgnoreNotFound(err) != nil {
			w.Errorf("letting namespace %s go: %v", namespace.Name, err)
		}
	}
}
