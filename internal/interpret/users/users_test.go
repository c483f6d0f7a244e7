// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package users

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	configv1alpha1 "github.com/capstan-io/capstan/apis/karmada/config/v1alpha1"
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/interpret/shipped"
)

func kindOf(name string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: name}
}

// judging is a customization by which objects of a kind are healthy or not, "" if it says nothing.
func judging(name, kind, healthy string) configv1alpha1.ResourceInterpreterCustomization {
	c := configv1alpha1.ResourceInterpreterCustomization{ObjectMeta: metav1.ObjectMeta{Name: name}}
	c.Spec.Target = configv1alpha1.CustomizationTarget{APIVersion: "apps/v1", Kind: kind}
	if healthy != "" {
		c.Spec.Customizations.HealthInterpretation = &configv1alpha1.LuaRule{LuaScript: "function InterpretHealth(o) return " + healthy + " end"}
	}
	return c
}

// asking has a webhook asked everything about kinds.
func asking(name, url string, kinds ...string) configv1alpha1.ResourceInterpreterWebhookConfiguration {
	return configv1alpha1.ResourceInterpreterWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Webhooks: []configv1alpha1.ResourceInterpreterWebhook{{
			Name: "a.example.com", ClientConfig: configv1alpha1.WebhookClientConfig{URL: &url},
			Rules: []configv1alpha1.RuleWithOperations{{
				Operations: []configv1alpha1.InterpreterOperation{configv1alpha1.InterpreterOperationAll},
				Rule:       configv1alpha1.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Kinds: kinds},
			}},
		}},
	}
}

func TestUsersTellWhatChanged(t *testing.T) {
	t.Parallel()
	type (
		customizations = []configv1alpha1.ResourceInterpreterCustomization
		configurations = []configv1alpha1.ResourceInterpreterWebhookConfiguration
	)
	gone, away := judging("gone", "A", "true"), asking("gone", "https://a", "*")
	gone.DeletionTimestamp = &metav1.Time{Time: time.Unix(1, 0)}
	away.DeletionTimestamp = gone.DeletionTimestamp
	said := NewUserInterpreters(time.Now, nil)
	// Nobody asks for the revision of Z.
	revisions := func() [2]KindRevision {
		return [2]KindRevision{said.RevisionOf(kindOf("A")), said.RevisionOf(kindOf("B"))}
	}
	before := revisions()
	if before != [2]KindRevision{} {
		t.Errorf("nobody has said anything, and revisions are %v", before)
	}
	for _, step := range []struct {
		reason         string
		customizations customizations
		configurations configurations
		kinds          string // what is told
		has            string // of which something else is said
		retention      string // of which the revision of what is the cluster's differs
		report         string // of which that of what is reported does
	}{
		{reason: "nothing is said"},
		{"one is new", customizations{judging("a", "A", "true")}, nil, "A", "A", "", "A"},
		{"those that are deleted, or have no script, do not count", customizations{judging("a", "A", "true"), gone, judging("none", "B", "")}, configurations{away}, "", "", "", ""},
		{"a webhook is new", customizations{judging("a", "A", "true")}, configurations{asking("a", "https://a", "B", "Z")}, "B", "BZ", "B", "B"},
		{"nothing changes", customizations{judging("a", "A", "true")}, configurations{asking("a", "https://a", "B", "Z")}, "", "", "", ""},
		{"it moves", customizations{judging("a", "A", "true")}, configurations{asking("a", "https://b", "B", "Z")}, "B", "BZ", "B", "B"},
		{"both change", customizations{judging("a", "A", "false")}, configurations{asking("a", "https://b", "B")}, "A", "AZ", "", "A"},
		{"a kind has both", customizations{judging("a", "A", "false"), judging("b", "B", "true")}, configurations{asking("a", "https://b", "B")}, "B", "B", "", "B"},
		{"all are gone", nil, nil, "ABB", "AB", "B", "AB"},
	} {
		changes := said.SetInterpreters(step.customizations, step.configurations)
		after := revisions()
		var kinds, has, retention, report []string
		for _, kind := range changes.Kinds {
			kinds = append(kinds, kind.Kind)
		}
		for i, name := range []string{"A", "B", "Z"} {
			if changes.Has(kindOf(name)) {
				has = append(has, name)
			}
			if i < len(after) && after[i].Retention != before[i].Retention {
				retention = append(retention, name)
			}
			if i < len(after) && after[i].Report != before[i].Report {
				report = append(report, name)
			}
		}
		slices.Sort(kinds)
		got := []string{strings.Join(kinds, ""), strings.Join(has, ""), strings.Join(retention, ""), strings.Join(report, "")}
		if diff := cmp.Diff([]string{step.kinds, step.has, step.retention, step.report}, got); diff != "" {
			t.Errorf("%s: %s", step.reason, diff)
		}
		if step.has != "" && changes.IsEmpty() {
			t.Errorf("%s: it tells nothing", step.reason)
		}
		before = after
	}
	if changes := said.SetInterpreters(nil, nil); !changes.IsEmpty() {
		t.Errorf("all is as before, and %+v is told", changes)
	}
}

func TestTwoChangesAreOfAnyKind(t *testing.T) {
	t.Parallel()
	one, other := KindChanges{Kinds: []schema.GroupVersionKind{kindOf("A")}}, KindChanges{Kinds: []schema.GroupVersionKind{kindOf("B")}}
	for name, c := range map[string]struct {
		first, second KindChanges
		has           string
	}{
		"none":       {},
		"the first":  {first: one, has: "A"},
		"the second": {second: other, has: "B"},
		"both":       {first: one, second: other, has: "ABZ"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			changes := c.first.MergeChanges(c.second)
			has := ""
			for _, name := range []string{"A", "B", "Z"} {
				if changes.Has(kindOf(name)) {
					has += name
				}
			}
			if has != c.has || changes.IsEmpty() != (c.has == "") {
				t.Errorf("got %q, want %q; it is empty: %t", has, c.has, changes.IsEmpty())
			}
		})
	}
}

// TestNamesAreInTheOrderOfTheChain has a script, a webhook and Capstan itself know Deployments.
func TestNamesAreInTheOrderOfTheChain(t *testing.T) {
	t.Parallel()
	customizations := []configv1alpha1.ResourceInterpreterCustomization{judging("y", "Deployment", "true"), judging("x", "Deployment", "false")}
	configurations := []configv1alpha1.ResourceInterpreterWebhookConfiguration{asking("b", "https://b", "*"), asking("a", "https://a", "*")}
	said := NewUserInterpreters(time.Now, nil)
	said.SetInterpreters(customizations, configurations)
	var names []string
	for _, layer := range NamedLayers(customizations, configurations, time.Now, shipped.BuiltinChain()) {
		names = append(names, strings.TrimSpace(layer.By+" "+layer.Name))
	}
	if diff := cmp.Diff([]string{"customization x", "customization y", "webhook a", "webhook b", "shipped", "native"}, names); diff != "" {
		t.Error(diff)
	}
	known := said.Chain(shipped.BuiltinChain()).Operations(kindOf("Deployment"))
	if verdict, err := known.Custom.Verdict(map[string]any{}); verdict != interpret.Unhealthy || err != nil {
		t.Errorf("got %q, %v, want what the first customization says", verdict, err)
	}
	if known.Custom.Retain == nil || known.Replicas == nil {
		t.Error("the webhook, or what is known without users, is not asked")
	}
}
