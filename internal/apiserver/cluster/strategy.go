// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/apiserver/pkg/storage/names"
	"k8s.io/utils/clock"

	"github.com/capstan-io/capstan/apis/karmada/cluster/v1alpha1"
	"github.com/capstan-io/capstan/internal/apiserver/cluster/translate"
	"github.com/capstan-io/capstan/internal/apiserver/cluster/validation"
)

var _ rest.RESTCreateUpdateStrategy = clusterStrategy{}

// clusterStrategy is what becomes of a Cluster between the request and the validation.
type clusterStrategy struct {
	runtime.ObjectTyper
	names.NameGenerator
	clock clock.PassiveClock
}

func newClusterStrategy(typer runtime.ObjectTyper, clock clock.PassiveClock) clusterStrategy {
	return clusterStrategy{ObjectTyper: typer, NameGenerator: names.SimpleNameGenerator, clock: clock}
}

// NamespaceScoped implements rest.RESTCreateUpdateStrategy.
func (clusterStrategy) NamespaceScoped() bool { return false }

// AllowCreateOnUpdate implements rest.RESTCreateUpdateStrategy.
func (clusterStrategy) AllowCreateOnUpdate(context.Context) bool { return false }

// AllowUnconditionalUpdate implements rest.RESTCreateUpdateStrategy.
func (clusterStrategy) AllowUnconditionalUpdate(context.Context) bool { return true }

// PrepareForCreate sets the defaults.
func (s clusterStrategy) PrepareForCreate(_ context.Context, obj runtime.Object) {
	cluster, ok := obj.(*v1alpha1.Cluster)
	if !ok {
		return
	}
	cluster.Status = v1alpha1.ClusterStatus{}
	cluster.Generation = 1
	if len(cluster.Finalizers) == 0 {
		cluster.Finalizers = []string{v1alpha1.Finalizer}
	}
	if len(cluster.Spec.ResourceModels) == 0 {
		cluster.Spec.ResourceModels = translate.DefaultModels()
	}
	s.normalizeAndDate(cluster, nil)
}

// PrepareForUpdate keeps what a write of the spec does not change, and counts
// changes of the spec.
func (s clusterStrategy) PrepareForUpdate(_ context.Context, obj, old runtime.Object) {
	cluster, ok := obj.(*v1alpha1.Cluster)
	before, isCluster := old.(*v1alpha1.Cluster)
	if !ok || !isCluster {
		return
	}
	cluster.Status = before.Status
	if before.Spec.ID == "" || cluster.Spec.ID == "" {
		cluster.Spec.ID = before.Spec.ID // the hub learns it from the cluster
	}
	if len(cluster.Spec.ResourceModels) == 0 && len(before.Spec.ResourceModels) > 0 {
		cluster.Spec.ResourceModels = translate.DefaultModels()
	}
	if before.DeletionTimestamp == nil && len(cluster.Finalizers) == 0 {
		cluster.Finalizers = before.Finalizers // the hub has them while the Cluster is not deleted
	}
	s.normalizeAndDate(cluster, before.Spec.Taints)
	if translate.SpecChanged(before, cluster) {
		cluster.Generation++
	}
}

func (s clusterStrategy) normalizeAndDate(cluster *v1alpha1.Cluster, before []corev1.Taint) {
	translate.NormalizeZones(cluster)
	for i := range cluster.Spec.Taints {
		s.dateTaint(&cluster.Spec.Taints[i], before)
	}
}

// dateTaint sets the time at which a taint was added: that of the same taint before,
// and now for one that moves workloads away. The hub dates the others.
func (s clusterStrategy) dateTaint(t *corev1.Taint, before []corev1.Taint) {
	at := slices.IndexFunc(before, func(b corev1.Taint) bool { return b.Key == t.Key && b.Effect == t.Effect && b.Value == t.Value })
	switch {
	case at >= 0:
		t.TimeAdded = before[at].TimeAdded
	case t.Effect == corev1.TaintEffectNoExecute:
		now := metav1.NewTime(s.clock.Now()).Rfc3339Copy()
		t.TimeAdded = &now
	default:
		t.TimeAdded = nil
	}
}

// Validate implements rest.RESTCreateStrategy.
func (clusterStrategy) Validate(_ context.Context, obj runtime.Object) field.ErrorList {
	cluster, ok := obj.(*v1alpha1.Cluster)
	if !ok {
		return field.ErrorList{field.InternalError(field.NewPath(""), errNoCluster(obj))}
	}
	return validation.ValidateClusterCreate(cluster)
}

// ValidateUpdate implements rest.RESTUpdateStrategy.
func (clusterStrategy) ValidateUpdate(_ context.Context, obj, old runtime.Object) field.ErrorList {
	cluster, ok := obj.(*v1alpha1.Cluster)
	before, isCluster := old.(*v1alpha1.Cluster)
	if !ok || !isCluster {
		return field.ErrorList{field.InternalError(field.NewPath(""), errNoCluster(obj))}
	}
	return validation.ValidateClusterUpdate(cluster, before)
}

// WarningsOnCreate implements rest.RESTCreateStrategy.
func (clusterStrategy) WarningsOnCreate(_ context.Context, obj runtime.Object) []string {
	return insecureWarnings(obj)
}

// WarningsOnUpdate implements rest.RESTUpdateStrategy.
func (clusterStrategy) WarningsOnUpdate(_ context.Context, obj, _ runtime.Object) []string {
	return insecureWarnings(obj)
}

func insecureWarnings(obj runtime.Object) []string {
	if cluster, ok := obj.(*v1alpha1.Cluster); ok && cluster.Spec.InsecureSkipTLSVerification {
		return []string{"spec.insecureSkipTLSVerification: whoever is between the hub and the cluster can steal the token"}
	}
	return nil
}

// Canonicalize implements rest.RESTCreateUpdateStrategy.
func (clusterStrategy) Canonicalize(runtime.Object) {}
