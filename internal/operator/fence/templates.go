// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package fence

import (
	"context"
	"fmt"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/kube/deepcopy"
	"github.com/capstan-io/capstan/internal/propagation/reserved"
)

// TemplatesFence is the fence around the ClusterRole by which the propagation
// controller works with what policies select. The controller writes the rules
// there and may write any, so that somebody else has to limit them. It is in
// force for everybody.
type TemplatesFence struct{}

// FenceName is the name of the fence and of its binding.
func (TemplatesFence) FenceName() string { return "capstan-fence-templates-" + version }

func (t TemplatesFence) fenceMeta() metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: t.FenceName(), Labels: map[string]string{operatorv1.LabelPartOf: operatorv1.PartOfCapstan}}
}

// FencePolicy returns the fence.
func (t TemplatesFence) FencePolicy() *admissionv1.ValidatingAdmissionPolicy {
	fail := admissionv1.Fail
	scope := admissionv1.ClusterScope
	return &admissionv1.ValidatingAdmissionPolicy{
		TypeMeta:   metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "ValidatingAdmissionPolicy"},
		ObjectMeta: t.fenceMeta(),
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			FailurePolicy: &fail,
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{
				RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
					Rule: admissionv1.Rule{
						APIGroups: []string{"rbac.authorization.k8s.io"}, APIVersions: []string{"*"}, Resources: []string{"clusterroles"}, Scope: &scope,
					},
				},
			}}},
			MatchConditions: []admissionv1.MatchCondition{{
				Name: "templates", Expression: "object.metadata.name == " + celQuote(fleetv1alpha1.PropagationTemplatesRole),
			}},
			Variables: []admissionv1.Variable{{
				// A role without rules has null there.
				Name: "rules", Expression: "has(object.rules) && object.rules != null ? object.rules : []",
			}},
			Validations: []admissionv1.Validation{t.nothingElse(), t.allowedVerbs(), t.reservedKinds()},
		},
	}
}

// FenceBinding returns what puts the fence into force.
func (t TemplatesFence) FenceBinding() *admissionv1.ValidatingAdmissionPolicyBinding {
	return &admissionv1.ValidatingAdmissionPolicyBinding{
		TypeMeta:   metav1.TypeMeta{APIVersion: admissionv1.SchemeGroupVersion.String(), Kind: "ValidatingAdmissionPolicyBinding"},
		ObjectMeta: t.fenceMeta(),
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: t.FenceName(), ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		},
	}
}

// nothingElse keeps the role from getting the rules of others, from becoming part
// of a role that others have, and from what is no resource.
func (TemplatesFence) nothingElse() admissionv1.Validation {
	return admissionv1.Validation{
		Expression: "!has(object.aggregationRule) && " +
			"(!has(object.metadata.labels) || object.metadata.labels.all(key, !key.startsWith('rbac.authorization.k8s.io/'))) && " +
			"variables.rules.all(rule, !has(rule.nonResourceURLs) && has(rule.apiGroups) && has(rule.resources))",
		Message: "this ClusterRole has rules for resources only, and is aggregated neither from others nor into others",
	}
}

// allowedVerbs limits what may be done with a resource, its status and its finalizers.
// There are other parts of a resource, such as the commands of a pod, that reading
// is enough to use.
func (TemplatesFence) allowedVerbs() admissionv1.Validation {
	return admissionv1.Validation{
		Expression: "variables.rules.all(rule, rule.resources.all(name, !name.contains('*')) && (" +
			"rule.resources.all(name, !name.contains('/')) && rule.verbs.all(verb, verb in ['get', 'list', 'patch', 'watch']) || " +
			"rule.resources.all(name, name.endsWith('/status') || name.endsWith('/finalizers')) && rule.verbs.all(verb, verb in ['patch', 'update'])))",
		Message: "this ClusterRole may allow to get, list, watch and patch named resources, and to patch and update their status and finalizers, and nothing else",
	}
}

// reservedKinds bars those that are never templates.
func (TemplatesFence) reservedKinds() admissionv1.Validation {
	return admissionv1.Validation{
		Expression: fmt.Sprintf("variables.rules.all(rule, rule.apiGroups.all(group, group != '*' && !(group in %s)) && "+
			"(!('' in rule.apiGroups) || rule.resources.all(name, !(name.split('/')[0] in %s))))",
			celStringList(reserved.AllReservedGroups()...), celStringList(reserved.CoreResources()...)),
		Message: "this ClusterRole may not have rules for kinds that are never sent to clusters, or for all API groups",
	}
}

// EnsureFence makes the fence if there is none. It reads with the reader, which must
// not be a cache.
func (t TemplatesFence) EnsureFence(ctx context.Context, writer client.Writer, reader client.Reader) error {
	for _, object := range []client.Object{t.FencePolicy(), t.FenceBinding()} {
		kind := object.GetObjectKind().GroupVersionKind().Kind
		err := reader.Get(ctx, client.ObjectKeyFromObject(object), deepcopy.CopyObject(object))
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("reading the %s %q: %w", kind, t.FenceName(), err)
		}
		if err == nil {
			continue
		}
		if err := writer.Create(ctx, object); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating the %s %q: %w", kind, t.FenceName(), err)
		}
	}
	return nil
}

// RemoveFence removes the fence with what it is around. Who may not move it leaves it.
func (t TemplatesFence) RemoveFence(ctx context.Context, writer client.Writer) error {
	for _, object := range []client.Object{t.FenceBinding(), t.FencePolicy()} {
		err := writer.Delete(ctx, object)
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
			return fmt.Errorf("deleting the %s %q: %w", object.GetObjectKind().GroupVersionKind().Kind, t.FenceName(), err)
		}
	}
	return nil
}
