// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package dryrun lets commands say what they would do instead of doing it.
package dryrun

import (
	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-io/capstan/internal/cli/exit"
)

// The values of the flag.
const (
	none   = "none"
	local  = "client"
	server = "server"
)

// Mode says whether a command changes anything.
type Mode struct{ value string }

// AddFlag adds the flag --dry-run, with the meaning that it has in kubectl.
func (m *Mode) AddFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&m.value, "dry-run", none, "Do not change anything: with \"client\", only show what would be done; with \"server\", let the hub check it, too. One of: (none, client, server)")
	cmd.Flags().Lookup("dry-run").NoOptDefVal = "unchanged"
	// The flag is there and has no other function: there is no error to expect.
	_ = cmd.RegisterFlagCompletionFunc("dry-run", cobra.FixedCompletions([]string{none, local, server}, cobra.ShellCompDirectiveNoFileComp))
}

// AddBareFlag adds the flag --dry-run, which without a value means "client", as
// the guides of Karmada have it.
func (m *Mode) AddBareFlag(cmd *cobra.Command) {
	m.AddFlag(cmd)
	cmd.Flags().Lookup("dry-run").NoOptDefVal = local
}

// ValidateMode returns an error for a value that makes no sense.
func (m *Mode) ValidateMode() error {
	switch m.value {
	case none, local, server:
		return nil
	case "unchanged":
		return exit.UsageError("--dry-run needs a value: --dry-run=client or --dry-run=server")
	default:
		return exit.UsageError("--dry-run: unknown value %q; use none, client or server", m.value)
	}
}

// Skips reports whether nothing is to be sent to the hub.
func (m *Mode) Skips() bool { return m.value == local }

// MakesChanges reports whether what the command says really happens.
func (m *Mode) MakesChanges() bool { return m.value == none }

// WrapClient returns a client whose changes the hub only checks, if that was asked for.
func (m *Mode) WrapClient(c client.WithWatch) client.Client {
	if m.value == server {
		return client.NewDryRunClient(c)
	}
	return c
}

// Suffix is what stands behind each message about something that did not
// really happen.
func (m *Mode) Suffix() string {
	switch m.value {
	case local:
		return " (dry run)"
	case server:
		return " (server dry run)"
	default:
		return ""
	}
}
