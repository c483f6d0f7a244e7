// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// Others in the cluster change what the bindings of these tests sent.

// patch changes a Deployment of the member as somebody else.
func (s *scene) patch(manager, name, body string) {
	s.t.Helper()
	object := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns(), Name: name}}
	if err := s.client.Patch(s.t.Context(), object, client.RawPatch(types.StrategicMergePatchType, []byte(body)), client.FieldOwner(manager)); err != nil {
		s.t.Fatal(err)
	}
}

// becomes waits until a Deployment of the member is as it should be.
func (s *scene) becomes(name, what string, is func(*appsv1.Deployment) bool) *appsv1.Deployment {
	s.t.Helper()
	object := &appsv1.Deployment{}
	s.eventually(what, func() error {
		if err := s.client.Get(s.t.Context(), client.ObjectKey{Namespace: s.ns(), Name: name}, object); err != nil {
			return err
		}
		if !is(object) {
			text, _ := json.Marshal(object)
			return fmt.Errorf("it is %s", text)
		}
		return nil
	})
	return object
}

func replicas(count int32) func(*appsv1.Deployment) bool {
	return func(d *appsv1.Deployment) bool { return *d.Spec.Replicas == count }
}

func TestBindingLeavesARestartInTheCluster(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(seldom())
	s.create(ofBinding(s.work("w", s.triple("d"))))
	s.becomes("d", "it is made", replicas(3))
	s.patch("kubectl-rollout", "d", `{"spec":{"replicas":7,"template":{"metadata":{"annotations":{"kubectl.kubernetes.io/restartedAt":"now"}}}}}`)
	restarted := func(d *appsv1.Deployment) bool {
		return *d.Spec.Replicas == 3 && d.Spec.Template.Annotations["kubectl.kubernetes.io/restartedAt"] == "now"
	}
	s.becomes("d", "the replicas are corrected, and the restart stays", restarted)
	s.change("w", func(w *workv1.ManifestWork) { setManifests(w, with(t, s.triple("d"), "labels", "a", "b")) })
	s.becomes("d", "the restart stays when the work changes", func(d *appsv1.Deployment) bool { return restarted(d) && d.Labels["a"] == "b" })
}

func TestBindingLeavesReplicasToAnAutoscaler(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(seldom())
	retained := with(t, s.triple("d"), "labels", policyv1alpha1.LabelRetainReplicas, "true")
	s.create(ofBinding(s.work("w", retained)))
	object := s.becomes("d", "it is made", replicas(3))
	s.change("w", func(w *workv1.ManifestWork) { setManifests(w, with(t, retained, "labels", "a", "b")) })
	s.becomes("d", "nobody has scaled it yet", func(d *appsv1.Deployment) bool { return d.Labels["a"] == "b" && *d.Spec.Replicas == 3 })
	scale := &autoscalingv1.Scale{ObjectMeta: metav1.ObjectMeta{Namespace: s.ns(), Name: "d"}, Spec: autoscalingv1.ScaleSpec{Replicas: 8}}
	if err := s.client.SubResource("scale").Update(t.Context(), object, client.WithSubResourceBody(scale)); err != nil {
		t.Fatal(err)
	}
	s.change("w", func(w *workv1.ManifestWork) { setManifests(w, with(t, retained, "labels", "a", "c")) })
	s.becomes("d", "the replicas are the autoscaler's", func(d *appsv1.Deployment) bool { return d.Labels["a"] == "c" && *d.Spec.Replicas == 8 })
	s.change("w", func(w *workv1.ManifestWork) { setManifests(w, s.triple("d")) })
	s.becomes("d", "the replicas are the hub's again", replicas(3))
}

// TestBindingBringsEveryChangeOfAJob changes a Job again and again, whose labels the cluster has made its own.
func TestBindingBringsEveryChangeOfAJob(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(seldom())
	job := func(parallelism int) string {
		return fmt.Sprintf(`{"apiVersion":"batch/v1","kind":"Job","metadata":{"namespace":%q,"name":"j"},"spec":{"completions":5,"parallelism":%d,"template":{
"metadata":{"labels":{"job-name":"j","batch.kubernetes.io/job-name":"j"}},"spec":{"restartPolicy":"Never","containers":[{"name":"c","image":"x"}]}}}}`, s.ns(), parallelism)
	}
	s.create(ofBinding(s.work("w", job(1))))
	for parallelism := 1; parallelism <= 4; parallelism++ {
		s.change("w", func(w *workv1.ManifestWork) { setManifests(w, job(parallelism)) })
		s.eventually(fmt.Sprintf("parallelism %d arrives", parallelism), func() error {
			there := s.unstructured(`{"apiVersion":"batch/v1","kind":"Job"}`)
			if err := s.client.Get(t.Context(), client.ObjectKey{Namespace: s.ns(), Name: "j"}, there); err != nil {
				return err
			}
			is, _, _ := unstructured.NestedInt64(there.Object, "spec", "parallelism")
			name, _, _ := unstructured.NestedString(there.Object, "spec", "template", "metadata", "labels", "job-name")
			if is != int64(parallelism) || name != "j" {
				return fmt.Errorf("it is %d, and the label that names the job %q", is, name)
			}
			return nil
		})
	}
}

