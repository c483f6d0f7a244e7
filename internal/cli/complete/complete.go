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

// Func is what cobra asks for how to go on.
type Func = func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective)

// Flags lets the flags of all commands be completed.
func Flags(root *cobra.Command, session *hub.Session) {
	contexts := func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return session.Contexts(), cobra.ShellCompDirectiveNoFileComp
	}
	// The flag is there and has no other function: there is no error to expect.
	_ = root.RegisterFlagCompletionFunc("context", contexts)
}

// MemberContexts lets the flag for the context of a member be completed.
func MemberContexts(cmd *cobra.Command, flags *member.Flags) {
	contexts := func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
		return flags.Contexts(), cobra.ShellCompDirectiveNoFileComp
	}
	// The flag is there and has no other function: there is no error to expect.
	_ = cmd.RegisterFlagCompletionFunc(member.FlagContext, contexts)
}

// Clusters completes arguments that are names of clusters.
func Clusters(session *hub.Session) Func {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		var names []string
		list := &clusterv1.ManagedClusterList{}
		if ask(cmd, session, list) {
			for i := range list.Items {
				names = append(names, list.Items[i].Name)
			}
		}
		return without(names, args), cobra.ShellCompDirectiveNoFileComp
	}
}

// Cluster completes one argument that is the name of a cluster.
func Cluster(session *hub.Session) Func {
	several := Clusters(session)
	return func(cmd *cobra.Command, args []string, toComplete string) ([]string, cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return several(cmd, args, toComplete)
	}
}

// Works completes arguments that are names of works in the namespace that the
// function returns.
func Works(session *hub.Session, namespace func() string) Func {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		var names []string
		list := &workv1.ManifestWorkList{}
		if ask(cmd, session, list, client.InNamespace(namespace())) {
			for i := range list.Items {
				names = append(names, list.Items[i].Name)
			}
		}
		return without(names, args), cobra.ShellCompDirectiveNoFileComp
	}
}

// Placements completes an argument that is the name of a Placement in the
// namespace that the function returns.
func Placements(session *hub.Session, namespace func() string) Func {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		var names []string
		list := &clusterv1beta1.PlacementList{}
		if len(args) == 0 && ask(cmd, session, list, client.InNamespace(namespace())) {
			for i := range list.Items {
				names = append(names, list.Items[i].Name)
			}
		}
		return without(names, args), cobra.ShellCompDirectiveNoFileComp
	}
}

// PlacementNamespaces completes a flag that is a namespace with Placements.
func PlacementNamespaces(session *hub.Session) Func {
	return func(cmd *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
		var names []string
		list := &clusterv1beta1.PlacementList{}
		if ask(cmd, session, list) {
			for i := range list.Items {
				names = append(names, list.Items[i].Namespace)
			}
		}
		return without(names, nil), cobra.ShellCompDirectiveNoFileComp
	}
}

// Names completes arguments that are names which the function finds.
func Names(session *hub.Session, find func(context.Context, client.Client) ([]string, error)) Func {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		ctx, cancel := context.WithTimeout(cmd.Context(), patience)
		defer cancel()
		c, err := session.Connect()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		names, err := find(ctx, c)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return without(names, args), cobra.ShellCompDirectiveNoFileComp
	}
}

// ask lists what is there. A shell that completes a line has no place for
// errors, so there are no names then.
func ask(cmd *cobra.Command, session *hub.Session, list client.ObjectList, options ...client.ListOption) bool {
	ctx, cancel := context.WithTimeout(cmd.Context(), patience)
	defer cancel()
	c, err := session.Connect()
	return err == nil && c.List(ctx, list, append(options, client.Limit(namesMax))...) == nil
}

func without(names, args []string) []string {
	names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(args, name) })
	slices.Sort(names)
	return slices.Compact(names)
}
