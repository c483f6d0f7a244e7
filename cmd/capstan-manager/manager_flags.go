// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"go.opentelemetry.io/otel"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/manifestwork/allowance"
	"github.com/capstan-io/capstan/internal/server/options"
	"github.com/capstan-io/capstan/internal/server/process"
	"github.com/capstan-io/capstan/internal/server/tracing"
	"github.com/capstan-io/capstan/internal/server/tracing/otlp"
)

// managerFlags are the flags that all programs with controllers have.
type managerFlags struct {
	client    options.ClientOptions
	home      options.HomeOptions
	election  options.LeaderElection
	server    options.ServerOptions
	verbosity int
}

// newManagerFlags returns the defaults on a server with these.
func newManagerFlags(server options.ServerOptions) managerFlags {
	return managerFlags{election: options.DefaultLeaderElection(), server: server}
}

func (f *managerFlags) addManagerFlags(fs *pflag.FlagSet) {
	f.client.AddFlags(fs)
	f.election.AddFlags(fs)
	f.server.AddFlags(fs)
	fs.IntVarP(&f.verbosity, "v", "v", f.verbosity, "verbosity of the logs; 0 is for operators")
}

// addForOperator adds the flags of an operator, which OCM's charts probe over HTTPS.
func (f *managerFlags) addForOperator(fs *pflag.FlagSet) {
	f.addManagerFlags(fs)
	f.server.AddSecureHealthFlag(fs)
}

// addForHub adds the flags of a component of a hub, which may be hosted.
func (f *managerFlags) addForHub(fs *pflag.FlagSet) {
	f.addManagerFlags(fs)
	f.home.AddFlags(fs)
}

// newManager makes the manager that the flags ask for, of a component that says
// the rest.
func (f *managerFlags) newManager(component process.ManagerOptions) (ctrl.Manager, error) {
	var err error
	if component.Config, err = f.client.ClientConfig(); err != nil {
		return nil, err
	}
	if component.Home, err = f.home.HomeConfig(component.Config); err != nil {
		return nil, err
	}
	component.Server = f.server
	component.Election = f.election
	component.Tracer = startTracer(ctrl.Log, component.Component, os.Getenv)
	return process.NewManager(component)
}

// startTracer returns what traces deliveries if the environment asks for it, and nil
// otherwise: also for what the environment has wrong, since no program stops for its
// telemetry. Spans are sent every few seconds; those of the last ones before the process
// ends are lost.
func startTracer(logger logr.Logger, program string, getenv func(string) string) *tracing.Tracer {
	otel.SetErrorHandler(otlp.NewLosses(logger, clock.RealClock{}))
	t, _, err := otlp.StartTracing(getenv, program)
	if err != nil {
		logger.Info("Deliveries are not traced until this is fixed and the process restarts", "problem", err.Error())
		return nil
	}
	return t
}

const (
	sharedWorkBytesFlag = "shared-work-bytes-max"
	workWritersFlag     = "work-writers"
	// workWritersMax is more than there are.
	workWritersMax = 16
)

// workRoom is what a program is told about the works of namespaces.
type workRoom struct {
	shared  string
	writers int64
}

// add adds the flags that say what the works of namespaces may take up together, and who writes them.
func (r *workRoom) add(fs *pflag.FlagSet) {
	fs.Int64Var(&r.writers, workWritersFlag, 1, "number of programs that write works of namespaces on this hub, this one included: each has its part of what is written in a second")
	fs.StringVar(&r.shared, sharedWorkBytesFlag, fmt.Sprintf("%dMi", allowance.DefaultShared>>20), fmt.Sprintf(
		"number of bytes, such as 4Gi, that the works of all namespaces without annotation %s take up together on the hub; each may have three quarters of what others leave",
		fleetv1alpha1.AnnotationWorkBytesMax))
}

// parse returns how many bytes the works of namespaces may take up together, if the flags are valid.
func (r *workRoom) parse() (shared int64, err error) {
	if r.writers < 1 || r.writers > workWritersMax {
		return 0, fmt.Errorf("--%s: %d is not a number from 1 to %d", workWritersFlag, r.writers, workWritersMax)
	}
	shared, err = allowance.ParseShared(r.shared)
	if err != nil {
		return 0, fmt.Errorf("--%s: %w", sharedWorkBytesFlag, err)
	}
	return shared, nil
}
