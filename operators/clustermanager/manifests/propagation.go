// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	admissionv1ac "k8s.io/client-go/applyconfigurations/admissionregistration/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	configv1alpha1 "github.com/capstan-io/capstan/apis/karmada/config/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/operator/render"
	"github.com/capstan-io/capstan/internal/propagation/rebalance"
)

// ProtectionName is the name of the policy that keeps objects from being deleted
// whose users want that, and of its binding.
const ProtectionName = "capstan-deletion-protection"

// idOf is the label of an object with the ID that it keeps for life, or "".
func idOf(label string) string { return "%s.?metadata.?labels[?'" + label + "'].orValue('')" }

// propagationHook is a webhook of propagation for a resource of a group, without its name
// and its path.
func propagationHook(group, version, resource, concerns string) webhookSpec {
	return webhookSpec{
		service: workWebhookService, group: group, version: version, resource: resource,
		operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update}, concerns: concerns,
	}
}

// asMutatingHook and validating give a webhook of propagation the name and the path of
// what it does.
func (k webhookSpec) asMutatingHook() webhookSpec {
	k.name, k.path = k.resource+"-mutators.admission."+k.group, "/mutate-propagation-"+k.resource
	return k
}

func (k webhookSpec) asValidatingHook() webhookSpec {
	k.name, k.path = k.resource+"-validators.admission."+k.group, "/validate-propagation-"+k.resource
	return k
}

// annotationOf is an annotation of an object, or "".
func annotationOf(name string) string {
	return "%s.?metadata.?annotations[?'" + name + "'].orValue('')"
}

// policyHook is a webhook for policies that have an ID.
func policyHook(resource, label string) webhookSpec {
	return propagationHook(policyv1alpha1.GroupName, policyv1alpha1.GroupVersion.Version, resource, anyOf(append([]string{created, specChanged, fieldDiffers(idOf(label))}, annotationChanges()...)...))
}

// annotationChanges are the conditions that a policy says something else by the annotations
// that admission checks.
func annotationChanges() []string {
	var conditions []string
	for _, name := range append(rebalance.SettingsAnnotations(), fleetv1alpha1.AnnotationPartialPlacement) {
		conditions = append(conditions, fieldDiffers(annotationOf(name)))
	}
	return conditions
}

// overrideHook is a webhook for policies that have none.
func overrideHook(resource string) webhookSpec {
	return propagationHook(policyv1alpha1.GroupName, policyv1alpha1.GroupVersion.Version, resource, anyOf(created, specChanged))
}

// bindingHook is a webhook for bindings. The controller that makes them sets the ID
// itself.
func bindingHook(resource, concerns string) webhookSpec {
	k := propagationHook(workv1alpha2.GroupName, workv1alpha2.GroupVersion.Version, resource, concerns)
	k.exempt = []string{fleetv1alpha1.PropagationServiceAccount}
	return k
}

func propagationMutatingHooks() []webhookSpec {
	lacks := func(label string) string { return fmt.Sprintf(idOf(label), "object") + " == ''" }
	return []webhookSpec{
		policyHook("propagationpolicies", policyv1alpha1.LabelPropagationPolicyID).asMutatingHook(),
		policyHook("clusterpropagationpolicies", policyv1alpha1.LabelClusterPropagationPolicyID).asMutatingHook(),
		overrideHook("overridepolicies").asMutatingHook(),
		bindingHook("resourcebindings", lacks(workv1alpha2.LabelResourceBindingID)).asMutatingHook(),
		bindingHook("clusterresourcebindings", lacks(workv1alpha2.LabelClusterResourceBindingID)).asMutatingHook(),
	}
}

