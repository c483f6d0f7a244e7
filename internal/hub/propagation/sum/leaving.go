// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package sum

import (
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// finalizersTold is how many finalizers a message names.
const finalizersTold = 5

// LeavingRemark returns a remark about an object of the hub that was deleted and that finalizers
// keep for more than KeptAfter; "" if there is nothing to remark. Clusters keep the object
// as long as the hub has it: a finalizer asks for time before anything ends. Again is how
// soon there may be something to remark; 0 is never.
func LeavingRemark(object metav1.Object, now time.Time) (remark string, again time.Duration) {
	deleted := object.GetDeletionTimestamp()
	finalizers := object.GetFinalizers()
	if deleted.IsZero() || len(finalizers) == 0 {
		return "", 0
	}
	if left := KeptAfter - now.Sub(deleted.Time); left > 0 {
		return "", left
	}
	names := strings.Join(finalizers[:min(len(finalizers), finalizersTold)], ", ")
	if more := len(finalizers) - finalizersTold; more > 0 {
		names += fmt.Sprintf(" and %d more", more)
	}
	return fmt.Sprintf("The object is being deleted since %s and waits for finalizers: %s. Clusters keep what they have of it until these are removed.",
		deleted.UTC().Format(time.RFC3339), names), 0
}
