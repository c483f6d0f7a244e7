// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
)

// SendsRoles waits until the clusters are sent ClusterRole viewer for these resources.
func (w World) SendsRoles(want string) {
	w.Helper()
	w.Eventually("the role lets read "+want, func() error {
		sent, err := w.everySent()
		var all []string
		for key, work := range sent {
			cluster, object, _ := strings.Cut(key, "/")
			if object != "ClusterRole/viewer" || work.going {
				continue
			}
			rules, _, _ := unstructured.NestedSlice(work.object.Object, "rules")
			resources, _, _ := unstructured.NestedStringSlice(rules[0].(map[string]any), "resources")
			all = append(all, strings.TrimPrefix(cluster, "member")+" "+resources[0])
		}
		slices.Sort(all)
		if got := strings.Join(all, ", "); err == nil && got != want {
			err = errors.New("it is sent as " + got)
		}
		return err
	})
}

// ClusterRolloutIs waits until a rollout that has no namespace says why it is complete, or not.
func (w World) ClusterRolloutIs(r *fleetv1alpha1.ClusterPropagationRollout, revision int64, reason, part string) {
	w.Helper()
	w.Eventually(fmt.Sprintf("revision %d is %s", revision, reason), func() error {
		if err := w.Get(w.Context(), client.ObjectKeyFromObject(r), r); err != nil {
			return err
		}
		c := meta.FindStatusCondition(r.Status.Conditions, fleetv1alpha1.PropagationRolloutConditionComplete)
		if c == nil || r.Status.Revision != revision || r.Status.ObservedGeneration != r.Generation || c.Reason != reason || !strings.Contains(c.Message, part) {
			return fmt.Errorf("it says %+v", r.Status)
		}
		return nil
	})
}

// SetImage gives a Deployment another image.
func (w World) SetImage(d *appsv1.Deployment, image string) {
	w.Helper()
	w.ChangeObject(d, func() { d.Spec.Template.Spec.Containers[0].Image = image })
}

// ImagesOf returns which images the clusters of a Deployment are sent, and with how
// many replicas.
func (w World) ImagesOf(name string) (string, error) {
	sent, err := w.everySent()
	var all []string
	for key, work := range sent {
		cluster, object, _ := strings.Cut(key, "/")
		if object != "Deployment/"+name || work.going {
			continue
		}
		replicas, _, _ := unstructured.NestedInt64(work.object.Object, "spec", "replicas")
		containers, _, _ := unstructured.NestedSlice(work.object.Object, "spec", "template", "spec", "containers")
		image, _, _ := unstructured.NestedString(containers[0].(map[string]any), "image")
		all = append(all, fmt.Sprintf("%s %s x%d", strings.TrimPrefix(cluster, "member"), strings.TrimPrefix(image, "nginx:"), replicas))
	}
	slices.Sort(all)
	return strings.Join(all, ", "), err
}

// HasImages waits until the clusters of a Deployment are sent these images.
func (w World) HasImages(name, want string) {
	w.Helper()
	w.Eventually(fmt.Sprintf("%s is sent as %s", name, want), func() error {
		got, err := w.ImagesOf(name)
		if err == nil && got != want {
			err = errors.New("it is sent as " + got)
		}
		return err
	})
}

// RolloutIs waits until a rollout says why it is complete with a revision, or not.
func (w World) RolloutIs(r *fleetv1alpha1.PropagationRollout, revision int64, reason, part string) {
	w.Helper()
	w.Eventually(fmt.Sprintf("revision %d is %s: %s", revision, reason, part), func() error {
		if err := w.Get(w.Context(), client.ObjectKeyFromObject(r), r); err != nil {
			return err
		}
		c := meta.FindStatusCondition(r.Status.Conditions, fleetv1alpha1.PropagationRolloutConditionComplete)
		if c == nil || r.Status.Revision != revision || r.Status.ObservedGeneration != r.Generation || c.Reason != reason || !strings.Contains(c.Message, part) {
			return fmt.Errorf("it says %+v", r.Status)
		}
		return nil
	})
}

// HasRevisions waits until so many are stored.
func (w World) HasRevisions(want int) {
	w.Helper()
	w.Eventually(fmt.Sprintf("%d revisions are stored", want), func() error {
		list := &fleetv1alpha1.PropagationRevisionList{}
		if err := w.List(w.Context(), list); err != nil {
			return err
		}
		if len(list.Items) != want {
			return errors.New(fmt.Sprint(len(list.Items), " are"))
		}
		return nil
	})
}

// RolloutRefused waits until a rollout is not in effect.
func (w World) RolloutRefused(r *fleetv1alpha1.PropagationRollout, reason, part string) {
	w.Helper()
	w.Eventually(r.Name+" says "+reason, func() error {
		if err := w.Get(w.Context(), client.ObjectKeyFromObject(r), r); err != nil {
			return err
		}
		c := meta.FindStatusCondition(r.Status.Conditions, fleetv1alpha1.PropagationRolloutConditionAccepted)
		if c == nil || c.Reason != reason || !strings.Contains(c.Message, part) {
			return fmt.Errorf("it says %+v", r.Status.Conditions)
		}
		return nil
	})
}

// ChangeOnce changes an object once.
func (w World) ChangeOnce(object client.Object, change func()) error {
	if err := w.Get(w.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		return err
	}
	change()
	return w.Update(w.Context(), object)
}
