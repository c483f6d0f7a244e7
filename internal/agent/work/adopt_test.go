// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// The works of these tests take objects that people brought to the member by hand.

// bring makes an object of JSON, as a manager does.
func (s *scene) bring(manager, text string) *unstructured.Unstructured {
	s.t.Helper()
	object := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(text), object); err != nil {
		s.t.Fatal(err)
	}
	if err := s.client.Create(s.t.Context(), object, client.FieldOwner(manager)); err != nil {
		s.t.Fatal(err)
	}
	return object
}

// edits changes an object by a merge patch, as a manager does.
func (s *scene) edits(manager string, object client.Object, patch string) {
	s.t.Helper()
	if err := s.client.Patch(s.t.Context(), object, client.RawPatch(types.MergePatchType, []byte(patch)), client.FieldOwner(manager)); err != nil {
		s.t.Fatal(err)
	}
}

// old returns the JSON of the Deployment "web" with what no manifest of these tests has.
func (s *scene) old() string {
	text := s.pods(`"replicas":3,"minReadySeconds":4,`, `,"env":[{"name":"DEBUG","value":"1"}],"command":["old"]`)
	text = strings.Replace(text, `"name":"web","namespace"`, `"labels":{"old":"label"},"annotations":{"kubectl.kubernetes.io/last-applied-configuration":"{}"},"finalizers":["example.com/old"],"name":"web","namespace"`, 1)
	return strings.Replace(text, `"containers":[`, `"containers":[{"name":"sidecar","image":"old"},`, 1)
}

func containers(d *appsv1.Deployment) (names []string) {
	for i := range d.Spec.Template.Spec.Containers {
		names = append(names, d.Spec.Template.Spec.Containers[i].Name)
	}
	return names
}

// adopted returns an error unless the Deployment has lost what only old has.
func adopted(d *appsv1.Deployment) error {
	err := errors.Join(is("label", d.Labels["old"], ""), is("minReadySeconds", d.Spec.MinReadySeconds, int32(0)))
	for i := range d.Spec.Template.Spec.Containers {
		c := &d.Spec.Template.Spec.Containers[i]
		if c.Name == "sidecar" || c.Name == "web" && (len(c.Env) > 0 || len(c.Command) > 0) {
			err = errors.Join(err, fmt.Errorf("container %s is there with %v %v", c.Name, c.Env, c.Command))
		}
	}
	return err
}

func TestAdoptionRemovesWhatKubectlHad(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	object := s.bring("kubectl-client-side-apply", s.old())
	s.edits("kubectl-rollout", object, `{"spec":{"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":"then"}}}}}`)
	s.edits("kubectl-label", object, `{"metadata":{"labels":{"by":"hand"}}}`)
	s.edits("injector", object, `{"metadata":{"annotations":{"example.com/theirs":"x"}},"spec":{"template":{"spec":{"priorityClassName":"theirs"}}}}`)
	s.finalize(object)
	a := s.start(agentOptions{})
	s.create(s.work("w", s.pods("", "")))
	s.condition("w", "Applied", metav1.ConditionTrue)
	web := s.web("it is as the manifest says, with what controllers have", func(d *appsv1.Deployment) error {
		return errors.Join(adopted(d), is("containers", containers(d), []string{"web"}), is("label", d.Labels["by"], ""),
			is("annotation", d.Annotations["example.com/theirs"], "x"), is("priorityClassName", d.Spec.Template.Spec.PriorityClassName, "theirs"),
			is("finalizers", d.Finalizers, []string{"example.com/old"}), is("replicas", *d.Spec.Replicas, int32(3)),
			is("restartedAt", d.Spec.Template.Annotations["kubectl.kubernetes.io/restartedAt"], "then"))
	})
	if web.Generation != 3+1 { // made, restarted, changed by the injector, and adopted
		t.Errorf("adoption wrote the spec more than once: generation %d", web.Generation)
	}
	wants := []string{"kubectl-client-side-apply, kubectl-label", `containers[name="sidecar"]`, `env`, ".spec.minReadySeconds", ".metadata.labels.old"}
	s.says("w", 0, "Applied", append(wants, "AppliedManifestComplete")...)
	s.tellsAdopted("w", append(wants, "Deployment", "web")...)

	// What somebody adds by hand after that is theirs, whatever the work does, and
	// whichever agent.
	s.edits("kubectl-edit", web, `{"spec":{"template":{"spec":{"terminationGracePeriodSeconds":77}}},"metadata":{"labels":{"later":"x"}}}`)
	for _, value := range []string{"1", "2"} {
		a.stop()
		a = s.start(agentOptions{})
		s.change("w", func(w *workv1.ManifestWork) {
			setManifests(w, s.pods("", `,"env":[{"name":"N`+value+`","value":"`+value+`"}]`))
		})
		s.condition("w", "Applied", metav1.ConditionTrue)
		s.web("it is as the next manifest says, with what is theirs", func(d *appsv1.Deployment) error {
			return errors.Join(is("env", variables(d), []string{"N" + value + "=" + value}), is("label", d.Labels["later"], "x"),
				is("seconds", *d.Spec.Template.Spec.TerminationGracePeriodSeconds, int64(77)), is("replicas", *d.Spec.Replicas, int32(3)))
		})
	}
	// Not even if the object was not the work's for a moment.
	s.edits("them", web, `{"metadata":{"labels":{"`+workv1.LabelManaged+`":null},"ownerReferences":null}}`)
	s.web("it is the work's again", func(d *appsv1.Deployment) error {
		return errors.Join(is("label", d.Labels[workv1.LabelManaged], "true"), is("owners", len(d.OwnerReferences), 1))
	})
	s.web("with what is theirs", func(d *appsv1.Deployment) error { return is("label", d.Labels["later"], "x") })
}

