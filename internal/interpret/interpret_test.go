// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package interpret_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/fields"
	"github.com/capstan-io/capstan/internal/interpret/health"
)

// layer knows kinds of one group by their version and kind.
type layer map[schema.GroupVersionKind]interpret.Operations

func (l layer) Operations(kind schema.GroupVersionKind) interpret.Operations { return l[kind] }

func judge(status health.Status, reason string) func(map[string]any) health.Health {
	return func(map[string]any) health.Health { return status.WithReason(reason, "%s.", reason) }
}

func value(name string) func(map[string]any) []interpret.WellKnownValue {
	return func(map[string]any) []interpret.WellKnownValue { return []interpret.WellKnownValue{{Name: name}} }
}

func TestTheFirstLayerThatKnowsAnOperationAnswers(t *testing.T) {
	t.Parallel()
	thing := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Thing"}
	customized := layer{thing: {Health: judge(health.Degraded, "Customized")}}
	shipped := layer{thing: {Health: judge(health.Healthy, "Shipped"), Values: value("Shipped")}}
	native := layer{thing: {
		Deletion: judge(health.Terminating, "Native"), Values: value("Native"),
		Complete: func(map[string]any) (bool, string) { return true, "native" },
	}}
	known := interpret.Chain{customized, shipped, native}.Operations(thing)
	got := []string{known.Health(nil).Reason, known.Deletion(nil).Reason, known.Values(nil)[0].Name}
	if diff := cmp.Diff([]string{"Customized", "Native", "Shipped"}, got); diff != "" {
		t.Error(diff)
	}
	if _, message := known.Complete(nil); message != "native" {
		t.Errorf("got %q", message)
	}
}

func TestAnOperationThatNoLayerKnowsIsAbsent(t *testing.T) {
	t.Parallel()
	thing := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Thing"}
	other := thing
	other.Version = "v2"
	chain := interpret.Chain{layer{thing: {Values: value("a")}}}
	for name, known := range map[string]interpret.Operations{
		"a version that is not known": chain.Operations(other), "an empty chain": interpret.Chain(nil).Operations(thing),
	} {
		if known.Health != nil || known.Deletion != nil || known.Values != nil || known.Complete != nil {
			t.Errorf("%s: want no operations, got %+v", name, known)
		}
	}
	if chain.Operations(thing).Health != nil {
		t.Error("want no health of a kind of which only values are known")
	}
}

func TestConventionsGoBeforeWhatIsKnownOfAKind(t *testing.T) {
	t.Parallel()
	thing := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Thing"}
	chain := interpret.Chain{layer{thing: {Health: judge(health.Healthy, "Kind"), Deletion: judge(health.Terminating, "Kind")}}}
	for name, c := range map[string]struct {
		chain  interpret.Chain
		fields map[string]any
		want   health.Health
	}{
		"nothing is special": {chain, nil, health.Healthy.WithReason("Kind", "Kind.")},
		"the status is old": {
			chain,
			map[string]any{"metadata": map[string]any{"generation": int64(2)}, "status": map[string]any{"observedGeneration": int64(1)}},
			health.Progressing.WithReason("NotObserved", "The controller has observed generation 1, but the object has generation 2."),
		},
		"it is being deleted": {
			chain, map[string]any{"metadata": map[string]any{"deletionTimestamp": "2026-01-01T00:00:00Z"}}, health.Terminating.WithReason("Kind", "Kind."),
		},
		"nothing is known of the kind": {nil, nil, health.Healthy.WithReason("Exists", "The object exists and reports no problem.")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "example.com/v1", "kind": "Thing"}}
			for key, v := range c.fields {
				u.Object[key] = v
			}
			if diff := cmp.Diff(c.want, c.chain.AssessHealth(u)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestCustomizationsSayWhatToRetain(t *testing.T) {
	t.Parallel()
	thing := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Thing"}
	object := func(name string, replicas int64) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "example.com/v1", "kind": "Thing", "metadata": map[string]any{"name": name}, "spec": map[string]any{"replicas": replicas},
		}}
	}
	wrong := &interpret.CustomError{By: "ResourceInterpreterCustomization \"c\"", Operation: "retention", Err: errors.New("line 1: it is wrong"), Remedy: "Correct it."}
	for name, c := range map[string]struct {
		retain  func(desired, observed map[string]any) (map[string]any, error)
		want    int64
		message string
	}{
		"nobody":  {want: 1},
		"the one": {retain: func(_, observed map[string]any) (map[string]any, error) { return observed, nil }, want: 2},
		"another object": {
			retain:  func(_, _ map[string]any) (map[string]any, error) { return object("other", 1).Object, nil },
			message: `It returns another object: metadata.name is "other", want "a".`,
		},
		"a mistake": {
			retain:  func(_, _ map[string]any) (map[string]any, error) { return nil, wrong },
			message: `ResourceInterpreterCustomization "c", retention: line 1: it is wrong. Correct it.`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			chain := interpret.Chain{layer{thing: {Custom: interpret.CustomOperations{Retain: c.retain}}}}
			desired, observed := object("a", 1), object("a", 2)
			observed.Object["status"] = map[string]any{"replicas": int64(2)}
			if got := chain.CustomizesRetention(thing); got != (c.retain != nil) {
				t.Errorf("somebody says what to retain: %t", got)
			}
			got, err := chain.RetainFields(desired, observed)
			switch {
			case err != nil && !strings.EqualFold(interpret.ErrorSentences(err), c.message), err == nil && c.message != "":
				t.Errorf("got %v, want %q", err, c.message)
			case err == nil:
				if diff := cmp.Diff(object("a", c.want), got); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
	if got, want := interpret.ErrorSentences(errors.Join(wrong, errors.New("b"))), `ResourceInterpreterCustomization "c", retention: line 1: it is wrong. Correct it. b.`; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestRevisionsAreOfTheSameObject(t *testing.T) {
	t.Parallel()
	thing := schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Thing"}
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v1", "kind": "Thing", "metadata": map[string]any{"namespace": "shop", "name": "a"},
	}}
	for path, value := range map[string]string{"kind": "Secret", "apiVersion": "v1", "metadata.namespace": "kube-system", "metadata.name": "other"} {
		chain := interpret.Chain{layer{thing: {Custom: interpret.CustomOperations{Revise: func(object map[string]any, _ int32) (map[string]any, error) {
			return fields.With(object, value, strings.Split(path, ".")...), nil
		}}}}}
		_, err := chain.ReviseReplicas(object, 2)
		if want := fmt.Sprintf("it returns another object: %s is %q", path, value); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %v, want %q", path, err, want)
		}
	}
}
