// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package render

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apilabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	corev1ac "k8s.io/client-go/applyconfigurations/core/v1"
	networkingv1ac "k8s.io/client-go/applyconfigurations/networking/v1"
	rbacv1ac "k8s.io/client-go/applyconfigurations/rbac/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Object is something to apply: one of client-go's apply configurations.
type Object = runtime.ApplyConfiguration

// ResourceMeta is how an object is called and marked.
type ResourceMeta struct {
	Name string
	// Namespace is empty for objects of the cluster.
	Namespace   string
	Labels      map[string]string
	Annotations map[string]string
}

// WithName returns the same marks for an object of another name.
func (m ResourceMeta) WithName(name string) ResourceMeta {
	m.Name = name
	return m
}

// InNamespace returns the same marks for an object in the namespace.
func (m ResourceMeta) InNamespace(namespace string) ResourceMeta {
	m.Namespace = namespace
	return m
}

// WithLabels returns the marks with further labels.
func (m ResourceMeta) WithLabels(labels map[string]string) ResourceMeta {
	merged := maps.Clone(m.Labels)
	if merged == nil {
		merged = map[string]string{}
	}
	maps.Copy(merged, labels)
	m.Labels = merged
	return m
}

// WithAnnotations returns the marks with further annotations.
func (m ResourceMeta) WithAnnotations(annotations map[string]string) ResourceMeta {
	merged := maps.Clone(m.Annotations)
	if merged == nil {
		merged = map[string]string{}
	}
	maps.Copy(merged, annotations)
	m.Annotations = merged
	return m
}

// LabelMarkedObjects returns the objects with further labels on those that have all of
// the marks; what labels an object has already, it keeps.
func LabelMarkedObjects(objects []Object, labels, marks map[string]string) ([]Object, error) {
	if len(labels) == 0 {
		return objects, nil
	}
	labelled := make([]Object, 0, len(objects))
	for _, object := range objects {
		u, err := ToUnstructured(object)
		if err != nil {
			return nil, err
		}
		own := u.GetLabels()
		if apilabels.SelectorFromSet(marks).Matches(apilabels.Set(own)) {
			merged := maps.Clone(labels)
			maps.Copy(merged, own)
			u.SetLabels(merged)
		}
		labelled = append(labelled, client.ApplyConfigurationFromUnstructured(u))
	}
	return labelled, nil
}

// Namespace returns a namespace.
func Namespace(m ResourceMeta) *corev1ac.NamespaceApplyConfiguration {
	return corev1ac.Namespace(m.Name).WithLabels(m.Labels).WithAnnotations(m.Annotations)
}

// ServiceAccount returns a ServiceAccount whose pods may pull with the secrets.
func ServiceAccount(m ResourceMeta, pullSecrets ...string) *corev1ac.ServiceAccountApplyConfiguration {
	account := corev1ac.ServiceAccount(m.Name, m.Namespace).WithLabels(m.Labels).WithAnnotations(m.Annotations)
	for _, name := range pullSecrets {
		account.WithImagePullSecrets(corev1ac.LocalObjectReference().WithName(name))
	}
	return account
}

// ConfigMap returns a ConfigMap.
func ConfigMap(m ResourceMeta, data map[string]string) *corev1ac.ConfigMapApplyConfiguration {
	return corev1ac.ConfigMap(m.Name, m.Namespace).WithLabels(m.Labels).WithAnnotations(m.Annotations).WithData(data)
}

// SecretOfType returns a Secret of the type, which cannot be changed later.
func SecretOfType(m ResourceMeta, kind corev1.SecretType, data map[string][]byte) *corev1ac.SecretApplyConfiguration {
	return corev1ac.Secret(m.Name, m.Namespace).WithLabels(m.Labels).WithAnnotations(m.Annotations).
		WithType(kind).WithData(data)
}

// SecretCopy returns a copy of the source under another name or in another
// namespace. Only its type and data are taken over.
func SecretCopy(m ResourceMeta, source *corev1.Secret) *corev1ac.SecretApplyConfiguration {
	return SecretOfType(m, source.Type, source.Data)
}

