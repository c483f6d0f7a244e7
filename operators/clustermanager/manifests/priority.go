// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	flowcontrolv1ac "k8s.io/client-go/applyconfigurations/flowcontrol/v1"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/operator/render"
)

const (
	// livenessPriority is the name of the priority level of what the hub's own programs need
	// to go on, and of the schema that puts their leases there.
	livenessPriority = "capstan-liveness"
	// admissionPriority is the name of the schema of what admission asks.
	admissionPriority = "capstan-admission"
	// heartbeatsPriority is the name of the priority level of what agents of clusters send to
	// show that they live, and of its schema.
	heartbeatsPriority = "capstan-heartbeats"
	// priorityPrecedence is after what the API server keeps for itself and for nodes, and
	// before where ServiceAccounts and agents are otherwise.
	priorityPrecedence = 600
)

// PriorityNames are the names of what PriorityObjects returns.
func PriorityNames() []string {
	return []string{livenessPriority, admissionPriority, heartbeatsPriority}
}

// PriorityObjects returns what has the API server of the hub answer heartbeats, leases and what
// webhooks ask while everybody else has to wait (KEP-1040): without, they wait behind the
// requests by which controllers and agents catch up, clusters seem to be gone, and
// admission fails, which makes more of them.
//
// Agents have a level of their own, in which nobody of the hub waits: a request keeps its place
// until its body is there, and an agent that somebody has taken over may take a minute to
// send one, in as many requests as it likes.
func PriorityObjects(h Hub) []render.Object {
	account := func(name string) *flowcontrolv1ac.SubjectApplyConfiguration {
		return flowcontrolv1ac.Subject().WithKind(flowcontrolv1.SubjectKindServiceAccount).
			WithServiceAccount(flowcontrolv1ac.ServiceAccountSubject().WithNamespace(h.Namespace()).WithName(name))
	}
	agents := flowcontrolv1ac.Subject().WithKind(flowcontrolv1.SubjectKindGroup).
		WithGroup(flowcontrolv1ac.GroupSubject().WithName(clusterv1.GroupManagedClusters))
	var asking []*flowcontrolv1ac.SubjectApplyConfiguration
	for _, c := range HubComponents(h) {
		if c.Webhook != nil || c.APIServer != nil {
			asking = append(asking, account(c.Workload.ServiceAccount))
		}
	}
	leases := flowcontrolv1ac.ResourcePolicyRule().
		WithVerbs("create", "get", "patch", "update").
		WithAPIGroups(coordinationv1.GroupName).WithResources("leases").
		WithNamespaces(flowcontrolv1.NamespaceEvery)
	reviews := flowcontrolv1ac.ResourcePolicyRule().
		WithVerbs("create").
		WithAPIGroups(authenticationv1.GroupName, authorizationv1.GroupName).WithResources("subjectaccessreviews", "tokenreviews").
		WithClusterScope(true)
	return []render.Object{
		// Who borrowed from it could be slow to give back.
		priorityLevel(h, livenessPriority, 0),
		priorityLevel(h, heartbeatsPriority, 50),
		flowSchema(h, livenessPriority, livenessPriority, leases, account(flowcontrolv1.NameAll)),
		flowSchema(h, admissionPriority, livenessPriority, reviews, asking...),
		flowSchema(h, heartbeatsPriority, heartbeatsPriority, leases, agents),
	}
}

// priorityLevel returns one with room for some twenty requests at a time in an API server that
// answers 600, as by default: heartbeats of 1,000 clusters, 17 in a second, need less than
// one of these. Others may borrow the given part of it while nobody needs it.
func priorityLevel(h Hub, name string, lendablePercent int32) render.Object {
	return flowcontrolv1ac.PriorityLevelConfiguration(name).WithLabels(h.resourceMeta(name).Labels).WithSpec(flowcontrolv1ac.PriorityLevelConfigurationSpec().
		WithType(flowcontrolv1.PriorityLevelEnablementLimited).
		WithLimited(flowcontrolv1ac.LimitedPriorityLevelConfiguration().
			WithNominalConcurrencyShares(10).
			WithLendablePercent(lendablePercent).
			WithLimitResponse(flowcontrolv1ac.LimitResponse().
				WithType(flowcontrolv1.LimitResponseTypeQueue).
				// A user who sends too much fills its own queues.
				WithQueuing(flowcontrolv1ac.QueuingConfiguration().WithQueues(64).WithHandSize(6).WithQueueLengthLimit(50)))))
}

// flowSchema returns one that puts requests of the subjects into a level.
func flowSchema(h Hub, name, level string, rule *flowcontrolv1ac.ResourcePolicyRuleApplyConfiguration, subjects ...*flowcontrolv1ac.SubjectApplyConfiguration) render.Object {
	return flowcontrolv1ac.FlowSchema(name).WithLabels(h.resourceMeta(name).Labels).WithSpec(flowcontrolv1ac.FlowSchemaSpec().
		WithPriorityLevelConfiguration(flowcontrolv1ac.PriorityLevelConfigurationReference().WithName(level)).
		WithMatchingPrecedence(priorityPrecedence).
		WithDistinguisherMethod(flowcontrolv1ac.FlowDistinguisherMethod().WithType(flowcontrolv1.FlowDistinguisherMethodByUserType)).
		WithRules(flowcontrolv1ac.PolicyRulesWithSubjects().WithSubjects(subjects...).WithResourceRules(rule)))
}

// PriorityRules is what the operator itself does with them.
func PriorityRules() []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{
		APIGroups: []string{flowcontrolv1.GroupName}, Resources: []string{"flowschemas", "prioritylevelconfigurations"},
		ResourceNames: PriorityNames(), Verbs: []string{"create", "delete", "get", "patch"},
	}}
}
