// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// The manifests of these tests are some that an API server would take from kubectl, and refuses or half does by
// server-side apply.

// pods returns the JSON of a Deployment "web" with a spec beside its selector and a
// container "web" with fields beside its image.
func (s *scene) pods(spec, container string) string {
	return fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"web","namespace":%q},"spec":{%s"selector":{"matchLabels":{"app":"web"}},
		"template":{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"web","image":"x"%s}]}}}}`, s.ns(), spec, container)
}

// web waits until the Deployment "web" is as the check says, and returns it.
func (s *scene) web(what string, check func(*appsv1.Deployment) error) *appsv1.Deployment {
	s.t.Helper()
	found := &appsv1.Deployment{}
	s.eventually(what, func() error {
		found = &appsv1.Deployment{}
		if err := s.client.Get(s.t.Context(), client.ObjectKey{Namespace: s.ns(), Name: "web"}, found); err != nil {
			return err
		}
		if err := check(found); err != nil {
			text, _ := json.Marshal(found)
			return fmt.Errorf("%w: %s", err, text)
		}
		return nil
	})
	return found
}

// is returns an error if two values are not the same.
func is(what string, got, want any) error {
	if !reflect.DeepEqual(got, want) {
		return fmt.Errorf("%s is %v, not %v", what, got, want)
	}
	return nil
}

func ports(d *appsv1.Deployment) (ports []string) {
	for _, p := range d.Spec.Template.Spec.Containers[0].Ports {
		ports = append(ports, fmt.Sprintf("%s=%d", p.Name, p.ContainerPort))
	}
	return ports
}

func variables(d *appsv1.Deployment) (variables []string) {
	for _, v := range d.Spec.Template.Spec.Containers[0].Env {
		variables = append(variables, v.Name+"="+v.Value)
	}
	return variables
}

// settled waits until what works own of an object is owned by applying it only.
func (s *scene) settled(object client.Object) {
	s.t.Helper()
	s.eventually("one entry of managedFields is ours", func() error {
		if err := s.client.Get(s.t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			return err
		}
		var ours []metav1.ManagedFieldsOperationType
		for _, entry := range object.GetManagedFields() {
			if strings.HasPrefix(entry.Manager, workv1.DefaultFieldManager) {
				ours = append(ours, entry.Operation)
			}
		}
		return is("operations", ours, []metav1.ManagedFieldsOperationType{metav1.ManagedFieldsOperationApply})
	})
}

// still fails if the object is written although nothing happens: another object of a work
// that is applied later shows that the agent had its chance.
func (s *scene) still(work string, object client.Object) {
	s.t.Helper()
	before := object.GetResourceVersion()
	s.change(work, func(w *workv1.ManifestWork) {
		w.Spec.Workload.Manifests = append(w.Spec.Workload.Manifests, s.work("", s.configMap(work+"-later", "1")).Spec.Workload.Manifests...)
	})
	s.condition(work, "Applied", metav1.ConditionTrue)
	s.has(work+"-later", "1")
	if err := s.client.Get(s.t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		s.t.Fatal(err)
	}
	if object.GetResourceVersion() != before {
		s.t.Errorf("%s was written although nothing happened", object.GetName())
	}
}

const (
	portTwice     = `,"ports":[{"name":"http","containerPort":8080},{"name":"metrics","containerPort":8080}]`
	variableTwice = `,"env":[{"name":"A","value":"1"},{"name":"A","value":"2"},{"name":"B","value":"3"}]`
)

func TestAPortThatIsListedTwice(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(agentOptions{})
	s.create(s.work("w", s.pods(`"replicas":2,`, portTwice+`,"command":["a"]`)))
	s.condition("w", "Applied", metav1.ConditionTrue)
	object := s.web("both ports are there", func(d *appsv1.Deployment) error {
		return is("ports", ports(d), []string{"http=8080", "metrics=8080"})
	})
	s.settled(object)
	if object.Labels[workv1.LabelManaged] != "true" || len(object.OwnerReferences) != 1 {
		t.Errorf("it is not the work's: %v %v", object.Labels, object.OwnerReferences)
	}
	s.still("w", object)

	// What somebody else adds stays, what somebody changes comes back.
	object.Annotations = map[string]string{"example.com/theirs": "x"}
	object.Spec.MinReadySeconds = 7
	object.Spec.Template.Spec.Containers[0].Ports = object.Spec.Template.Spec.Containers[0].Ports[:1]
	if err := s.client.Update(t.Context(), object, client.FieldOwner("them")); err != nil {
		t.Fatal(err)
	}
	object = s.web("the second port is back", func(d *appsv1.Deployment) error {
		return is("ports", ports(d), []string{"http=8080", "metrics=8080"})
	})
	if object.Annotations["example.com/theirs"] != "x" || object.Spec.MinReadySeconds != 7 {
		t.Errorf("what somebody else added is gone: %v, minReadySeconds %d", object.Annotations, object.Spec.MinReadySeconds)
	}

	s.change("w", func(w *workv1.ManifestWork) {
		setManifests(w, s.pods("", `,"ports":[{"name":"http","containerPort":8080},{"name":"metrics","containerPort":8080},{"name":"debug","containerPort":9090}]`))
	})
	s.condition("w", "Applied", metav1.ConditionTrue)
	object = s.web("the third port is there", func(d *appsv1.Deployment) error {
		return errors.Join(is("ports", ports(d), []string{"http=8080", "metrics=8080", "debug=9090"}),
			is("command", d.Spec.Template.Spec.Containers[0].Command, []string(nil)))
	})
	s.settled(object)
	if object.Annotations["example.com/theirs"] != "x" || object.Spec.MinReadySeconds != 7 {
		t.Errorf("what somebody else added is gone: %v, minReadySeconds %d", object.Annotations, object.Spec.MinReadySeconds)
	}
	s.delete("w")
	s.gone("w")
}

func TestAVariableThatIsListedTwice(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(agentOptions{})
	s.create(s.work("w", s.pods("", portTwice+variableTwice)))
	s.condition("w", "Applied", metav1.ConditionTrue)
	s.web("both values are there", func(d *appsv1.Deployment) error {
		return is("env", variables(d), []string{"A=1", "A=2", "B=3"})
	})
	s.change("w", func(w *workv1.ManifestWork) {
		setManifests(w, s.pods("", `,"env":[{"name":"A","value":"4"},{"name":"A","value":"5"}]`))
	})
	s.condition("w", "Applied", metav1.ConditionTrue)
	object := s.web("the values are new, and what is not in the manifest is gone", func(d *appsv1.Deployment) error {
		return errors.Join(is("env", variables(d), []string{"A=4", "A=5"}), is("ports", ports(d), []string(nil)))
	})
	s.settled(object)
	s.still("w", object)
}

// TestAPortThatIsListedTwiceAndThenOnce goes from server-side apply to replacing and back.
func TestAPortThatIsListedTwiceAndThenOnce(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(agentOptions{})
	s.create(s.work("w", s.pods("", `,"args":["a"],"env":[{"name":"A","value":"0"},{"name":"C","value":"0"}]`)))
	s.condition("w", "Applied", metav1.ConditionTrue)
	s.change("w", func(w *workv1.ManifestWork) { setManifests(w, s.pods("", portTwice+variableTwice)) })
	s.condition("w", "Applied", metav1.ConditionTrue)
	object := s.web("it is as the second manifest says", func(d *appsv1.Deployment) error {
		return errors.Join(is("env", variables(d), []string{"A=1", "A=2", "B=3"}), is("ports", ports(d), []string{"http=8080", "metrics=8080"}),
			is("args", d.Spec.Template.Spec.Containers[0].Args, []string(nil)))
	})
	s.settled(object)
	s.change("w", func(w *workv1.ManifestWork) { setManifests(w, s.pods("", `,"env":[{"name":"A","value":"6"}]`)) })
	s.condition("w", "Applied", metav1.ConditionTrue)
	object = s.web("it is as the third manifest says", func(d *appsv1.Deployment) error {
		return errors.Join(is("env", variables(d), []string{"A=6"}), is("ports", ports(d), []string(nil)))
	})
	s.settled(object)
}

// TestListedTwiceInAnObjectThatIsThere has a manifest meet an object that somebody else made.
func TestListedTwiceInAnObjectThatIsThere(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	theirs := &appsv1.Deployment{}
	if err := json.Unmarshal([]byte(s.pods(`"minReadySeconds":3,`, `,"workingDir":"/theirs"`)), theirs); err != nil {
		t.Fatal(err)
	}
	if err := s.client.Create(t.Context(), theirs, client.FieldOwner("them")); err != nil {
		t.Fatal(err)
	}
	s.start(agentOptions{})
	s.create(s.work("w", s.pods("", portTwice)))
	s.condition("w", "Applied", metav1.ConditionTrue)
	for _, value := range []string{"1", "2"} {
		s.change("w", func(w *workv1.ManifestWork) {
			setManifests(w, s.pods("", portTwice+`,"env":[{"name":"N","value":"`+value+`"}]`))
		})
		object := s.web("the ports are there, and what is theirs", func(d *appsv1.Deployment) error {
			return errors.Join(is("ports", ports(d), []string{"http=8080", "metrics=8080"}), is("env", variables(d), []string{"N=" + value}),
				is("minReadySeconds", d.Spec.MinReadySeconds, int32(3)), is("workingDir", d.Spec.Template.Spec.Containers[0].WorkingDir, "/theirs"))
		})
		if object.UID != theirs.UID {
			t.Error("it is another object")
		}
	}
}

// TestListedTwiceInAnObjectOfTwoWorks shows that replacing an object does not overrule another work.
func TestListedTwiceInAnObjectOfTwoWorks(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(agentOptions{})
	s.create(s.work("first", s.pods(`"replicas":2,`, "")))
	s.condition("first", "Applied", metav1.ConditionTrue)
	s.create(s.work("second", s.pods(`"replicas":3,`, portTwice)))
	s.condition("second", "Applied", metav1.ConditionFalse)
	s.says("second", 0, "Applied", "AppliedManifestFailed", ".spec.replicas", `ManifestWork "first"`, "do not overwrite")
	s.web("the first work's replicas stay", func(d *appsv1.Deployment) error { return is("replicas", *d.Spec.Replicas, int32(2)) })

	s.change("second", func(w *workv1.ManifestWork) { setManifests(w, s.pods("", portTwice)) })
	s.condition("second", "Applied", metav1.ConditionTrue)
	s.web("both have their part", func(d *appsv1.Deployment) error {
		return errors.Join(is("replicas", *d.Spec.Replicas, int32(2)), is("ports", ports(d), []string{"http=8080", "metrics=8080"}), is("owners", len(d.OwnerReferences), 2))
	})
	s.change("first", func(w *workv1.ManifestWork) { setManifests(w, s.pods(`"replicas":4,`, "")) })
	s.condition("first", "Applied", metav1.ConditionTrue)
	s.delete("second")
	s.gone("second")
	s.web("the first work's part stays alone", func(d *appsv1.Deployment) error {
		return errors.Join(is("replicas", *d.Spec.Replicas, int32(4)), is("ports", ports(d), []string(nil)), is("owners", len(d.OwnerReferences), 1))
	})
}

func TestListedTwiceWhereConflictsAreToBeErrors(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(agentOptions{})
	work := s.work("w", s.pods("", portTwice))
	work.Spec.ManifestConfigs = []workv1.ManifestConfigOption{{
		ResourceIdentifier: workv1.ResourceIdentifier{Group: "apps", Resource: "deployments", Namespace: "*", Name: "*"},
		UpdateStrategy:     rivals()["ssa"],
	}}
	s.create(work)
	s.condition("w", "Applied", metav1.ConditionFalse)
	s.says("w", 0, "Applied", "AppliedManifestFailed", "duplicate entries for key", "containerPort=8080", "updateStrategy Update")
	s.change("w", func(w *workv1.ManifestWork) { w.Spec.ManifestConfigs[0].UpdateStrategy = rivals()["force"] })
	s.condition("w", "Applied", metav1.ConditionTrue)
	s.web("with force it is there", func(d *appsv1.Deployment) error { return is("ports", ports(d), []string{"http=8080", "metrics=8080"}) })
	s.change("w", func(w *workv1.ManifestWork) { setManifests(w, s.pods("", portTwice+variableTwice)) })
	s.condition("w", "Applied", metav1.ConditionTrue)
	s.settled(s.web("and changes", func(d *appsv1.Deployment) error { return is("env", variables(d), []string{"A=1", "A=2", "B=3"}) }))
}

// TestListedTwiceWithAnExecutor shows that an object is replaced only for an executor that may update it.
func TestListedTwiceWithAnExecutor(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.allowHere("apps", "deployments", "get", "create", "patch", "delete")
	s.start(agentOptions{})
	s.create(s.as(s.work("w", s.pods("", portTwice))))
	s.condition("w", "Applied", metav1.ConditionFalse)
	s.says("w", 0, "Applied", "The executor", "may not update deployments.apps")
	err := s.client.Get(t.Context(), client.ObjectKey{Namespace: s.ns(), Name: "web"}, &appsv1.Deployment{})
	if client.IgnoreNotFound(err) != nil || err == nil {
		t.Errorf("the object is there without a right to it: %v", err)
	}
	s.allowEverywhere("-update", rbacv1.PolicyRule{APIGroups: []string{"apps"}, Resources: []string{"deployments"}, Verbs: []string{"update"}})
	s.condition("w", "Applied", metav1.ConditionTrue)
	s.change("w", func(w *workv1.ManifestWork) { setManifests(w, s.pods("", portTwice+variableTwice)) })
	s.web("it is replaced", func(d *appsv1.Deployment) error { return is("env", variables(d), []string{"A=1", "A=2", "B=3"}) })
}

// TestReplacedByAStrategyThatExcludesADefault has a manifest exclude what the server set by default for the one before.
func TestReplacedByAStrategyThatExcludesADefault(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(agentOptions{})
	s.create(s.work("w", s.pods(`"replicas":1,`, "")))
	s.condition("w", "Applied", metav1.ConditionTrue)
	object := s.web("it is there", func(d *appsv1.Deployment) error {
		return is("strategy", d.Spec.Strategy.Type, appsv1.RollingUpdateDeploymentStrategyType)
	})
	// An autoscaler owns the replicas together with us, and somebody else an annotation.
	scaled := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 1}}
	if err := s.client.SubResource("scale").Update(t.Context(), object, client.WithSubResourceBody(scaled), client.FieldOwner("hpa")); err != nil {
		t.Fatal(err)
	}
	s.annotate(object, "them")
	for _, command := range []string{"a", "b"} {
		s.change("w", func(w *workv1.ManifestWork) {
			setManifests(w, s.pods(`"strategy":{"type":"Recreate"},`, `,"command":["`+command+`"]`))
		})
		s.condition("w", "Applied", metav1.ConditionTrue)
		object = s.web("it is recreated", func(d *appsv1.Deployment) error {
			return errors.Join(is("strategy", d.Spec.Strategy, appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}),
				is("command", d.Spec.Template.Spec.Containers[0].Command, []string{command}), is("annotation", d.Annotations["example.com/theirs"], "x"))
		})
		s.settled(object)
	}
	s.still("w", object)
	s.change("w", func(w *workv1.ManifestWork) { setManifests(w, s.pods("", "")) })
	s.condition("w", "Applied", metav1.ConditionTrue)
	s.settled(s.web("the default is back", func(d *appsv1.Deployment) error {
		return errors.Join(is("strategy", d.Spec.Strategy.Type, appsv1.RollingUpdateDeploymentStrategyType),
			is("command", d.Spec.Template.Spec.Containers[0].Command, []string(nil)), is("annotation", d.Annotations["example.com/theirs"], "x"))
	}))
}

// annotate does what another manager does.
func (s *scene) annotate(object client.Object, manager string) {
	s.t.Helper()
	patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"annotations":{"example.com/theirs":"x"}}}`))
	if err := s.client.Patch(s.t.Context(), object, patch, client.FieldOwner(manager)); err != nil {
		s.t.Fatal(err)
	}
}

