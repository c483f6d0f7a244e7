// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// ManifestWork is a set of objects to deliver to a member. It is created in the
// member's namespace on the hub; the member's agent applies the objects,
// corrects drift, and reports the state of each in the status. Deleting the
// ManifestWork deletes the objects, unless spec.deleteOption says otherwise.
//
// The name must be shorter than 189 characters.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Applied",type=string,JSONPath=`.status.conditions[?(@.type=="Applied")].status`
// +kubebuilder:printcolumn:name="Available",type=string,JSONPath=`.status.conditions[?(@.type=="Available")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Applied")].reason`
// +kubebuilder:printcolumn:name="Degraded",type=string,JSONPath=`.status.conditions[?(@.type=="Degraded")].status`,priority=1
// +kubebuilder:printcolumn:name="Complete",type=string,JSONPath=`.status.conditions[?(@.type=="Complete")].status`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type ManifestWork struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec contains the objects and how to apply them.
	Spec ManifestWorkSpec `json:"spec"`

	// status is the observed state of the objects.
	// +optional
	Status ManifestWorkStatus `json:"status,omitempty"`
}

// ManifestWorkSpec contains the objects and how to apply them.
type ManifestWorkSpec struct {
	// workload contains the objects.
	Workload ManifestsTemplate `json:"workload,omitempty"`

	// deleteOption controls what happens to the objects when this ManifestWork is
	// deleted. Default: they are deleted, and this ManifestWork stays until they
	// are gone.
	// +optional
	DeleteOption *DeleteOption `json:"deleteOption,omitempty"`

	// manifestConfigs configure individual objects. The first entry whose
	// resourceIdentifier matches an object applies to it. Default: none.
	// +optional
	ManifestConfigs []ManifestConfigOption `json:"manifestConfigs,omitempty"`

	// executor is the identity on the member as which the agent applies the
	// objects. Default: the agent's own identity.
	// +optional
	Executor *ManifestWorkExecutor `json:"executor,omitempty"`
}

// ManifestsTemplate contains the objects of a ManifestWork.
type ManifestsTemplate struct {
	// manifests are the objects. Each must have apiVersion, kind and name, and no
	// generateName; no object may appear twice. The limit for all of them together
	// is 500 KiB (512,000 bytes).
	// +optional
	Manifests []Manifest `json:"manifests,omitempty"`
}

// Manifest is one object, of any kind that the member serves.
type Manifest struct {
	// +kubebuilder:validation:EmbeddedResource
	// +kubebuilder:pruning:PreserveUnknownFields
	runtime.RawExtension `json:",inline"`
}

// DeleteOption controls what happens to the objects when a ManifestWork ends.
type DeleteOption struct {
	// propagationPolicy is what happens to the objects when the ManifestWork is
	// deleted: Foreground deletes them, and the ManifestWork stays until they are
	// gone; Orphan leaves all of them on the member; SelectivelyOrphan leaves
	// those that selectivelyOrphans names. Default: Foreground.
	// +kubebuilder:default=Foreground
	PropagationPolicy DeletePropagationPolicyType `json:"propagationPolicy"`

	// selectivelyOrphans names the objects that stay on the member; used with
	// propagationPolicy SelectivelyOrphan. Default: none.
	SelectivelyOrphans *SelectivelyOrphan `json:"selectivelyOrphans,omitempty"`

	// ttlSecondsAfterFinished is the time in seconds after which the hub deletes
	// the ManifestWork once its condition Complete is True; 0 means at once.
	// Default: never. Needs feature gate CleanUpCompletedManifestWork on the hub.
	// +optional
	TTLSecondsAfterFinished *int64 `json:"ttlSecondsAfterFinished,omitempty"`
}

// DeletePropagationPolicyType is what happens to the objects of a deleted
// ManifestWork.
//
// +kubebuilder:validation:Enum=Foreground;Orphan;SelectivelyOrphan
type DeletePropagationPolicyType string

