// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package promises has what users rely on in all modes in which a cluster can join, as
// cases with names, and the table of what became of each.
package promises

import (
	"errors"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-io/capstan/apis/karmada/work/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/test/integration/conformance/installation"
)

// bindings is what differs for works that bindings made.
func bindings() []TestCase {
	return []TestCase{
		{Name: "the status and the health of the object of a binding are reported, and follow the object", Run: stateOfBinding},
		{Name: "an object that exists already is left alone until the annotation says to overwrite it", Run: conflictOfBinding},
		{Name: "replicas that an autoscaler of the cluster sets stay, if the template asks for that", Run: replicasOfBinding},
		{Name: "a restart of a Deployment in the cluster stays", Run: restartOfBinding},
		{Name: "what a customization of the hub retains is the cluster's", Run: customizedRetention},
		{Name: "a customization of the hub says which status is reported, and whether the object is healthy", Run: customizedReport},
		{Name: "a customization whose script fails leaves the object as it is, and is named", Run: customizedFailure},
		{Name: "a webhook of the hub says what is retained, which status is reported, and whether the object is healthy", Run: askedWebhook},
		{Name: "a webhook without an answer leaves the object as it is, is named, and is asked again", Run: unansweredWebhook},
		{Name: "while a binding's work is suspended nothing is changed, and the state is still reported", Run: suspensionOfBinding},
		{Name: "an object that is preserved stays without the marks of the hub", Run: preservationOfBinding},
		{Name: "a namespace that was there is adopted, and stays", Run: namespaceOfBinding},
	}
}

// bind delivers a work as a binding does.
func (s *Scene) bind(name, spec string) {
	s.Helper()
	work := s.work(name, spec)
	work.Labels = map[string]string{v1alpha1.LabelPermanentID: s.ID + "-" + name}
	if err := s.Hub.Client.Create(s.Context(), work); err != nil {
		s.Fatal(err)
	}
}

func stateOfBinding(s *Scene) {
	s.Namespace()
	s.bind("a", manifestsOf(deployment))
	s.Applied("a")
	s.ready(1)
	s.reports("a", v1alpha1.FeedbackHealth, "Unhealthy")
	s.ready(2)
	s.reports("a", v1alpha1.FeedbackHealth, "Healthy")
	s.reports("a", v1alpha1.FeedbackStatus, `{"availableReplicas":2,"generation":1,"observedGeneration":1,"readyReplicas":2,"replicas":2,"updatedReplicas":2}`)
}

func conflictOfBinding(s *Scene) {
	s.Namespace()
	s.admin(configMap("a", "theirs"))
	s.bind("a", manifestsOf(configMap("a", "ours")))
	s.message("a", 0, workv1.ManifestConditionApplied, "False", "already exists in the cluster "+s.ClusterName(), "Karmada will not manage this resource")
	s.reports("a", v1alpha1.FeedbackHealth, "Unknown")
	s.Has("a", "theirs")
	s.Deliver("a", manifestsOf(strings.Replace(configMap("a", "ours"), "metadata: {", "metadata: {annotations: {work.karmada.io/conflict-resolution: overwrite}, ", 1)))
	s.Has("a", "ours")
	s.Applied("a")
}

// rebind changes the manifest of a work that a binding made, and waits until it is
// applied.
func (s *Scene) rebind(name, manifest string) {
	s.Helper()
	s.Deliver(name, manifestsOf(manifest))
	s.Applied(name)
}

// labelled returns the Deployment of the cases with labels.
func labelled(labels string) string {
	return strings.Replace(deployment, "metadata: {", "metadata: {labels: {"+labels+"}, ", 1)
}

// runs waits until the Deployment has label step with the value, and checks it.
func (s *Scene) runs(step string, check func(*appsv1.Deployment) bool) {
	s.Helper()
	installation.Eventually(s, "the Deployment of step "+step+" is as it should be", func() error {
		found := &appsv1.Deployment{}
		err := s.Member.Client.Get(s.Context(), client.ObjectKey{Namespace: s.ID, Name: "a"}, found)
		if err == nil && (found.Labels["step"] != step || !check(found)) {
			return errors.New(installation.Encode(found))
		}
		return err
	})
}

