// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package manifests

import (
	"fmt"
	"strconv"
	"strings"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	admissionv1ac "k8s.io/client-go/applyconfigurations/admissionregistration/v1"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	appsv1alpha1 "github.com/capstan-io/capstan/apis/karmada/apps/v1alpha1"
	configv1alpha1 "github.com/capstan-io/capstan/apis/karmada/config/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/operator/render"
	"github.com/capstan-io/capstan/internal/propagation/deliver"
)

// ConnectionGuardName is the name of the guard of ClusterConnections and of its binding.
const ConnectionGuardName = "capstan-guard-clusterconnections"

// registrationControllerAccount is the ServiceAccount of the registration
// controller.
const registrationControllerAccount = "registration-controller-sa"

// componentUser is CEL for the user that a component of the hub is, by its ServiceAccount.
func componentUser(h Hub, account string) string {
	return fmt.Sprintf("'system:serviceaccount:%s:%s'", h.Namespace(), account)
}

// fieldUnchanged is CEL that reports whether a field of an object is what it was before; unset is what
// it is without a value.
func fieldUnchanged(field, unset string) string {
	return fmt.Sprintf("object.%[1]s.orValue(%[2]s) == oldObject.%[1]s.orValue(%[2]s)", field, unset)
}

// sameConditions is CEL that reports whether conditions of some types are what they were
// before. Who applies others may change their order.
func sameConditions(types ...string) string {
	those := func(of string) string {
		return fmt.Sprintf("%s.?status.?conditions.orValue([]).filter(c, c.type in ['%s'])", of, strings.Join(types, "', '"))
	}
	return fmt.Sprintf("%[1]s.all(c, c in %[2]s) && %[2]s.all(c, c in %[1]s)", those("object"), those("oldObject"))
}

// bytesOf is CEL for how many bytes texts take together in etcd, where objects are JSON: a
// text with characters that JSON writes in six bytes, or in two, counts as if all of it
// were such.
func bytesOf(texts ...string) string {
	return fmt.Sprintf("[%s].map(t, bytes(t).size() * (t.matches(r'[&<>[:cntrl:]]') ? 6 : t.matches(r'[\"\\\\\u2028\u2029]') ? 2 : 1)).sum()", strings.Join(texts, ", "))
}

// bytesOfMap is CEL for how many bytes a map of strings in the metadata takes.
func bytesOfMap(of string) string {
	return fmt.Sprintf("object.metadata.?%[1]s.orValue({}).map(k, %[2]s).sum()", of, bytesOf("k", "object.metadata."+of+"[k]"))
}

// changedKeys is CEL for the keys of a map of strings in the metadata that are new, gone,
// or have another value.
func changedKeys(of string) string {
	now := "object.metadata.?" + of + ".orValue({})"
	before := "oldObject.metadata.?" + of + ".orValue({})"
	return fmt.Sprintf("%[1]s.filter(k, !(k in %[2]s) || %[2]s[k] != %[1]s[k]) + %[2]s.filter(k, !(k in %[1]s))", now, before)
}

