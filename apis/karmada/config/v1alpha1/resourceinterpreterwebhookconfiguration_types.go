// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ResourceInterpreterWebhookConfiguration names webhooks that interpret the objects
// of kinds: how many pods they ask for, whether they are healthy, what of
// their status counts. They take precedence over what is known of the kinds
// otherwise, but not over ResourceInterpreterCustomizations.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Cluster,categories=karmada-io
// +kubebuilder:printcolumn:name="AGE",type="date",JSONPath=".metadata.creationTimestamp"
type ResourceInterpreterWebhookConfiguration struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// webhooks are the webhooks, and what each of them is asked for. Of several for a
	// kind and operation, only the first is asked, in the order of the names of their
	// configurations, and in a configuration from top to bottom.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=32
	Webhooks []ResourceInterpreterWebhook `json:"webhooks"`
}

// ResourceInterpreterWebhookConfigurationList is a list of
// ResourceInterpreterWebhookConfigurations.
//
// +kubebuilder:object:root=true
type ResourceInterpreterWebhookConfigurationList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the configurations.
	Items []ResourceInterpreterWebhookConfiguration `json:"items"`
}

// ResourceInterpreterWebhook is a webhook, and what it is asked for.
type ResourceInterpreterWebhook struct {
	// name is the name of the webhook, a domain name of at least three parts. It is
	// unique in the configuration.
	// +required
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?){2,}$')",message="has to be a domain name of at least three parts, such as workloads.example.com"
	Name string `json:"name"`

	// clientConfig is where the webhook is.
	// +required
	ClientConfig WebhookClientConfig `json:"clientConfig"`

	// rules are for which operations of which kinds the webhook is asked: those of
	// any rule. Without rules it is never asked.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=32
	Rules []RuleWithOperations `json:"rules,omitempty"`

	// timeoutSeconds is how long the webhook may take to answer.
	// +optional
	// +kubebuilder:default=10
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=30
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`

	// interpreterContextVersions are the versions of ResourceInterpreterContext that
	// the webhook understands. v1alpha1 has to be one of them.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="'v1alpha1' in self",message="has to contain v1alpha1, the only version in which webhooks are asked"
	InterpreterContextVersions []string `json:"interpreterContextVersions"`
}

// WebhookClientConfig is where a webhook is. It has either url or service.
//
// +kubebuilder:validation:XValidation:rule="has(self.url) != has(self.service)",message="has either url or service: set one, remove the other"
type WebhookClientConfig struct {
	// url is where the webhook is asked, such as
	// https://interpreter.example.com:8443/workloads.
	// +optional
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="isURL(self) && url(self).getScheme() == 'https' && url(self).getHostname() != ''",message="has to be a URL such as https://interpreter.example.com:8443/workloads"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^[^/]*//[^/]*@') && !self.contains('?') && !self.contains('#')",message="must not have credentials, a query or a fragment: everybody who may read the object would know them; the path tells webhooks apart"
	URL *string `json:"url,omitempty"`

	// service is a Service of the hub. Its certificate is for <name>.<namespace>.svc.
	// +optional
	Service *ServiceReference `json:"service,omitempty"`

	// caBundle contains the PEM-encoded CA certificates that verify the webhook's
	// certificate. Default: the CAs that the system trusts.
	// +optional
	// +kubebuilder:validation:MaxLength=1048576
	CABundle []byte `json:"caBundle,omitempty"`
}

// ServiceReference is a Service of the hub.
type ServiceReference struct {
	// namespace is the namespace of the Service.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="has to be the name of a namespace"
	Namespace string `json:"namespace"`

	// name is the name of the Service.
	// +required
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="has to be the name of a Service"
	Name string `json:"name"`

	// path is the path of the webhook, which begins with a slash.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.matches('^/[-A-Za-z0-9._~!$&()*+,;=:@%/]*$') && !self.matches('(^|/)[.][.]?(/|$)')",message="has to be a path such as /workloads, without a query and without the parts . and .."
	Path *string `json:"path,omitempty"`

	// port is the port of the Service.
	// +optional
	// +kubebuilder:default=443
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	Port *int32 `json:"port,omitempty"`
}

// RuleWithOperations are operations of kinds.
type RuleWithOperations struct {
	// operations lists what the webhook is asked for; * is everything.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=16
	// +kubebuilder:validation:XValidation:rule="!('*' in self) || self.size() == 1",message="* is all operations: remove it, or the others"
	Operations []InterpreterOperation `json:"operations"`

	Rule `json:",inline"`
}

// Rule are kinds: each kind of each version of each group.
type Rule struct {
	// apiGroups are the groups of the kinds; "" is the core group, * are all groups.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="!('*' in self) || self.size() == 1",message="* is all groups: remove it, or the others"
	APIGroups []string `json:"apiGroups"`

	// apiVersions are the versions of the kinds; * are all versions.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="!('*' in self) || self.size() == 1",message="* is all versions: remove it, or the others"
	APIVersions []string `json:"apiVersions"`

	// kinds are the names of the kinds, such as Workload; * are all kinds.
	// +required
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="!('*' in self) || self.size() == 1",message="* is all kinds: remove it, or the others"
	Kinds []string `json:"kinds"`
}

// InterpreterOperation is what an interpreter is asked for.
//
// +kubebuilder:validation:Enum=*;InterpretReplica;InterpretComponent;ReviseReplica;Retain;InterpretStatus;AggregateStatus;InterpretHealth;InterpretDependency
type InterpreterOperation string

// The operations.
const (
	// InterpreterOperationAll is all operations.
	InterpreterOperationAll InterpreterOperation = "*"
	// InterpreterOperationInterpretReplica asks how many pods an object asks for and
	// what each of them needs.
	InterpreterOperationInterpretReplica InterpreterOperation = "InterpretReplica"
	// InterpreterOperationInterpretComponent asks so for objects with pods of several
	// kinds.
	InterpreterOperationInterpretComponent InterpreterOperation = "InterpretComponent"
	// InterpreterOperationReviseReplica asks for the object with another number of pods.
	InterpreterOperationReviseReplica InterpreterOperation = "ReviseReplica"
	// InterpreterOperationRetain asks what to apply, by the object that is in the
	// cluster.
	InterpreterOperationRetain InterpreterOperation = "Retain"
	// InterpreterOperationInterpretStatus asks what of the status is reported.
	InterpreterOperationInterpretStatus InterpreterOperation = "InterpretStatus"
	// InterpreterOperationAggregateStatus asks for the object with a status that sums up
	// what the clusters report.
	InterpreterOperationAggregateStatus InterpreterOperation = "AggregateStatus"
	// InterpreterOperationInterpretHealth asks whether an object is healthy.
	InterpreterOperationInterpretHealth InterpreterOperation = "InterpretHealth"
	// InterpreterOperationInterpretDependency asks which objects an object needs beside
	// it.
	InterpreterOperationInterpretDependency InterpreterOperation = "InterpretDependency"
)
