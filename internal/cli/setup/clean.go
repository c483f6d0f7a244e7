// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cluster-bootstrap/token/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/cli/clusterinfo"
	"github.com/capstan-io/capstan/internal/cli/dryrun"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/hub"
	"github.com/capstan-io/capstan/internal/cli/install"
)

const (
	// silentWait is how long after its deletion --force lets the hub wait for the
	// agent of a cluster that it does not hear of.
	silentWait = time.Minute
	// namesMax is how many clusters a message names.
	namesMax = 10
)

// cleanCommand is one call of "clean".
type cleanCommand struct {
	session     *hub.Session
	mode        dryrun.Mode
	allClusters bool
	namespaces  bool
	force       bool
	timeout     time.Duration
	// isDedicated asks for the removal of a dedicated hub; deleteData includes what
	// it has stored.
	isDedicated, deleteData bool
	dedicated               dedicatedHub
}

// NewCleanCommand returns the command "clean".
func NewCleanCommand(session *hub.Session) *cobra.Command {
	c := &cleanCommand{session: session}
	cmd := &cobra.Command{
		Use:   "clean",
		Short: "Remove the hub from a cluster",
		Long: "Removes the hub from the cluster of the current context: the ClusterManager and everything that it has " +
			"installed, the operator, the CustomResourceDefinitions, and the bootstrap tokens with which clusters could ask " +
			"to join.\n\n" +
			"As long as the hub has clusters, it refuses and lists them. With --all-clusters they leave first: their agents " +
			"remove what was delivered to them, but keep running without a hub; \"capstan unjoin\" and \"capstan unregister\" " +
			"remove the agents, too. " +
			fmt.Sprintf("An unreachable cluster blocks the removal; with --force, the hub gives it up soon after %s, and what was delivered there stays.\n\n", silentWait) +
			"With --dedicated it removes a dedicated hub from its host, which is the cluster of the current context. What the hub has stored " +
			"stays on the host, for a hub of the same name, unless --delete-data is given or you agree when asked. A hub that does not " +
			"answer is removed with --force only.",
		Example: `  # Show what would be removed
  capstan clean --dry-run=client

  # Remove a hub without clusters
  capstan clean

  # Remove the hub, regardless of its clusters
  capstan clean --all-clusters --cluster-namespaces --force

  # Remove a dedicated hub from its host, with all that it has stored
  capstan clean --dedicated --name fleet --delete-data`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := cmd.Flags()
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		for _, name := range []string{flagName, flagHubContext, flagDeleteData} {
			if flags.Changed(name) && !c.isDedicated {
				return exit.UsageError("--%s needs --%s", name, flagDedicated)
			}
		}
		return c.runClean(cmd.Context())
	}
	flags.BoolVar(&c.isDedicated, flagDedicated, false, "Remove a dedicated hub from its host")
	flags.StringVar(&c.dedicated.name, flagName, install.DedicatedName, "Name of the dedicated hub")
	flags.StringVar(&c.dedicated.context, flagHubContext, "", "Context of the dedicated hub in the kubeconfig, which is removed (default: its name)")
	flags.BoolVar(&c.deleteData, flagDeleteData, false, "Also delete what the dedicated hub has stored")
	flags.BoolVar(&c.allClusters, "all-clusters", false, "Let all clusters leave the hub first")
	flags.BoolVar(&c.namespaces, "cluster-namespaces", false, "Also delete the namespaces of the clusters, and everything in them")
	flags.BoolVar(&c.force, "force", false, "Do not wait for unreachable clusters; remove an operator that another tool has installed")
	flags.DurationVar(&c.timeout, "timeout", defaultTimeout, "How long to wait for each step")
	c.mode.AddFlag(cmd)
	return cmd
}

func (c *cleanCommand) runClean(ctx context.Context) error {
	if err := c.mode.ValidateMode(); err != nil {
		return err
	}
	if err := c.checkDedicatedFlags(); err != nil {
		return err
	}
	s, err := openSite(c.session, c.mode, c.timeout)
	if err != nil {
		return err
	}
	if c.isDedicated {
		return c.session.ExplainError(c.cleanDedicated(ctx, s))
	}
	return c.session.ExplainError(c.cleanHub(ctx, s))
}

