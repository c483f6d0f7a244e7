// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package get

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/capstan-io/capstan/internal/cli/columns"
	"github.com/capstan-io/capstan/internal/cli/complete"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/hub"
	"github.com/capstan-io/capstan/internal/cli/output"
)

// The operation scopes: where to look.
const (
	scopeHub     = "karmada"
	scopeMembers = "members"
	scopeAll     = "all"
)

func scopes() []string { return []string{scopeHub, scopeMembers, scopeAll} }

// onHub is the cluster of the rows of the hub. No cluster can have this name.
const onHub = "<hub>"

// objectsCommand is one call of the command for objects of any kind.
type objectsCommand struct {
	session   *hub.Session
	scope     string
	clusters  []string
	namespace string
	all       bool
	selector  string
	noHeaders bool
	output    string

	// What the arguments mean.
	mapping *meta.RESTMapping
	names   []string
	labels  labels.Selector
}

// addObjects makes get itself the command for all kinds that have none of their own.
func addObjects(get *cobra.Command, session *hub.Session) {
	o := &objectsCommand{session: session}
	get.Use = "get KIND [NAME...] [-s karmada|members|all]"
	get.Long = "Lists objects of any kind: those on the hub, and with -s members or -s all those that it has sent to clusters, " +
		"whether by policies or in works. Members are not queried: for an object in a cluster, the table shows what the " +
		"cluster has reported to the hub. \"-\" means unknown. Objects that the hub has not sent are not listed.\n\n" +
		"ADOPTION is Y if the object in the cluster is managed from the hub, N if it belongs to somebody else, and - if that " +
		"is unknown. Clusters, works and placements have their own commands."
	get.Example = `  # The Deployments of a namespace on the hub
  capstan get deployments -n shop

  # Those on the hub and in all clusters
  capstan get deploy -n shop -s all

  # Those of two clusters, in all namespaces, and why one is not as it should be
  capstan get deploy -A -C member1,member2 -o wide

  # One object, for a script
  capstan get deploy web -n shop -s all -o json`
	get.ValidArgsFunction = cobra.NoFileCompletions
	get.Args = cobra.ArbitraryArgs
	get.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		if len(o.clusters) > 0 && !cmd.Flags().Changed("operation-scope") {
			o.scope = scopeMembers
		}
		return o.runGetObjects(cmd.Context(), args)
	}
	session.AddServerFlag(get.Flags())
	flags := get.Flags()
	flags.StringVarP(&o.scope, "operation-scope", "s", scopeHub, "Where to look: on the hub, in members, or both. One of: ("+strings.Join(scopes(), ", ")+")")
	flags.StringSliceVarP(&o.clusters, "clusters", "C", nil, "Only these clusters; without -s, this is -s members")
	flags.StringVarP(&o.namespace, "namespace", "n", "", "Namespace of the objects (default: that of the kubeconfig's context)")
	flags.BoolVarP(&o.all, "all-namespaces", "A", false, "List the objects of all namespaces")
	flags.StringVarP(&o.selector, "selector", "l", "", "Select objects by their labels on the hub, such as env=prod,tier!=test")
	flags.BoolVar(&o.noHeaders, "no-headers", false, "Omit the header line of tables")
	flags.StringVarP(&o.output, "output", "o", "", "Output format. One of: ("+strings.Join(objectFormats(), ", ")+")")
	// The flags are there and have no other function: there is no error to expect.
	_ = get.RegisterFlagCompletionFunc("operation-scope", cobra.FixedCompletions(scopes(), cobra.ShellCompDirectiveNoFileComp))
	_ = get.RegisterFlagCompletionFunc("clusters", complete.ClusterNamesCompletion(session))
	_ = get.RegisterFlagCompletionFunc("namespace", complete.PlacementNamespaces(session))
	_ = get.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(objectFormats(), cobra.ShellCompDirectiveNoFileComp))
}

func objectFormats() []string { return []string{"wide", "json", "yaml", "name"} }

// checkFlags finds out whether the flags make sense.
func (o *objectsCommand) checkFlags() error {
	switch {
	case !slices.Contains(scopes(), o.scope):
		return exit.UsageError("--operation-scope: unknown scope %q; the scopes are %s. The address of the hub's API server is --server here", o.scope, strings.Join(scopes(), ", "))
	case o.scope == scopeHub && len(o.clusters) > 0:
		return exit.UsageError("--clusters names members: use it with -s %s or -s %s", scopeMembers, scopeAll)
	case o.all && o.namespace != "":
		return exit.UsageError("--namespace and --all-namespaces cannot be given together")
	case o.output != "" && !slices.Contains(objectFormats(), o.output):
		return exit.UsageError("--output: unknown format %q; the formats are %s", o.output, strings.Join(objectFormats(), ", "))
	case len(o.names) > 0 && o.selector != "":
		return exit.UsageError("names and --selector cannot be given together")
	case len(o.names) > 0 && o.all:
		return exit.UsageError("an object is named within its namespace: use -n instead of --all-namespaces")
	}
	var err error
	if o.labels, err = labels.Parse(o.selector); err != nil {
		return exit.UsageError("--selector: %w", err)
	}
	return nil
}

