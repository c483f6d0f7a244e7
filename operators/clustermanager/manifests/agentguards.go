// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	admissionv1ac "k8s.io/client-go/applyconfigurations/admissionregistration/v1"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/operator/render"
)

// AgentGuardNames are the names of the guards in AgentGuards.
func AgentGuardNames() []string {
	return []string{ClusterGuardName, JoinGuardName, WorkGuardName, FieldsGuardName, EventGuardName, NestingGuardName}
}

// AgentGuards returns the admission policies that limit what agents of clusters send to the
// hub, and those who would be; one of them, what users do.
func AgentGuards(h Hub) []render.Object {
	return slices.Concat(ClusterGuard(h), JoinGuard(h), WorkGuard(h), FieldsGuard(h), EventGuard(h), NestingGuard(h))
}

// isAgent returns CEL that reports whether an agent of a cluster makes the request, or the push
// agent, which writes for Push clusters what their API servers say.
func isAgent(h Hub) string {
	return fmt.Sprintf("'%s' in request.userInfo.?groups.orValue([]) || request.userInfo.username == %s",
		clusterv1.GroupManagedClusters, componentUser(h, fleetv1alpha1.PushAgentServiceAccount))
}

// agentRequests matches the requests of agents.
func agentRequests(h Hub) *admissionv1ac.MatchConditionApplyConfiguration {
	return admissionv1ac.MatchCondition().WithName("agents").WithExpression(isAgent(h))
}

// ClusterGuardName is the name of the guard of ManagedClusters and of its binding.
const ClusterGuardName = "capstan-guard-managedclusters"

// ClusterGuard returns the admission policy that keeps the agents of clusters from what an
// administrator of the hub says in their ManagedClusters: labels, by which policies and
// sets choose what a cluster is sent, but for those that are left to it; taints;
// acceptance; and all else but the addresses of its API server and annotations of its
// own. Of the status it keeps them from the conditions by which the hub remembers what was
// decided about the cluster. It repeats agentlabels.AllowedKeys in CEL.
func ClusterGuard(h Hub) []render.Object {
	m := h.resourceMeta(ClusterGuardName).InNamespace("")
	validation := func(expression string) *admissionv1ac.ValidationApplyConfiguration {
		return admissionv1ac.Validation().WithExpression(expression).WithReason("Forbidden")
	}
	// When a taint was added is for the hub's webhook, which stamps it.
	const taints = "spec.?taints.orValue([]).map(t, [t.key, t.?value.orValue(''), t.effect])"
	const set, waits = clusterv1.LabelClusterSet, clusterv1.LabelAwaitingAcceptance
	return render.AdmissionPolicy(m, admissionv1ac.ValidatingAdmissionPolicySpec().
		WithMatchConstraints(admissionv1ac.MatchResources().WithResourceRules(render.AdmissionRule(
			clusterv1.GroupName, []string{"managedclusters", "managedclusters/status"}, admissionv1.Update))).
		WithMatchConditions(agentRequests(h)).
		WithVariables(
			admissionv1ac.Variable().WithName("allowed").WithExpression(fmt.Sprintf(
				"oldObject.metadata.?annotations[?'%s'].orValue('').split(',')", fleetv1alpha1.AnnotationAgentLabels)),
			// What the webhooks of the hub complete is theirs, whoever writes.
			admissionv1ac.Variable().WithName("labels").WithExpression(fmt.Sprintf(
				"(%s).filter(k, !(k == '%s' && !(k in object.metadata.?labels.orValue({}))) && "+
					"!(k == '%s' && oldObject.metadata.?labels[?k].orValue('') == '' && object.metadata.labels[k] == '%s'))",
				changedKeys("labels"), waits, set, clusterv1.DefaultClusterSet)),
			admissionv1ac.Variable().WithName("refused").WithExpression(fmt.Sprintf(
				"variables.labels.filter(k, k == '%s' || !variables.allowed.exists(a, a == k || a == '*' || "+
					"a.endsWith('/*') && k.startsWith(a.substring(0, a.size() - 1))))", set)),
			// Once each, and not for each of the others: there may be many.
			admissionv1ac.Variable().WithName("namespaces").WithExpression(managedNamespacesOf("object")),
			admissionv1ac.Variable().WithName("namespacesBefore").WithExpression(managedNamespacesOf("oldObject"))).
		WithValidations(
			validation("variables.refused.size() == 0").WithMessageExpression(fmt.Sprintf(
				"'the agent of a cluster may not change these labels of its ManagedCluster: ' + variables.refused.join(', ') + "+
					"'. An administrator of the hub changes them, or allows their keys in spec.agentLabels of ClusterConnection \"' + object.metadata.name + "+
					"'\", or for all clusters in the annotation %s of the ClusterManager'", fleetv1alpha1.AnnotationAgentLabels)),
			validation(fmt.Sprintf("object.%[1]s == oldObject.%[1]s", taints)+" && "+fieldUnchanged("spec.?hubAcceptsClient", "false")+" && "+fieldUnchanged("spec.?leaseDurationSeconds", "0")).
				WithMessage("the agent of a cluster may change nothing in the spec of its ManagedCluster but managedClusterClientConfigs"),
			// The webhook turns the label of an earlier release into the annotation.
			validation(fmt.Sprintf("(%[1]s).all(k, k.startsWith('agent.open-cluster-management.io/') || k in ['%[2]s', '%[3]s'] || "+
				"k == '%[4]s' && object.metadata.?annotations[?k].orValue('') in ['', oldObject.metadata.?labels[?k].orValue('')])",
				changedKeys("annotations"), fleetv1alpha1.AnnotationHubURL, fleetv1alpha1.AnnotationAgentID, clusterv1.AnnotationAwaitingAcceptance)).
				WithMessage(fmt.Sprintf("the agent of a cluster may change no annotation of its ManagedCluster but %s, %s and those that begin with "+
					"agent.open-cluster-management.io/", fleetv1alpha1.AnnotationHubURL, fleetv1alpha1.AnnotationAgentID)),
			validation(fieldUnchanged("metadata.?finalizers", "[]")+" && "+fieldUnchanged("metadata.?ownerReferences", "[]")).
				WithMessage("the agent of a cluster may change neither the finalizers nor the owners of its ManagedCluster"),
			validation(sameConditions(clusterv1.ManagedClusterConditionHubAccepted, clusterv1.ManagedClusterConditionDeleting, clusterv1.ManagedClusterConditionDuplicateIdentity)).
				WithMessage("the agent of a cluster may not change the conditions of its ManagedCluster that are the hub's")).
		WithValidations(sizesOfCluster()...))
}

