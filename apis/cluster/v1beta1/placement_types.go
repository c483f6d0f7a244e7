// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
)

// Placement chooses members of the ManagedClusterSets that are bound to its
// namespace, and lists them in PlacementDecisions.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced
// +kubebuilder:storageversion
// +kubebuilder:printcolumn:name="Succeeded",type=string,JSONPath=`.status.conditions[?(@.type=="PlacementSatisfied")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="PlacementSatisfied")].reason`
// +kubebuilder:printcolumn:name="SelectedClusters",type=integer,JSONPath=`.status.numberOfSelectedClusters`
type Placement struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec says which members to choose.
	// +required
	// +kubebuilder:validation:Required
	Spec PlacementSpec `json:"spec"`

	// status reports what was chosen.
	// +optional
	Status PlacementStatus `json:"status,omitempty"`
}

// PlacementSpec says which members to choose. An empty one chooses all members
// of the bound sets that have no taint.
type PlacementSpec struct {
	// clusterSets are the ManagedClusterSets to choose from. Those that are not
	// bound to the namespace do not count. Default: all that are bound.
	// +optional
	ClusterSets []string `json:"clusterSets,omitempty"`

	// numberOfClusters is how many members are wanted. Default: all that may be
	// chosen.
	// +optional
	NumberOfClusters *int32 `json:"numberOfClusters,omitempty"`

	// predicates are conditions, of which a member has to meet at least one.
	// Default: none, which every member meets.
	// +optional
	Predicates []ClusterPredicate `json:"predicates,omitempty"`

	// prioritizerPolicy defines which members are preferred if fewer are wanted than may
	// be chosen.
	// +optional
	PrioritizerPolicy PrioritizerPolicy `json:"prioritizerPolicy,omitempty"`

	// spreadPolicy says how the chosen members are spread over regions, zones or
	// other topologies.
	// +optional
	SpreadPolicy SpreadPolicy `json:"spreadPolicy,omitempty"`

	// tolerations list the taints of members to ignore. Default: none.
	// +optional
	Tolerations []Toleration `json:"tolerations,omitempty"`

	// decisionStrategy says how the chosen members are divided into groups, which
	// rollouts take one after the other.
	// +optional
	DecisionStrategy DecisionStrategy `json:"decisionStrategy,omitempty"`

	// sortBy is the order of the decisions: ClusterName, or Score with the highest
	// first. Default: ClusterName.
	// +optional
	// +kubebuilder:validation:Enum=ClusterName;Score
	// +kubebuilder:default:=ClusterName
	SortBy SortBy `json:"sortBy,omitempty"`

	// scoreRateLimit is how long scores in the decisions are left as they are before
	// changes of scores alone are written, such as 30s, 5m or
	// 1h. Default: 1m.
	// +optional
	// +kubebuilder:validation:Pattern=`^[0-9]+[hms]$`
	// +kubebuilder:default:="1m"
	ScoreRateLimit string `json:"scoreRateLimit,omitempty"`
}

// SortBy is the order of decisions.
type SortBy string

const (
	// SortByClusterName is the order of names.
	SortByClusterName SortBy = "ClusterName"
	// SortByScore is the order of scores, the highest first.
	SortByScore SortBy = "Score"
)

// ClusterPredicate is a condition that members have to meet.
type ClusterPredicate struct {
	// requiredClusterSelector selects the members that meet it.
	// +optional
	RequiredClusterSelector ClusterSelector `json:"requiredClusterSelector,omitempty"`
}

// ClusterSelector selects members. All of its parts have to select a member.
type ClusterSelector struct {
	// labelSelector selects by the labels of the ManagedCluster. Default: all.
	// +optional
	LabelSelector metav1.LabelSelector `json:"labelSelector,omitempty"`

	// claimSelector selects by status.clusterClaims of the ManagedCluster. Default: all.
	// +optional
	ClaimSelector ClusterClaimSelector `json:"claimSelector,omitempty"`

	// celSelector selects by expressions in CEL. Default: all.
	// +optional
	CelSelector ClusterCelSelector `json:"celSelector,omitempty"`
}