// ConnectionGuard returns the admission policy that keeps everybody but the aggregated API
// server and the registration controller from what the Cluster API stores in a
// ClusterConnection: the intent there becomes a change of the ManagedCluster,
// which whoever writes ClusterConnections need not be allowed to make. It also has
// those who change where the token of a cluster is sent be allowed to read that
// token; for writes to Clusters the aggregated API server asks the same. And it bounds what
// agents report there. Which Secrets a Cluster waits for only the aggregated API server
// says, which has reviewed who may read them, and copies them by that: the registration
// controller may drop that, with the mirror of an earlier ManagedCluster.
func ConnectionGuard(h Hub) []render.Object {
	m := h.resourceMeta(ConnectionGuardName).InNamespace("")
	var unchanged, awaited []string
	for _, field := range []string{"apiEndpoint", "secretRef", "insecureSkipTLSVerification", "proxyURL", "proxyHeader"} {
		unchanged = append(unchanged, fmt.Sprintf("object.?spec.?%[1]s == oldObject.?spec.?%[1]s", field))
	}
	for _, field := range []string{"awaitedSecrets", "secretRef", "impersonatorSecretRef", "uid"} {
		awaited = append(awaited, fmt.Sprintf("object.?cluster.?%[1]s == oldObject.?cluster.?%[1]s", field))
	}
	return render.AdmissionPolicy(m, admissionv1ac.ValidatingAdmissionPolicySpec().
		WithMatchConstraints(admissionv1ac.MatchResources().WithResourceRules(render.AdmissionRule(
			fleetv1alpha1.GroupName, []string{"clusterconnections", "clusterconnections/status"}, admissionv1.Create, admissionv1.Update))).
		WithMatchConditions(admissionv1ac.MatchCondition().WithName("others").WithExpression(fmt.Sprintf(
			"request.userInfo.username != %s", componentUser(h, APIServerAccount)))).
		WithVariables(
			admissionv1ac.Variable().WithName("mirrors").WithExpression(
				"request.userInfo.username == "+componentUser(h, registrationControllerAccount)),
			admissionv1ac.Variable().WithName("secret").WithExpression(fmt.Sprintf(
				"object.?spec.?secretRef.?name.orValue('%s')", fleetv1alpha1.DefaultSecretName)),
			admissionv1ac.Variable().WithName("connectsAsBefore").WithExpression("oldObject != null && "+strings.Join(unchanged, " && "))).
		WithValidations(
			admissionv1ac.Validation().
				WithExpression("variables.mirrors || (oldObject == null ? !has(object.cluster) : has(object.cluster) == has(oldObject.cluster) && "+
					"(!has(object.cluster) || object.cluster == oldObject.cluster))").
				WithMessage("the field cluster is written by the hub's aggregated API server and registration controller only: "+
					"change the Cluster or the ManagedCluster instead"),
			admissionv1ac.Validation().
				WithExpression("!object.?cluster.?awaitedSecrets.hasValue() || oldObject != null && "+strings.Join(awaited, " && ")).
				WithMessage("which Secrets are copied to a cluster (cluster.awaitedSecrets) is written by the hub's aggregated API server only: "+
					"change the Cluster instead"),
			admissionv1ac.Validation().
				WithExpression("variables.mirrors || object.?spec.?apiEndpoint.orValue('') == '' || variables.connectsAsBefore || "+
					"authorizer.group('').resource('secrets').namespace(object.metadata.name).name(variables.secret).check('get').allowed()").
				WithReason("Forbidden").
				WithMessageExpression("'how the hub connects to the cluster decides who gets its token: this change requires to be allowed to get the Secret ' + "+
					"object.metadata.name + '/' + variables.secret")).
		WithValidations(sizesOfReport(h)...))
}

// WorkGuardName is the name of the guard of ManifestWorks and of its binding.
const WorkGuardName = "capstan-guard-manifestworks"

// WorkGuard returns the admission policy that keeps the agents of clusters from the labels,
// annotations and owners of their ManifestWorks, by which the hub finds works and decides
// what becomes of them. Agents write status, whose size it bounds, and the one finalizer by which they clean up:
// the hub takes that one off when nobody waits for an agent any more, and no other. Of the
// spec it keeps them from the time to live, by which the hub deletes works, and from more manifests, by which they might report more. All else
// there cannot be guarded: an agent that changes finalizers writes it as its types have it, which is not always how the hub has it.
func WorkGuard(h Hub) []render.Object {
	return render.AdmissionPolicy(h.resourceMeta(WorkGuardName).InNamespace(""), admissionv1ac.ValidatingAdmissionPolicySpec().
		WithMatchConstraints(admissionv1ac.MatchResources().WithResourceRules(
			render.AdmissionRule(workv1.GroupName, []string{"manifestworks", "manifestworks/status"}, admissionv1.Update))).
		WithMatchConditions(agentRequests(h)).
		WithVariables(
			admissionv1ac.Variable().WithName("namespaces").WithExpression(isNamespaceWork),
			admissionv1ac.Variable().WithName("valuesMax").WithExpression(fmt.Sprintf("variables.namespaces ? %d : %d", namespaceValuesBytesMax, valuesBytesMax)),
			admissionv1ac.Variable().WithName("othersMax").WithExpression(fmt.Sprintf("variables.namespaces ? %d : %d + %d * %s",
				namespaceOthersBytesMax, summaryBytesMax, entryBytesMax, numberOfManifests("object")))).
		WithVariables(sizesOfStatus()...).
		WithValidations(
			admissionv1ac.Validation().WithReason("Forbidden").
				WithExpression(fieldUnchanged("metadata.?labels", "{}")+" && "+fieldUnchanged("metadata.?annotations", "{}")+" && "+fieldUnchanged("metadata.?ownerReferences", "[]")).
				WithMessage("the agent of a cluster may change neither the labels nor the annotations nor the owners of a ManifestWork: the hub knows by them what the work is for"),
			admissionv1ac.Validation().WithReason("Forbidden").
				WithExpression(fmt.Sprintf("object.metadata.?finalizers.orValue([]).all(f, f == '%s' || f in oldObject.metadata.?finalizers.orValue([]))", workv1.FinalizerManifestWorkCleanup)).
				WithMessage(fmt.Sprintf("the agent of a cluster may add no finalizer to a ManifestWork but %s", workv1.FinalizerManifestWorkCleanup)),
			admissionv1ac.Validation().WithReason("Forbidden").
				WithExpression("!object."+timeToLive+".hasValue() || object."+timeToLive+" == oldObject."+timeToLive).
				WithMessage("the agent of a cluster may leave spec.deleteOption.ttlSecondsAfterFinished out of a ManifestWork, but not set it: the author of the work says when the hub deletes it"),
			admissionv1ac.Validation().WithReason("Forbidden").
				WithExpression(numberOfManifests("object")+" <= "+numberOfManifests("oldObject")).
				WithMessage("the agent of a cluster may add no manifests to a ManifestWork"),
			sizeOfStatus("values", "values"),
			sizeOfStatus("others", "conditions and names")))
}