// managedNamespacesOf is CEL for the names of the namespaces that sets want a cluster to have.
func managedNamespacesOf(of string) string {
	return fmt.Sprintf("%s.?status.?managedNamespaces.orValue([]).map(e, e.clusterSet + '/' + e.name)", of)
}

// sizesOfCluster are the rules by which no agent makes its ManagedCluster so big that the
// API server refuses what an administrator writes there, such as that it is not accepted
// any more: etcd takes 1.5 MiB. What an agent may write comes to less than 500 KiB, and
// FieldsGuard bounds metadata.managedFields, which repeats the names of its fields.
func sizesOfCluster() []*admissionv1ac.ValidationApplyConfiguration {
	atMost := func(number, bytes int, what, list string, texts ...string) *admissionv1ac.ValidationApplyConfiguration {
		return admissionv1ac.Validation().
			WithExpression(fmt.Sprintf("%[1]s.size() <= %[2]d && %[1]s.map(e, %[3]s).sum() <= %[4]d", list, number, bytesOf(texts...), bytes)).
			WithMessage(fmt.Sprintf("a ManagedCluster has at most %d %s of together at most %d bytes", number, what, bytes))
	}
	const namespaces, said = "object.?status.?managedNamespaces.orValue([])", "e.?conditions.orValue([])"
	resources := func(field string) *admissionv1ac.ValidationApplyConfiguration {
		return atMost(128, 8<<10, "resources in status."+field, "object.?status.?"+field+".orValue({})", "e")
	}
	appliers := func(of string) string {
		return fmt.Sprintf("%s.metadata.?managedFields.orValue([]).filter(f, f.operation == 'Apply' && !(f.manager in ['%s', '%s'])).size()",
			of, fleetv1alpha1.FieldOwnerClusterStatus, fleetv1alpha1.FieldOwnerClusterLabels)
	}
	return []*admissionv1ac.ValidationApplyConfiguration{
		atMost(2000, 256<<10, "claims", "object.?status.?clusterClaims.orValue([])", "e.?name.orValue('')", "e.?value.orValue('')"),
		atMost(64, 64<<10, "conditions", "object.?status.?conditions.orValue([])", "e.type", "e.reason", "e.message"),
		resources("capacity"), resources("allocatable"),
		atMost(64, 64<<10, "managedClusterClientConfigs", "object.?spec.?managedClusterClientConfigs.orValue([])", "e.url", "e.?caBundle.orValue('')"),
		atMost(256, 32<<10, "labels", "object.metadata.?labels.orValue({})", "e", "object.metadata.labels[e]"),
		atMost(256, 64<<10, "annotations", "object.metadata.?annotations.orValue({})", "e", "object.metadata.annotations[e]"),
		// API servers keep ten entries of those that update, and any number of those that
		// apply.
		admissionv1ac.Validation().WithExpression(fmt.Sprintf("%s <= %s", appliers("object"), appliers("oldObject"))).
			WithMessage("the agent of a cluster may not write in metadata.managedFields that others have applied fields"),
		admissionv1ac.Validation().WithExpression("variables.namespaces == variables.namespacesBefore || variables.namespaces.all(n, n in variables.namespacesBefore)").
			WithMessage("the agent of a cluster may add no entries to status.managedNamespaces: the hub does"),
		admissionv1ac.Validation().
			WithExpression(fmt.Sprintf("%[1]s.all(e, %[2]s.size() <= 8 && %[2]s.map(c, %[3]s).sum() <= %[4]d)",
				namespaces, said, bytesOf("c.type", "c.reason", "c.message"), 2<<10)).
			WithMessage("an entry of status.managedNamespaces has at most 8 conditions of together at most 2048 bytes"),
		admissionv1ac.Validation().WithExpression("object.?status.?version.?kubernetes.orValue('').size() <= 256").
			WithMessage("status.version.kubernetes has at most 256 bytes"),
	}
}

