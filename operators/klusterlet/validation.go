// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package klusterlet

import (
	"context"
	"errors"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/features"
	"github.com/capstan-io/capstan/operators/klusterlet/manifests"
)

// validate tells the user what is wrong with the spec. Unknown feature gates
// and annotations that must not be set are left out; what the agents could not
// run with stops the pass until the spec changes.
func (c *Controller) validate(_ context.Context, p *pass) error {
	p.checkGates()
	if _, refused := manifests.ClusterAnnotations(p.klusterlet); len(refused) > 0 {
		p.notes = append(p.notes, fmt.Sprintf("spec.registrationConfiguration.clusterAnnotations %q are not set: keys must begin with %q",
			refused, manifests.ClusterAnnotationPrefix))
	}
	p.handshake.unsupported = unsupported(p.klusterlet)
	p.handshake.nameProblem = nameProblem(p.klusterlet.Spec.ClusterName)
	problem := p.handshake.unsupported
	if problem != "" && hosted(p.klusterlet) {
		p.set(metav1.Condition{
			Type: operatorv1.KlusterletConditionReadyToApply, Status: metav1.ConditionFalse,
			Reason: operatorv1.KlusterletReasonPrepareFailed, Message: problem,
		})
	}
	if problem == "" {
		problem = p.handshake.nameProblem
	}
	if problem == "" {
		return nil
	}
	p.set(joined(p.handshake))
	return reconcile.TerminalError(errors.New(problem))
}

func (p *pass) checkGates() {
	var registration, work []operatorv1.FeatureGate
	if c := p.klusterlet.Spec.RegistrationConfiguration; c != nil {
		registration = c.FeatureGates
	}
	if c := p.klusterlet.Spec.WorkConfiguration; c != nil {
		work = c.FeatureGates
	}
	var unknownRegistration, unknownWork []string
	p.registrationGates, unknownRegistration = gates(features.AgentRegistration, registration)
	p.workGates, unknownWork = gates(features.AgentWork, work)
	condition := metav1.Condition{
		Type: operatorv1.KlusterletConditionValidFeatureGates, Status: metav1.ConditionTrue,
		Reason: operatorv1.ReasonFeatureGatesAllValid, Message: "all feature gates exist",
	}
	var problems []string
	for _, group := range []struct {
		component features.Component
		unknown   []string
	}{{features.AgentRegistration, unknownRegistration}, {features.AgentWork, unknownWork}} {
		if len(group.unknown) > 0 {
			problems = append(problems, fmt.Sprintf("%s has no feature gates %q, they are ignored; there are %q",
				group.component, group.unknown, features.Names(group.component)))
		}
	}
	if len(problems) > 0 {
		condition.Status = metav1.ConditionFalse
		condition.Reason = operatorv1.ReasonInvalidFeatureGatesExisting
		condition.Message = strings.Join(problems, "\n")
	}
	p.set(condition)
}

func hosted(klusterlet *operatorv1.Klusterlet) bool {
	mode := klusterlet.Spec.DeployOption.Mode
	return mode == operatorv1.InstallModeHosted || mode == operatorv1.InstallModeSingletonHosted
}

// unsupported says what of the spec this release cannot do; empty if nothing.
func unsupported(klusterlet *operatorv1.Klusterlet) string {
	if hosted(klusterlet) {
		return fmt.Sprintf("spec.deployOption.mode %q is not supported by this release; use %q or %q on the member itself",
			klusterlet.Spec.DeployOption.Mode, operatorv1.InstallModeDefault, operatorv1.InstallModeSingleton)
	}
	c := klusterlet.Spec.RegistrationConfiguration
	switch {
	case c == nil:
		return ""
	case c.RegistrationDriver.AuthType != "" && c.RegistrationDriver.AuthType != operatorv1.AuthTypeCSR:
		return fmt.Sprintf("spec.registrationConfiguration.registrationDriver.authType %q is not supported by this release; use %q",
			c.RegistrationDriver.AuthType, operatorv1.AuthTypeCSR)
	case c.BootstrapKubeConfigs.Type == operatorv1.BootstrapKubeConfigsTypeLocalSecrets:
		return fmt.Sprintf("spec.registrationConfiguration.bootstrapKubeConfigs.type %q is not supported by this release; use %q and secret %q",
			c.BootstrapKubeConfigs.Type, operatorv1.BootstrapKubeConfigsTypeNone, operatorv1.BootstrapHubKubeConfigSecret)
	default:
		return ""
	}
}

// nameProblem says why the cluster cannot have the name; empty if it can, or
// if the agent is to choose one.
func nameProblem(name string) string {
	if name == "" {
		return ""
	}
	problems := validation.IsDNS1123Label(name)
	if len(problems) == 0 {
		return ""
	}
	return fmt.Sprintf("spec.clusterName %q cannot be the name of a namespace, which the hub makes for each cluster: %s",
		name, strings.Join(problems, "; "))
}
