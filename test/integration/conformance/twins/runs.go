// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package twins

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-io/capstan/test/integration/conformance/installation"
	"github.com/capstan-io/capstan/test/integration/conformance/promises"
)

// takeNodePort gives the numbers that the hub has allocated to other Services of the member.
func takeNodePort(s *rowScene) {
	s.Helper()
	service := &corev1.Service{}
	if err := s.Hub.Client.Get(s.Context(), client.ObjectKey{Namespace: s.ours.space, Name: "web"}, service); err != nil {
		s.Fatal(err)
	}
	for _, number := range []int32{service.Spec.Ports[0].NodePort, service.Spec.HealthCheckNodePort} {
		if number == 0 {
			continue
		}
		err := s.Member.Client.Create(s.Context(), &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.ours.space, Name: fmt.Sprintf("taken-%d", number)},
			Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeNodePort, Ports: []corev1.ServicePort{{Port: 80, NodePort: number}}},
		})
		if err != nil && !strings.Contains(err.Error(), "already allocated") { // by chance it may be
			s.Fatal(err)
		}
	}
}

// jobsOf watches the Jobs of a namespace of the member, and returns how many there were.
func (s *rowScene) jobsOf(namespace string) func() int {
	s.Helper()
	c, err := client.NewWithWatch(s.Member.Config, client.Options{Scheme: s.Member.Client.Scheme()})
	if err != nil {
		s.Fatal(err)
	}
	events, err := c.Watch(s.Context(), &batchv1.JobList{}, client.InNamespace(namespace))
	if err != nil {
		s.Fatal(err)
	}
	var mu sync.Mutex
	seen := map[types.UID]bool{}
	go func() {
		for event := range events.ResultChan() {
			if job, ok := event.Object.(*batchv1.Job); ok {
				mu.Lock()
				seen[job.UID] = true
				mu.Unlock()
			}
		}
	}()
	s.Cleanup(events.Stop)
	return func() int {
		mu.Lock()
		defer mu.Unlock()
		return len(seen)
	}
}

// jobsExpire has Jobs that are complete at once, and go as their TTL says once that is known:
// there are as many of ours as the administrator creates twins.
func jobsExpire(job func(metadata, spec, image string) string) func(*rowScene) {
	return func(s *rowScene) {
		ours, twins := s.jobsOf(s.ours.space), s.jobsOf(s.twins.space)
		for i, image := range []string{"i:1", "i:2", "i:3"} {
			manifest := job("", "parallelism: 0, completions: 0, ttlSecondsAfterFinished: 5", image)
			s.row.Steps = append(s.row.Steps, manifestStep{manifests: []string{manifest}, recreated: i > 0})
			s.bring(i)
			s.judge(manifest, false)
			for _, of := range []names{s.twins, s.ours} {
				installation.Eventually(s, "the Job of "+of.space+" is complete", func() error {
					found := &batchv1.Job{}
					err := s.Member.Client.Get(s.Context(), client.ObjectKey{Namespace: of.space, Name: "j"}, found)
					if err == nil && (found.Status.CompletionTime == nil || found.Spec.Template.Spec.Containers[0].Image != image) {
						return errors.New(installation.Encode(found))
					}
					return err
				})
			}
			s.states(manifest, "Complete", "True")
			for _, of := range []names{s.twins, s.ours} {
				if err := s.Member.Client.Delete(s.Context(), s.object(of, manifest), client.PropagationPolicy(metav1.DeletePropagationBackground)); err != nil {
					s.Fatal(err)
				}
				s.GoneFromMember(s.object(of, manifest))
			}
			s.states(manifest, "Available", "False")
			s.states(manifest, "Complete", "True")
		}
		if ours() != twins() {
			s.Errorf("there were %d Jobs of ours, and %d twins", ours(), twins())
		}
	}
}

// states waits until a work with the object of a manifest has a condition, for its present
// generation.
func (s *rowScene) states(manifest, conditionType string, want metav1.ConditionStatus) {
	s.Helper()
	object := s.object(s.ours, manifest)
	installation.Eventually(s, fmt.Sprintf("the work is %s: %s", conditionType, want), func() error {
		works, err := s.works()
		if err != nil {
			return err
		}
		for i := range works {
			work := &works[i]
			manifests := work.Status.ResourceStatus.Manifests
			if len(manifests) != 1 || manifests[0].ResourceMeta.Kind != object.GetKind() || manifests[0].ResourceMeta.Namespace != object.GetNamespace() {
				continue
			}
			if c := meta.FindStatusCondition(work.Status.Conditions, conditionType); c == nil || c.Status != want || c.ObservedGeneration != work.Generation {
				return errors.New(installation.Encode(work.Status))
			}
			return nil
		}
		return errors.New("there is no work")
	})
}

