// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package join contains the commands join and unjoin, for clusters that the hub
// connects to: Push clusters. It needs access to both sides, and does the work
// of both.
package join

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/cli/args"
	"github.com/capstan-io/capstan/internal/cli/columns"
	"github.com/capstan-io/capstan/internal/cli/complete"
	"github.com/capstan-io/capstan/internal/cli/dryrun"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/hub"
	"github.com/capstan-io/capstan/internal/cli/member"
	"github.com/capstan-io/capstan/internal/cli/progress"
	"github.com/capstan-io/capstan/internal/cli/takeover"
)

const (
	// joinTimeout is how long a join waits. With the first Push cluster of a hub
	// the push agent has to start, which may pull its image.
	joinTimeout = 5 * time.Minute
	// lookEvery is how often a command that waits looks.
	lookEvery = time.Second
)

// Flags that messages name.
const (
	flagEndpoint  = "cluster-endpoint"
	flagProxy     = "proxy-url"
	flagInsecure  = "insecure-skip-tls-verification"
	flagNamespace = "cluster-namespace"
	flagRole      = "cluster-role"
	// flagAsRegistered is for a name that waits on the hub.
	flagAsRegistered = "as-registered"
)

// joinOptions are the flags of "join".
type joinOptions struct {
	member    member.KubeconfigFlags
	mode      dryrun.Mode
	namespace string
	role      string
	route     routeOptions
	place     place
	wait      bool
	timeout   time.Duration
	// asRegistered accepts what waits under the name as it is.
	asRegistered bool
}

// place is where a cluster is, as the user says.
type place struct {
	provider, region string
	zones            []string
}

// NewJoinCommand returns the command "join".
func NewJoinCommand(session *hub.Session) *cobra.Command {
	o := &joinOptions{}
	cmd := &cobra.Command{
		Use:   "join NAME",
		Short: "Join a cluster that the hub dials (Push)",
		Long: "Joins a cluster under the given name as a Push cluster: the hub dials it, and no agent runs in it. The command " +
			"creates an account for the hub in the cluster, with the permissions that agents of Pull clusters have, accepts " +
			"the cluster, and waits until it is ready. Your own credentials are used only for this and never given to the " +
			"hub.\n\n" +
			"A name that is registered on the hub but not accepted is used only with --as-registered: whoever asked to join " +
			"under it has chosen its labels. To finish an interrupted join, run the same command again. A Pull cluster that " +
			"has joined under this name becomes a Push cluster; its workloads stay, and the command returns when the hub has " +
			"taken over all of them.",
		Example: `  # Join the cluster of a kubeconfig
  capstan join member1 --cluster-kubeconfig member1.kubeconfig

  # Choose a context, and record where the cluster runs
  capstan join member1 --cluster-kubeconfig members.kubeconfig --cluster-context member1 \
    --cluster-provider example --cluster-region eu --cluster-zones eu-1,eu-2

  # The hub reaches the cluster at another address than this machine
  capstan join member1 --cluster-context kind-member1 --cluster-endpoint https://172.18.0.3:6443

  # Show what would be done
  capstan join member1 --cluster-kubeconfig member1.kubeconfig --dry-run=client`,
		Args:              args.One("the name of the cluster"),
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := o.mode.ValidateMode(); err != nil {
				return err
			}
			j, err := newJoin(session, o, args[0])
			if err != nil {
				return err
			}
			return j.runJoin(cmd.Context())
		},
	}
	o.member.AddFlags(cmd.Flags())
	flags := cmd.Flags()
	flags.StringVar(&o.namespace, flagNamespace, fleetv1alpha1.DefaultMemberNamespace, "Namespace in the member for the account of the hub")
	flags.StringVar(&o.role, flagRole, "", "ClusterRole of the member that the account of the hub gets besides, such as cluster-admin")
	flags.StringVar(&o.place.provider, "cluster-provider", "", "Who runs the cluster, such as a cloud provider")
	flags.StringVar(&o.place.region, "cluster-region", "", "Where the cluster is")
	flags.StringSliceVar(&o.place.zones, "cluster-zones", nil, "Zones of the region in which the cluster has nodes")
	flags.StringVar(&o.route.endpoint, flagEndpoint, "", "Address of the cluster as seen from the hub (default: that in its kubeconfig)")
	flags.StringVar(&o.route.proxy, flagProxy, "", "Proxy through which the hub reaches the cluster: http, https or socks5 (default: that in its kubeconfig)")
	flags.BoolVar(&o.route.insecure, flagInsecure, false, "Do not verify the certificate of the cluster: for tests only")
	flags.BoolVar(&o.asRegistered, flagAsRegistered, false, "Accept the ManagedCluster that waits on the hub under this name, with the labels that it has")
	flags.BoolVar(&o.wait, "wait", true, "Wait until the hub is connected to the cluster and it is ready")
	flags.DurationVar(&o.timeout, "timeout", joinTimeout, "How long to wait")
	o.mode.AddBareFlag(cmd)
	complete.MemberContexts(cmd, &o.member)
	return cmd
}