// ServiceForApp returns a Service of the cluster's own network, which leads a port to
// a port of the pods that have the label app.
func ServiceForApp(m ResourceMeta, app string, port, targetPort int32) *corev1ac.ServiceApplyConfiguration {
	return corev1ac.Service(m.Name, m.Namespace).WithLabels(m.Labels).WithAnnotations(m.Annotations).
		WithSpec(corev1ac.ServiceSpec().
			WithSelector(map[string]string{AppLabel: app}).
			WithPorts(corev1ac.ServicePort().
				WithProtocol(corev1.ProtocolTCP).
				WithPort(port).
				WithTargetPort(intstr.FromInt32(targetPort))))
}

// NetworkPolicy returns a NetworkPolicy.
func NetworkPolicy(m ResourceMeta, spec *networkingv1ac.NetworkPolicySpecApplyConfiguration) *networkingv1ac.NetworkPolicyApplyConfiguration {
	return networkingv1ac.NetworkPolicy(m.Name, m.Namespace).WithLabels(m.Labels).WithAnnotations(m.Annotations).WithSpec(spec)
}

// ClusterRole returns a ClusterRole.
func ClusterRole(m ResourceMeta, rules []rbacv1.PolicyRule) *rbacv1ac.ClusterRoleApplyConfiguration {
	return rbacv1ac.ClusterRole(m.Name).WithLabels(m.Labels).WithAnnotations(m.Annotations).WithRules(policyRules(rules)...)
}

// Role returns a Role.
func Role(m ResourceMeta, rules []rbacv1.PolicyRule) *rbacv1ac.RoleApplyConfiguration {
	return rbacv1ac.Role(m.Name, m.Namespace).WithLabels(m.Labels).WithAnnotations(m.Annotations).WithRules(policyRules(rules)...)
}

// ClusterRoleBinding gives a ClusterRole to the subjects in the whole cluster.
// The role of a binding cannot be changed; its name should follow the role's.
func ClusterRoleBinding(m ResourceMeta, clusterRole string, subjects ...rbacv1.Subject) *rbacv1ac.ClusterRoleBindingApplyConfiguration {
	return rbacv1ac.ClusterRoleBinding(m.Name).WithLabels(m.Labels).WithAnnotations(m.Annotations).
		WithRoleRef(roleRef("ClusterRole", clusterRole)).WithSubjects(bindingSubjects(subjects)...)
}

// RoleBinding gives a Role of the same namespace to the subjects.
func RoleBinding(m ResourceMeta, role string, subjects ...rbacv1.Subject) *rbacv1ac.RoleBindingApplyConfiguration {
	return rbacv1ac.RoleBinding(m.Name, m.Namespace).WithLabels(m.Labels).WithAnnotations(m.Annotations).
		WithRoleRef(roleRef("Role", role)).WithSubjects(bindingSubjects(subjects)...)
}

// AccountSubject is a ServiceAccount as the subject of a binding.
func AccountSubject(namespace, name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.ServiceAccountKind, Namespace: namespace, Name: name}
}

// GroupSubject is a group of users as the subject of a binding.
func GroupSubject(name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: name}
}

func roleRef(kind, name string) *rbacv1ac.RoleRefApplyConfiguration {
	return rbacv1ac.RoleRef().WithAPIGroup(rbacv1.GroupName).WithKind(kind).WithName(name)
}

func bindingSubjects(subjects []rbacv1.Subject) []*rbacv1ac.SubjectApplyConfiguration {
	list := make([]*rbacv1ac.SubjectApplyConfiguration, 0, len(subjects))
	for _, s := range subjects {
		subject := rbacv1ac.Subject().WithKind(s.Kind).WithName(s.Name)
		if s.APIGroup != "" {
			subject.WithAPIGroup(s.APIGroup)
		}
		if s.Namespace != "" {
			subject.WithNamespace(s.Namespace)
		}
		list = append(list, subject)
	}
	return list
}

func policyRules(rules []rbacv1.PolicyRule) []*rbacv1ac.PolicyRuleApplyConfiguration {
	list := make([]*rbacv1ac.PolicyRuleApplyConfiguration, 0, len(rules))
	for _, r := range rules {
		list = append(list, rbacv1ac.PolicyRule().
			WithAPIGroups(r.APIGroups...).
			WithResources(r.Resources...).
			WithResourceNames(r.ResourceNames...).
			WithNonResourceURLs(r.NonResourceURLs...).
			WithVerbs(r.Verbs...))
	}
	return list
}
