// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package teardown

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
)

func TestTheAnnotationSetsTheGracePeriod(t *testing.T) {
	deleted := metav1.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		annotation *string
		want       time.Duration
		problem    string
	}{
		"the default":             {nil, GracePeriodDefault, ""},
		"longer":                  {ptr.To("24h"), 24 * time.Hour, ""},
		"none":                    {ptr.To("0s"), 0, ""},
		"no duration":             {ptr.To("soon"), GracePeriodDefault, `is "soon", which is not a duration`},
		"a number without a unit": {ptr.To("30"), GracePeriodDefault, `is "30", which is not a duration`},
		"less than nothing":       {ptr.To("-5s"), GracePeriodDefault, `is "-5s", which is not a duration`},
		"nothing":                 {ptr.To(""), GracePeriodDefault, `is "", which is not a duration`},
	} {
		t.Run(name, func(t *testing.T) {
			cm := &operatorv1.ClusterManager{ObjectMeta: metav1.ObjectMeta{DeletionTimestamp: &deleted}}
			if tc.annotation != nil {
				cm.Annotations = map[string]string{operatorv1.AnnotationDeletionGracePeriod: *tc.annotation}
			}
			got := GracePeriodOf(cm)
			if got.Length != tc.want || !got.End.Equal(deleted.Add(tc.want)) {
				t.Errorf("it is %s, to %s; want %s", got.Length, got.End, tc.want)
			}
			if (got.Problem == "") != (tc.problem == "") || !strings.Contains(got.Problem, tc.problem) {
				t.Errorf("the problem is %q, want %q", got.Problem, tc.problem)
			}
			notice := HubLoss{Clusters: 1, Names: []string{"east"}, Works: 3}.DescribeLoss(got)
			if !strings.Contains(notice, got.Problem) {
				t.Errorf("the notice does not tell the problem: %s", notice)
			}
		})
	}
}

func TestTheNoticeNamesAFewClusters(t *testing.T) {
	end := time.Date(2026, 3, 1, 12, 0, 30, 0, time.UTC)
	got := HubLoss{Clusters: 7, Names: []string{"a", "b"}, Works: 40}.DescribeLoss(GracePeriod{End: end, Length: 30 * time.Second})
	const want = "7 joined clusters (a, b, …) lose their works at 2026-03-01T12:00:30Z, 30s after the deletion: " +
		"40 ManifestWorks and what they delivered are deleted; to leave what they delivered on the members, " +
		"set annotation fleet.capstan.io/keep-works=true on the ClusterManager"
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestWorksAreKeptWhenInDoubt(t *testing.T) {
	for name, tc := range map[string]struct {
		annotations map[string]string
		want        bool
	}{
		"no annotation":          {nil, false},
		"true":                   {map[string]string{operatorv1.AnnotationKeepWorks: "true"}, true},
		"anything":               {map[string]string{operatorv1.AnnotationKeepWorks: "yes"}, true},
		"nothing":                {map[string]string{operatorv1.AnnotationKeepWorks: ""}, true},
		"false":                  {map[string]string{operatorv1.AnnotationKeepWorks: "false"}, false},
		"false in other letters": {map[string]string{operatorv1.AnnotationKeepWorks: "False"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := KeepsWorks(&operatorv1.ClusterManager{ObjectMeta: metav1.ObjectMeta{Annotations: tc.annotations}}); got != tc.want {
				t.Errorf("got %t, want %t", got, tc.want)
			}
		})
	}
}
