// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package fence_test

import (
	"context"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/config"
	"github.com/capstan-io/capstan/internal/kube/deepcopy"
	"github.com/capstan-io/capstan/internal/operator/fence"
	"github.com/capstan-io/capstan/internal/testing/build"
	"github.com/capstan-io/capstan/internal/testing/cluster"
	"github.com/capstan-io/capstan/internal/testing/env"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

// Namespaces of the test: one of somebody else, one that a user has given to the
// operator under test, and one of a cluster.
const (
	foreign = "payments"
	given   = "hosted1"
	joined  = "cluster1"

	grant = "open-cluster-management:managedcluster:cluster1:work"
)

// try is a request of an operator. It is a dry run, so it changes nothing, and
// is admitted or refused like any other.
type try func(ctx context.Context, c client.Client) error

func create(object client.Object) try {
	return func(ctx context.Context, c client.Client) error {
		return c.Create(ctx, deepcopy.CopyObject(object), client.DryRunAll)
	}
}

func remove(object client.Object) try {
	return func(ctx context.Context, c client.Client) error { return c.Delete(ctx, object, client.DryRunAll) }
}

func patch(object client.Object, patch string) try {
	return func(ctx context.Context, c client.Client) error {
		return c.Patch(ctx, deepcopy.CopyObject(object), client.RawPatch(types.MergePatchType, []byte(patch)), client.DryRunAll)
	}
}

func meta(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

func secret(namespace, name string, kind corev1.SecretType) *corev1.Secret {
	s := &corev1.Secret{ObjectMeta: meta(namespace, name), Type: kind}
	switch kind {
	case corev1.SecretTypeServiceAccountToken:
		s.Annotations = map[string]string{corev1.ServiceAccountNameKey: "strong"}
	case "bootstrap.kubernetes.io/token":
		s.StringData = map[string]string{"token-id": "abcdef", "token-secret": "0123456789abcdef", "usage-bootstrap-authentication": "true"}
	}
	return s
}

// deployment is one of a pod as the operators make them, but for the change.
func deployment(namespace, account string, change ...func(*corev1.PodSpec)) *appsv1.Deployment {
	no := false
	labels := map[string]string{"app": "test"}
	d := &appsv1.Deployment{ObjectMeta: meta(namespace, "test"), Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
			ServiceAccountName: account,
			Containers: []corev1.Container{{
				Name: "test", Image: "test:1", SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: &no},
			}},
			Volumes: []corev1.Volume{{Name: "tmp", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
		}},
	}}
	for _, c := range change {
		c(&d.Spec.Template.Spec)
	}
	return d
}

func budget(namespace string) *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{ObjectMeta: meta(namespace, "x"), Spec: policyv1.PodDisruptionBudgetSpec{
		MaxUnavailable: ptr.To(intstr.FromInt32(0)), Selector: &metav1.LabelSelector{},
	}}
}

func roleBinding(namespace, name, role string) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: meta(namespace, name),
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "somebody"}},
	}
}

func hostPath(pod *corev1.PodSpec) {
	pod.Volumes = append(pod.Volumes, corev1.Volume{
		Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/var/lib/kubelet"}},
	})
}

func privileged(pod *corev1.PodSpec) {
	yes := true
	pod.InitContainers = []corev1.Container{{Name: "root", Image: "test:1", SecurityContext: &corev1.SecurityContext{Privileged: &yes}}}
}

