// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/capstan-io/capstan/internal/cli/args"
	"github.com/capstan-io/capstan/internal/cli/complete"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/explain/trace"
	"github.com/capstan-io/capstan/internal/cli/hub"
)

// What errors call the kinds that have a command of their own.
const (
	titleBinding        = "binding"
	titleClusterBinding = "clusterbinding"
)

// propagation is one call of the command for an object that policies send to
// clusters.
type propagation struct {
	session   *hub.Session
	namespace string
	cluster   string
	output    outputFormat
}

// addObjects makes explain itself the command for all kinds that have none of
// their own.
func addObjects(explain *cobra.Command, session *hub.Session) {
	p := &propagation{session: session}
	explain.Use = "explain KIND NAME [-n NAMESPACE]"
	explain.Long = "Follows an object from the hub to the clusters: through the policy that claims it, its binding, the " +
		"decision for each cluster, and its works, to what the clusters report. Each step shows the state and the reason: " +
		"which policies nearly match but do not claim the object, which clusters were not chosen, which overrides were " +
		"applied, and when a cluster was last heard from.\n\n" +
		"It needs only permission to read, names what you may not read, and changes nothing. Placements have their own command."
	explain.Example = `  # Where is it, and why is it not everywhere?
  capstan explain deployment web -n shop

  # Of a kind whose name several groups have
  capstan explain jobs.batch/import -n shop

  # All about one cluster
  capstan explain deployment web -n shop --cluster member3

  # For a script
  capstan explain deployment web -n shop -o json`
	explain.Args = cobra.ArbitraryArgs // which kindAndName explains
	explain.ValidArgsFunction = cobra.NoFileCompletions
	explain.RunE = func(cmd *cobra.Command, args []string) error {
		if len(args) == 0 {
			return cmd.Help()
		}
		kind, name, err := kindAndName(args)
		if err != nil {
			return err
		}
		return p.explainPropagation(cmd.Context(), func(ctx context.Context, kinds *hub.Kinds) (*trace.ObjectFacts, error) {
			return p.readObjectFacts(ctx, kinds, kind, name)
		})
	}
	p.addFlags(explain)
}

func (p *propagation) addFlags(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&p.namespace, "namespace", "n", "", "Namespace of the object (default: that of the kubeconfig's context)")
	cmd.Flags().StringVar(&p.cluster, "cluster", "", "Show everything about this cluster")
	p.output.addFlag(cmd)
	// The flag is there and has no other function: there is no error to expect.
	_ = cmd.RegisterFlagCompletionFunc("cluster", complete.ClusterNamesCompletion(p.session))
}

func newBinding(session *hub.Session) *cobra.Command {
	p := &propagation{session: session}
	cmd := &cobra.Command{
		Use:     "binding NAME [-n NAMESPACE]",
		Aliases: []string{"bindings", "rb", "resourcebinding", "resourcebindings"},
		Short:   "Follow the object of a ResourceBinding to the clusters",
		Long:    "Shows what \"capstan explain KIND NAME\" shows, for the object of a ResourceBinding.",
		Example: `  capstan explain binding web-deployment -n shop`,
		Args:    args.One("the name of the binding"), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.explainPropagation(cmd.Context(), func(ctx context.Context, kinds *hub.Kinds) (*trace.ObjectFacts, error) {
				return p.readBindingFacts(ctx, kinds, session.NamespaceOf(p.namespace), args[0])
			})
		},
	}
	p.addFlags(cmd)
	return cmd
}

