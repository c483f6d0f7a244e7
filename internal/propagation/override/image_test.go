// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package override

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
)

func TestChangeImage(t *testing.T) {
	const (
		registry, repository, tag = policyv1alpha1.ImageRegistry, policyv1alpha1.ImageRepository, policyv1alpha1.ImageTag
		add, replace, remove      = policyv1alpha1.OverriderOpAdd, policyv1alpha1.OverriderOpReplace, policyv1alpha1.OverriderOpRemove
	)
	digest, other := "sha256:"+strings.Repeat("a", 64), "sha256:"+strings.Repeat("b", 64)
	for _, test := range []struct {
		image     string
		component policyv1alpha1.ImageComponent
		operator  policyv1alpha1.OverriderOperator
		value     string
		want      string
	}{
		{"nginx", registry, add, "quay.io", "quay.io/nginx"},
		{"nginx:1.27", registry, replace, "quay.io", "quay.io/nginx:1.27"},
		{"nginx", registry, remove, "", "nginx"},
		{"library/nginx", registry, replace, "quay.io", "quay.io/library/nginx"},
		{"localhost/nginx", registry, replace, "quay.io", "quay.io/nginx"},
		{"quay.io/library/nginx", registry, add, ".cn", "quay.io.cn/library/nginx"},
		{"quay.io/library/nginx", registry, add, ":5000", "quay.io:5000/library/nginx"},
		{"quay.io:5000/nginx:1", registry, replace, "localhost:80", "localhost:80/nginx:1"},
		{"quay.io/library/nginx", registry, replace, "harbor.example.com/proxy", "harbor.example.com/proxy/library/nginx"},
		{"quay.io/library/nginx@" + digest, registry, remove, "ignored", "library/nginx@" + digest},
		{"nginx", repository, add, "-slim", "nginx-slim"},
		{"quay.io/library/nginx:1", repository, replace, "mirror/nginx", "quay.io/mirror/nginx:1"},
		{"quay.io/library/nginx:1", repository, add, "/alpine", "quay.io/library/nginx/alpine:1"},
		{"", repository, replace, "nginx", "nginx"},
		{"nginx", tag, add, "1.27", "nginx:1.27"},
		{"nginx:1.27", tag, add, "-alpine", "nginx:1.27-alpine"},
		{"nginx:1.27", tag, replace, "1.28", "nginx:1.28"},
		{"nginx:1.27", tag, remove, "", "nginx"},
		{"nginx", tag, replace, "1.28", "nginx:1.28"},
		{"nginx", tag, add, digest, "nginx@" + digest},
		{"nginx:1.27", tag, replace, digest, "nginx@" + digest},
		{"quay.io:5000/nginx@" + digest, tag, replace, other, "quay.io:5000/nginx@" + other},
		{"nginx@" + digest, tag, replace, "1.28", "nginx:1.28"},
		{"nginx:1.27@" + digest, tag, replace, "1.28", "nginx:1.28"},
		{"nginx:1.27@" + digest, tag, remove, "", "nginx"},
		{"nginx:1.27@" + digest, registry, add, "quay.io", "quay.io/nginx:1.27@" + digest},
		{"nginx", tag, replace, "1.27@" + digest, "nginx:1.27@" + digest},
		// mistakes
		{"nginx", tag, replace, "", "error: value is missing"},
		{"nginx", tag, "prepend", "x", `error: unknown operator "prepend": use add, remove or replace`},
		{"nginx", "Name", replace, "x", `error: unknown component "Name": use Registry, Repository or Tag`},
		{"NGINX", tag, replace, "1", `error: image "NGINX": repository name must be lowercase`},
		{"nginx: 1", tag, replace, "1", `error: image "nginx: 1": invalid reference format`},
		{"", registry, replace, "quay.io", `error: image "" would become "quay.io/": `},
		{"quay.io/nginx", repository, remove, "", `error: image "quay.io/nginx" would become "quay.io/": `},
		{"nginx", registry, replace, "https://quay.io", `error: image "nginx" would become "https://quay.io/nginx": `},
		{"nginx", registry, replace, "quay.io/", `error: image "nginx" would become "quay.io//nginx": `},
		{"nginx", tag, replace, ":1.28", `error: image "nginx" would become "nginx@:1.28": `},
		{"nginx", tag, replace, "sha256:abc", `error: image "nginx" would become "nginx@sha256:abc": `},
		{"nginx@" + digest, tag, add, "-alpine", `error: image "nginx@` + digest + `" would become`},
	} {
		got, err := changeImage(test.image, policyv1alpha1.ImageOverrider{Component: test.component, Operator: test.operator, Value: test.value}, &effortBudget{left: effortMax})
		if err != nil {
			got = "error: " + err.Error()
		}
		if want, is := strings.CutPrefix(test.want, "error: "); is && (err == nil || !strings.HasPrefix(err.Error(), want)) || !is && got != test.want {
			t.Errorf("%s %s %q of %q: got %q, want %q", test.operator, test.component, test.value, test.image, got, test.want)
		}
	}
}

