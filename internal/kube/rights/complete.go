// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package rights

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	metav1ac "k8s.io/client-go/applyconfigurations/meta/v1"
	rbacv1ac "k8s.io/client-go/applyconfigurations/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// effectPoll is how often it is looked whether a role has taken effect, and
	// effectMax how long that may take.
	effectPoll = 50 * time.Millisecond
	effectMax  = 10 * time.Second
)

// Completion is a ClusterRole, bound by a ClusterRoleBinding of the same name, by
// which an account gives itself what the roles that others gave it lack. That
// takes an account which may escalate and bind roles, and so could give itself
// anything: it gains nothing by it but to do its work.
type Completion struct {
	// Client must not read from a cache.
	Client client.Client
	// Name of the ClusterRole and of its binding.
	Name string
	// Labels of both.
	Labels map[string]string
}

// ReadRules returns those of the ClusterRole; nil means that there is none.
func (c Completion) ReadRules(ctx context.Context) ([]rbacv1.PolicyRule, error) {
	role := &rbacv1.ClusterRole{}
	if err := c.Client.Get(ctx, client.ObjectKey{Name: c.Name}, role); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("reading ClusterRole %q: %w", c.Name, err)
	}
	return role.Rules, nil
}

// AddMissingRules gives the account the missing rules, and returns when it has them. Of what
// the ClusterRole had before it keeps what is still wanted.
func (c Completion) AddMissingRules(ctx context.Context, wanted, missing []rbacv1.PolicyRule) error {
	before, err := c.ReadRules(ctx)
	if err != nil {
		return err
	}
	kept, _ := FromRules(before...).SplitGrantable(wanted)
	account, err := c.ownSubject(ctx)
	if err != nil {
		return err
	}
	owners, err := c.clusterRoleBindingOwners(ctx, account)
	if err != nil {
		return err
	}
	role := rbacv1ac.ClusterRole(c.Name).WithLabels(c.Labels).WithOwnerReferences(owners...)
	for _, rule := range slices.Concat(kept, missing) {
		role.WithRules(rbacv1ac.PolicyRule().WithAPIGroups(rule.APIGroups...).WithResources(rule.Resources...).
			WithResourceNames(rule.ResourceNames...).WithNonResourceURLs(rule.NonResourceURLs...).WithVerbs(rule.Verbs...))
	}
	if err := c.Client.Apply(ctx, role, client.FieldOwner(c.Name), client.ForceOwnership); err != nil {
		return fmt.Errorf("completing the role of %q by ClusterRole %q: %w", account.Name, c.Name, err)
	}
	binding := rbacv1ac.ClusterRoleBinding(c.Name).WithLabels(c.Labels).WithOwnerReferences(owners...).
		WithRoleRef(rbacv1ac.RoleRef().WithAPIGroup(rbacv1.GroupName).WithKind("ClusterRole").WithName(c.Name)).
		WithSubjects(subjectConfig(account))
	if err := c.Client.Apply(ctx, binding, client.FieldOwner(c.Name), client.ForceOwnership); err != nil {
		return fmt.Errorf("binding %q to ClusterRole %q: %w", account.Name, c.Name, err)
	}
	return c.awaitEffect(ctx, missing)
}

func (c Completion) awaitEffect(ctx context.Context, missing []rbacv1.PolicyRule) error {
	err := wait.PollUntilContextTimeout(ctx, effectPoll, effectMax, true, func(ctx context.Context) (bool, error) {
		held, err := ReviewRights(ctx, c.Client)
		return err == nil && held.AllowsRules(missing...), err
	})
	if err != nil {
		return fmt.Errorf("waiting until ClusterRole %q allows %s: %w", c.Name, DescribeRules(missing), err)
	}
	return nil
}

// ownSubject returns who the client is.
func (c Completion) ownSubject(ctx context.Context) (rbacv1.Subject, error) {
	review := &authenticationv1.SelfSubjectReview{}
	if err := c.Client.Create(ctx, review); err != nil {
		return rbacv1.Subject{}, fmt.Errorf("asking who this account is: %w", err)
	}
	user := review.Status.UserInfo.Username
	if account, ok := strings.CutPrefix(user, "system:serviceaccount:"); ok {
		if namespace, name, ok := strings.Cut(account, ":"); ok {
			return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}, nil
		}
	}
	return rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}, nil
}

// clusterRoleBindingOwners returns a reference to a binding that someone else gave the account: once
// that is gone, such as with the chart that it is from, so is the completion.
func (c Completion) clusterRoleBindingOwners(ctx context.Context, account rbacv1.Subject) ([]*metav1ac.OwnerReferenceApplyConfiguration, error) {
	list := &rbacv1.ClusterRoleBindingList{}
	if err := c.Client.List(ctx, list); err != nil {
		return nil, fmt.Errorf("listing the bindings of %q: %w", account.Name, err)
	}
	slices.SortFunc(list.Items, func(a, b rbacv1.ClusterRoleBinding) int { return cmp.Compare(a.Name, b.Name) })
	for i := range list.Items {
		binding := &list.Items[i]
		if binding.Name == c.Name || !slices.ContainsFunc(binding.Subjects, func(s rbacv1.Subject) bool { return isSameAccount(s, account) }) {
			continue
		}
		return []*metav1ac.OwnerReferenceApplyConfiguration{
			metav1ac.OwnerReference().WithAPIVersion(rbacv1.SchemeGroupVersion.String()).WithKind("ClusterRoleBinding").
				WithName(binding.Name).WithUID(binding.UID),
		}, nil
	}
	return nil, nil
}

// isSameAccount reports whether a subject is the account. A ServiceAccount is a user, too.
func isSameAccount(s, account rbacv1.Subject) bool {
	return s.Kind == account.Kind && s.Namespace == account.Namespace && s.Name == account.Name ||
		s.Kind == rbacv1.UserKind && account.Kind == rbacv1.ServiceAccountKind &&
			s.Name == "system:serviceaccount:"+account.Namespace+":"+account.Name
}

func subjectConfig(account rbacv1.Subject) *rbacv1ac.SubjectApplyConfiguration {
	s := rbacv1ac.Subject().WithKind(account.Kind).WithName(account.Name)
	if account.Kind == rbacv1.ServiceAccountKind {
		return s.WithNamespace(account.Namespace)
	}
	return s.WithAPIGroup(account.APIGroup)
}
