// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package certs

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/hub"
	"github.com/capstan-io/capstan/internal/cli/install"
	"github.com/capstan-io/capstan/internal/cli/progress"
)

// rotateTimeout is enough for three API servers and three members of etcd that
// restart once in each stage.
const rotateTimeout = 30 * time.Minute

// rotationSubject is something that can be rotated.
type rotationSubject struct {
	// name is that of the field in spec.rotation and in the status.
	name string
	// flag and value choose it, and title is what people are told of.
	flag, value, title string
	// token is its token in the spec.
	token func(*fleetv1alpha1.ControlPlaneRotation) *string
}

const (
	flagAuthority = "authority"
	flagKeys      = "keys"
	flagWithout   = "without"

	// servingAuthority is the subject that members' agents have to follow.
	servingAuthority = "servingAuthority"
)

// rotationSubjects returns all of them, in the order in which they are rotated.
func rotationSubjects() []rotationSubject {
	return []rotationSubject{
		{
			"etcdAuthority", flagAuthority, "etcd", "the authority of etcd",
			func(r *fleetv1alpha1.ControlPlaneRotation) *string { return &r.EtcdAuthority },
		},
		{
			"frontProxyAuthority", flagAuthority, "front-proxy", "the authority for aggregated API servers",
			func(r *fleetv1alpha1.ControlPlaneRotation) *string { return &r.FrontProxyAuthority },
		},
		{
			"clientAuthority", flagAuthority, "client", "the authority of clients",
			func(r *fleetv1alpha1.ControlPlaneRotation) *string { return &r.ClientAuthority },
		},
		{
			"serviceAccountKeys", flagKeys, "service-account", "the key of ServiceAccounts",
			func(r *fleetv1alpha1.ControlPlaneRotation) *string { return &r.ServiceAccountKeys },
		},
		{
			"encryptionKeys", flagKeys, "encryption", "the key of the encryption",
			func(r *fleetv1alpha1.ControlPlaneRotation) *string { return &r.EncryptionKeys },
		},
		{
			servingAuthority, flagAuthority, "serving", "the authority of the API server",
			func(r *fleetv1alpha1.ControlPlaneRotation) *string { return &r.ServingAuthority },
		},
	}
}

// rotationChoice is what the user wants to have rotated.
type rotationChoice struct {
	authorities, keys []string
	all               bool
	// without are clusters that are not waited for.
	without []string
}

// rotationRequest is what is asked of the operator.
type rotationRequest struct {
	subjects []rotationSubject
	without  []string
}

func newRotate(session *hub.Session) *cobra.Command {
	p := &planeFlags{session: session}
	wanted := rotationChoice{}
	timeout := rotateTimeout
	cmd := &cobra.Command{
		Use:   "rotate (--authority NAME | --keys NAME | --all)",
		Short: "Replace authorities and keys",
		Long: "Replaces authorities and keys of a dedicated hub with new ones, in stages and one after the other, and waits " +
			"until that is done. Pods restart one by one. If it is interrupted, the operator continues.\n\n" +
			"What the old authority of clients or the old key of ServiceAccounts has signed is accepted for a while, which the " +
			"command does not wait for: spec.rotation of the ControlPlane sets how long.\n\n" +
			"The authority of the API server is replaced last. Before it signs anything, the agents of all Pull clusters have " +
			"to trust it, which takes up to 15 minutes. The command waits for clusters that are gone, and for agents of other " +
			"releases, until they are named with --without: these lose the hub until they get a new bootstrap kubeconfig.",
		Example: `  # Replace the authority of etcd of the hub fleet
  capstan certs rotate --name fleet --authority etcd

  # Encrypt its Secrets with another key
  capstan certs rotate --name fleet --keys encryption

  # Replace the authority of its API server, without waiting for a cluster that is gone
  capstan certs rotate --name fleet --authority serving --without cluster7

  # Replace all authorities and keys that can be replaced
  capstan certs rotate --name fleet --all`,
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			chosen, err := wanted.chosenSubjects()
			if err != nil {
				return err
			}
			c, cp, err := p.findControlPlane(cmd.Context())
			if err != nil {
				return err
			}
			asked := rotationRequest{filterRotatable(chosen, cp, wanted.all), wanted.without}
			return rotate(cmd.Context(), session, install.Waiter{Client: c, Timeout: timeout}, cp, asked)
		},
	}
	p.addFlags(cmd.Flags())
	cmd.Flags().StringSliceVar(&wanted.authorities, flagAuthority, nil, "Authorities to replace: "+strings.Join(valuesOf(flagAuthority), ", "))
	cmd.Flags().StringSliceVar(&wanted.keys, flagKeys, nil, "Keys to replace: "+strings.Join(valuesOf(flagKeys), ", "))
	cmd.Flags().BoolVar(&wanted.all, "all", false, "Replace all of them")
	cmd.Flags().StringSliceVar(&wanted.without, flagWithout, nil,
		"Clusters whose agents need not trust the new authority of the API server; '*' is all of them. It can be given while that is being replaced")
	cmd.Flags().DurationVar(&timeout, "timeout", timeout, "How long to wait for each of them")
	return cmd
}

