// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"fmt"
	"strconv"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	admissionv1ac "k8s.io/client-go/applyconfigurations/admissionregistration/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/apis/cluster/v1beta2"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	workv1alpha1 "github.com/capstan-io/capstan/apis/work/v1alpha1"
	"github.com/capstan-io/capstan/internal/operator/render"
)

// webhookTimeoutSeconds is how long an API server waits for a webhook.
const webhookTimeoutSeconds = 10

// workControllerAccount is the ServiceAccount of the work controller.
const workControllerAccount = "work-controller-sa"

// webhookSpec is one webhook; its configuration has the same name.
type webhookSpec struct {
	name       string
	path       string
	service    string
	version    string
	resource   string
	group      string
	operations []admissionv1.OperationType
	// selector limits the namespaces; nil is all.
	selector *metav1ac.LabelSelectorApplyConfiguration
	// concerns is a CEL expression that is true for every request that a rule of
	// the webhook looks at; empty is all. Finalizers, annotations and what agents
	// report would otherwise cost two calls each. A rule that looks at something
	// else has to be added here: TestInstalledWebhooksAreCalledForWhatTheyLookAt tells.
	concerns string
	// exempt are the ServiceAccounts of the hub whose requests it does not look at.
	exempt []string
}

// Parts of expressions, about a request that updates something.
const (
	created = "request.operation != 'UPDATE'"
	// specChanged also holds where there is no spec to compare.
	specChanged = "!has(object.spec) || !has(oldObject.spec) || object.spec != oldObject.spec"
	// setOf is the label of the cluster set of an object, or "".
	setOf = "%s.?metadata.?labels[?'" + clusterv1.LabelClusterSet + "'].orValue('')"
	// formerlyAwaiting is the label by which earlier releases said that an object waits
	// for acceptance, or "".
	formerlyAwaiting = "%s.?metadata.?labels[?'" + clusterv1.LabelAwaitingAcceptance + "'].orValue('')"
)

// clusterCompleted is about what the mutating webhook completes: taints, the
// finalizer of accepted clusters, the set of those without, and the annotations
// of those that wait for acceptance, which nobody else may change. A label in its place,
// of an earlier release, goes with any change.
func clusterCompleted() string {
	return anyOf(created, specChanged, fmt.Sprintf(setOf, "object")+" == ''",
		fieldDiffers(annotationOf(clusterv1.AnnotationAwaitingAcceptance)), fieldDiffers(annotationOf(clusterv1.AnnotationRegisteredByAcceptor)),
		fmt.Sprintf(formerlyAwaiting, "object")+" != ''", fmt.Sprintf(formerlyAwaiting, "oldObject")+" != ''")
}

// clusterChecked is about what the validating webhook has rules for:
// acceptance, addresses, the set, and how the cluster joined.
func clusterChecked() string {
	concerns := []string{
		created,
		fieldDiffers("%s.?spec.?hubAcceptsClient.orValue(false)"),
		fieldDiffers("%s.?spec.?managedClusterClientConfigs.orValue([])"),
		fieldDiffers(setOf),
	}
	for _, key := range clusterv1.JoinAnnotations() {
		concerns = append(concerns, fieldDiffers(annotationOf(key)))
	}
	return anyOf(concerns...)
}

// requestsToJoin is about the certificate requests of clusters, and all requests of those
// who may ask to join, agents included. The kubelets of the hub and all others never meet
// the webhook, so that they do not depend on it.
func requestsToJoin(h Hub) string {
	return anyOf(
		fmt.Sprintf("object.spec.signerName == '%s' && object.metadata.?labels[?'%s'].hasValue()",
			certificatesv1.KubeAPIServerClientSignerName, clusterv1.LabelClusterName),
		whoMayAsk(h))
}

// whoMayAsk is about the requests of those who may ask to join, agents included: of the
// account with which agents begin, and of two groups.
func whoMayAsk(h Hub) string {
	return anyOf(
		fmt.Sprintf("request.userInfo.username == 'system:serviceaccount:%s:%s'", h.bootstrapNamespace(), operatorv1.BootstrapServiceAccount),
		fmt.Sprintf("['%s', '%s'].exists(g, g in request.userInfo.?groups.orValue([]))", clusterv1.GroupBootstrappers, clusterv1.GroupManagedClusters))
}