func (c *cleanCommand) cleanHub(ctx context.Context, s *clusterSite) error {
	found, err := readSituation(ctx, s.read, install.ClusterManagerOperator())
	if err != nil {
		return err
	}
	clusters, err := clusterNames(ctx, s.read)
	if err != nil {
		return err
	}
	tokens, err := bootstrapTokens(ctx, s.read)
	if err != nil {
		return err
	}
	published, err := publishedByUs(ctx, s.read)
	if err != nil {
		return err
	}
	if err := c.checkClean(found, clusters); err != nil {
		return err
	}
	namespaces, err := c.clusterNamespaces(ctx, s.read)
	if err != nil {
		return err
	}
	r := removalRun{site: s, waits: s.newWaiter()}
	if !found.isPresent() {
		fmt.Fprintf(s.out, "%s is not a hub\n", c.session.DescribeTarget())
	}
	r.removeObjects(ctx, removal{
		step: "Letting clusters leave", objects: managedClusters(clusters), after: c.giveUp(s),
		hint: "--force gives up unreachable clusters.",
	})
	r.removeObjects(ctx, removal{step: "Removing the hub", objects: clusterManagers(found)})
	if hosted := found.hosted(); len(hosted) > 0 {
		fmt.Fprintf(s.out, "The operator stays for hubs elsewhere: ClusterManager %s. \"capstan clean --dedicated --name NAME\" removes dedicated ones.\n", formatFirstNames(hosted))
	} else {
		r.removeOperator(ctx, found)
	}
	r.removeObjects(ctx, removal{step: "Removing bootstrap tokens", objects: tokens, before: unpublish(s)})
	r.removeObjects(ctx, removal{step: "Removing the published CA of the hub", objects: published})
	r.removeObjects(ctx, removal{step: "Removing the namespaces of clusters", objects: namespaces})
	if r.err != nil || !c.mode.MakesChanges() {
		return r.err
	}
	if found.isPresent() {
		fmt.Fprintf(s.out, "%s is no longer a hub\n", c.session.DescribeTarget())
	}
	if !c.namespaces && len(clusters) > 0 {
		fmt.Fprintf(s.out, "The namespaces of the clusters stay; \"kubectl delete namespaces -l %s\" deletes them with all that is in them.\n", clusterv1.LabelClusterName)
	}
	return nil
}

// isPresent reports whether anything of a hub is on the cluster.
func (s operatorSituation) isPresent() bool {
	return s.deployment != nil || len(s.hubs) > 0 || s.leftovers
}

// hosted returns the names of the ClusterManagers whose hub is another cluster.
func (s operatorSituation) hosted() []string {
	var names []string
	for i := range s.hubs {
		if s.hubs[i].Spec.DeployOption.Mode == operatorv1.InstallModeHosted {
			names = append(names, s.hubs[i].Name)
		}
	}
	return names
}

// checkClean returns why the hub cannot be removed as it is.
func (c *cleanCommand) checkClean(found operatorSituation, clusters []string) error {
	if err := found.checkForeign(c.force); err != nil {
		return err
	}
	if len(clusters) > 0 && !c.allClusters {
		return exit.Next(fmt.Errorf("the hub still has clusters, %d in all: %s", len(clusters), formatFirstNames(clusters)),
			"Remove Pull clusters with \"capstan unregister NAME\" and Push clusters with \"capstan unjoin NAME\"; \"capstan get clusters\" shows the mode. Or remove all with --all-clusters.")
	}
	if found.deployment == nil && (len(found.hubs) > 0 || len(clusters) > 0) {
		return exit.Next(fmt.Errorf("there are %d ClusterManagers and %d clusters, but no operator that could remove them", len(found.hubs), len(clusters)),
			"Install the operator again with \"capstan init\", and then remove all.")
	}
	return nil
}

func formatFirstNames(names []string) string {
	if len(names) > namesMax {
		return strings.Join(names[:namesMax], ", ") + ", …"
	}
	return strings.Join(names, ", ")
}

