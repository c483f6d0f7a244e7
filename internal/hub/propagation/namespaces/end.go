// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package namespaces

import (
	"context"
	"encoding/json"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	karmadaworkv1alpha1 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/hub/propagation/send"
	"github.com/capstan-io/capstan/internal/propagation/deliver"
)

// deleteNamespaceWorks deletes the works of a namespace that is gone from the hub, with the
// namespaces that were made for it. Much may be in these, so the hub itself is
// asked whether the namespace is gone.
func (c *NamespaceController) deleteNamespaceWorks(ctx context.Context, name string, works []workv1.ManifestWork) error {
	if len(works) == 0 {
		return nil
	}
	err := c.Live.Get(ctx, types.NamespacedName{Name: name}, &corev1.Namespace{})
	switch {
	case err == nil:
		return nil // the cache shows it soon
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("reading namespace %q: %w", name, err)
	}
	for i := range works {
		if !works[i].DeletionTimestamp.IsZero() || works[i].Spec.DeleteOption == nil || !reportsHealth(&works[i]) {
			continue
		}
		if err := c.clearDeleteOption(ctx, &works[i]); err != nil {
			return err
		}
	}
	return send.JoinErrors(c.Writer.WriteChanges(ctx, deliver.WorkChanges{Gone: works}))
}

// reportsHealth reports whether the agent of a work leaves a namespace alone that was
// there before the work: those do that report the health of what bindings send.
// One that does not know the difference has to leave any.
func reportsHealth(work *workv1.ManifestWork) bool {
	for i := range work.Status.ResourceStatus.Manifests {
		for _, value := range work.Status.ResourceStatus.Manifests[i].StatusFeedback.Values {
			if value.Name == karmadaworkv1alpha1.FeedbackHealth {
				return true
			}
		}
	}
	return false
}

// clearDeleteOption takes off a work that its namespace stays.
func (c *NamespaceController) clearDeleteOption(ctx context.Context, work *workv1.ManifestWork) error {
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": work.UID}, "spec": map[string]any{"deleteOption": nil}})
	if err != nil {
		return fmt.Errorf("encoding the change of work %q: %w", client.ObjectKeyFromObject(work), err)
	}
	err = c.Client.Patch(ctx, work.DeepCopy(), client.RawPatch(types.MergePatchType, body))
	if client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("changing ManifestWork %q: %w", client.ObjectKeyFromObject(work), err)
	}
	return nil
}
