// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/json"
	"strconv"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/agent/work/size"
)

// Bytes of the parts of a status as JSON, without the texts in them: the names
// of the fields, the punctuation, and the longest numbers and times. Somewhat
// more than they need.
const (
	conditionBytes = 124
	metaBytes      = 92
	manifestBytes  = 68
	valueBytes     = 76
)

func conditionsBytes(list []metav1.Condition) int {
	n := 0
	for i := range list {
		c := &list[i]
		n += conditionBytes + size.TextBytes(c.Type, c.Reason, c.Message) + len(strconv.FormatInt(c.ObservedGeneration, 10))
	}
	return n
}

func valuesBytes(values []workv1.FeedbackValue) int {
	n := 0
	for i := range values {
		n += valueBytes + size.TextBytes(values[i].Name)
		if v := values[i].FieldValue.String; v != nil {
			n += size.TextBytes(*v)
		}
		if v := values[i].FieldValue.JSONRaw; v != nil {
			n += size.TextBytes(*v)
		}
	}
	return n
}

// entryBytes is the size of an entry of the status with its values.
func entryBytes(m *workv1.ManifestCondition) int {
	r := &m.ResourceMeta
	return manifestBytes + metaBytes + size.TextBytes(r.Group, r.Version, r.Kind, r.Resource, r.Namespace, r.Name) +
		conditionsBytes(m.Conditions) + valuesBytes(m.StatusFeedback.Values)
}

// StatusBytes returns how many bytes a status takes as JSON, or somewhat more. It does not
// encode it.
func StatusBytes(status *workv1.ManifestWorkStatus) int {
	n := manifestBytes + conditionsBytes(status.Conditions)
	for i := range status.ResourceStatus.Manifests {
		n += entryBytes(&status.ResourceStatus.Manifests[i])
	}
	return n
}

// BytesWithoutStatus returns how many bytes a work takes as JSON without its status. It
// encodes what is beside the manifests, so it is nothing to do for each report.
func BytesWithoutStatus(work *workv1.ManifestWork) int {
	n := 0
	for i := range work.Spec.Workload.Manifests {
		n += len(work.Spec.Workload.Manifests[i].Raw) + 1
	}
	others := &workv1.ManifestWork{ObjectMeta: work.ObjectMeta, Spec: work.Spec}
	others.Spec.Workload.Manifests = nil
	if text, err := json.Marshal(others); err == nil { // it was read from JSON
		n += len(text)
	}
	return n
}