// giveUp lets the hub give up clusters that are silent, if that was asked for.
func (c *cleanCommand) giveUp(s *clusterSite) func(context.Context, client.Object) error {
	if !c.force {
		return nil
	}
	return func(ctx context.Context, cluster client.Object) error {
		return hub.GiveUp(ctx, s.write, cluster.GetName(), silentWait)
	}
}

func clusterNames(ctx context.Context, c client.Reader) ([]string, error) {
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("ManagedClusterList"))
	if err := c.List(ctx, list); err != nil && !apierrors.IsNotFound(err) {
		return nil, fmt.Errorf("list the clusters: %w", err)
	}
	names := make([]string, 0, len(list.Items))
	for i := range list.Items {
		names = append(names, list.Items[i].Name)
	}
	slices.Sort(names)
	return names, nil
}

// bootstrapTokens returns the Secrets of tokens that let clusters ask to join.
// Those of nodes are none of ours.
func bootstrapTokens(ctx context.Context, c client.Reader) ([]client.Object, error) {
	list := &corev1.SecretList{}
	err := c.List(ctx, list, client.InNamespace(metav1.NamespaceSystem), client.MatchingFields{"type": string(api.SecretTypeBootstrapToken)})
	if err != nil {
		return nil, fmt.Errorf("list the bootstrap tokens: %w", err)
	}
	var tokens []client.Object
	for i := range list.Items {
		groups := strings.Split(string(list.Items[i].Data[api.BootstrapTokenExtraGroupsKey]), ",")
		if slices.Contains(groups, clusterv1.GroupBootstrappers) {
			tokens = append(tokens, objectReference(corev1.SchemeGroupVersion.WithKind("Secret"), metav1.NamespaceSystem, list.Items[i].Name))
		}
	}
	return tokens, nil
}

// unpublish takes the signature of a token out of what tells members how to
// verify the hub.
func unpublish(s *clusterSite) func(context.Context, client.Object) error {
	return func(ctx context.Context, secret client.Object) error {
		return clusterinfo.Unpublish(ctx, s.write, strings.TrimPrefix(secret.GetName(), api.BootstrapTokenSecretPrefix))
	}
}

// publishedByUs returns what tells members how to verify the hub, as far as
// nobody else had published it before.
func publishedByUs(ctx context.Context, c client.Reader) ([]client.Object, error) {
	var objects []client.Object
	for _, kind := range []schema.GroupVersionKind{
		corev1.SchemeGroupVersion.WithKind("ConfigMap"), rbacv1.SchemeGroupVersion.WithKind("RoleBinding"), rbacv1.SchemeGroupVersion.WithKind("Role"),
	} {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		ours := client.MatchingLabels{operatorv1.LabelPartOf: operatorv1.PartOfCapstan}
		if err := c.List(ctx, list, client.InNamespace(metav1.NamespacePublic), ours); err != nil {
			return nil, fmt.Errorf("list what is published in namespace %s: %w", metav1.NamespacePublic, err)
		}
		for i := range list.Items {
			objects = append(objects, objectReference(kind, metav1.NamespacePublic, list.Items[i].Name))
		}
	}
	return objects, nil
}

// clusterNamespaces returns the namespaces that the hub has made for clusters,
// if they are to be deleted.
func (c *cleanCommand) clusterNamespaces(ctx context.Context, r client.Reader) ([]client.Object, error) {
	if !c.namespaces {
		return nil, nil
	}
	list := &corev1.NamespaceList{}
	if err := r.List(ctx, list, client.HasLabels{clusterv1.LabelClusterName}); err != nil {
		return nil, fmt.Errorf("list the namespaces of clusters: %w", err)
	}
	var namespaces []client.Object
	for i := range list.Items {
		if n := list.Items[i].Name; n == list.Items[i].Labels[clusterv1.LabelClusterName] {
			namespaces = append(namespaces, objectReference(corev1.SchemeGroupVersion.WithKind("Namespace"), "", n))
		}
	}
	return namespaces, nil
}
