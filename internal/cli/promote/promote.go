// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package promote is the command that has the hub take over what runs in a member
// already, without a change of it.
package promote

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/internal/cli/complete"
	"github.com/capstan-io/capstan/internal/cli/dryrun"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/hub"
	"github.com/capstan-io/capstan/internal/cli/member"
	"github.com/capstan-io/capstan/internal/cli/output"
	"github.com/capstan-io/capstan/internal/cli/progress"
	"github.com/capstan-io/capstan/internal/interpret"
)

// defaultTimeout is how long the command waits until the cluster is the hub's.
const defaultTimeout = 2 * time.Minute

// promoteOptions are the flags.
type promoteOptions struct {
	member       member.KubeconfigFlags
	cluster      string
	namespace    string
	dependencies bool
	policy       bool
	policyName   string
	mode         dryrun.Mode
	format       output.Format
	wait         bool
	timeout      time.Duration
}

// NewPromoteCommand returns the command "promote".
func NewPromoteCommand(session *hub.Session) *cobra.Command {
	o := &promoteOptions{}
	cmd := &cobra.Command{
		Use:   "promote KIND NAME -C CLUSTER",
		Short: "Let the hub take over a running object, without restarting it",
		Long: "Lets the hub take over an object that runs in a cluster: it creates the object on the hub as it is in the " +
			"cluster, with a policy that sends it there and adopts the existing one. The object in the cluster is not " +
			"replaced, so no pod is restarted. With --dependencies, the ConfigMaps, Secrets and other objects that it refers " +
			"to are taken over as well.\n\n" +
			"It reads the object from the cluster with your own credentials: name the cluster with --cluster-kubeconfig or " +
			"--cluster-context. To hand the object back, set preserveResourcesOnDeletion in the policy and delete the object " +
			"on the hub: what runs in the cluster stays.",
		Example: `  # What would be created on the hub?
  capstan promote deployment web -n shop -C member1 --cluster-context member1 --dry-run -o yaml

  # Take it over, with its ConfigMaps and Secrets
  capstan promote deployment web -n shop -C member1 --cluster-context member1 -d`,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, args []string) error {
			kind, name, err := kindAndName(args)
			if err != nil {
				return err
			}
			p, err := newPromotion(session, o, name)
			if err != nil {
				return err
			}
			return p.runPromotion(cmd.Context(), kind)
		},
	}
	flags := cmd.Flags()
	o.member.AddFlags(flags)
	flags.StringVarP(&o.cluster, "cluster", "C", "", "Name of the cluster on the hub")
	flags.StringVarP(&o.namespace, "namespace", "n", "", "Namespace of the object (default: that of the kubeconfig's context)")
	flags.BoolVarP(&o.dependencies, "dependencies", "d", false, "Take over what the object refers to, too, such as ConfigMaps and Secrets")
	flags.BoolVar(&o.policy, "auto-create-policy", true, "Create a policy that sends the object to the cluster")
	flags.StringVar(&o.policyName, "policy-name", "", "Name of that policy (default: NAME-KIND)")
	flags.BoolVar(&o.wait, "wait", true, "Wait until the object in the cluster is the hub's")
	flags.DurationVar(&o.timeout, "timeout", defaultTimeout, "How long to wait")
	o.mode.AddBareFlag(cmd)
	o.format.AddFlag(cmd)
	complete.MemberContexts(cmd, &o.member)
	// The flags are there and have no other function: there is no error to expect.
	_ = cmd.RegisterFlagCompletionFunc("cluster", complete.ClusterNamesCompletion(session))
	_ = cmd.RegisterFlagCompletionFunc("namespace", complete.PlacementNamespaces(session))
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

// promotionRun is one call of the command.
type promotionRun struct {
	*promoteOptions

	session *hub.Session
	name    string
	steps   *progress.StepPrinter
	// there is the member, and reads and writes are those of the hub, of any kind.
	there  *member.Member
	reads  client.Client
	writes client.Client
	// chain interprets objects as the hub does.
	chain interpret.Chain

	// What the first step finds out.
	kind    *meta.RESTMapping
	uid     types.UID // of the object in the member
	effects effects
	plan    promotionPlan
	// others are the policies of the hub that could claim what the object refers to.
	others []policyv1alpha1.Policy
}

func newPromotion(session *hub.Session, o *promoteOptions, name string) (*promotionRun, error) {
	for _, check := range []func() error{o.mode.ValidateMode, o.format.CheckFormat} {
		if err := check(); err != nil {
			return nil, err
		}
	}
	switch {
	case o.cluster == "":
		return nil, exit.UsageError("name the cluster that the object runs in, with -C NAME")
	case o.policyName != "" && !o.policy:
		return nil, exit.UsageError("--policy-name is the name of a policy that --auto-create-policy=false does not create: leave out one of them")
	}
	p := &promotionRun{promoteOptions: o, session: session, name: name, steps: progress.NewStepPrinter(session.ErrOut)}
	var err error
	p.there, err = o.member.ConnectMember(session.ErrOut)
	return p, err
}

