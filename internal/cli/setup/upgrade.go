// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/cli/dryrun"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/hub"
	"github.com/capstan-io/capstan/internal/cli/install"
	"github.com/capstan-io/capstan/internal/cli/member"
	"github.com/capstan-io/capstan/internal/server/version"
)

// upgradeCommand is one call of "upgrade".
type upgradeCommand struct {
	session *hub.Session
	member  member.KubeconfigFlags
	mode    dryrun.Mode
	image   string
	timeout time.Duration
	force   bool
	// name is that of a dedicated hub, and kubernetes the version of Kubernetes that
	// it is to have.
	name, kubernetes string
}

// NewUpgradeCommand returns the command "upgrade".
func NewUpgradeCommand(session *hub.Session) *cobra.Command {
	u := &upgradeCommand{session: session}
	cmd := &cobra.Command{
		Use:   "upgrade",
		Short: "Upgrade a hub or a member to this release",
		Long: "Upgrades the hub to the release of this capstan: its operator, with roles and CustomResourceDefinitions, and " +
			"with it everything that the operator has installed; waits until everything runs, and shows what has changed. " +
			"With --cluster-kubeconfig or --cluster-context, it upgrades a member whose agents run on it, instead of the hub. " +
			"It does not matter whether capstan or make installed it. On the host of dedicated hubs it upgrades the operator of " +
			"their API servers as well, and leaves them the Kubernetes that they have.\n\n" +
			"With --kubernetes-version, it upgrades the Kubernetes of a dedicated hub instead, by one minor version at a time: its " +
			"API servers one by one, and then its controller managers. There is no way back to an older minor version.\n\n" +
			"Images in a ClusterManager or Klusterlet are changed if they are the operator's; an image that somebody chose " +
			"stays.",
		Example: `  # Show what would be changed
  capstan upgrade --dry-run=client

  # Upgrade the hub, and then a member
  capstan upgrade
  capstan upgrade --cluster-kubeconfig member1.kubeconfig

  # Upgrade the Kubernetes of the dedicated hub fleet; the current context is that of its host
  capstan upgrade --name fleet --kubernetes-version v1.36.3`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := u.checkFlags(cmd.Flags().Changed); err != nil {
				return err
			}
			return u.runUpgrade(cmd.Context())
		},
	}
	flags := cmd.Flags()
	u.member.AddFlags(flags)
	flags.StringVar(&u.image, "image", "", "Image of Capstan (default: that of this release of capstan)")
	flags.DurationVar(&u.timeout, "timeout", defaultTimeout, "How long to wait for each step")
	flags.StringVar(&u.kubernetes, flagKubernetes, "", "Version of Kubernetes to upgrade a dedicated hub to, instead of upgrading Capstan")
	flags.StringVar(&u.name, flagName, install.DedicatedName, "Name of the dedicated hub, for --"+flagKubernetes)
	flags.BoolVar(&u.force, "force", false, "Also downgrade to an older release, or replace an operator that another tool has installed")
	u.mode.AddFlag(cmd)
	return cmd
}

// checkFlags returns what of the command line makes no sense. given tells which flags
// there are.
func (u *upgradeCommand) checkFlags(given func(flag string) bool) error {
	if !given(flagKubernetes) {
		if given(flagName) {
			return exit.UsageError("--%s needs --%s", flagName, flagKubernetes)
		}
		return u.mode.ValidateMode()
	}
	if u.kubernetes == "" {
		return exit.UsageError("--%s needs a version, such as %s", flagKubernetes, fleetv1alpha1.DefaultKubernetesVersion)
	}
	for _, flag := range []string{"image", "force"} {
		if given(flag) {
			return exit.UsageError("--%s is for upgrades of Capstan, not for --%s", flag, flagKubernetes)
		}
	}
	if u.member.Given() {
		return exit.UsageError("--%s is for dedicated hubs; choose the host of one with --context", flagKubernetes)
	}
	return u.mode.ValidateMode()
}

func (u *upgradeCommand) runUpgrade(ctx context.Context) error {
	if u.member.Given() {
		m, err := u.member.ConnectMember(u.session.ErrOut)
		if err != nil {
			return err
		}
		s, err := newSite(m.Config, u.session, u.mode, u.timeout)
		if err != nil {
			return err
		}
		return m.ExplainError(u.upgradeOperator(ctx, s, install.KlusterletOperator(), m.DescribeTarget()))
	}
	s, err := openSite(u.session, u.mode, u.timeout)
	if err != nil {
		return err
	}
	if u.kubernetes != "" {
		return u.session.ExplainError(u.upgradeKubernetes(ctx, s))
	}
	if err := u.upgradeOperator(ctx, s, install.ClusterManagerOperator(), u.session.DescribeTarget()); err != nil {
		return u.session.ExplainError(err)
	}
	return u.session.ExplainError(u.upgradeHost(ctx, s))
}

