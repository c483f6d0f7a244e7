// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/capstan-io/capstan/test/lab/internal/lab"
)

func newKubeconfigCommand(open opener) *cobra.Command {
	var path bool
	cmd := &cobra.Command{
		Use:   "kubeconfig [NAME...]",
		Short: "Print a kubeconfig with a context for each cluster",
		RunE: open.do(func(_ context.Context, l *lab.Lab, names []string) error {
			if path && len(names) > 0 {
				return errors.New("there is a file for all clusters only: give --path or names")
			}
			if path {
				file, err := l.KubeconfigFile()
				if err != nil {
					return err
				}
				_, err = fmt.Println(file)
				return err
			}
			content, err := l.Kubeconfig(names...)
			if err != nil {
				return err
			}
			_, err = os.Stdout.Write(content)
			return err
		}),
	}
	cmd.Flags().BoolVar(&path, "path", false, "print the path of the file with the kubeconfig of all clusters")
	return cmd
}

func newExecCommand(open opener) *cobra.Command {
	return &cobra.Command{
		Use:   "exec NAME -- COMMAND [ARGUMENT...]",
		Short: "Run a command in the network of a cluster",
		Args:  cobra.MinimumNArgs(2),
		RunE: open.do(func(_ context.Context, l *lab.Lab, args []string) error {
			return l.Exec(args[0], args[1:])
		}),
	}
}
