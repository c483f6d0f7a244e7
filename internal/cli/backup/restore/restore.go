// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package restore brings a dedicated hub back to what a backup has of it.
//
// It holds the ControlPlane, so that nobody can reach the hub, until all agents
// that come back are told what it has forgotten (package restored). Whatever
// interrupts it, the same command does everything again.
package restore

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/term"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/cli/backup"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/hub"
	"github.com/capstan-io/capstan/internal/cli/install"
	"github.com/capstan-io/capstan/internal/cli/progress"
	"github.com/capstan-io/capstan/internal/controlplane/restored"
	"github.com/capstan-io/capstan/operators/controlplane/manifests"
)

const (
	flagYes         = "yes"
	flagReplaceKeys = "replace-keys"
	// stepTimeout is how long each step may take: an image may have to be pulled.
	stepTimeout = 10 * time.Minute
)

// NewRestoreCommand returns the command "restore".
func NewRestoreCommand(session *hub.Session) *cobra.Command {
	r := &restoreCommand{session: session}
	cmd := &cobra.Command{
		Use:   "restore",
		Short: "Restore a dedicated hub from a backup",
		Long: "Replaces everything that a dedicated hub stores with the contents of a file of \"capstan backup\", and restores " +
			"its keys where they are missing. The cluster of the current context is the host of the hub, which has its " +
			"ControlPlane. The hub is unavailable meanwhile; members keep running. If the command is interrupted, run it " +
			"again: it starts over.\n\n" +
			"Whatever was created after the backup is forgotten. Agents of Capstan keep what forgotten ManifestWorks delivered " +
			"to their clusters, and report it in condition WorksMissing of the ManagedCluster, until \"capstan restore " +
			"confirm\". Agents of Open Cluster Management delete it after their grace period. ManifestWorks that were changed " +
			"or deleted after the backup are as they were before.",
		Example: `  # Bring the hub fleet back to a backup
  capstan restore --name fleet --identity key.txt -f fleet.backup

  # Bring it back on another host, where "capstan init --dedicated --name fleet" was run, with the keys of the backup
  capstan restore --name fleet --identity key.txt -f fleet.backup --replace-keys

  # Let agents delete what the hub has forgotten
  capstan restore confirm --all`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return r.runRestore(cmd.Context()) },
	}
	flags := cmd.Flags()
	flags.StringVar(&r.name, "name", install.DedicatedName, "Name of the dedicated hub")
	flags.StringVarP(&r.namespace, "namespace", "n", "", "Namespace of its ControlPlane (default: NAME-control-plane)")
	r.source.AddFlags(flags, "File of the backup")
	flags.BoolVar(&r.replaceKeys, flagReplaceKeys, false, "Replace keys that differ from those of the backup")
	flags.BoolVarP(&r.confirmed, flagYes, "y", false, "Do not ask whether what the hub stores now may be replaced")
	flags.DurationVar(&r.timeout, "timeout", stepTimeout, "How long each step may take")
	cmd.AddCommand(newConfirm(session))
	return cmd
}

// restoreCommand is one as the user wants it.
type restoreCommand struct {
	session                *hub.Session
	name, namespace        string
	source                 backup.ArchiveSource
	replaceKeys, confirmed bool
	timeout                time.Duration
}

// restoreRun is one under way.
type restoreRun struct {
	session *hub.Session
	host    client.Client
	from    *backup.Backup
	plane   manifests.Plane
	steps   *progress.StepPrinter
	waits   install.Waiter
	// versions are those that the hub will have forgotten. Again tells that a restore
	// was begun before and did not end.
	versions restored.VersionRange
	again    bool
	// before and after are what the hub had, and has then; before is nil if nobody knows.
	before, after workVersions
}

