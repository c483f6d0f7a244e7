// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package interpret is the command for those who write
// ResourceInterpreterCustomizations: it checks their scripts, runs them, and edits
// them on the hub.
package interpret

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/capstan-io/capstan/internal/cli/args"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/hub"
	"github.com/capstan-io/capstan/internal/cli/interpreters"
	"github.com/capstan-io/capstan/internal/cli/output"
)

// interpretOptions are the flags.
type interpretOptions struct {
	files []string
	// What is to be done: one of them.
	check, edit, doc bool
	operation        string

	desired, observed, status string
	replicas                  int32
	saysReplicas              bool
	format                    output.Format
}

// NewInterpretCommand returns the command "interpret".
func NewInterpretCommand(session *hub.Session) *cobra.Command {
	o := &interpretOptions{}
	cmd := &cobra.Command{
		Use:   "interpret [NAME] [-f FILE] (--check | --operation OPERATION | --edit | --show-doc)",
		Short: "Validate, run and edit resource interpreter customizations",
		Long: "Works on ResourceInterpreterCustomizations, whose scripts define how objects of a kind are interpreted.\n\n" +
			"--check compiles all scripts in the files. --operation runs one operation on objects from files, within the " +
			"limits of the hub, and prints the result. With -f, the scripts in the files are used, and no hub is needed. " +
			"Without -f, the interpreters of the hub are used: its customizations, and those that ship with Capstan. --edit " +
			"opens a customization of the hub in an editor ($KUBE_EDITOR, $EDITOR or vi), and saves it only if its scripts " +
			"compile. --show-doc describes what the function of each operation gets and returns.\n\n" +
			"The operations are " + strings.Join(interpreters.OperationNames(), ", ") + ".",
		Example: `  # Do the scripts compile?
  capstan interpret -f customization.yaml --check

  # How many replicas has this object by the scripts of a file, and what does each need?
  capstan interpret -f customization.yaml --operation InterpretReplica --desired-file workload.yaml

  # The object with another number of replicas
  capstan interpret -f customization.yaml --operation ReviseReplica --desired-file workload.yaml --desired-replica 3

  # What a cluster keeps of its object
  capstan interpret -f customization.yaml --operation Retain --desired-file workload.yaml --observed-file there.yaml

  # The status on the hub by what clusters report: that of a binding
  kubectl get rb web-workload -o yaml | capstan interpret -f customization.yaml --operation AggregateStatus --desired-file workload.yaml --status-file -

  # What the hub makes of an object
  kubectl get workload web -o yaml | capstan interpret --operation InterpretHealth --observed-file -

  # Change a customization of the hub
  capstan interpret workload --edit

  # What do the functions get and return?
  capstan interpret --show-doc`,
		Args:              args.AtMostOne("the customization"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			o.saysReplicas = cmd.Flags().Changed("desired-replica")
			return o.runInterpret(cmd.Context(), session, args)
		},
	}
	flags := cmd.Flags()
	flags.StringSliceVarP(&o.files, "filename", "f", nil, "File with customizations, or - for the standard input; may be given several times")
	flags.BoolVar(&o.check, "check", false, "Compile the scripts in the files, and report what is wrong with them")
	flags.StringVar(&o.operation, "operation", "", "Operation to run. One of: ("+strings.Join(interpreters.OperationNames(), ", ")+")")
	flags.BoolVar(&o.edit, "edit", false, "Edit a customization of the hub")
	flags.BoolVar(&o.doc, "show-doc", false, "Describe what the function of each operation gets and returns; with --operation, of that one")
	flags.StringVar(&o.desired, "desired-file", "", "File with the object as the hub has it, or -")
	flags.StringVar(&o.observed, "observed-file", "", "File with the object as a cluster has it, or -")
	flags.StringVar(&o.status, "status-file", "", "File with what clusters report, or -: a list of {clusterName, status, applied, appliedMessage, health}, or a binding")
	flags.Int32Var(&o.replicas, "desired-replica", 0, "How many replicas the object is to have")
	o.format.AddFlag(cmd)
	// The flag is there and has no other function: there is no error to expect.
	_ = cmd.RegisterFlagCompletionFunc("operation", cobra.FixedCompletions(interpreters.OperationNames(), cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// runInterpret does what is asked for.
func (o *interpretOptions) runInterpret(ctx context.Context, session *hub.Session, args []string) error {
	if err := o.format.CheckFormat(); err != nil {
		return err
	}
	if len(args) > 0 && !o.edit {
		return exit.UsageError("NAME is for --edit: a customization of the hub")
	}
	operation, known := interpreters.ParseOperation(o.operation)
	if o.operation != "" && !known {
		return exit.UsageError("--operation: unknown operation %q; the operations are %s", o.operation, strings.Join(interpreters.OperationNames(), ", "))
	}
	if err := o.oneStandardInput(); err != nil {
		return err
	}
	switch {
	case o.doc && !o.check && !o.edit:
		return o.format.Print(session.Out, functionDocs(operation), func() string { return docText(operation) })
	case !o.isSingleAction():
		return &exit.Error{Err: errors.New("say what to do with one of --check, --operation, --edit and --show-doc"), Code: exit.Usage, Next: "See \"capstan interpret --help\"."}
	case o.check:
		return o.checkCustomizations(session)
	case o.edit:
		return o.editCustomization(ctx, session, args)
	default:
		return o.runOperation(ctx, session, operation)
	}
}

// isSingleAction reports whether one thing is asked for.
func (o *interpretOptions) isSingleAction() bool {
	asked := 0
	for _, one := range []bool{o.check, o.edit, o.doc, o.operation != ""} {
		if one {
			asked++
		}
	}
	return asked == 1
}

// oneStandardInput finds out whether the standard input is read only once.
func (o *interpretOptions) oneStandardInput() error {
	given := slices.DeleteFunc(append(slices.Clone(o.files), o.desired, o.observed, o.status), func(file string) bool { return file != standardInput })
	if len(given) > 1 {
		return exit.UsageError("the standard input is one file: give - only once")
	}
	return nil
}
