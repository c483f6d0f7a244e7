// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package get

import (
	"context"
	"errors"
	"fmt"
	"io"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/cli-runtime/pkg/printers"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-io/capstan/internal/cli/exit"
)

// batchMax is how many changes that have come together are shown together.
const batchMax = 500

// watchPrinter shows objects, and then each of them again whenever it changes.
type watchPrinter struct {
	*listCommand
	client client.WithWatch
	// columns are as wide below as they were above.
	columns interface {
		io.Writer
		Flush() error
	}
}

// followObjects shows what is there and then what changes, until the context ends.
func (l *listCommand) followObjects(ctx context.Context, c client.WithWatch, names []string, options *client.ListOptions) error {
	if len(names) > 1 {
		return exit.UsageError("--watch shows all %s, or one of them", l.resource)
	}
	if len(names) == 1 {
		options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, names[0])
	}
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(l.kind.GroupVersion().WithKind(l.kind.Kind + "List"))
	if err := c.List(ctx, list, options); err != nil {
		return err
	}
	if len(names) == 1 && len(list.Items) == 0 {
		return l.missingError(options.Namespace, names[0])
	}
	w := &watchPrinter{listCommand: l, client: c, columns: printers.GetNewTabWriter(l.session.Out)}
	if err := w.printChanges(ctx, list.Items, l.noHeaders); err != nil {
		return err
	}
	changes, err := watchtools.NewRetryWatcherWithContext(ctx, list.GetResourceVersion(), watcher{client: c, list: list, options: options})
	if err != nil {
		return fmt.Errorf("watch %s: %w", l.resource, err)
	}
	defer changes.Stop()
	return w.followChanges(ctx, changes.ResultChan())
}

// followChanges shows what changes. That the user has seen enough is no error.
func (w *watchPrinter) followChanges(ctx context.Context, events <-chan watch.Event) error {
	for ctx.Err() == nil {
		objects, err := nextChanges(ctx, events)
		if err == nil {
			err = w.printChanges(ctx, objects, true)
		}
		if err != nil && ctx.Err() == nil {
			return err
		}
	}
	return nil
}

// errEnded is for a watch that the API server cannot go on with.
var errEnded = errors.New("the hub can no longer tell what has changed since the last line")

// nextChanges waits for a change, and returns it with those that have come with it.
func nextChanges(ctx context.Context, events <-chan watch.Event) ([]unstructured.Unstructured, error) {
	var event watch.Event
	var open bool
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case event, open = <-events:
	}
	var objects []unstructured.Unstructured
	for {
		if !open {
			return nil, exit.Next(errEnded, "Run the command again.")
		}
		object, isObject := event.Object.(*unstructured.Unstructured)
		switch {
		case event.Type == watch.Error:
			return nil, exit.Next(apierrors.FromObject(event.Object), "Run the command again.")
		case isObject && event.Type != watch.Bookmark:
			objects = append(objects, *object)
		}
		if len(objects) >= batchMax {
			return objects, nil
		}
		select {
		case event, open = <-events:
		default:
			return objects, nil
		}
	}
}

// printChanges prints objects: a table without headings below the first one, or each
// object by itself.
func (w *watchPrinter) printChanges(ctx context.Context, objects []unstructured.Unstructured, noHeaders bool) error {
	if w.isTable() {
		table, err := w.table(ctx, w.client, objects)
		if err != nil {
			return err
		}
		printer := printers.NewTablePrinter(printers.PrintOptions{NoHeaders: noHeaders, Wide: w.output == "wide"})
		return errors.Join(printer.PrintObj(table, w.columns), w.columns.Flush())
	}
	printer, err := w.printer()
	if err != nil {
		return err
	}
	for i := range objects {
		if err := printer.PrintObj(&objects[i], w.session.Out); err != nil {
			return fmt.Errorf("print %s: %w", w.resource, err)
		}
	}
	return nil
}

// watcher watches what was listed.
type watcher struct {
	client  client.WithWatch
	list    *unstructured.UnstructuredList
	options *client.ListOptions
}

// WatchWithContext begins a watch.
func (w watcher) WatchWithContext(ctx context.Context, raw metav1.ListOptions) (watch.Interface, error) {
	options := *w.options
	options.Raw = &raw
	return w.client.Watch(ctx, w.list, &options)
}