// ClusterClaimSelector selects members by their claims.
type ClusterClaimSelector struct {
	// matchExpressions are requirements, all of which have to be met. Default: none.
	// +optional
	MatchExpressions []metav1.LabelSelectorRequirement `json:"matchExpressions,omitempty"`
}

// ClusterCelSelector selects members by expressions.
type ClusterCelSelector struct {
	// celExpressions are CEL expressions, all of which have to be true of variable
	// managedCluster, such as
	// managedCluster.metadata.labels["env"] == "prod". Its method scores(name)
	// returns the scores of an AddOnPlacementScore. Default: none.
	// +optional
	CelExpressions []string `json:"celExpressions,omitempty"`
}

// PrioritizerPolicy defines which members are preferred.
type PrioritizerPolicy struct {
	// mode is Additive, where prioritizers Balance and Steady have weight 1 unless
	// they are configured, or Exact, where only those count that are configured.
	// Default: Additive.
	// +optional
	// +kubebuilder:default:=Additive
	Mode PrioritizerPolicyModeType `json:"mode,omitempty"`

	// configurations are prioritizers and their weights. Default: none.
	// +optional
	Configurations []PrioritizerConfig `json:"configurations,omitempty"`
}

// PrioritizerPolicyModeType says whether defaults count.
type PrioritizerPolicyModeType string

const (
	// PrioritizerPolicyModeAdditive keeps the defaults.
	PrioritizerPolicyModeAdditive PrioritizerPolicyModeType = "Additive"
	// PrioritizerPolicyModeExact does without them.
	PrioritizerPolicyModeExact PrioritizerPolicyModeType = "Exact"
)

// PrioritizerConfig is a prioritizer and its weight.
type PrioritizerConfig struct {
	// scoreCoordinate is the prioritizer.
	// +required
	// +kubebuilder:validation:Required
	ScoreCoordinate *ScoreCoordinate `json:"scoreCoordinate,omitempty"`

	// weight is from -10 to 10. A negative weight turns the order around, and 0
	// turns the prioritizer off. Default: 1.
	// +optional
	// +kubebuilder:validation:Minimum:=-10
	// +kubebuilder:validation:Maximum:=10
	// +kubebuilder:default:=1
	Weight int32 `json:"weight,omitempty"`
}

// ScoreCoordinate is a prioritizer: one that is built in, or the score of an add-on.
type ScoreCoordinate struct {
	// type is BuiltIn or AddOn. Default: BuiltIn.
	// +required
	// +kubebuilder:validation:Required
	// +kubebuilder:validation:Enum=BuiltIn;AddOn
	// +kubebuilder:default:=BuiltIn
	Type string `json:"type,omitempty"`

	// builtIn is Balance, Steady, ResourceAllocatableCPU or
	// ResourceAllocatableMemory, with type BuiltIn.
	// +optional
	BuiltIn string `json:"builtIn,omitempty"`

	// addOn names a score in an AddOnPlacementScore, with type AddOn.
	// +optional
	AddOn *AddOnScore `json:"addOn,omitempty"`
}

// The types of ScoreCoordinate.
const (
	// ScoreCoordinateTypeBuiltIn is a prioritizer that is built in.
	ScoreCoordinateTypeBuiltIn = "BuiltIn"
	// ScoreCoordinateTypeAddOn is the score of an add-on.
	ScoreCoordinateTypeAddOn = "AddOn"
)

// AddOnScore names a score of an add-on.
type AddOnScore struct {
	// resourceName is the name of the AddOnPlacementScores, one in the namespace of
	// each member.
	// +required
	// +kubebuilder:validation:Required
	ResourceName string `json:"resourceName"`

	// scoreName is the name of the score in these.
	// +required
	// +kubebuilder:validation:Required
	ScoreName string `json:"scoreName"`
}