func valuesOf(flag string) []string {
	var values []string
	for _, s := range rotationSubjects() {
		if s.flag == flag {
			values = append(values, s.value)
		}
	}
	return values
}

// chosenSubjects returns what the flags choose.
func (w rotationChoice) chosenSubjects() ([]rotationSubject, error) {
	given := map[string][]string{flagAuthority: w.authorities, flagKeys: w.keys}
	for _, flag := range []string{flagAuthority, flagKeys} {
		for _, value := range given[flag] {
			if !slices.Contains(valuesOf(flag), value) {
				return nil, exit.UsageError("--%s: unknown value %q; the values are %s", flag, value, strings.Join(valuesOf(flag), ", "))
			}
		}
	}
	chosen := slices.DeleteFunc(rotationSubjects(), func(s rotationSubject) bool { return !w.all && !slices.Contains(given[s.flag], s.value) })
	switch {
	case len(chosen) == 0:
		return nil, exit.UsageError("choose what to rotate by --authority, --keys or --all")
	case w.all && len(w.authorities)+len(w.keys) > 0:
		return nil, exit.UsageError("--all cannot be combined with --authority and --keys")
	case len(w.without) > 0 && !slices.ContainsFunc(chosen, func(s rotationSubject) bool { return s.name == servingAuthority }):
		return nil, exit.UsageError("--%s is for --%s serving: nothing else waits for clusters", flagWithout, flagAuthority)
	}
	return chosen, nil
}

// filterRotatable leaves out of all what this control plane does not have, and what has
// just been replaced: the old one is still accepted.
func filterRotatable(chosen []rotationSubject, cp *fleetv1alpha1.ControlPlane, all bool) []rotationSubject {
	return slices.DeleteFunc(chosen, func(s rotationSubject) bool {
		state := rotationStatusOf(cp, s.name)
		return all && (s.value == "etcd" && cp.Spec.Etcd.Managed == nil || state != nil && state.Stage == fleetv1alpha1.RotationWait)
	})
}

// rotate asks the operator for the rotations, and waits for them.
func rotate(ctx context.Context, session *hub.Session, w install.Waiter, cp *fleetv1alpha1.ControlPlane, asked rotationRequest) error {
	if err := requestRotation(ctx, w.Client, cp, asked, session.Clock.Now().UTC().Format(time.RFC3339)); err != nil {
		return err
	}
	steps := progress.NewStepPrinter(session.ErrOut)
	w.Note = func(text string) { steps.ShowWaiting("%s", text) }
	var last []string
	for _, s := range asked.subjects {
		state := fleetv1alpha1.ControlPlaneRotationStatus{}
		err := steps.RunStep("Rotating "+s.title, func() (err error) {
			state, err = awaitRotation(ctx, w, client.ObjectKeyFromObject(cp), s, *s.token(&cp.Spec.Rotation))
			return err
		})
		if err != nil {
			return err
		}
		if state.Stage == fleetv1alpha1.RotationWait {
			last = append(last, fmt.Sprintf("Of %s, %s.", s.title, state.Message))
		}
		if s.name == servingAuthority {
			last = append(last, fmt.Sprintf("Copies of kubeconfigs, and bootstrap kubeconfigs of members, have the old authority of the API server: create new ones. "+
				"\"capstan init --dedicated --name %s\" does so for your context of the hub.", cp.Name))
		}
	}
	if len(last) > 0 {
		fmt.Fprintf(session.Out, "\n%s\n", strings.Join(last, "\n"))
	}
	return nil
}

