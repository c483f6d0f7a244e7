// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/capstan-io/capstan/test/lab/internal/machine"
)

func newPrerequisitesCommand() *cobra.Command {
	var nodeless, install bool
	cmd := &cobra.Command{
		Use:   "prerequisites",
		Short: "Tell which packages of the distribution are missing, or install them",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if install {
				if err := machine.InstallPrerequisites(cmd.Context(), !nodeless, os.Stderr); err != nil {
					return err
				}
			}
			if err := machine.CheckPrerequisites(!nodeless); err != nil {
				return err
			}
			_, err := fmt.Println("the machine has all that the lab needs")
			return err
		},
	}
	cmd.Flags().BoolVar(&nodeless, "nodeless", false, "only what clusters without nodes need")
	addInstallFlag(cmd.Flags(), &install)
	return cmd
}

func addInstallFlag(flags *pflag.FlagSet, install *bool) {
	flags.BoolVar(install, "install-packages", false, "install what is missing with apt-get, as root on Debian and its like")
}