// sizesOfReport are the rules by which no agent makes its ClusterConnection so big that the
// API server refuses what an administrator writes there, as sizesOfCluster do for its
// ManagedCluster, or that those of many agents fill the memory of who knows all clusters.
// They bound what an agent of ours reports at most: a large cluster serves 3,000 resources.
func sizesOfReport(h Hub) []*admissionv1ac.ValidationApplyConfiguration {
	const apis, names = "object.?status.?apiEnablements.orValue([])", "e.?resources.orValue([])"
	const resourcesMax, namesBytesMax, summaryBytesMax = 5000, 256 << 10, 8 << 10
	rule := func(message, expression string, arguments ...any) *admissionv1ac.ValidationApplyConfiguration {
		return admissionv1ac.Validation().WithMessage(message).
			WithExpression(fmt.Sprintf("!(%s) || ", isAgent(h)) + fmt.Sprintf(expression, arguments...))
	}
	rules := []*admissionv1ac.ValidationApplyConfiguration{
		rule(fmt.Sprintf("an agent reports at most %d resources in apiEnablements", resourcesMax),
			"%[1]s.map(e, %[2]s.size()).sum() <= %[3]d", apis, names, resourcesMax),
		rule(fmt.Sprintf("an agent reports names of together at most %d bytes in apiEnablements", namesBytesMax),
			"%[1]s.map(e, %[2]s).sum() <= %[3]d", apis, bytesOf(names+".map(r, r.name + r.kind).join() + e.groupVersion"), namesBytesMax),
		rule("an agent reports at most 64 conditions of together at most 65536 bytes",
			"%[1]s.size() <= 64 && %[1]s.map(e, %[2]s).sum() <= %[3]d",
			"object.?status.?conditions.orValue([])", bytesOf("e.type", "e.reason", "e.message"), 64<<10),
		rule("status.id and status.kubernetesVersion have at most 256 bytes",
			"object.?status.?id.orValue('').size() <= 256 && object.?status.?kubernetesVersion.orValue('').size() <= 256"),
	}
	for _, list := range []string{"capacity", "allocatable", "allocating", "allocated"} {
		rules = append(rules, rule(fmt.Sprintf("an agent reports at most 256 resources in status.resourceSummary.%s with names of together at most %d bytes", list, summaryBytesMax),
			"%[1]s.size() <= 256 && %[1]s.map(e, %[2]s).sum() <= %[3]d",
			"object.?status.?resourceSummary.?"+list+".orValue({})", bytesOf("e"), summaryBytesMax))
	}
	return rules
}