// bindingSays waits until a binding of the row says of its works what is wanted.
func (s *rowScene) bindingSays(name, part string) {
	s.Helper()
	binding := &unstructured.Unstructured{}
	binding.SetAPIVersion("work.karmada.io/v1alpha2")
	binding.SetKind("ResourceBinding")
	installation.Eventually(s, fmt.Sprintf("binding %s says %q", name, part), func() error {
		if err := s.Hub.Client.Get(s.Context(), client.ObjectKey{Namespace: s.ours.space, Name: name}, binding); err != nil {
			return err
		}
		if text := installation.Encode(binding.Object["status"]); promises.Lacking(text, []string{part}) != "" {
			return errors.New(text)
		}
		return nil
	})
}

// indexedIsRefused divides a Job whose pods have indexes: it is in no cluster, also when it
// changes, until there is one cluster for it.
func indexedIsRefused(job func(metadata, spec, image string) string) func(*rowScene) {
	return func(s *rowScene) {
		indexed := func(pods int) string {
			return job("", fmt.Sprintf("completionMode: Indexed, completions: %d, parallelism: %d", pods, pods), "i:1")
		}
		s.row.generated = []string{"spec.selector", "spec.template.metadata.labels"}
		s.user = s.users.bringerTo(s.Hub.Cluster, s.row.generated)
		for i, pods := range []int{4, 6} {
			s.row.Steps = append(s.row.Steps, sends(indexed(pods)))
			s.bring(i)
			s.bindingSays("j-job", "each cluster would run the indexes from 0 on")
			if live, err := s.live(s.ours, indexed(pods)); err == nil {
				s.Errorf("the cluster has %s", installation.Encode(live))
			}
		}
		s.row.policy = ""
		s.write(s.policies(), false, false)
		s.row.Steps = append(s.row.Steps, sends(indexed(6)))
		s.step(2)
	}
}

