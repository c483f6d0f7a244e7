// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package accept

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/cli/dryrun"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/kube/deepcopy"
)

// setAccepted writes the hub's half of the agreement to join, to the cluster that the user has
// seen. What takes it back also empties what its agent may have filled on a hub without guards, so
// that there is room for the change: the fields that somebody has written, and what the name was
// generated from.
func setAccepted(ctx context.Context, mode dryrun.Mode, write client.Client, cluster *clusterv1.ManagedCluster, accepted bool) error {
	if mode.Skips() {
		return nil
	}
	change := map[string]any{"spec": map[string]any{"hubAcceptsClient": accepted}}
	if !accepted {
		change["metadata"] = map[string]any{"managedFields": []any{map[string]any{}}, "generateName": nil}
	}
	return patchSeen(ctx, write, cluster, change)
}

// patchSeen merges a change into the object that the user has seen, and into no other one of
// its name. It does not insist on the version: the hub writes to both in between.
func patchSeen(ctx context.Context, write client.Client, seen client.Object, change map[string]any) error {
	metadata := map[string]any{"uid": seen.GetUID()}
	if more, is := change["metadata"].(map[string]any); is {
		maps.Copy(metadata, more)
	}
	change["metadata"] = metadata
	patch, err := json.Marshal(change)
	if err != nil {
		return fmt.Errorf("encode the change of %q: %w", seen.GetName(), err)
	}
	object := deepcopy.CopyObject(seen) // the answer of the API server goes into it
	err = write.Patch(ctx, object, client.RawPatch(types.MergePatchType, patch))
	if isAnother(err) {
		return exit.Next(errors.New("it was replaced in the meantime by another one of this name"), "Run the command again, and look at what it shows.")
	}
	return err
}

// isAnother reports whether an API server has refused a patch because it names the UID of
// another object, which nobody can give to one.
func isAnother(err error) bool {
	var answer apierrors.APIStatus
	if !errors.As(err, &answer) || !apierrors.IsInvalid(err) || answer.Status().Details == nil {
		return false
	}
	for _, cause := range answer.Status().Details.Causes {
		if cause.Field == "metadata.uid" && cause.Type == metav1.CauseTypeFieldValueInvalid {
			return true
		}
	}
	return false
}
