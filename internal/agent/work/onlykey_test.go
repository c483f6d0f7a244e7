// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// These tests leave the only key of a map to the cluster. The map is applied without anything in it then, and
// looks like one value from there on.

// ignoringOf has a work ignore a field of the objects of a resource.
func ignoringOf(work *workv1.ManifestWork, group, resource, pointer string) *workv1.ManifestWork {
	strategy := rivals()["force"]
	strategy.ServerSideApply.IgnoreFields = []workv1.IgnoreField{{Condition: workv1.IgnoreFieldsConditionOnSpokePresent, JSONPointers: []string{pointer}}}
	work.Spec.ManifestConfigs = []workv1.ManifestConfigOption{{
		ResourceIdentifier: workv1.ResourceIdentifier{Group: group, Resource: resource, Namespace: "*", Name: "*"}, UpdateStrategy: strategy,
	}}
	return work
}

func TestOnlyKeyIgnoredInAConfigMapIsTheClusters(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(agentOptions{})
	manifest := func(change, more string) string {
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","namespace":%q,"labels":{"change":%q}},"data":{"key":%q%s}}`, s.ns(), change, change, more)
	}
	s.create(ignoringOf(s.work("w", manifest("0", "")), "", "configmaps", "/data/key"))
	s.condition("w", "Applied", metav1.ConditionTrue)
	for _, step := range []struct {
		change, more string
		data         map[string]string
	}{
		{"1", "", map[string]string{"key": "0"}},
		{"2", "", map[string]string{"key": "0"}},
		{"3", "", map[string]string{"key": "0"}},
		{"4", `,"more":"x"`, map[string]string{"key": "0", "more": "x"}},
		{"5", `,"more":"y"`, map[string]string{"key": "0", "more": "y"}},
		{"6", "", map[string]string{"key": "0"}},
		{"7", "", map[string]string{"key": "0"}},
	} {
		s.replace("w", manifest(step.change, step.more))
		holds(s, "change "+step.change+" is there", "c", func() *corev1.ConfigMap { return &corev1.ConfigMap{} }, func(c *corev1.ConfigMap) error {
			return errors.Join(is("the label", c.Labels["change"], step.change), is("data", c.Data, step.data))
		})
	}
}

// TestOnlyKeyIgnoredInAnObjectThatIsReplacedIsTheClusters has an object of which a key is ignored list a port twice.
func TestOnlyKeyIgnoredInAnObjectThatIsReplacedIsTheClusters(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(agentOptions{})
	manifest := func(change, container string) string {
		return strings.Replace(s.pods("", container+variable(change)), `"metadata":{"labels":{"app":"web"}}`, `"metadata":{"labels":{"app":"web"},"annotations":{"a":"`+change+`"}}`, 1)
	}
	s.create(ignoringOf(s.work("w", manifest("N0", "")), "apps", "deployments", "/spec/template/metadata/annotations/a"))
	s.condition("w", "Applied", metav1.ConditionTrue)
	for change, container := range []string{"", portTwice, "", portTwice, portTwice} {
		name := fmt.Sprintf("N%d", change+1)
		s.replace("w", manifest(name, container))
		s.web("change "+name+" is there", func(d *appsv1.Deployment) error {
			return errors.Join(is("env", variables(d), []string{name + "=1"}), is("the annotation", d.Spec.Template.Annotations, map[string]string{"a": "N0"}))
		})
	}
}

