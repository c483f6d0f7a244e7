// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package interpreters_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	configv1alpha1 "github.com/capstan-io/capstan/apis/karmada/config/v1alpha1"
	"github.com/capstan-io/capstan/internal/cli/interpreters"
	"github.com/capstan-io/capstan/internal/interpret"
)

// customization says of Deployments what the rules say.
func customization(name string, rules configv1alpha1.CustomizationRules) configv1alpha1.ResourceInterpreterCustomization {
	return configv1alpha1.ResourceInterpreterCustomization{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: configv1alpha1.ResourceInterpreterCustomizationSpec{
			Target: configv1alpha1.CustomizationTarget{APIVersion: "apps/v1", Kind: "Deployment"}, Customizations: rules,
		},
	}
}

func TestWhoAnswers(t *testing.T) {
	t.Parallel()
	health := &configv1alpha1.LuaRule{LuaScript: "function InterpretHealth(o) return true end"}
	along := &configv1alpha1.LuaRule{LuaScript: "function GetDependencies(o) return {} end"}
	deleting := customization("c", configv1alpha1.CustomizationRules{ReplicaResource: health})
	deleting.DeletionTimestamp = &metav1.Time{Time: time.Unix(0, 0)}
	known := interpreters.NewKnownInterpreters([]configv1alpha1.ResourceInterpreterCustomization{
		customization("b", configv1alpha1.CustomizationRules{HealthInterpretation: health, DependencyInterpretation: along}),
		customization("a", configv1alpha1.CustomizationRules{HealthInterpretation: health, DependencyInterpretation: along}),
		deleting,
	}, time.Now, true)
	deployments := schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	want := "ResourceInterpreterCustomization a: InterpretHealth, InterpretDependency; " +
		"ResourceInterpreterCustomization b: InterpretDependency; " +
		"Capstan (native): InterpretReplica, ReviseReplica, AggregateStatus"
	if diff := cmp.Diff(want, interpreters.FormatSources(known.SourcesFor(deployments))); diff != "" {
		t.Error(diff)
	}
	if other := known.SourcesFor(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Thing"}); other != nil {
		t.Errorf("somebody knows a kind that nobody knows: %v", other)
	}
}

func TestWhatCapstanItselfAnswers(t *testing.T) {
	t.Parallel()
	known := interpreters.NewKnownInterpreters(nil, time.Now, true)
	claim := func(volume string, phase string) *unstructured.Unstructured {
		o := map[string]any{"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": map[string]any{"name": "data"}, "spec": map[string]any{}}
		if volume != "" {
			o["spec"] = map[string]any{"volumeName": volume}
		}
		if phase != "" {
			o["status"] = map[string]any{"phase": phase}
		}
		return &unstructured.Unstructured{Object: o}
	}
	for name, c := range map[string]struct {
		operation interpreters.Operation
		in        interpreters.OperationInput
		got       func(*interpreters.Result) any
		want      any
	}{
		"what is not in the manifest stays out of it": {
			operation: interpreters.Retain, in: interpreters.OperationInput{Desired: claim("", ""), Observed: claim("v1", "")},
			got: func(r *interpreters.Result) any { return r.Object["spec"] }, want: map[string]any{},
		},
		"the volume is the cluster's": {
			operation: interpreters.Retain, in: interpreters.OperationInput{Desired: claim("v2", ""), Observed: claim("v1", "")},
			got: func(r *interpreters.Result) any { return r.Object["spec"] }, want: map[string]any{"volumeName": "v1"},
		},
		"a status without a rule is reported as it is": {
			operation: interpreters.InterpretStatus, in: interpreters.OperationInput{Observed: claim("", "Bound")},
			got: func(r *interpreters.Result) any { return r.Status }, want: map[string]any{"phase": "Bound"},
		},
		"a verdict": {
			operation: interpreters.InterpretHealth, in: interpreters.OperationInput{Observed: claim("", "Lost")},
			got: func(r *interpreters.Result) any { return r.Health }, want: interpret.Unhealthy,
		},
		"the sum of statuses": {
			operation: interpreters.AggregateStatus, in: interpreters.OperationInput{Desired: claim("", ""), Items: []interpret.ClusterItem{
				{Cluster: "a", Status: map[string]any{"phase": "Bound"}, Applied: true}, {Cluster: "b", Status: map[string]any{"phase": "Pending"}, Applied: true},
			}},
			got: func(r *interpreters.Result) any { return r.Status }, want: map[string]any{"phase": "Pending"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result, err := known.RunOperation(c.operation, c.in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, c.got(result)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestWebhooksAreNamedAndNotAsked(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	if err := configv1alpha1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	health := &configv1alpha1.LuaRule{LuaScript: "function InterpretHealth(o) return true end"}
	mine := customization("mine", configv1alpha1.CustomizationRules{HealthInterpretation: health})
	hook := &configv1alpha1.ResourceInterpreterWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "hook"},
		Webhooks: []configv1alpha1.ResourceInterpreterWebhook{{
			Name: "a.example.com", ClientConfig: configv1alpha1.WebhookClientConfig{URL: new("https://example.com")},
			Rules: []configv1alpha1.RuleWithOperations{{
				Operations: []configv1alpha1.InterpreterOperation{configv1alpha1.InterpreterOperationInterpretReplica, configv1alpha1.InterpreterOperationInterpretHealth},
				Rule:       configv1alpha1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Kinds: []string{"Deployment"}},
			}},
		}},
	}
	hub := fake.NewClientBuilder().WithScheme(scheme).WithObjects(&mine, hook).Build()
	known, unread, err := interpreters.ReadInterpreters(t.Context(), hub, time.Now)
	if err != nil || unread != "" {
		t.Fatal(unread, err)
	}
	deployments := schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	want := "ResourceInterpreterCustomization mine: InterpretHealth; ResourceInterpreterWebhookConfiguration hook: InterpretReplica; " +
		"Capstan (native): ReviseReplica, AggregateStatus, InterpretDependency"
	if diff := cmp.Diff(want, interpreters.FormatSources(known.SourcesFor(deployments))); diff != "" {
		t.Error(diff)
	}
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(deployments)
	if _, err := known.RunOperation(interpreters.InterpretReplica, interpreters.OperationInput{Desired: object}); !errors.Is(err, interpreters.ErrWebhook) {
		t.Errorf("the webhook was asked, or another answers: %v", err)
	}
	if text := known.UnaskedNote(deployments, interpreters.InterpretReplica, interpreters.ReviseReplica); text != "The hub asks a webhook for InterpretReplica "+
		"(ResourceInterpreterWebhookConfiguration hook) of Deployment, which is not asked here: this is as without it." {
		t.Error(text)
	}
}