// requestRotation writes the token of the rotations into the spec. One that waits for
// clusters is told which ones not to wait for.
func requestRotation(ctx context.Context, c client.Client, cp *fleetv1alpha1.ControlPlane, asked rotationRequest, token string) error {
	if !cp.DeletionTimestamp.IsZero() {
		return fmt.Errorf("the dedicated hub %q is being removed", cp.Name)
	}
	before := cp.DeepCopy()
	wanted := &cp.Spec.Rotation
	for _, s := range asked.subjects {
		state := rotationStatusOf(cp, s.name)
		underWay := state != nil && state.Stage != fleetv1alpha1.RotationComplete
		if s.name == servingAuthority && underWay && len(asked.without) > 0 {
			wanted.ServingAuthorityWithout = sortedUnion(wanted.ServingAuthorityWithout, asked.without)
			continue
		}
		if underWay {
			next := fmt.Sprintf("Wait until that is complete. \"kubectl get controlplane %s -n %s -o yaml\" shows in status.rotations what it is waiting for.", cp.Name, cp.Namespace)
			if s.name == servingAuthority {
				next += " Name clusters that are gone with --without."
			}
			return exit.Next(fmt.Errorf("%s is already being rotated, since %s: stage %s", s.title, state.Token, state.Stage), "%s", next)
		}
		*s.token(wanted) = token
		if s.name == servingAuthority {
			wanted.ServingAuthorityWithout = sortedUnion(nil, asked.without)
		}
	}
	if err := c.Patch(ctx, cp, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("ask for the rotation in ControlPlane %q: %w", client.ObjectKeyFromObject(cp), err)
	}
	return nil
}

// sortedUnion returns what is in either list, sorted.
func sortedUnion(a, b []string) []string {
	all := slices.Concat(a, b)
	slices.Sort(all)
	return slices.Compact(all)
}

// awaitRotation waits until the rotation is complete, or waits for others.
func awaitRotation(ctx context.Context, w install.Waiter, key client.ObjectKey, s rotationSubject, token string) (fleetv1alpha1.ControlPlaneRotationStatus, error) {
	found := fleetv1alpha1.ControlPlaneRotationStatus{}
	err := w.PollUntil(ctx, "the rotation of "+s.title, "Look at status.rotations of the ControlPlane, and at its condition Degraded. The operator continues meanwhile.",
		func(ctx context.Context) (done bool, why string, err error) {
			cp := &fleetv1alpha1.ControlPlane{}
			if err := w.Client.Get(ctx, key, cp); err != nil {
				return false, "", fmt.Errorf("read ControlPlane %q: %w", key, err)
			}
			state := rotationStatusOf(cp, s.name)
			if state == nil || state.Token != token {
				return false, "the operator looks every minute, and does one after the other", nil
			}
			found = *state
			done = state.Stage == fleetv1alpha1.RotationWait || state.Stage == fleetv1alpha1.RotationComplete
			return done, strings.TrimSuffix(fmt.Sprintf("stage %s: %s", state.Stage, state.Message), ": "), nil
		})
	return found, err
}

func rotationStatusOf(cp *fleetv1alpha1.ControlPlane, name string) *fleetv1alpha1.ControlPlaneRotationStatus {
	for n := range cp.Status.Rotations {
		if cp.Status.Rotations[n].Name == name {
			return &cp.Status.Rotations[n]
		}
	}
	return nil
}
