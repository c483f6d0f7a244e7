// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/kube/selfconflict"
	"github.com/capstan-io/capstan/internal/propagation/claims"
	"github.com/capstan-io/capstan/internal/propagation/deliver"
)

// SelfConflicts says that bindings tell what is written without end of them, their
// objects and their works.
func SelfConflicts(mgr ctrl.Manager) []selfconflict.ReportedKind {
	answers := responsibleFinder{client: mgr.GetClient(), kinds: mgr.GetRESTMapper()}
	return []selfconflict.ReportedKind{
		selfconflict.ReportOnKind(&workv1alpha2.ResourceBinding{}, func(b *workv1alpha2.ResourceBinding) []metav1.Condition { return b.Status.Conditions }, answers.responsibleBindings),
		selfconflict.ReportOnKind(&workv1alpha2.ClusterResourceBinding{}, func(b *workv1alpha2.ClusterResourceBinding) []metav1.Condition { return b.Status.Conditions }, answers.responsibleBindings),
	}
}

// responsibleFinder finds the bindings that answer for what was written.
type responsibleFinder struct {
	client client.Client
	kinds  meta.RESTMapper
}

// responsibleBindings returns the names that the binding of an object may have, without a namespace
// for a ClusterResourceBinding.
func (a responsibleFinder) responsibleBindings(ctx context.Context, written selfconflict.WrittenObject) ([]types.NamespacedName, error) {
	key := types.NamespacedName{Namespace: written.Namespace, Name: written.Name}
	switch written.GroupResource.String() {
	case "resourcebindings.work.karmada.io", "clusterresourcebindings.work.karmada.io":
		return []types.NamespacedName{key}, nil
	case "manifestworks.work.open-cluster-management.io":
		work := &workv1.ManifestWork{}
		if err := a.client.Get(ctx, key, work); client.IgnoreNotFound(err) != nil {
			return nil, fmt.Errorf("reading ManifestWork %q: %w", key, err)
		}
		return []types.NamespacedName{deliver.BindingOf(work)}, nil
	}
	kind, err := a.kinds.KindFor(written.WithVersion(""))
	if meta.IsNoMatchError(err) {
		return nil, nil // nobody serves it any more
	}
	if err != nil {
		return nil, fmt.Errorf("finding the kind of %s: %w", written.GroupResource, err)
	}
	var bindings []types.NamespacedName
	for _, name := range claims.BindingNames(kind, written.Name) {
		bindings = append(bindings, types.NamespacedName{Namespace: key.Namespace, Name: name})
	}
	return bindings, nil
}
