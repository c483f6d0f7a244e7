// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package allowed

import (
	"fmt"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	configv1alpha1 "github.com/capstan-io/capstan/apis/karmada/config/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/config"
	"github.com/capstan-io/capstan/internal/kube/rights"
	"github.com/capstan-io/capstan/operators/clustermanager/manifests"
)

// Feature is a part of a hub that it can do without.
type Feature string

// The features, as the condition calls them.
const (
	// Connections: the hub keeps a ClusterConnection of each cluster.
	Connections Feature = "ClusterConnections"
	// Push: there can be Push clusters.
	Push Feature = "Push"
	// NetworkPolicies are installed, with the gate of this name.
	NetworkPolicies Feature = "NetworkPolicies"
	// Events are recorded.
	Events Feature = "Events"
	// Binding: the hub may bind the roles that clusters share by their names.
	Binding Feature = "BindingByName"
	// Users: the roles view, edit and admin have rules for the kinds of the hub.
	Users Feature = "UserRoles"
	// AgentGuards: admission policies limit what agents change of their
	// ManagedClusters and ManifestWorks, and what those send who ask to join.
	AgentGuards Feature = "AgentGuards"
	// Priority: heartbeats and what webhooks ask come before other requests.
	Priority Feature = "Priority"
	// AggregatedAPI: the hub serves the Cluster API, with the gate of this name.
	AggregatedAPI Feature = "AggregatedAPI"
	// Propagation: the hub serves policies and bindings, with the gate of this name.
	Propagation Feature = "Propagation"
	// rest is what else components lack.
	rest Feature = "Components"
)

// OperatorRights has the rights of an operator.
type OperatorRights struct {
	// Name tells an administrator whom to give more.
	Name string
	// Hub are its rights on the hub, Home those on the cluster that it runs on,
	// which is another one if the hub is Hosted.
	Hub, Home rights.Rights
	Hosted    bool
	// Propagates says that the gate Propagation is on, whose rights an operator has
	// only where somebody gives them to it.
	Propagates bool
}

// featureLimit is a feature that is off.
type featureLimit struct {
	feature Feature
	// effect says what is different without it.
	effect  string
	missing []rbacv1.PolicyRule
}

// FeatureDecision says which features a hub has.
type FeatureDecision struct {
	operator string
	limits   []featureLimit
}

// DecideFeatures returns which features the operator can install, by the rules that the
// components need for them.
func DecideFeatures(o OperatorRights, rules manifests.ComponentRules) (FeatureDecision, error) {
	registration, _, err := rules(config.RegistrationController)
	if err != nil {
		return FeatureDecision{}, err
	}
	pushCluster, pushNamespaced, err := rules(config.PushAgent)
	if err != nil {
		return FeatureDecision{}, err
	}
	ofConnections := filterRules(registration, inGroup(fleetv1alpha1.GroupName))
	ofPush := slices.Concat(ofConnections, pushCluster, pushNamespaced,
		manifests.PushCredentialsRules(), filterRules(registration, bindsRole(fleetv1alpha1.PushCredentialsRole)))

	d := FeatureDecision{operator: o.Name}
	d.requireRules(o.Hub, Connections, "clusters get no ClusterConnection, and the hub may miss that two names are one cluster", ofConnections)
	d.requireRules(o.Hub, Push, "the push agent is not installed", ofPush, lookAtConnections())
	if o.Hosted && !d.IsFeatureOff(Push) {
		d.requireRules(o.Home, Push, "the push agent gets no kubeconfig of the hub", nil, pushKubeconfig())
	}
	d.requireRules(o.Home, NetworkPolicies, "NetworkPolicies are not installed", nil, networkPolicyRules())
	d.requireRules(o.Hub, Events, "the hub records no events", filterRules(registration, inGroup("events.k8s.io")))
	d.requireRules(o.Hub, Binding, "accepting a cluster gets slower as the fleet grows", filterRules(registration, bindsRole("")))
	d.requireRules(o.Hub, Users, "the roles view, edit and admin lack rules for the kinds of the hub", manifests.UserRules())
	d.requireRules(o.Hub, AgentGuards, "agents may change all labels and taints of their ManagedClusters, and so what policies send them, and the marks of their works, and send objects of any size", nil,
		admissionPolicy(manifests.AgentGuardNames()...)...)
	d.requireRules(o.Hub, Priority, "heartbeats of clusters and admission wait behind other requests while the API server is overloaded", nil, manifests.PriorityRules()...)
	aggregated, _, err := rules(config.APIServer)
	if err != nil {
		return FeatureDecision{}, err
	}
	d.requireRules(o.Hub, AggregatedAPI, "the hub does not serve the Cluster API",
		slices.Concat(aggregated, filterRules(registration, deletesClusters)), aggregationRules()...)
	if !d.IsFeatureOff(AggregatedAPI) {
		d.requireRules(o.Home, AggregatedAPI, "the aggregated API server cannot run", nil, apiServerAtHome(o.Hosted)...)
	}
	if o.Propagates {
		if err := d.requirePropagationRules(o, rules); err != nil {
			return FeatureDecision{}, err
		}
	}
	return d, d.requireRemainingRules(o.Hub, rules)
}

