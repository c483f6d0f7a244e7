// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package ledger

import (
	"encoding/json"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// A work that vanishes without being deleted does not tell any more which of
// its objects are to stay. So its record has that, too.

// optionBytesMax is the size in bytes of the longest deleteOption that is noted, and read.
// The annotations of an object may have 256 KiB.
const optionBytesMax = 64 << 10

// formatOption returns a deleteOption as it is noted, "" for the usual one. If
// its rules are too long all objects stay: who listed so many wants to keep them.
func formatOption(option *workv1.DeleteOption) (string, error) {
	if option == nil || option.PropagationPolicy == "" || option.PropagationPolicy == workv1.DeletePropagationPolicyForeground {
		return "", nil
	}
	short := workv1.DeleteOption{PropagationPolicy: option.PropagationPolicy, SelectivelyOrphans: option.SelectivelyOrphans}
	text, err := json.Marshal(short)
	if err == nil && len(text) > optionBytesMax {
		text, err = json.Marshal(workv1.DeleteOption{PropagationPolicy: workv1.DeletePropagationPolicyOrphan})
	}
	if err != nil {
		return "", fmt.Errorf("encoding spec.deleteOption: %w", err)
	}
	return string(text), nil
}

// testament is what a record knows of its work in case that vanishes: what is to
// stay, and since when the work was there.
type testament struct{ option, origin string }

func (t testament) annotateRecord(record *workv1.AppliedManifestWork) {
	setOption(record, t.option)
	setOrigin(record, t.origin)
}

func setOption(record *workv1.AppliedManifestWork, option string) {
	if option == "" {
		delete(record.Annotations, workv1.AnnotationDeleteOption)
		return
	}
	metav1.SetMetaDataAnnotation(&record.ObjectMeta, workv1.AnnotationDeleteOption, option)
}

// DeleteOption returns the deleteOption of the work as it was noted last, nil
// for the usual one.
func (r *AppliedRecord) DeleteOption() (*workv1.DeleteOption, error) {
	text := r.object.Annotations[workv1.AnnotationDeleteOption]
	if text == "" {
		return nil, nil //nolint:nilnil // documented
	}
	if len(text) > optionBytesMax {
		return nil, fmt.Errorf("the annotation %s of appliedmanifestwork %q has more than %d bytes; shorten it, or remove it to delete all objects",
			workv1.AnnotationDeleteOption, r.object.Name, optionBytesMax)
	}
	option := &workv1.DeleteOption{}
	if err := json.Unmarshal([]byte(text), option); err != nil {
		return nil, fmt.Errorf("reading the annotation %s of appliedmanifestwork %q: %w; fix it, or remove it to delete all objects",
			workv1.AnnotationDeleteOption, r.object.Name, err)
	}
	return option, nil
}
