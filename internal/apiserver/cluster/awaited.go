// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/apiserver/pkg/warning"
	"sigs.k8s.io/controller-runtime/pkg/log"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/apis/karmada/cluster/v1alpha1"
	"github.com/capstan-io/capstan/internal/apiserver/cluster/secretcopy"
	"github.com/capstan-io/capstan/internal/apiserver/cluster/translate"
	"github.com/capstan-io/capstan/internal/cluster/projection"
)

const (
	// awaitedTimeMax is how long a Secret is waited for: groups of the user that are
	// recorded are those of then, and whoever has left them since must not have Secrets
	// copied that come much later.
	awaitedTimeMax = 24 * time.Hour
	// requesterBytesMax bounds what is recorded of a user.
	requesterBytesMax = 16 << 10
)

// copySecrets copies the Secrets that a Cluster begins to refer to and that are not
// in the namespace of the cluster, where its connection uses them. It returns those
// to wait for. Whether the user may read them was reviewed before.
func (w *clusterWriter) copySecrets(ctx context.Context, before, after *v1alpha1.Cluster, dryRun []string) ([]fleetv1alpha1.AwaitedSecret, error) {
	var missing []fleetv1alpha1.AwaitedSecret
	for _, ref := range secretcopy.BegunReferences(before, after) {
		data, found, err := w.secrets.ReadSource(ctx, after.Name, ref)
		switch {
		case err != nil:
			return nil, err //nolint:wrapcheck // it is about the Cluster already
		case !found:
			awaited, ok := w.newAwaitedSecret(ctx, after.Name, ref)
			if !ok {
				return nil, w.secrets.MissingError(after.Name, ref) //nolint:wrapcheck // it is about the Cluster already
			}
			warning.AddWarning(ctx, "", "spec."+ref.Field+": "+awaited.Message)
			missing = append(missing, awaited)
		case len(dryRun) == 0:
			if err := w.secrets.WriteCopy(ctx, after.Name, ref, data); err != nil {
				return nil, err //nolint:wrapcheck // it is about the Cluster already
			}
		}
	}
	return missing, nil
}

// newAwaitedSecret returns what is recorded of a Secret that is waited for, false if it
// must not be.
func (w *clusterWriter) newAwaitedSecret(ctx context.Context, cluster string, ref secretcopy.CopyReference) (fleetv1alpha1.AwaitedSecret, bool) {
	who, ok := request.UserFrom(ctx)
	if !ok || !w.loop.HasRoomFor(cluster) {
		return fleetv1alpha1.AwaitedSecret{}, false
	}
	requester := fleetv1alpha1.Requester{Username: who.GetName(), UID: who.GetUID(), Groups: who.GetGroups(), Extra: who.GetExtra()}
	encoded, err := json.Marshal(requester)
	if err != nil || len(encoded) > requesterBytesMax {
		return fleetv1alpha1.AwaitedSecret{}, false
	}
	return fleetv1alpha1.AwaitedSecret{Copy: ref.To, Requester: requester, RequestedAt: metav1.NewTime(w.clock.Now()), Message: notYetMessage(ref)}, true
}

// recordAwaited records what a Cluster waits for now, in memory, among what it begins to
// refer to.
func recordAwaited(connection *fleetv1alpha1.ClusterConnection, begun []secretcopy.CopyReference, missing []fleetv1alpha1.AwaitedSecret) {
	kept := slices.DeleteFunc(slices.Clone(connection.Cluster.AwaitedSecrets), func(earlier fleetv1alpha1.AwaitedSecret) bool {
		return slices.ContainsFunc(begun, func(ref secretcopy.CopyReference) bool { return ref.To == earlier.Copy })
	})
	connection.Cluster.AwaitedSecrets = slices.Concat(kept, missing)
}

// watchAwaitedSecrets has the Secrets that a Cluster waits for copied later. It is to be called
// once that is stored.
func (w *clusterWriter) watchAwaitedSecrets(connection *fleetv1alpha1.ClusterConnection, dryRun []string) {
	if len(dryRun) == 0 && len(connection.Cluster.AwaitedSecrets) > 0 {
		w.loop.AddWaiting(connection.Name)
	}
}

// Waiting implements secretcopy.WaitingClusters.
func (w *clusterWriter) Waiting(ctx context.Context, take func(string)) error {
	_, err := w.hub.connections.List(ctx, metav1.ListOptions{ResourceVersion: "0"}, func(connection *fleetv1alpha1.ClusterConnection) {
		if w.isWaiting(connection) {
			take(connection.Name)
		}
	})
	if err != nil {
		return fmt.Errorf("list the clusters: %w", err)
	}
	return nil
}

// isWaiting reports whether there is something to look for.
func (w *clusterWriter) isWaiting(connection *fleetv1alpha1.ClusterConnection) bool {
	return connection.Cluster != nil && connection.Cluster.DeletionTimestamp.IsZero() && slices.ContainsFunc(connection.Cluster.AwaitedSecrets,
		func(awaited fleetv1alpha1.AwaitedSecret) bool { return !w.isTooLate(awaited) })
}

// isTooLate reports whether a Secret that exists now comes too late.
func (w *clusterWriter) isTooLate(awaited fleetv1alpha1.AwaitedSecret) bool {
	return w.clock.Now().Sub(awaited.RequestedAt.Time) > awaitedTimeMax
}

