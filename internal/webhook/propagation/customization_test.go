// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1alpha1 "github.com/capstan-io/capstan/apis/karmada/config/v1alpha1"
)

func customization(name, kind, script string) *configv1alpha1.ResourceInterpreterCustomization {
	return &configv1alpha1.ResourceInterpreterCustomization{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: configv1alpha1.ResourceInterpreterCustomizationSpec{
			Target:         configv1alpha1.CustomizationTarget{APIVersion: "example.com/v1", Kind: kind},
			Customizations: configv1alpha1.CustomizationRules{HealthInterpretation: &configv1alpha1.LuaRule{LuaScript: script}},
		},
	}
}

func TestCustomizationsAreChecked(t *testing.T) {
	const good, broken = "function InterpretHealth(o) return true end", "function InterpretHealth(o)\n return o o end"
	there := []configv1alpha1.ResourceInterpreterCustomization{*customization("there", "Workload", good)}
	deleted := customization("mine", "Other", broken)
	deleted.DeletionTimestamp = &metav1.Time{}
	for name, c := range map[string]struct {
		old, new *configv1alpha1.ResourceInterpreterCustomization
		reading  error
		want     string
	}{
		"a script":              {new: customization("mine", "Other", good)},
		"a script that is none": {new: customization("mine", "Other", broken), want: `spec.customizations.healthInterpretation.luaScript: Invalid value: line 2: syntax error near "o"`},
		"no key": {
			new:  &configv1alpha1.ResourceInterpreterCustomization{Spec: configv1alpha1.ResourceInterpreterCustomizationSpec{Target: configv1alpha1.CustomizationTarget{APIVersion: "example.com/v1", Kind: "Other"}}},
			want: "spec.customizations: Required value: it has none of the keys that count, which are retention, replicaResource,",
		},
		"its only key becomes another": {
			old:  customization("mine", "Other", good),
			new:  &configv1alpha1.ResourceInterpreterCustomization{ObjectMeta: metav1.ObjectMeta{Name: "mine"}},
			want: "it has none of the keys that count",
		},
		"it had no key and has none": {
			old: &configv1alpha1.ResourceInterpreterCustomization{ObjectMeta: metav1.ObjectMeta{Name: "mine"}},
			new: &configv1alpha1.ResourceInterpreterCustomization{ObjectMeta: metav1.ObjectMeta{Name: "mine", Labels: map[string]string{"a": "b"}}},
		},
		"it had no key and gets one":          {old: &configv1alpha1.ResourceInterpreterCustomization{}, new: customization("mine", "Other", good)},
		"what another says":                   {new: customization("mine", "Workload", good), want: `spec.customizations.healthInterpretation: Forbidden: ResourceInterpreterCustomization "there" has a script for it already`},
		"itself":                              {new: customization("there", "Workload", good)},
		"nobody knows the others":             {new: customization("mine", "Other", good), reading: errors.New("no answer"), want: "no answer"},
		"it becomes broken":                   {old: customization("mine", "Other", good), new: customization("mine", "Other", broken), want: "line 2"},
		"it was broken and stays so":          {old: customization("mine", "Other", broken), new: customization("mine", "Other", broken)},
		"it is about to say what is said":     {old: customization("mine", "Other", good), new: customization("mine", "Workload", good), want: "has a script for it already"},
		"it is broken and its finalizer goes": {old: customization("mine", "Other", good), new: deleted},
	} {
		t.Run(name, func(t *testing.T) {
			v := customizationValidator(func(context.Context) ([]configv1alpha1.ResourceInterpreterCustomization, error) {
				return there, c.reading
			})
			var err error
			if c.old == nil {
				_, err = v.ValidateCreate(t.Context(), c.new)
			} else {
				_, err = v.ValidateUpdate(t.Context(), c.old, c.new)
			}
			switch {
			case c.want == "" && err != nil:
				t.Errorf("it is refused: %v", err)
			case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
				t.Errorf("got %v, want a refusal with %q", err, c.want)
			case c.want != "" && c.reading == nil && !apierrors.IsInvalid(err):
				t.Errorf("got %v, want one that is Invalid", err)
			}
		})
	}
}

