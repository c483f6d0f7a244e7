// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	workv1alpha1 "github.com/capstan-io/capstan/apis/work/v1alpha1"
	"github.com/capstan-io/capstan/internal/hub/work/replicaset"
	"github.com/capstan-io/capstan/internal/kube/selfconflict"
	"github.com/capstan-io/capstan/internal/server/features"
)

// SelfConflicts says that ManifestWorkReplicaSets tell what is written without end of
// them and their works, if their gate is on.
func SelfConflicts(gates features.GateSet) func(ctrl.Manager) []selfconflict.ReportedKind {
	return func(mgr ctrl.Manager) []selfconflict.ReportedKind {
		if !gates.Enabled(features.ManifestWorkReplicaSet) {
			return nil
		}
		of := func(ctx context.Context, written selfconflict.WrittenObject) ([]types.NamespacedName, error) {
			key := types.NamespacedName{Namespace: written.Namespace, Name: written.Name}
			if written.Resource != "manifestworks" {
				return []types.NamespacedName{key}, nil
			}
			made := &workv1.ManifestWork{}
			if err := mgr.GetClient().Get(ctx, key, made); client.IgnoreNotFound(err) != nil {
				return nil, fmt.Errorf("reading ManifestWork %q: %w", key, err)
			}
			set, ours := replicaset.SetOf(made)
			if !ours {
				return nil, nil
			}
			return []types.NamespacedName{set}, nil
		}
		return []selfconflict.ReportedKind{selfconflict.ReportOnKind(
			&workv1alpha1.ManifestWorkReplicaSet{}, func(s *workv1alpha1.ManifestWorkReplicaSet) []metav1.Condition { return s.Status.Conditions }, of,
		)}
	}
}
