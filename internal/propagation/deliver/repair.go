// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package deliver

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// annotationWritten has a hash of what the hub wrote into a work last. Agents may change no annotation of
// a work, so that it tells what they have undone, also to a controller that starts. Nothing is written for its sake: a work from
// before has it when it is changed.
const annotationWritten = "fleet.capstan.io/written"

// writtenBytes is how long the hash is.
const writtenBytes = 16

// markWritten returns a work with the hash of what is written into it.
func markWritten(work *workv1.ManifestWork) (*workv1.ManifestWork, error) {
	content, err := hashOf(work)
	if err != nil {
		return nil, err
	}
	annotations := maps.Clone(work.Annotations)
	delete(annotations, annotationWritten)
	text, err := json.Marshal([]any{content, work.Labels, annotations, work.Spec.DeleteOption})
	if err != nil {
		return nil, fmt.Errorf("encoding work %q: %w", work.Namespace+"/"+work.Name, err)
	}
	hash := sha256.Sum256(text)
	marked := *work
	marked.Annotations = map[string]string{annotationWritten: hex.EncodeToString(hash[:writtenBytes])}
	maps.Copy(marked.Annotations, annotations)
	return &marked, nil
}

// IsRepair reports whether the hub wrote the same last, and somebody else has changed it.
func (c WorkChange) IsRepair() bool {
	return c.Present.Annotations[annotationWritten] != "" && WrittenAlike(c.Present, c.Wanted)
}

// WrittenAlike reports whether what the hub wrote last is the same in two works, or in one before and after a change.
func WrittenAlike(a, b metav1.Object) bool { return WrittenHash(a) == WrittenHash(b) }

// WrittenHash returns the hash of what the hub wrote into a work last, "" if that is not known.
func WrittenHash(work metav1.Object) string { return work.GetAnnotations()[annotationWritten] }
