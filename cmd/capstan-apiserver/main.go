// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Command capstan-apiserver is the aggregated API server of a hub. It is a
// program of its own, since API server code would double the size of every
// other one.
package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	genericserver "k8s.io/apiserver/pkg/server"
	"k8s.io/utils/clock"

	"github.com/capstan-io/capstan/internal/apiserver"
	"github.com/capstan-io/capstan/internal/server/footprint"
	"github.com/capstan-io/capstan/internal/server/logging"
	"github.com/capstan-io/capstan/internal/server/version"
)

func main() {
	if err := newCommand().ExecuteContext(genericserver.SetupSignalContext()); err != nil {
		fmt.Fprintf(os.Stderr, "capstan-apiserver: %v\n", err)
		os.Exit(1)
	}
}

func newCommand() *cobra.Command {
	o := apiserver.NewServerOptions()
	verbosity := 0
	cmd := &cobra.Command{
		Use:           "capstan-apiserver",
		Short:         "Serves the Cluster API (cluster.karmada.io) of a hub",
		Version:       version.SemanticVersion(),
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if _, err := logging.SetupLogger(verbosity); err != nil {
				return err
			}
			if err := o.Validate(); err != nil {
				return err
			}
			config, err := o.ServerConfig()
			if err != nil {
				return err
			}
			server, err := config.Complete().NewServer()
			if err != nil {
				return err
			}
			go footprint.ReleaseMemory(cmd.Context(), clock.RealClock{})
			return server.RunAPIServer(cmd.Context())
		},
	}
	o.AddFlags(cmd.Flags())
	cmd.Flags().IntVarP(&verbosity, "v", "v", verbosity, "verbosity of the logs; 0 is for operators")
	return cmd
}
