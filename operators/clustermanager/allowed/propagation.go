// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package allowed

import (
	"slices"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	appsv1alpha1 "github.com/capstan-io/capstan/apis/karmada/apps/v1alpha1"
	configv1alpha1 "github.com/capstan-io/capstan/apis/karmada/config/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	"github.com/capstan-io/capstan/config"
	"github.com/capstan-io/capstan/internal/operator/fence"
	"github.com/capstan-io/capstan/operators/clustermanager/manifests"
)

// requirePropagationRules notes what the operator lacks for propagation. The controller
// can do without events.
func (d *FeatureDecision) requirePropagationRules(o OperatorRights, rules manifests.ComponentRules) error {
	cluster, namespaced, err := rules(config.PropagationController)
	if err != nil {
		return err
	}
	events := inGroup("events.k8s.io")
	granted := filterRules(slices.Concat(cluster, namespaced), func(rule rbacv1.PolicyRule) bool { return !events(rule) })
	d.requireRules(o.Hub, Propagation, "the hub does not serve policies and bindings", granted, propagationRules()...)
	if o.Hosted && !d.IsFeatureOff(Propagation) {
		d.requireRules(o.Home, Propagation, "the propagation controller gets no kubeconfig of the hub", nil, rbacv1.PolicyRule{
			APIGroups: []string{""}, Resources: []string{"secrets"},
			ResourceNames: []string{manifests.HubSecret(fleetv1alpha1.PropagationServiceAccount)}, Verbs: []string{"get", "patch"},
		})
	}
	return nil
}

// propagationRules is what the operator itself does to install the kinds of Propagation
// and what protects objects, to remove them, and to give the controller its
// ClusterRole with the fence around it.
func propagationRules() []rbacv1.PolicyRule {
	policies := []string{"clusteroverridepolicies", "clusterpropagationpolicies", "overridepolicies", "propagationpolicies"}
	bindings := []string{"clusterresourcebindings", "resourcebindings"}
	rebalancers := []string{"workloadrebalancers"}
	interpreters := []string{"resourceinterpretercustomizations", "resourceinterpreterwebhookconfigurations"}
	rollouts := []string{"clusterpropagationrollouts", "propagationrevisions", "propagationrollouts"}
	fences := []string{"validatingadmissionpolicies", "validatingadmissionpolicybindings"}
	var definitions []string
	for _, policy := range policies {
		definitions = append(definitions, policy+"."+policyv1alpha1.GroupName)
	}
	for _, interpreter := range interpreters {
		definitions = append(definitions, interpreter+"."+configv1alpha1.GroupName)
	}
	for _, rollout := range rollouts {
		definitions = append(definitions, rollout+"."+fleetv1alpha1.GroupName)
	}
	for _, binding := range bindings {
		definitions = append(definitions, binding+"."+workv1alpha2.GroupName)
	}
	for _, rebalancer := range rebalancers {
		definitions = append(definitions, rebalancer+"."+appsv1alpha1.GroupName)
	}
	return []rbacv1.PolicyRule{
		{
			APIGroups: []string{apiextensionsv1.GroupName}, Resources: []string{"customresourcedefinitions"},
			ResourceNames: definitions, Verbs: []string{"delete", "patch"},
		},
		{APIGroups: []string{appsv1alpha1.GroupName}, Resources: rebalancers, Verbs: []string{"list", "patch"}},
		{APIGroups: []string{configv1alpha1.GroupName}, Resources: interpreters, Verbs: []string{"list", "patch"}},
		{APIGroups: []string{fleetv1alpha1.GroupName}, Resources: rollouts, Verbs: []string{"list", "patch"}},
		{APIGroups: []string{policyv1alpha1.GroupName}, Resources: policies, Verbs: []string{"list", "patch"}},
		{APIGroups: []string{workv1alpha2.GroupName}, Resources: bindings, Verbs: []string{"list", "patch"}},
		{
			APIGroups: []string{rbacv1.GroupName}, Resources: []string{"clusterroles"},
			ResourceNames: []string{fleetv1alpha1.PropagationTemplatesRole}, Verbs: []string{"bind"},
		},
		{
			APIGroups: []string{admissionv1.GroupName}, Resources: fences, Verbs: []string{"create"},
		},
		{
			APIGroups: []string{admissionv1.GroupName}, Resources: fences, ResourceNames: []string{fence.TemplatesFence{}.FenceName()}, Verbs: []string{"get"},
		},
		{
			APIGroups: []string{admissionv1.GroupName}, Resources: fences,
			ResourceNames: []string{manifests.ProtectionName}, Verbs: []string{"delete", "get", "patch"},
		},
	}
}