func newClusterBinding(session *hub.Session) *cobra.Command {
	p := &propagation{session: session}
	cmd := &cobra.Command{
		Use:     "clusterbinding NAME",
		Aliases: []string{"clusterbindings", "crb", "clusterresourcebinding", "clusterresourcebindings"},
		Short:   "Follow the object of a ClusterResourceBinding to the clusters",
		Long:    "Shows what \"capstan explain KIND NAME\" shows, for the object of a ClusterResourceBinding.",
		Example: `  capstan explain clusterbinding reader-clusterrole`,
		Args:    args.One("the name of the binding"), ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.explainPropagation(cmd.Context(), func(ctx context.Context, kinds *hub.Kinds) (*trace.ObjectFacts, error) {
				return p.readBindingFacts(ctx, kinds, "", args[0])
			})
		},
	}
	cmd.Flags().StringVar(&p.cluster, "cluster", "", "Show everything about this cluster")
	p.output.addFlag(cmd)
	// The flag is there and has no other function: there is no error to expect.
	_ = cmd.RegisterFlagCompletionFunc("cluster", complete.ClusterNamesCompletion(session))
	return cmd
}

// kindAndName takes KIND NAME or KIND/NAME.
func kindAndName(args []string) (kind, name string, err error) {
	switch len(args) {
	case 1:
		kind, name, _ = strings.Cut(args[0], "/")
	case 2:
		kind = args[0]
		name = args[1]
	}
	if kind == "" || name == "" || strings.Contains(kind+name, "/") {
		return "", "", exit.UsageError("name one object, as KIND NAME or KIND/NAME")
	}
	return kind, name, nil
}

func (p *propagation) explainPropagation(ctx context.Context, read func(context.Context, *hub.Kinds) (*trace.ObjectFacts, error)) error {
	if err := p.output.checkFormat(); err != nil {
		return err
	}
	kinds, err := p.session.ConnectAny()
	if err != nil {
		return err
	}
	facts, err := read(ctx, kinds)
	if err != nil {
		return err
	}
	t := trace.BuildTrace(facts, p.session.Clock.Now())
	if p.cluster != "" && !t.SelectCluster(p.cluster) {
		return exit.Next(fmt.Errorf("there is nothing to explain for cluster %q: it is not chosen, and has no work of the object", p.cluster), "\"capstan get clusters\" lists the clusters.")
	}
	return p.output.printFormatted(p.session, t, func() string {
		if p.cluster != "" {
			return t.FormatText() + t.FormatDetail()
		}
		return t.FormatText()
	})
}

// readObjectFacts reads what there is to know about an object.
func (p *propagation) readObjectFacts(ctx context.Context, kinds *hub.Kinds, kindName, name string) (*trace.ObjectFacts, error) {
	mapping, err := kinds.FindMapping(kindName)
	if err != nil {
		return nil, err
	}
	namespace := ""
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		namespace = p.session.NamespaceOf(p.namespace)
	}
	facts, err := trace.Reader{Client: kinds.Client, Now: p.session.Clock.Now}.ReadObject(ctx, mapping.GroupVersionKind, namespace, name)
	return facts, explainAbsent(err, strings.ToLower(mapping.GroupVersionKind.Kind), namespace, name, mapping.Resource.GroupResource().String())
}

// readBindingFacts reads what there is to know about a binding.
func (p *propagation) readBindingFacts(ctx context.Context, kinds *hub.Kinds, namespace, name string) (*trace.ObjectFacts, error) {
	facts, err := trace.Reader{Client: kinds.Client, Now: p.session.Clock.Now}.ReadBinding(ctx, namespace, name)
	title := titleBinding
	resource := "resourcebindings"
	if namespace == "" {
		title = titleClusterBinding
		resource = "clusterresourcebindings"
	}
	return facts, explainAbsent(err, title, namespace, name, resource)
}

// explainAbsent explains that there is no such object.
func explainAbsent(err error, title, namespace, name, resource string) error {
	if !apierrors.IsNotFound(err) || !hub.IsKindServed(err) {
		return err
	}
	if namespace == "" {
		return exit.Next(fmt.Errorf("there is no %s %q", title, name), "\"kubectl get %s\" lists those that exist.", resource)
	}
	return exit.Next(fmt.Errorf("there is no %s %q in namespace %q", title, name, namespace), "\"kubectl get %s -A\" lists those that exist.", resource)
}