// kindAndNames takes KIND NAME... or KIND/NAME.
func kindAndNames(args []string) (kind string, names []string, err error) {
	kind, name, is := strings.Cut(args[0], "/")
	if !is {
		kind = args[0]
		names = args[1:]
	} else if len(args) == 1 {
		names = []string{name}
	}
	if kind == "" || is && (name == "" || len(args) > 1) || strings.Contains(strings.Join(names, ""), "/") {
		return "", nil, exit.UsageError("name the objects, as KIND NAME... or KIND/NAME")
	}
	return kind, names, nil
}

func (o *objectsCommand) runGetObjects(ctx context.Context, args []string) error {
	kind, names, err := kindAndNames(args)
	if err != nil {
		return err
	}
	o.names = names
	if err := o.checkFlags(); err != nil {
		return err
	}
	kinds, err := o.session.ConnectAny()
	if err != nil {
		return err
	}
	if o.mapping, err = kinds.FindMapping(kind); err != nil {
		return err
	}
	switch {
	case o.mapping.Scope.Name() != meta.RESTScopeNameNamespace:
		if o.namespace != "" {
			return exit.UsageError("%s are in no namespace: leave out -n", o.mapping.Resource.Resource)
		}
	case !o.all:
		o.namespace = cmp.Or(o.namespace, o.session.ContextNamespace(), metav1.NamespaceDefault)
	}
	r := &objectReading{objectsCommand: o, client: kinds.Client}
	if err := r.readRows(ctx); err != nil {
		return err
	}
	return o.reportRows(r)
}

// reportRows prints what was found, and says what is not known.
func (o *objectsCommand) reportRows(r *objectReading) error {
	rows := r.sortedRows()
	if err := o.printRows(rows); err != nil {
		return err
	}
	if len(rows) == 0 && len(o.names) == 0 && (o.output == "" || o.output == "wide") {
		fmt.Fprintf(o.session.ErrOut, "No %s found.\n", o.mapping.Resource.GroupResource())
	}
	for _, what := range r.unread {
		fmt.Fprintf(o.session.ErrOut, "You may not read %s.\n", what)
	}
	if o.scope != scopeHub {
		fmt.Fprintln(o.session.ErrOut, "Members were not queried: this is what they have reported about what the hub has sent there.")
	}
	var missing []error
	for _, name := range o.names {
		if !slices.ContainsFunc(rows, func(r objectRow) bool { return r.Name == name }) {
			missing = append(missing, o.missingError(name))
		}
	}
	return errors.Join(missing...)
}

func (o *objectsCommand) missingError(name string) error {
	kind := strings.ToLower(o.mapping.GroupVersionKind.Kind)
	where := "on the hub"
	next := fmt.Sprintf("capstan get %s", o.mapping.Resource.GroupResource())
	if o.scope != scopeHub {
		where = "that the hub has sent to a cluster"
		next = next + " -s " + o.scope
	}
	if o.scope == scopeAll {
		where = "on the hub, or that it has sent to a cluster"
	}
	if o.namespace != "" {
		where = fmt.Sprintf("in namespace %q %s", o.namespace, where)
		next = next + " -n " + o.namespace
	}
	return exit.Next(fmt.Errorf("there is no %s %q %s", kind, name, where), "%q lists those that exist.", next)
}

func (o *objectsCommand) printRows(rows []objectRow) error {
	switch o.output {
	case "json", "yaml":
		return output.Format(o.output).Print(o.session.Out, map[string]any{"items": rows}, nil)
	case "name":
		for _, r := range rows {
			fmt.Fprintf(o.session.Out, "%s/%s\n", o.mapping.Resource.GroupResource(), r.Name)
		}
		return nil
	}
	if len(rows) == 0 {
		return nil
	}
	_, err := io.WriteString(o.session.Out, columns.FormatTable(o.tableLines(rows)))
	return err
}

// tableLines has a line for each row.
func (o *objectsCommand) tableLines(rows []objectRow) [][]string {
	var lines [][]string
	if !o.noHeaders {
		lines = append(lines, o.selectCells("NAMESPACE", "NAME", "CLUSTER", "ADOPTION", "STATUS", "HEALTH", "AGE", "REASON"))
	}
	for _, r := range rows {
		age := unknown
		if r.Created != nil {
			age = duration.HumanDuration(o.session.Clock.Since(r.Created.Time))
		}
		lines = append(lines, o.selectCells(r.Namespace, r.Name, r.Cluster, r.Adoption, cmp.Or(r.briefStatus(), unknown), cmp.Or(r.Health, unknown), age,
			cmp.Or(strings.Join(strings.Fields(r.Reason), " "), unknown)))
	}
	return lines
}

// selectCells leaves out what is not asked for.
func (o *objectsCommand) selectCells(namespace, name, cluster, adoption, status, health, age, reason string) []string {
	cells := []string{name, cluster, adoption, status, health, age}
	if o.namespace == "" && o.mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		cells = append([]string{namespace}, cells...)
	}
	if o.output == "wide" {
		cells = append(cells, reason)
	}
	return cells
}