// TestReplacedByWhatExcludesWhatSomebodyElseSet shows that a field of another manager goes that the manifest excludes,
// and no other one.
func TestReplacedByWhatExcludesWhatSomebodyElseSet(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(agentOptions{})
	s.create(s.work("w", s.pods("", "")))
	s.condition("w", "Applied", metav1.ConditionTrue)
	object := s.web("it is there", func(*appsv1.Deployment) error { return nil })
	theirs := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"minReadySeconds":5,"strategy":{"rollingUpdate":{"maxSurge":3}}}}`))
	if err := s.client.Patch(t.Context(), object, theirs, client.FieldOwner("them")); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"a", "b"} {
		s.change("w", func(w *workv1.ManifestWork) {
			setManifests(w, s.pods(`"strategy":{"type":"Recreate"},`, `,"command":["`+command+`"]`))
		})
		s.condition("w", "Applied", metav1.ConditionTrue)
		s.settled(s.web("it is recreated", func(d *appsv1.Deployment) error {
			return errors.Join(is("strategy", d.Spec.Strategy, appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}),
				is("command", d.Spec.Template.Spec.Containers[0].Command, []string{command}), is("minReadySeconds", d.Spec.MinReadySeconds, int32(5)))
		}))
	}
}

// TestReplacedObjectKeepsWhatIsIgnored shows that what ignoreFields name is not reset.
func TestReplacedObjectKeepsWhatIsIgnored(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(agentOptions{})
	work := s.work("w", s.pods(`"replicas":1,`, ""))
	strategy := rivals()["force"]
	strategy.ServerSideApply.IgnoreFields = []workv1.IgnoreField{{Condition: workv1.IgnoreFieldsConditionOnSpokePresent, JSONPointers: []string{"/spec/replicas"}}}
	work.Spec.ManifestConfigs = []workv1.ManifestConfigOption{{
		ResourceIdentifier: workv1.ResourceIdentifier{Group: "apps", Resource: "deployments", Namespace: "*", Name: "*"}, UpdateStrategy: strategy,
	}}
	s.create(work)
	s.condition("w", "Applied", metav1.ConditionTrue)
	object := s.web("it is there", func(*appsv1.Deployment) error { return nil })
	scaled := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: 5}}
	if err := s.client.SubResource("scale").Update(t.Context(), object, client.WithSubResourceBody(scaled), client.FieldOwner("hpa")); err != nil {
		t.Fatal(err)
	}
	// Even if nobody owns them.
	forget := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"managedFields":[{}]}}`))
	if err := s.client.Patch(t.Context(), object, forget); err != nil {
		t.Fatal(err)
	}
	for _, command := range []string{"a", "b"} {
		s.change("w", func(w *workv1.ManifestWork) {
			setManifests(w, s.pods(`"replicas":1,"strategy":{"type":"Recreate"},`, `,"command":["`+command+`"]`))
		})
		s.condition("w", "Applied", metav1.ConditionTrue)
		s.web("it is recreated", func(d *appsv1.Deployment) error {
			return errors.Join(is("strategy", d.Spec.Strategy, appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}),
				is("command", d.Spec.Template.Spec.Containers[0].Command, []string{command}), is("replicas", *d.Spec.Replicas, int32(5)))
		})
	}
}

