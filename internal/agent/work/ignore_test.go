// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// deployment returns the JSON of a Deployment in the member's namespace.
func (s *scene) deployment(replicas int, image string) string {
	return fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d","namespace":%q,"labels":{"l":"1"}},
		"spec":{"replicas":%d,"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},
		"spec":{"containers":[{"name":"c","image":%q,"args":["-a"],"env":[{"name":"X","value":"1"}]}]}}}}`, s.ns(), replicas, image)
}

func (s *scene) getDeployment() *appsv1.Deployment {
	s.t.Helper()
	d := &appsv1.Deployment{}
	if err := s.client.Get(s.t.Context(), client.ObjectKey{Namespace: s.ns(), Name: "d"}, d); err != nil {
		s.t.Fatal(err)
	}
	return d
}

// scale does what an autoscaler does.
func (s *scene) scale(replicas int32) {
	s.t.Helper()
	d := s.getDeployment()
	scale := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: replicas}}
	if err := s.client.SubResource("scale").Update(s.t.Context(), d, client.WithSubResourceBody(scale), client.FieldOwner("hpa")); err != nil {
		s.t.Fatal(err)
	}
}

// deployed waits until the Deployment has the image and its label, and fails if
// it has not the replicas.
func (s *scene) deployed(what, image string, replicas int32) {
	s.t.Helper()
	s.eventually(what, func() error {
		d := s.getDeployment()
		if got := d.Spec.Template.Spec.Containers[0].Image; got != image || d.Labels["l"] != "1" {
			return fmt.Errorf("the image is %q, labels are %v", got, d.Labels)
		}
		return nil
	})
	if d := s.getDeployment(); *d.Spec.Replicas != replicas {
		s.t.Fatalf("%s: there are %d replicas, want %d; %+v", what, *d.Spec.Replicas, replicas, d.ManagedFields)
	}
}

// unlabel makes a drift that the agent has to mend.
func (s *scene) unlabel() {
	s.t.Helper()
	d := s.getDeployment()
	if err := s.client.Patch(s.t.Context(), d, client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"labels":{"l":null}}}`))); err != nil {
		s.t.Fatal(err)
	}
}

func ignoring(work *workv1.ManifestWork, fields ...workv1.IgnoreField) *workv1.ManifestWork {
	work.Spec.ManifestConfigs = []workv1.ManifestConfigOption{{
		ResourceIdentifier: workv1.ResourceIdentifier{Group: "apps", Resource: "deployments", Namespace: "*", Name: "d"},
		UpdateStrategy: &workv1.UpdateStrategy{
			Type:            workv1.UpdateStrategyTypeServerSideApply,
			ServerSideApply: &workv1.ServerSideApplyConfig{Force: true, IgnoreFields: fields},
		},
	}}
	return work
}

func replicasIgnored(condition workv1.IgnoreFieldsCondition) workv1.IgnoreField {
	return workv1.IgnoreField{Condition: condition, JSONPointers: []string{"/spec/replicas"}}
}