// TestBindingLeavesWhatAdmissionAddsAndChanges has the API server add a sidecar and change a field.
func TestBindingLeavesWhatAdmissionAddsAndChanges(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.create(s.unstructured(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"MutatingAdmissionPolicy","metadata":{"name":%q},"spec":{
"reinvocationPolicy":"Never","failurePolicy":"Fail",
"matchConstraints":{"namespaceSelector":{"matchLabels":{"kubernetes.io/metadata.name":%q}},
"resourceRules":[{"apiGroups":["apps"],"apiVersions":["v1"],"operations":["CREATE","UPDATE"],"resources":["deployments"]}]},
"mutations":[{"patchType":"ApplyConfiguration","applyConfiguration":{"expression":
"Object{spec: Object.spec{revisionHistoryLimit: 2, template: Object.spec.template{spec: Object.spec.template.spec{containers: [Object.spec.template.spec.containers{name: 'sidecar', image: 'proxy'}]}}}}"}}]}}`,
		s.cluster, s.ns()))
	s.create(s.unstructured(`{"apiVersion":"admissionregistration.k8s.io/v1","kind":"MutatingAdmissionPolicyBinding","metadata":{"name":%q},"spec":{"policyName":%q}}`,
		s.cluster, s.cluster))
	mutated := func(d *appsv1.Deployment) bool {
		return len(d.Spec.Template.Spec.Containers) == 2 && *d.Spec.RevisionHistoryLimit == 2
	}
	s.eventually("the policy works", func() error {
		probe := &appsv1.Deployment{}
		if err := json.Unmarshal([]byte(s.triple("probe")), probe); err != nil {
			return err
		}
		if err := s.client.Create(t.Context(), probe, client.DryRunAll); err != nil || mutated(probe) {
			return err
		}
		return fmt.Errorf("it has %d containers", len(probe.Spec.Template.Spec.Containers))
	})
	var writes atomic.Int64
	options := seldom()
	options.wrap = func(rt http.RoundTripper) http.RoundTripper {
		return roundTripper(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/deployments/d") {
				writes.Add(1)
			}
			return rt.RoundTrip(r)
		})
	}
	s.start(options)
	u := s.unstructured("%s", s.triple("d"))
	if err := unstructured.SetNestedField(u.Object, int64(5), "spec", "revisionHistoryLimit"); err != nil {
		t.Fatal(err)
	}
	manifest, err := json.Marshal(u)
	if err != nil {
		t.Fatal(err)
	}
	s.create(ofBinding(s.work("w", string(manifest))))
	s.condition("w", "Applied", metav1.ConditionTrue)
	s.becomes("d", "it is made", mutated)
	s.change("w", func(w *workv1.ManifestWork) { setManifests(w, with(t, string(manifest), "labels", "a", "b")) })
	s.becomes("d", "it is changed", func(d *appsv1.Deployment) bool { return mutated(d) && d.Labels["a"] == "b" })
	s.status(deploymentKind, "d", `{"replicas":3}`)
	s.reports("w", 0, `replicas`)
	if writes.Load() != 2 {
		t.Errorf("the agent wrote the object %d times", writes.Load())
	}
}

// unstructured returns an object of its JSON.
func (s *scene) unstructured(format string, args ...any) *unstructured.Unstructured {
	s.t.Helper()
	u := &unstructured.Unstructured{}
	if err := json.Unmarshal(fmt.Appendf(nil, format, args...), u); err != nil {
		s.t.Fatal(err)
	}
	return u
}

func TestBindingLeavesLabelsAndAnnotationsOfOthers(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(seldom())
	s.create(ofBinding(s.work("w", with(t, with(t, s.triple("d"), "labels", "ours", "1"), "annotations", "ours", "1"))))
	s.becomes("d", "it is made", func(d *appsv1.Deployment) bool { return d.Labels["ours"] == "1" })
	s.patch("kubectl", "d", `{"metadata":{"labels":{"theirs":"1"},"annotations":{"theirs":"1"}}}`)
	s.change("w", func(w *workv1.ManifestWork) { setManifests(w, s.triple("d")) })
	s.becomes("d", "what the hub dropped goes, and nothing else", func(d *appsv1.Deployment) bool {
		return d.Labels["ours"] == "" && d.Annotations["ours"] == "" && d.Labels["theirs"] == "1" && d.Annotations["theirs"] == "1"
	})
}

// TestBindingLeavesAServiceItsAddress changes a Service that asked for an address that the
// cluster gave another one.
func TestBindingLeavesAServiceItsAddress(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(seldom())
	service := func(port int) string {
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"Service","metadata":{"name":"s","namespace":%q},"spec":{"clusterIP":%q,"ports":[{"port":%d}]}}`,
			s.ns(), map[bool]string{true: "", false: "10.0.0.77"}[port == 1], port)
	}
	s.create(ofBinding(s.work("w", service(1))))
	s.condition("w", "Applied", metav1.ConditionTrue)
	s.change("w", func(w *workv1.ManifestWork) { setManifests(w, service(2)) }) // which could not be changed
	s.condition("w", "Applied", metav1.ConditionTrue)
}
