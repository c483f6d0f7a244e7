// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"fmt"
	"strings"
	"unicode/utf8"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/capstan-io/capstan/internal/kube/apply"
)

// quotedBytesMax is how many bytes of an answer of the server a message has.
const quotedBytesMax = 1024

// DeniedError is the error for an executor that lacks permissions.
type DeniedError struct {
	Subject Subject
	Object  apply.ObjectRef
	// Verbs are those that the executor lacks; Needs are all that it has to
	// have for the object.
	Verbs, Needs []string
	// Missing says that there is no such ServiceAccount.
	Missing bool
}

// Error names who may not do what, and the permissions to give. It is the
// same each time.
func (d *DeniedError) Error() string {
	var text strings.Builder
	fmt.Fprintf(&text, "The executor %s may not %s %s", d.Subject.UserName(), strings.Join(d.Verbs, ", "), d.Object)
	if d.Missing {
		text.WriteString(", and there is no such ServiceAccount on the managed cluster")
	}
	role := "ClusterRole"
	where := ""
	if d.Object.Namespace != "" {
		role, where = "Role", fmt.Sprintf(" in namespace %q", d.Object.Namespace)
	}
	fmt.Fprintf(&text, ". Create a %s%s on the managed cluster with a rule for apiGroups [%q], resources [%q], verbs [%s], "+
		"and a %sBinding of it to the ServiceAccount %s/%s.",
		role, where, d.Object.Group, d.Object.Resource, strings.Join(d.Needs, " "), role, d.Subject.Namespace, d.Subject.Name)
	return text.String()
}

// LacksVerb reports whether the verb is among those that the executor lacks.
func (d *DeniedError) LacksVerb(verb string) bool {
	for _, v := range d.Verbs {
		if v == verb {
			return true
		}
	}
	return false
}

// RefusedError is the error for a write that the server does not let the executor
// do, although it may write such objects.
type RefusedError struct {
	Subject Subject
	Object  apply.ObjectRef
	// Answer is what the server says, on one line.
	Answer string
}

// Error names who may not write what, and why. It is the same each time.
func (r *RefusedError) Error() string {
	advice := ""
	if r.Object.Group == rbacv1.GroupName {
		advice = " Nobody can grant more than they have: give these permissions to the executor, or on the role the verb " +
			"\"bind\" if this is a binding, and \"escalate\" if it is the role itself."
	}
	return fmt.Sprintf("The executor %s may not write %s with this content.%s The API server says: %s",
		r.Subject.UserName(), r.Object, advice, r.Answer)
}

// PowerlessError is the error for an agent that may not try a write as the executor.
type PowerlessError struct {
	Subject Subject
	Object  apply.ObjectRef
}

// Error says what to allow to the agent.
func (p *PowerlessError) Error() string {
	return fmt.Sprintf("The agent cannot check whether the executor %s may write %s, because it may not impersonate it. "+
		"Create a ClusterRole on the managed cluster with the label open-cluster-management.io/aggregate-to-work=true "+
		"and a rule for apiGroups [\"\"], resources [\"serviceaccounts\"], verbs [impersonate].", p.Subject.UserName(), p.Object)
}

// oneLine makes the text of a server fit for a condition.
func oneLine(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	if len(text) <= quotedBytesMax {
		return text
	}
	cut := quotedBytesMax
	for !utf8.RuneStart(text[cut]) {
		cut--
	}
	return text[:cut] + " ..."
}