// TestReplacedObjectKeepsWhatTheManifestLosesAndStays has manifests lose what nobody owns then and what stays all the same: in
// the change that server-side apply refuses, and before it.
func TestReplacedObjectKeepsWhatTheManifestLosesAndStays(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(agentOptions{})
	s.create(s.work("w", s.pods(`"replicas":5,`, "")))
	s.condition("w", "Applied", metav1.ConditionTrue)
	recreated := func(command string) {
		s.change("w", func(w *workv1.ManifestWork) {
			setManifests(w, s.pods(`"strategy":{"type":"Recreate"},`, `,"command":["`+command+`"]`))
		})
		s.condition("w", "Applied", metav1.ConditionTrue)
		s.settled(s.web("it is recreated", func(d *appsv1.Deployment) error {
			return errors.Join(is("strategy", d.Spec.Strategy, appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}),
				is("command", d.Spec.Template.Spec.Containers[0].Command, []string{command}), is("replicas", *d.Spec.Replicas, int32(5)))
		}))
	}
	recreated("with the change")
	s.change("w", func(w *workv1.ManifestWork) { setManifests(w, s.pods("", "")) })
	s.condition("w", "Applied", metav1.ConditionTrue)
	s.web("the default is back", func(d *appsv1.Deployment) error {
		return is("strategy", d.Spec.Strategy.Type, appsv1.RollingUpdateDeploymentStrategyType)
	})
	recreated("after the change")
}