const (
	// DeletePropagationPolicyForeground deletes the objects first.
	DeletePropagationPolicyForeground DeletePropagationPolicyType = "Foreground"
	// DeletePropagationPolicyOrphan leaves all objects on the member.
	DeletePropagationPolicyOrphan DeletePropagationPolicyType = "Orphan"
	// DeletePropagationPolicySelectivelyOrphan leaves some objects on the member.
	DeletePropagationPolicySelectivelyOrphan DeletePropagationPolicyType = "SelectivelyOrphan"
)

// SelectivelyOrphan names the objects that stay on the member.
type SelectivelyOrphan struct {
	// orphaningRules name the objects. Default: none.
	// +optional
	OrphaningRules []OrphaningRule `json:"orphaningRules,omitempty"`
}

// OrphaningRule names objects that stay on the member.
type OrphaningRule ResourceIdentifier

// ResourceIdentifier names objects of a ManifestWork.
type ResourceIdentifier struct {
	// group is the API group of the objects; empty is the core group.
	// +optional
	Group string `json:"group"`

	// resource is the plural name of their kind, such as deployments.
	// +required
	// +kubebuilder:validation:Required
	Resource string `json:"resource"`

	// name is the name of the object. "*" matches any characters.
	// +required
	// +kubebuilder:validation:Required
	Name string `json:"name"`

	// namespace is the namespace of the object; empty for objects without one. "*"
	// matches any characters.
	// +optional
	Namespace string `json:"namespace"`
}

// ManifestConfigOption configures some objects of a ManifestWork.
type ManifestConfigOption struct {
	// resourceIdentifier names the objects.
	// +required
	// +kubebuilder:validation:Required
	ResourceIdentifier ResourceIdentifier `json:"resourceIdentifier"`

	// feedbackRules select the fields of the objects that are reported to the hub.
	// Default: none.
	// +optional
	FeedbackRules []FeedbackRule `json:"feedbackRules,omitempty"`

	// updateStrategy is how the objects are applied. Default: type Update.
	// +optional
	UpdateStrategy *UpdateStrategy `json:"updateStrategy,omitempty"`

	// conditionRules derive conditions of the ManifestWork from the state of the
	// objects. Default: none.
	// +optional
	// +listType:=map
	// +listMapKey:=condition
	ConditionRules []ConditionRule `json:"conditionRules,omitempty"`

	// feedbackScrapeType is when fields are reported: Poll at the agent's status
	// sync interval, Watch as soon as they change. The agent watches a limited
	// number of resource types (50 by default) and polls the others. Default:
	// Poll.
	// +optional
	// +kubebuilder:validation:Enum=Poll;Watch
	// +kubebuilder:default=Poll
	FeedbackScrapeType FeedbackScrapeType `json:"feedbackScrapeType,omitempty"`
}

// FeedbackScrapeType is when fields of objects are reported to the hub.
type FeedbackScrapeType string

const (
	// FeedbackScrapeTypePoll reports fields at intervals.
	FeedbackScrapeTypePoll FeedbackScrapeType = "Poll"
	// FeedbackScrapeTypeWatch reports fields when they change.
	FeedbackScrapeTypeWatch FeedbackScrapeType = "Watch"
)

// FeedbackRule selects the fields of an object that are reported to the hub.
type FeedbackRule struct {
	// type is WellKnownStatus for the usual fields of well-known kinds (for
	// example ReadyReplicas, Replicas and AvailableReplicas of a Deployment), or
	// JSONPaths for the fields in jsonPaths.
	// +required
	// +kubebuilder:validation:Required
	Type FeedbackType `json:"type"`

	// jsonPaths are the fields; used with type JSONPaths. Default: none.
	// +optional
	// +listType:=map
	// +listMapKey:=name
	JSONPaths []JSONPath `json:"jsonPaths,omitempty"`
}

// FeedbackType is how the reported fields are selected.
//
// +kubebuilder:validation:Enum=WellKnownStatus;JSONPaths
type FeedbackType string

const (
	// FeedbackTypeWellKnownStatus reports the usual fields of well-known kinds.
	FeedbackTypeWellKnownStatus FeedbackType = "WellKnownStatus"
	// FeedbackTypeJSONPaths reports the fields at given paths.
	FeedbackTypeJSONPaths FeedbackType = "JSONPaths"
)

