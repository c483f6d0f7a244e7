// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/propagation/claims"
)

// ReasonCode says for programs why something is decided.
type ReasonCode string

// What becomes of an object and its policy.
const (
	// Applied is that the policy is applied to the object.
	Applied ReasonCode = "Applied"
	// Reserved is that the object is never sent. What was sent of it is withdrawn.
	Reserved ReasonCode = "Reserved"
	// Unclaimed is that no policy selects it: the one that has claimed it lets go of it, and
	// what is in the clusters stays.
	Unclaimed ReasonCode = "Unclaimed"
	// Unserved is that this hub does not send it, with the same consequences.
	Unserved ReasonCode = "Unserved"
	// OverridesInvalid is that its policy waits for more override policies than it may, or for what
	// has no name that it could have.
	OverridesInvalid ReasonCode = "OverridesInvalid"
	// PolicyTooLarge is that its policy has more than is copied into the binding of each object.
	PolicyTooLarge ReasonCode = "PolicyTooLarge"
	// OverrideAbsent is that its policy waits for an override policy that does not exist.
	OverrideAbsent ReasonCode = "OverrideAbsent"
	// Postponed is that its policy is lazy, and waits for a change of it.
	Postponed ReasonCode = "Postponed"
	// ClassAbsent is that its policy names a PriorityClass that does not exist.
	ClassAbsent ReasonCode = "ClassAbsent"
	// ReplicasUnknown is that who says how many replicas it has fails.
	ReplicasUnknown ReasonCode = "ReplicasUnknown"
	// ComponentsUnknown is that who says which parts it has fails.
	ComponentsUnknown ReasonCode = "ComponentsUnknown"
)

// What becomes of the clusters of a binding.
const (
	// Chosen is that they are chosen now.
	Chosen ReasonCode = "Chosen"
	// Kept is that they are still right.
	Kept ReasonCode = "Kept"
	// Follows is that they are those of the objects that refer to its object.
	Follows ReasonCode = "Follows"
	// ScheduleSuspended is that somebody keeps them from being chosen.
	ScheduleSuspended ReasonCode = "ScheduleSuspended"
	// OtherScheduler is that somebody else chooses them.
	OtherScheduler ReasonCode = "OtherScheduler"
	// NoClusters is that the hub knows no cluster at all.
	NoClusters ReasonCode = "NoClusters"
	// Refused is that admission has refused them a moment ago.
	Refused ReasonCode = "Refused"
)

// Which clusters get changes.
const (
	// Dispatched is that all of them do.
	Dispatched ReasonCode = "Dispatched"
	// DispatchSuspended is that none does.
	DispatchSuspended ReasonCode = "DispatchSuspended"
	// ClustersSuspended is that some do not.
	ClustersSuspended ReasonCode = "ClustersSuspended"
)

// Why a policy that selects an object does not claim it, although another one does.
const (
	// HolderLeaves is that the other one does not select the object any more.
	HolderLeaves ReasonCode = "HolderLeaves"
	// TakesOver is that the policy takes the object over, if it may.
	TakesOver ReasonCode = "TakesOver"
	// HolderStays is that the policy came late.
	HolderStays ReasonCode = "HolderStays"
	// ClusterWide is that the policy is for all namespaces, and the other one is not.
	ClusterWide ReasonCode = "ClusterWide"
	// LessPriority is that its priority is less.
	LessPriority ReasonCode = "LessPriority"
	// LessExact is that its selectors are less exact.
	LessExact ReasonCode = "LessExact"
	// LaterName is that only names distinguish the two.
	LaterName ReasonCode = "LaterName"
)

// Reason is why something is decided.
type Reason struct {
	Code ReasonCode
	// Policy is the one that the code is about, if it is about one.
	Policy policyv1alpha1.Policy
	// Detail is what the code is about besides, such as the name of what does not exist.
	Detail string
	// Problem is what an interpreter says, if it fails.
	Problem error
}

