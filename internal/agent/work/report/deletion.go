// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/agent/work/plan"
	"github.com/capstan-io/capstan/internal/kube/apply"
)

// UnlistedType is a type whose objects are not known yet, with what the server
// says, nil if it is only a matter of time.
type UnlistedType struct {
	Type string
	Err  error
}

// DeletingCondition is the condition of a work whose deletion takes long: what it waits
// for, or what went wrong.
func DeletingCondition(leftovers []plan.Leftover, unlisted []UnlistedType, failure error) metav1.Condition {
	c := metav1.Condition{
		Type: workv1.ManifestWorkConditionDeleting, Status: metav1.ConditionTrue,
		Reason: workv1.ManifestWorkReasonWorkDeleting, Message: "Looking for the objects on the cluster.",
	}
	switch {
	case failure != nil:
		c.Message = "The objects on the cluster cannot be removed: " + serverMessage(failure)
	case len(leftovers) > 0:
		c.Message = "Waiting for objects on the cluster to be deleted: " + describeLeftovers(leftovers)
	case len(unlisted) > 0:
		texts := make([]string, 0, len(unlisted))
		for _, each := range unlisted {
			text := each.Type
			if each.Err != nil {
				text += " (" + serverMessage(each.Err) + ")"
			}
			texts = append(texts, text)
		}
		c.Message = "Looking for the objects on the cluster. Not listed yet: " + strings.Join(texts, "; ") + "."
	}
	return c
}

// NotMovedCondition is the condition of a work whose record was deleted by someone, and
// whose objects cannot be moved.
func NotMovedCondition(record string, leftovers []plan.Leftover) metav1.Condition {
	return notAppliedCondition(fmt.Sprintf("AppliedManifestWork %q was deleted on the cluster. It is recreated once its objects have been "+
		"moved, but these cannot be: %s", record, describeLeftovers(leftovers)))
}

// ClaimDeniedCondition is the condition of a work whose record is another agent's.
func ClaimDeniedCondition(record *workv1.AppliedManifestWork, work string) metav1.Condition {
	return notAppliedCondition(fmt.Sprintf("AppliedManifestWork %q on the cluster belongs to the agent %q, which is alive: the same cluster is "+
		"registered with this hub twice, and both have a ManifestWork %q. Rename or delete one of them, or remove one of the Klusterlets.",
		record.Name, record.Spec.AgentID, work))
}

func notAppliedCondition(message string) metav1.Condition {
	return metav1.Condition{
		Type: workv1.ManifestWorkConditionApplied, Status: metav1.ConditionFalse,
		Reason: workv1.ManifestWorkReasonAppliedManifestWorkFailed, Message: message,
	}
}

// HasStuckLeftover reports whether an object cannot be removed, and that is not a matter of
// time.
func HasStuckLeftover(leftovers []plan.Leftover) bool {
	return slices.ContainsFunc(leftovers, func(l plan.Leftover) bool { return l.Problem.Trouble != apply.TroubleNone })
}

// serverMessage returns what a server said in an error. Other errors can read
// differently each time.
func serverMessage(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return plan.ToSentence(status.Status().Message)
	}
	return "The cluster does not respond."
}

// describeLeftovers names leftovers and what holds them.
func describeLeftovers(leftovers []plan.Leftover) string {
	var texts []string
	for i, left := range leftovers {
		if i == namedObjectsMax {
			break
		}
		text := left.Object.String()
		switch {
		case left.Problem.Trouble != apply.TroubleNone:
			text += " (" + left.Problem.Message + ")"
		case len(left.Finalizers) > 0:
			text += fmt.Sprintf(" (held by its finalizers %s since %s)",
				strings.Join(left.Finalizers, ", "), time.Unix(left.Since, 0).UTC().Format(time.RFC3339))
		case left.Object.Resource == "namespaces":
			text += " (terminating until its content is gone)"
		}
		texts = append(texts, text)
	}
	return strings.Join(andMore(texts, len(leftovers)-len(texts)), "; ") + "."
}

// andMore adds how many there are that are not named.
func andMore(names []string, more int) []string {
	if more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return names
}