// TestReplacedByAnotherSourceOfAVolume changes a volume whose source the server set by default.
func TestReplacedByAnotherSourceOfAVolume(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(agentOptions{})
	volume := func(source string) string {
		return strings.Replace(s.pods("", ""), `"spec":{"containers"`, `"spec":{"volumes":[{"name":"v"`+source+`}],"containers"`, 1)
	}
	s.create(s.work("w", volume("")))
	s.condition("w", "Applied", metav1.ConditionTrue)
	for _, name := range []string{"a", "b"} {
		s.change("w", func(w *workv1.ManifestWork) { setManifests(w, volume(`,"configMap":{"name":"`+name+`"}`)) })
		s.condition("w", "Applied", metav1.ConditionTrue)
		s.settled(s.web("it is a ConfigMap", func(d *appsv1.Deployment) error {
			v := d.Spec.Template.Spec.Volumes[0]
			if v.EmptyDir != nil || v.ConfigMap == nil || v.ConfigMap.Name != name {
				return errors.New("it is not")
			}
			return nil
		}))
	}
}

// TestReplacedByAnotherKindOfProbe changes a probe, of which the server has set parts by default.
func TestReplacedByAnotherKindOfProbe(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(agentOptions{})
	s.create(s.work("w", s.pods("", `,"livenessProbe":{"httpGet":{"port":80}}`)))
	s.condition("w", "Applied", metav1.ConditionTrue)
	for _, port := range []int{81, 82} {
		s.change("w", func(w *workv1.ManifestWork) {
			setManifests(w, s.pods("", fmt.Sprintf(`,"livenessProbe":{"tcpSocket":{"port":%d}}`, port)))
		})
		s.condition("w", "Applied", metav1.ConditionTrue)
		s.settled(s.web("it connects only", func(d *appsv1.Deployment) error {
			probe := d.Spec.Template.Spec.Containers[0].LivenessProbe
			if probe == nil || probe.HTTPGet != nil || probe.TCPSocket == nil || probe.TCPSocket.Port.IntValue() != port {
				return errors.New("it does not")
			}
			return nil
		}))
	}
}