const (
	// valuesBytesMax is how many bytes the values have that agents report in a work: those of ours report 512 KiB. Of what else a
	// status says, there are summaryBytesMax for the work and entryBytesMax for each of its manifests.
	valuesBytesMax, summaryBytesMax, entryBytesMax = 520 << 10, 64 << 10, 16 << 10
	// namespaceValuesBytesMax and namespaceOthersBytesMax are for the work of a namespace, which every cluster may have of
	// every namespace, and of which little is to be said.
	namespaceValuesBytesMax, namespaceOthersBytesMax = 8 << 10, 16 << 10
	// objectBytesMax is more than etcd takes: what may have as much is not measured.
	objectBytesMax = 3 << 19

	timeToLive      = "?spec.?deleteOption.?ttlSecondsAfterFinished"
	isNamespaceWork = "object.metadata.?labels[?'" + deliver.LabelNamespace + "'].hasValue()"
)

// numberOfManifests is CEL for how many manifests a work has.
func numberOfManifests(object string) string {
	return object + ".?spec.?workload.?manifests.orValue([]).size()"
}

// sizesOfStatus are CEL for how many bytes parts of the status of a work take, and took before; each counts once, as API servers compute
// only so much for an expression. They know only afterwards what a part of it took: to find characters takes memory for each, before that. So
// characters are counted first, and where there are more of them than there may be bytes, each counts as six, of which JSON takes no more.
func sizesOfStatus() (variables []*admissionv1ac.VariableApplyConfiguration) {
	add := func(name, expression string) {
		variables = append(variables, admissionv1ac.Variable().WithName(name).WithExpression(expression))
	}
	for _, of := range []struct {
		part string
		sum  textSum
	}{{"values", sumOfValues}, {"others", sumOfEntries}} {
		for _, when := range []struct{ name, object string }{{"", "object"}, {"Before", "oldObject"}} {
			characters := of.part + "Characters" + when.name
			add(characters, of.sum(when.object, charactersOf))
			add(of.part+when.name, fmt.Sprintf("variables.%[1]s > variables.%[2]sMax ? 6 * variables.%[1]s : %[3]s", characters, of.part, of.sum(when.object, bytesOfText)))
		}
	}
	return variables
}

// sizeOfStatus is the rule that a part of the status of a work, which is what is said, grows no larger than its variable says.
func sizeOfStatus(part, what string) *admissionv1ac.ValidationApplyConfiguration {
	return admissionv1ac.Validation().
		WithExpression(fmt.Sprintf("request.subResource != 'status' || variables.%[1]sMax >= %[2]d || variables.%[1]s <= variables.%[1]sMax || variables.%[1]s <= variables.%[1]sBefore",
			part, objectBytesMax)).
		WithMessageExpression(fmt.Sprintf("'the agent of a cluster may report %s of at most ' + string(variables.%sMax) + ' bytes in the status of this ManifestWork'", what, part))
}

// textSum returns CEL for what the texts of a part of the status of an object come to, by CEL for what some of them do.
type textSum func(object string, sizeOf func(texts ...string) string) string

// sumOfValues is the textSum of the values that the status of a work has.
func sumOfValues(object string, sizeOf func(texts ...string) string) string {
	const around = 64
	return fmt.Sprintf("%s.?status.?resourceStatus.?manifests.orValue([]).map(m, m.?statusFeedback.?values.orValue([]).map(v, %d + %s).sum()).sum()",
		object, around, sizeOf("v.name", "v.fieldValue.?string.orValue('')", "v.fieldValue.?jsonRaw.orValue('')"))
}

