// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/capstan-io/capstan/test/lab/internal/image"
	"github.com/capstan-io/capstan/test/lab/internal/lab"
	"github.com/capstan-io/capstan/test/lab/internal/program"
)

func newLoadImageCommand(open opener) *cobra.Command {
	var clusters []string
	cmd := &cobra.Command{
		Use:   "load-image TAR...",
		Short: "Load image archives into clusters",
		Args:  cobra.MinimumNArgs(1),
		RunE: open.do(func(ctx context.Context, l *lab.Lab, archives []string) error {
			for _, archive := range archives {
				if err := l.LoadImage(ctx, archive, clusters...); err != nil {
					return err
				}
			}
			return nil
		}),
	}
	cmd.Flags().StringSliceVar(&clusters, "cluster", nil, "cluster to load into; can be given more than once (default all)")
	return cmd
}

func newImageCommand() *cobra.Command {
	var spec image.Spec
	var files []string
	var output string
	cmd := &cobra.Command{
		Use:   "image",
		Short: "Make an image of a static executable",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			for _, f := range files {
				file, err := image.ParseFile(f)
				if err != nil {
					return err
				}
				spec.Files = append(spec.Files, file)
			}
			return image.Write(spec, output)
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&spec.Binary, "binary", "", "executable that containers run")
	flags.StringSliceVar(&spec.References, "ref", nil, "name and tag of the image; can be given more than once")
	flags.StringSliceVar(&files, "file", nil, "further file for the image, as source:/target; can be given more than once")
	flags.StringSliceVar(&spec.Links, "link", nil, "path in the image of a link to the executable; can be given more than once")
	flags.BoolVar(&spec.NoEntrypoint, "no-entrypoint", false, "leave it to pods to name the program")
	flags.StringVarP(&output, "output", "o", "", "archive to write the image to")
	for _, name := range []string{"binary", "ref", "output"} {
		// It fails only for a flag that is not defined above.
		_ = cmd.MarkFlagRequired(name)
	}
	return cmd
}

func newAssetsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "assets DIR",
		Short: "Lay out etcd, kube-apiserver and kubectl for KUBEBUILDER_ASSETS",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			return program.WriteAssets(args[0])
		},
	}
}