// service returns the JSON of a Service "web" with a spec.
func (s *scene) service(spec string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Service","metadata":{"name":"web","namespace":%q},"spec":{"selector":{"app":"web"},%s}}`, s.ns(), spec)
}

// serves waits until the Service "web" is as the check says, and returns it.
func (s *scene) serves(what string, check func(*corev1.Service) error) *corev1.Service {
	s.t.Helper()
	found := &corev1.Service{}
	s.eventually(what, func() error {
		found = &corev1.Service{}
		if err := s.client.Get(s.t.Context(), client.ObjectKey{Namespace: s.ns(), Name: "web"}, found); err != nil {
			return err
		}
		if err := check(found); err != nil {
			text, _ := json.Marshal(found)
			return fmt.Errorf("%w: %s", err, text)
		}
		return nil
	})
	return found
}

func servicePorts(service *corev1.Service) (ports []string) {
	for _, p := range service.Spec.Ports {
		ports = append(ports, fmt.Sprintf("%s=%d", p.Name, p.Port))
	}
	return ports
}

// TestReplacedPortOfAServiceThatWasChanged puts ports back that somebody changed in the member: what tells items of a
// list apart is another one then.
func TestReplacedPortOfAServiceThatWasChanged(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(agentOptions{})
	for name, ports := range map[string]string{
		"unnamed": `"type":"NodePort","ports":[{"port":80}]`,
		"named":   `"type":"NodePort","ports":[{"name":"http","port":80},{"name":"metrics","port":90}]`,
	} {
		want := []string{"=80"}
		if name == "named" {
			want = []string{"http=80", "metrics=90"}
		}
		s.create(s.work(name, s.service(ports)))
		s.condition(name, "Applied", metav1.ConditionTrue)
		var before *corev1.Service
		for _, changed := range []int32{8081, 8082} {
			object := s.serves(name+" is as the manifest says", func(service *corev1.Service) error { return is("ports", servicePorts(service), want) })
			before = object.DeepCopy()
			s.annotate(object, "them")
			object.Spec.Ports[0].Port = changed
			if err := s.client.Update(t.Context(), object, client.FieldOwner("kubectl-edit")); err != nil {
				t.Fatal(err)
			}
			object = s.serves(name+" is as before", func(service *corev1.Service) error {
				return errors.Join(is("ports", servicePorts(service), want), is("annotation", service.Annotations["example.com/theirs"], "x"),
					is("clusterIP", service.Spec.ClusterIP, before.Spec.ClusterIP), is("ipFamilies", service.Spec.IPFamilies, before.Spec.IPFamilies),
					is("nodePort", service.Spec.Ports[0].NodePort, before.Spec.Ports[0].NodePort))
			})
			s.settled(object)
		}
		s.change(name, func(w *workv1.ManifestWork) {
			setManifests(w, s.service(strings.Replace(ports, `"port":80`, `"port":70`, 1)))
		})
		s.condition(name, "Applied", metav1.ConditionTrue)
		s.serves(name+" has another port", func(service *corev1.Service) error {
			return errors.Join(is("ports", len(service.Spec.Ports), len(want)), is("port", service.Spec.Ports[0].Port, int32(70)), is("clusterIP", service.Spec.ClusterIP, before.Spec.ClusterIP))
		})
		s.delete(name)
		s.gone(name)
	}
}

