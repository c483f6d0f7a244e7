// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clustermanager

import (
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/testing/build"
	"github.com/capstan-io/capstan/internal/testing/cluster"
	"github.com/capstan-io/capstan/internal/testing/env"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// Files with roles for the account of the operator.
const (
	// ocmRole is what OCM's chart allows it.
	ocmRole = "../../test/testdata/ocm/cluster-manager.yaml"
	// beyondRole is what our documentation offers to add to that.
	beyondRole = "../../config/samples/ocm-chart/clusterrole.yaml"
	// propagationRole is what it offers for propagation.
	propagationRole = "../../config/samples/propagation/clusterrole.yaml"
)

// TestUnderOCMsRole installs a hub with the role of OCM's chart, and no other:
// all of OCM's contract is there, the rest is told, and comes with its rules.
func TestUnderOCMsRole(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.startAs(t, "ocm", cluster.ReadRole(t, ocmRole).Rules)
	cm := &operatorv1.ClusterManager{}
	cm.Name = testName
	l.create(t, cm)
	l.await(t, "the hub is installed", l.installed(t))

	cm = l.get(t)
	limited := expect.Condition(t, cm.Status.Conditions, cm.Generation, metav1.Condition{
		Type: operatorv1.ClusterManagerConditionFeaturesLimited, Status: metav1.ConditionTrue, Reason: operatorv1.ClusterManagerReasonPermissionsMissing,
	})
	expect.TextHas(t, limited.Message,
		`ServiceAccount "open-cluster-management/cluster-manager"`, "ClusterConnections (", "Push (", "clusterconnections.fleet.capstan.io",
		"get,list,watch,patch secrets (cluster-connection)", "servicecidrs.networking.k8s.io", "open-cluster-management:push-agent:credentials")
	for _, unwanted := range []string{"Components (", "NetworkPolicies ("} {
		if strings.Contains(limited.Message, unwanted) {
			t.Errorf("under OCM's role nothing of OCM's contract is off, but the message has %s:\n%s", unwanted, limited.Message)
		}
	}

	// This is what OCM's users expect of a hub.
	deployments := l.deployments(t)
	for _, name := range []string{"registration-controller", "registration-webhook", "work-webhook"} {
		if _, found := deployments["cluster-manager-"+name]; !found {
			t.Errorf("Deployment %s is missing", name)
		}
		role := "open-cluster-management:cluster-manager-" + strings.Replace(name, "-", ":", 1)
		if !l.exists(t, &rbacv1.ClusterRole{}, role, "") || !l.exists(t, &rbacv1.ClusterRoleBinding{}, role, "") {
			t.Errorf("role %s or its binding is missing", role)
		}
	}
	webhooks := &admissionv1.ValidatingWebhookConfigurationList{}
	if err := l.client.List(t.Context(), webhooks); err != nil || len(webhooks.Items) == 0 {
		t.Errorf("there are no validating webhooks: %v", err)
	}
	if !l.exists(t, &rbacv1.ClusterRole{}, operatorv1.BootstrapClusterRole, "") {
		t.Error("nobody may register")
	}
	if _, found := l.deployments(t)["cluster-manager-push-agent"]; found {
		t.Error("there is a push agent, with rights that it does not have")
	}

	l.change(t, func(cm *operatorv1.ClusterManager) {
		cm.Spec.NodePlacement.NodeSelector = map[string]string{"infra": ""}
	})
	l.await(t, "a change of the spec is installed", l.installed(t))

	beyond := cluster.ReadRole(t, beyondRole)
	l.allow(t, "ocm", beyond.Name, beyond.Rules)
	l.await(t, "what the role of the documentation allows is on", func() bool {
		_, found := l.deployments(t)["cluster-manager-push-agent"]
		return found && l.installed(t)() && l.condition(t, operatorv1.ClusterManagerConditionFeaturesLimited).Status == metav1.ConditionFalse
	})
	l.removed(t)
}

// TestARoleThatIsTooSmallIsTold runs the operator without the right to watch what
// it installs: it says so, and goes on once it has it.
func TestARoleThatIsTooSmallIsTold(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	full := cluster.ReadRole(t, ocmRole).Rules
	var small, withheld []rbacv1.PolicyRule
	for _, rule := range full {
		switch rule.APIGroups[0] {
		case "apps", "networking.k8s.io": // the second one the operator can do without
			withheld = append(withheld, rule)
		default:
			small = append(small, rule)
		}
	}
	l.startAs(t, "small", small)
	cm := &operatorv1.ClusterManager{}
	cm.Name = testName
	l.create(t, cm)
	l.await(t, "the operator says what it lacks", func() bool {
		applied := l.condition(t, operatorv1.ClusterManagerConditionApplied)
		return applied.Reason == operatorv1.ClusterManagerReasonPermissionsMissing && applied.Status == metav1.ConditionFalse &&
			strings.Contains(applied.Message, "list,watch deployments.apps") && !strings.Contains(applied.Message, "networkpolicies") &&
			l.get(t).Status.ObservedGeneration == l.get(t).Generation
	})
	l.allow(t, "small", "small:apps", withheld[:1])
	l.await(t, "it goes on", func() bool {
		return l.installed(t)() && strings.Contains(l.condition(t, operatorv1.ClusterManagerConditionFeaturesLimited).Message, "NetworkPolicies (")
	})
	l.removed(t)
}

// TestABindingThatTheOperatorMayNotRelease removes a hub under OCM's role, which
// lets the operator see ManagedClusterSetBindings, but not change them.
func TestABindingThatTheOperatorMayNotRelease(t *testing.T) {
	t.Parallel()
	l := newLab(t)
	l.startAs(t, "ocm", cluster.ReadRole(t, ocmRole).Rules)
	cm := &operatorv1.ClusterManager{}
	cm.Name, cm.Annotations = testName, map[string]string{operatorv1.AnnotationDeletionDeadline: "0s"}
	l.create(t, cm)
	l.await(t, "the hub is installed", l.installed(t))
	l.await(t, "a binding is made", func() bool {
		binding := &unstructured.Unstructured{}
		binding.SetAPIVersion("cluster.open-cluster-management.io/v1beta2")
		binding.SetKind("ManagedClusterSetBinding")
		binding.SetNamespace("default")
		binding.SetName("guarded")
		binding.SetFinalizers([]string{"cluster.open-cluster-management.io/guard"})
		binding.Object["spec"] = map[string]any{"clusterSet": "guarded"}
		for _, hooks := range []client.Object{&admissionv1.MutatingWebhookConfiguration{}, &admissionv1.ValidatingWebhookConfiguration{}} {
			if err := l.client.DeleteAllOf(t.Context(), hooks); err != nil { // nobody answers there
				t.Fatal(err)
			}
		}
		return l.client.Create(t.Context(), binding) == nil
	})
	expect.NoError(t, l.client.Delete(t.Context(), l.get(t)))
	const rule = "patch managedclustersetbindings.cluster.open-cluster-management.io"
	l.await(t, "the operator says what it may not do", func() bool {
		deleting := l.condition(t, operatorv1.ClusterManagerConditionDeleting)
		return deleting.Reason == operatorv1.ClusterManagerReasonResourcesRemaining &&
			strings.Contains(deleting.Message, "default/guarded") && strings.Contains(deleting.Message, rule)
	})
	l.allow(t, "ocm", "ocm:bindings", []rbacv1.PolicyRule{{
		APIGroups: []string{"cluster.open-cluster-management.io"}, Resources: []string{"managedclustersetbindings"}, Verbs: []string{"patch"},
	}})
	// The operator may wait for what does not end, but not beyond its deadline.
	l.awaitFor(t, DefaultDeletionDeadline+eventLimit, "the hub is removed", func() bool {
		l.endNamespace(t)
		return !l.exists(t, &operatorv1.ClusterManager{}, testName, "")
	})
}

// removed deletes the ClusterManager and waits until it is gone.
func (l *lab) removed(t testing.TB) {
	t.Helper()
	expect.NoError(t, l.client.Delete(t.Context(), l.get(t)))
	// The operator may wait for what does not end, but not beyond its deadline.
	l.awaitFor(t, DefaultDeletionDeadline+eventLimit, "the hub is removed", func() bool {
		l.endNamespace(t)
		return !l.exists(t, &operatorv1.ClusterManager{}, testName, "")
	})
}

// installed reports whether the hub is installed as its spec says.
func (l *lab) installed(t testing.TB) func() bool {
	return func() bool {
		l.rollOut(t)
		return l.condition(t, operatorv1.ClusterManagerConditionApplied).Status == metav1.ConditionTrue &&
			l.condition(t, operatorv1.ClusterManagerConditionProgressing).Status == metav1.ConditionFalse &&
			l.get(t).Status.ObservedGeneration == l.get(t).Generation
	}
}

// startAs runs the operator as it runs on a cluster, with an account that has the
// rules and no others.
func (l *lab) startAs(t testing.TB, name string, rules []rbacv1.PolicyRule) {
	t.Helper()
	l.allow(t, name, name, rules)
	env.WaitAllowed(t.Context(), t, l.adminConfig, authorizationv1.SubjectAccessReviewSpec{User: account(name)}, "", rules[0], true)
	l.startManager(t, cluster.AsUser(l.adminConfig, account(name)))
}

// startManager runs the operator with its own cache and its watches, and returns
// what its controller has.
func (l *lab) startManager(t testing.TB, restConfig *rest.Config) ControllerDeps {
	t.Helper()
	cacheOptions, err := OperatorCacheOptions(l.deps.Options)
	expect.NoError(t, err)
	mgr := cluster.NewManager(t, restConfig, ctrl.Options{Scheme: l.client.Scheme(), Cache: cacheOptions})
	deps := l.deps
	deps.Client, deps.Reader, deps.Clock = mgr.GetClient(), mgr.GetAPIReader(), clock.RealClock{}
	expect.NoError(t, NewClusterManagerController(deps).SetupWithManager(mgr))
	cluster.RunManager(t, mgr)
	return deps
}

// account is the user of an operator with rules of its own.
func account(name string) string { return "operator:" + name }

// allow gives the account a ClusterRole.
func (l *lab) allow(t testing.TB, name, clusterRole string, rules []rbacv1.PolicyRule) {
	t.Helper()
	l.create(t, build.ClusterRole(clusterRole, rules...), build.ClusterRoleBinding(clusterRole, clusterRole, build.UserSubject(account(name))))
}
