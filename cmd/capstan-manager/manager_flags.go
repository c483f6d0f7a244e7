// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"go.opentelemetry.io/otel"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/capstan-io/capstan/internal/options"
	"github.com/capstan-io/capstan/internal/process"
	"github.com/capstan-io/capstan/internal/tracing"
	"github.com/capstan-io/capstan/internal/tracing/otlp"
)

// managerFlags are the flags that all programs with controllers have.
type managerFlags struct {
	client    options.Client
	home      options.Home
	election  options.LeaderElection
	server    options.Server
	verbosity int
}

// newManagerFlags returns the defaults on a server with these.
func newManagerFlags(server options.Server) managerFlags {
	return managerFlags{election: options.DefaultLeaderElection(), server: server}
}

func (f *managerFlags) add(fs *pflag.FlagSet) {
	f.client.AddFlags(fs)
	f.election.AddFlags(fs)
	f.server.AddFlags(fs)
	fs.IntVarP(&f.verbosity, "v", "v", f.verbosity, "verbosity of the logs; 0 is for operators")
}

// addForOperator adds the flags of an operator, which OCM's charts probe over HTTPS.
func (f *managerFlags) addForOperator(fs *pflag.FlagSet) {
	f.add(fs)
	f.server.AddSecureHealthFlag(fs)
}

// addForHub adds the flags of a component of a hub, which may be hosted.
func (f *managerFlags) addForHub(fs *pflag.FlagSet) {
	f.add(fs)
	f.home.AddFlags(fs)
}

// manager makes the manager that the flags ask for, of a component that says
// the rest.
func (f *managerFlags) manager(component process.Options) (ctrl.Manager, error) {
	var err error
	if component.Config, err = f.client.Config(); err != nil {
		return nil, err
	}
	if component.Home, err = f.home.Config(component.Config); err != nil {
		return nil, err
	}
	component.Server, component.Election = f.server, f.election
	component.Tracer = tracer(ctrl.Log, component.Component, os.Getenv)
	return process.NewManager(component)
}

// tracer returns what traces deliveries if the environment asks for it, and nil
// otherwise: also for what the environment has wrong, since no program stops for its
// telemetry. Spans are sent every few seconds; those of the last ones before the process
// ends are lost.
func tracer(logger logr.Logger, program string, getenv func(string) string) *tracing.Tracer {
	otel.SetErrorHandler(otlp.NewLosses(logger, clock.RealClock{}))
	t, _, err := otlp.Start(getenv, program)
	if err != nil {
		logger.Info("Deliveries are not traced until this is mended and the process starts again", "problem", err.Error())
		return nil
	}
	return t
}