// JSONPath names a field of an object.
type JSONPath struct {
	// name is the name of the reported value; it must be unique among the paths.
	// +required
	// +kubebuilder:validation:Required
	Name string `json:"name"`

	// version is the API version that the path applies to, such as v1; for another
	// version of the object the value is not reported. Default: the version of the
	// manifest.
	// +optional
	Version string `json:"version,omitempty"`

	// path is a JSONPath in kubectl's syntax, without braces, from the root of the
	// object; for example .status.phase. The value must be a number, a string or a
	// boolean; with feature gate RawFeedbackJsonString on the agent it may also be
	// a list or an object of up to 1024 bytes of JSON. A field that the object
	// does not have is not reported.
	// +required
	// +kubebuilder:validation:Required
	Path string `json:"path"`
}

// ConditionRule derives one condition from the state of an object.
//
// +kubebuilder:validation:XValidation:rule="self.type != 'CEL' || self.condition != \"\"",message="Condition is required for CEL rules"
type ConditionRule struct {
	// condition is the type of the condition. Progressing, Degraded and Complete
	// are used by rollouts and by deleteOption.ttlSecondsAfterFinished. Required
	// with type CEL.
	// +required
	// +kubebuilder:validation:Required
	Condition string `json:"condition"`

	// type is WellKnownConditions for built-in rules (Complete of a Job or Pod;
	// Progressing and Degraded of all kinds), or CEL for celExpressions. See
	// docs/spec/work/interpretation.md.
	// +required
	// +kubebuilder:validation:Required
	Type ConditionRuleType `json:"type"`

	// celExpressions are evaluated with type CEL; the variable object is the
	// object on the member, and each must return a boolean. The condition is True
	// if all of them are true.
	// +optional
	CELExpressions []string `json:"celExpressions"`

	// message is the message of the condition. Default: generated by the agent.
	// +optional
	Message string `json:"message"`

	// messageExpression is a CEL expression that returns the message, with the
	// variables object and result (a boolean). It takes precedence over message.
	// +optional
	MessageExpression string `json:"messageExpression"`
}

// ConditionRuleType is what a condition is derived from.
//
// +kubebuilder:validation:Enum=WellKnownConditions;CEL
type ConditionRuleType string

const (
	// ConditionRuleTypeWellKnownConditions uses built-in rules for well-known
	// kinds.
	ConditionRuleTypeWellKnownConditions ConditionRuleType = "WellKnownConditions"
	// ConditionRuleTypeCEL evaluates expressions.
	ConditionRuleTypeCEL ConditionRuleType = "CEL"
)

// ManifestWorkExecutor is the identity as which objects are applied.
type ManifestWorkExecutor struct {
	// subject is the identity.
	Subject ManifestWorkExecutorSubject `json:"subject"`
}

// ManifestWorkExecutorSubject is an identity on the member.
type ManifestWorkExecutorSubject struct {
	// type is the kind of the identity; ServiceAccount is the only one.
	// +required
	// +kubebuilder:validation:Required
	// +kubebuilder:validation:Enum=ServiceAccount
	Type ManifestWorkExecutorSubjectType `json:"type"`

	// serviceAccount is the identity; used with type ServiceAccount.
	// +optional
	ServiceAccount *ManifestWorkSubjectServiceAccount `json:"serviceAccount,omitempty"`
}

// ManifestWorkExecutorSubjectType is the kind of an identity.
type ManifestWorkExecutorSubjectType string

// ExecutorSubjectTypeServiceAccount is a ServiceAccount on the member.
const ExecutorSubjectTypeServiceAccount ManifestWorkExecutorSubjectType = "ServiceAccount"

// ManifestWorkSubjectServiceAccount is a ServiceAccount on the member.
type ManifestWorkSubjectServiceAccount struct {
	// namespace is the ServiceAccount's namespace, of 1 to 253 characters.
	// +required
	// +kubebuilder:validation:Required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)$`
	Namespace string `json:"namespace"`

	// name is the ServiceAccount's name, of 1 to 253 characters.
	// +required
	// +kubebuilder:validation:Required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*)$`
	Name string `json:"name"`
}