// ReleasesObject reports whether the policy that has claimed the object lets go of it.
func (r Reason) ReleasesObject() bool { return r.Code == Unclaimed || r.Code == Unserved }

// EventNote is the reason as Events on the object have it.
func (r Reason) EventNote() string {
	if r.Policy == nil {
		return r.codeText()
	}
	return fmt.Sprintf("policy %q%s", r.Policy.GetName(), r.codeText())
}

// ToClause is the reason for people, as a part of a sentence.
func (r Reason) ToClause() string { return claims.PolicyDisplayName(r.Policy) + r.codeText() }

// ToSentence is the reason for people.
func (r Reason) ToSentence() string {
	clause := r.ToClause()
	first, size := utf8.DecodeRuneInString(clause)
	return string(unicode.ToUpper(first)) + strings.TrimSuffix(clause[size:], ".") + "."
}

// codeText says what the code means. Where that is about a policy, it goes after its name.
func (r Reason) codeText() string {
	switch r.Code {
	case Reserved:
		return r.Detail
	case Unclaimed:
		return "no policy selects it"
	case Unserved:
		return " selects it, but " + r.Detail
	case OverridesInvalid, PolicyTooLarge:
		return " is not applied: " + r.Detail
	case OverrideAbsent:
		return fmt.Sprintf(" waits for override policy %q (spec.dependentOverrides), which does not exist: create it", r.Detail)
	case Postponed:
		return " is applied lazily (spec.activationPreference): it waits until the object itself changes"
	case ClassAbsent:
		return fmt.Sprintf(" names PriorityClass %q (spec.schedulePriority), which does not exist: create it, or name another one", r.Detail)
	case ReplicasUnknown, ComponentsUnknown:
		return ": the replica count could not be determined: " + interpret.ErrorSentences(r.Problem)
	case Applied:
		return " is applied"
	default:
		return cmp.Or(r.clusterText(), r.contestText(), string(r.Code))
	}
}

// clusterText says what a code means that is about clusters.
func (r Reason) clusterText() string {
	switch r.Code {
	case Chosen:
		return r.Detail
	case Kept:
		return "its clusters are still right"
	case Follows:
		return "it goes where the objects are that refer to it"
	case ScheduleSuspended:
		return "its binding has suspension.scheduling set, so no clusters are chosen until it is cleared"
	case OtherScheduler:
		return fmt.Sprintf("the clusters are chosen by scheduler %q, which is not part of the hub", r.Detail)
	case NoClusters:
		return "the hub has no clusters: everything stays as it is"
	case Refused:
		return "the hub has just refused its clusters"
	case DispatchSuspended:
		return "its policy has suspension.dispatching set, so no cluster gets changes until it is cleared"
	case ClustersSuspended:
		return fmt.Sprintf("its policy has suspension.dispatchingOnClusters set for %s, so these get no changes until it is cleared", r.Detail)
	default:
		return ""
	}
}

// contestText says what a code means that is about a policy and the one that has the object.
func (r Reason) contestText() string {
	switch r.Code {
	case HolderLeaves:
		return "it selects the object, and waits for the other to release it"
	case TakesOver:
		return "it takes the object over if feature gate PropagationPolicyPreemption of the hub is on: in a moment then"
	case HolderStays:
		return "it would take precedence, but an object stays with the policy that has claimed it"
	case ClusterWide:
		return "a PropagationPolicy takes precedence over any ClusterPropagationPolicy"
	case LessPriority:
		return "its priority " + r.Detail
	case LessExact:
		return "it selects by " + r.Detail
	case LaterName:
		return "of equal policies the first by name wins"
	default:
		return ""
	}
}

// JoinNames returns names, in order, as people write them.
func JoinNames(names []string) string {
	sorted := slices.Sorted(slices.Values(names))
	if len(sorted) < 2 {
		return strings.Join(sorted, "")
	}
	last := len(sorted) - 1
	return strings.Join(sorted[:last], ", ") + " and " + sorted[last]
}
