// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
)

// restartControllers ends those of the hub, which run on its host: they remember what the
// hub had, such as policies that the backup does not have. The ones that take
// their place learn nothing until the hub opens.
func (w *restoreRun) restartControllers(ctx context.Context, next string) error {
	pods, err := w.ofHub(ctx)
	if err != nil {
		return err
	}
	old := map[types.UID]bool{}
	for i := range pods {
		old[pods[i].UID] = true
		if err := w.host.Delete(ctx, &pods[i]); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("delete Pod %q: %w", client.ObjectKeyFromObject(&pods[i]), err)
		}
	}
	return w.waits.PollUntil(ctx, "the pods of the hub's controllers to end", next, func(ctx context.Context) (done bool, why string, err error) {
		pods, err := w.ofHub(ctx)
		if err != nil {
			return false, "", err
		}
		for i := range pods {
			if old[pods[i].UID] {
				return false, fmt.Sprintf("Pod %q terminates", client.ObjectKeyFromObject(&pods[i])), nil
			}
		}
		return true, "", nil
	})
}

// ofHub returns the pods that a ClusterManager with the name of the hub runs on the
// host.
func (w *restoreRun) ofHub(ctx context.Context) ([]corev1.Pod, error) {
	pods := &corev1.PodList{}
	err := w.host.List(ctx, pods, client.InNamespace(w.plane.Name), client.MatchingLabels{operatorv1.LabelCreatedByClusterManager: w.plane.Name})
	if err != nil {
		return nil, fmt.Errorf("list the pods of ClusterManager %q: %w", w.plane.Name, err)
	}
	return pods.Items, nil
}