// TestCustomizationsWithWrongKeysAreRefused sends objects as the API server does, which keeps the
// keys that nobody knows.
func TestCustomizationsWithWrongKeysAreRefused(t *testing.T) {
	const good = `"healthInterpretation":{"luaScript":"function InterpretHealth(o) return true end"}`
	const other = `"healthInterpretation":{"luaScript":"function InterpretHealth(o) return false end"}`
	of := func(metadata, keys string) string {
		return `{"apiVersion":"config.karmada.io/v1alpha1","kind":"ResourceInterpreterCustomization","metadata":{"name":"mine"` + metadata +
			`},"spec":{"target":{"apiVersion":"example.com/v1","kind":"Other"},"customizations":{` + keys + `}}}`
	}
	handlers, err := WebhookHandlers(WebhookOptions{Customizations: func(context.Context) ([]configv1alpha1.ResourceInterpreterCustomization, error) { return nil, nil }})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		old, new string
		want     []string
	}{
		"a right key": {new: of("", good)},
		"a wrong one beside it": {
			new:  of("", good+`,"retentions":{"luaScript":"function Retain(d, o) return d end"}`),
			want: []string{`spec.customizations: Invalid value: "retentions": it is none of the keys that count, which are retention, `, "; do you mean retention?"},
		},
		"wrong ones only": {
			new:  of("", `"healthInterpretations":{"luaScript":"x"},"replicas":null`),
			want: []string{`"healthInterpretations"`, "; do you mean healthInterpretation?", `"replicas": it is none of the keys that count`},
		},
		"upper case": {new: of("", good+`,"Retention":{"luaScript":"x"}`), want: []string{`"Retention"`, "; do you mean retention?"}},
		"a key that tells of itself for ever": {
			new: of("", good+`,"`+strings.Repeat("k", 4096)+`\n":{}`), want: []string{`Invalid value: "` + strings.Repeat("k", 64) + `": it is none`},
		},
		"more of them than an answer names":    {new: of("", good+manyKeys(1000)), want: []string{"980 more mistakes"}},
		"a change adds one and nothing else":   {old: of("", good), new: of("", good+`,"retentions":{}`), want: []string{`"retentions"`}},
		"it is there and something changes":    {old: of("", good+`,"retentions":{}`), new: of("", other+`,"retentions":{}`), want: []string{`"retentions"`}},
		"it is there and goes":                 {old: of("", good+`,"retentions":{}`), new: of("", good)},
		"it is there and a label changes":      {old: of("", good+`,"retentions":{}`), new: of(`,"labels":{"a":"b"}`, good+`,"retentions":{}`)},
		"it is on its way out":                 {old: of("", good), new: of(`,"deletionTimestamp":"2026-01-01T00:00:00Z"`, good+`,"retentions":{}`)},
		"a right key, and a script that fails": {new: of("", `"retention":{"luaScript":"x x"}`), want: []string{"spec.customizations.retention.luaScript"}},
	} {
		t.Run(name, func(t *testing.T) {
			operation, old := "CREATE", "null"
			if c.old != "" {
				operation, old = "UPDATE", c.old
			}
			answer := httptest.NewRecorder()
			request := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(`{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","name":"mine","operation":"`+
				operation+`","object":`+c.new+`,"oldObject":`+old+`}}`))
			request.Header.Set("Content-Type", "application/json")
			handlers[validatePath+customizations].ServeHTTP(answer, request)
			review := &admissionv1.AdmissionReview{}
			if err := json.Unmarshal(answer.Body.Bytes(), review); err != nil || review.Response == nil {
				t.Fatalf("%v: %s", err, answer.Body)
			}
			if review.Response.Allowed != (len(c.want) == 0) {
				t.Fatalf("allowed is %t: %s", review.Response.Allowed, answer.Body)
			}
			for _, part := range c.want {
				if !strings.Contains(review.Response.Result.Message, part) {
					t.Errorf("the answer is without %q: %s", part, review.Response.Result.Message)
				}
			}
			if len(c.want) > 0 && review.Response.Result.Code != http.StatusUnprocessableEntity {
				t.Errorf("its code is %d", review.Response.Result.Code)
			}
		})
	}
}

// manyKeys are as many wrong keys, after others.
func manyKeys(count int) string {
	var all strings.Builder
	for i := range count {
		fmt.Fprintf(&all, `,"k%d":{}`, i)
	}
	return all.String()
}