func (u *upgradeCommand) upgradeOperator(ctx context.Context, s *clusterSite, operator install.Operator, where string) error {
	before, err := readSituation(ctx, s.read, operator)
	if err != nil {
		return err
	}
	if before.deployment == nil {
		return exit.Next(fmt.Errorf("%s has no operator %q to upgrade", where, operator.DeploymentKey().Name), "%s", missingNext(operator))
	}
	image := cmp.Or(u.image, version.ImageReference())
	to := targetRelease(u.image, image)
	if err := before.checkUpgrade(u.force, to); err != nil {
		return err
	}
	options := install.OptionsOf(before.deployment)
	options.Image = image
	objects, err := operator.RenderObjects(options)
	if err != nil {
		return err
	}
	fmt.Fprintf(s.out, "%s: from %s to %s\n", where, releaseText(before.release, before.operatorImage()), releaseText(to, image))
	pinned, err := imageFields(ctx, s.read, operator, before.operatorImage())
	if err != nil {
		return err
	}
	if !u.mode.MakesChanges() {
		return s.dryRunObjects(ctx, objects)
	}
	former, err := operator.ListComponents(ctx, s.read)
	if err != nil {
		return err
	}
	if err := s.steps.RunStep("Checking the cluster", func() error { return s.preflight(ctx, objects) }); err != nil {
		return err
	}
	if err := s.putOperator(ctx, operator, objects, true); err != nil {
		return err
	}
	err = s.steps.RunStep("Upgrading what it has installed", func() error { return u.awaitUpgrade(ctx, s, before, image, pinned) })
	if err != nil {
		return err
	}
	return reportUpgrade(ctx, s, before, image, former)
}

// awaitUpgrade waits until everything runs with the new image.
func (u *upgradeCommand) awaitUpgrade(ctx context.Context, s *clusterSite, before operatorSituation, image string, pinned []imageField) error {
	for _, field := range pinned {
		if err := field.setImage(ctx, s.write, image); err != nil {
			return err
		}
	}
	former := before.operatorImage()
	if former == image {
		former = ""
	}
	if err := s.newWaiter().AwaitComponents(ctx, before.operator, former); err != nil {
		return err
	}
	names, err := before.operator.Instances(ctx, s.read)
	if err != nil {
		return err
	}
	wait := s.newWaiter().AwaitClusterManager
	if before.operator == install.KlusterletOperator() {
		wait = s.newWaiter().AwaitKlusterlet
	}
	for _, name := range names {
		if err := wait(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// reportUpgrade says what has changed.
func reportUpgrade(ctx context.Context, s *clusterSite, before operatorSituation, image string, former []install.Component) error {
	now, err := before.operator.ListComponents(ctx, s.read)
	if err != nil {
		return err
	}
	images := map[client.ObjectKey]string{before.operator.DeploymentKey(): before.operatorImage()}
	for _, c := range former {
		images[c.Key] = c.Image
	}
	changed := false
	for _, c := range append([]install.Component{{Key: before.operator.DeploymentKey(), Image: image}}, now...) {
		was, known := images[c.Key]
		if was == c.Image {
			continue
		}
		if !known {
			was = "new"
		}
		changed = true
		fmt.Fprintf(s.out, "deployment.apps/%s: %s -> %s\n", c.Key.Name, was, c.Image)
	}
	if !changed {
		fmt.Fprintln(s.out, "all images were up to date; roles and definitions are those of this release")
	}
	return nil
}

// checkUpgrade returns why an operator cannot be brought to the release.
func (s operatorSituation) checkUpgrade(force bool, to string) error {
	if err := s.checkForeign(force); err != nil {
		return err
	}
	if !force && isOlderRelease(to, s.release) {
		return exit.Next(fmt.Errorf("release %s is older than what is there: %s", to, s.release),
			"Use capstan of release %s or newer. --force goes back, with definitions and roles: what only the newer release knows is not served then.", s.release)
	}
	return nil
}

func missingNext(operator install.Operator) string {
	if operator == install.KlusterletOperator() {
		return "Agents run on clusters that were registered by \"capstan register\"; a Push cluster is upgraded by running \"capstan join\" again."
	}
	return "\"capstan init\" makes a cluster a hub. Choose another one with --context."
}

// targetRelease is the release that an image has: that of capstan itself, or
// what the tag of another image says if that looks like a release.
func targetRelease(given, image string) string {
	if given == "" || given == version.ImageReference() {
		return version.SemanticVersion()
	}
	tag := image[strings.LastIndex(image, ":")+1:]
	if strings.ContainsAny(tag, "/@") || !isOlderRelease("0.0.0", strings.TrimPrefix(tag, "v")) {
		return ""
	}
	return strings.TrimPrefix(tag, "v")
}

// releaseText names a release, as far as it is known, and its image.
func releaseText(release, image string) string {
	if release == "" {
		return image
	}
	return fmt.Sprintf("release %s (%s)", release, image)
}
