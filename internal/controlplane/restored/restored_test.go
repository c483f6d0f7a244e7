// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package restored

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

func TestARangeContainsWhatWasWrittenAfterTheSnapshot(t *testing.T) {
	r, err := NewVersionRange(1200, 5200)
	expect.NoError(t, err)
	for version, want := range map[string]bool{
		"1": false, "1200": false, "1201": true, "5200": true, "5201": false, "99999999999": false,
		"": true, "abc": true, // nobody knows
	} {
		if got := r.MayHaveForgotten(version); got != want {
			t.Errorf("%s contains %q: %t, want %t", r, version, got, want)
		}
	}
}

func TestParse(t *testing.T) {
	for text, wrong := range map[string]string{
		"1200-1000001200": "", "0-1": "",
		"":         "with a hyphen between",
		"1200":     "with a hyphen between",
		"-1-5":     "with a hyphen between",
		"a-5":      "with a hyphen between",
		"5-a":      "with a hyphen between",
		"5-6-7":    "with a hyphen between",
		"5-5":      "has to be greater",
		"1200-100": "has to be greater",
	} {
		r, err := ParseVersionRange(text)
		switch {
		case wrong == "" && (err != nil || r.String() != text):
			t.Errorf("%q: got %s, %v", text, r, err)
		case wrong != "" && (err == nil || !strings.Contains(err.Error(), wrong)):
			t.Errorf("%q: got error %v, want one with %q", text, err, wrong)
		}
	}
}

func TestOf(t *testing.T) {
	object := &metav1.ObjectMeta{}
	if r, err := RangeOf(object); r != nil || err != nil {
		t.Errorf("nothing is published: got %v, %v", r, err)
	}
	metav1.SetMetaDataAnnotation(object, fleetv1alpha1.AnnotationRestored, "5-6")
	if r, err := RangeOf(object); err != nil || *r != (VersionRange{After: 5, Until: 6}) {
		t.Errorf("a range is published: got %v, %v", r, err)
	}
	metav1.SetMetaDataAnnotation(object, fleetv1alpha1.AnnotationRestored, "yesterday")
	if _, err := RangeOf(object); err == nil || !strings.Contains(err.Error(), fleetv1alpha1.AnnotationRestored) {
		t.Errorf("something else is published: got error %v, want one that names the annotation", err)
	}
}
