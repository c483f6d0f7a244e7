// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package scheduler

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/cluster/view"
)

// versioned returns clusters of two versions of Kubernetes; old has a score.
func versioned() view.Fleet {
	cluster := func(name, version string) view.Cluster {
		return view.FromCluster(&clusterv1.ManagedCluster{
			ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"env": "prod"}},
			Status:     clusterv1.ManagedClusterStatus{Version: clusterv1.ManagedClusterVersion{Kubernetes: version}},
		}, nil)
	}
	scored := cluster("old", "v1.29.4")
	scored.Scores = map[view.ScoreName]view.Score{
		{Resource: "demo", Score: "cpu"}:  {Value: 40, Until: noon.Add(time.Minute)},
		{Resource: "demo", Score: "mem"}:  {Value: 90, Until: noon.Add(-time.Minute)},
		{Resource: "other", Score: "cpu"}: {Value: 3},
	}
	return view.NewFleet(scored, cluster("young", "v1.36.0"))
}

func TestExpressions(t *testing.T) {
	cases := map[string]struct {
		expressions []string
		want        []string
		after       time.Time
	}{
		"a name":                    {expressions: []string{`managedCluster.metadata.name.startsWith("o")`}, want: []string{"old"}},
		"a version":                 {expressions: []string{`semver(managedCluster.status.version.kubernetes, true).isGreaterThan(semver("1.30.0"))`}, want: []string{"young"}},
		"two that have to be true":  {expressions: []string{`managedCluster.metadata.labels["env"] == "prod"`, `managedCluster.metadata.name != "old"`}, want: []string{"young"}},
		"a score":                   {expressions: []string{`managedCluster.scores("demo").exists(s, s.name == "cpu" && s.value > 30)`}, want: []string{"old"}, after: noon.Add(time.Minute)},
		"a score that has expired":  {expressions: []string{`managedCluster.scores("demo").exists(s, s.name == "mem")`}, after: noon.Add(time.Minute)},
		"scores that are not there": {expressions: []string{`managedCluster.scores("nobody").size() == 0`}, want: []string{"old", "young"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			result := ScheduleClusters(versioned(), compiled(t, RequestSpec{Predicates: []Predicate{{Expressions: tc.expressions}}}), nil, noon)
			if !slices.Equal(result.Targets, tc.want) || result.Problem != nil {
				t.Errorf("got %v, want %v; the problem is %v", result.Targets, tc.want, result.Problem)
			}
			if !result.After.Equal(tc.after) {
				t.Errorf("it is to be looked at again at %s, want %s", result.After, tc.after)
			}
		})
	}
}

func TestExpressionsThatAreWrong(t *testing.T) {
	at := field.NewPath("spec", "predicates").Index(0)
	for name, text := range map[string]string{
		"an unknown function": `managedCluster.prices("a") == 1`,
		"an unknown variable": `cluster.metadata.name == "a"`,
		"not a question":      `"yes"`,
		"not an expression":   `managedCluster.`,
	} {
		t.Run(name, func(t *testing.T) {
			_, problems := CompileRequest(RequestSpec{Predicates: []Predicate{{Path: at, Expressions: []string{"true", text}}}})
			if want := "spec.predicates[0].celSelector.celExpressions[1]"; len(problems) != 1 || problems[0].Field != want {
				t.Errorf("the problems are %v, want one of %s", problems, want)
			}
		})
	}
}

func TestExpressionsThatFail(t *testing.T) {
	at := field.NewPath("spec", "predicates").Index(0)
	cases := map[string]struct{ text, want string }{
		"a field that is not there": {`managedCluster.spec.color == "red"`, "cluster old: the object has no field color"},
		"a loop that is too long": {
			`[1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, [1,2,3,4,5,6,7,8,9,10].all(c, [1,2,3,4,5,6,7,8,9,10].all(d, [1,2,3,4,5,6,7,8,9,10].all(e, [1,2,3,4,5,6,7,8,9,10].all(f, a+b+c+d+e+f > 0))))))`,
			"the limit",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			request, problems := CompileRequest(RequestSpec{Predicates: []Predicate{{Path: at, Expressions: []string{tc.text}}}})
			if len(problems) > 0 {
				if !strings.Contains(problems.ToAggregate().Error(), tc.want) {
					t.Errorf("the problems are %v, want %q", problems, tc.want)
				}
				return
			}
			result := ScheduleClusters(versioned(), request, nil, noon)
			if len(result.Targets) > 0 || result.Problem == nil || !strings.Contains(result.Problem.Error(), tc.want) {
				t.Errorf("chosen are %v, and the problem is %v, want %q", result.Targets, result.Problem, tc.want)
			}
		})
	}
}

// costly is an expression that is true and costs about half of what one may.
var costly = strings.Repeat("[0, 1, 2, 3, 4, 5, 6, 7, 8, 9].all(a, ", 3) + `!"` + strings.Repeat("x", 5000) + `".contains("y")` + strings.Repeat(")", 3)

func TestWhatCostsTooMuchForTheFleetIsNotDecided(t *testing.T) {
	request := compiled(t, RequestSpec{Predicates: []Predicate{{Path: field.NewPath("p"), Expressions: []string{costly}}}})
	for clusters, want := range map[int]bool{90: false, 110: true} {
		var fleet []view.Cluster
		for i := range clusters {
			fleet = append(fleet, view.Cluster{Name: fmt.Sprintf("c%03d", i)})
		}
		if result := ScheduleClusters(view.NewFleet(fleet...), request, nil, noon); result.Exhausted != want || (result.Problem != nil) != want {
			t.Errorf("%d clusters: exhausted is %t, want %t; the problem is %v", clusters, result.Exhausted, want, result.Problem)
		}
	}
}

func TestExpressionsCostTogetherWhatTheyMay(t *testing.T) {
	spec := RequestSpec{Predicates: []Predicate{{Path: field.NewPath("p"), Expressions: []string{"true"}}}}
	now := newSchedulingCycle(versioned(), nil, noon)
	now.recordProblem(field.NewPath("p"), errors.New("one that failed before"))
	now.cost = ExpressionCostMax + 1
	compiled(t, spec).eligibilityCode(now, 0, versioned().ClusterAt(0))
	if !now.exhausted || now.problem == nil || !strings.Contains(now.problem.Error(), "cost more than") {
		t.Errorf("the problem is %v, want that the expressions cost too much", now.problem)
	}
}
