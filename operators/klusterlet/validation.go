// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package klusterlet

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/operator/install"
	"github.com/capstan-io/capstan/internal/server/features"
	"github.com/capstan-io/capstan/operators/klusterlet/manifests"
	"github.com/capstan-io/capstan/operators/klusterlet/status"
)

// validateKlusterlet tells the user what is wrong with the spec. Unknown feature gates
// and annotations that must not be set are left out; what the agents could not
// run with stops the pass until the spec changes.
func (i *agentInstallation) validateKlusterlet(_ context.Context, p *klusterletPass) error {
	p.resolveGates()
	if _, refused := manifests.ClusterAnnotations(p.Object); len(refused) > 0 {
		p.notes = append(p.notes, fmt.Sprintf("spec.registrationConfiguration.clusterAnnotations %q are ignored: keys must start with %q",
			refused, manifests.ClusterAnnotationPrefix))
	}
	p.handshake.Unsupported = unsupportedSpecProblem(p.Object, i.Settings.Namespace)
	p.handshake.NameProblem = nameProblem(p.Object.Spec.ClusterName)
	problem := p.handshake.Unsupported
	if problem != "" && manifests.IsHostedMode(p.Object) {
		p.setCondition(metav1.Condition{
			Type: operatorv1.KlusterletConditionReadyToApply, Status: metav1.ConditionFalse,
			Reason: operatorv1.KlusterletReasonPrepareFailed, Message: problem,
		})
	}
	if problem == "" {
		problem = p.handshake.NameProblem
	}
	if problem == "" {
		return nil
	}
	p.setCondition(status.JoinedCondition(p.handshake))
	return install.MistakeError{Message: problem}
}

func (p *klusterletPass) resolveGates() {
	var registration, work []operatorv1.FeatureGate
	if c := p.Object.Spec.RegistrationConfiguration; c != nil {
		registration = c.FeatureGates
	}
	if c := p.Object.Spec.WorkConfiguration; c != nil {
		work = c.FeatureGates
	}
	var unknownRegistration, unknownWork []string
	p.registrationGates, unknownRegistration = resolveFeatureGates(features.AgentRegistration, registration)
	p.workGates, unknownWork = resolveFeatureGates(features.AgentWork, work)
	condition := metav1.Condition{
		Type: operatorv1.KlusterletConditionValidFeatureGates, Status: metav1.ConditionTrue,
		Reason: operatorv1.ReasonFeatureGatesAllValid, Message: features.ValidMessage(p.registrationGates, p.workGates),
	}
	var problems []string
	for _, group := range []struct {
		component features.Component
		unknown   []string
	}{{features.AgentRegistration, unknownRegistration}, {features.AgentWork, unknownWork}} {
		if len(group.unknown) > 0 {
			problems = append(problems, fmt.Sprintf("%s has no feature gates %q, ignoring them; known feature gates: %q",
				group.component, group.unknown, features.GateNames(group.component)))
		}
	}
	if len(problems) > 0 {
		condition.Status = metav1.ConditionFalse
		condition.Reason = operatorv1.ReasonInvalidFeatureGatesExisting
		condition.Message = strings.Join(problems, "\n")
	}
	p.setCondition(condition)
}

// unsupportedSpecProblem says what of the spec this release cannot do; empty if nothing.
func unsupportedSpecProblem(klusterlet *operatorv1.Klusterlet, operatorNamespace string) string {
	if problem := modeProblem(klusterlet); problem != "" {
		return problem
	}
	if problem := hostedNameProblem(klusterlet, operatorNamespace); problem != "" {
		return problem
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

// modeProblem says why the agents cannot change to the mode; empty if they can.
// What was installed on one cluster would be left there when the agents work on
// another.
func modeProblem(klusterlet *operatorv1.Klusterlet) string {
	hosted := manifests.IsHostedMode(klusterlet)
	was := controllerutil.ContainsFinalizer(klusterlet, operatorv1.FinalizerKlusterletHostedCleanup)
	for _, related := range klusterlet.Status.RelatedResources {
		if hosted && related.Resource == "deployments" && related.Namespace != manifests.AgentNamespace(klusterlet) {
			return fmt.Sprintf("spec.deployOption.mode cannot become %q while the agents run on the member in namespace %q; delete the Klusterlet and create a new one",
				klusterlet.Spec.DeployOption.Mode, related.Namespace)
		}
	}
	if !hosted && was {
		return fmt.Sprintf("spec.deployOption.mode cannot become %q while the agents are hosted; delete the Klusterlet and create a new one",
			klusterlet.Spec.DeployOption.Mode)
	}
	return ""
}

// hostedNameProblem says why hosted agents cannot have the namespace that is
// called as their Klusterlet, and goes away with it; empty if they can.
func hostedNameProblem(klusterlet *operatorv1.Klusterlet, operatorNamespace string) string {
	if !manifests.IsHostedMode(klusterlet) {
		return ""
	}
	name := klusterlet.Name
	if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
		return fmt.Sprintf("hosted agents need a namespace named after their Klusterlet, but %q is not a valid namespace name: %s", name, strings.Join(problems, "; "))
	}
	if name == operatorNamespace || name == metav1.NamespaceDefault || strings.HasPrefix(name, "kube-") {
		return fmt.Sprintf("hosted agents need their own namespace, named after their Klusterlet, but %q is reserved; give the Klusterlet another name", name)
	}
	return ""
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
	return fmt.Sprintf("spec.clusterName %q is not a valid namespace name, and the hub creates a namespace for each cluster: %s",
		name, strings.Join(problems, "; "))
}
