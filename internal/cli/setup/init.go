// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/cli/dryrun"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/hub"
	"github.com/capstan-io/capstan/internal/cli/install"
	"github.com/capstan-io/capstan/internal/server/version"
)

// defaultTimeout is how long a step may take: an image may have to be pulled.
const defaultTimeout = 5 * time.Minute

// initCommand is one call of "init".
type initCommand struct {
	session  *hub.Session
	mode     dryrun.Mode
	image    string
	replicas int32
	gates    []string
	users    []string
	output   string
	wait     bool
	timeout  time.Duration
	force    bool
	// isDedicated asks for a dedicated hub, and given tells which flags were given.
	isDedicated bool
	dedicated   dedicatedHub
	given       func(flag string) bool
}

// NewInitCommand returns the command "init".
func NewInitCommand(session *hub.Session) *cobra.Command {
	m := &initCommand{session: session}
	cmd := &cobra.Command{
		Use:   "init",
		Short: "Turn a cluster into a hub",
		Long: "Turns the cluster of the current context into a hub: checks it, installs the operator with its " +
			"CustomResourceDefinitions and a ClusterManager, and waits until the hub works. What already exists stays, so the " +
			"command can be repeated, and continues where it stopped. A setting whose flag is not given again returns to its " +
			"default, except for --image.\n\n" +
			"With --dedicated the cluster becomes the host of a hub with an API server and an etcd of its own, which run as pods. No " +
			"controllers for workloads run there: what is applied to the hub runs nowhere until a policy sends it to a cluster. The " +
			"command ends with a context for the hub in the kubeconfig. Settings of a dedicated hub whose flag is not given again stay.\n\n" +
			"With -o yaml it only prints what it would apply, for a repository that a GitOps tool applies.",
		Example: `  # Turn the cluster of the current context into a hub
  capstan init

  # Turn another one into a hub, with three pods for each component
  capstan init --context hub --replicas 3

  # Create a dedicated hub that survives the loss of a node, hosted by the cluster of the current context
  capstan init --dedicated --name fleet --replicas 3

  # Automatically accept clusters that this user registers
  capstan init --auto-approve-users system:serviceaccount:open-cluster-management:agent-registration-bootstrap

  # Print everything, for GitOps
  capstan init -o yaml > hub.yaml`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	flags := cmd.Flags()
	m.given = flags.Changed
	flags.BoolVar(&m.isDedicated, flagDedicated, false, "Create a dedicated hub, whose API server runs as pods on the cluster")
	ofDedicated := m.dedicated.addFlags(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		for _, name := range ofDedicated {
			if m.given(name) && !m.isDedicated {
				return exit.UsageError("--%s needs --%s", name, flagDedicated)
			}
		}
		return m.runInit(cmd.Context())
	}
	flags.StringVar(&m.image, "image", "", "Image of Capstan (default: the installed one, otherwise that of this release of capstan)")
	flags.Int32Var(&m.replicas, "replicas", 0, "Number of pods of the operator and of each component of the hub (default: 1 for the operator; 3 for each component if the control plane has several nodes, otherwise 1); with --dedicated, of API servers (default: 1), and with more than one there are 3 members of etcd")
	flags.StringSliceVar(&m.gates, "feature-gates", nil, "Feature gates of the hub to turn on or off, such as StrictBootstrap=true; see docs/reference/gates.md")
	flags.StringSliceVar(&m.users, "auto-approve-users", nil, "Users of the hub whose clusters are accepted automatically; turns on ManagedClusterAutoApproval")
	flags.StringVarP(&m.output, "output", "o", "", "Only print what would be applied. One of: (yaml)")
	flags.BoolVar(&m.wait, "wait", true, "Wait until the hub works")
	flags.DurationVar(&m.timeout, "timeout", defaultTimeout, "How long to wait for each step")
	flags.BoolVar(&m.force, "force", false, "Replace an operator that another tool, such as OCM, has installed")
	m.mode.AddFlag(cmd)
	return cmd
}

func (m *initCommand) runInit(ctx context.Context) error {
	if err := m.mode.ValidateMode(); err != nil {
		return err
	}
	if m.replicas < 0 {
		return exit.UsageError("--replicas has to be at least 1")
	}
	if m.output != "" && m.output != "yaml" {
		return exit.UsageError("--output: unknown format %q; the only format is yaml", m.output)
	}
	if m.isDedicated {
		return m.runDedicated(ctx)
	}
	spec, err := hubSpec(m.gates, m.users)
	if err != nil {
		return err
	}
	if m.output != "" {
		objects, err := m.renderHubObjects(m.image, spec)
		if err != nil {
			return err
		}
		return printYAML(m.session.Out, objects)
	}
	s, err := openSite(m.session, m.mode, m.timeout)
	if err != nil {
		return err
	}
	return m.session.ExplainError(m.installHub(ctx, s, spec))
}

// renderHubObjects are what makes a cluster a hub, in the order in which to apply them;
// the ClusterManager is the last.
func (m *initCommand) renderHubObjects(image string, spec operatorv1.ClusterManagerSpec) ([]*unstructured.Unstructured, error) {
	objects, err := install.ClusterManagerOperator().RenderObjects(install.OperatorOptions{Image: image, Replicas: m.replicas, ComponentReplicas: m.replicas})
	if err != nil {
		return nil, err
	}
	instance, err := install.ClusterManagerObject(install.ClusterManagerName, spec)
	if err != nil {
		return nil, err
	}
	return append(objects, instance), nil
}

func (m *initCommand) installHub(ctx context.Context, s *clusterSite, spec operatorv1.ClusterManagerSpec) error {
	before := operatorSituation{}
	var objects []*unstructured.Unstructured
	err := s.steps.RunStep("Checking the cluster", func() (err error) {
		if before, err = readSituation(ctx, s.read, install.ClusterManagerOperator()); err != nil {
			return err
		}
		if err := before.checkInit(m.force, version.SemanticVersion()); err != nil {
			return err
		}
		image := before.operatorImage()
		if before.installer() != install.ByCapstan {
			image = ""
		}
		if objects, err = m.renderHubObjects(cmp.Or(m.image, image), spec); err != nil {
			return err
		}
		return s.preflight(ctx, objects)
	})
	if err != nil {
		return err
	}
	if !m.mode.MakesChanges() {
		return s.dryRunObjects(ctx, objects)
	}
	operator := objects[:len(objects)-1]
	instance := objects[len(objects)-1]
	if err := s.putOperator(ctx, before.operator, operator, m.wait); err != nil {
		return err
	}
	err = s.steps.RunStep("Creating the ClusterManager", func() error { return install.ApplyObjects(ctx, s.write, instance) })
	if err != nil {
		return err
	}
	if m.wait {
		err = s.steps.RunStep("Starting the hub", func() error {
			if err := s.newWaiter().AwaitClusterManager(ctx, install.ClusterManagerName); err != nil {
				return err
			}
			return s.newWaiter().AwaitComponents(ctx, before.operator, "")
		})
		if err != nil {
			return err
		}
	}
	m.sayNext()
	return nil
}

// sayNext tells what to do with the new hub.
func (m *initCommand) sayNext() {
	ready := "is a hub"
	if !m.wait {
		ready = "is becoming a hub: \"kubectl get clustermanager\" shows when it is ready"
	}
	fmt.Fprintf(m.session.Out, `
%s %s.

Let clusters join:
  capstan token create --print-register-command        # for clusters that call the hub: run there what this prints
  capstan join NAME --cluster-kubeconfig FILE          # for clusters that the hub calls
See them:
  capstan get clusters
`, m.session.DescribeTarget(), ready)
}

// checkInit returns why a cluster cannot be made a hub as it is.
func (s operatorSituation) checkInit(force bool, release string) error {
	if err := s.checkForeign(force); err != nil {
		return err
	}
	if err := s.sameRelease(release); err != nil {
		return err
	}
	for i := range s.hubs {
		cm := &s.hubs[i]
		switch {
		case !cm.DeletionTimestamp.IsZero():
			return exit.Next(fmt.Errorf("the hub is being removed: ClusterManager %q is being deleted", cm.Name),
				"\"capstan clean\" waits for that to finish, and shows what it is waiting for.")
		case cm.Name != install.ClusterManagerName && cm.Spec.DeployOption.Mode != operatorv1.InstallModeHosted:
			return exit.Next(fmt.Errorf("the cluster is already a hub: there is ClusterManager %q", cm.Name),
				"A cluster can be only one hub. \"capstan get clusters\" shows its clusters.")
		}
	}
	return nil
}

// sameRelease returns an error if a hub of another release is there.
func (s operatorSituation) sameRelease(release string) error {
	if s.installer() != install.ByCapstan || s.release == "" || s.release == release {
		return nil
	}
	word := "\"capstan upgrade\" brings it to this release."
	if isOlderRelease(release, s.release) {
		word = "Use capstan of that release, or a newer one."
	}
	return exit.Next(fmt.Errorf("there is already a hub of release %s, and this is capstan %s", s.release, release), "%s", word)
}
