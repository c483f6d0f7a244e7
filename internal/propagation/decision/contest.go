// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package decision

import (
	"fmt"

	"k8s.io/utils/ptr"

	"github.com/capstan-io/capstan/internal/propagation/claims"
	"github.com/capstan-io/capstan/internal/propagation/selector"
)

// DecideContest says why a policy that selects an object does not claim it, although another
// one does. It is about what claims.ChoosePolicy has decided.
func DecideContest(loser, holder claims.PolicyMatch) Reason {
	priority := func(m claims.PolicyMatch) int32 { return ptr.Deref(m.Policy.PropagationSpec().Priority, 0) }
	switch {
	case holder.Exact == selector.None:
		return Reason{Code: HolderLeaves}
	case loser.PreemptsClaim(holder):
		return Reason{Code: TakesOver}
	case loser.ComparePrecedence(holder) < 0:
		return Reason{Code: HolderStays}
	case (loser.Policy.GetNamespace() == "") != (holder.Policy.GetNamespace() == ""):
		return Reason{Code: ClusterWide}
	case priority(loser) != priority(holder):
		return Reason{Code: LessPriority, Detail: fmt.Sprintf("%d is less than %d", priority(loser), priority(holder))}
	case loser.Exact != holder.Exact:
		return Reason{Code: LessExact, Detail: fmt.Sprintf("%s, which is less specific than by %s", SelectorName(loser.Exact), SelectorName(holder.Exact))}
	default:
		return Reason{Code: LaterName}
	}
}

// SelectorName says by what an object is selected; "" is that it is not.
func SelectorName(exact selector.Priority) string {
	switch exact {
	case selector.ByName:
		return "name"
	case selector.ByLabels:
		return "labels"
	case selector.ByKind:
		return "kind"
	default:
		return ""
	}
}
