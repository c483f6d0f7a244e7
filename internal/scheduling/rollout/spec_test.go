// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	clusterv1alpha1 "github.com/capstan-io/capstan/apis/cluster/v1alpha1"
)

func TestStrategiesAreReadFromTheAPI(t *testing.T) {
	ten := 10 * time.Minute
	config := clusterv1alpha1.RolloutConfig{MinSuccessTime: "5m", ProgressDeadline: "10m", MaxFailures: intstr.FromString("10%")}
	mandatory := clusterv1alpha1.MandatoryDecisionGroups{
		MandatoryDecisionGroups: []clusterv1alpha1.MandatoryDecisionGroup{{GroupName: "canary"}, {GroupIndex: 2}},
	}
	refs := []GroupRef{{Name: "canary"}, {Index: 2}}
	for name, test := range map[string]struct {
		spec clusterv1alpha1.RolloutStrategy
		want Strategy
	}{
		"nothing": {want: Strategy{Kind: All}},
		"all, without a deadline": {
			spec: clusterv1alpha1.RolloutStrategy{Type: "All", All: &clusterv1alpha1.RolloutAll{RolloutConfig: clusterv1alpha1.RolloutConfig{
				MinSuccessTime: "0", ProgressDeadline: "None",
			}}},
			want: Strategy{Kind: All},
		},
		"what is for another type does not count": {
			spec: clusterv1alpha1.RolloutStrategy{Type: "All", Progressive: &clusterv1alpha1.RolloutProgressive{RolloutConfig: config}},
			want: Strategy{Kind: All},
		},
		"progressive": {
			spec: clusterv1alpha1.RolloutStrategy{Type: "Progressive", Progressive: &clusterv1alpha1.RolloutProgressive{
				RolloutConfig: config, MandatoryDecisionGroups: mandatory, MaxConcurrency: intstr.FromInt32(3),
			}},
			want: Strategy{
				Kind: Progressive, MinSuccess: 5 * time.Minute, Deadline: &ten, MaxFailures: intstr.FromString("10%"),
				MaxConcurrency: intstr.FromInt32(3), Mandatory: refs,
			},
		},
		"group by group": {
			spec: clusterv1alpha1.RolloutStrategy{Type: "ProgressivePerGroup", ProgressivePerGroup: &clusterv1alpha1.RolloutProgressivePerGroup{
				RolloutConfig: config, MandatoryDecisionGroups: mandatory,
			}},
			want: Strategy{
				Kind: ProgressivePerGroup, MinSuccess: 5 * time.Minute, Deadline: &ten, MaxFailures: intstr.FromString("10%"), Mandatory: refs,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, problems := ParseStrategy(test.spec, field.NewPath("rolloutStrategy"))
			if diff := cmp.Diff(test.want, got); diff != "" || len(problems) > 0 {
				t.Errorf("problems %v; (-want +got):\n%s", problems, diff)
			}
		})
	}
}

func TestMistakesOfTheAPIAreNamedByField(t *testing.T) {
	progressive := func(config clusterv1alpha1.RolloutConfig) clusterv1alpha1.RolloutStrategy {
		return clusterv1alpha1.RolloutStrategy{Type: "Progressive", Progressive: &clusterv1alpha1.RolloutProgressive{RolloutConfig: config}}
	}
	for want, spec := range map[string]clusterv1alpha1.RolloutStrategy{
		"r.type": {Type: "Sometimes"},
		"r.all.maxFailures": {Type: "All", All: &clusterv1alpha1.RolloutAll{RolloutConfig: clusterv1alpha1.RolloutConfig{
			MaxFailures: intstr.FromString("many"),
		}}},
		"r.progressive.minSuccessTime":   progressive(clusterv1alpha1.RolloutConfig{MinSuccessTime: "soon"}),
		"r.progressive.progressDeadline": progressive(clusterv1alpha1.RolloutConfig{ProgressDeadline: "5|"}),
		"r.progressive.maxFailures":      progressive(clusterv1alpha1.RolloutConfig{MaxFailures: intstr.FromString("many")}),
		"r.progressive.maxConcurrency": {Type: "Progressive", Progressive: &clusterv1alpha1.RolloutProgressive{
			MaxConcurrency: intstr.FromString("0%"),
		}},
	} {
		_, problems := ParseStrategy(spec, field.NewPath("r"))
		if len(problems) != 1 || problems[0].Field != want {
			t.Errorf("got %v, want one problem, with %s", problems, want)
		}
	}
}
