// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"context"
	"fmt"
	"slices"
	"strings"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/cli/member"
	"github.com/capstan-io/capstan/internal/operator/render"
)

// printDryRun prints what a join would do.
func (j *joinRun) printDryRun(ctx context.Context) error {
	definitions, err := member.AgentDefinitions(ctx, j.there.Client)
	if err != nil {
		return j.there.ExplainError(err)
	}
	objects, err := j.push.RenderObjects()
	if err != nil {
		return err
	}
	line := func(format string, args ...any) {
		fmt.Fprintf(j.session.Out, format+j.mode.Suffix()+"\n", args...)
	}
	for _, object := range slices.Concat([]render.Object{j.push.NamespaceObject()}, definitions, objects) {
		u, err := render.ToUnstructured(object)
		if err != nil {
			return err
		}
		line("%s/%s applied in the member", strings.ToLower(u.GetKind()), u.GetName())
	}
	former, err := j.push.FormerRoles(ctx, j.there.Client)
	if err != nil {
		return j.there.ExplainError(err)
	}
	for i := range former {
		line("clusterrolebinding/%s deleted in the member", former[i].Name)
	}
	line("clusterconnection.fleet.capstan.io/%s applied", j.name)
	switch {
	case j.plan.cluster == nil:
		line("managedcluster.cluster.open-cluster-management.io/%s created", j.name)
	case !j.plan.cluster.Spec.HubAcceptsClient:
		line("managedcluster.cluster.open-cluster-management.io/%s accepted", j.name)
	}
	line("secret/%s applied in namespace %q", fleetv1alpha1.DefaultSecretName, j.name)
	return nil
}

// printDryRun prints what an unjoin would do.
func (u *unjoinRun) printDryRun() {
	line := func(format string, args ...any) {
		fmt.Fprintf(u.session.Out, format+u.mode.Suffix()+"\n", args...)
	}
	if u.cluster != nil {
		line("managedcluster.cluster.open-cluster-management.io/%s deleted, with what was delivered to it", u.name)
	}
	line("clusterconnection.fleet.capstan.io/%s deleted", u.name)
	line("secret/%s deleted in namespace %q", fleetv1alpha1.DefaultSecretName, u.name)
	for i := range u.remains {
		line("%s/%s deleted in the member", strings.ToLower(u.remains[i].Kind), u.remains[i].Name)
	}
}
