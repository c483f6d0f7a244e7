// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package hubtrust follows the authorities that the hub publishes, so that the hub
// can replace the one that signs its API server's certificate while its members
// stay connected. What may be taken over is decided in package connect; keeping it
// is for whoever has the credential.
package hubtrust

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"

	"github.com/capstan-io/capstan/internal/agent/connect"
	"github.com/capstan-io/capstan/internal/cluster/fleet"
)

const (
	// lookEvery is the time between two looks, each of which costs the hub a TLS
	// handshake and a read; absentEvery that after one at a hub that publishes
	// nothing.
	lookEvery   = 10 * time.Minute
	absentEvery = time.Hour
	// jitter is the share of it that is added by chance, so that the agents of a fleet
	// do not ask together.
	jitter = 0.2
)

// AuthorityPart follows what the hub of each connection publishes.
type AuthorityPart struct {
	// Endpoint returns how the hub is reached now.
	Endpoint func() connect.HubEndpoint
	// Trust is given the endpoint with the CA to use from now on. It has to return at
	// once, and is called again until Endpoint has it.
	Trust func(connect.HubEndpoint)
	// Every is the time between two looks. Defaults to ten minutes.
	Every time.Duration
	// Clock defaults to the real one.
	Clock clock.Clock
	Log   logr.Logger
}

// Name implements fleet.Part.
func (p *AuthorityPart) Name() string { return "hubtrust" }

// Engage implements fleet.Part.
func (p *AuthorityPart) Engage(ctx context.Context, c *fleet.Connection) error {
	f := &authorityFollower{part: p, every: p.Every, clock: p.Clock}
	if f.every == 0 {
		f.every = lookEvery
	}
	if f.clock == nil {
		f.clock = clock.RealClock{}
	}
	// A fleet that starts together, such as after an outage of its hub, has better
	// things to ask at first.
	f.first = f.clock.Now().Add(rand.N(f.every)) //nolint:gosec // nothing depends on it being secret
	loop := fleet.NewLoop(f.pollAuthorities)
	loop.Clock = f.clock
	c.Go(func() { loop.Start(ctx) })
	return nil
}

// authorityFollower follows one hub. Only its loop uses it.
type authorityFollower struct {
	part  *AuthorityPart
	every time.Duration
	clock clock.Clock
	first time.Time
	// told is the problem that was logged last.
	told string
}

// pollAuthorities asks the hub once. What cannot be found out is no failure of the agent: it
// goes on with what it trusts, and other parts notice a hub that does not respond.
func (f *authorityFollower) pollAuthorities(ctx context.Context) (time.Duration, error) {
	if early := f.first.Sub(f.clock.Now()); early > 0 {
		return early, nil
	}
	endpoint := f.part.Endpoint()
	ca, err := connect.PublishedCA(ctx, endpoint, f.clock.Now())
	if errors.Is(err, connect.ErrNotPublished) {
		f.told = ""
		return wait.Jitter(max(f.every, absentEvery), jitter), nil
	}
	f.logProblem(err)
	if ca != nil {
		endpoint.CA = ca
		f.part.Trust(endpoint)
	}
	return wait.Jitter(f.every, jitter), nil
}

// logProblem logs a problem when it comes or changes.
func (f *authorityFollower) logProblem(err error) {
	problem := ""
	if err != nil {
		problem = err.Error()
	}
	if problem != "" && problem != f.told {
		f.part.Log.Info("The authorities that the hub publishes are not taken over; the agent trusts the same as before", "problem", problem)
	}
	f.told = problem
}
