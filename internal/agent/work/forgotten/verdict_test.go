// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package forgotten

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// says returns the verdict of a ManagedCluster with the annotation.
func says(annotation string) restoreVerdict {
	mc := &metav1.ObjectMeta{Name: "m"}
	if annotation != "" {
		metav1.SetMetaDataAnnotation(mc, fleetv1alpha1.AnnotationRestored, annotation)
	}
	return verdictOf(mc)
}

func TestWhatTheHubForgotIsKept(t *testing.T) {
	for name, test := range map[string]struct {
		annotation, noted string
		want              bool
	}{
		"the hub was not restored":                      {noted: "uid/150"},
		"nor is it known when the work came":            {},
		"it came after the snapshot":                    {annotation: "100-1100", noted: "uid/150", want: true},
		"it was in the snapshot":                        {annotation: "100-1100", noted: "uid/100"},
		"it came after the restore":                     {annotation: "100-1100", noted: "uid/1101"},
		"the record is of an earlier release":           {annotation: "100-1100", want: true},
		"somebody wrote something else into the record": {annotation: "100-1100", noted: "50", want: true},
		"the annotation cannot be read":                 {annotation: "yesterday", noted: "uid/50", want: true},
	} {
		t.Run(name, func(t *testing.T) {
			record := &workv1.AppliedManifestWork{}
			if test.noted != "" {
				metav1.SetMetaDataAnnotation(&record.ObjectMeta, workv1.AnnotationFirstVersion, test.noted)
			}
			if got := says(test.annotation).keepsRecord(record); got != test.want {
				t.Errorf("it is kept: %t, want %t", got, test.want)
			}
		})
	}
}

func TestTheConditionSaysWhatIsMissingAndWhatToDo(t *testing.T) {
	for name, test := range map[string]struct {
		annotation string
		missing    []string
		status     metav1.ConditionStatus
		reason     string
		message    []string
	}{
		"nothing": {annotation: "1-2", status: metav1.ConditionFalse, reason: clusterv1.ManagedClusterReasonNothingKept},
		"one": {
			annotation: "1-2", missing: []string{"web"}, status: metav1.ConditionTrue, reason: clusterv1.ManagedClusterReasonHubRestored,
			message: []string{`lacks 1 ManifestWork ("web"),`, "create these", "remove the annotation fleet.capstan.io/restored"},
		},
		"many": {
			annotation: "1-2", missing: []string{"g", "f", "e", "d", "c", "b", "a"}, status: metav1.ConditionTrue,
			reason: clusterv1.ManagedClusterReasonHubRestored, message: []string{`7 ManifestWorks ("a", "b", "c", "d", "e", 2 more)`},
		},
		"one, and the range cannot be read": {
			annotation: "1", missing: []string{"web"}, status: metav1.ConditionTrue, reason: clusterv1.ManagedClusterReasonRestoredInvalid,
			message: []string{`"web"`, "annotation fleet.capstan.io/restored", "hyphen"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := says(test.annotation).missingCondition(test.missing)
			if c.Type != clusterv1.ManagedClusterConditionWorksMissing || c.Status != test.status || c.Reason != test.reason {
				t.Errorf("it is %+v", c)
			}
			for _, want := range test.message {
				if !strings.Contains(c.Message, want) {
					t.Errorf("%q does not contain %q", c.Message, want)
				}
			}
		})
	}
}
