// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/hub"
)

// namesMax is how many names a message has at most.
const namesMax = 10

// detach deletes the ManagedCluster and waits until the hub has let it go, which
// it does when the works are gone from the cluster.
func (u *unjoinRun) detach(ctx context.Context) error {
	patience, cancel := context.WithTimeout(ctx, u.wait)
	defer cancel()
	delivered, err := u.listWorks(ctx)
	if err != nil {
		return err
	}
	uid := u.cluster.UID
	if err := u.hub.Delete(ctx, u.cluster.DeepCopy(), client.Preconditions{UID: &uid}); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("delete cluster %q: %w", u.name, err)
	}
	if u.force {
		if err := hub.GiveUp(ctx, u.hub, u.name, 0); err != nil {
			return err
		}
	}
	reached := true
	for {
		cluster := &clusterv1.ManagedCluster{}
		err := u.hub.Get(ctx, client.ObjectKey{Name: u.name}, cluster)
		if apierrors.IsNotFound(err) || err == nil && cluster.UID != uid {
			if u.force && !reached {
				u.leftBehind = delivered
			}
			return nil
		}
		if err != nil {
			return fmt.Errorf("wait until cluster %q is gone: %w", u.name, err)
		}
		reached = meta.IsStatusConditionTrue(cluster.Status.Conditions, clusterv1.ManagedClusterConditionAvailable)
		says := deletionOf(cluster)
		u.steps.ShowWaiting("%s", says)
		if pausePoll(patience) != nil {
			return exit.WaitedTooShort(ctx, u.stillLeavingError(says, reached))
		}
	}
}

// stillLeavingError is the error for a cluster that does not go in time.
func (u *unjoinRun) stillLeavingError(says string, reached bool) error {
	err := fmt.Errorf("cluster %q is still leaving: %s", u.name, says)
	if reached || u.force {
		return exit.Next(err, "The hub continues in the background. Run the command again to wait longer; \"capstan tree %s\" shows the works that are left.", u.name)
	}
	return exit.Next(err, "The hub cannot reach the cluster and continues once it can; run the command again to wait longer. "+
		"If the cluster is gone for good, add --force: what was delivered then stays there.")
}

// deletionOf tells what keeps a cluster that is being deleted.
func deletionOf(cluster *clusterv1.ManagedCluster) string {
	if deleting := meta.FindStatusCondition(cluster.Status.Conditions, clusterv1.ManagedClusterConditionDeleting); deleting != nil && deleting.Message != "" {
		return deleting.Message
	}
	return "the hub's registration controller has not acted on it yet"
}

// listWorks returns the names of the works of the cluster, sorted.
func (u *unjoinRun) listWorks(ctx context.Context) ([]string, error) {
	list := &workv1.ManifestWorkList{}
	if err := u.hub.List(ctx, list, client.InNamespace(u.name)); err != nil {
		return nil, fmt.Errorf("see what was delivered to cluster %q: %w", u.name, err)
	}
	names := make([]string, 0, len(list.Items))
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	slices.Sort(names)
	return names, nil
}

func enumerate(names []string) string {
	if len(names) > namesMax {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:namesMax], ", "), len(names)-namesMax)
	}
	return strings.Join(names, ", ")
}

// secretOf returns the Secret with the credential for a cluster, without content.
func secretOf(name string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: name, Name: fleetv1alpha1.DefaultSecretName}}
}