// attacks are what whoever has the token of either operator could get further
// with, where the role of the operator allows it.
func attacks(own, account string) map[string]try {
	const strong = "clusterrole-aggregation-controller"
	return map[string]try{
		"a token Secret of a strong account, with a name that it may read": create(secret(metav1.NamespaceSystem, operatorv1.ImagePullSecret, corev1.SecretTypeServiceAccountToken)),
		"a token Secret in a namespace of its own":                         create(secret(own, operatorv1.ImagePullSecret, corev1.SecretTypeServiceAccountToken)),
		"a bootstrap token":                                            create(secret(metav1.NamespaceSystem, "bootstrap-token-abcdef", "bootstrap.kubernetes.io/token")),
		"any Secret of somebody else's namespace":                      create(secret(foreign, "x", corev1.SecretTypeOpaque)),
		"pods in kube-system as a strong account":                      create(deployment(metav1.NamespaceSystem, strong)),
		"pods in kube-system as an account called like one of its own": create(deployment(metav1.NamespaceSystem, account)),
		"pods in its own namespace as a foreign account":               create(deployment(own, "default")),
		"pods as the operator itself":                                  create(deployment(operatorv1.DefaultOperatorNamespace, "cluster-manager")),
		"pods as the other operator":                                   create(deployment(operatorv1.DefaultOperatorNamespace, "klusterlet")),
		"pods with files of the node":                                  create(deployment(own, account, hostPath)),
		"pods in the network of the node":                              create(deployment(own, account, func(p *corev1.PodSpec) { p.HostNetwork = true })),
		"pods among the processes of the node":                         create(deployment(own, account, func(p *corev1.PodSpec) { p.HostPID = true })),
		"privileged pods":                                              create(deployment(own, account, privileged)),
		"an account of somebody else's namespace":                      create(&corev1.ServiceAccount{ObjectMeta: meta(foreign, "x")}),
		"taking a namespace over":                                      patch(build.Namespace(foreign), `{"metadata":{"labels":{"fleet.capstan.io/operated-by":"cluster-manager"}}}`),
		"giving a namespace to the other operator":                     patch(build.Namespace(foreign), `{"metadata":{"labels":{"fleet.capstan.io/operated-by":"klusterlet"}}}`),
		"making a namespace one of add-ons":                            patch(build.Namespace(foreign), `{"metadata":{"labels":{"addon.open-cluster-management.io/namespace":"true"}}}`),
		"letting pods do more in a namespace of its own":               patch(build.Namespace(own), `{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":"privileged"}}}`),
		"deleting somebody else's namespace":                           remove(build.Namespace(foreign)),
		"deleting kube-public's grants":                                remove(&rbacv1.RoleBinding{ObjectMeta: meta(metav1.NamespacePublic, "foreign")}),
	}
}

// work is what either operator does.
func work(own, account string) map[string]try {
	return map[string]try{
		"pods in its own namespace":                   create(deployment(own, account)),
		"pods in a namespace that it was given":       create(deployment(given, account)),
		"a Secret in its own namespace":               create(secret(own, operatorv1.ImagePullSecret, corev1.SecretTypeOpaque)),
		"a Secret in a namespace that it was given":   create(secret(given, operatorv1.ImagePullSecret, corev1.SecretTypeOpaque)),
		"an account in its own namespace":             create(&corev1.ServiceAccount{ObjectMeta: meta(own, account)}),
		"a namespace":                                 create(build.Namespace("new")),
		"another label on its own namespace":          patch(build.Namespace(own), `{"metadata":{"labels":{"operator.open-cluster-management.io/klusterlet":"x"}}}`),
		"another label on a namespace that was given": patch(build.Namespace(given), `{"metadata":{"labels":{"operator.open-cluster-management.io/klusterlet":"x"}}}`),
		"the deletion of a namespace that was given":  remove(build.Namespace(given)),
	}
}

