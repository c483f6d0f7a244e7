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
		Short: "Preview what applying files would change in each cluster",
		Long: "Shows how the clusters would change if the files were applied: + for a cluster that would be chosen, - for one " +
			"that would no longer be chosen, ~ for one where something would change, and ! for one that cannot get what it " +
			"should have.\n\n" +
			"For a PropagationPolicy or ClusterPropagationPolicy, it shows which objects would be claimed, which clusters each " +
			"of them would be added to or removed from, and how many replicas each cluster would have. For an OverridePolicy " +
			"or ClusterOverridePolicy, it shows which clusters would get a different manifest, and for any other object, which " +
			"policy would send it where, and what is sent along with it. --diff shows the differences between the manifests. " +
			"--delete shows what would happen to the objects if the policies in the files were deleted instead. For a " +
			"Placement, it shows which clusters would be chosen, taking into account the ManagedClusterSets and " +
			"ManagedClusterSetBindings in the files.\n\n" +
			"It writes nothing: the hub checks the objects as dry runs, and the hub's own engine makes the decisions on this " +
			"machine, from what you may read. It names what you may not read. Which cluster gets the last replica of a new " +
			"object may still change, because that depends on its UID.",
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
	cmd.Flags().BoolVar(&p.diff, "diff", false, "Show how the manifests of clusters would change")
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
		return exit.UsageError("name a file or folder with -f, or the standard input with -f -")
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
