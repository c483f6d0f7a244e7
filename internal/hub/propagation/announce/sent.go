// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package announce

import (
	corev1 "k8s.io/api/core/v1"

	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
)

// SendResult is what came of sending the object of a binding.
type SendResult struct {
	// Wrote says that works were written, and Overridden that policies have changed
	// the object for some of them.
	Wrote, Overridden bool
	// Mistakes are those of override policies, and Failed is why works could not be
	// written; nil if nothing is wrong.
	Mistakes, Failed error
}

// Events returns the events about that.
func (s SendResult) Events(b workv1alpha2.Binding) []Event {
	var all []Event
	switch {
	case s.Failed != nil:
		all = append(all, FailureEvents(b, ReasonSyncWorkFailed, s.Failed.Error())...)
	case s.Wrote:
		all = append(all, SuccessEvents(b, ReasonSyncWorkSucceed, "The works of the clusters are up to date.")...)
	}
	switch {
	case s.Mistakes != nil:
		all = append(all, aboutObject(b, corev1.EventTypeWarning, ReasonApplyOverridePolicyFailed, s.Mistakes.Error())...)
	case s.Wrote && s.Overridden:
		all = append(all, aboutObject(b, corev1.EventTypeNormal, ReasonApplyOverridePolicySucceed, "Override policies were applied.")...)
	}
	return all
}

// BindingWarning returns a warning about a binding, and not its object.
func BindingWarning(b workv1alpha2.Binding, reason, note string) Event {
	return Event{About: BindingReference(b), Type: corev1.EventTypeWarning, Reason: reason, Note: note}
}