func replicasOfBinding(s *Scene) {
	s.Namespace()
	s.bind("a", manifestsOf(labelled(`step: "1", resourcetemplate.karmada.io/retain-replicas: "true"`)))
	s.Applied("a")
	a := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: s.ID, Name: "a"}}
	scale := &autoscalingv1.Scale{ObjectMeta: a.ObjectMeta, Spec: autoscalingv1.ScaleSpec{Replicas: 5}}
	if err := s.Member.Client.SubResource("scale").Update(s.Context(), a, client.WithSubResourceBody(scale)); err != nil {
		s.Fatal(err)
	}
	s.rebind("a", labelled(`step: "2", resourcetemplate.karmada.io/retain-replicas: "true"`))
	s.runs("2", func(d *appsv1.Deployment) bool { return *d.Spec.Replicas == 5 })
	s.rebind("a", labelled(`step: "3"`))
	s.runs("3", func(d *appsv1.Deployment) bool { return *d.Spec.Replicas == 2 })
}

func restartOfBinding(s *Scene) {
	s.Namespace()
	s.bind("a", manifestsOf(labelled(`step: "1"`)))
	s.Applied("a")
	a := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: s.ID, Name: "a"}}
	s.patchMember(a, `{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":"now"}}}}}`)
	s.rebind("a", labelled(`step: "2"`))
	s.runs("2", func(d *appsv1.Deployment) bool {
		return d.Spec.Template.Annotations["kubectl.kubernetes.io/restartedAt"] == "now"
	})
}

// customized customizes a kind of group apps that no other case uses, in the same way
// in all modes.
func (s *Scene) customized(kind string, scripts map[string]string) {
	s.Helper()
	var rules []string
	for operation, script := range scripts {
		rules = append(rules, fmt.Sprintf("%s: {luaScript: %q}", operation, script))
	}
	s.Hub.ApplyText(s, fmt.Sprintf(`
apiVersion: config.karmada.io/v1alpha1
kind: ResourceInterpreterCustomization
metadata: {name: %s}
spec: {target: {apiVersion: apps/v1, kind: %s}, customizations: {%s}}`, strings.ToLower(kind), kind, strings.Join(rules, ", ")))
}

const podTemplate = "template: {metadata: {labels: {a: b}}, spec: {containers: [{name: a, image: a}]}}"

// step returns an object of group apps with label step.
func step(n int, kind, spec string) string {
	return fmt.Sprintf("{apiVersion: apps/v1, kind: %s, metadata: {name: a, namespace: NS, labels: {step: \"%d\"}}, spec: {%s}}", kind, n, spec)
}

func customizedRetention(s *Scene) {
	s.Namespace()
	s.customized("ReplicaSet", map[string]string{
		"retention":            "function Retain(desired, observed) desired.spec.replicas = observed.spec.replicas return desired end",
		"healthInterpretation": "function InterpretHealth(o) return true end",
	})
	const spec = "replicas: 2, selector: {matchLabels: {a: b}}, " + podTemplate
	s.bind("a", manifestsOf(step(1, "ReplicaSet", spec)))
	s.Applied("a")
	s.reports("a", v1alpha1.FeedbackHealth, "Healthy") // by the script: the agent knows it
	a := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: s.ID, Name: "a"}}
	s.patchMember(a, `{"spec":{"replicas":5}}`)
	s.rebind("a", step(2, "ReplicaSet", spec))
	if err := s.Member.Client.Get(s.Context(), client.ObjectKeyFromObject(a), a); err != nil {
		s.Fatal(err)
	}
	if a.Labels["step"] != "2" || *a.Spec.Replicas != 5 {
		s.Errorf("the object is %s", installation.Encode(a))
	}
}

func customizedReport(s *Scene) {
	s.Namespace()
	s.customized("DaemonSet", map[string]string{
		"statusReflection":     "function ReflectStatus(o) return {pods = o.status.currentNumberScheduled} end",
		"healthInterpretation": "function InterpretHealth(o) return o.status.currentNumberScheduled == 7 end",
	})
	s.bind("a", manifestsOf(step(1, "DaemonSet", "selector: {matchLabels: {a: b}}, "+podTemplate)))
	s.Applied("a")
	a := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: s.ID, Name: "a"}}
	for _, tell := range []struct {
		pods   int32
		health string
	}{{7, "Healthy"}, {8, "Unhealthy"}} {
		installation.Eventually(s, "telling the status of the DaemonSet", func() error {
			if err := s.Member.Client.Get(s.Context(), client.ObjectKeyFromObject(a), a); err != nil {
				return err
			}
			a.Status = appsv1.DaemonSetStatus{CurrentNumberScheduled: tell.pods}
			return s.Member.Client.Status().Update(s.Context(), a)
		})
		s.reports("a", v1alpha1.FeedbackStatus, fmt.Sprintf(`{"pods":%d}`, tell.pods))
		s.reports("a", v1alpha1.FeedbackHealth, tell.health)
	}
}