// joinRun is one join under way.
type joinRun struct {
	*joinOptions
	session *hub.Session
	name    string
	steps   *progress.StepPrinter
	// hub and there are the two sides, as this user.
	hub   client.Client
	there *member.Member

	// What the first step finds out.
	identity member.Identity
	push     member.PushInstallation
	plan     joinPlan
	route    route
	warnings []string
	// token is that of the hub's account in the member.
	token string
	// count is how much of what was delivered the hub has taken over in the end, and
	// handedOver says whether another agent had any of it.
	count      takeover.Count
	handedOver bool
}

func newJoin(session *hub.Session, o *joinOptions, name string) (*joinRun, error) {
	if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
		return nil, exit.UsageError("%q cannot be the name of a cluster: %s", name, strings.Join(problems, "; "))
	}
	j := &joinRun{joinOptions: o, session: session, name: name, steps: progress.NewStepPrinter(session.ErrOut)}
	c, err := session.ConnectHub()
	if err != nil {
		return nil, err
	}
	j.hub = c
	if j.there, err = o.member.ConnectMember(session.ErrOut); err != nil {
		return nil, err
	}
	return j, nil
}

// runJoin is the story of a join. Each step can be repeated, and each leaves what a
// later join, or "unjoin", finds again.
func (j *joinRun) runJoin(ctx context.Context) error {
	if err := j.steps.RunStep("Checking the hub and the member", func() error { return j.checkJoin(ctx) }); err != nil {
		return err
	}
	for _, warning := range j.warnings {
		fmt.Fprintln(j.session.ErrOut, "Warning: "+columns.OneLine(warning))
	}
	if !j.mode.MakesChanges() {
		return j.printDryRun(ctx)
	}
	patience, cancel := context.WithTimeout(ctx, j.timeout)
	defer cancel()
	steps := []struct {
		text string
		do   func() error
	}{
		{"Giving the hub access to the member", func() error { return j.there.ExplainError(j.equipMember(ctx, patience)) }},
		{"Accepting the cluster", func() error { return j.registerCluster(ctx, patience) }},
		{"Waiting for the hub to connect to the cluster", func() error { return j.awaitReady(ctx, patience) }},
	}
	if !j.wait {
		steps = steps[:len(steps)-1]
	}
	for _, step := range steps {
		if err := j.steps.RunStep(step.text, step.do); err != nil {
			return j.explainUndo(ctx, err)
		}
	}
	if j.wait {
		if err := j.takeOver(ctx, patience); err != nil {
			return j.explainUndo(ctx, err)
		}
	}
	j.printResult()
	return nil
}

// equipMember installs what the hub needs in the member, and gets the first token.
func (j *joinRun) equipMember(ctx, patience context.Context) error {
	if err := j.awaitNamespaceGone(ctx, patience); err != nil {
		return err
	}
	if err := j.push.InstallInMember(ctx, j.there.Client); err != nil {
		return err
	}
	var err error
	j.token, err = j.push.RequestToken(ctx, j.there.Client)
	return err
}

// explainUndo says how to go on after an error in the middle of a join.
func (j *joinRun) explainUndo(ctx context.Context, err error) error {
	err = j.session.ExplainError(err)
	var known *exit.Error
	if err == nil || ctx.Err() != nil {
		return err
	}
	again := fmt.Sprintf("The same command continues from here; \"capstan unjoin %s %s\" undoes what is done so far.", j.name, j.member.DescribeFlags())
	if !errors.As(err, &known) {
		return exit.Next(err, "%s", again)
	}
	return &exit.Error{Err: known.Err, Next: known.Next + "\n" + again, Code: known.Code}
}

// printResult says what has become of the cluster.
func (j *joinRun) printResult() {
	out := j.session.Out
	if !j.wait {
		fmt.Fprintf(out, "cluster(%s) is registered; \"capstan get clusters %[1]s\" shows when it is ready\n", j.name)
		if j.plan.wasPull {
			fmt.Fprintf(out, "Keep its Klusterlet for now: the hub has not taken over all works yet, and deleting it would delete what they applied. "+
				"The same command without --wait=false waits for that.\n")
		}
		return
	}
	fmt.Fprintf(out, "cluster(%s) is joined successfully\n", j.name)
	switch {
	case !j.plan.wasPull && !j.handedOver:
	case j.count.Foreign > 0:
		fmt.Fprintf(out, "Keep its Klusterlet for now: %d AppliedManifestWorks in the member belong to another hub, or to an agent that used another URL "+
			"for this one, and deleting it may delete what they applied. See \"From Pull to Push and back\" in docs/spec/fleet/clusterconnection.md.\n", j.count.Foreign)
	default:
		fmt.Fprintf(out, "The hub has taken over all works from the agent in the cluster (%d), and nothing has changed there. "+
			"The Klusterlet is no longer needed: \"kubectl delete klusterlet\" in the member removes it.\n", j.count.Taken)
	}
}
