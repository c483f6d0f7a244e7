// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package cli is the command line of Capstan: capstan, which is also the
// plugin "kubectl capstan". The commands are in the packages below it.
package cli

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	"k8s.io/utils/clock"

	"github.com/capstan-io/capstan/internal/cli/accept"
	"github.com/capstan-io/capstan/internal/cli/backup"
	"github.com/capstan-io/capstan/internal/cli/backup/restore"
	"github.com/capstan-io/capstan/internal/cli/certs"
	"github.com/capstan-io/capstan/internal/cli/complete"
	"github.com/capstan-io/capstan/internal/cli/describe"
	"github.com/capstan-io/capstan/internal/cli/doctor"
	"github.com/capstan-io/capstan/internal/cli/events"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/explain"
	"github.com/capstan-io/capstan/internal/cli/get"
	"github.com/capstan-io/capstan/internal/cli/hub"
	"github.com/capstan-io/capstan/internal/cli/interpret"
	"github.com/capstan-io/capstan/internal/cli/join"
	"github.com/capstan-io/capstan/internal/cli/label"
	"github.com/capstan-io/capstan/internal/cli/output"
	"github.com/capstan-io/capstan/internal/cli/promote"
	"github.com/capstan-io/capstan/internal/cli/rebalance"
	"github.com/capstan-io/capstan/internal/cli/register"
	"github.com/capstan-io/capstan/internal/cli/rollout"
	"github.com/capstan-io/capstan/internal/cli/setup"
	"github.com/capstan-io/capstan/internal/cli/token"
	"github.com/capstan-io/capstan/internal/cli/top"
	"github.com/capstan-io/capstan/internal/cli/tree"
	"github.com/capstan-io/capstan/internal/cli/version"
)

const (
	// plugin is the name under which kubectl finds capstan as a plugin.
	plugin = "kubectl-capstan"
	// pluginCompletion is the name under which kubectl asks a plugin how to
	// complete its arguments.
	pluginCompletion = "kubectl_complete-capstan"
)

// CommandLine is one call of capstan.
type CommandLine struct {
	// As is the path that capstan was called by, as in os.Args[0].
	As string
	// Args are the arguments without that.
	Args []string
	// Streams are what the call reads and writes.
	Streams genericiooptions.IOStreams
	// Clock tells how old things are.
	Clock clock.PassiveClock
}

// RunCommandLine does what the call asks for, tells about errors and returns the exit
// code. It ends early when the context does.
func RunCommandLine(ctx context.Context, call CommandLine) int {
	call.Streams.Out, call.Streams.ErrOut = output.Escape(call.Streams.Out), output.Escape(call.Streams.ErrOut)
	session := hub.NewSession(call.Streams, call.Clock)
	root := NewRootCommand(call.As, session) //nolint:contextcheck // what completes arguments takes the context of its command
	args := call.Args
	if filepath.Base(call.As) == pluginCompletion {
		args = append([]string{cobra.ShellCompRequestCmd}, args...)
	}
	root.SetArgs(args)
	root.SetIn(call.Streams.In)
	root.SetOut(call.Streams.Out)
	root.SetErr(call.Streams.ErrOut)
	err := root.ExecuteContext(ctx)
	if ctx.Err() != nil && err != nil {
		fmt.Fprintln(call.Streams.ErrOut, "interrupted: completed steps are kept; run the same command again to continue")
		return exit.Interrupted
	}
	if err = session.ExplainError(err); err != nil {
		fmt.Fprint(call.Streams.ErrOut, exit.FormatError(err))
	}
	return exit.Code(err)
}

