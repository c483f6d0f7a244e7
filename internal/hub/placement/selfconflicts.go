// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package placement

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	"github.com/capstan-io/capstan/internal/selfconflict"
)

// SelfConflicts says that Placements tell what is written without end of them and their
// decisions.
func SelfConflicts(mgr ctrl.Manager) []selfconflict.Reported {
	of := func(ctx context.Context, written selfconflict.Object) ([]types.NamespacedName, error) {
		key := types.NamespacedName{Namespace: written.Namespace, Name: written.Name}
		switch written.Resource {
		case "placements":
			return []types.NamespacedName{key}, nil
		case "placementdecisions":
			decision := &clusterv1beta1.PlacementDecision{}
			if err := mgr.GetClient().Get(ctx, key, decision); client.IgnoreNotFound(err) != nil {
				return nil, fmt.Errorf("reading PlacementDecision %q: %w", key, err)
			}
			return []types.NamespacedName{{Namespace: key.Namespace, Name: decision.Labels[clusterv1beta1.LabelPlacement]}}, nil
		}
		return nil, nil
	}
	return []selfconflict.Reported{selfconflict.On(&clusterv1beta1.Placement{}, func(p *clusterv1beta1.Placement) []metav1.Condition { return p.Status.Conditions }, of)}
}