// TestReplacedTypeOfAService goes through types of a Service, each of which excludes fields of others.
func TestReplacedTypeOfAService(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(agentOptions{})
	s.create(s.work("w", s.service(`"ports":[{"port":80}]`)))
	for _, spec := range []string{
		`"type":"ExternalName","externalName":"example.com"`, `"type":"LoadBalancer","externalTrafficPolicy":"Local","ports":[{"port":80}]`,
		`"ports":[{"port":80}]`, `"type":"NodePort","ports":[{"port":80},{"port":81,"name":"b"}]`, `"type":"ExternalName","externalName":"example.org"`,
	} {
		if strings.Contains(spec, `"b"`) { // all have names then
			spec = strings.Replace(spec, `{"port":80}`, `{"port":80,"name":"a"}`, 1)
		}
		s.change("w", func(w *workv1.ManifestWork) { setManifests(w, s.service(spec)) })
		s.condition("w", "Applied", metav1.ConditionTrue)
		want := corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP}
		if err := json.Unmarshal([]byte("{"+spec+"}"), &want); err != nil {
			t.Fatal(err)
		}
		s.settled(s.serves("it is of type "+string(want.Type), func(service *corev1.Service) error {
			return errors.Join(is("type", service.Spec.Type, want.Type), is("externalName", service.Spec.ExternalName, want.ExternalName), is("ports", len(service.Spec.Ports), len(want.Ports)))
		}))
	}
}

