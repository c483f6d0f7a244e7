// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-io/capstan/internal/cli/complete"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/explain/preview"
	"github.com/capstan-io/capstan/internal/cli/fleet"
	"github.com/capstan-io/capstan/internal/cli/hub"
)

// planCommand is one call of the command.
type planCommand struct {
	session   *hub.Session
	files     []string
	namespace string
	diff      bool
	gone      bool
	output    outputFormat

	client   client.Client
	manifest *manifest
	// states are those of the namespaces, with what the files say.
	states map[string]*fleet.NamespaceState
}

// NewPlanCommand returns the command "plan".
func NewPlanCommand(session *hub.Session) *cobra.Command {
	p := &planCommand{session: session, states: map[string]*fleet.NamespaceState{}}
	cmd := &cobra.Command{
		Use:   "plan -f FILE...",
		Short: "Say what would be different in which clusters if files were applied",
		Long: "Says what would become of the clusters if the files were applied: + for a cluster that would be chosen, - for one that " +
			"would not be any more, ~ for one where something would be different, and ! for one that cannot get what it is to have.\n\n" +
			"Of a PropagationPolicy or ClusterPropagationPolicy it says which objects it would claim, in which clusters each of them would " +
			"come and go, and how many replicas each cluster would have. Of an OverridePolicy or ClusterOverridePolicy it says which clusters " +
			"would get another manifest, and of any other object which policy would send it where, and what goes along with it. --diff shows the " +
			"difference of the manifests. --delete says what would become of the objects if the policies of the files were deleted instead. " +
			"Of a Placement it says which clusters it would choose, with the ManagedClusterSets and ManagedClusterSetBindings of the files.\n\n" +
			"It writes nothing: the hub checks the objects as dry runs, and the decisions are made here, by the hub's own engine, on what you " +
			"may read. It names what you may not read. Who gets the last replica of a new object may still change, as its UID decides that.",
		Example: `  # What would this change?
  capstan plan -f policy.yaml

  # What would the clusters get?
  capstan plan -f deployment.yaml -f overrides/ --diff

  # What becomes of what a policy has sent when it is deleted?
  capstan plan -f policy.yaml --delete

  # Of a directory for Kustomize
  kubectl kustomize overlays/prod | capstan plan -f -

  # For a script
  capstan plan -f policy.yaml -o json`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE:              func(cmd *cobra.Command, _ []string) error { return p.runPlan(cmd.Context()) },
	}
	cmd.Flags().StringArrayVarP(&p.files, "filename", "f", nil, "File or folder with what would be applied, or - for the standard input; may be given several times")
	cmd.Flags().StringVarP(&p.namespace, "namespace", "n", "", "Namespace of objects that do not name one (default: that of the kubeconfig's context)")
	cmd.Flags().BoolVar(&p.diff, "diff", false, "Show how the manifests of clusters would be different")
	cmd.Flags().BoolVar(&p.gone, "delete", false, "Plan the deletion of the policies of the files")
	p.output.addFlag(cmd)
	// The flag is there and has no other function: there is no error to expect.
	_ = cmd.RegisterFlagCompletionFunc("namespace", complete.PlacementNamespaces(session))
	return cmd
}

func (p *planCommand) runPlan(ctx context.Context) error {
	if err := p.output.checkFormat(); err != nil {
		return err
	}
	if len(p.files) == 0 {
		return exit.UsageError("name a file or folder by -f, or the standard input by -f -")
	}
	var err error
	if p.manifest, err = readManifest(p.files, p.session.In, p.session.NamespaceOf(p.namespace)); err != nil {
		return err
	}
	if p.gone && len(p.manifest.placements) > 0 {
		return exit.UsageError("--delete plans the deletion of policies, and the files have a Placement: leave it out")
	}
	outcomes, failed, err := p.planPlacements(ctx)
	if err != nil {
		return err
	}
	objects, refused, err := p.planObjects(ctx)
	if err != nil {
		return err
	}
	failed = append(failed, refused...)
	items := objects.Items()
	for i := len(outcomes) - 1; i >= 0; i-- {
		items = append([]any{outcomes[i]}, items...)
	}
	if len(items)+len(failed) == 0 {
		return nothingToPlanError()
	}
	if len(items) > 0 {
		if err := p.output.printFormatted(p.session, items, func() string { return p.formatPlan(outcomes, objects) }); err != nil {
			return err
		}
	}
	return errors.Join(append(failed, objects.CheckProblems())...)
}

// planObjects finds out what would become of objects that policies send to clusters.
// failed are the answers for those that the hub does not take.
func (p *planCommand) planObjects(ctx context.Context) (found *preview.Preview, failed []error, err error) {
	if len(p.manifest.others) == 0 {
		return &preview.Preview{}, nil, nil
	}
	kinds, err := p.session.ConnectAny()
	if err != nil {
		return nil, nil, err
	}
	r := preview.Reader{
		Client: kinds.Client, Namespace: p.session.NamespaceOf(p.namespace), At: p.session.Clock.Now(),
		Beside: len(p.manifest.placements) > 0, Diff: p.diff, Delete: p.gone,
	}
	return r.ReadPreview(ctx, p.manifest.others)
}

func (p *planCommand) formatPlan(outcomes []*placementOutcome, objects *preview.Preview) string {
	var parts []string
	for _, o := range outcomes {
		var b strings.Builder
		fmt.Fprintf(&b, "Placement %s/%s (%s), as of now: %s\n", o.Namespace, o.Placement, o.Change, o.formatHeadline())
		o.printPlan(&b, p.session.Clock.Now())
		parts = append(parts, b.String())
	}
	if text := objects.FormatText(); text != "" {
		parts = append(parts, text)
	}
	return strings.Join(parts, "\n")
}
