// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"os"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"
	coordinationclient "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/capstan-io/capstan/internal/options"
)

// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=agent,resources=leases,verbs=create
// +kubebuilder:rbac:groups=coordination.k8s.io,namespace=agent,resources=leases,resourceNames=registration-agent-lock,verbs=get;update

// LockName is the Lease in the namespace of the agent by which its replicas
// agree on which one works.
const LockName = "registration-agent-lock"

// errNotLeader ends a replica that cannot show any more that it leads.
var errNotLeader = errors.New("this replica does not lead any more")

// Elect runs the function while this replica leads. It returns when the
// function does, and with an error when another replica may lead.
func Elect(ctx context.Context, config *rest.Config, namespace string, election options.LeaderElection, run func(context.Context) error) error {
	leases, err := coordinationclient.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making the client for the election of a leader: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("finding the name of this replica: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	result := make(chan error, 1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: namespace, Name: LockName},
			Client:     leases,
			LockConfig: resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())},
		},
		Name: LockName, ReleaseOnCancel: true,
		LeaseDuration: election.LeaseDuration, RenewDeadline: election.RenewDeadline, RetryPeriod: election.RetryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) {
				result <- run(ctx)
				cancel()
			},
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return fmt.Errorf("setting up the election of a leader: %w", err)
	}
	ended := context.Cause(ctx)
	elector.Run(ctx)
	select {
	case err := <-result:
		return err
	default:
	}
	if ended == nil && ctx.Err() == nil {
		return errNotLeader
	}
	return nil
}
