// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/yaml"
)

// NewCommand returns the command that the hooks of the Helm charts run.
func NewCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "instance", Short: "Applies or removes the object that an operator works for, as a hook of its Helm chart"}
	timeout := cmd.PersistentFlags().Duration("timeout", 0, "how long to wait; 0 is for ever")
	// run calls do with what it needs, for as long as it may take.
	run := func(cmd *cobra.Command, do func(context.Context, Instances) error) error {
		config, err := ctrl.GetConfig()
		if err != nil {
			return fmt.Errorf("finding the cluster: %w", err)
		}
		c, err := NewClient(config)
		if err != nil {
			return err
		}
		ctx := cmd.Context()
		if *timeout > 0 {
			var stop context.CancelFunc
			ctx, stop = context.WithTimeout(ctx, *timeout)
			defer stop()
		}
		start := time.Now()
		err = do(ctx, Instances{Client: c, Log: os.Stdout})
		if err != nil && ctx.Err() != nil {
			err = fmt.Errorf("after %s: %w", time.Since(start).Round(time.Second), err)
		}
		return err
	}
	apply := &cobra.Command{Use: "apply FILE", Short: "Creates or changes the object of a file", Args: cobra.ExactArgs(1)}
	apply.RunE = func(cmd *cobra.Command, args []string) error {
		object, err := readInstance(args[0])
		if err != nil {
			return err
		}
		return run(cmd, func(ctx context.Context, i Instances) error { return i.ApplyInstance(ctx, object) })
	}
	remove := &cobra.Command{Use: "remove KIND [NAME]", Short: "Deletes the object and waits until its operator has cleaned up", Args: cobra.RangeArgs(1, 2)}
	operator := remove.Flags().Bool("operator", false, "the operator is removed next: refuse while there are other objects, and delete the definition")
	remove.RunE = func(cmd *cobra.Command, args []string) error {
		removal := RemovalRequest{Operator: *operator}
		var err error
		if removal.Kind, err = kindNamed(args[0]); err != nil {
			return err
		}
		if len(args) > 1 {
			removal.Name = args[1]
		}
		return run(cmd, func(ctx context.Context, i Instances) error { return i.RemoveInstance(ctx, removal) })
	}
	cmd.AddCommand(apply, remove)
	return cmd
}

func kindNamed(name string) (schema.GroupVersionKind, error) {
	kinds := OperatorKinds()
	at := slices.IndexFunc(kinds, func(kind schema.GroupVersionKind) bool { return strings.EqualFold(kind.Kind, name) })
	if at < 0 {
		return schema.GroupVersionKind{}, fmt.Errorf("no operator works for a %q; want one of %v", name, kinds)
	}
	return kinds[at], nil
}

// readInstance reads an object of one of the operators' kinds.
func readInstance(path string) (*unstructured.Unstructured, error) {
	content, err := os.ReadFile(path) //nolint:gosec // the file that the argument names
	if err != nil {
		return nil, fmt.Errorf("reading the object to apply: %w", err)
	}
	object := &unstructured.Unstructured{}
	if err := yaml.UnmarshalStrict(content, &object.Object); err != nil {
		return nil, fmt.Errorf("decoding the object in %s: %w", path, err)
	}
	if !slices.Contains(OperatorKinds(), object.GroupVersionKind()) || object.GetName() == "" {
		return nil, fmt.Errorf("%s has a %s %q; want an object with a name of one of %v", path, object.GroupVersionKind(), object.GetName(), OperatorKinds())
	}
	return object, nil
}