// TestWhatCannotChangeOfAVolumeClaimStays changes what of a bound PersistentVolumeClaim may change, where the rest of it,
// which the cluster has set, may not.
func TestWhatCannotChangeOfAVolumeClaimStays(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(agentOptions{})
	claim := func(size, labels string) string {
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"PersistentVolumeClaim","metadata":{"name":"web","namespace":%q,"labels":{%s}},"spec":{%s"accessModes":["ReadWriteOnce"],"resources":{"requests":{"storage":%q}}}}`,
			s.ns(), labels, `"storageClassName":"s",`, size)
	}
	s.create(s.work("w", claim("1Gi", `"a":"1"`)))
	s.condition("w", "Applied", metav1.ConditionTrue)
	object := &corev1.PersistentVolumeClaim{}
	if err := s.client.Get(t.Context(), client.ObjectKey{Namespace: s.ns(), Name: "web"}, object); err != nil {
		t.Fatal(err)
	}
	bound := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"volumeName":"pv-1"}}`))
	if err := s.client.Patch(t.Context(), object, bound, client.FieldOwner("kube-controller-manager")); err != nil {
		t.Fatal(err)
	}
	for _, value := range []string{"2", "3"} { // the class, which cannot change, is in the manifest no more
		s.change("w", func(w *workv1.ManifestWork) {
			setManifests(w, strings.Replace(claim("1Gi", `"b":"`+value+`"`), `"storageClassName":"s",`, "", 1))
		})
		s.condition("w", "Applied", metav1.ConditionTrue)
		s.eventually("the label changes, and the rest stays", func() error {
			if err := s.client.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
				return err
			}
			return errors.Join(is("a", object.Labels["a"], ""), is("b", object.Labels["b"], value), is("class", object.Spec.StorageClassName, ptr.To("s")),
				is("volume", object.Spec.VolumeName, "pv-1"), is("finalizers", object.Finalizers, []string{"kubernetes.io/pvc-protection"}))
		})
		s.settled(object)
	}
}

// TestWhatCannotChangeAndIsTo changes what cannot change: the condition says what, and what to do, and the
// agent does not try all the time.
func TestWhatCannotChangeAndIsTo(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	var count atomic.Int64
	s.start(agentOptions{wrap: func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			if request.Method == http.MethodPatch && strings.HasSuffix(request.URL.Path, "/deployments/web") {
				count.Add(1)
			}
			return next.RoundTrip(request)
		})
	}})
	s.create(s.work("w", s.pods("", "")))
	s.condition("w", "Applied", metav1.ConditionTrue)
	before := s.web("it is there", func(*appsv1.Deployment) error { return nil })
	count.Store(0)
	s.change("w", func(w *workv1.ManifestWork) {
		setManifests(w, strings.ReplaceAll(s.pods("", ""), `"app":"web"`, `"app":"new"`))
	})
	s.condition("w", "Applied", metav1.ConditionFalse)
	s.says("w", 0, "Applied", "AppliedManifestFailed", "spec.selector", "field is immutable", "delete the object in the cluster")
	if n := count.Load(); n > 12 {
		t.Errorf("it was tried %d times at once", n)
	}
	if err := s.client.Delete(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	s.condition("w", "Applied", metav1.ConditionTrue)
	s.web("it is made again", func(d *appsv1.Deployment) error { return is("selector", d.Spec.Selector.MatchLabels["app"], "new") })
}

