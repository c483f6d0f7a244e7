// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package complete completes what the user types: names of clusters, works,
// placements and contexts.
package complete

import (
	"context"
	"slices"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/cli/hub"
	"github.com/capstan-io/capstan/internal/cli/member"
)

const (
	// patience is how long a user who presses Tab is kept waiting.
	patience = 3 * time.Second
	// namesMax is the number of names that are offered at most.
	namesMax = 500
)

// CompletionFunc is what cobra asks for how to go on.
type CompletionFunc = func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective)

// RegisterFlagCompletions lets the flags of all commands be completed.
func RegisterFlagCompletions(root *cobra.Command, session *hub.Session) {
	contexts := func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return session.ListContexts(), cobra.ShellCompDirectiveNoFileComp
	}
	// The flag is there and has no other function: there is no error to expect.
	_ = root.RegisterFlagCompletionFunc("context", contexts)
}

// MemberContexts lets the flag for the context of a member be completed.
func MemberContexts(cmd *cobra.Command, flags *member.KubeconfigFlags) {
	contexts := func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return flags.ListContexts(), cobra.ShellCompDirectiveNoFileComp
	}
	// The flag is there and has no other function: there is no error to expect.
	_ = cmd.RegisterFlagCompletionFunc(member.FlagContext, contexts)
}

// ClusterNamesCompletion completes arguments that are names of clusters.
func ClusterNamesCompletion(session *hub.Session) CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		var names []string
		list := &clusterv1.ManagedClusterList{}
		if listForCompletion(cmd, session, list) {
			for i := range list.Items {
				names = append(names, list.Items[i].Name)
			}
		}
		return excludeArgs(names, args), cobra.ShellCompDirectiveNoFileComp
	}
}

// ClusterNameCompletion completes one argument that is the name of a cluster.
func ClusterNameCompletion(session *hub.Session) CompletionFunc {
	several := ClusterNamesCompletion(session)
	return func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return several(cmd, args, toComplete)
	}
}

// WorkNamesCompletion completes arguments that are names of works in the namespace that the
// function returns.
func WorkNamesCompletion(session *hub.Session, namespace func() string) CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		var names []string
		list := &workv1.ManifestWorkList{}
		if listForCompletion(cmd, session, list, client.InNamespace(namespace())) {
			for i := range list.Items {
				names = append(names, list.Items[i].Name)
			}
		}
		return excludeArgs(names, args), cobra.ShellCompDirectiveNoFileComp
	}
}

// PlacementNameCompletion completes an argument that is the name of a Placement in the
// namespace that the function returns.
func PlacementNameCompletion(session *hub.Session, namespace func() string) CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		var names []string
		list := &clusterv1beta1.PlacementList{}
		if len(args) == 0 && listForCompletion(cmd, session, list, client.InNamespace(namespace())) {
			for i := range list.Items {
				names = append(names, list.Items[i].Name)
			}
		}
		return excludeArgs(names, args), cobra.ShellCompDirectiveNoFileComp
	}
}

// PlacementNamespaces completes a flag that is a namespace with Placements.
func PlacementNamespaces(session *hub.Session) CompletionFunc {
	return func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		var names []string
		list := &clusterv1beta1.PlacementList{}
		if listForCompletion(cmd, session, list) {
			for i := range list.Items {
				names = append(names, list.Items[i].Namespace)
			}
		}
		return excludeArgs(names, nil), cobra.ShellCompDirectiveNoFileComp
	}
}

// NamesCompletion completes arguments that are names which the function finds.
func NamesCompletion(session *hub.Session, find func(context.Context, client.Client) ([]string, error)) CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), patience)
		defer cancel()
		c, err := session.ConnectHub()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		names, err := find(ctx, c)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return excludeArgs(names, args), cobra.ShellCompDirectiveNoFileComp
	}
}

// listForCompletion lists what is there. A shell that completes a line has no place for
// errors, so there are no names then.
func listForCompletion(cmd *cobra.Command, session *hub.Session, list client.ObjectList, options ...client.ListOption) bool {
	ctx, cancel := context.WithTimeout(cmd.Context(), patience)
	defer cancel()
	c, err := session.ConnectHub()
	return err == nil && c.List(ctx, list, append(options, client.Limit(namesMax))...) == nil
}

func excludeArgs(names, args []string) []string {
	names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(args, name) })
	slices.Sort(names)
	return slices.Compact(names)
}