// UpdateStrategy is how an object is applied.
type UpdateStrategy struct {
	// type is one of: Update, the agent owns the fields in the manifest and
	// corrects drift; CreateOnly, the object is created and never updated;
	// ServerSideApply, like Update with the options in serverSideApply; ReadOnly,
	// the object is never written, only reported. Default: Update.
	// +required
	// +kubebuilder:validation:Required
	// +kubebuilder:validation:Enum=Update;CreateOnly;ServerSideApply;ReadOnly
	// +kubebuilder:default=Update
	Type UpdateStrategyType `json:"type,omitempty"`

	// serverSideApply configures type ServerSideApply.
	// +optional
	ServerSideApply *ServerSideApplyConfig `json:"serverSideApply,omitempty"`
}

// UpdateStrategyType is how an object is applied.
type UpdateStrategyType string

const (
	// UpdateStrategyTypeUpdate applies the object and corrects drift.
	UpdateStrategyTypeUpdate UpdateStrategyType = "Update"
	// UpdateStrategyTypeCreateOnly creates the object and never updates it.
	UpdateStrategyTypeCreateOnly UpdateStrategyType = "CreateOnly"
	// UpdateStrategyTypeServerSideApply applies with options set by the user.
	UpdateStrategyTypeServerSideApply UpdateStrategyType = "ServerSideApply"
	// UpdateStrategyTypeReadOnly only reports the object's state.
	UpdateStrategyTypeReadOnly UpdateStrategyType = "ReadOnly"
)

// ServerSideApplyConfig configures server-side apply.
type ServerSideApplyConfig struct {
	// force takes over fields from other field managers. Without it, a conflict
	// sets the manifest's condition Applied to False. Default: false.
	// +optional
	Force bool `json:"force"`

	// fieldManager is the field manager that owns the applied fields. It must
	// start with work-agent. Default: work-agent.
	// +optional
	// +kubebuilder:default=work-agent
	// +kubebuilder:validation:Pattern=`^work-agent`
	FieldManager string `json:"fieldManager,omitempty"`

	// ignoreFields are fields that others on the member may change. At most one
	// entry per condition. Default: none.
	// +optional
	// +listType:=map
	// +listMapKey:=condition
	IgnoreFields []IgnoreField `json:"ignoreFields,omitempty"`
}

// IgnoreField names fields that others on the member may change. It has no
// effect if all of its lists are empty.
type IgnoreField struct {
	// condition is when the fields are ignored: OnSpokePresent whenever the object
	// exists, OnSpokeChange until the ManifestWork changes the object. Default:
	// OnSpokePresent.
	// +required
	// +kubebuilder:validation:Required
	// +kubebuilder:validation:Enum=OnSpokePresent;OnSpokeChange
	// +kubebuilder:default=OnSpokePresent
	Condition IgnoreFieldsCondition `json:"condition"`

	// jsonPaths name the fields by JSONPath, for example .spec.replicas.
	// +optional
	JSONPaths []string `json:"jsonPaths,omitempty"`

	// jsonPointers name the fields by JSON pointer, for example /spec/replicas.
	// +optional
	JSONPointers []string `json:"jsonPointers,omitempty"`

	// jqPathExpressions name the fields by jq path expression, for example
	// .spec.containers[] | select(.name=="proxy"). Each has a time limit of one
	// second.
	// +optional
	JQPathExpressions []string `json:"jqPathExpressions,omitempty"`
}

// IgnoreFieldsCondition is when fields are ignored.
type IgnoreFieldsCondition string

const (
	// IgnoreFieldsConditionOnSpokePresent ignores fields if the object exists.
	IgnoreFieldsConditionOnSpokePresent IgnoreFieldsCondition = "OnSpokePresent"
	// IgnoreFieldsConditionOnSpokeChange ignores fields until the ManifestWork
	// changes the object.
	IgnoreFieldsConditionOnSpokeChange IgnoreFieldsCondition = "OnSpokeChange"
)