// TestAdoptionTellsWhatGoesAndWhatIsUnknown takes over an object with a manifest that has a field which the cluster does not know.
func TestAdoptionTellsWhatGoesAndWhatIsUnknown(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.bring("kubectl-client-side-apply", s.old())
	s.start(agentOptions{})
	s.create(s.work("w", s.pods(`"nope":1,`, "")))
	s.condition("w", "Applied", metav1.ConditionTrue)
	s.web("it is as the manifest says", adopted)
	s.says("w", 0, "Applied", "AppliedManifestComplete", "Warning", ".spec.nope", "The object was there before.", "kubectl-client-side-apply", ".spec.minReadySeconds")
}

// tellsAdopted waits until an Event ObjectAdopted about a work has all the texts.
func (s *scene) tellsAdopted(work string, wants ...string) {
	s.t.Helper()
	s.eventually("an Event says what was adopted", func() error {
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion("events.k8s.io/v1")
		list.SetKind("EventList")
		if err := s.client.List(s.t.Context(), list, client.InNamespace(s.cluster)); err != nil {
			return err
		}
		for i := range list.Items {
			note, _, _ := unstructured.NestedString(list.Items[i].Object, "note")
			reason, _, _ := unstructured.NestedString(list.Items[i].Object, "reason")
			name, _, _ := unstructured.NestedString(list.Items[i].Object, "regarding", "name")
			if reason == "ObjectAdopted" && name == work {
				s.contains(note, wants...)
				return nil
			}
		}
		return fmt.Errorf("none of %d does", len(list.Items))
	})
}

// TestAdoptionTakesNothingForAnExecutorWithoutRights has an executor meet a Role of kubectl that it may write, but not with what the
// manifest grants.
func TestAdoptionTakesNothingForAnExecutorWithoutRights(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	role := func(labels, resource string) string {
		return fmt.Sprintf(`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"Role","metadata":{"name":"r","namespace":%q,"labels":{%s}},"rules":[{"apiGroups":[""],"resources":[%q],"verbs":["get"]}]}`,
			s.ns(), labels, resource)
	}
	theirs := s.bring("kubectl-create", role(`"old":"label"`, "pods"))
	s.allowHere(rbacv1.GroupName, "roles", everyVerb...)
	s.start(agentOptions{})
	s.create(s.as(s.work("w", role("", "secrets"))))
	s.condition("w", "Applied", metav1.ConditionFalse)
	s.says("w", 0, "Applied", "may not write roles.rbac.authorization.k8s.io", "not currently held")
	found := &rbacv1.Role{}
	if err := s.client.Get(t.Context(), client.ObjectKeyFromObject(theirs), found); err != nil {
		t.Fatal(err)
	}
	if found.ResourceVersion != theirs.GetResourceVersion() {
		t.Errorf("it was written: %v", found.ManagedFields)
	}
	s.allowHere("", "secrets", "get")
	s.condition("w", "Applied", metav1.ConditionTrue)
	s.says("w", 0, "Applied", "that kubectl-create had set, those that are not in the manifest were removed", ".metadata.labels.old")
}