// sumOfEntries is the textSum of all else.
func sumOfEntries(object string, sizeOf func(texts ...string) string) string {
	const around = 128
	said := func(of string) string {
		return fmt.Sprintf("%s.?conditions.orValue([]).map(c, %d + %s).sum()", of, around, sizeOf("c.type", "c.reason", "c.message"))
	}
	var names []string
	for _, name := range []string{"group", "version", "kind", "resource", "namespace", "name"} {
		names = append(names, "m.resourceMeta.?"+name+".orValue('')")
	}
	return fmt.Sprintf("%[1]s + %[2]s.?status.?resourceStatus.?manifests.orValue([]).map(m, %[3]d + %[4]s + %[5]s).sum()",
		said(object+".?status"), object, around, sizeOf(names...), said("m"))
}

// charactersOf is CEL for how many characters texts have, which is no more than they take bytes.
func charactersOf(texts ...string) string { return strings.Join(texts, ".size() + ") + ".size()" }

// bytesOfText is CEL for how many bytes texts take in etcd, where they are JSON, as bytesOf is for short ones: what members say has
// quotes and ends of lines, and each counts by itself. In a text that is longer than any that agents report, each character counts as six.
func bytesOfText(texts ...string) string {
	count := func(characters string) string { return "t.findAll(r'[" + characters + "]').size()" }
	return fmt.Sprintf("[%s].map(t, t.size() > %d ? 6 * t.size() : bytes(t).size() + 5 * %s + %s - 4 * %s).sum()", strings.Join(texts, " + "), valuesBytesMax,
		count(`&<>\pC\p{Zl}\p{Zp}`), count(`"\\`), count(`\n\r\t`))
}

const (
	// NestingGuardName is the name of the guard of nested names of fields and of its binding.
	NestingGuardName = "capstan-guard-nesting"
	// namesDepthMax is how deep the names of fields are nested in metadata.managedFields. API servers write them as deep as
	// objects are, down to lists that are applied whole, which is nine in the kinds of the hub.
	namesDepthMax = 20
)

// NestingGuard returns the admission policy that bounds how deep whoever writes kinds of the hub nests
// metadata.managedFields: API servers store 10,000 levels, which is what JSON may have, and send them in lists, which have
// more. Nobody could list the kind then, no controller either. The hub's own programs are not asked, and neither are agents,
// which FieldsGuard asks.
func NestingGuard(h Hub) []render.Object {
	groups := []string{
		clusterv1.GroupName, workv1.GroupName, policyv1alpha1.GroupName, workv1alpha2.GroupName, configv1alpha1.GroupName,
		appsv1alpha1.GroupName, fleetv1alpha1.GroupName,
	}
	rules := make([]*admissionv1ac.NamedRuleWithOperationsApplyConfiguration, 0, len(groups))
	for _, group := range groups {
		rules = append(rules, render.AdmissionRule(group, []string{"*"}, admissionv1.Create, admissionv1.Update))
	}
	return render.AdmissionPolicy(h.resourceMeta(NestingGuardName).InNamespace(""), admissionv1ac.ValidatingAdmissionPolicySpec().
		WithMatchConstraints(admissionv1ac.MatchResources().WithResourceRules(rules...)).
		WithMatchConditions(admissionv1ac.MatchCondition().WithName("users").WithExpression(fmt.Sprintf(
			"!request.userInfo.username.startsWith('system:serviceaccount:%s:') && !(%s)", h.Namespace(), isAgent(h)))).
		WithValidations(admissionv1ac.Validation().
			WithExpression(fmt.Sprintf("object.metadata.?managedFields.orValue([]).all(f, !has(f.fieldsV1) || !(%s))", nestsDeeper("f.fieldsV1", 0))).
			WithMessage(fmt.Sprintf("metadata.managedFields may not be nested more than %d levels deep: leave it to the API server", namesDepthMax))))
}

// nestsDeeper is CEL that reports whether a tree of names of fields, at a depth, has any at namesDepthMax.
func nestsDeeper(tree string, depth int) string {
	if depth == namesDepthMax {
		return tree + ".size() > 0"
	}
	name := "k" + strconv.Itoa(depth)
	return fmt.Sprintf("%s.exists(%s, %s)", tree, name, nestsDeeper(tree+"["+name+"]", depth+1))
}