// NewRootCommand returns the command for the name that capstan was called by, with all
// that are below it.
func NewRootCommand(calledAs string, session *hub.Session) *cobra.Command {
	root := &cobra.Command{
		Use:   "capstan",
		Short: "Manage many Kubernetes clusters from one hub",
		Long: "capstan turns a cluster into a hub, joins other clusters to it, shows the state of clusters and workloads, and " +
			"diagnoses what is broken.\n\n" +
			"It uses the same kubeconfig as kubectl to reach the hub, and contacts a member only if you name one.",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	switch filepath.Base(calledAs) {
	case plugin, pluginCompletion:
		root.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl capstan"}
	}
	session.AddFlags(root.PersistentFlags())
	root.SetGlobalNormalizationFunc(hub.NormalizeFlagAliases)
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return &exit.Error{Err: err, Code: exit.Usage, Next: fmt.Sprintf("See %q.", cmd.CommandPath()+" --help")}
	})
	root.AddGroup(
		&cobra.Group{ID: groupLook, Title: "Inspect the fleet:"},
		&cobra.Group{ID: groupMove, Title: "Move workloads:"},
		&cobra.Group{ID: groupJoin, Title: "Join clusters:"},
		&cobra.Group{ID: groupMark, Title: "Label and taint clusters:"},
		&cobra.Group{ID: groupHub, Title: "Manage hubs:"},
		&cobra.Group{ID: groupOther, Title: "Other commands:"},
	)
	root.SetHelpCommandGroupID(groupOther)
	root.SetCompletionCommandGroupID(groupOther)
	addCommandGroup(root, groupLook, get.NewGetCommand(session), describe.NewDescribeCommand(session), tree.NewTreeCommand(session), top.NewTopCommand(session), events.NewEventsCommand(session), doctor.NewDoctorCommand(session))
	addCommandGroup(root, groupLook, explain.NewExplainCommand(session), explain.NewPlanCommand(session), interpret.NewInterpretCommand(session))
	addCommandGroup(root, groupMove, promote.NewPromoteCommand(session), rebalance.NewRebalanceCommand(session), rollout.NewRolloutCommand(session))
	addCommandGroup(root, groupJoin, accept.NewAcceptCommand(session), accept.NewDenyCommand(session), token.NewTokenCommand(session))
	addCommandGroup(root, groupJoin, register.NewRegisterCommand(session), register.NewUnregisterCommand(session))
	addCommandGroup(root, groupJoin, join.NewJoinCommand(session), join.NewUnjoinCommand(session))
	addCommandGroup(root, groupMark, label.NewCordonCommand(session), label.NewUncordonCommand(session), label.NewTaintCommand(session), label.NewLabelCommand(session))
	addCommandGroup(root, groupHub, setup.NewInitCommand(session), setup.NewUpgradeCommand(session), setup.NewCleanCommand(session), certs.NewCertsCommand(session),
		backup.NewBackupCommand(session), restore.NewRestoreCommand(session))
	addCommandGroup(root, groupOther, version.NewVersionCommand(session))
	complete.RegisterFlagCompletions(root, session)
	forEach(root, wrapUsageErrors)
	return root
}

// The groups of commands in the help.
const (
	groupLook  = "look"
	groupMove  = "move"
	groupJoin  = "join"
	groupMark  = "mark"
	groupHub   = "hub"
	groupOther = "other"
)

func addCommandGroup(root *cobra.Command, group string, commands ...*cobra.Command) {
	for _, cmd := range commands {
		cmd.GroupID = group
		root.AddCommand(cmd)
	}
}

func forEach(cmd *cobra.Command, do func(*cobra.Command)) {
	do(cmd)
	for _, child := range cmd.Commands() {
		forEach(child, do)
	}
}

// wrapUsageErrors makes mistakes in the arguments of a command errors of usage, and lets
// a command that only has others below it say so.
func wrapUsageErrors(cmd *cobra.Command) {
	if cmd.Run == nil && cmd.RunE == nil {
		cmd.Args = noSuchCommand
		cmd.RunE = help
		cmd.DisableFlagsInUseLine = true
		return
	}
	check := cmd.Args
	if check == nil {
		return
	}
	cmd.Args = func(cmd *cobra.Command, args []string) error {
		err := check(cmd, args)
		if known := (*exit.Error)(nil); err != nil && !errors.As(err, &known) {
			return &exit.Error{Err: err, Code: exit.Usage, Next: fmt.Sprintf("Usage: %s\nSee %q.", cmd.UseLine(), cmd.CommandPath()+" --help")}
		}
		return err
	}
}

// help is what a command does that only has others below it.
func help(cmd *cobra.Command, _ []string) error { return cmd.Help() }

func noSuchCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	next := fmt.Sprintf("See %q.", cmd.CommandPath()+" --help")
	if cmd.SuggestionsMinimumDistance == 0 {
		cmd.SuggestionsMinimumDistance = 2
	}
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		next = fmt.Sprintf("Did you mean %s? %s", strings.Join(near, " or "), next)
	}
	return &exit.Error{Err: fmt.Errorf("unknown command %q", cmd.CommandPath()+" "+args[0]), Code: exit.Usage, Next: next}
}