// TestFence lets the accounts of both operators, with the roles that they are
// installed with, try what they shall not, first without their fence, to see
// that it is the fence which stops them, and then with it.
func TestFence(t *testing.T) {
	_, admin := servers.Start(t)
	cases := map[string]struct {
		folder        string
		operator      fence.FencedOperator
		own, account  string
		attacks, work map[string]try
	}{
		"cluster-manager": {
			folder: config.ClusterManagerOperator, operator: fence.ClusterManagerOperator(operatorv1.DefaultOperatorNamespace),
			own: operatorv1.DefaultHubNamespace, account: "registration-controller-sa",
			attacks: map[string]try{
				"a Service before somebody else's pods":       create(&corev1.Service{ObjectMeta: meta(foreign, "x"), Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 1}}}}),
				"a budget for somebody else's pods":           create(budget(foreign)),
				"a role in somebody else's namespace":         create(&rbacv1.Role{ObjectMeta: meta(foreign, "x")}),
				"a grant to a cluster of its own":             create(roleBinding(joined, grant+"2", "open-cluster-management:managedcluster:work")),
				"somebody else in the grant of a cluster":     patch(roleBinding(joined, grant, ""), `{"subjects":[{"apiGroup":"rbac.authorization.k8s.io","kind":"User","name":"thief"}]}`),
				"the namespace of a hub with a token in it":   create(secret(given, "signer-secret", corev1.SecretTypeServiceAccountToken)),
				"pods as the agent that does all on a member": create(deployment(operatorv1.DefaultOperatorNamespace, "klusterlet-work-sa")),
			},
			work: map[string]try{
				"what bootstrap identities may read":   create(&rbacv1.Role{ObjectMeta: meta(metav1.NamespacePublic, operatorv1.BootstrapClusterRole)}),
				"a finalizer off a grant":              patch(roleBinding(joined, grant, ""), `{"metadata":{"finalizers":null}}`),
				"a finalizer off a grant to nobody":    patch(roleBinding(joined, grant+"-nobody", ""), `{"metadata":{"finalizers":null}}`),
				"the deletion of a grant":              remove(roleBinding(joined, grant, "")),
				"pods of a later component":            create(deployment(operatorv1.DefaultHubNamespace, "push-agent-sa")),
				"pods of the aggregated API server":    create(deployment(operatorv1.DefaultHubNamespace, "apiserver-sa")),
				"a budget for them":                    create(budget(operatorv1.DefaultHubNamespace)),
				"the identity that agents join as":     create(&corev1.ServiceAccount{ObjectMeta: meta(operatorv1.DefaultOperatorNamespace, operatorv1.BootstrapServiceAccount)}),
				"its label on its own namespace":       patch(build.Namespace(operatorv1.DefaultHubNamespace), `{"metadata":{"labels":{"fleet.capstan.io/operated-by":"cluster-manager"}}}`),
				"a namespace that is its own at birth": create(build.Namespace("new", operatorv1.LabelOperatedBy, "cluster-manager")),
			},
		},
		"klusterlet": {
			folder: config.KlusterletOperator, operator: fence.KlusterletOperator(operatorv1.DefaultOperatorNamespace),
			own: operatorv1.DefaultAgentNamespace, account: "klusterlet-work-sa",
			attacks: map[string]try{
				"another Secret in a namespace of add-ons": create(secret("addons", "x", corev1.SecretTypeOpaque)),
				"pods of the hub":                          create(deployment(operatorv1.DefaultHubNamespace, "klusterlet-work-sa")),
				"pods as a component of the hub":           create(deployment(operatorv1.DefaultOperatorNamespace, "registration-controller-sa")),
			},
			work: map[string]try{
				"a pull secret in a namespace of add-ons": create(secret("addons", operatorv1.ImagePullSecret, corev1.SecretTypeOpaque)),
				"pods of the registration agent":          create(deployment(operatorv1.DefaultAgentNamespace, "edge-registration-sa")),
				"the label of add-ons on their namespace": patch(build.Namespace(operatorv1.DefaultAddOnNamespace), `{"metadata":{"labels":{"addon.open-cluster-management.io/namespace":"true","fleet.capstan.io/operated-by":"klusterlet"}}}`),
			},
		},
	}
	prepare(t, admin)
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			root, operator := install(t, admin, name, c.folder), as(t, admin, name)
			tries := []map[string]try{attacks(c.own, c.account), c.attacks}
			works := []map[string]try{work(c.own, c.account), c.work}
			admitted(t, operator, "without a fence this does not work, so it proves nothing", append(tries, works...)...)
			put(t, root, operator, c.operator)
			refused(t, operator, c.operator.FenceName(), tries...)
			admitted(t, operator, "the fence stops what the operator has to do", works...)
			unmovable(t, operator, c.operator)
			admitted(t, root, "the fence stops an administrator", attacks(c.own, c.account))
		})
	}
}