func TestImagesOfWhichKinds(t *testing.T) {
	pods := func() map[string]any {
		return map[string]any{
			"initContainers": []any{map[string]any{"name": "init", "image": "busybox"}},
			"containers":     []any{map[string]any{"name": "web", "image": "nginx"}},
		}
	}
	template := map[string]any{"template": map[string]any{"spec": pods()}}
	for kind, spec := range map[string]map[string]any{
		"Pod": pods(), "Deployment": template, "ReplicaSet": template, "StatefulSet": template, "DaemonSet": template, "Job": template,
		"ReplicationController": template, "CronJob": {"jobTemplate": map[string]any{"spec": template}},
	} {
		object := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": kind, "metadata": map[string]any{"namespace": "shop", "name": "web"}, "spec": spec,
		}}
		changed, err := overridden(t, object, policyv1alpha1.Overriders{
			ImageOverrider:   []policyv1alpha1.ImageOverrider{{Component: "Registry", Operator: "replace", Value: "quay.io"}},
			CommandOverrider: []policyv1alpha1.CommandArgsOverrider{{ContainerName: "web", Operator: "add", Value: []string{"serve"}}},
			ArgsOverrider:    []policyv1alpha1.CommandArgsOverrider{{ContainerName: "init", Operator: "add", Value: []string{"now"}}},
		})
		if err != nil {
			t.Errorf("%s: %v", kind, err)
			continue
		}
		want := []map[string]any{
			{"name": "init", "image": "quay.io/busybox", "args": []any{"now"}},
			{"name": "web", "image": "quay.io/nginx", "command": []any{"serve"}},
		}
		if diff := cmp.Diff(want, containersOf(t, changed)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", kind, diff)
		}
	}
}

func TestImageByPredicate(t *testing.T) {
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "App", "metadata": map[string]any{"namespace": "shop", "name": "web"},
		"spec": map[string]any{"image": "nginx", "a/b": []any{"x", "quay.io/other:1"}, "replicas": int64(1)},
	}}
	tag := func(path string) policyv1alpha1.Overriders {
		return policyv1alpha1.Overriders{ImageOverrider: []policyv1alpha1.ImageOverrider{{
			Predicate: &policyv1alpha1.ImagePredicate{Path: path}, Component: "Tag", Operator: "replace", Value: "2",
		}}}
	}
	for path, want := range map[string]map[string]any{
		"/spec/image":    {"image": "nginx:2", "a/b": []any{"x", "quay.io/other:1"}, "replicas": int64(1)},
		"/spec/a~1b/1":   {"image": "nginx", "a/b": []any{"x", "quay.io/other:2"}, "replicas": int64(1)},
		"/spec/none":     nil,
		"/spec/a~1b/7":   nil,
		"/spec/a~1b/-":   nil,
		"/spec/replicas": nil,
		"/spec":          nil,
		"spec/image":     nil,
		"":               nil,
	} {
		changed, err := overridden(t, object, tag(path))
		if (err != nil) != (want == nil) {
			t.Errorf("%q: %v", path, err)
		}
		if want != nil && err == nil {
			if diff := cmp.Diff(want, changed.Object["spec"]); diff != "" {
				t.Errorf("%q (-want +got):\n%s", path, diff)
			}
		}
	}
	if changed, err := overridden(t, object, policyv1alpha1.Overriders{ImageOverrider: []policyv1alpha1.ImageOverrider{{Component: "Tag", Operator: "replace", Value: "2"}}}); err != nil || !cmp.Equal(changed.Object, object.Object) {
		t.Errorf("without a predicate another kind has no images: %v, %v", changed, err)
	}
}

// TestAnImageIsNoNameOfAnObject has predicates that are about what says which object
// it is: a tenant could have it sent to the namespace of another.
func TestAnImageIsNoNameOfAnObject(t *testing.T) {
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "app", "metadata": map[string]any{"namespace": "shop", "name": "web"},
	}}
	for path, value := range map[string]string{
		"/metadata/namespace": "kube-system", "/metadata/name": "other", "/kind": "another", "/apiVersion": "batch/v1",
	} {
		changed, err := overridden(t, object, policyv1alpha1.Overriders{ImageOverrider: []policyv1alpha1.ImageOverrider{{
			Predicate: &policyv1alpha1.ImagePredicate{Path: path}, Component: "Repository", Operator: "replace", Value: value,
		}}})
		if err == nil || !strings.Contains(err.Error(), "an override cannot turn it into another object") {
			t.Errorf("%s: %v, %v", path, changed, err)
		}
	}
}