func customizedFailure(s *Scene) {
	s.Namespace()
	s.customized("StatefulSet", map[string]string{
		"retention":            "function Retain(desired, observed) return nothing.there end",
		"healthInterpretation": "function InterpretHealth(o) while true do end end",
	})
	const spec = "serviceName: a, selector: {matchLabels: {a: b}}, " + podTemplate
	s.bind("a", manifestsOf(step(1, "StatefulSet", spec)))
	s.message("a", 0, workv1.ManifestConditionStatusFeedbackSynced, "False InterpretationFailed",
		`ResourceInterpreterCustomization "statefulset", healthInterpretation`)
	s.reports("a", v1alpha1.FeedbackHealth, "Unknown")
	s.Deliver("a", manifestsOf(step(2, "StatefulSet", spec)))
	s.message("a", 0, workv1.ManifestConditionApplied, "False AppliedManifestFailed",
		`ResourceInterpreterCustomization "statefulset", retention: line 1`, "Correct spec.customizations.retention.luaScript")
	a := &appsv1.StatefulSet{}
	if err := s.Member.Client.Get(s.Context(), client.ObjectKey{Namespace: s.ID, Name: "a"}, a); err != nil {
		s.Fatal(err)
	}
	if a.Labels["step"] != "1" {
		s.Errorf("the object is %s", installation.Encode(a))
	}
}

func suspensionOfBinding(s *Scene) {
	s.Namespace()
	s.bind("a", manifestsOf(labelled(`step: "1"`)))
	s.Applied("a")
	s.annotate("a", workv1.AnnotationSuspendDispatching, "true")
	s.Deliver("a", manifestsOf(labelled(`step: "2"`)))
	s.ready(2)
	s.reports("a", v1alpha1.FeedbackHealth, "Healthy")
	s.runs("1", func(*appsv1.Deployment) bool { return true })
	s.annotate("a", workv1.AnnotationSuspendDispatching, "false")
	s.runs("2", func(*appsv1.Deployment) bool { return true })
}

// annotate changes an annotation of a work.
func (s *Scene) annotate(name, key, value string) {
	s.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, key, value)
	if err := s.Hub.Client.Patch(s.Context(), s.work(name, "{}"), client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		s.Fatal(err)
	}
}

func preservationOfBinding(s *Scene) {
	s.Namespace()
	marked := strings.Replace(configMap("a", "ours"), "metadata: {", `metadata: {labels: {mine: "yes", karmada.io/managed: "true", work.karmada.io/permanent-id: NS-a}, `, 1)
	s.bind("a", "deleteOption: {propagationPolicy: Orphan}\n"+manifestsOf(marked))
	s.Applied("a")
	s.Remove("a")
	installation.Eventually(s, "the marks are gone", func() error {
		if found := s.Has("a", "ours"); len(found.Labels) != 1 || found.Labels["mine"] != "yes" {
			return errors.New(installation.Encode(found.Labels))
		}
		return nil
	})
}

func namespaceOfBinding(s *Scene) {
	s.Namespace()
	s.bind("a", manifestsOf("{apiVersion: v1, kind: Namespace, metadata: {name: NS, labels: {team: a}}}"))
	s.Applied("a")
	namespace := func(what string, check func(*corev1.Namespace) bool) {
		installation.Eventually(s, what, func() error {
			found := &corev1.Namespace{}
			err := s.Member.Client.Get(s.Context(), client.ObjectKey{Name: s.ID}, found)
			if err == nil && !check(found) {
				return errors.New(installation.Encode(found))
			}
			return err
		})
	}
	namespace("it says that it was adopted", func(n *corev1.Namespace) bool {
		return n.Labels["team"] == "a" && n.Annotations["fleet.capstan.io/adopted"] == "true"
	})
	s.Remove("a")
	namespace("it stays without what the work added", func(n *corev1.Namespace) bool {
		return n.DeletionTimestamp.IsZero() && n.Labels["team"] == ""
	})
}
