// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package get lists the clusters of a hub, the works in them, and the placements
// that choose clusters.
package get

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/cli-runtime/pkg/printers"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/hub"
	"github.com/capstan-io/capstan/internal/cli/output"
)

// NewGetCommand returns the command "get".
func NewGetCommand(session *hub.Session) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "get",
		Short: "List clusters, works or placements, or objects on the hub and in clusters",
	}
	addObjects(cmd, session)
	cmd.AddCommand(newClusters(session), newWorks(session), newPlacements(session))
	return cmd
}

// listCommand is what the lists have in common.
type listCommand struct {
	session   *hub.Session
	selector  string
	noHeaders bool
	watch     bool
	printing  *genericclioptions.PrintFlags
	output    string

	// kind is the kind of the objects, resource how messages call them.
	kind     schema.GroupVersionKind
	resource string
	// within is what messages put before the namespace.
	within string
	// table makes the table of the objects.
	table func(context.Context, client.Client, []unstructured.Unstructured) (*metav1.Table, error)
}

func (l *listCommand) addFlags(cmd *cobra.Command) {
	l.printing = genericclioptions.NewPrintFlags("")
	l.printing.OutputFormat = &l.output
	l.printing.JSONYamlPrintFlags.AddFlags(cmd)
	l.printing.NamePrintFlags.AddFlags(cmd)
	l.printing.TemplatePrinterFlags.AddFlags(cmd)
	formats := append([]string{"wide"}, l.printing.AllowedFormats()...)
	cmd.Flags().StringVarP(&l.output, "output", "o", "", "Output format. One of: ("+strings.Join(formats, ", ")+")")
	cmd.Flags().StringVarP(&l.selector, "selector", "l", "", "Select objects by labels, such as env=prod,tier!=test")
	cmd.Flags().BoolVar(&l.noHeaders, "no-headers", false, "Omit the header line of tables")
	cmd.Flags().BoolVarP(&l.watch, "watch", "w", false, "After the list, show each object again whenever it changes, until Ctrl-C")
	// The flag is there and has no other function: there is no error to expect.
	_ = cmd.RegisterFlagCompletionFunc("output", func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return formats, cobra.ShellCompDirectiveNoFileComp
	})
}

// runList prints the objects of these names, or all if there is none.
func (l *listCommand) runList(ctx context.Context, namespace string, names []string) error {
	selector, err := labels.Parse(l.selector)
	if err != nil {
		return exit.UsageError("--selector: %w", err)
	}
	if len(names) > 0 && l.selector != "" {
		return exit.UsageError("names and --selector cannot be given together")
	}
	printer, err := l.printer()
	if err != nil {
		return err
	}
	c, err := l.session.ConnectHub()
	if err != nil {
		return err
	}
	options := &client.ListOptions{Namespace: namespace, LabelSelector: selector}
	if l.watch {
		return l.followObjects(ctx, c, names, options)
	}
	objects, missing, err := l.listObjects(ctx, c, names, options)
	if err != nil {
		return err
	}
	if l.isTable() {
		table, err := l.table(ctx, c, objects)
		if err != nil {
			return err
		}
		err = printer.PrintObj(table, l.session.Out)
		if err != nil {
			return fmt.Errorf("print %s: %w", l.resource, err)
		}
	} else if err := l.printObjects(printer, objects, len(names) == 1); err != nil {
		return fmt.Errorf("print %s: %w", l.resource, err)
	}
	if len(objects) == 0 && len(names) == 0 && l.isTable() {
		l.sayNone(namespace)
	}
	return errors.Join(missing...)
}

// sayNone says that there is nothing, where a table would be.
func (l *listCommand) sayNone(namespace string) {
	if namespace != "" {
		fmt.Fprintf(l.session.ErrOut, "No %s found %s %s.\n", l.resource, l.within, namespace)
		return
	}
	fmt.Fprintf(l.session.ErrOut, "No %s found.\n", l.resource)
}

func (l *listCommand) isTable() bool { return l.output == "" || l.output == "wide" }