// admitted fails the test if any of the requests is refused.
func admitted(t *testing.T, c client.Client, complaint string, groups ...map[string]try) {
	t.Helper()
	for _, group := range groups {
		for what, do := range group {
			if err := do(t.Context(), c); err != nil {
				t.Errorf("%s: %q: %v", complaint, what, err)
			}
		}
	}
}

// refused fails the test if any of the requests is not refused by the policy.
func refused(t *testing.T, c client.Client, policy string, groups ...map[string]try) {
	t.Helper()
	for _, group := range groups {
		for what, do := range group {
			err := do(t.Context(), c)
			if !apierrors.IsForbidden(err) && !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), policy) {
				t.Errorf("the fence does not stop %q: got %v", what, err)
			}
		}
	}
}

// unmovable fails the test if the operator may change or delete its own fence.
func unmovable(t *testing.T, c client.Client, o fence.FencedOperator) {
	t.Helper()
	for _, object := range []client.Object{o.FencePolicy(), o.FenceBinding()} {
		if err := remove(object)(t.Context(), c); !apierrors.IsForbidden(err) {
			t.Errorf("it may delete its own fence: %v", err)
		}
		if err := patch(object, `{"metadata":{"labels":{"x":"y"}}}`)(t.Context(), c); !apierrors.IsForbidden(err) {
			t.Errorf("it may change its own fence: %v", err)
		}
	}
}

// prepare makes the namespaces of the test, and what of others is in them.
func prepare(t *testing.T, admin *rest.Config) {
	t.Helper()
	root := cluster.NewClient(t, admin)
	objects := []client.Object{
		build.Namespace(operatorv1.DefaultOperatorNamespace), build.Namespace(operatorv1.DefaultHubNamespace), build.Namespace(operatorv1.DefaultAgentNamespace),
		build.Namespace(operatorv1.DefaultAddOnNamespace), build.Namespace(foreign), build.Namespace(joined),
		build.Namespace("addons", operatorv1.LabelAddOnNamespace, "true"), build.Namespace(given),
		roleBinding(metav1.NamespacePublic, "foreign", "view"),
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "open-cluster-management:managedcluster:work"}},
	}
	held := roleBinding(joined, grant, "open-cluster-management:managedcluster:work")
	held.Finalizers = []string{"cluster.open-cluster-management.io/manifest-work-cleanup"}
	nobody := held.DeepCopy()
	nobody.Name, nobody.Subjects = grant+"-nobody", nil
	for _, object := range append(objects, held, nobody) {
		if err := root.Create(t.Context(), object); client.IgnoreAlreadyExists(err) != nil {
			t.Fatal(err)
		}
	}
}

// install gives the operator's account its role, and the namespace that a user
// gives it, and returns a client of the administrator.
func install(t *testing.T, admin *rest.Config, name, folder string) client.Client {
	t.Helper()
	root := cluster.NewClient(t, admin)
	expect.NoError(t, root.Patch(t.Context(), build.Namespace(given), client.RawPatch(types.MergePatchType,
		[]byte(`{"metadata":{"labels":{"fleet.capstan.io/operated-by":"`+name+`"}}}`))))
	objects, err := config.Operator(folder)
	expect.NoError(t, err)
	for _, object := range objects {
		switch object.GetKind() {
		case "ServiceAccount", "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding":
			expect.NoError(t, root.Create(t.Context(), object))
		}
	}
	rule := rbacv1.PolicyRule{APIGroups: []string{"apps"}, Resources: []string{"deployments"}, Verbs: []string{"create"}}
	env.WaitAllowed(t.Context(), t, admin, env.ServiceAccountReview(operatorv1.DefaultOperatorNamespace, name), foreign, rule, true)
	return root
}