// SpreadPolicy says how the chosen members are spread.
type SpreadPolicy struct {
	// spreadConstraints are topologies to spread over, 8 at most. Default: none.
	// +optional
	// +kubebuilder:validation:MaxItems:=8
	SpreadConstraints []SpreadConstraintsTerm `json:"spreadConstraints,omitempty"`
}

// SpreadConstraintsTerm says that no value of a label or claim may have many
// more chosen members than any other.
type SpreadConstraintsTerm struct {
	// topologyKey is the name of the label or of the claim.
	// +required
	// +kubebuilder:validation:Required
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$`
	// +kubebuilder:validation:MaxLength=316
	TopologyKey string `json:"topologyKey"`

	// topologyKeyType is Label or Claim.
	// +required
	// +kubebuilder:validation:Required
	// +kubebuilder:validation:Enum=Label;Claim
	TopologyKeyType TopologyKeyType `json:"topologyKeyType"`

	// maxSkew is how many more members one value may have than another, at least 1.
	// Default: 1.
	// +optional
	// +kubebuilder:default:=1
	// +kubebuilder:validation:Minimum:=1
	MaxSkew int32 `json:"maxSkew"`

	// whenUnsatisfiable defines what happens if it cannot be kept: DoNotSchedule chooses
	// fewer members than are wanted, ScheduleAnyway those that break it least.
	// Default: ScheduleAnyway.
	// +optional
	// +kubebuilder:default:=ScheduleAnyway
	// +kubebuilder:validation:Enum=DoNotSchedule;ScheduleAnyway
	WhenUnsatisfiable UnsatisfiableMaxSkewAction `json:"whenUnsatisfiable"`
}

// TopologyKeyType is where a topology key is looked up.
type TopologyKeyType string

const (
	// TopologyKeyTypeLabel is the labels of the ManagedCluster.
	TopologyKeyTypeLabel TopologyKeyType = "Label"
	// TopologyKeyTypeClaim is its claims.
	TopologyKeyTypeClaim TopologyKeyType = "Claim"
)

// UnsatisfiableMaxSkewAction is what happens if a spread constraint cannot be kept.
type UnsatisfiableMaxSkewAction string

const (
	// DoNotSchedule chooses fewer members.
	DoNotSchedule UnsatisfiableMaxSkewAction = "DoNotSchedule"
	// ScheduleAnyway chooses those that break the constraint least.
	ScheduleAnyway UnsatisfiableMaxSkewAction = "ScheduleAnyway"
)

// Toleration ignores taints.
type Toleration struct {
	// key is the key of the taint. Empty with operator Exists: all taints.
	// +optional
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$`
	// +kubebuilder:validation:MaxLength=316
	Key string `json:"key,omitempty"`

	// operator is Equal, for taints with the same value, or Exists, for taints with
	// any value. Default: Equal.
	// +optional
	// +kubebuilder:default:=Equal
	Operator TolerationOperator `json:"operator,omitempty"`

	// value is the value of the taint, of at most 1024 characters. It is empty with
	// operator Exists.
	// +optional
	// +kubebuilder:validation:MaxLength=1024
	Value string `json:"value,omitempty"`

	// effect is the effect of the taint: NoSelect, PreferNoSelect or NoSelectIfNew.
	// Default: all.
	// +optional
	// +kubebuilder:validation:Enum=NoSelect;PreferNoSelect;NoSelectIfNew
	Effect clusterv1.TaintEffect `json:"effect,omitempty"`

	// tolerationSeconds is how long the taint is ignored, from when it was
	// added. It counts for effect NoSelect and PreferNoSelect. Default: for ever.
	// +optional
	TolerationSeconds *int64 `json:"tolerationSeconds,omitempty"`
}

// TolerationOperator defines how values are compared.
type TolerationOperator string