// limited has the work "definition" define a kind whose spec has a map with parts and one that is
// one value, and returns the JSON of an object "o" of it, and that object as it is wanted.
func (s *scene) limited(kind string) (object func(spec string) string, holding func(what string, check func(*unstructured.Unstructured) error)) {
	lower := strings.ToLower(kind)
	s.create(s.work("definition", fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"%[1]ss.%[1]s.example.net"},
		"spec":{"group":"%[1]s.example.net","scope":"Namespaced","names":{"plural":"%[1]ss","singular":"%[1]s","kind":"%[2]s"},
		"versions":[{"name":"v1","served":true,"storage":true,"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{
		"size":{"type":"integer"},"limits":{"type":"object","additionalProperties":{"type":"string"}},
		"pick":{"type":"object","x-kubernetes-map-type":"atomic","additionalProperties":{"type":"string"}}}}}}}}]}}`, lower, kind)))
	s.condition("definition", "Applied", metav1.ConditionTrue)
	gv := schema.GroupVersion{Group: lower + ".example.net", Version: "v1"}
	asked := discovery.NewDiscoveryClientForConfigOrDie(s.config).RESTClient()
	s.eventually("the API server declares the fields of "+kind, func() error {
		document, err := asked.Get().AbsPath("/openapi/v3/apis", gv.Group, gv.Version).DoRaw(s.t.Context())
		if err == nil && !strings.Contains(string(document), `"x-kubernetes-map-type":"atomic"`) {
			err = fmt.Errorf("it says %s", document)
		}
		return err
	})
	object = func(spec string) string {
		return fmt.Sprintf(`{"apiVersion":%q,"kind":%q,"metadata":{"name":"o","namespace":%q},"spec":{%s}}`, gv, kind, s.ns(), spec)
	}
	return object, func(what string, check func(*unstructured.Unstructured) error) {
		s.t.Helper()
		holds(s, what, "o", func() *unstructured.Unstructured { return unstructuredOf(gv.WithKind(kind), s.ns(), "o") }, check)
	}
}

func TestOnlyKeyIgnoredInACustomResourceIsTheClusters(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(agentOptions{})
	object, holding := s.limited("Ignoring")
	s.create(ignoringOf(s.work("w", object(`"size":0,"limits":{"cpu":"0"}`)), "ignoring.example.net", "ignorings", "/spec/limits/cpu"))
	s.condition("w", "Applied", metav1.ConditionTrue)
	for _, size := range []int64{1, 2, 3} {
		s.replace("w", object(fmt.Sprintf(`"size":%[1]d,"limits":{"cpu":"%[1]d"}`, size)))
		holding(fmt.Sprintf("size %d is there", size), func(u *unstructured.Unstructured) error {
			return is("the spec", u.Object["spec"], map[string]any{"size": size, "limits": map[string]any{"cpu": "0"}})
		})
	}
}

// TestOnlyKeyRetainedInACustomResourceIsTheClusters leaves to the cluster what a customization says. It is not ours, even if
// the manifest changes more than once.
func TestOnlyKeyRetainedInACustomResourceIsTheClusters(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.customizes("only-key", "retaining.example.net/v1", "Retaining", scripts{
		retention: "function Retain(desired, observed)\n  desired.spec.limits = observed.spec.limits\n  return desired\nend",
	})
	s.start(agentOptions{})
	object, holding := s.limited("Retaining")
	s.create(ofBinding(s.work("w", object(`"size":0,"limits":{"cpu":"0"}`))))
	s.condition("w", "Applied", metav1.ConditionTrue)
	for _, size := range []int64{1, 2, 3} {
		s.replace("w", object(fmt.Sprintf(`"size":%[1]d,"limits":{"cpu":"%[1]d"}`, size)))
		holding(fmt.Sprintf("size %d is there", size), func(u *unstructured.Unstructured) error {
			ours := 0
			for _, entry := range u.GetManagedFields() {
				if strings.HasPrefix(entry.Manager, workv1.DefaultFieldManager) && strings.Contains(entry.FieldsV1.GetRawString(), `"f:cpu"`) {
					ours++
				}
			}
			return errors.Join(is("the spec", u.Object["spec"], map[string]any{"size": size, "limits": map[string]any{"cpu": "0"}}), is("those of us who own it", ours, 0))
		})
	}
}

// TestOnlyKeyOfOneValueCannotBeIgnored says that a part of one value cannot be ignored, and takes nothing away.
func TestOnlyKeyOfOneValueCannotBeIgnored(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(agentOptions{})
	object, holding := s.limited("Picking")
	s.create(ignoringOf(s.work("w", object(`"size":0,"pick":{"a":"0"}`)), "picking.example.net", "pickings", "/spec/pick/a"))
	s.condition("w", "Applied", metav1.ConditionTrue)
	for size := range 2 {
		s.change("w", func(w *workv1.ManifestWork) {
			setManifests(w, object(fmt.Sprintf(`"size":%d,"pick":{"a":"x"}`, size+1)))
		})
		work := s.condition("w", "Applied", metav1.ConditionFalse)
		s.contains(message(work, 0, "Applied"), "AppliedManifestSSAIgnoreFieldError", "/spec/pick, which the API treats as one value")
		holding("it is as it was", func(u *unstructured.Unstructured) error {
			return is("the spec", u.Object["spec"], map[string]any{"size": int64(0), "pick": map[string]any{"a": "0"}})
		})
	}
}
