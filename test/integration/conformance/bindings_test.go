// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

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
)

// bindings is what differs for works that bindings made.
func bindings() []testCase {
	return []testCase{
		{name: "the status and the health of the object of a binding are reported, and follow the object", run: stateOfBinding},
		{name: "an object that exists already is left alone until the annotation says to overwrite it", run: conflictOfBinding},
		{name: "replicas that an autoscaler of the cluster sets stay, if the template asks for that", run: replicasOfBinding},
		{name: "a restart of a Deployment in the cluster stays", run: restartOfBinding},
		{name: "what a customization of the hub retains is the cluster's", run: customizedRetention},
		{name: "a customization of the hub says which status is reported, and whether the object is healthy", run: customizedReport},
		{name: "a customization whose script fails leaves the object as it is, and is named", run: customizedFailure},
		{name: "a webhook of the hub says what is retained, which status is reported, and whether the object is healthy", run: askedWebhook},
		{name: "a webhook without an answer leaves the object as it is, is named, and is asked again", run: unansweredWebhook},
		{name: "while a binding's work is suspended nothing is changed, and the state is still reported", run: suspensionOfBinding},
		{name: "an object that is preserved stays without the marks of the hub", run: preservationOfBinding},
		{name: "a namespace that was there is adopted, and stays", run: namespaceOfBinding},
	}
}

// bind delivers a work as a binding does.
func (s *scene) bind(name, spec string) {
	s.Helper()
	work := s.work(name, spec)
	work.Labels = map[string]string{v1alpha1.LabelPermanentID: s.id + "-" + name}
	if err := s.hub.client.Create(s.Context(), work); err != nil {
		s.Fatal(err)
	}
}

func stateOfBinding(s *scene) {
	s.namespace()
	s.bind("a", manifestsOf(deployment))
	s.applied("a")
	s.ready(1)
	s.reports("a", v1alpha1.FeedbackHealth, "Unhealthy")
	s.ready(2)
	s.reports("a", v1alpha1.FeedbackHealth, "Healthy")
	s.reports("a", v1alpha1.FeedbackStatus, `{"availableReplicas":2,"generation":1,"observedGeneration":1,"readyReplicas":2,"replicas":2,"updatedReplicas":2}`)
}

func conflictOfBinding(s *scene) {
	s.namespace()
	s.admin(configMap("a", "theirs"))
	s.bind("a", manifestsOf(configMap("a", "ours")))
	s.message("a", 0, workv1.ManifestConditionApplied, "False", "already exists in the cluster "+s.clusterName(), "Karmada will not manage this resource")
	s.reports("a", v1alpha1.FeedbackHealth, "Unknown")
	s.has("a", "theirs")
	s.deliver("a", manifestsOf(strings.Replace(configMap("a", "ours"), "metadata: {", "metadata: {annotations: {work.karmada.io/conflict-resolution: overwrite}, ", 1)))
	s.has("a", "ours")
	s.applied("a")
}

// rebind changes the manifest of a work that a binding made, and waits until it is
// applied.
func (s *scene) rebind(name, manifest string) {
	s.Helper()
	s.deliver(name, manifestsOf(manifest))
	s.applied(name)
}

// labelled returns the Deployment of the cases with labels.
func labelled(labels string) string {
	return strings.Replace(deployment, "metadata: {", "metadata: {labels: {"+labels+"}, ", 1)
}

// runs waits until the Deployment has label step with the value, and checks it.
func (s *scene) runs(step string, check func(*appsv1.Deployment) bool) {
	s.Helper()
	eventually(s, "the Deployment of step "+step+" is as it should be", func() error {
		found := &appsv1.Deployment{}
		err := s.member.client.Get(s.Context(), client.ObjectKey{Namespace: s.id, Name: "a"}, found)
		if err == nil && (found.Labels["step"] != step || !check(found)) {
			return errors.New(encode(found))
		}
		return err
	})
}