// requireRules notes a feature for which the operator cannot grant some rules to a
// component, or does not have those that it needs itself.
func (d *FeatureDecision) requireRules(held rights.Rights, feature Feature, effect string, granted []rbacv1.PolicyRule, own ...rbacv1.PolicyRule) {
	_, missing := held.SplitGrantable(granted)
	for _, rule := range held.MissingRules(own...) {
		missing = append(missing, rights.FromRules(missing...).MissingRules(rule)...)
	}
	if len(missing) > 0 {
		d.limits = append(d.limits, featureLimit{feature: feature, effect: effect, missing: missing})
	}
}

// requireRemainingRules notes what components lack without being short of a feature.
func (d *FeatureDecision) requireRemainingRules(held rights.Rights, rules manifests.ComponentRules) error {
	var known, missing []rbacv1.PolicyRule
	for _, l := range d.limits {
		known = append(known, l.missing...)
	}
	for _, component := range []string{
		config.RegistrationController, config.RegistrationWebhook, config.WorkWebhook, config.WorkController,
		config.PlacementController,
	} {
		cluster, namespaced, err := rules(component)
		if err != nil {
			return err
		}
		// Customizations are there only with Propagation, which asks for them itself.
		customizations := inGroup(configv1alpha1.GroupName)
		needed := filterRules(slices.Concat(cluster, namespaced), func(rule rbacv1.PolicyRule) bool { return !customizations(rule) })
		_, lacking := held.SplitGrantable(needed)
		missing = append(missing, rights.FromRules(known...).MissingRules(lacking...)...)
		known = append(known, lacking...)
	}
	if len(missing) > 0 {
		d.limits = append(d.limits, featureLimit{feature: rest, effect: "components fail where they need these", missing: missing})
	}
	return nil
}

// IsFeatureOff reports whether a feature is off.
func (d FeatureDecision) IsFeatureOff(feature Feature) bool {
	return slices.ContainsFunc(d.limits, func(l featureLimit) bool { return l.feature == feature })
}

// HasLimits reports whether anything is off.
func (d FeatureDecision) HasLimits() bool { return len(d.limits) > 0 }

// FeaturesLimitedCondition returns the condition FeaturesLimited.
func (d FeatureDecision) FeaturesLimitedCondition() metav1.Condition {
	condition := metav1.Condition{
		Type: operatorv1.ClusterManagerConditionFeaturesLimited, Status: metav1.ConditionFalse,
		Reason: operatorv1.ClusterManagerReasonAllFeaturesPermitted, Message: "the operator has the permissions for all features",
	}
	if !d.HasLimits() {
		return condition
	}
	var parts []string
	for _, l := range d.limits {
		parts = append(parts, fmt.Sprintf("%s (%s): %s", l.feature, l.effect, rights.DescribeRules(l.missing)))
	}
	condition.Status = metav1.ConditionTrue
	condition.Reason = operatorv1.ClusterManagerReasonPermissionsMissing
	condition.Message = fmt.Sprintf("some features are off because the operator lacks permissions; to turn one on, bind a ClusterRole with its rules to %s. %s",
		d.operator, strings.Join(parts, ". "))
	return condition
}