func (r *restoreCommand) runRestore(ctx context.Context) error {
	from, err := r.source.OpenBackup()
	if err != nil {
		return err
	}
	defer from.Close()
	key := install.DedicatedKey(r.name)
	key.Namespace = cmp.Or(r.namespace, key.Namespace)
	host, cp, err := install.FindDedicated(ctx, r.session, key)
	if err != nil {
		return err
	}
	if err := checkBackupFits(from.Manifest, cp); err != nil {
		return err
	}
	w := &restoreRun{
		session: r.session, host: host, from: from, steps: progress.NewStepPrinter(r.session.ErrOut),
		plane: manifests.Plane{Name: cp.Name, Namespace: cp.Namespace, Spec: cp.Spec},
		waits: install.Waiter{Client: host, Timeout: r.timeout},
	}
	w.waits.Note = func(text string) { w.steps.ShowWaiting("%s", text) }
	_, w.again = cp.Annotations[fleetv1alpha1.AnnotationHold]
	if w.versions, err = rangeOf(from.Manifest.EtcdRevision, cp); err != nil {
		return err
	}
	keys, err := w.secretsToWrite(ctx, r.replaceKeys)
	if err != nil {
		return err
	}
	if err := r.consent(from, cp); err != nil {
		return err
	}
	return w.runRestoreSteps(ctx, cp, keys)
}

// consent asks, on a terminal, whether what the hub stores may be replaced.
func (r *restoreCommand) consent(from *backup.Backup, cp *fleetv1alpha1.ControlPlane) error {
	if r.confirmed {
		return nil
	}
	question := fmt.Sprintf("Everything that the hub %q stores will be replaced with what it had on %s", cp.Name, from.Manifest.Created.Format(time.RFC3339))
	in, isFile := r.session.In.(*os.File)
	if !isFile || !term.IsTerminal(int(in.Fd())) {
		return exit.UsageError("%s: confirm that with --%s", strings.ToLower(question[:1])+question[1:], flagYes)
	}
	fmt.Fprintf(r.session.ErrOut, "%s. Continue? [y/N] ", question)
	answer, _ := bufio.NewReader(in).ReadString('\n') // No answer is a no.
	if !slices.Contains([]string{"y", "yes"}, strings.ToLower(strings.TrimSpace(answer))) {
		return exit.UsageError("nothing was changed")
	}
	return nil
}

// runRestoreSteps does the restore, step by step. Until the hub opens, each can be repeated.
func (w *restoreRun) runRestoreSteps(ctx context.Context, cp *fleetv1alpha1.ControlPlane, keys []client.Object) error {
	next := fmt.Sprintf("\"kubectl -n %s describe controlplane %s\" shows more. Run the same command to try again; until it succeeds, the hub is unavailable.", cp.Namespace, cp.Name)
	all := []struct {
		title string
		do    func(context.Context) error
	}{
		{"Reading what the hub has now", w.readCurrentWorks},
		{"Stopping the hub", func(ctx context.Context) error { return w.holdControlPlane(ctx, fleetv1alpha1.HoldStopped, next) }},
		{"Stopping its controllers, which cache what it had", func(ctx context.Context) error { return w.restartControllers(ctx, next) }},
		{"Restoring its keys", func(ctx context.Context) error { return w.writeSecrets(ctx, keys) }},
		{"Replacing its data", func(ctx context.Context) error { return w.replaceEtcdData(ctx, next) }},
		{"Starting it without clients", func(ctx context.Context) error { return w.holdControlPlane(ctx, fleetv1alpha1.HoldClosed, next) }},
		{"Telling its clusters what it has forgotten", func(ctx context.Context) error { return w.publishRestoredRange(ctx, next) }},
		{"Opening it", func(ctx context.Context) error { return w.releaseControlPlane(ctx) }},
	}
	for _, step := range all {
		if err := w.steps.RunStep(step.title, func() error { return step.do(ctx) }); err != nil {
			return err
		}
	}
	fmt.Fprintln(w.session.Out, summarizeRestore(w.plane.Name, w.from.Manifest.Created, w.versions, w.before, w.after))
	return nil
}