// JoinGuardName is the name of the guard of requests to join and of its binding.
const JoinGuardName = "capstan-guard-joining"

// leaseOfJoinerSecondsMax bounds how long the hub may take a cluster for alive that is
// silent, if the cluster says so itself; the default is 60.
const leaseOfJoinerSecondsMax = 300

// JoinGuard returns the admission policy that bounds what somebody sends who asks to join:
// bootstrap tokens are in many hands, and every controller of the hub keeps ManagedClusters
// and the certificate requests of clusters in memory. Who may accept clusters makes what
// ManagedClusters he likes; one that comes accepted is for the hub's webhook to refuse,
// which has given it a finalizer by then.
func JoinGuard(h Hub) []render.Object {
	// The mark of those that wait is the webhook's: it writes its own over what was sent.
	own := []string{
		"'" + fleetv1alpha1.AnnotationHubURL + "'", "'" + fleetv1alpha1.AnnotationAgentID + "'", "'" + corev1.LastAppliedConfigAnnotation + "'",
		"'" + clusterv1.AnnotationAwaitingAcceptance + "'",
	}
	const atMost = "(request.resource.group == '" + certificatesv1.GroupName + "' ? %d : %d)" // of a certificate request fewer: one cluster may have many
	return render.AdmissionPolicy(h.resourceMeta(JoinGuardName).InNamespace(""), admissionv1ac.ValidatingAdmissionPolicySpec().
		WithMatchConstraints(admissionv1ac.MatchResources().WithResourceRules(
			render.AdmissionRule(clusterv1.GroupName, []string{"managedclusters"}, admissionv1.Create),
			render.AdmissionRule(certificatesv1.GroupName, []string{"certificatesigningrequests"}, admissionv1.Create))).
		WithMatchConditions(admissionv1ac.MatchCondition().WithName("joins").WithExpression(fmt.Sprintf(
			"request.resource.group == '%s' ? !object.?spec.?hubAcceptsClient.orValue(false) && !authorizer.group('%s').resource('managedclusters').subresource('accept').name(object.metadata.name).check('update').allowed() : "+
				"object.metadata.?labels[?'%s'].hasValue() || %s",
			clusterv1.GroupName, clusterv1.RegisterGroup, clusterv1.LabelClusterName, whoMayAsk(h)))).
		WithValidations(
			admissionv1ac.Validation().
				WithExpression("object.metadata.?finalizers.orValue([]).size() == 0 && object.metadata.?ownerReferences.orValue([]).size() == 0").
				WithMessage("who asks to join may set neither finalizers nor owners"),
			admissionv1ac.Validation().
				WithExpression(fmt.Sprintf("object.metadata.?labels.orValue({}).size() <= 64 && object.metadata.?annotations.orValue({}).size() <= 64 && %s + %s <= "+atMost,
					bytesOfMap("labels"), bytesOfMap("annotations"), 4<<10, 32<<10)).
				WithMessage("who asks to join may set at most 64 labels and 64 annotations, of together at most 32768 bytes, and 4096 in a certificate request"),
			admissionv1ac.Validation().
				WithExpression(fmt.Sprintf("object.metadata.?managedFields.orValue([]).size() <= 1 && %s <= "+atMost, bytesOfFields("object"), 8<<10, 64<<10)).
				WithMessage("who asks to join may set no metadata.managedFields but his own entry, of at most 65536 bytes, and 8192 in a certificate request"),
			joinRule(certificatesv1.GroupName, "the certificate request of a cluster has at most 8192 bytes", "object.spec.request.size() <= %d", 8<<10),
			// API servers take any text for a name, and for what a name is generated from.
			joinRule(certificatesv1.GroupName, "metadata.name and metadata.generateName of the certificate request of a cluster have at most 253 characters, "+
				"which are a-z, 0-9, - and . and begin with a letter or digit",
				"[object.metadata.name, object.metadata.?generateName.orValue('')].all(n, n.size() <= 253 && n.matches('^([a-z0-9][-.a-z0-9]*)?$'))"),
			// Bootstrap tokens are in the group of those that make nodes of the hub, too.
			joinRule(certificatesv1.GroupName, "with a bootstrap token of clusters, certificates of the signer "+certificatesv1.KubeAPIServerClientSignerName+" may be requested only",
				"!('%s' in request.userInfo.?groups.orValue([])) || object.spec.signerName == '%s'", clusterv1.GroupBootstrappers, certificatesv1.KubeAPIServerClientSignerName),
			// Others count the requests with the label of a cluster, its agent of Open Cluster
			// Management among them.
			joinRule(certificatesv1.GroupName, "the agent of a cluster may label certificate requests with the name of its own cluster only",
				"!('%[1]s' in request.userInfo.?groups.orValue([])) || !object.metadata.?labels[?'%[2]s'].hasValue() || '%[3]s' + object.metadata.labels['%[2]s'] in request.userInfo.groups",
				clusterv1.GroupManagedClusters, clusterv1.LabelClusterName, clusterv1.UserPrefix),
			joinRule(clusterv1.GroupName, fmt.Sprintf("who asks to join may set no annotations but those that begin with agent.open-cluster-management.io/, %s, %s and %s",
				fleetv1alpha1.AnnotationHubURL, fleetv1alpha1.AnnotationAgentID, corev1.LastAppliedConfigAnnotation),
				"object.metadata.?annotations.orValue({}).all(k, k.startsWith('agent.open-cluster-management.io/') || k in [%s])", strings.Join(own, ", ")),
			// After five of these times without a heartbeat, the hub says that the cluster is not
			// heard of.
			joinRule(clusterv1.GroupName, fmt.Sprintf("who asks to join may set at most %d for leaseDurationSeconds, and no negative number", leaseOfJoinerSecondsMax),
				"object.?spec.?leaseDurationSeconds.orValue(0) <= %d && object.?spec.?leaseDurationSeconds.orValue(0) >= 0", leaseOfJoinerSecondsMax),
			joinerSets("taints", 16<<10, "e.key", "e.?value.orValue('')"),
			joinerSets("managedClusterClientConfigs", 64<<10, "e.url", "e.?caBundle.orValue('')")))
}

