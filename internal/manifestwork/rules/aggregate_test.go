// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package rules_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/manifestwork/rules"
)

// manifests makes an object for each list of "Type=Status" pairs; conditions
// named Available are the agent's own, all others those of rules.
func manifests(lists ...map[string]string) []workv1.ManifestCondition {
	var all []workv1.ManifestCondition
	for i, list := range lists {
		m := workv1.ManifestCondition{ResourceMeta: workv1.ManifestResourceMeta{
			Ordinal: int32(i), Kind: "Job", Namespace: "ns", Name: string(rune('a' + i)),
		}}
		for name, status := range list {
			reason := workv1.ManifestReasonConditionRuleEvaluated
			if name == "Available" {
				reason = workv1.ManifestReasonResourceAvailable
			}
			m.Conditions = append(m.Conditions, metav1.Condition{
				Type: name, Status: metav1.ConditionStatus(status), Reason: reason, Message: "It is " + status + ".",
			})
		}
		all = append(all, m)
	}
	return all
}

func TestConditionsOfObjectsAreSummedUp(t *testing.T) {
	t.Parallel()
	type list = map[string]string
	cases := map[string]struct {
		reason  string
		objects []workv1.ManifestCondition
		want    map[string]string
	}{
		"no rule": {
			reason: "conditions of the agent are not for this", objects: manifests(list{"Available": "True"}), want: map[string]string{},
		},
		"Complete of all": {reason: "all are", objects: manifests(list{"Complete": "True"}, list{"Complete": "True"}), want: list{"Complete": "True"}},
		"Complete of one": {reason: "one is not", objects: manifests(list{"Complete": "True"}, list{"Complete": "False"}), want: list{"Complete": "False"}},
		"Complete of one, and none of another": {
			reason: "an object without a rule does not count", objects: manifests(list{"Complete": "True"}, list{"Available": "True"}), want: list{"Complete": "True"},
		},
		"Complete unknown of one": {
			reason: "it may be", objects: manifests(list{"Complete": "True"}, list{"Complete": "Unknown"}), want: list{"Complete": "Unknown"},
		},
		"Complete unknown of one and not of another": {
			reason: "one that is not decides", objects: manifests(list{"Complete": "Unknown"}, list{"Complete": "False"}), want: list{"Complete": "False"},
		},
		"Progressing of one": {
			reason: "one is enough", objects: manifests(list{"Progressing": "True"}, list{"Progressing": "False"}), want: list{"Progressing": "True"},
		},
		"Progressing of one, unknown of another": {
			reason: "one is enough", objects: manifests(list{"Progressing": "Unknown"}, list{"Progressing": "True"}), want: list{"Progressing": "True"},
		},
		"Progressing unknown of one": {
			reason: "False would mean that all have arrived", objects: manifests(list{"Progressing": "Unknown"}, list{"Progressing": "False"}), want: list{"Progressing": "Unknown"},
		},
		"Progressing of none": {reason: "all have arrived", objects: manifests(list{"Progressing": "False"}, list{"Progressing": "False"}), want: list{"Progressing": "False"}},
		"Degraded of one":     {reason: "one is enough", objects: manifests(list{"Degraded": "False"}, list{"Degraded": "True"}), want: list{"Degraded": "True"}},
		"any other": {
			reason: "all have to be", objects: manifests(list{"Fine": "True", "Good": "True"}, list{"Fine": "False"}), want: list{"Fine": "False", "Good": "True"},
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := map[string]string{}
			for _, condition := range rules.AggregateConditions(c.objects) {
				got[condition.Type] = string(condition.Status)
				if condition.Reason != workv1.ManifestWorkReasonConditionRulesAggregated {
					t.Errorf("reason %s", condition.Reason)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s: %s", c.reason, diff)
			}
		})
	}
}

func TestASumSaysWhatDecides(t *testing.T) {
	t.Parallel()
	type list = map[string]string
	cases := map[string]struct {
		objects []workv1.ManifestCondition
		want    string
	}{
		"one object": {manifests(list{"Complete": "False"}), "It is False."},
		"all": {
			manifests(list{"Complete": "True"}, list{"Complete": "True"}),
			"Complete is True of all 2 objects: manifest 0 Job ns/a: It is True; manifest 1 Job ns/b: It is True.",
		},
		"some": {
			manifests(list{"Complete": "True"}, list{"Complete": "False"}),
			"Complete is False of 1 of 2 objects: manifest 1 Job ns/b: It is False.",
		},
		"many": {
			manifests(list{"Complete": "False"}, list{"Complete": "False"}, list{"Complete": "False"}, list{"Complete": "False"}, list{"Complete": "True"}),
			"Complete is False of 4 of 5 objects: manifest 0 Job ns/a: It is False; manifest 1 Job ns/b: It is False; manifest 2 Job ns/c: It is False; and 1 more.",
		},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := rules.AggregateConditions(c.objects)
			if len(got) != 1 || got[0].Message != c.want {
				t.Errorf("want %q, got %+v", c.want, got)
			}
		})
	}
}

func TestARuleForAvailableIsSummedUpWithTheAgentsOwn(t *testing.T) {
	t.Parallel()
	objects := manifests(map[string]string{"Available": "False"}, map[string]string{"Available": "True"})
	objects[1].Conditions[0].Reason = workv1.ManifestReasonConditionRuleEvaluated
	got := rules.AggregateConditions(objects)
	if len(got) != 1 || got[0].Type != "Available" || got[0].Status != metav1.ConditionFalse {
		t.Errorf("want Available to be False of the work, as it is of one object, got %+v", got)
	}
}