func replicasOfBinding(s *scene) {
	s.namespace()
	s.bind("a", manifestsOf(labelled(`step: "1", resourcetemplate.karmada.io/retain-replicas: "true"`)))
	s.applied("a")
	a := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: s.id, Name: "a"}}
	scale := &autoscalingv1.Scale{ObjectMeta: a.ObjectMeta, Spec: autoscalingv1.ScaleSpec{Replicas: 5}}
	if err := s.member.client.SubResource("scale").Update(s.Context(), a, client.WithSubResourceBody(scale)); err != nil {
		s.Fatal(err)
	}
	s.rebind("a", labelled(`step: "2", resourcetemplate.karmada.io/retain-replicas: "true"`))
	s.runs("2", func(d *appsv1.Deployment) bool { return *d.Spec.Replicas == 5 })
	s.rebind("a", labelled(`step: "3"`))
	s.runs("3", func(d *appsv1.Deployment) bool { return *d.Spec.Replicas == 2 })
}

func restartOfBinding(s *scene) {
	s.namespace()
	s.bind("a", manifestsOf(labelled(`step: "1"`)))
	s.applied("a")
	a := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: s.id, Name: "a"}}
	s.patchMember(a, `{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":"now"}}}}}`)
	s.rebind("a", labelled(`step: "2"`))
	s.runs("2", func(d *appsv1.Deployment) bool {
		return d.Spec.Template.Annotations["kubectl.kubernetes.io/restartedAt"] == "now"
	})
}