// joinRule is the rule that what is created of an API group is as an expression says.
func joinRule(group, message, expression string, arguments ...any) *admissionv1ac.ValidationApplyConfiguration {
	return admissionv1ac.Validation().WithMessage(message).
		WithExpression(fmt.Sprintf("request.resource.group != '%s' || ", group) + fmt.Sprintf(expression, arguments...))
}

// joinerSets is the rule that a list in the spec of a new ManagedCluster has few entries,
// and texts of so many bytes together.
func joinerSets(list string, bytes int, texts ...string) *admissionv1ac.ValidationApplyConfiguration {
	return joinRule(clusterv1.GroupName, fmt.Sprintf("who asks to join may set at most 64 %s of together at most %d bytes", list, bytes),
		"%[1]s.size() <= 64 && %[1]s.map(e, %[2]s).sum() <= %[3]d", "object.?spec.?"+list+".orValue([])", bytesOf(texts...), bytes)
}

const (
	// FieldsGuardName is the name of the guard of managed fields and of its binding.
	FieldsGuardName = "capstan-guard-managedfields"
	// fieldsBytesMax is up to how many bytes agents may have metadata.managedFields grow,
	// connectionFieldsBytesMax that of a ClusterConnection, namespaceFieldsBytesMax that of the work of a namespace, and
	// leaseFieldsBytesMax that of a Lease, which have few fields of their own.
	fieldsBytesMax, connectionFieldsBytesMax, namespaceFieldsBytesMax, leaseFieldsBytesMax = 256 << 10, 64 << 10, 8 << 10, 8 << 10
	// fieldsDepthMax is how deep the names of fields are nested that are measured. Those of
	// what agents write are not deeper; any that are count as too many bytes.
	fieldsDepthMax = 10
)