// ManifestWorkStatus is the observed state of the objects of a ManifestWork.
// Written by the agent.
type ManifestWorkStatus struct {
	// conditions report on all objects together; see
	// docs/spec/work/manifestwork.md.
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// resourceStatus reports on each object.
	// +optional
	ResourceStatus ManifestResourceStatus `json:"resourceStatus,omitempty"`
}

// ManifestResourceStatus reports on each object of a ManifestWork.
type ManifestResourceStatus struct {
	// manifests has an entry for each object, in the order of spec.workload.
	Manifests []ManifestCondition `json:"manifests,omitempty"`
}

// ManifestCondition is the observed state of one object.
type ManifestCondition struct {
	// resourceMeta names the object.
	// +required
	// +kubebuilder:validation:Required
	ResourceMeta ManifestResourceMeta `json:"resourceMeta"`

	// statusFeedback contains the fields selected by the feedback rules.
	// +optional
	StatusFeedback StatusFeedbackResult `json:"statusFeedback,omitempty"`

	// conditions report on this object.
	// +required
	// +kubebuilder:validation:Required
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions"`
}

// ManifestResourceMeta names an object of a ManifestWork. Unknown values, such
// as the resource of a kind that the member does not serve, are empty.
type ManifestResourceMeta struct {
	// ordinal is the position of the object in spec.workload.manifests, from 0.
	// +required
	// +kubebuilder:validation:Required
	Ordinal int32 `json:"ordinal"`

	// group is the API group of the object; empty is the core group.
	// +optional
	Group string `json:"group"`

	// version is the API version of the object.
	// +optional
	Version string `json:"version"`

	// kind is the kind of the object.
	// +optional
	Kind string `json:"kind"`

	// resource is the plural name of the kind.
	// +optional
	Resource string `json:"resource"`

	// name is the name of the object.
	// +optional
	Name string `json:"name"`

	// namespace is the namespace of the object; empty for objects without one.
	// +optional
	Namespace string `json:"namespace"`
}

// StatusFeedbackResult contains the reported fields of an object.
type StatusFeedbackResult struct {
	// values are the fields.
	// +optional
	// +listType:=map
	// +listMapKey:=name
	Values []FeedbackValue `json:"values,omitempty"`
}

// FeedbackValue is one reported field.
type FeedbackValue struct {
	// name is the name of the field in the feedback rule.
	// +required
	// +kubebuilder:validation:Required
	Name string `json:"name"`

	// fieldValue is the value.
	// +required
	// +kubebuilder:validation:Required
	FieldValue FieldValue `json:"fieldValue"`
}

// FieldValue is the value of a reported field. Only the field that corresponds
// to type is set.
type FieldValue struct {
	// type is which of the other fields has the value.
	// +required
	// +kubebuilder:validation:Required
	Type ValueType `json:"type"`

	// integer is the value of type Integer.
	// +optional
	Integer *int64 `json:"integer,omitempty"`

	// string is the value of type String.
	// +optional
	// +kubebuilder:validation:MaxLength=262144
	String *string `json:"string,omitempty"`

	// boolean is the value of type Boolean.
	// +optional
	Boolean *bool `json:"boolean,omitempty"`

	// jsonRaw is the value of type JsonRaw: a list or an object as JSON text. That of
	// a feedback rule has up to 1024 bytes, and needs feature gate
	// RawFeedbackJsonString on the agent.
	// +kubebuilder:validation:MaxLength=262144
	JSONRaw *string `json:"jsonRaw,omitempty"`
}

// ValueType is which field of a FieldValue has the value.
//
// +kubebuilder:validation:Enum=Integer;String;Boolean;JsonRaw
type ValueType string

const (
	// ValueTypeInteger is a whole number.
	ValueTypeInteger ValueType = "Integer"
	// ValueTypeString is text.
	ValueTypeString ValueType = "String"
	// ValueTypeBoolean is true or false.
	ValueTypeBoolean ValueType = "Boolean"
	// ValueTypeJSONRaw is a list or an object as JSON text.
	ValueTypeJSONRaw ValueType = "JsonRaw"
)

// ManifestWorkList is a list of ManifestWorks.
//
// +kubebuilder:object:root=true
type ManifestWorkList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the ManifestWorks.
	Items []ManifestWork `json:"items"`
}