// TestWhatCannotChangeAndIsNotRead is testSelector for an agent that may write the object and not read it.
func TestWhatCannotChangeAndIsNotRead(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(agentOptions{wrap: func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(request *http.Request) (*http.Response, error) {
			if request.Method != http.MethodGet || !strings.HasSuffix(request.URL.Path, "/deployments/web") {
				return next.RoundTrip(request)
			}
			const status = `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"the agent cannot get it"}`
			return &http.Response{
				StatusCode: http.StatusForbidden, Header: http.Header{"Content-Type": {"application/json"}},
				Body: io.NopCloser(strings.NewReader(status)), Request: request,
			}, nil
		})
	}})
	s.create(s.work("w", s.pods(`"replicas":1,`, "")))
	s.condition("w", "Applied", metav1.ConditionTrue)
	s.change("w", func(w *workv1.ManifestWork) {
		setManifests(w, strings.ReplaceAll(s.pods(`"replicas":1,`, ""), `"app":"web"`, `"app":"new"`))
	})
	s.condition("w", "Applied", metav1.ConditionFalse)
	s.says("w", 0, "Applied", "AppliedManifestFailed", "spec.selector", "field is immutable", "delete the object in the cluster")
}

// TestWhatCannotChangeOfAJob changes what cannot change of a Job, which cannot be replaced without what the
// server has made of it either: its selector and the labels of its pods.
func TestWhatCannotChangeOfAJob(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(agentOptions{})
	s.create(s.work("w", s.job("j")))
	s.condition("w", "Applied", metav1.ConditionTrue)
	before, err := s.live(jobKind, "j")
	if err != nil {
		t.Fatal(err)
	}
	other := strings.Replace(s.job("j"), `"image":"i"`, `"image":"other"`, 1)
	s.change("w", func(w *workv1.ManifestWork) { setManifests(w, other) })
	s.condition("w", "Applied", metav1.ConditionFalse)
	s.says("w", 0, "Applied", "AppliedManifestFailed", "spec.template: Invalid", "field is immutable", "Restore spec.template in the manifest")
	s.change("w", func(w *workv1.ManifestWork) {
		setManifests(w, strings.Replace(other, `"metadata":{`, `"metadata":{"annotations":{"`+workv1.AnnotationRecreate+`":"true"},`, 1))
	})
	s.condition("w", "Applied", metav1.ConditionTrue)
	if found, err := s.live(jobKind, "j"); err != nil || found.GetUID() == before.GetUID() {
		t.Errorf("the job is not made again: %v", err)
	}
}

// TestListedTwiceAndNotKnownToTheServer shows that fields that the server does not know are not dropped in silence
// since something else cannot be applied either. The unknown field is alone in its map: the server
// reads a map in no order, and not on after a field that it does not know.
func TestListedTwiceAndNotKnownToTheServer(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(agentOptions{})
	text := s.pods(`"strategy":{"nope":1},`, portTwice)
	s.create(s.work("w", strings.Replace(text, `"metadata":{`, `"metadata":{"annotations":{"`+workv1.AnnotationStrictFields+`":"true"},`, 1)))
	s.condition("w", "Applied", metav1.ConditionFalse)
	s.says("w", 0, "Applied", "AppliedManifestFailed", "field not declared in schema", "duplicate entries for key")
	s.change("w", func(w *workv1.ManifestWork) { setManifests(w, text) })
	s.condition("w", "Applied", metav1.ConditionTrue)
	s.settled(s.web("it is there with both ports", func(d *appsv1.Deployment) error {
		return is("ports", ports(d), []string{"http=8080", "metrics=8080"})
	}))
	s.says("w", 0, "Applied", "AppliedManifestComplete", "Warning", ".spec.strategy.nope")
}
