// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterstatus

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	aboutv1alpha1 "github.com/capstan-io/capstan/apis/about/v1alpha1"
	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1alpha1 "github.com/capstan-io/capstan/apis/cluster/v1alpha1"
	"github.com/capstan-io/capstan/internal/kube/deepcopy"
)

// factSource are the objects of one kind by which a member tells of itself.
type factSource struct {
	kind client.Object
	list client.ObjectList
	// informer is nil until the member has the kind.
	informer cache.Informer
}

// hasSynced reports whether all that the member has of the kind can be read.
func (f *factSource) hasSynced() bool { return f.informer == nil || f.informer.HasSynced() }

// discoverFacts begins to watch kinds when the member has them.
func (s *statusReporter) discoverFacts(ctx context.Context) error {
	for _, f := range s.facts {
		if f.informer != nil {
			continue
		}
		list := deepcopy.CopyObject(f.list)
		err := s.connection.Spoke.GetAPIReader().List(ctx, list, client.Limit(1))
		if apierrors.IsNotFound(err) || apierrors.IsForbidden(err) || meta.IsNoMatchError(err) {
			continue // looked at again with the next probe
		}
		if err != nil {
			return fmt.Errorf("listing the claims of the cluster: %w", err)
		}
		if err := s.watchFacts(f); err != nil {
			return err
		}
	}
	return nil
}

// factsSynced reports whether all that the member tells of itself can be read.
func (s *statusReporter) factsSynced() bool {
	for _, f := range s.facts {
		if !f.hasSynced() {
			return false
		}
	}
	return true
}

// reportedClaims returns what the hub is told of the member's claims and properties. Of
// those that cannot be read yet it keeps what the hub was told before.
func (s *statusReporter) reportedClaims(ctx context.Context, told []clusterv1.ManagedClusterClaim) ([]clusterv1.ManagedClusterClaim, error) {
	switch {
	case len(s.facts) == 0:
		return nil, nil
	case !s.identified || !s.factsSynced():
		return told, nil
	}
	var claims []clusterv1alpha1.ClusterClaim
	var properties []aboutv1alpha1.ClusterProperty
	for _, f := range s.facts {
		if f.informer == nil {
			continue
		}
		list := deepcopy.CopyObject(f.list)
		if err := s.connection.Spoke.GetClient().List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return nil, err
		}
		switch list := list.(type) {
		case *clusterv1alpha1.ClusterClaimList:
			claims = list.Items
		case *aboutv1alpha1.ClusterPropertyList:
			properties = list.Items
		}
	}
	return s.part.ClaimRules.selectClaims(withProperties(claims, properties), s.id), nil
}
