// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apiextensions "k8s.io/apiextensions-apiserver/pkg/client/clientset/clientset"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

const (
	markerPrefix = "env-marker-"
	// markerLabel is what the markers of admission concern, and nothing else has.
	markerLabel = "env.capstan.io/marker"
)

// awaitForgotten waits until the server has heard of what was changed in its store. What
// only names other objects, such as roles and admission, it learns of some time after
// they are written, in the order in which they are; so something of the same kind is
// written after them, a marker, and once that has an effect it is taken away.
func (s *testServer) awaitForgotten(ctx context.Context, c changes, definitions []apiextensionsv1.CustomResourceDefinition) error {
	clients, err := kubernetes.NewForConfig(s.config)
	if err != nil {
		return err //nolint:wrapcheck // it says what of the configuration is wrong
	}
	m := markers{clients: clients, name: fmt.Sprintf("%s%d", markerPrefix, s.resets.Add(1))}
	changed := func(resources ...string) bool {
		return slices.ContainsFunc(c.allKeys(), func(key string) bool {
			resource, _, _ := strings.Cut(strings.TrimPrefix(key, objectsPrefix), "/")
			return slices.Contains(resources, resource) && !strings.Contains(key, "/"+markerPrefix) // markers concern nobody
		})
	}
	if changed("roles", "rolebindings", "clusterroles", "clusterrolebindings") {
		if err := m.awaitRoles(ctx); err != nil {
			return fmt.Errorf("waiting until roles are forgotten: %w", err)
		}
	}
	if changed("mutatingadmissionpolicies", "mutatingadmissionpolicybindings") {
		if err := m.awaitMutation(ctx); err != nil {
			return fmt.Errorf("waiting until policies that mutate are forgotten: %w", err)
		}
	}
	if changed("validatingadmissionpolicies", "validatingadmissionpolicybindings", "mutatingwebhookconfigurations", "validatingwebhookconfigurations") {
		if err := m.awaitAdmission(ctx); err != nil {
			return fmt.Errorf("waiting until admission is forgotten: %w", err)
		}
	}
	return s.forgetsDefinitions(ctx, clients, c, definitions)
}

// changedDefinitions returns the definitions among what was changed, as long as the server
// knows them.
func (s *testServer) changedDefinitions(ctx context.Context, keys []string) ([]apiextensionsv1.CustomResourceDefinition, error) {
	if !slices.ContainsFunc(keys, func(key string) bool { return strings.HasPrefix(key, crdPrefix) }) {
		return nil, nil
	}
	clients, err := apiextensions.NewForConfig(s.config)
	if err != nil {
		return nil, err //nolint:wrapcheck // it says what of the configuration is wrong
	}
	all, err := clients.ApiextensionsV1().CustomResourceDefinitions().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing definitions: %w", err)
	}
	for _, definition := range s.environment.CRDs { // also those that are gone
		all.Items = append(all.Items, *definition)
	}
	return slices.DeleteFunc(all.Items, func(d apiextensionsv1.CustomResourceDefinition) bool { return !slices.Contains(keys, crdPrefix+d.Name) }), nil
}

// forgetsDefinitions waits until the server serves what it did at its start, and no
// more.
func (s *testServer) forgetsDefinitions(ctx context.Context, clients kubernetes.Interface, c changes, definitions []apiextensionsv1.CustomResourceDefinition) error {
	status := map[string]int{} // by path
	for _, definition := range definitions {
		for _, version := range definition.Spec.Versions {
			path := "/apis/" + definition.Spec.Group + "/" + version.Name + "/" + definition.Spec.Names.Plural
			if slices.Contains(c.deleted, crdPrefix+definition.Name) {
				status[path] = http.StatusNotFound
			} else if version.Served {
				status[path] = http.StatusOK
			}
		}
	}
	for _, key := range c.deleted {
		if name, ok := strings.CutPrefix(key, apiServicePrefix); ok {
			version, group, _ := strings.Cut(name, ".")
			status["/apis/"+group+"/"+version] = http.StatusNotFound
		}
	}
	for path, want := range status {
		got := 0
		err := wait.PollUntilContextTimeout(ctx, rightsPause, serverPatience, true, func(ctx context.Context) (bool, error) {
			clients.Discovery().RESTClient().Get().AbsPath(path).Param("limit", "1").Do(ctx).StatusCode(&got)
			return got == want, nil
		})
		if err != nil {
			return fmt.Errorf("%s answers %d, want %d: %w", path, got, want, err)
		}
	}
	return nil
}

