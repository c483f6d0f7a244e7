// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package klusterlet

import (
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/kube/rights"
	"github.com/capstan-io/capstan/internal/testing/cluster"
	"github.com/capstan-io/capstan/internal/testing/env"
	"github.com/capstan-io/capstan/internal/testing/expect"
	"github.com/capstan-io/capstan/operators/klusterlet/manifests"
	"github.com/capstan-io/capstan/operators/klusterlet/permissions"
)

// ocmRole is what OCM's chart allows the operator.
const ocmRole = "testdata/ocm-operator-role.yaml"

// removalMax is how long a removal may take that does not see the pods of agents.
const removalMax = podsGoneMax + time.Minute

// olderRules returns what OCM's charts before NetworkPolicies allowed it.
func olderRules(t testing.TB) []rbacv1.PolicyRule {
	t.Helper()
	return slices.DeleteFunc(cluster.ReadRole(t, ocmRole).Rules, func(rule rbacv1.PolicyRule) bool {
		return slices.Contains(rule.APIGroups, networkingv1.GroupName)
	})
}

func withNetworkPolicies(k *operatorv1.Klusterlet) {
	k.Spec.RegistrationConfiguration = &operatorv1.RegistrationConfiguration{
		FeatureGates: []operatorv1.FeatureGate{{Feature: "NetworkPolicies", Mode: operatorv1.FeatureGateModeEnable}},
	}
}

// current reports whether the status is one of the present generation in which the
// agents are installed.
func (h *harness) current() bool {
	klusterlet := h.get("klusterlet")
	return klusterlet.Status.ObservedGeneration == klusterlet.Generation &&
		meta.IsStatusConditionTrue(klusterlet.Status.Conditions, operatorv1.KlusterletConditionApplied)
}

func (h *harness) gone(name string) bool {
	return apierrors.IsNotFound(h.admin.Get(h.t.Context(), types.NamespacedName{Name: name}, &operatorv1.Klusterlet{}))
}

func TestTheOperatorRunsUnderTheRolesOfOCMsCharts(t *testing.T) {
	for name, test := range map[string]struct {
		rules []rbacv1.PolicyRule
		added []string
	}{
		"OfToday":               {cluster.ReadRole(t, ocmRole).Rules, nil},
		"BeforeNetworkPolicies": {olderRules(t), []string{"networkpolicies.networking.k8s.io"}},
	} {
		t.Run(name, func(t *testing.T) {
			h := startGranted(t, test.rules)
			h.startManager()
			h.klusterlet("klusterlet", withNetworkPolicies)
			h.eventually("the agents are installed", h.current)
			limited := h.expect("klusterlet", operatorv1.KlusterletConditionFeaturesLimited,
				metav1.ConditionFalse, operatorv1.KlusterletReasonPermissionsAdded)
			for _, resource := range append(test.added, "pods", "appliedmanifestworks.work.open-cluster-management.io") {
				if !strings.Contains(limited.Message, resource) {
					t.Errorf("the message does not tell what the operator gave itself for %s: %s", resource, limited.Message)
				}
			}
			h.expectCompletion(test.rules)
			if !h.exists(&networkingv1.NetworkPolicy{}, agentNamespace, "default-deny-all") {
				t.Error("the NetworkPolicies are missing")
			}

			h.update("klusterlet", func(k *operatorv1.Klusterlet) { k.Spec.DeployOption.Mode = operatorv1.InstallModeSingleton })
			h.eventually("one agent does everything", func() bool { return h.current() && h.deploymentsAre("klusterlet-agent") })
			expect.NoError(t, h.admin.Delete(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: agentNamespace, Name: "klusterlet-work-sa"}}))
			h.eventually("what was deleted comes back", func() bool {
				return h.exists(&corev1.ServiceAccount{}, agentNamespace, "klusterlet-work-sa")
			})

			own := h.appliedWork("own", string(h.get("klusterlet").UID))
			h.delete("klusterlet")
			h.eventually("the Klusterlet goes", func() bool { return h.gone("klusterlet") })
			if h.exists(&workv1.AppliedManifestWork{}, "", own) {
				t.Error("the AppliedManifestWork of the agent is left")
			}
		})
	}
}

