// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package member

import (
	"context"
	"fmt"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	rbacv1ac "k8s.io/client-go/applyconfigurations/rbac/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/config"
	"github.com/capstan-io/capstan/internal/operator/render"
	"github.com/capstan-io/capstan/operators/klusterlet/manifests"
)

// tokenSeconds is how long the first token of a Push cluster lasts, unless the
// member allows less. The push agent renews it long before.
const tokenSeconds = 7 * 24 * 60 * 60

// PushInstallation is what the push agent of a hub has in a member.
type PushInstallation struct {
	// Cluster is the name of the cluster on the hub.
	Cluster string
	// Hub is the UID of the namespace kube-system of the hub.
	Hub string
	// Namespace is where the ServiceAccount is.
	Namespace string
	// Role is a ClusterRole of the member that the ServiceAccount gets besides; "" is
	// none.
	Role string
}

// PushOf returns what a hub has in a member for one of its clusters. The
// namespace may be empty for who only wants to find it.
func PushOf(ctx context.Context, hub client.Reader, cluster, namespace string) (PushInstallation, error) {
	system := &corev1.Namespace{}
	if err := hub.Get(ctx, client.ObjectKey{Name: metav1.NamespaceSystem}, system); err != nil {
		return PushInstallation{}, fmt.Errorf("find out which cluster the hub is: %w", err)
	}
	return PushInstallation{Cluster: cluster, Hub: string(system.UID), Namespace: namespace}, nil
}

// Account returns the ServiceAccount that the push agent works as.
func (p PushInstallation) Account() rbacv1.Subject {
	return render.AccountSubject(p.Namespace, fleetv1alpha1.MemberAccountPrefix+p.Cluster)
}

// Labels are on all objects but the namespace, and on no others.
func (p PushInstallation) Labels() map[string]string {
	return map[string]string{fleetv1alpha1.LabelPushCluster: p.Cluster, fleetv1alpha1.LabelPushHub: p.Hub}
}

// NamespaceObject returns the namespace of the ServiceAccount.
func (p PushInstallation) NamespaceObject() render.Object {
	return render.Namespace(render.ResourceMeta{Name: p.Namespace, Labels: map[string]string{fleetv1alpha1.LabelPushCluster: ""}})
}

// RenderObjects returns what is in the member besides the namespace and the
// definitions (config.SpokeCRDs), in the order in which it is applied: the
// ServiceAccount, the rights of the agents of a Pull cluster, and the right to
// its own tokens. The roles, which an administrator may lack the rights for,
// come before what depends on them.
func (p PushInstallation) RenderObjects() ([]render.Object, error) {
	agent, err := agentRules()
	if err != nil {
		return nil, err
	}
	account := p.Account()
	named := func(suffix string) render.ResourceMeta {
		return render.ResourceMeta{Name: p.objectName(suffix), Labels: p.Labels()}
	}
	token := render.ResourceMeta{Name: account.Name + ":token", Namespace: p.Namespace, Labels: p.Labels()}
	selector := metav1ac.LabelSelector().WithMatchLabels(map[string]string{operatorv1.LabelAggregateToWork: "true"})
	objects := []render.Object{
		render.ClusterRole(named("agent"), agent),
		render.ClusterRole(named("execution"), manifests.ExecutionRules()),
		// Without rules: these are filled in by Kubernetes.
		rbacv1ac.ClusterRole(named("aggregate").Name).WithLabels(p.Labels()).
			WithAggregationRule(rbacv1ac.AggregationRule().WithClusterRoleSelectors(selector)),
		render.ServiceAccount(render.ResourceMeta{Name: account.Name, Namespace: p.Namespace, Labels: p.Labels()}),
		render.ClusterRoleBinding(named("agent"), named("agent").Name, account),
		render.ClusterRoleBinding(named("execution"), named("execution").Name, account),
		render.ClusterRoleBinding(named("aggregate"), named("aggregate").Name, account),
		render.ClusterRoleBinding(named("admin"), manifests.AdminRole, account),
		render.Role(token, []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"serviceaccounts/token"}, ResourceNames: []string{account.Name}, Verbs: []string{"create"},
		}}),
		render.RoleBinding(token, token.Name, account),
	}
	if p.Role != "" { // in the name, as a binding cannot be given another role
		objects = append(objects, render.ClusterRoleBinding(named(roleSuffix+p.Role), p.Role, account))
	}
	return objects, nil
}

// roleSuffix is how what binds the role goes on that the user chose, before the name of the role.
const roleSuffix = "role:"

// objectName returns the name of an object of the whole member. Neither a namespace nor a cluster has
// a colon in its name.
func (p PushInstallation) objectName(suffix string) string {
	return fmt.Sprintf("capstan:%s:%s:%s", p.Namespace, p.Cluster, suffix)
}

// agentRules are the rights of the agents of a Pull cluster in the whole member.
func agentRules() ([]rbacv1.PolicyRule, error) {
	var all []rbacv1.PolicyRule
	for _, component := range []string{config.RegistrationAgent, config.WorkAgent} {
		rules, _, err := config.Rules(component)
		if err != nil {
			return nil, err
		}
		all = append(all, rules...)
	}
	return all, nil
}

// RequestToken asks the member for a token of the ServiceAccount, which has to be there.
func (p PushInstallation) RequestToken(ctx context.Context, c client.Client) (string, error) {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: p.Namespace, Name: p.Account().Name}}
	request := &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: ptr.To[int64](tokenSeconds)}}
	if err := c.SubResource("token").Create(ctx, account, request); err != nil {
		return "", fmt.Errorf("get a token of ServiceAccount %q of the member: %w", p.Namespace+"/"+account.Name, err)
	}
	return request.Status.Token, nil
}
