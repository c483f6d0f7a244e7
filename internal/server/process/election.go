// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package process

import (
	"context"
	"errors"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capstan-io/capstan/internal/server/election"
	"github.com/capstan-io/capstan/internal/server/options"
)

// setupElection makes a manager with these settings work only while it leads.
func setupElection(settings *ctrl.Options, home *rest.Config, o ManagerOptions) error {
	times := o.Election
	if times.Disabled {
		return nil
	}
	// It has a client of its own, so that a flood of requests cannot cost the lead.
	lock, err := election.NewLock(home, election.LockOptions{Namespace: o.Namespace, Name: o.Lease, Times: times, Pod: election.OwnPod()})
	if err != nil {
		return err
	}
	settings.LeaderElection = true
	settings.LeaderElectionResourceLockInterface = lock
	settings.LeaderElectionID = o.Lease
	settings.LeaderElectionNamespace = o.Namespace
	// The process ends when the manager does, so nothing goes on without the Lease.
	settings.LeaderElectionReleaseOnCancel = true
	settings.LeaseDuration = &times.LeaseDuration
	settings.RenewDeadline = &times.RenewDeadline
	settings.RetryPeriod = &times.RetryPeriod
	return nil
}

// WithLeaderElection returns a function that runs another one whenever this process has all
// of the Leases, which are taken in the given order. It ends when that one does by
// itself. A process that loses a Lease, as its API server is away, ends the work, waits
// as any other replica, and begins the work anew when it leads again.
func WithLeaderElection(
	config *rest.Config, times options.LeaderElection, namespace string, leases []string, run func(context.Context) error,
) (func(context.Context) error, error) {
	if times.Disabled || len(leases) == 0 {
		return run, nil
	}
	run, err := WithLeaderElection(config, times, namespace, leases[1:], run)
	if err != nil {
		return nil, err
	}
	lock, err := election.NewLock(config, election.LockOptions{Namespace: namespace, Name: leases[0], Times: times, Pod: election.OwnPod()})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error {
		for {
			err := election.RunAsLeader(ctx, lock, run)
			switch {
			case !errors.Is(err, election.ErrNotLeader):
				return err
			case ctx.Err() != nil:
				return nil //nolint:nilerr // it was told to end, and has
			}
			log.FromContext(ctx).Info("This process does not lead any more, and waits until it does again", "lease", lock.Describe(), "problem", err.Error())
		}
	}, nil
}