// expectCompletion compares what the operator gave itself with what the role
// lacks of what it asks for: no more, and nothing that the role has.
func (h *harness) expectCompletion(given []rbacv1.PolicyRule) {
	h.t.Helper()
	role, binding := &rbacv1.ClusterRole{}, &rbacv1.ClusterRoleBinding{}
	if !h.exists(role, "", permissions.CompletionName) || !h.exists(binding, "", permissions.CompletionName) {
		h.t.Fatal("the operator did not complete its role")
	}
	if lacks := rights.FromRules(given...).MissingRules(role.Rules...); rights.DescribeRules(lacks) != rights.DescribeRules(role.Rules) {
		h.t.Errorf("the operator gave itself what it had already: %s, of which it lacked %s", rights.DescribeRules(role.Rules), rights.DescribeRules(lacks))
	}
	for _, rule := range role.Rules {
		strong := slices.ContainsFunc([]string{"*", "escalate", "bind", "impersonate"}, func(verb string) bool { return slices.Contains(rule.Verbs, verb) })
		if strong || slices.Contains(rule.Resources, "secrets") && len(rule.ResourceNames) == 0 {
			h.t.Errorf("the operator gave itself %s", rights.DescribeRules([]rbacv1.PolicyRule{rule}))
		}
	}
	account := rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: operatorNamespace, Name: "klusterlet"}
	if !slices.Equal(binding.Subjects, []rbacv1.Subject{account}) {
		h.t.Errorf("the completion is bound to %v, want the operator's account alone", binding.Subjects)
	}
	for _, owners := range [][]metav1.OwnerReference{role.OwnerReferences, binding.OwnerReferences} {
		if len(owners) != 1 || owners[0].Kind != "ClusterRoleBinding" || owners[0].Name != operatorUser {
			h.t.Errorf("the completion stays when what it completes goes: its owners are %v", owners)
		}
	}
}

// deploymentsAre reports whether exactly these are in the namespace of the agents.
func (h *harness) deploymentsAre(names ...string) bool {
	h.t.Helper()
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(appsv1.SchemeGroupVersion.WithKind("DeploymentList"))
	expect.NoError(h.t, h.admin.List(h.t.Context(), list, client.InNamespace(agentNamespace)))
	var found []string
	for i := range list.Items {
		found = append(found, list.Items[i].Name)
	}
	return slices.Equal(found, names)
}

// olderOperators are hosted operators with the role of OCM's charts.
var olderOperators = env.NewFixtures(servers, func(t testing.TB) *hostedHarness {
	h := host(t, startGranted(t, olderRules(t)))
	allowed, err := permissions.ReviewOperatorRole(t.Context(), h.c.Client)
	if err != nil {
		t.Fatal(err)
	}
	h.c.Permissions = allowed
	return h
})

// underBothRoles tests an operator with its own role, and one with that of OCM's charts.
func underBothRoles(t *testing.T, test func(*testing.T, *harness)) {
	t.Helper()
	t.Run("its own role", func(t *testing.T) { test(t, takeOperator(t)) })
	t.Run("the role of OCM's charts", func(t *testing.T) { test(t, takeHosted(t, olderOperators).harness) })
}

// hostedUnderBothRoles is underBothRoles for agents of another cluster.
func hostedUnderBothRoles(t *testing.T, test func(*testing.T, *hostedHarness)) {
	t.Helper()
	t.Run("its own role", func(t *testing.T) { test(t, takeHosted(t, hostedOperators)) })
	t.Run("the role of OCM's charts", func(t *testing.T) { test(t, takeHosted(t, olderOperators)) })
}

// TestNewReleaseTakesOverUnderTheRoleOfOCMsCharts lets an operator of a newer release take over.
func TestNewReleaseTakesOverUnderTheRoleOfOCMsCharts(t *testing.T) {
	t.Parallel()
	h := takeHosted(t, olderOperators).harness
	h.klusterlet("klusterlet")
	h.reconcile("klusterlet")
	before := h.c.Settings
	defer func() { h.c.Settings = before }()
	h.c.Settings.Version, h.c.Settings.Image = "1.3.0", "capstan:newer"
	h.reconcile("klusterlet")
	h.expect("klusterlet", operatorv1.KlusterletConditionApplied, metav1.ConditionTrue, operatorv1.KlusterletReasonApplied)
	crd := &apiextensionsv1.CustomResourceDefinition{}
	if !h.exists(crd, "", "appliedmanifestworks.work.open-cluster-management.io") || crd.Annotations[operatorv1.AnnotationCRDVersion] != "1.3.0" {
		t.Errorf("the definition is of version %q", crd.Annotations[operatorv1.AnnotationCRDVersion])
	}
	if image := h.deployment(agentNamespace, "klusterlet-registration-agent").Spec.Template.Spec.Containers[0].Image; image != "capstan:newer" {
		t.Errorf("the agent has image %q", image)
	}
}