// put lets the operator make its fence itself, as where its manifests cannot
// have it, and waits until it holds.
func put(t *testing.T, root, operator client.Client, o fence.FencedOperator) {
	t.Helper()
	for _, object := range []client.Object{o.FencePolicy(), o.FenceBinding()} {
		if err := operator.Create(t.Context(), object); err != nil {
			t.Fatalf("the operator cannot make its fence: %v", err)
		}
	}
	attack := create(secret(foreign, "x", corev1.SecretTypeOpaque))
	expect.EventuallyTrue(t, expect.Patience, "the fence holds", func() bool { return attack(t.Context(), operator) != nil })
	policy := &admissionv1.ValidatingAdmissionPolicy{}
	expect.NoError(t, root.Get(t.Context(), client.ObjectKey{Name: o.FenceName()}, policy))
}

// as returns a client that is the account of the operator.
func as(t *testing.T, admin *rest.Config, name string) client.Client {
	t.Helper()
	account := env.ServiceAccountReview(operatorv1.DefaultOperatorNamespace, name)
	return cluster.NewClient(t, cluster.AsUser(admin, account.User, account.Groups...))
}

// TestAnOperatorTellsWhetherItIsFencedIn lets a PolicyInstaller make a fence, and shows it
// what can become of one.
func TestAnOperatorTellsWhetherItIsFencedIn(t *testing.T) {
	_, admin := servers.Start(t)
	root := cluster.NewClient(t, admin)
	o := fence.KlusterletOperator(operatorv1.DefaultOperatorNamespace)
	now := clocktesting.NewFakePassiveClock(time.Now())
	tells := func(keeper *fence.PolicyInstaller, status metav1.ConditionStatus, reason, message string) {
		t.Helper()
		got := keeper.EnsureFence(t.Context(), o).UnfencedCondition()
		if got.Type != operatorv1.ConditionUnfenced || got.Status != status || got.Reason != reason || !strings.Contains(got.Message, message) {
			t.Errorf("got %s=%s, reason %s, message %q, want %s, %s and %q in the message", got.Type, got.Status, got.Reason, got.Message, status, reason, message)
		}
	}
	stranger := as(t, admin, "stranger") // has no role, as an operator of OCM's charts has none for policies
	tells(fence.NewPolicyInstaller(stranger, stranger, now), metav1.ConditionTrue, operatorv1.ReasonFenceForbidden, "validatingadmissionpolicies")

	keeper := fence.NewPolicyInstaller(root, root, now)
	tells(keeper, metav1.ConditionFalse, operatorv1.ReasonFenced, o.FenceName())
	for name, change := range map[string]struct {
		object client.Object
		patch  string
	}{
		"a policy for some namespaces only": {o.FencePolicy(), `{"spec":{"matchConstraints":{"namespaceSelector":{"matchLabels":{"a":"b"}}}}}`},
		"a policy without a rule":           {o.FencePolicy(), `{"spec":{"validations":[{"expression":"true"}]}}`},
		"a binding that only warns":         {o.FenceBinding(), `{"spec":{"validationActions":["Warn"]}}`},
		"a binding of another policy":       {o.FenceBinding(), `{"spec":{"policyName":"other"}}`},
	} {
		t.Run(name, func(t *testing.T) {
			expect.NoError(t, root.Patch(t.Context(), change.object, client.RawPatch(types.MergePatchType, []byte(change.patch))))
			tells(keeper, metav1.ConditionFalse, operatorv1.ReasonFenced, "") // it does not look all the time
			now.SetTime(now.Now().Add(time.Hour))
			tells(keeper, metav1.ConditionTrue, operatorv1.ReasonFenceChanged, o.FenceName())
			for _, object := range []client.Object{o.FencePolicy(), o.FenceBinding()} {
				expect.NoError(t, root.Delete(t.Context(), object))
			}
			now.SetTime(now.Now().Add(time.Hour))
			tells(keeper, metav1.ConditionFalse, operatorv1.ReasonFenced, o.FenceName())
		})
	}
}