// TestAdoptionIsToldBeforeAnythingGoes adopts an object that cannot become what the manifest says.
func TestAdoptionIsToldBeforeAnythingGoes(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.bring("kubectl-client-side-apply", strings.Replace(s.old(), `"finalizers":["example.com/old"],`, "", 1))
	s.start(agentOptions{})
	s.create(s.work("w", strings.ReplaceAll(s.pods("", ""), `"app":"web"`, `"app":"new"`)))
	s.condition("w", "Applied", metav1.ConditionFalse)
	wants := []string{"The work now owns the fields that kubectl-client-side-apply had set", ".spec.minReadySeconds", ".metadata.labels"}
	s.says("w", 0, "Applied", append(wants, "AppliedManifestFailed", "field is immutable")...)
	s.tellsAdopted("w", append(wants, "Deployment", "web")...)
	s.web("nothing has gone yet", func(d *appsv1.Deployment) error { return is("minReadySeconds", d.Spec.MinReadySeconds, int32(4)) })
	s.change("w", func(w *workv1.ManifestWork) { setManifests(w, s.pods("", "")) })
	s.condition("w", "Applied", metav1.ConditionTrue)
	s.web("it is as the manifest says", adopted)
}

// finalize has the test take the finalizers off an object in the end, so that it goes.
func (s *scene) finalize(object client.Object) {
	s.t.Cleanup(func() {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
		_ = s.client.Patch(s.t.Context(), object, patch) // the context has ended if the server is going, too
	})
}

func TestAdoptionRemovesWhatKubectlAppliedServerSide(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	object := &unstructured.Unstructured{}
	if err := json.Unmarshal([]byte(s.old()), object); err != nil {
		t.Fatal(err)
	}
	if err := s.client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object), client.FieldOwner("kubectl")); err != nil {
		t.Fatal(err)
	}
	s.start(agentOptions{})
	s.create(s.work("w", s.pods("", portTwice)))
	s.condition("w", "Applied", metav1.ConditionTrue)
	s.settled(s.web("it is as the manifest says, which lists a port twice", func(d *appsv1.Deployment) error {
		return errors.Join(adopted(d), is("ports", ports(d), []string{"http=8080", "metrics=8080"}), is("replicas", *d.Spec.Replicas, int32(3)))
	}))
	s.says("w", 0, "Applied", "kubectl had set", "sidecar")
	s.change("w", func(w *workv1.ManifestWork) { setManifests(w, s.pods("", "")) })
	s.condition("w", "Applied", metav1.ConditionTrue)
	s.web("the ports are gone", func(d *appsv1.Deployment) error {
		return errors.Join(is("ports", ports(d), []string(nil)), is("containers", containers(d), []string{"web"}))
	})
}

// TestAdoptionRemovesWhatWasThereBeforeAnybodyNoted adopts an object of which nobody noted who owns what.
func TestAdoptionRemovesWhatWasThereBeforeAnybodyNoted(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	object := s.bring("someone", s.old())
	s.edits("someone", object, `{"metadata":{"managedFields":[{}]}}`)
	s.start(agentOptions{})
	s.create(s.work("w", s.pods("", "")))
	s.condition("w", "Applied", metav1.ConditionTrue)
	s.web("it is as the manifest says", func(d *appsv1.Deployment) error {
		return errors.Join(adopted(d), is("containers", containers(d), []string{"web"}), is("replicas", *d.Spec.Replicas, int32(3)),
			is("finalizers", d.Finalizers, []string{"example.com/old"}))
	})
	s.says("w", 0, "Applied", "before-first-apply", "sidecar")
	s.change("w", func(w *workv1.ManifestWork) { setManifests(w, s.pods("", variableTwice)) })
	s.condition("w", "Applied", metav1.ConditionTrue)
	s.web("it is as the next one says", func(d *appsv1.Deployment) error { return is("env", variables(d), []string{"A=1", "A=2", "B=3"}) })
	s.edits("someone", object, `{"metadata":{"finalizers":null}}`)
}