// fieldDiffers is about a change of what the format names of an object.
func fieldDiffers(format string) string {
	return fmt.Sprintf(format, "object") + " != " + fmt.Sprintf(format, "oldObject")
}

func anyOf(conditions ...string) string { return strings.Join(conditions, " || ") }

func mutatingHooks() []webhookSpec {
	return []webhookSpec{
		{
			name:    "managedclustermutators.admission.cluster.open-cluster-management.io",
			path:    "/mutate-cluster-open-cluster-management-io-v1-managedcluster",
			service: registrationWebhookService,
			group:   clusterv1.GroupVersion.Group, version: clusterv1.GroupVersion.Version, resource: "managedclusters",
			operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
			concerns:   clusterCompleted(),
		},
		{
			name:    "manifestworkmutators.admission.work.open-cluster-management.io",
			path:    "/mutate-work-open-cluster-management-io-v1-manifestwork",
			service: workWebhookService,
			group:   workv1.GroupVersion.Group, version: workv1.GroupVersion.Version, resource: "manifestworks",
			operations: []admissionv1.OperationType{admissionv1.Create},
			// They set the finalizer themselves.
			exempt: []string{workControllerAccount, fleetv1alpha1.PropagationServiceAccount},
			// Only works that an agent sees need the finalizer that agents remove.
			selector: metav1ac.LabelSelector().WithMatchExpressions(metav1ac.LabelSelectorRequirement().
				WithKey(clusterv1.LabelClusterName).WithOperator(metav1.LabelSelectorOpExists)),
		},
	}
}

func validatingHooks(h Hub) []webhookSpec {
	both := []admissionv1.OperationType{admissionv1.Create, admissionv1.Update}
	return []webhookSpec{
		{
			name:    "managedclustervalidators.admission.cluster.open-cluster-management.io",
			path:    "/validate-cluster-open-cluster-management-io-v1-managedcluster",
			service: registrationWebhookService,
			group:   clusterv1.GroupVersion.Group, version: clusterv1.GroupVersion.Version, resource: "managedclusters",
			operations: both,
			concerns:   clusterChecked(),
		},
		{
			name:    "managedclustersetbindingvalidators.admission.cluster.open-cluster-management.io",
			path:    "/validate-cluster-open-cluster-management-io-v1beta2-managedclustersetbinding",
			service: registrationWebhookService,
			group:   v1beta2.GroupVersion.Group, version: v1beta2.GroupVersion.Version, resource: "managedclustersetbindings",
			operations: both,
		},
		{
			name:    "certificatesigningrequestvalidators.admission.cluster.open-cluster-management.io",
			path:    "/validate-certificates-k8s-io-v1-certificatesigningrequest",
			service: registrationWebhookService,
			group:   certificatesv1.GroupName, version: certificatesv1.SchemeGroupVersion.Version, resource: "certificatesigningrequests",
			operations: []admissionv1.OperationType{admissionv1.Create},
			concerns:   requestsToJoin(h),
		},
		{
			name:    "manifestworkvalidators.admission.work.open-cluster-management.io",
			path:    "/validate-work-open-cluster-management-io-v1-manifestwork",
			service: workWebhookService,
			group:   workv1.GroupVersion.Group, version: workv1.GroupVersion.Version, resource: "manifestworks",
			operations: both,
			concerns:   anyOf(created, specChanged),
			// They write what was admitted as a ManifestWorkReplicaSet or as an object of the
			// hub, for its author.
			exempt: []string{workControllerAccount, fleetv1alpha1.PropagationServiceAccount},
		},
		{
			name:    "manifestworkreplicasetvalidators.admission.work.open-cluster-management.io",
			path:    "/validate-work-open-cluster-management-io-v1alpha1-manifestworkreplicaset",
			service: workWebhookService,
			group:   workv1alpha1.GroupVersion.Group, version: workv1alpha1.GroupVersion.Version, resource: "manifestworkreplicasets",
			operations: both,
			concerns:   anyOf(created, specChanged),
		},
	}
}