const (
	// TolerationOpExists tolerates any value.
	TolerationOpExists TolerationOperator = "Exists"
	// TolerationOpEqual tolerates the same value.
	TolerationOpEqual TolerationOperator = "Equal"
)

// DecisionStrategy says how the chosen members are divided.
type DecisionStrategy struct {
	// groupStrategy says which groups there are.
	// +optional
	GroupStrategy GroupStrategy `json:"groupStrategy,omitempty"`
}

// GroupStrategy says which groups there are.
type GroupStrategy struct {
	// decisionGroups are the groups with a name, in their order. A member is in the
	// first that selects it; all others are in groups without a name. Default: none.
	// +optional
	DecisionGroups []DecisionGroup `json:"decisionGroups,omitempty"`

	// clustersPerDecisionGroup is how many members a group has at most: a number, or
	// a percentage of all that are chosen. Larger groups are split. Default: 100%.
	// +optional
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Pattern=`^((100|[1-9][0-9]{0,1})%|[1-9][0-9]*)$`
	// +kubebuilder:default:="100%"
	ClustersPerDecisionGroup intstr.IntOrString `json:"clustersPerDecisionGroup,omitempty"`
}

// DecisionGroup is a group with a name.
type DecisionGroup struct {
	// groupName is the name of the group, a label value.
	// +required
	// +kubebuilder:validation:Required
	// +kubebuilder:validation:Pattern=`^[a-zA-Z0-9][-A-Za-z0-9_.]{0,61}[a-zA-Z0-9]$`
	GroupName string `json:"groupName,omitempty"`

	// groupClusterSelector selects the members of the group.
	// +required
	// +kubebuilder:validation:Required
	ClusterSelector GroupClusterSelector `json:"groupClusterSelector,omitempty"`
}

// GroupClusterSelector selects the members of a group. Both parts have to select
// a member.
type GroupClusterSelector struct {
	// labelSelector selects by the labels of the ManagedCluster. Default: all.
	// +optional
	LabelSelector metav1.LabelSelector `json:"labelSelector,omitempty"`

	// claimSelector selects by status.clusterClaims of the ManagedCluster. Default: all.
	// +optional
	ClaimSelector ClusterClaimSelector `json:"claimSelector,omitempty"`
}

// PlacementStatus reports what was chosen.
type PlacementStatus struct {
	// numberOfSelectedClusters is the number of chosen members.
	// +optional
	NumberOfSelectedClusters int32 `json:"numberOfSelectedClusters"`

	// decisionGroups are the groups of the chosen members, in their order.
	// +optional
	DecisionGroups []DecisionGroupStatus `json:"decisionGroups"`

	// lastScoreUpdateTime is when scores were last written into the decisions.
	// +optional
	LastScoreUpdateTime *metav1.Time `json:"lastScoreUpdateTime,omitempty"`

	// conditions have type PlacementSatisfied or PlacementMisconfigured.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions"`
}

// DecisionGroupStatus is a group of chosen members.
type DecisionGroupStatus struct {
	// decisionGroupIndex is the number of the group, from 0.
	// +optional
	DecisionGroupIndex int32 `json:"decisionGroupIndex"`

	// decisionGroupName is the name of the group, or nothing.
	// +optional
	DecisionGroupName string `json:"decisionGroupName"`

	// decisions are the names of the PlacementDecisions of the group.
	// +optional
	Decisions []string `json:"decisions"`

	// clusterCount is the number of members in the group.
	// +kubebuilder:default:=0
	// +optional
	ClustersCount int32 `json:"clusterCount"`
}

// PlacementList is a list of Placements.
//
// +kubebuilder:object:root=true
type PlacementList struct {
	metav1.TypeMeta `json:",inline"`
	// +optional
	metav1.ListMeta `json:"metadata,omitempty"`

	// items are the Placements.
	Items []Placement `json:"items"`
}
