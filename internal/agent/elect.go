// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync/atomic"

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

// Candidate is a replica that may come to lead.
type Candidate struct {
	// Config is for the cluster that has the Lease, Lock in Namespace.
	Config          *rest.Config
	Namespace, Lock string
	Election        options.LeaderElection
}

// Elect runs the function while this replica leads the registration agents, or
// those of all parts. It returns when the function does, and with an error when
// another replica may lead.
func Elect(ctx context.Context, config *rest.Config, namespace string, election options.LeaderElection, run func(context.Context) error) error {
	return Candidate{Config: config, Namespace: namespace, Lock: LockName, Election: election}.Lead(ctx, run)
}

// Lead runs the function while this replica leads. It returns when the
// function does, and with an error when another replica may lead.
func (c Candidate) Lead(ctx context.Context, run func(context.Context) error) error {
	leases, err := coordinationclient.NewForConfig(c.Config)
	if err != nil {
		return fmt.Errorf("making the client for the election of a leader: %w", err)
	}
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("finding the name of this replica: %w", err)
	}
	leading, cancel := context.WithCancel(ctx)
	defer cancel()
	var started atomic.Bool
	result := make(chan error, 1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Namespace: c.Namespace, Name: c.Lock},
			Client:     leases,
			LockConfig: resourcelock.ResourceLockConfig{Identity: host + "_" + string(uuid.NewUUID())},
		},
		Name: c.Lock, ReleaseOnCancel: true,
		LeaseDuration: c.Election.LeaseDuration, RenewDeadline: c.Election.RenewDeadline, RetryPeriod: c.Election.RetryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(lead context.Context) {
				started.Store(true)
				err := run(lead)
				if err == nil && lead.Err() != nil && ctx.Err() == nil {
					err = errNotLeader
				}
				result <- err
				cancel()
			},
			OnStoppedLeading: func() {},
		},
	})
	if err != nil {
		return fmt.Errorf("setting up the election of a leader: %w", err)
	}
	elector.Run(leading)
	if !started.Load() {
		return nil // the process ends before it led
	}
	return <-result
}
