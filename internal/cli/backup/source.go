// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"errors"
	"fmt"
	"io"
	"os"

	"filippo.io/age"
	"github.com/spf13/pflag"

	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/controlplane/archive"
)

// ArchiveSource is a backup as the user names it.
type ArchiveSource struct {
	Path string

	identity, passphrase string
}

// AddFlags adds the flags that name a backup, and what opens it.
func (s *ArchiveSource) AddFlags(flags *pflag.FlagSet, usage string) {
	flags.StringVarP(&s.Path, flagFile, "f", "", usage)
	flags.StringVar(&s.identity, flagIdentity, "", "File with the private key of age, as age-keygen writes it")
	flags.StringVar(&s.passphrase, flagPassphrase, "", "File with the passphrase, instead of a key")
}

// Backup is one that was verified whole.
type Backup struct {
	*archive.Archive
	ArchiveContents

	file *os.File
}

// EtcdSnapshot is that of etcd.
func (b *Backup) EtcdSnapshot() *io.SectionReader { return b.EntryContent(snapshotEntry) }

// Close closes the file. It was only read.
func (b *Backup) Close() { _ = b.file.Close() }

// OpenBackup reads the backup to its end, and returns it if it is as it was written and
// has all that a hub needs.
func (s *ArchiveSource) OpenBackup() (*Backup, error) {
	identities, err := s.decryptBy()
	if err != nil {
		return nil, err
	}
	file, err := os.Open(s.Path)
	if err != nil {
		return nil, fmt.Errorf("open the backup: %w", err)
	}
	b, err := s.readBackup(file, identities)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%s cannot be used: %w", s.Path, err), file.Close())
	}
	return b, nil
}

func (s *ArchiveSource) readBackup(file *os.File, identities []age.Identity) (*Backup, error) {
	info, err := file.Stat()
	if err != nil {
		return nil, err //nolint:wrapcheck // it names the file
	}
	a, err := archive.OpenArchive(file, info.Size(), identities...)
	if err != nil {
		return nil, err //nolint:wrapcheck // Open does
	}
	contents, err := readContents(a)
	return &Backup{Archive: a, ArchiveContents: contents, file: file}, err
}

func (s *ArchiveSource) decryptBy() ([]age.Identity, error) {
	switch {
	case s.Path == "":
		return nil, exit.UsageError("--%s is missing: the file of the backup", flagFile)
	case (s.identity != "") == (s.passphrase != ""):
		return nil, exit.UsageError("how is the file opened? Give either --%s or --%s", flagIdentity, flagPassphrase)
	case s.identity != "":
		return readFile(flagIdentity, s.identity, archive.ReadIdentities)
	}
	passphrase, err := readFile(flagPassphrase, s.passphrase, archive.ReadPassphrase)
	if err != nil {
		return nil, err
	}
	identity, err := passphrase.NewIdentity()
	return []age.Identity{identity}, err
}