// markers are objects of one name, by whose effect one knows that the server has heard
// of all that was written before.
type markers struct {
	clients kubernetes.Interface
	name    string
}

// awaitRoles writes roles of both scopes, and waits until they allow what they say.
func (m markers) awaitRoles(ctx context.Context) error {
	rbac := m.clients.RbacV1()
	meta := metav1.ObjectMeta{Name: m.name}
	rules := []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"get"}}}
	subjects := []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: m.name}}
	reference := func(kind string) rbacv1.RoleRef {
		return rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: m.name}
	}
	_, err := rbac.ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{})
	if err == nil {
		_, err = rbac.ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: meta, RoleRef: reference("ClusterRole"), Subjects: subjects}, metav1.CreateOptions{})
	}
	if err == nil {
		err = m.awaitAllowed(ctx, "")
	}
	if err == nil {
		err = rbac.ClusterRoleBindings().Delete(ctx, m.name, metav1.DeleteOptions{})
	}
	if err == nil {
		_, err = rbac.Roles(metav1.NamespaceDefault).Create(ctx, &rbacv1.Role{ObjectMeta: meta, Rules: rules}, metav1.CreateOptions{})
	}
	if err == nil {
		_, err = rbac.RoleBindings(metav1.NamespaceDefault).Create(ctx, &rbacv1.RoleBinding{ObjectMeta: meta, RoleRef: reference("Role"), Subjects: subjects}, metav1.CreateOptions{})
	}
	if err == nil {
		err = m.awaitAllowed(ctx, metav1.NamespaceDefault)
	}
	return err //nolint:wrapcheck // the next pass of the reset takes away what is there
}

func (m markers) awaitAllowed(ctx context.Context, namespace string) error {
	review := &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User: m.name, ResourceAttributes: &authorizationv1.ResourceAttributes{Resource: "pods", Verb: "get", Namespace: namespace},
	}}
	return wait.PollUntilContextTimeout(ctx, rightsPause, rightsPatience, true, func(ctx context.Context) (bool, error) { //nolint:wrapcheck // as above
		answer, err := m.clients.AuthorizationV1().SubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		return err == nil && answer.Status.Allowed, err
	})
}

// awaitMutation writes a policy that changes what has the label of the marker, and waits
// until it does.
func (m markers) awaitMutation(ctx context.Context) error {
	registration := m.clients.AdmissionregistrationV1()
	meta := metav1.ObjectMeta{Name: m.name}
	labels := map[string]string{markerLabel: m.name + "-mutation"}
	_, err := registration.MutatingAdmissionPolicies().Create(ctx, &admissionregistrationv1.MutatingAdmissionPolicy{ObjectMeta: meta, Spec: admissionregistrationv1.MutatingAdmissionPolicySpec{
		MatchConstraints: &admissionregistrationv1.MatchResources{
			ResourceRules:  []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: newConfigMaps()}},
			ObjectSelector: &metav1.LabelSelector{MatchLabels: labels},
		},
		Mutations: []admissionregistrationv1.Mutation{{
			PatchType:          admissionregistrationv1.PatchTypeApplyConfiguration,
			ApplyConfiguration: &admissionregistrationv1.ApplyConfiguration{Expression: `Object{data: {"mutated": "` + m.name + `"}}`},
		}},
		ReinvocationPolicy: admissionregistrationv1.NeverReinvocationPolicy,
	}}, metav1.CreateOptions{})
	if err == nil {
		_, err = registration.MutatingAdmissionPolicyBindings().Create(ctx, &admissionregistrationv1.MutatingAdmissionPolicyBinding{
			ObjectMeta: meta, Spec: admissionregistrationv1.MutatingAdmissionPolicyBindingSpec{PolicyName: m.name},
		}, metav1.CreateOptions{})
	}
	if err != nil {
		return err //nolint:wrapcheck // the next pass of the reset takes away what is there
	}
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: m.name, Labels: labels}}
	return wait.PollUntilContextTimeout(ctx, rightsPause, rightsPatience, true, func(ctx context.Context) (bool, error) { //nolint:wrapcheck // as above
		got, err := m.clients.CoreV1().ConfigMaps(metav1.NamespaceDefault).Create(ctx, object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err == nil && got.Data["mutated"] == m.name, nil
	})
}