func (l *listCommand) printer() (printers.ResourcePrinter, error) {
	if l.isTable() {
		return printers.NewTablePrinter(printers.PrintOptions{NoHeaders: l.noHeaders, Wide: l.output == "wide"}), nil
	}
	printer, err := l.printing.ToPrinter()
	if err != nil {
		return nil, exit.UsageError("--output: %w", err)
	}
	if l.output == "yaml" { // the usual printer fails on control characters, which clusters may report
		printer = printers.ResourcePrinterFunc(printYAML)
		if !l.printing.JSONYamlPrintFlags.ShowManagedFields {
			printer = &printers.OmitManagedFieldsPrinter{Delegate: printer}
		}
	}
	return printer, nil
}

func printYAML(object runtime.Object, to io.Writer) error {
	text, err := output.YAML(object)
	if err == nil {
		_, err = to.Write(text)
	}
	return err //nolint:wrapcheck // who prints says what
}

// listObjects returns the objects in the order of their namespaces and names, or in
// that of the names given, and an error for each name that does not exist.
func (l *listCommand) listObjects(
	ctx context.Context, c client.Client, names []string, options *client.ListOptions,
) (objects []unstructured.Unstructured, missing []error, err error) {
	for _, name := range names {
		object := unstructured.Unstructured{}
		object.SetGroupVersionKind(l.kind)
		err := c.Get(ctx, client.ObjectKey{Namespace: options.Namespace, Name: name}, &object)
		if apierrors.IsNotFound(err) && hub.IsKindServed(err) {
			missing = append(missing, l.missingError(options.Namespace, name))
			continue
		}
		if err != nil {
			return nil, nil, err
		}
		objects = append(objects, object)
	}
	if len(names) > 0 {
		return objects, missing, nil
	}
	add := func(object *unstructured.Unstructured) { objects = append(objects, *object) }
	if err := hub.VisitObjects(ctx, c, l.kind, add, options); err != nil {
		return nil, nil, err
	}
	slices.SortStableFunc(objects, func(a, b unstructured.Unstructured) int {
		return strings.Compare(a.GetNamespace()+"/"+a.GetName(), b.GetNamespace()+"/"+b.GetName())
	})
	return objects, nil, nil
}

func (l *listCommand) missingError(namespace, name string) error {
	one := strings.TrimSuffix(l.resource, "s")
	if namespace != "" {
		return exit.Next(fmt.Errorf("there is no %s %q %s %q", one, name, l.within, namespace), "\"capstan get %s -n %s\" lists those that exist.", l.resource, namespace)
	}
	return exit.Next(fmt.Errorf("there is no %s %q", one, name), "\"capstan get %s\" lists those that exist.", l.resource)
}

// printObjects prints the objects themselves: one alone if it was asked for by its
// name, else a list.
func (l *listCommand) printObjects(printer printers.ResourcePrinter, objects []unstructured.Unstructured, alone bool) error {
	if alone {
		if len(objects) == 0 {
			return nil
		}
		return printer.PrintObj(&objects[0], l.session.Out)
	}
	list := &unstructured.UnstructuredList{Items: objects, Object: map[string]any{
		"apiVersion": "v1", "kind": "List", "metadata": map[string]any{"resourceVersion": ""},
	}}
	return printer.PrintObj(list, l.session.Out)
}

// decodeObject fills a typed object from what the API server sent.
func decodeObject[T any](object unstructured.Unstructured) (*T, error) {
	into := new(T)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, into); err != nil {
		return nil, fmt.Errorf("decode %s %s: %w", object.GetKind(), object.GetName(), err)
	}
	return into, nil
}

// orNone is what a cell without a value has.
func orNone(value string) string {
	if value == "" {
		return "<none>"
	}
	return value
}

// dropFirstColumn takes the first column out of a table: all rows have the same there.
func dropFirstColumn(table *metav1.Table) {
	table.ColumnDefinitions = table.ColumnDefinitions[1:]
	for i := range table.Rows {
		table.Rows[i].Cells = table.Rows[i].Cells[1:]
	}
}