// WebhookConfigurations returns the webhook configurations. They must not be installed
// before the servers answer: without an answer nothing gets in.
func WebhookConfigurations(h Hub) []render.Object {
	var objects []render.Object
	ports := map[string]int32{}
	for _, c := range HubComponents(h) {
		if c.Webhook != nil {
			ports[c.Webhook.Service] = c.Webhook.ServicePort
		}
	}
	mutating := mutatingHooks()
	validating := validatingHooks(h)
	if h.PropagationEnabled() {
		mutating = append(mutating, propagationMutatingHooks()...)
		validating = append(validating, propagationValidatingHooks()...)
	}
	for _, k := range mutating {
		m := h.resourceMeta(k.name).InNamespace("")
		objects = append(objects, admissionv1ac.MutatingWebhookConfiguration(m.Name).WithLabels(m.Labels).
			WithWebhooks(admissionv1ac.MutatingWebhook().
				WithName(k.name).
				WithClientConfig(k.clientConfig(h, ports[k.service])).
				WithRules(k.operationRule()).
				WithNamespaceSelector(k.namespaceSelector()).
				WithObjectSelector(metav1ac.LabelSelector()).
				WithMatchConditions(k.matchConditions(h)...).
				WithFailurePolicy(admissionv1.Fail).
				WithMatchPolicy(admissionv1.Equivalent).
				WithSideEffects(admissionv1.SideEffectClassNone).
				WithTimeoutSeconds(webhookTimeoutSeconds).
				WithAdmissionReviewVersions("v1")))
	}
	for _, k := range validating {
		m := h.resourceMeta(k.name).InNamespace("")
		objects = append(objects, admissionv1ac.ValidatingWebhookConfiguration(m.Name).WithLabels(m.Labels).
			WithWebhooks(admissionv1ac.ValidatingWebhook().
				WithName(k.name).
				WithClientConfig(k.clientConfig(h, ports[k.service])).
				WithRules(k.operationRule()).
				WithNamespaceSelector(k.namespaceSelector()).
				WithObjectSelector(metav1ac.LabelSelector()).
				WithMatchConditions(k.matchConditions(h)...).
				WithFailurePolicy(admissionv1.Fail).
				WithMatchPolicy(admissionv1.Equivalent).
				WithSideEffects(admissionv1.SideEffectClassNone).
				WithTimeoutSeconds(webhookTimeoutSeconds).
				WithAdmissionReviewVersions("v1")))
	}
	return objects
}

func (k webhookSpec) clientConfig(h Hub, port int32) *admissionv1ac.WebhookClientConfigApplyConfiguration {
	return admissionv1ac.WebhookClientConfig().
		WithCABundle(h.CABundle...).
		WithService(admissionv1ac.ServiceReference().
			WithNamespace(h.Namespace()).WithName(k.service).WithPath(k.path).WithPort(port))
}

func (k webhookSpec) operationRule() *admissionv1ac.RuleWithOperationsApplyConfiguration {
	return admissionv1ac.RuleWithOperations().
		WithOperations(k.operations...).
		WithAPIGroups(k.group).WithAPIVersions(k.version).WithResources(k.resource).WithScope(admissionv1.AllScopes)
}

// matchConditions returns on what the API server calls the webhook. A request about
// which the expression fails is refused, by the failure policy.
func (k webhookSpec) matchConditions(h Hub) []*admissionv1ac.MatchConditionApplyConfiguration {
	var conditions []*admissionv1ac.MatchConditionApplyConfiguration
	if k.concerns != "" {
		conditions = append(conditions, admissionv1ac.MatchCondition().WithName("concerned").WithExpression(k.concerns))
	}
	var users []string
	for _, account := range k.exempt {
		if account != fleetv1alpha1.PropagationServiceAccount || h.PropagationEnabled() {
			users = append(users, strconv.Quote(fmt.Sprintf("system:serviceaccount:%s:%s", h.Namespace(), account)))
		}
	}
	switch len(users) {
	case 0:
	case 1:
		conditions = append(conditions, admissionv1ac.MatchCondition().WithName("not-exempt").WithExpression("request.userInfo.username != "+users[0]))
	default:
		conditions = append(conditions, admissionv1ac.MatchCondition().WithName("not-exempt").
			WithExpression(fmt.Sprintf("!(request.userInfo.username in [%s])", strings.Join(users, ", "))))
	}
	return conditions
}

// namespaceSelector returns a selector in any case, so that nobody can exempt a
// namespace by adding one.
func (k webhookSpec) namespaceSelector() *metav1ac.LabelSelectorApplyConfiguration {
	if k.selector == nil {
		return metav1ac.LabelSelector()
	}
	return k.selector
}