func propagationValidatingHooks() []webhookSpec {
	checked := func(label string) string {
		return anyOf(created, fieldDiffers(idOf(label)), fieldDiffers("%s.?spec.?components.orValue([])"),
			fieldDiffers("%s.?metadata.?annotations[?'"+workv1alpha2.AnnotationDependencies+"'].orValue('')"))
	}
	return []webhookSpec{
		policyHook("propagationpolicies", policyv1alpha1.LabelPropagationPolicyID).asValidatingHook(),
		policyHook("clusterpropagationpolicies", policyv1alpha1.LabelClusterPropagationPolicyID).asValidatingHook(),
		overrideHook("overridepolicies").asValidatingHook(),
		overrideHook("clusteroverridepolicies").asValidatingHook(),
		propagationHook(configv1alpha1.GroupName, configv1alpha1.GroupVersion.Version, "resourceinterpretercustomizations", anyOf(created, specChanged)).asValidatingHook(),
		propagationHook(configv1alpha1.GroupName, configv1alpha1.GroupVersion.Version, "resourceinterpreterwebhookconfigurations", anyOf(created, fieldDiffers("%s.?webhooks.orValue([])"))).asValidatingHook(),
		bindingHook("resourcebindings", checked(workv1alpha2.LabelResourceBindingID)).asValidatingHook(),
		bindingHook("clusterresourcebindings", checked(workv1alpha2.LabelClusterResourceBindingID)).asValidatingHook(),
	}
}

// DeletionProtection returns the admission policy that refuses the deletion of objects with
// the label of those that are protected, whoever asks for it: what has deleted an
// object on the hub deletes it in all clusters. Karmada's clients match "This resource is
// protected". It is no webhook, so that no
// deletion waits for one. What controllers delete, and others than its user may label,
// is not protected: a Pod with the label would keep its node from being drained, and a
// ManagedCluster whoever may only ask for one from being refused.
func DeletionProtection(h Hub) []render.Object {
	m := h.resourceMeta(ProtectionName).InNamespace("")
	const label = policyv1alpha1.LabelDeletionProtected
	return render.AdmissionPolicy(m, admissionv1ac.ValidatingAdmissionPolicySpec().
		WithMatchConstraints(admissionv1ac.MatchResources().
			WithObjectSelector(metav1ac.LabelSelector().WithMatchLabels(map[string]string{label: policyv1alpha1.DeletionProtectionAlways})).
			WithResourceRules(render.AdmissionRule("*", []string{"*"}, admissionv1.Delete)).
			WithExcludeResourceRules(unprotectedResources()...)).
		WithValidations(admissionv1ac.Validation().
			WithExpression("false").
			WithReason("Forbidden").
			WithMessage(fmt.Sprintf("This resource is protected from deletion by its label %s=%s: to delete it, take the label off first (kubectl label KIND NAME %s-)",
				label, policyv1alpha1.DeletionProtectionAlways, label))))
}

// unprotectedResources are the resources that are deleted in spite of the label: records,
// requests and what stands for a machine, a process or a cluster.
func unprotectedResources() []*admissionv1ac.NamedRuleWithOperationsApplyConfiguration {
	var rules []*admissionv1ac.NamedRuleWithOperationsApplyConfiguration
	for _, of := range []struct {
		group     string
		resources []string
	}{
		{"", []string{"endpoints", "events", "nodes", "pods"}},
		{"addon.open-cluster-management.io", []string{"*"}},
		{"certificates.k8s.io", []string{"*"}},
		{"cluster.karmada.io", []string{"*"}},
		{clusterv1.GroupName, []string{"managedclusters"}},
		{"coordination.k8s.io", []string{"*"}},
		{"discovery.k8s.io", []string{"endpointslices"}},
		{"events.k8s.io", []string{"*"}},
		{fleetv1alpha1.GroupName, []string{"clusterconnections"}},
		{workv1.GroupName, []string{"manifestworks"}},
		{workv1alpha2.GroupName, []string{"*"}},
	} {
		rules = append(rules, render.AdmissionRule(of.group, of.resources, admissionv1.Delete))
	}
	return rules
}