// customized customizes a kind of group apps that no other case uses, in the same way
// in all modes.
func (s *scene) customized(kind string, scripts map[string]string) {
	s.Helper()
	var rules []string
	for operation, script := range scripts {
		rules = append(rules, fmt.Sprintf("%s: {luaScript: %q}", operation, script))
	}
	s.hub.apply(s, fmt.Sprintf(`
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

func customizedRetention(s *scene) {
	s.namespace()
	s.customized("ReplicaSet", map[string]string{
		"retention":            "function Retain(desired, observed) desired.spec.replicas = observed.spec.replicas return desired end",
		"healthInterpretation": "function InterpretHealth(o) return true end",
	})
	const spec = "replicas: 2, selector: {matchLabels: {a: b}}, " + podTemplate
	s.bind("a", manifestsOf(step(1, "ReplicaSet", spec)))
	s.applied("a")
	s.reports("a", v1alpha1.FeedbackHealth, "Healthy") // by the script: the agent knows it
	a := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: s.id, Name: "a"}}
	s.patchMember(a, `{"spec":{"replicas":5}}`)
	s.rebind("a", step(2, "ReplicaSet", spec))
	if err := s.member.client.Get(s.Context(), client.ObjectKeyFromObject(a), a); err != nil {
		s.Fatal(err)
	}
	if a.Labels["step"] != "2" || *a.Spec.Replicas != 5 {
		s.Errorf("the object is %s", encode(a))
	}
}

func customizedReport(s *scene) {
	s.namespace()
	s.customized("DaemonSet", map[string]string{
		"statusReflection":     "function ReflectStatus(o) return {pods = o.status.currentNumberScheduled} end",
		"healthInterpretation": "function InterpretHealth(o) return o.status.currentNumberScheduled == 7 end",
	})
	s.bind("a", manifestsOf(step(1, "DaemonSet", "selector: {matchLabels: {a: b}}, "+podTemplate)))
	s.applied("a")
	a := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: s.id, Name: "a"}}
	for _, tell := range []struct {
		pods   int32
		health string
	}{{7, "Healthy"}, {8, "Unhealthy"}} {
		eventually(s, "telling the status of the DaemonSet", func() error {
			if err := s.member.client.Get(s.Context(), client.ObjectKeyFromObject(a), a); err != nil {
				return err
			}
			a.Status = appsv1.DaemonSetStatus{CurrentNumberScheduled: tell.pods}
			return s.member.client.Status().Update(s.Context(), a)
		})
		s.reports("a", v1alpha1.FeedbackStatus, fmt.Sprintf(`{"pods":%d}`, tell.pods))
		s.reports("a", v1alpha1.FeedbackHealth, tell.health)
	}
}

func customizedFailure(s *scene) {
	s.namespace()
	s.customized("StatefulSet", map[string]string{
		"retention":            "function Retain(desired, observed) return nothing.there end",
		"healthInterpretation": "function InterpretHealth(o) while true do end end",
	})
	const spec = "serviceName: a, selector: {matchLabels: {a: b}}, " + podTemplate
	s.bind("a", manifestsOf(step(1, "StatefulSet", spec)))
	s.message("a", 0, workv1.ManifestConditionStatusFeedbackSynced, "False InterpretationFailed",
		`ResourceInterpreterCustomization "statefulset", healthInterpretation`)
	s.reports("a", v1alpha1.FeedbackHealth, "Unknown")
	s.deliver("a", manifestsOf(step(2, "StatefulSet", spec)))
	s.message("a", 0, workv1.ManifestConditionApplied, "False AppliedManifestFailed",
		`ResourceInterpreterCustomization "statefulset", retention: line 1`, "Correct spec.customizations.retention.luaScript")
	a := &appsv1.StatefulSet{}
	if err := s.member.client.Get(s.Context(), client.ObjectKey{Namespace: s.id, Name: "a"}, a); err != nil {
		s.Fatal(err)
	}
	if a.Labels["step"] != "1" {
		s.Errorf("the object is %s", encode(a))
	}
}

func suspensionOfBinding(s *scene) {
	s.namespace()
	s.bind("a", manifestsOf(labelled(`step: "1"`)))
	s.applied("a")
	s.annotate("a", workv1.AnnotationSuspendDispatching, "true")
	s.deliver("a", manifestsOf(labelled(`step: "2"`)))
	s.ready(2)
	s.reports("a", v1alpha1.FeedbackHealth, "Healthy")
	s.runs("1", func(*appsv1.Deployment) bool { return true })
	s.annotate("a", workv1.AnnotationSuspendDispatching, "false")
	s.runs("2", func(*appsv1.Deployment) bool { return true })
}

// annotate changes an annotation of a work.
func (s *scene) annotate(name, key, value string) {
	s.Helper()
	patch := fmt.Sprintf(`{"metadata":{"annotations":{%q:%q}}}`, key, value)
	if err := s.hub.client.Patch(s.Context(), s.work(name, "{}"), client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		s.Fatal(err)
	}
}

func preservationOfBinding(s *scene) {
	s.namespace()
	marked := strings.Replace(configMap("a", "ours"), "metadata: {", `metadata: {labels: {mine: "yes", karmada.io/managed: "true", work.karmada.io/permanent-id: NS-a}, `, 1)
	s.bind("a", "deleteOption: {propagationPolicy: Orphan}\n"+manifestsOf(marked))
	s.applied("a")
	s.remove("a")
	eventually(s, "the marks are gone", func() error {
		if found := s.has("a", "ours"); len(found.Labels) != 1 || found.Labels["mine"] != "yes" {
			return errors.New(encode(found.Labels))
		}
		return nil
	})
}

func namespaceOfBinding(s *scene) {
	s.namespace()
	s.bind("a", manifestsOf("{apiVersion: v1, kind: Namespace, metadata: {name: NS, labels: {team: a}}}"))
	s.applied("a")
	namespace := func(what string, check func(*corev1.Namespace) bool) {
		eventually(s, what, func() error {
			found := &corev1.Namespace{}
			err := s.member.client.Get(s.Context(), client.ObjectKey{Name: s.id}, found)
			if err == nil && !check(found) {
				return errors.New(encode(found))
			}
			return err
		})
	}
	namespace("it says that it was adopted", func(n *corev1.Namespace) bool {
		return n.Labels["team"] == "a" && n.Annotations["fleet.capstan.io/adopted"] == "true"
	})
	s.remove("a")
	namespace("it stays without what the work added", func(n *corev1.Namespace) bool {
		return n.DeletionTimestamp.IsZero() && n.Labels["team"] == ""
	})
}
