// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/health"
	"github.com/capstan-io/capstan/internal/cli/takeover"
)

// surelyLooks is how many looks in a row have to find what does not mend itself
// until a join gives up: the first may find what was said before the join.
const surelyLooks = 10

// joinState is how far a cluster is on its way.
type joinState struct {
	done bool
	// reason and message say what is missing.
	reason, message string
}

// progressOf tells how far the cluster is, by what the hub says about it.
func progressOf(cluster *clusterv1.ManagedCluster, connection *fleetv1alpha1.ClusterConnection) joinState {
	connected := meta.FindStatusCondition(connection.Status.Conditions, fleetv1alpha1.ClusterConnectionConditionConnected)
	switch {
	case connected == nil:
		return joinState{message: "the push agent of the hub is starting"}
	case connected.ObservedGeneration < connection.Generation:
		return joinState{message: "the push agent of the hub has not processed it yet"}
	case connected.Status != metav1.ConditionTrue:
		return joinState{reason: connected.Reason, message: connected.Message}
	}
	ready := health.ClusterReadiness(cluster)
	return joinState{done: ready.Ready == metav1.ConditionTrue, message: ready.Message}
}

// hopelessNextStep returns the next step for what waiting does not mend, or nothing.
func hopelessNextStep(reason string) string {
	switch reason {
	case fleetv1alpha1.ClusterConnectionReasonForbiddenAddress:
		return "Give its address as seen from the hub with --" + flagEndpoint + ". If the address is right, an administrator of the hub can allow it with --allowed-networks of the push agent."
	case fleetv1alpha1.ClusterConnectionReasonInvalidEndpoint:
		return "Give its address as seen from the hub with --" + flagEndpoint + "."
	case fleetv1alpha1.ClusterConnectionReasonUntrusted:
		return "The hub gets another certificate than this machine does. Give an address that the certificate is for with --" + flagEndpoint + "."
	case fleetv1alpha1.ClusterConnectionReasonAlreadyJoined, fleetv1alpha1.ClusterConnectionReasonIdentityChanged:
		return "Check that the address leads to this cluster from the hub, too; if not, give that with --" + flagEndpoint + "."
	}
	return ""
}

// awaitNamespaceGone waits until nothing is left in the member of an earlier join.
func (j *joinRun) awaitNamespaceGone(ctx, patience context.Context) error {
	for {
		ending, err := j.push.IsNamespaceEnding(ctx, j.there.Client)
		if err != nil || !ending {
			return err
		}
		j.steps.ShowWaiting("its namespace %q is being deleted", j.push.Namespace)
		if pausePoll(patience) != nil {
			return exit.WaitedTooShort(ctx, exit.Next(fmt.Errorf("the namespace %q of the member is still being deleted", j.push.Namespace),
				"\"kubectl describe namespace %s\" in the member shows what blocks it; --%s selects another one.", j.push.Namespace, flagNamespace))
		}
	}
}

// awaitReady waits until the hub is connected with the cluster, and it is ready.
func (j *joinRun) awaitReady(ctx, patience context.Context) error {
	sure := 0
	for {
		now, err := j.readJoinState(ctx)
		if err != nil || now.done {
			return err
		}
		j.steps.ShowWaiting("%s", now.message)
		next := hopelessNextStep(now.reason)
		if next == "" {
			sure = 0
		} else if sure++; sure == surelyLooks {
			return exit.Next(fmt.Errorf("the hub cannot connect to cluster %q: %s", j.name, now.message), "%s", next)
		}
		if pausePoll(patience) != nil {
			return exit.WaitedTooShort(ctx, exit.Next(fmt.Errorf("cluster %q is accepted, but not ready: %s", j.name, now.message),
				"\"capstan describe cluster %s\" shows more. The push agent is the Deployment cluster-manager-push-agent in namespace open-cluster-management-hub.", j.name))
		}
	}
}

func (j *joinRun) readJoinState(ctx context.Context) (joinState, error) {
	cluster := &clusterv1.ManagedCluster{}
	connection := &fleetv1alpha1.ClusterConnection{}
	key := client.ObjectKey{Name: j.name}
	err := errors.Join(j.hub.Get(ctx, key, cluster), j.hub.Get(ctx, key, connection))
	if apierrors.IsNotFound(err) {
		return joinState{}, exit.Next(fmt.Errorf("cluster %q was removed from the hub in the meantime", j.name), "Run the command again if that was a mistake.")
	}
	if err != nil {
		return joinState{}, fmt.Errorf("see how cluster %q is: %w", j.name, err)
	}
	return progressOf(cluster, connection), nil
}

// takeOver waits until the hub has taken over all that the cluster's own agent
// has delivered. Before that, the Klusterlet must not go.
func (j *joinRun) takeOver(ctx, patience context.Context) error {
	agent, err := j.newAgent(ctx)
	if err != nil {
		return err
	}
	look := func() (err error) {
		j.count, err = agent.CountRecords(ctx, j.there.Client)
		return j.there.ExplainError(err)
	}
	if err := look(); err != nil || j.count.IsDone() {
		return err
	}
	j.handedOver = true
	return j.steps.RunStep("Taking over the works of the cluster", func() error {
		for !j.count.IsDone() {
			j.steps.ShowWaiting("%s", j.count)
			if pausePoll(patience) != nil {
				return exit.WaitedTooShort(ctx, exit.Next(fmt.Errorf("cluster %q is ready, but only %s", j.name, j.count),
					"Keep the Klusterlet in the member: deleting it deletes what is not taken over. Run the command again to wait longer; "+
						"\"capstan get works -n %s\" shows which works are stuck.", j.name))
			}
			if err := look(); err != nil {
				return err
			}
		}
		return nil
	})
}

// newAgent returns who works for the cluster now.
func (j *joinRun) newAgent(ctx context.Context) (takeover.Agent, error) {
	cluster := &clusterv1.ManagedCluster{}
	connection := &fleetv1alpha1.ClusterConnection{}
	key := client.ObjectKey{Name: j.name}
	if err := errors.Join(j.hub.Get(ctx, key, cluster), j.hub.Get(ctx, key, connection)); err != nil {
		return takeover.Agent{}, fmt.Errorf("find out which agent works for cluster %q: %w", j.name, err)
	}
	return takeover.Agent{ID: string(connection.UID), HubURL: cluster.Annotations[fleetv1alpha1.AnnotationHubURL]}, nil
}

// pausePoll waits until it is time to look again, or until the context ends.
func pausePoll(ctx context.Context) error {
	timer := time.NewTimer(lookEvery)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}