func TestIgnoredReplicasAreThoseOfAnAutoscaler(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	var count atomic.Int64
	agent := s.start(agentOptions{wrap: func(rt http.RoundTripper) http.RoundTripper { return &writes{RoundTripper: rt, count: &count} }})
	s.create(ignoring(s.work("w", s.deployment(2, "i:1")), replicasIgnored(workv1.IgnoreFieldsConditionOnSpokePresent)))
	s.condition("w", "Applied", metav1.ConditionTrue)
	s.deployed("it is made with the replicas of the manifest", "i:1", 2)
	s.unlabel()
	s.deployed("a drift before any autoscaler does not take them away", "i:1", 2)
	s.scale(5)
	s.unlabel()
	s.deployed("a drift does not bring them back", "i:1", 5)
	s.change("w", func(w *workv1.ManifestWork) { setManifests(w, s.deployment(2, "i:2")) })
	s.deployed("nor does a change", "i:2", 5)
	s.change("w", func(w *workv1.ManifestWork) { setManifests(w, s.deployment(3, "i:3")) })
	s.deployed("not even one of the replicas", "i:3", 5)
	s.condition("w", "Applied", metav1.ConditionTrue)
	before := count.Load()
	for replicas := range int32(5) {
		s.scale(10 + replicas)
	}
	<-time.After(300 * time.Millisecond)
	if n := count.Load() - before; n > 6 {
		t.Errorf("%d writes for five changes of what is ignored", n)
	}
	agent.stop()
	s.unlabel()
	s.change("w", func(w *workv1.ManifestWork) { setManifests(w, s.deployment(4, "i:4")) })
	s.start(agentOptions{})
	s.deployed("nor does a new agent", "i:4", 14)
	s.condition("w", "Applied", metav1.ConditionTrue)
	d := s.getDeployment()
	if err := s.client.Delete(t.Context(), d, client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
		t.Fatal(err)
	}
	s.eventually("it is made again with the replicas of the manifest", func() error {
		again := &appsv1.Deployment{}
		err := s.client.Get(t.Context(), client.ObjectKeyFromObject(d), again)
		if err == nil && (again.UID == d.UID || *again.Spec.Replicas != 4) {
			err = fmt.Errorf("it has %d replicas", *again.Spec.Replicas)
		}
		return err
	})
	s.delete("w")
	s.gone("w")
	s.nothingLeft()
}

func TestFieldsThatWereOursStayWhenTheyAreIgnored(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(agentOptions{})
	s.create(s.work("w", s.deployment(2, "i:1")))
	s.condition("w", "Applied", metav1.ConditionTrue)
	s.change("w", func(w *workv1.ManifestWork) { ignoring(w, replicasIgnored(workv1.IgnoreFieldsConditionOnSpokePresent)) })
	s.condition("w", "Applied", metav1.ConditionTrue)
	s.change("w", func(w *workv1.ManifestWork) { setManifests(w, s.deployment(4, "i:2")) })
	s.deployed("they stay as they are", "i:2", 2)
	s.scale(6)
	s.unlabel()
	s.deployed("they are the autoscaler's", "i:2", 6)
}

func TestFieldsGoWithTheManifestUntilSomeoneChangesThem(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	agent := s.start(agentOptions{})
	s.create(ignoring(s.work("w", s.deployment(2, "i:1")), replicasIgnored(workv1.IgnoreFieldsConditionOnSpokeChange)))
	s.condition("w", "Applied", metav1.ConditionTrue)
	if d := s.getDeployment(); d.Annotations[workv1.AnnotationConfigSpecHash] == "" {
		t.Errorf("annotations are %v", d.Annotations)
	}
	s.scale(5)
	s.unlabel()
	s.deployed("a drift does not bring them back", "i:1", 5)
	agent.stop()
	s.unlabel()
	s.start(agentOptions{})
	s.deployed("a new agent does not, either", "i:1", 5)
	s.change("w", func(w *workv1.ManifestWork) { setManifests(w, s.deployment(3, "i:2")) })
	s.deployed("the hub does", "i:2", 3)
	s.unlabel()
	s.deployed("they stay without anyone else", "i:2", 3)
	s.scale(7)
	s.unlabel()
	s.deployed("and can be changed again", "i:2", 7)
}

func TestFieldsAreOursAgainWhenTheyAreNotIgnoredAnyMore(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(agentOptions{})
	s.create(ignoring(s.work("w", s.deployment(2, "i:1")), replicasIgnored(workv1.IgnoreFieldsConditionOnSpokePresent)))
	s.condition("w", "Applied", metav1.ConditionTrue)
	s.scale(5)
	s.change("w", func(w *workv1.ManifestWork) { w.Spec.ManifestConfigs = nil })
	s.eventually("the manifest counts", func() error {
		if d := s.getDeployment(); *d.Spec.Replicas != 2 {
			return fmt.Errorf("there are %d replicas", *d.Spec.Replicas)
		}
		return nil
	})
}