// templateEnds deletes a template that has a finalizer: its object stays until that goes. One
// that was deleted before its policy came is sent nowhere.
func templateEnds(s *rowScene) {
	configMap := func(name string) string {
		return "{apiVersion: v1, kind: ConfigMap, metadata: {name: " + name + ", namespace: NS, finalizers: [example.com/f]}}"
	}
	remove := func(name string) {
		if err := s.Hub.Client.Delete(s.Context(), s.object(s.ours, configMap(name))); err != nil {
			s.Fatal(err)
		}
	}
	release := func(name string) {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`))
		if err := s.Hub.Client.Patch(s.Context(), s.object(s.ours, configMap(name)), patch); err != nil {
			s.Fatal(err)
		}
		installation.Eventually(s, "template "+name+" is gone", func() error {
			object := s.object(s.ours, configMap(name))
			err := s.Hub.Client.Get(s.Context(), client.ObjectKeyFromObject(object), object)
			if err == nil {
				return errors.New("it is there")
			}
			return client.IgnoreNotFound(err)
		})
	}
	s.write(s.ours.fill(configMap("late")), false, false)
	remove("late")
	s.write(s.ours.fill(configMap("other")), false, false)
	s.write(s.policy("PropagationPolicy", "late", []string{"{apiVersion: v1, kind: ConfigMap, name: late}", "{apiVersion: v1, kind: ConfigMap, name: other}"}), false, false)
	remove("a")
	s.bindingSays("a-configmap", "waits for finalizers: example.com/f")
	for name, there := range map[string]bool{"a": true, "other": true, "late": false} {
		installation.Eventually(s, fmt.Sprintf("%s is in the member: %t", name, there), func() error {
			_, err := s.live(s.ours, configMap(name))
			if (err == nil) != there {
				return fmt.Errorf("it is there: %t", err == nil)
			}
			return client.IgnoreNotFound(err)
		})
	}
	release("a")
	s.GoneFromMember(s.object(s.ours, configMap("a")))
	release("late")
	remove("other")
	release("other")
}

// orphaningKinds names a kind in place of a resource in an orphaning rule, at first and in a
// change; in between, the rule is right.
func orphaningKinds(s *rowScene) {
	manifest := "{apiVersion: v1, kind: ConfigMap, metadata: {name: a, namespace: NS}, data: {key: one}}"
	work := func(resource string) string {
		return s.workOf([]string{manifest}, "deleteOption: {propagationPolicy: SelectivelyOrphan, selectivelyOrphans: {orphaningRules: [{resource: "+resource+", namespace: NS, name: a}]}}")
	}
	s.refusedOf(work("ConfigMap"), `"ConfigMap" is not a resource`, `configmaps`)
	s.row.Steps = []manifestStep{sends(manifest)}
	s.write(work("configmaps"), false, false)
	s.judge(manifest, false)
	s.equal(0, []string{manifest})
	s.refusedOf(work("Secret"), `"Secret" is not a resource`, `secrets`)
	sent := s.object(s.ours, work("configmaps"))
	if err := s.Hub.Client.Delete(s.Context(), sent); err != nil {
		s.Fatal(err)
	}
	installation.Eventually(s, "the work is gone", func() error {
		err := s.Hub.Client.Get(s.Context(), client.ObjectKeyFromObject(sent), sent)
		if err == nil {
			return errors.New("it is there")
		}
		return client.IgnoreNotFound(err)
	})
	if _, err := s.live(s.ours, manifest); err != nil {
		s.Errorf("the object that has to stay: %v", err)
	}
}

// refusedOf writes an object that the hub refuses with a message that has the parts.
func (s *rowScene) refusedOf(text string, parts ...string) {
	s.Helper()
	err := s.user.bring(s.Context(), text)
	if err == nil {
		s.Fatalf("the hub takes %s", text)
	}
	s.Contains(err.Error(), parts...)
}

// wrongKeys misspells a key of a customization, alone and beside a right one, and another one in a
// change; in between, it is right. No client asks the API server to be strict.
func wrongKeys(s *rowScene) {
	const (
		judges  = "{luaScript: 'function InterpretHealth(o) return true end'}"
		retains = "{luaScript: 'function Retain(d, o) return d end'}"
	)
	customization := func(keys string) string {
		return s.ours.fill("{apiVersion: config.karmada.io/v1alpha1, kind: ResourceInterpreterCustomization, metadata: {name: NS}, spec: {target: {apiVersion: example.net/v1, kind: Thing" +
			string(s.Mode) + "}, customizations: {" + keys + "}}}")
	}
	s.refusedOf(customization("retentions: "+retains), "spec.customizations", `"retentions"`, "do you mean retention?")
	s.refusedOf(customization("healthInterpretation: "+judges+", retentions: "+retains), "spec.customizations", `"retentions"`, "do you mean retention?")
	s.write(customization("healthInterpretation: "+judges), false, false)
	for keys, wrong := range map[string]string{
		"healthInterpretations: " + judges:                            `"healthInterpretations"`,
		"healthInterpretation: " + judges + ", healthOf: " + judges:   `"healthOf"`,
		"healthInterpretation: " + judges + ", Retention: " + retains: `"Retention"`,
	} {
		err := s.user.replace(s.Context(), customization(keys))
		if err == nil {
			s.Fatalf("the hub takes %s", keys)
		}
		s.Contains(err.Error(), "spec.customizations", wrong)
	}
}

// statusOfOthers writes conditions into the status of the Cluster, twice.
func statusOfOthers(s *rowScene) {
	const condition = `{"type":%q,"status":"False","reason":"Somebody","message":"m","lastTransitionTime":"2026-01-01T00:00:00Z"}`
	ready, own := fmt.Sprintf(condition, "Ready"), fmt.Sprintf(condition, "example.com/Own")
	for _, conditions := range []string{ready, ready + "," + own} {
		answer := ""
		installation.Eventually(s, "the status of the Cluster is patched", func() (err error) {
			answer, err = s.user.patchStatus(s.Context(), s.KarmadaCluster(), "clusters.cluster.karmada.io", `{"status":{"conditions":[`+conditions+`]}}`)
			return err
		})
		s.Contains(answer, "Ready", "is not written")
		s.ClusterReady("True ClusterReady")
	}
}
