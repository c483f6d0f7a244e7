// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/capstan-io/capstan/internal/cli/hub"
)

// checkCommand is of a file.
type checkCommand struct{ source ArchiveSource }

func newCheck(session *hub.Session) *cobra.Command {
	c := &checkCommand{}
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Verify a backup and show its contents",
		Long: "Reads a file of \"capstan backup\" to its end, and verifies that it is unchanged and contains everything that a " +
			"hub needs. It needs the key or passphrase of the file, but no hub.",
		Example: `  # Check a backup with its key
  capstan backup check --identity key.txt -f fleet.backup

  # Check one with a passphrase
  capstan backup check --passphrase-file passphrase.txt -f fleet.backup`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(*cobra.Command, []string) error { return c.checkBackup(session) },
	}
	c.source.AddFlags(cmd.Flags(), "File to check")
	return cmd
}

func (c *checkCommand) checkBackup(session *hub.Session) error {
	b, err := c.source.OpenBackup()
	if err != nil {
		return err
	}
	defer b.Close()
	m := b.Manifest
	fmt.Fprintf(session.Out, "Hub:                 %s (ControlPlane %s/%s)\n", m.Hub, m.Namespace, m.Hub)
	fmt.Fprintf(session.Out, "Created:             %s, by capstan %s\n", m.Created.Format(time.RFC3339), m.CreatedBy)
	fmt.Fprintf(session.Out, "Kubernetes Version:  %s\n", m.KubernetesVersion)
	fmt.Fprintf(session.Out, "etcd:                revision %d, %s\n", m.EtcdRevision, Mebibytes(b.EtcdSnapshot().Size()))
	fmt.Fprintf(session.Out, "Secrets:             %d\n", len(b.Secrets))
	fmt.Fprintf(session.Out, "\n%s is complete\n", c.source.Path)
	return nil
}
