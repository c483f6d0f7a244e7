// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package workloads_test

import (
	"maps"
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/aggregate"
	"github.com/capstan-io/capstan/internal/interpret/fields"
	"github.com/capstan-io/capstan/internal/interpret/native/workloads"
)

type object = map[string]any

const (
	started = "2026-01-01T00:00:00Z"
	failing = "2026-01-01T00:00:01Z"
	ended   = "2026-01-01T00:00:02Z"
)

// jobs are the states that the Job of a cluster can be in: what its API server lets its
// controller write, which before Kubernetes 1.31 was more.
func jobs() map[string]object {
	status := func(active, succeeded, failed int64, conditions ...string) object {
		list := []any{}
		for _, name := range conditions {
			list = append(list, object{"type": name, "status": "True", "reason": "Why", "lastTransitionTime": failing})
		}
		return object{"active": active, "succeeded": succeeded, "failed": failed, "startTime": started, "conditions": list}
	}
	suspended, complete := status(0, 0, 1, "Suspended"), status(0, 2, 1, "SuccessCriteriaMet", "Complete")
	unstarted := status(0, 0, 2, "FailureTarget", "Failed")
	delete(suspended, "startTime")
	delete(unstarted, "startTime")
	complete["completionTime"] = ended
	unfinished := maps.Clone(complete)
	unfinished["active"] = int64(1)
	return map[string]object{
		"not reported": nil,
		"suspended":    suspended,
		"running":      status(2, 1, 1),
		"failing":      status(1, 1, 2, "FailureTarget"),
		"failed":       status(0, 1, 2, "FailureTarget", "Failed"),
		"complete":     complete,

		"failed with active pods":   status(1, 1, 2, "FailureTarget", "Failed"),
		"complete with active pods": unfinished,
		"failed without a start":    unstarted,
	}
}

// is reports whether a condition of a status is True.
func is(status object, name string) bool {
	return aggregate.ConditionOf(fields.List(status, "conditions"), name)["status"] == "True"
}

// refused says why the API server does not take a status of a Job after another one: the
// rules are those of ValidateJobStatusUpdate in pkg/apis/batch/validation of Kubernetes.
func refused(before, after object) string {
	for _, name := range []string{"succeeded", "failed"} {
		if fields.IntOr(0, after, name) < fields.IntOr(0, before, name) {
			return "a count of ended pods goes down: " + name
		}
	}
	for _, name := range []string{"SuccessCriteriaMet", "FailureTarget", "Complete", "Failed"} {
		if is(before, name) && !is(after, name) {
			return name + " is taken back"
		}
	}
	return contradiction(after)
}

// contradiction says what in a status the API server does not take together.
func contradiction(status object) string {
	complete, failed := is(status, "Complete"), is(status, "Failed")
	ended := complete || failed
	switch {
	case complete && (failed || is(status, "FailureTarget")):
		return "it is complete and fails"
	case complete != (status["completionTime"] != nil):
		return "completionTime is not that of a complete Job"
	case complete && !is(status, "SuccessCriteriaMet"), failed && !is(status, "FailureTarget"):
		return "it has ended, and was not about to"
	case ended && fields.IntOr(0, status, "active") > 0:
		return "it has ended, and pods are active"
	case ended && status["startTime"] == nil:
		return "it has ended, and has not started"
	}
	return ""
}

// TestTheAPIServerTakesTheStatusOfAJob that two clusters have, whatever they report one
// after the other.
func TestTheAPIServerTakesTheStatusOfAJob(t *testing.T) {
	t.Parallel()
	job := workloads.WorkloadKinds()[schema.GroupKind{Group: "batch", Kind: "Job"}]
	states := slices.Sorted(maps.Keys(jobs()))
	report := func(before object, a, b string) object {
		items := []interpret.ClusterItem{{Cluster: "a", Status: jobs()[a], Applied: true}, {Cluster: "b", Status: jobs()[b], Applied: true}}
		after := job.Aggregate(object{"status": before}, items)
		if after == nil { // it stays as it is
			return before
		}
		if why := refused(before, after); why != "" {
			t.Errorf("a is %s and b is %s: %s\nbefore: %v\nafter: %v", a, b, why, before, after)
		}
		return after
	}
	for _, a := range states {
		for _, b := range states {
			first := report(nil, a, b)
			for _, next := range states {
				report(report(first, next, b), next, a)
			}
		}
	}
}

// TestReplicasAreReadWhereTheyAreRevised in all kinds that have them, and the object that
// is revised stays as it is.
func TestReplicasAreReadWhereTheyAreRevised(t *testing.T) {
	t.Parallel()
	for kind, known := range workloads.WorkloadKinds() {
		if known.Revise == nil {
			continue
		}
		for _, spec := range []any{nil, "odd", object{"replicas": "odd"}, object{"replicas": int64(7), "parallelism": int64(7)}} {
			for _, want := range []int32{0, 1, math.MaxInt32} {
				given := object{"spec": spec}
				got, _ := known.Replicas(known.Revise(given, want))
				if got != want {
					t.Errorf("%s: with spec %v revised to %d replicas, it has %d", kind, spec, want, got)
				}
				if diff := cmp.Diff(object{"spec": spec}, given); diff != "" {
					t.Errorf("%s: what is revised changes (-before +after):\n%s", kind, diff)
				}
			}
		}
	}
}

// TestANumberOfPodsIsOneOfKubernetes: what it cannot keep counts as its bound.
func TestANumberOfPodsIsOneOfKubernetes(t *testing.T) {
	t.Parallel()
	for kind, known := range workloads.WorkloadKinds() {
		if known.Revise == nil {
			continue
		}
		for given, want := range map[int64]int32{math.MinInt64: 0, -1: 0, math.MaxInt32 + 1: math.MaxInt32, math.MaxInt64: math.MaxInt32} {
			if got, _ := known.Replicas(object{"spec": object{"replicas": given, "parallelism": given}}); got != want {
				t.Errorf("%s: %d are %d", kind, given, got)
			}
		}
	}
}
