// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package backup writes what a dedicated hub stores, and the keys to read it,
// into an encrypted archive, and checks such an archive.
package backup

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"filippo.io/age"
	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-io/capstan/internal/cli/backup/portforward"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/hub"
	"github.com/capstan-io/capstan/internal/cli/install"
	"github.com/capstan-io/capstan/internal/cli/progress"
	"github.com/capstan-io/capstan/internal/controlplane/archive"
	"github.com/capstan-io/capstan/internal/controlplane/etcd"
	"github.com/capstan-io/capstan/internal/server/version"
	"github.com/capstan-io/capstan/operators/controlplane/manifests"
)

// NewBackupCommand returns the command "backup".
func NewBackupCommand(session *hub.Session) *cobra.Command {
	b := &backupCommand{session: session}
	cmd := &cobra.Command{
		Use:   "backup",
		Short: "Back up a dedicated hub into an encrypted file",
		Long: "Writes what a dedicated hub stores into an encrypted file: a snapshot of its etcd, its ControlPlane, and the " +
			"Secrets with its certificate authorities, the keys of ServiceAccount tokens and those of the encryption at rest. " +
			"The hub keeps serving meanwhile. The cluster of the current context is the host of the hub.\n\n" +
			"Whoever has the file and its key or passphrase is an administrator of the hub. The file is an age file " +
			"(https://age-encryption.org) with a tar archive in it: \"age --decrypt --identity key.txt FILE | tar --list\" " +
			"reads it, too.",
		Example: `  # Make a key, and keep it where neither the hub nor its host is
  age-keygen -o key.txt

  # Back up the hub fleet, for that key
  capstan backup --name fleet --recipient age1ql3z7hjy54pw3hyww5ayyfg7zqgvc7w3j2elw8zmrj2kg5sfn9aqmcac8p -f fleet.backup

  # Back it up with a passphrase instead
  capstan backup --name fleet --passphrase-file passphrase.txt -f fleet.backup

  # See what is in it, and that it is complete
  capstan backup check --identity key.txt -f fleet.backup`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return b.runBackup(cmd.Context()) },
	}
	flags := cmd.Flags()
	flags.StringVar(&b.name, "name", install.DedicatedName, "Name of the dedicated hub")
	flags.StringVarP(&b.namespace, "namespace", "n", "", "Namespace of its ControlPlane (default: NAME-control-plane)")
	flags.StringArrayVar(&b.recipients, flagRecipient, nil, "Public key of age that the file is encrypted for; may be given several times")
	flags.StringVar(&b.passphrase, flagPassphrase, "", "File with a passphrase to encrypt with, instead of a key")
	flags.StringVarP(&b.file.path, flagFile, "f", "", "File to write")
	flags.BoolVar(&b.file.overwrite, flagForce, false, "Replace the file if it exists")
	cmd.AddCommand(newCheck(session))
	return cmd
}

const (
	flagRecipient  = "recipient"
	flagIdentity   = "identity"
	flagPassphrase = "passphrase-file"
	flagFile       = "file"
	flagForce      = "force"
)

// backupCommand is one as the user wants it.
type backupCommand struct {
	session         *hub.Session
	name, namespace string
	recipients      []string
	passphrase      string
	file            backupFile
}

func (b *backupCommand) runBackup(ctx context.Context) error {
	recipients, err := b.encryptFor()
	if err != nil {
		return err
	}
	if err := b.file.checkWritable(); err != nil {
		return err
	}
	key := install.DedicatedKey(b.name)
	key.Namespace = cmp.Or(b.namespace, key.Namespace)
	host, cp, err := install.FindDedicated(ctx, b.session, key)
	if err != nil {
		return err
	}
	steps := progress.NewStepPrinter(b.session.ErrOut)
	found := ArchiveContents{}
	err = steps.RunStep("Reading the keys of the hub "+b.name, func() (err error) {
		found, err = gatherContents(ctx, host, cp)
		return err
	})
	if err != nil {
		return err
	}
	w := backupWriter{recipients: recipients, contents: found, steps: steps}
	err = steps.RunStep("Copying its etcd to "+b.file.path, func() error { return b.fetchBackup(ctx, host, &w) })
	if err != nil {
		return err
	}
	fmt.Fprintf(b.session.Out, "%s has the hub %q at revision %d of its etcd, %s, and %d Secrets\nKeep it apart from its key. Without the key, nobody can read it.\n",
		b.file.path, b.name, w.manifest.EtcdRevision, Mebibytes(w.size), len(found.Secrets))
	return nil
}