func TestAnObjectThatWasThereKeepsItsIgnoredFields(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	old := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns(), Name: "d"}}
	replicas := int32(9)
	old.Spec.Replicas = &replicas
	old.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}
	old.Spec.Template.Labels = map[string]string{"a": "b"}
	old.Spec.Template.Spec.Containers = []corev1.Container{{Name: "c", Image: "theirs"}}
	s.create(old)
	s.start(agentOptions{})
	s.create(ignoring(s.work("w", s.deployment(2, "i:1")), replicasIgnored(workv1.IgnoreFieldsConditionOnSpokePresent)))
	s.condition("w", "Applied", metav1.ConditionTrue)
	s.deployed("its replicas stay", "i:1", 9)
}

func TestIgnoredContainerIsChosenByJQ(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(agentOptions{})
	s.create(ignoring(s.work("w", s.deployment(2, "i:1")), workv1.IgnoreField{
		Condition: workv1.IgnoreFieldsConditionOnSpokePresent, JQPathExpressions: []string{`.spec.template.spec.containers[] | select(.name == "c") | .image`},
		JSONPaths: []string{`.spec.template.spec.containers[?(@.name=="c")].env[?(@.name=="X")]`},
	}))
	s.condition("w", "Applied", metav1.ConditionTrue)
	d := s.getDeployment()
	d.Spec.Template.Spec.Containers[0].Image = "theirs"
	d.Spec.Template.Spec.Containers[0].Env[0].Value = "theirs"
	if err := s.client.Update(t.Context(), d); err != nil {
		t.Fatal(err)
	}
	s.change("w", func(w *workv1.ManifestWork) { setManifests(w, s.deployment(7, "i:2")) })
	s.eventually("what is not ignored changes", func() error {
		if d = s.getDeployment(); *d.Spec.Replicas != 7 {
			return fmt.Errorf("there are %d replicas", *d.Spec.Replicas)
		}
		return nil
	})
	if c := d.Spec.Template.Spec.Containers[0]; c.Image != "theirs" || len(c.Env) != 1 || c.Env[0].Value != "theirs" || len(c.Args) != 1 {
		t.Errorf("the container is %+v", c)
	}
}

func TestIgnoringByAnExpressionThatIsWrongSaysSo(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(agentOptions{})
	s.create(ignoring(s.work("w", s.deployment(2, "i:1"), s.configMap("a", "1")), workv1.IgnoreField{
		Condition: workv1.IgnoreFieldsConditionOnSpokePresent, JQPathExpressions: []string{".spec |"},
	}))
	work := s.condition("w", "Applied", metav1.ConditionFalse)
	s.contains(message(work, 0, "Applied"), "False AppliedManifestSSAIgnoreFieldError", `jqPathExpressions: ".spec |"`, "not a jq expression")
	s.contains(message(work, 1, "Applied"), "True")
	s.change("w", func(w *workv1.ManifestWork) { ignoring(w, replicasIgnored(workv1.IgnoreFieldsConditionOnSpokePresent)) })
	s.condition("w", "Applied", metav1.ConditionTrue)
}

func TestTheInsideOfOneValueCannotBeIgnored(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(agentOptions{})
	s.create(ignoring(s.work("w", s.deployment(2, "i:1")), workv1.IgnoreField{
		Condition: workv1.IgnoreFieldsConditionOnSpokePresent, JSONPointers: []string{"/spec/template/spec/containers/0/args/0"},
	}))
	s.condition("w", "Applied", metav1.ConditionTrue)
	s.unlabel()
	work := s.condition("w", "Applied", metav1.ConditionFalse)
	s.contains(message(work, 0, "Applied"), "AppliedManifestSSAIgnoreFieldError", "/spec/template/spec/containers/0/args, which the API treats as one value")
	if d := s.getDeployment(); len(d.Spec.Template.Spec.Containers[0].Args) != 1 {
		t.Errorf("the container is %+v", d.Spec.Template.Spec.Containers[0])
	}
}
