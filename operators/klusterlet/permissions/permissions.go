// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package permissions

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/kube/rights"
)

// CompletionName is the ClusterRole, and its binding, by which the operator
// completes the role that it was given.
const CompletionName = "capstan-klusterlet-operator"

// recheck is how often it is looked whether the role is another than at the start.
const recheck = 5 * time.Minute

// PermissionSet is what the operator may do of what it asks for; nil is all.
type PermissionSet struct {
	lacked []rbacv1.PolicyRule
	// completed are the rules that the operator has given itself.
	completed []rbacv1.PolicyRule
}

// ReviewOperatorRole asks what the account of the client may do, and completes its role if
// the role allows that. The client must not read from a cache.
func ReviewOperatorRole(ctx context.Context, c client.Client) (*PermissionSet, error) {
	held, err := rights.ReviewRights(ctx, c)
	if err != nil {
		return nil, err
	}
	completion := rights.Completion{
		Client: c, Name: CompletionName, Labels: map[string]string{operatorv1.LabelPartOf: operatorv1.PartOfCapstan},
	}
	set := &PermissionSet{lacked: held.MissingRules(wantedRules()...)}
	if len(set.lacked) > 0 {
		err := completion.AddMissingRules(ctx, wantedRules(), set.lacked)
		if err == nil {
			set.lacked = nil
		} else if !apierrors.IsForbidden(err) {
			return nil, err
		}
	}
	if set.completed, err = completion.ReadRules(ctx); err != nil && !apierrors.IsForbidden(err) {
		return nil, err
	}
	return set, nil
}

// NewRoleWatcher returns what ends the operator once its role is another one, so that the
// one that is started in its place does what that allows.
func (s *PermissionSet) NewRoleWatcher(c client.Writer) manager.Runnable {
	return &rights.ChangeWatcher{Client: c, Wanted: wantedRules(), Lacked: s.lacked, Every: recheck}
}

// Allows reports whether the operator may do what the use takes.
func (s *PermissionSet) Allows(use PermissionUse) bool { return s.allowsRules(use.rules) }

// MayWatchKind reports whether the operator may watch objects of the kind; those of
// others than it asks for it may.
func (s *PermissionSet) MayWatchKind(object client.Object) bool {
	return !slices.ContainsFunc(cachedKinds(), func(k cachedKind) bool {
		return reflect.TypeOf(k.object) == reflect.TypeOf(object) && !s.allowsRules(k.rules)
	})
}

// MayWatchSecret reports whether the operator may watch secrets of the name.
func (s *PermissionSet) MayWatchSecret(name string) bool {
	return s.allowsRules(withResourceNames(watchRules("", "secrets"), name))
}

// ClientOptions returns the options of a client that reads past the cache what may not
// be watched, as a cache that never fills would hold up who reads from it.
func (s *PermissionSet) ClientOptions() client.Options {
	var live []client.Object
	for _, kind := range cachedKinds() {
		if !s.allowsRules(kind.rules) {
			live = append(live, kind.object)
		}
	}
	return client.Options{Cache: &client.CacheOptions{DisableFor: live}}
}

// FeaturesLimitedCondition returns the condition FeaturesLimited.
func (s *PermissionSet) FeaturesLimitedCondition() metav1.Condition {
	condition := metav1.Condition{Type: operatorv1.KlusterletConditionFeaturesLimited, Status: metav1.ConditionFalse}
	switch {
	case s == nil || len(s.lacked) == 0 && len(s.completed) == 0:
		condition.Reason = operatorv1.KlusterletReasonAllFeaturesPermitted
		condition.Message = "the operator has all the permissions that it needs"
	case len(s.lacked) > 0:
		condition.Status = metav1.ConditionTrue
		condition.Reason = operatorv1.KlusterletReasonPermissionsMissing
		condition.Message = s.describeLackedRules()
	default:
		condition.Reason = operatorv1.KlusterletReasonPermissionsAdded
		condition.Message = fmt.Sprintf("the operator extended its role, which allows this, with ClusterRole %q: %s",
			CompletionName, rights.DescribeRules(s.completed))
	}
	return condition
}

// describeLackedRules says what is off, and which rules turn it on.
func (s *PermissionSet) describeLackedRules() string {
	var lines []string
	told := map[string]bool{}
	for _, use := range permissionUses() {
		lacked := rights.DescribeRules(s.lackedRulesOf(use.rules))
		if lacked == "" || told[lacked] {
			continue
		}
		told[lacked] = true
		lines = append(lines, fmt.Sprintf("%s; this takes the rule: %s", use.off, lacked))
	}
	return "The role of the operator lacks rules. " + strings.Join(lines, "\n")
}

func (s *PermissionSet) allowsRules(rules []rbacv1.PolicyRule) bool {
	return len(s.lackedRulesOf(rules)) == 0
}

// lackedRulesOf returns what of the rules is lacked.
func (s *PermissionSet) lackedRulesOf(rules []rbacv1.PolicyRule) []rbacv1.PolicyRule {
	if s == nil {
		return nil
	}
	lacked, _ := rights.FromRules(s.lacked...).SplitGrantable(rules)
	return lacked
}

// wantedRules are the rules of all uses.
func wantedRules() []rbacv1.PolicyRule {
	var rules []rbacv1.PolicyRule
	for _, use := range permissionUses() {
		rules = append(rules, use.rules...)
	}
	return rules
}
