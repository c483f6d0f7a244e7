// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"k8s.io/client-go/rest"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/capstan-io/capstan/internal/election"
	"github.com/capstan-io/capstan/internal/options"
)

// electionOf returns what makes a manager work only while it leads.
func electionOf(config *rest.Config, times options.LeaderElection, namespace, lease string) (func(ctrl.Options) ctrl.Options, error) {
	if times.Disabled {
		return func(o ctrl.Options) ctrl.Options { return o }, nil
	}
	// It has a client of its own, so that a flood of requests cannot cost the lead.
	lock, err := election.New(config, election.Options{Namespace: namespace, Name: lease, Times: times, Pod: election.OwnPod()})
	if err != nil {
		return nil, err
	}
	return func(o ctrl.Options) ctrl.Options {
		o.LeaderElection, o.LeaderElectionResourceLockInterface = true, lock
		o.LeaderElectionID, o.LeaderElectionNamespace = lease, namespace
		// The process ends when the manager does, so nothing goes on without the Lease.
		o.LeaderElectionReleaseOnCancel = true
		o.LeaseDuration, o.RenewDeadline, o.RetryPeriod = &times.LeaseDuration, &times.RenewDeadline, &times.RetryPeriod
		return o
	}, nil
}

// leading returns a function that runs another one while this process has all
// of the Leases. They are taken in the given order.
func leading(
	config *rest.Config, times options.LeaderElection, namespace string, leases []string, run func(context.Context) error,
) (func(context.Context) error, error) {
	if times.Disabled || len(leases) == 0 {
		return run, nil
	}
	run, err := leading(config, times, namespace, leases[1:], run)
	if err != nil {
		return nil, err
	}
	lock, err := election.New(config, election.Options{Namespace: namespace, Name: leases[0], Times: times, Pod: election.OwnPod()})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error { return election.Lead(ctx, lock, run) }, nil
}
