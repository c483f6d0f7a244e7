// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package definitions

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/operator/render"
)

func TestOnlyWhatIsOlderOrWasChangedIsWritten(t *testing.T) {
	live := func(version, hash string, generation int64) *metav1.PartialObjectMetadata {
		object := DefinitionMetadata()
		object.Annotations = map[string]string{operatorv1.AnnotationCRDVersion: version, render.HashAnnotation: hash}
		object.Labels = map[string]string{"owner": "us"}
		object.Generation = generation
		return object
	}
	unlabelled := live("1.2.3", "same", 1)
	unlabelled.Labels = nil
	for name, test := range map[string]struct {
		reason string
		live   *metav1.PartialObjectMetadata
		ours   string
		want   writeDecision
	}{
		"Missing":          {"there is none", nil, "1.2.3", write},
		"AsWanted":         {"nothing is to be done", live("1.2.3", "same", 1), "1.2.3", keep},
		"AnotherHash":      {"we want something else than the last time", live("1.2.3", "other", 1), "1.2.3", write},
		"Changed":          {"someone has changed it since", live("1.2.3", "same", 2), "1.2.3", write},
		"Unlabelled":       {"without our label nobody would watch it", unlabelled, "1.2.3", write},
		"Older":            {"we are newer", live("1.2.2", "other", 1), "1.2.3", write},
		"Newer":            {"an older operator would take fields away", live("1.10.0", "other", 2), "1.2.3", leave},
		"NewerThanUnknown": {"an operator that does not know its version must not overwrite a release", live("1.2.3", "other", 2), "devel", leave},
		"Unknown":          {"what is not a version is older than any", live("devel", "other", 1), "1.2.3", write},
		"BothUnknown":      {"none of the two is newer", live("devel", "other", 1), "unknown", write},
		"Foreign":          {"someone without versions has made it", live("", "", 1), "1.2.3", write},
	} {
		t.Run(name, func(t *testing.T) {
			wanted := &unstructured.Unstructured{Object: map[string]any{}}
			wanted.SetAnnotations(map[string]string{operatorv1.AnnotationCRDVersion: test.ours, render.HashAnnotation: "same"})
			wanted.SetLabels(map[string]string{"owner": "us"})
			if got := decideWrite(test.live, wanted, 1); got != test.want {
				t.Errorf("%s: got %d, want %d", test.reason, got, test.want)
			}
		})
	}
}
