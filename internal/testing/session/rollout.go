// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	workv1alpha1 "github.com/capstan-io/capstan/apis/work/v1alpha1"
	"github.com/capstan-io/capstan/internal/testing/placer"
	"github.com/capstan-io/capstan/internal/testing/playedhub"
)

// rolls does what a directive about a rollout says, if it is one:
//
//	replicates                    the controller of replica sets runs, until the session ends
//	applies CLUSTER WORK          the agent applies what it is given next
//	fails CLUSTER WORK MESSAGE    the agent cannot apply what it is given next
//	rolled NAMESPACE/SET MESSAGE  wait until the rollout says this
//	staged NAMESPACE/ROLLOUT REASON
//	                              wait until a PropagationRollout is so
func rolls(t testing.TB, w *playedhub.PlayedHub, directive string) bool {
	t.Helper()
	words := strings.SplitN(directive, " ", 4)
	switch {
	case directive == "replicates":
		placer.StartReplicaSets(t, w.AdminConfig)
	case len(words) == 3 && words[0] == "applies":
		agentReports(t, w, words[1], words[2], "")
	case len(words) == 4 && words[0] == "fails":
		agentReports(t, w, words[1], words[2], words[3])
	case len(words) == 4 && words[0] == "rolled":
		rolled(t, w, words[1], words[2]+" "+words[3])
	case len(words) == 3 && words[0] == "staged":
		staged(t, w, words[1], words[2])
	default:
		return false
	}
	return true
}

// staged waits until a PropagationRollout is complete, or not, for a reason.
func staged(t testing.TB, w *playedhub.PlayedHub, rollout, reason string) {
	t.Helper()
	namespace, name, _ := strings.Cut(rollout, "/")
	playedhub.Eventually(t, func() error {
		r := &fleetv1alpha1.PropagationRollout{}
		if err := w.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, r); err != nil {
			return err
		}
		c := meta.FindStatusCondition(r.Status.Conditions, fleetv1alpha1.PropagationRolloutConditionComplete)
		if c == nil || r.Status.ObservedGeneration != r.Generation || c.Reason != reason {
			return fmt.Errorf("rollout %s says %+v, want %s", rollout, c, reason)
		}
		return nil
	})
}

// agentReports waits for a work that is new to the agent of a cluster, and reports
// that it is applied, or the problem.
func agentReports(t testing.TB, w *playedhub.PlayedHub, cluster, name, problem string) {
	t.Helper()
	playedhub.Eventually(t, func() error {
		work := &workv1.ManifestWork{}
		if err := w.Client.Get(t.Context(), client.ObjectKey{Namespace: cluster, Name: name}, work); err != nil {
			return fmt.Errorf("in the namespace of cluster %s: %w", cluster, err)
		}
		if c := meta.FindStatusCondition(work.Status.Conditions, workv1.ManifestWorkConditionApplied); c != nil && c.ObservedGeneration == work.Generation {
			return fmt.Errorf("work %s of cluster %s has not changed", name, cluster)
		}
		return w.Client.Status().Update(t.Context(), applying(work, problem))
	})
}

// applying returns a work as its agent reports it, with the problem of its last
// object.
func applying(work *workv1.ManifestWork, problem string) *workv1.ManifestWork {
	objects := len(work.Spec.Workload.Manifests)
	work.Status.ResourceStatus.Manifests = nil
	for i, manifest := range work.Spec.Workload.Manifests {
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(manifest.Raw); err != nil {
			problem = err.Error()
		}
		kind := object.GroupVersionKind()
		reported := workv1.ManifestCondition{ResourceMeta: workv1.ManifestResourceMeta{
			Ordinal: int32(i), Group: kind.Group, Version: kind.Version, Kind: kind.Kind, Namespace: object.GetNamespace(), Name: object.GetName(),
		}}
		own := ""
		if i == objects-1 {
			own = problem // the others are fine
		}
		say(&reported.Conditions, work.Generation, "Manifest", own)
		work.Status.ResourceStatus.Manifests = append(work.Status.ResourceStatus.Manifests, reported)
	}
	say(&work.Status.Conditions, work.Generation, "ManifestWork", problem)
	return work
}

// say sets what an agent says about a work, or one object of it.
func say(conditions *[]metav1.Condition, generation int64, of, problem string) {
	applied := metav1.Condition{Type: workv1.ManifestWorkConditionApplied, Status: metav1.ConditionTrue, Reason: "Applied" + of + "Complete", ObservedGeneration: generation}
	available := metav1.Condition{Type: workv1.ManifestWorkConditionAvailable, Status: metav1.ConditionTrue, Reason: "ResourceAvailable", ObservedGeneration: generation}
	if problem != "" {
		applied.Status, applied.Reason, applied.Message = metav1.ConditionFalse, "Applied"+of+"Failed", problem
		available.Status, available.Reason = metav1.ConditionFalse, "ResourceNotAvailable"
	}
	meta.SetStatusCondition(conditions, applied)
	meta.SetStatusCondition(conditions, available)
}

// rolled waits until the message about a rollout contains a text.
func rolled(t testing.TB, w *playedhub.PlayedHub, set, text string) {
	t.Helper()
	namespace, name, _ := strings.Cut(set, "/")
	playedhub.Eventually(t, func() error {
		s := &workv1alpha1.ManifestWorkReplicaSet{}
		if err := w.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, s); err != nil {
			return err
		}
		c := meta.FindStatusCondition(s.Status.Conditions, workv1alpha1.ConditionPlacementRolledOut)
		if c == nil || c.ObservedGeneration != s.Generation || !strings.Contains(c.Message, text) {
			return fmt.Errorf("the rollout of %s says %+v, want %q", set, c, text)
		}
		return nil
	})
}