// runPromotion is the story of a promotion. It can be repeated after an interruption.
func (p *promotionRun) runPromotion(ctx context.Context, kind string) error {
	if err := p.steps.RunStep("Looking at the object on the hub and in the cluster", func() error { return p.planPromotion(ctx, kind) }); err != nil {
		return err
	}
	if !p.mode.Skips() {
		if err := p.steps.RunStep("Creating it on the hub", func() error { return p.createPlanned(ctx) }); err != nil {
			return err
		}
	}
	if p.mode.MakesChanges() && p.policy && p.wait {
		patience, cancel := context.WithTimeout(ctx, p.timeout)
		defer cancel()
		if err := p.steps.RunStep("Waiting until the object in the cluster is the hub's", func() error { return p.awaitTakenOver(ctx, patience) }); err != nil {
			return err
		}
	}
	return p.format.Print(p.session.Out, p.plan.kubernetesList(), p.formatResult)
}

// planPromotion finds out what is to be done, and what speaks against it.
func (p *promotionRun) planPromotion(ctx context.Context, kindName string) error {
	kinds, err := p.session.ConnectAny()
	if err != nil {
		return err
	}
	p.reads = kinds.Client
	p.writes = kinds.Client
	if !p.mode.MakesChanges() {
		p.writes = client.NewDryRunClient(kinds.Client)
	}
	if p.kind, err = kinds.FindMapping(kindName); err != nil {
		return p.unservedKindError(ctx, kindName, err)
	}
	if p.kind.Scope.Name() == meta.RESTScopeNameNamespace {
		p.namespace = p.session.NamespaceOf(p.namespace)
	} else {
		p.namespace = ""
	}
	for _, step := range []func(context.Context) error{p.checkPropagation, p.checkInertOnHub, p.checkIdentity, p.readInterpreters, p.readFromCluster, p.onHub, p.planPolicy} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	if p.dependencies {
		return p.planDependencies(ctx)
	}
	return nil
}

// parenthesizedName returns the object as users of Karmada see it, (NAMESPACE/NAME).
func parenthesizedName(object client.Object) string {
	if object.GetNamespace() == "" {
		return "(" + object.GetName() + ")"
	}
	return "(" + object.GetNamespace() + "/" + object.GetName() + ")"
}

// formatResult returns what has been done, in the words that users of Karmada look for.
func (p *promotionRun) formatResult() string {
	var b strings.Builder
	suffix := p.mode.Suffix()
	for _, object := range p.plan.objects {
		what := "ResourceTemplate"
		switch {
		case object == p.plan.policy:
			what = object.GetKind()
		case object.GetKind() == "Namespace":
			what = "Namespace"
		}
		state := "is created successfully"
		if p.plan.there[object] {
			state = "is there already"
		}
		fmt.Fprintf(&b, "%s %s %s%s\n", what, parenthesizedName(object), state, suffix)
	}
	fmt.Fprintf(&b, "Resource %q%s is promoted successfully%s\n", p.kind.Resource.Resource, parenthesizedName(p.plan.template), suffix)
	if !p.policy {
		fmt.Fprintln(&b, "No policy was created: until one sends it to the cluster, with conflictResolution Overwrite, the hub does nothing.")
	}
	return b.String()
}

// createPlanned creates on the hub what is not there.
func (p *promotionRun) createPlanned(ctx context.Context) error {
	made := map[string]bool{}
	for _, object := range p.plan.objects {
		if p.plan.there[object] {
			continue
		}
		if !p.mode.MakesChanges() && made[object.GetNamespace()] {
			continue // a dry run makes no namespace, so nothing can be tried there
		}
		if object.GetKind() == "Namespace" {
			made[object.GetName()] = true
		}
		written := object.DeepCopy()
		if err := p.writes.Create(ctx, written); err != nil {
			return fmt.Errorf("create %s %s on the hub: %w", object.GetKind(), parenthesizedName(object), err)
		}
	}
	return nil
}

// promotionPlan is what is to be on the hub.
type promotionPlan struct {
	// objects are all of them in the order in which they are created: the namespace,
	// what the object refers to, the object itself and the policy.
	objects  []*unstructured.Unstructured
	template *unstructured.Unstructured
	policy   *unstructured.Unstructured // nil is none
	// there are those that are on the hub already.
	there map[*unstructured.Unstructured]bool
}

// kubernetesList returns the objects in the form that kubectl takes.
func (p promotionPlan) kubernetesList() map[string]any {
	items := make([]any, 0, len(p.objects))
	for _, object := range p.objects {
		items = append(items, object.Object)
	}
	return map[string]any{"apiVersion": "v1", "kind": "List", "items": items}
}

// timedOut explains that something did not happen in time.
func timedOut(err error, next, format string, args ...any) error {
	if !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return &exit.Error{Err: fmt.Errorf(format, args...), Code: exit.TimedOut, Next: next}
}