// narrowRules are those of a role that the operator cannot complete, as it may
// escalate and bind the roles of agents only.
func narrowRules(t testing.TB) []rbacv1.PolicyRule {
	t.Helper()
	rules := olderRules(t)
	for i := range rules {
		rules[i].Verbs = slices.DeleteFunc(rules[i].Verbs, func(verb string) bool { return verb == "escalate" || verb == "bind" })
	}
	secrets := func(verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{
			APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: verbs,
			ResourceNames: []string{operatorv1.HubKubeConfigPendingSecret, operatorv1.ImagePullSecret},
		}
	}
	const agent = "open-cluster-management:klusterlet-"
	const home = manifests.ManagementRolePrefix + "klusterlet-"
	return append(rules, secrets("get", "list", "watch", "update", "patch", "delete"), rbacv1.PolicyRule{
		APIGroups: []string{rbacv1.GroupName}, Resources: []string{"clusterroles", "roles"}, Verbs: []string{"escalate", "bind"},
		ResourceNames: []string{
			agent + "registration:agent", agent + "work:agent", home + "registration:agent", home + "work:agent",
			manifests.ExecutionRole, manifests.AggregateRole, manifests.AdminRole,
		},
	})
}

func TestAWatchThatIsNotAllowedIsReported(t *testing.T) {
	h := startGranted(t, narrowRules(t))
	h.startManager()
	h.klusterlet("klusterlet", withNetworkPolicies)
	h.eventually("the agents are installed", h.current)
	limited := h.expect("klusterlet", operatorv1.KlusterletConditionFeaturesLimited,
		metav1.ConditionTrue, operatorv1.KlusterletReasonPermissionsMissing)
	for _, part := range []string{
		"list,watch pods", "delete appliedmanifestworks.work.open-cluster-management.io",
		"networkpolicies.networking.k8s.io", "create,patch,update events.events.k8s.io",
	} {
		if !strings.Contains(limited.Message, part) {
			t.Errorf("the message does not name the rule %q: %s", part, limited.Message)
		}
	}
	if h.exists(&rbacv1.ClusterRole{}, "", permissions.CompletionName) {
		t.Error("the operator wrote a role whose rules it may not give")
	}

	own := h.appliedWork("own", string(h.get("klusterlet").UID))
	h.delete("klusterlet")
	h.within(removalMax, "the Klusterlet goes", func() bool { return h.gone("klusterlet") })
	left := &workv1.AppliedManifestWork{}
	if !h.exists(left, "", own) || len(left.Finalizers) > 0 {
		t.Errorf("the AppliedManifestWork should be left without a finalizer, not with %v", left.Finalizers)
	}
}

// TestARoleThatIsTooSmallIsTold takes from the operator what it cannot do without
// and may not give itself: it says so, of each generation.
func TestARoleThatIsTooSmallIsTold(t *testing.T) {
	small := narrowRules(t)
	for i := range small {
		if slices.Contains(small[i].Resources, "deployments") {
			small[i].Verbs = []string{"get", "list", "watch"}
		}
	}
	h := startGranted(t, small)
	h.startManager()
	h.klusterlet("klusterlet")
	said := func() bool {
		klusterlet := h.get("klusterlet")
		applied := meta.FindStatusCondition(klusterlet.Status.Conditions, operatorv1.KlusterletConditionApplied)
		return applied != nil && applied.Status == metav1.ConditionFalse && applied.ObservedGeneration == klusterlet.Generation &&
			strings.Contains(applied.Message, `resource "deployments"`) && klusterlet.Status.ObservedGeneration == klusterlet.Generation
	}
	h.eventually("the operator says what it may not do", said)
	h.update("klusterlet", func(k *operatorv1.Klusterlet) { k.Spec.DeployOption.Mode = operatorv1.InstallModeSingleton })
	h.eventually("it says so of the next generation", said)
}