// encryptFor returns who can read the file.
func (b *backupCommand) encryptFor() ([]age.Recipient, error) {
	switch {
	case b.file.path == "":
		return nil, exit.UsageError("--%s is missing: the file to write", flagFile)
	case (len(b.recipients) > 0) == (b.passphrase != ""):
		return nil, exit.UsageError("who may read the file? Give either --%s or --%s", flagRecipient, flagPassphrase)
	case b.passphrase != "":
		passphrase, err := readFile(flagPassphrase, b.passphrase, archive.ReadPassphrase)
		if err != nil {
			return nil, err
		}
		recipient, err := passphrase.NewRecipient()
		return []age.Recipient{recipient}, err
	}
	recipients, err := archive.ParseRecipients(b.recipients)
	if err != nil {
		return nil, exit.UsageError("--%s: %w", flagRecipient, err)
	}
	return recipients, nil
}

// fetchBackup connects to etcd and writes the file.
func (b *backupCommand) fetchBackup(ctx context.Context, host client.Client, w *backupWriter) error {
	member, err := ReadyPod(ctx, host, w.contents.PlaneNames(), manifests.Etcd)
	if err != nil {
		return err
	}
	config, err := b.session.LoadRESTConfig()
	if err != nil {
		return err
	}
	connection, err := portforward.ForwardPort(ctx, config, member, manifests.EtcdClientPort)
	if err != nil {
		return fmt.Errorf("connect to etcd in Pod %q: %w", member, err)
	}
	defer connection.HangUp()
	identity, err := w.contents.etcdIdentity(time.Now())
	if err != nil {
		return err
	}
	w.etcd = etcd.NewMemberClient(etcdHost, connection.Dial, identity)
	defer w.etcd.Close()
	w.manifest.Created = b.session.Clock.Now().UTC()
	return b.file.writeAtomically(func(to io.Writer) error { return w.writeArchive(ctx, to) })
}

// backupWriter is an archive that is being written.
type backupWriter struct {
	recipients []age.Recipient
	contents   ArchiveContents
	etcd       *etcd.MemberClient
	steps      *progress.StepPrinter

	manifest archive.Manifest
	size     int64
}

func (w *backupWriter) writeArchive(ctx context.Context, to io.Writer) error {
	revision, err := w.etcd.CurrentRevision(ctx)
	if err != nil {
		return err
	}
	cp := w.contents.Plane
	w.manifest.CreatedBy = version.SemanticVersion()
	w.manifest.Hub = cp.Name
	w.manifest.Namespace = cp.Namespace
	w.manifest.KubernetesVersion = cmp.Or(cp.Status.Version, cp.Spec.Version)
	w.manifest.EtcdRevision = revision
	out, err := archive.NewWriter(to, w.manifest, w.recipients...)
	if err != nil {
		return err
	}
	entries, err := w.contents.archiveEntries()
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := out.AddEntry(e.name, int64(len(e.text)), bytes.NewReader(e.text)); err != nil {
			return err
		}
	}
	if err := w.addSnapshot(ctx, out); err != nil {
		return err
	}
	return out.Close()
}

func (w *backupWriter) addSnapshot(ctx context.Context, out *archive.Writer) error {
	snapshot, err := w.etcd.OpenSnapshot(ctx)
	if err != nil {
		return err
	}
	defer snapshot.Close() //nolint:errcheck // it was read to its end, or there is another error
	w.size = snapshot.Size
	return out.AddEntry(snapshotEntry, snapshot.Size, NewProgressReader(snapshot, snapshot.Size, w.reportProgress))
}

func (w *backupWriter) reportProgress(percent int64) {
	w.steps.ShowWaiting("%d %% of %s", percent, Mebibytes(w.size))
}

// NewProgressReader returns a reader that tells how many percent of the size were read, in
// steps.
func NewProgressReader(from io.Reader, size int64, tell func(percent int64)) io.Reader {
	return &progressReader{Reader: from, size: size, tell: tell}
}

type progressReader struct {
	io.Reader
	read, size, told int64
	tell             func(percent int64)
}

const (
	percentStep = 10
	percentAll  = 100
)

func (c *progressReader) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.read += int64(n)
	if percent := c.read * percentAll / max(c.size, 1); percent >= c.told+percentStep {
		c.told = percent - percent%percentStep
		c.tell(c.told)
	}
	return n, err // as it is: io.EOF ends what is read
}

// Mebibytes tells people how much that is.
func Mebibytes(size int64) string {
	const mebi = 1 << 20
	return fmt.Sprintf("%.1f MiB", float64(size)/mebi)
}