// newConfigMaps is what the markers of admission are asked about.
func newConfigMaps() admissionregistrationv1.RuleWithOperations {
	return admissionregistrationv1.RuleWithOperations{
		Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
		Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}},
	}
}

// awaitAdmission writes a policy and webhooks of both kinds that refuse what has the label
// of the marker, and waits until each of them does.
func (m markers) awaitAdmission(ctx context.Context) error {
	registration := m.clients.AdmissionregistrationV1()
	meta := metav1.ObjectMeta{Name: m.name}
	selector := func(what string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{markerLabel: m.name + "-" + what}}
	}
	rule := newConfigMaps()
	nobody := admissionregistrationv1.WebhookClientConfig{URL: ptr.To("https://127.0.0.1:1/")}
	none := ptr.To(admissionregistrationv1.SideEffectClassNone)
	_, err := registration.MutatingWebhookConfigurations().Create(ctx, &admissionregistrationv1.MutatingWebhookConfiguration{ObjectMeta: meta, Webhooks: []admissionregistrationv1.MutatingWebhook{{
		Name: "mutating.env.capstan.io", ClientConfig: nobody, Rules: []admissionregistrationv1.RuleWithOperations{rule},
		ObjectSelector: selector("mutating"), SideEffects: none, AdmissionReviewVersions: []string{"v1"},
	}}}, metav1.CreateOptions{})
	if err == nil {
		_, err = registration.ValidatingWebhookConfigurations().Create(ctx, &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: meta, Webhooks: []admissionregistrationv1.ValidatingWebhook{{
			Name: "validating.env.capstan.io", ClientConfig: nobody, Rules: []admissionregistrationv1.RuleWithOperations{rule},
			ObjectSelector: selector("validating"), SideEffects: none, AdmissionReviewVersions: []string{"v1"},
		}}}, metav1.CreateOptions{})
	}
	if err == nil {
		_, err = registration.ValidatingAdmissionPolicies().Create(ctx, &admissionregistrationv1.ValidatingAdmissionPolicy{ObjectMeta: meta, Spec: admissionregistrationv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionregistrationv1.MatchResources{
				ResourceRules: []admissionregistrationv1.NamedRuleWithOperations{{RuleWithOperations: rule}}, ObjectSelector: selector("policy"),
			},
			Validations: []admissionregistrationv1.Validation{{Expression: "false"}},
		}}, metav1.CreateOptions{})
	}
	if err == nil {
		_, err = registration.ValidatingAdmissionPolicyBindings().Create(ctx, &admissionregistrationv1.ValidatingAdmissionPolicyBinding{ObjectMeta: meta, Spec: admissionregistrationv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: m.name, ValidationActions: []admissionregistrationv1.ValidationAction{admissionregistrationv1.Deny},
		}}, metav1.CreateOptions{})
	}
	for what, refusal := range map[string]string{
		"mutating": "mutating.env.capstan.io", "validating": "validating.env.capstan.io", "policy": "'" + m.name + "'",
	} {
		if err == nil {
			err = m.awaitRefused(ctx, selector(what).MatchLabels, refusal)
		}
	}
	return err //nolint:wrapcheck // the next pass of the reset takes away what is there
}

// awaitRefused waits until what has the labels is refused by the marker itself: what a test
// has left may refuse it, too, until it is forgotten.
func (m markers) awaitRefused(ctx context.Context, labels map[string]string, refusal string) error {
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: m.name, Labels: labels}}
	return wait.PollUntilContextTimeout(ctx, rightsPause, rightsPatience, true, func(ctx context.Context) (bool, error) { //nolint:wrapcheck // as above
		_, err := m.clients.CoreV1().ConfigMaps(metav1.NamespaceDefault).Create(ctx, object, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
		return err != nil && strings.Contains(err.Error(), refusal), nil
	})
}