// FieldsGuard returns the admission policy that bounds what API servers do not: whoever may
// update an object may write what looks like names of fields to metadata.managedFields, and
// any text to generateName, so that nothing else fits. The others have guards of their own
// besides; of Leases, it also bounds the rest.
func FieldsGuard(h Hub) []render.Object {
	return render.AdmissionPolicy(h.resourceMeta(FieldsGuardName).InNamespace(""), admissionv1ac.ValidatingAdmissionPolicySpec().
		WithMatchConstraints(admissionv1ac.MatchResources().WithResourceRules(
			render.AdmissionRule(clusterv1.GroupName, []string{"managedclusters", "managedclusters/status"}, admissionv1.Update),
			render.AdmissionRule(workv1.GroupName, []string{"manifestworks", "manifestworks/status"}, admissionv1.Update),
			render.AdmissionRule(fleetv1alpha1.GroupName, []string{"clusterconnections/status"}, admissionv1.Update),
			render.AdmissionRule("addon.open-cluster-management.io", []string{"managedclusteraddons/status"}, admissionv1.Update),
			render.AdmissionRule(coordinationv1.GroupName, []string{"leases"}, admissionv1.Update))).
		WithMatchConditions(agentRequests(h)).
		WithVariables(
			admissionv1ac.Variable().WithName("is").WithExpression(bytesOfFields("object")),
			admissionv1ac.Variable().WithName("was").WithExpression(bytesOfFields("oldObject")),
			admissionv1ac.Variable().WithName("max").WithExpression(fmt.Sprintf(
				"request.resource.resource == 'leases' ? %d : request.resource.resource == 'clusterconnections' ? %d : %s ? %d : %d",
				leaseFieldsBytesMax, connectionFieldsBytesMax, isNamespaceWork, namespaceFieldsBytesMax, fieldsBytesMax))).
		WithValidations(
			admissionv1ac.Validation().
				WithExpression("variables.is <= variables.max || variables.is <= variables.was").
				WithMessageExpression("'the agent of a cluster may not have metadata.managedFields grow beyond ' + string(variables.max) + ' bytes'"),
			admissionv1ac.Validation().WithReason("Forbidden").WithExpression(fieldUnchanged("metadata.?generateName", "''")).
				WithMessage("the agent of a cluster may not change metadata.generateName")).
		WithValidations(rulesOfLease()...))
}

// rulesOfLease are the rules by which no agent makes its Lease outlive its cluster, or end with
// something else, or larger than one is that tells when an agent was heard of.
func rulesOfLease() []*admissionv1ac.ValidationApplyConfiguration {
	const marksBytesMax, holderBytesMax = 4 << 10, 253
	rule := func(message, expression string) *admissionv1ac.ValidationApplyConfiguration {
		return admissionv1ac.Validation().WithReason("Forbidden").WithMessage(message).
			WithExpression(fmt.Sprintf("request.resource.group != '%s' || %s", coordinationv1.GroupName, expression))
	}
	// What others wrote may stay.
	atMost := func(bytes string, most int, unchanged ...string) string {
		return fmt.Sprintf("%s <= %d || %s", bytes, most, strings.Join(unchanged, " && "))
	}
	const holder, preferred = "spec.?holderIdentity", "spec.?preferredHolder"
	return []*admissionv1ac.ValidationApplyConfiguration{
		rule("the agent of a cluster may change neither the finalizers nor the owners of its Lease",
			fieldUnchanged("metadata.?finalizers", "[]")+" && "+fieldUnchanged("metadata.?ownerReferences", "[]")),
		rule(fmt.Sprintf("the agent of a cluster may set labels and annotations of together at most %d bytes on its Lease", marksBytesMax),
			atMost(bytesOfMap("labels")+" + "+bytesOfMap("annotations"), marksBytesMax,
				fieldUnchanged("metadata.?labels", "{}"), fieldUnchanged("metadata.?annotations", "{}"))),
		rule(fmt.Sprintf("the agent of a cluster may set at most %d bytes for the holder of its Lease", holderBytesMax),
			atMost(bytesOf("object.?"+holder+".orValue('')", "object.?"+preferred+".orValue('')"), holderBytesMax,
				fieldUnchanged(holder, "''"), fieldUnchanged(preferred, "''"))),
	}
}

