// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"reflect"
	"testing"

	workv1alpha1 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

func TestOptionsAreReadFromTheWork(t *testing.T) {
	bound := WorkOptions{
		State: true, Completes: true, Yields: true, Retains: true, Interpreted: true,
		NamespacesFollow: true, SuspendedReports: true, ProblemAlone: true,
	}
	healthy := bound
	healthy.Health = true
	for name, tc := range map[string]struct {
		labels, annotations map[string]string
		all                 HealthOptions
		want                WorkOptions
	}{
		"a work of OCM":                          {},
		"a work of OCM that asks for health":     {annotations: map[string]string{workv1.AnnotationReportHealth: "true"}, want: WorkOptions{Health: true}},
		"a work of OCM that does not":            {annotations: map[string]string{workv1.AnnotationReportHealth: "false"}},
		"a work of OCM whose agent reports all":  {all: HealthOptions{Health: true}, want: WorkOptions{Health: true}},
		"a work of a binding":                    {labels: map[string]string{workv1alpha1.LabelPermanentID: "id"}, want: bound},
		"a work of a binding with no ID":         {labels: map[string]string{workv1alpha1.LabelPermanentID: ""}, want: bound},
		"a work of a binding, health of all too": {labels: map[string]string{workv1alpha1.LabelPermanentID: "id"}, all: HealthOptions{Health: true}, want: healthy},
	} {
		t.Run(name, func(t *testing.T) {
			work := &workv1.ManifestWork{}
			work.Labels, work.Annotations = tc.labels, tc.annotations
			if got := ReadWorkOptions(work, tc.all); got != tc.want {
				t.Errorf("it has %+v, want %+v", got, tc.want)
			}
		})
	}
}

// An option that no work sets would be one that nobody can have.
func TestEveryOptionCanBeHad(t *testing.T) {
	work := &workv1.ManifestWork{}
	work.Labels = map[string]string{workv1alpha1.LabelPermanentID: "id"}
	options := reflect.ValueOf(ReadWorkOptions(work, HealthOptions{Health: true}))
	for field, value := range options.Fields() {
		if !value.Bool() {
			t.Errorf("no work has %s", field.Name)
		}
	}
}