// filterRules returns the chosen ones of the rules.
func filterRules(rules []rbacv1.PolicyRule, chosen func(rbacv1.PolicyRule) bool) []rbacv1.PolicyRule {
	return slices.DeleteFunc(slices.Clone(rules), func(rule rbacv1.PolicyRule) bool { return !chosen(rule) })
}

func inGroup(group string) func(rbacv1.PolicyRule) bool {
	return func(rule rbacv1.PolicyRule) bool { return slices.Contains(rule.APIGroups, group) }
}

// bindsRole chooses the rules about binding the role; with "", any but that of the
// push agent.
func bindsRole(role string) func(rbacv1.PolicyRule) bool {
	return func(rule rbacv1.PolicyRule) bool {
		if !slices.Contains(rule.Verbs, "bind") {
			return false
		}
		if role == "" {
			return !slices.Contains(rule.ResourceNames, fleetv1alpha1.PushCredentialsRole)
		}
		return slices.Contains(rule.ResourceNames, role)
	}
}

// deletesClusters chooses the rules by which the deletion of a Cluster is completed.
func deletesClusters(rule rbacv1.PolicyRule) bool {
	return slices.Contains(rule.Resources, "managedclusters") && slices.Contains(rule.Verbs, "delete")
}

// lookAtConnections is what the operator itself needs, to know whether there is
// a Push cluster.
func lookAtConnections() rbacv1.PolicyRule {
	return rbacv1.PolicyRule{
		APIGroups: []string{fleetv1alpha1.GroupName}, Resources: []string{"clusterconnections"}, Verbs: []string{"get", "list", "watch"},
	}
}

// pushKubeconfig is what the operator does with the secret by which the push
// agent of a hosted hub reaches it.
func pushKubeconfig() rbacv1.PolicyRule {
	return rbacv1.PolicyRule{
		APIGroups: []string{""}, Resources: []string{"secrets"},
		ResourceNames: []string{manifests.HubSecret(fleetv1alpha1.PushAgentServiceAccount)}, Verbs: []string{"get", "patch"},
	}
}

// networkPolicyRules is what the operator itself does with them.
func networkPolicyRules() rbacv1.PolicyRule {
	return rbacv1.PolicyRule{
		APIGroups: []string{networkingv1.GroupName}, Resources: []string{"networkpolicies"},
		Verbs: []string{"create", "delete", "get", "list", "patch", "watch"},
	}
}

// aggregationRules is what the operator itself does to install the aggregated API and
// what guards it.
func aggregationRules() []rbacv1.PolicyRule {
	return append([]rbacv1.PolicyRule{
		{
			APIGroups: []string{"apiregistration.k8s.io"}, Resources: []string{"apiservices"},
			ResourceNames: []string{"v1alpha1.cluster.karmada.io", "v1alpha1.work.karmada.io"}, Verbs: []string{"create", "delete", "get", "patch"},
		},
	}, admissionPolicy(manifests.ConnectionGuardName)...)
}

// admissionPolicy is what the operator itself does with some, and with their bindings.
func admissionPolicy(names ...string) []rbacv1.PolicyRule {
	resources := []string{"validatingadmissionpolicies", "validatingadmissionpolicybindings"}
	return []rbacv1.PolicyRule{
		{APIGroups: []string{admissionv1.GroupName}, Resources: resources, Verbs: []string{"create"}},
		{APIGroups: []string{admissionv1.GroupName}, Resources: resources, ResourceNames: names, Verbs: []string{"delete", "get", "patch"}},
	}
}

// apiServerAtHome is what the operator itself does where the aggregated API server
// runs.
func apiServerAtHome(hosted bool) []rbacv1.PolicyRule {
	secrets := func(name string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{
			APIGroups: []string{""}, Resources: []string{"secrets"}, ResourceNames: []string{name}, Verbs: []string{"delete", "get", "patch"},
		}
	}
	rules := []rbacv1.PolicyRule{
		secrets(operatorv1.APIServerServingCertSecret),
		{
			APIGroups: []string{policyv1.GroupName}, Resources: []string{"poddisruptionbudgets"},
			Verbs: []string{"create", "delete", "get", "list", "patch", "watch"},
		},
	}
	if hosted {
		rules = append(rules, secrets(manifests.HubSecret(manifests.APIServerAccount)))
	}
	return rules
}