func TestAdoptionForABindingThatTakesOver(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	object := s.bring("helm", s.old())
	s.finalize(object)
	s.start(seldom())
	s.create(ofBinding(s.work("w", overwriting(t, s.pods("", "")))))
	s.condition("w", "Applied", metav1.ConditionTrue)
	s.web("it is as the template says", func(d *appsv1.Deployment) error {
		return errors.Join(adopted(d), is("containers", containers(d), []string{"web"}))
	})
	s.change("w", func(w *workv1.ManifestWork) { setManifests(w, overwriting(t, s.pods("", variableTwice))) })
	s.web("and changes with it", func(d *appsv1.Deployment) error { return is("env", variables(d), []string{"A=1", "A=2", "B=3"}) })
}

func TestNoAdoptionForABindingThatDoesNotTakeOver(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	object := s.bring("kubectl-create", s.old())
	s.finalize(object)
	s.start(seldom())
	s.create(ofBinding(s.work("w", s.pods("", portTwice))))
	s.tells("w", 0, "Applied", "already exists in the cluster")
	web := s.web("it is there", func(*appsv1.Deployment) error { return nil })
	if web.ResourceVersion != object.GetResourceVersion() {
		t.Errorf("it was written: %v", web.ManagedFields)
	}
}

func TestNoAdoptionByOtherStrategies(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	object := s.bring("kubectl-create", strings.Replace(s.old(), `"finalizers":["example.com/old"],`, "", 1))
	s.start(agentOptions{})
	for i, strategy := range []string{"readonly", "create", "ssa"} {
		work := s.work(strategy, s.pods("", `,"args":["`+strategy+`"]`))
		work.Spec.ManifestConfigs = []workv1.ManifestConfigOption{{
			ResourceIdentifier: workv1.ResourceIdentifier{Group: "apps", Resource: "deployments", Namespace: "*", Name: "*"},
			UpdateStrategy:     rivals()[strategy],
		}}
		if i == 2 { // there is nothing to be in conflict about
			s.edits("them", object, `{"spec":{"minReadySeconds":9}}`)
		}
		s.create(work)
		s.condition(strategy, "Applied", metav1.ConditionTrue)
		s.web("it has what it had", func(d *appsv1.Deployment) error {
			return errors.Join(is("label", d.Labels["old"], "label"), is("containers", containers(d), []string{"sidecar", "web"}))
		})
	}
}

func TestAdoptedNamespaceKeepsWhatItHas(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	object := s.bring("kubectl-create", fmt.Sprintf(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"%s-shop","labels":{"pod-security.kubernetes.io/enforce":"baseline"}}}`, s.cluster))
	s.start(agentOptions{})
	s.create(s.work("w", fmt.Sprintf(`{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"%s-shop","labels":{"a":"b"}}}`, s.cluster)))
	s.condition("w", "Applied", metav1.ConditionTrue)
	namespace := &corev1.Namespace{}
	if err := s.client.Get(t.Context(), client.ObjectKey{Name: object.GetName()}, namespace); err != nil {
		t.Fatal(err)
	}
	if namespace.Labels["a"] != "b" || namespace.Labels["pod-security.kubernetes.io/enforce"] != "baseline" {
		t.Errorf("the labels are %v", namespace.Labels)
	}
}

func TestAdoptionRemovesPortsOfAService(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.bring("kubectl-client-side-apply", s.service(`"type":"NodePort","sessionAffinity":"ClientIP","ports":[{"name":"a","port":80},{"name":"old","port":81}]`))
	s.start(agentOptions{})
	before := s.serves("it is there", func(*corev1.Service) error { return nil })
	s.create(s.work("w", s.service(`"type":"NodePort","ports":[{"name":"a","port":80}]`)))
	for _, want := range [][]string{{"a=80"}, {"a=90"}} {
		s.condition("w", "Applied", metav1.ConditionTrue)
		s.serves("it is as the manifest says", func(service *corev1.Service) error {
			return errors.Join(is("ports", servicePorts(service), want), is("affinity", service.Spec.SessionAffinity, corev1.ServiceAffinityNone),
				is("clusterIP", service.Spec.ClusterIP, before.Spec.ClusterIP), is("nodePort", service.Spec.Ports[0].NodePort, before.Spec.Ports[0].NodePort))
		})
		s.change("w", func(w *workv1.ManifestWork) {
			setManifests(w, s.service(`"type":"NodePort","ports":[{"name":"a","port":90}]`))
		})
	}
}