// CopyAwaited implements secretcopy.WaitingClusters. A copy counts once the record of it is
// removed from the ClusterConnection as it was read: if somebody wrote to that in
// between, and be it another reference, all is done again, so that the copy is that
// of the Secret in the reference.
func (w *clusterWriter) CopyAwaited(ctx context.Context, name string) (bool, error) {
	written := map[string]bool{}
	for range retriesMax {
		connection, err := w.presentConnection(ctx, name)
		if err != nil || connection == nil {
			return false, err
		}
		before := connection.Cluster.DeepCopy()
		if err := w.copyAwaitedSecrets(ctx, connection, written); err != nil {
			return true, err
		}
		if len(written) == 0 && equality.Semantic.DeepEqual(before, connection.Cluster) {
			return w.isWaiting(connection), nil
		}
		stored, err := w.hub.connections.Update(ctx, connection, metav1.UpdateOptions{FieldManager: fieldManager})
		switch {
		case apierrors.IsConflict(err):
		case err != nil:
			return true, translateHubError(err, name)
		default:
			return w.isWaiting(stored), nil
		}
	}
	return true, conflictError(name)
}

// presentConnection returns the ClusterConnection of a cluster, nil if the cluster is gone, or
// about to go, or another one of the name.
func (w *clusterWriter) presentConnection(ctx context.Context, name string) (*fleetv1alpha1.ClusterConnection, error) {
	connection, err := w.hub.connections.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, unlessNotFound(err, name)
	}
	mc, err := w.hub.clusters.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return nil, unlessNotFound(err, name)
	}
	if c := connection.Cluster; c == nil || c.UID != mc.UID || !c.DeletionTimestamp.IsZero() || !mc.DeletionTimestamp.IsZero() {
		return nil, nil
	}
	return connection, nil
}

func unlessNotFound(err error, name string) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return translateHubError(err, name)
}

// copyAwaitedSecrets copies what a Cluster waits for and what was written for it before, and
// changes in memory what it waits for still.
func (w *clusterWriter) copyAwaitedSecrets(ctx context.Context, connection *fleetv1alpha1.ClusterConnection, written map[string]bool) error {
	var left []fleetv1alpha1.AwaitedSecret
	for _, ref := range secretcopy.BegunReferences(&v1alpha1.Cluster{}, translate.ClusterFromConnection(connection)) {
		awaited := projection.AwaitedSecretFor(connection, ref.To)
		if awaited == nil && !written[ref.To] {
			continue
		}
		why, err := w.copyAwaitedSecret(ctx, connection.Name, ref, awaited)
		if err != nil {
			return err
		}
		if why == "" {
			written[ref.To] = true
		} else if awaited != nil {
			still := *awaited
			still.Message = why
			left = append(left, still)
		}
	}
	connection.Cluster.AwaitedSecrets = left
	return nil
}

// copyAwaitedSecret copies a Secret, if whoever asked for that may read it. It returns why it
// does not: what somebody has to do.
func (w *clusterWriter) copyAwaitedSecret(ctx context.Context, cluster string, ref secretcopy.CopyReference, awaited *fleetv1alpha1.AwaitedSecret) (string, error) {
	if awaited != nil && w.isTooLate(*awaited) {
		return fmt.Sprintf("Secret %s was not created within a day, so it is not copied any more: remove the reference, and write it again", ref.SourceName()), nil
	}
	data, found, err := w.readForRequester(ctx, cluster, ref, awaited)
	if err == nil && !found {
		return notYetMessage(ref), nil
	}
	if err == nil {
		err = w.secrets.WriteCopy(ctx, cluster, ref, data)
	}
	switch {
	case apierrors.IsInvalid(err) || apierrors.IsForbidden(err):
		return fmt.Sprintf("Secret %s is not copied: %v", ref.SourceName(), err), nil
	case err != nil:
		return "", err
	}
	log.FromContext(ctx).Info("A Secret that a cluster waited for is copied", "cluster", cluster, "kind", "Secret", "namespace", ref.From.Namespace, "name", ref.From.Name)
	return "", nil
}

// readForRequester reads a Secret for whoever asked for its copy; nil is that the reference
// was reviewed when it was written.
func (w *clusterWriter) readForRequester(
	ctx context.Context, cluster string, ref secretcopy.CopyReference, awaited *fleetv1alpha1.AwaitedSecret,
) (map[string][]byte, bool, error) {
	if awaited != nil {
		who := awaited.Requester
		asked := request.WithUser(ctx, &user.DefaultInfo{Name: who.Username, UID: who.UID, Groups: who.Groups, Extra: who.Extra})
		if err := w.rights.checkRead(asked, cluster, "spec."+ref.Field+" refers to a Secret, which", ref.From); err != nil {
			return nil, false, err
		}
	}
	return w.secrets.ReadSource(ctx, cluster, ref) //nolint:wrapcheck // it is about the Cluster already
}

// notYetMessage says that a Secret does not exist, and what to do.
func notYetMessage(ref secretcopy.CopyReference) string {
	return fmt.Sprintf("Secret %s does not exist yet: create it with the key token, and the hub copies it within %s", ref.SourceName(), secretcopy.LookMax)
}