// bytesOfFields is CEL for about how many bytes metadata.managedFields of an object takes.
func bytesOfFields(object string) string {
	const entry = 200
	return fmt.Sprintf("%s.metadata.?managedFields.orValue([]).filter(f, has(f.fieldsV1)).map(f, %d + %s).sum()", object, entry, bytesOfNames("f.fieldsV1", 0))
}

// bytesOfNames is CEL for how many bytes a tree of names of fields takes, as it is in
// fieldsV1, at a depth.
func bytesOfNames(tree string, depth int) string {
	if depth == fieldsDepthMax {
		return fmt.Sprintf("(%s.size() == 0 ? 0 : %d)", tree, fieldsBytesMax)
	}
	const around = 8 // quotes, a colon, braces and a comma
	name := "k" + strconv.Itoa(depth)
	return fmt.Sprintf("%s.map(%s, %s + %d + %s).sum()", tree, name, bytesOfName(name), around, bytesOfNames(tree+"["+name+"]", depth+1))
}

// bytesOfName is CEL for how many bytes the name of a field takes in etcd, as bytesOf is for
// texts. Names of list items have quotes, which count one by one. Most names have nothing
// of the kind, and may cost little: API servers compute only so much for a request.
func bytesOfName(name string) string {
	return fmt.Sprintf("(!%[1]s.matches(r'[^-.:/\\w]') ? bytes(%[1]s).size() : %[1]s.matches(r'[\\pC\\pZ&<>\\\\]') ? bytes(%[1]s).size() * 6 : "+
		"bytes(%[1]s.replace('\"', '\"\"')).size())", name)
}

// EventGuardName is the name of the guard of Events and of its binding.
const EventGuardName = "capstan-guard-events"

// EventGuard returns the admission policy that bounds the Events that agents record in the
// namespaces of their clusters: API servers bound them only in part, and keep all of them
// for an hour. An Event of events.k8s.io is shown to it as one of Kubernetes' core.
func EventGuard(h Hub) []render.Object {
	const message, other, labels, fields = 1 << 10, 4 << 10, 4 << 10, 16 << 10
	text := func(field string) string { return "object.?" + field + ".orValue('')" }
	object := func(field string) string {
		return fmt.Sprintf("object.?%[1]s.orValue({}).map(k, %[2]s).sum()", field, bytesOf("string(object."+field+"[k])"))
	}
	most := func(expression string, bytes int, what string) *admissionv1ac.ValidationApplyConfiguration {
		return admissionv1ac.Validation().WithExpression(fmt.Sprintf("%s <= %d", expression, bytes)).
			WithMessage(fmt.Sprintf("an Event of the agent of a cluster has at most %d bytes of %s", bytes, what))
	}
	return render.AdmissionPolicy(h.resourceMeta(EventGuardName).InNamespace(""), admissionv1ac.ValidatingAdmissionPolicySpec().
		WithMatchConstraints(admissionv1ac.MatchResources().WithResourceRules(render.AdmissionRule(
			corev1.GroupName, []string{"events"}, admissionv1.Create, admissionv1.Update))).
		WithMatchConditions(agentRequests(h)).
		WithValidations(
			most("bytes("+text("message")+").size()", message, "message"),
			most(fmt.Sprintf("%s + %s + %s + %s",
				bytesOf(text("reason"), text("action"), text("type"), text("reportingComponent"), text("reportingInstance"), "object.metadata.?generateName.orValue('')"),
				object("involvedObject"), object("related"), object("source")), other, "other texts"),
			most(bytesOfMap("labels")+" + "+bytesOfMap("annotations"), labels, "labels and annotations"),
			most(bytesOfFields("object"), fields, "metadata.managedFields"),
			admissionv1ac.Validation().
				WithExpression("object.metadata.?finalizers.orValue([]).size() == 0 && object.metadata.?ownerReferences.orValue([]).size() == 0").
				WithMessage("an Event of the agent of a cluster has neither finalizers nor owners")))
}
