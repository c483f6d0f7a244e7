// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"fmt"
	"os"
	"time"

	"filippo.io/age"
	"github.com/spf13/cobra"

	"github.com/capstan-io/capstan/internal/archive"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/hub"
)

// check is of a file.
type check struct {
	file, identity, passphrase string
}

func newCheck(session *hub.Session) *cobra.Command {
	c := &check{}
	cmd := &cobra.Command{
		Use:   "check",
		Short: "Check that a backup is complete, and show what it is of",
		Long: "Reads a file that \"capstan backup\" has written, to its end, and checks that it is as it was written and has " +
			"all that a hub needs. It needs the key or passphrase of the file, but no hub.",
		Example: `  # Check a backup with its key
  capstan backup check --identity key.txt -f fleet.backup

  # Check one with a passphrase
  capstan backup check --passphrase-file passphrase.txt -f fleet.backup`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(*cobra.Command, []string) error { return c.run(session) },
	}
	flags := cmd.Flags()
	flags.StringVarP(&c.file, flagFile, "f", "", "File to check")
	flags.StringVar(&c.identity, flagIdentity, "", "File with the private key of age, as age-keygen writes it")
	flags.StringVar(&c.passphrase, flagPassphrase, "", "File with the passphrase, instead of a key")
	return cmd
}

func (c *check) run(session *hub.Session) error {
	identities, err := c.decryptBy()
	if err != nil {
		return err
	}
	opened, err := os.Open(c.file)
	if err != nil {
		return fmt.Errorf("open the backup: %w", err)
	}
	defer opened.Close() //nolint:errcheck // it was only read
	info, err := opened.Stat()
	if err != nil {
		return fmt.Errorf("open the backup: %w", err)
	}
	a, err := archive.Open(opened, info.Size(), identities...)
	if err != nil {
		return fmt.Errorf("%s cannot be used: %w", c.file, err)
	}
	found, err := read(a)
	if err != nil {
		return fmt.Errorf("%s cannot be used: %w", c.file, err)
	}
	m := a.Manifest
	fmt.Fprintf(session.Out, "Hub:                 %s (ControlPlane %s/%s)\n", m.Hub, m.Namespace, m.Hub)
	fmt.Fprintf(session.Out, "Created:             %s, by capstan %s\n", m.Created.Format(time.RFC3339), m.CreatedBy)
	fmt.Fprintf(session.Out, "Kubernetes Version:  %s\n", m.KubernetesVersion)
	fmt.Fprintf(session.Out, "etcd:                revision %d, %s\n", m.EtcdRevision, mebibytes(a.Content(snapshotEntry).Size()))
	fmt.Fprintf(session.Out, "Secrets:             %d\n", len(found.secrets))
	fmt.Fprintf(session.Out, "\n%s is complete\n", c.file)
	return nil
}

func (c *check) decryptBy() ([]age.Identity, error) {
	switch {
	case c.file == "":
		return nil, exit.UsageError("--%s is missing: the file to check", flagFile)
	case (c.identity != "") == (c.passphrase != ""):
		return nil, exit.UsageError("with what is the file opened? Give either --%s or --%s", flagIdentity, flagPassphrase)
	case c.identity != "":
		return readFile(flagIdentity, c.identity, archive.ReadIdentities)
	}
	passphrase, err := readFile(flagPassphrase, c.passphrase, archive.ReadPassphrase)
	if err != nil {
		return nil, err
	}
	identity, err := passphrase.Identity()
	return []age.Identity{identity}, err
}
