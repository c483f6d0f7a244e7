// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package args checks how many arguments a command has, and says in the words of its user
// what is missing.
package args

import (
	"fmt"

	"github.com/spf13/cobra"
)

// One is for a command with one argument: what that is, such as "the name of the cluster".
func One(what string) cobra.PositionalArgs {
	return func(cmd *cobra.Command, given []string) error {
		if err := Some(what)(cmd, given); err != nil {
			return err
		}
		return AtMostOne(what)(cmd, given)
	}
}

// AtMostOne is for a command with an argument that may be left out.
func AtMostOne(what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, given []string) error {
		if len(given) > 1 {
			return fmt.Errorf("%s is one argument, and there are %d", what, len(given))
		}
		return nil
	}
}

// Some is for a command with one argument or more.
func Some(what string) cobra.PositionalArgs {
	return func(_ *cobra.Command, given []string) error {
		if len(given) == 0 {
			return fmt.Errorf("%s is missing", what)
		}
		return nil
	}
}
