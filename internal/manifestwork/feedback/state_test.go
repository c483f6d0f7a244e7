// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package feedback_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/manifestwork/feedback"
	"github.com/capstan-io/capstan/internal/testing/build"
)

func TestTheStateOfAnObjectOfABinding(t *testing.T) {
	t.Parallel()
	large := strings.Repeat("x", workv1.StatusSizeMax)
	for name, c := range map[string]struct {
		object  string
		want    []string
		message string
	}{
		"a Deployment that is ready": {
			object: `{apiVersion: apps/v1, kind: Deployment, metadata: {generation: 1}, spec: {replicas: 1}, status: {observedGeneration: 1, replicas: 1, updatedReplicas: 1, availableReplicas: 1}}`,
			want: []string{
				`status JsonRaw "{\"availableReplicas\":1,\"generation\":1,\"observedGeneration\":1,\"replicas\":1,\"updatedReplicas\":1}"`, `health String "Healthy"`,
			},
		},
		"a Deployment that is not":           {object: `{apiVersion: apps/v1, kind: Deployment, spec: {replicas: 1}}`, want: []string{`health String "Unhealthy"`}},
		"a kind without a status":            {object: `{apiVersion: v1, kind: ConfigMap}`, want: []string{`health String "Healthy"`}},
		"a status that is not an object":     {object: `{apiVersion: v1, kind: Pod, status: gone}`, want: []string{`health String "Unknown"`}},
		"a status that is too large to send": {object: `{apiVersion: example.com/v1, kind: Thing, status: {a: ` + large + `}}`, want: []string{`health String "Healthy"`}, message: "at most 262144"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			said := feedback.ReportedStateOf(build.ParseObject(t, c.object), kinds())
			if said.Failed != nil || said.Unreflected {
				t.Fatal(said.Failed)
			}
			if diff := cmp.Diff(c.want, short(t, said.Values)); diff != "" {
				t.Error(diff)
			}
			if got := strings.Join(said.Unread, "; "); (got == "") != (c.message == "") || !strings.Contains(got, c.message) {
				t.Errorf("the message is %q; want %q", got, c.message)
			}
		})
	}
}

// customs are operations of all kinds.
type customs interpret.CustomOperations

func (c customs) Operations(schema.GroupVersionKind) interpret.Operations {
	return interpret.Operations{Custom: interpret.CustomOperations(c)}
}

func TestStateOfACustomizedKind(t *testing.T) {
	t.Parallel()
	reflects := func(status map[string]any, err error) func(map[string]any) (map[string]any, error) {
		return func(map[string]any) (map[string]any, error) { return status, err }
	}
	judges := func(verdict string, err error) func(map[string]any) (string, error) {
		return func(map[string]any) (string, error) { return verdict, err }
	}
	for name, c := range map[string]struct {
		custom  interpret.CustomOperations
		want    []string
		message string
	}{
		"both":                 {interpret.CustomOperations{Reflect: reflects(map[string]any{"a": "b"}, nil), Verdict: judges("Unhealthy", nil)}, []string{`status JsonRaw "{\"a\":\"b\"}"`, `health String "Unhealthy"`}, ""},
		"nothing to report":    {interpret.CustomOperations{Reflect: reflects(nil, nil)}, []string{`health String "Healthy"`}, ""},
		"no status is known":   {interpret.CustomOperations{Reflect: reflects(map[string]any{"wrong": "x"}, errors.New("no status"))}, []string{`health String "Healthy"`}, "no status"},
		"no health is known":   {interpret.CustomOperations{Verdict: judges("Healthy", errors.New("no health"))}, []string{`status JsonRaw "{\"replicas\":1}"`, `health String "Unknown"`}, "no health"},
		"neither is known":     {interpret.CustomOperations{Reflect: reflects(nil, errors.New("no status")), Verdict: judges("", errors.New("no health"))}, []string{`health String "Unknown"`}, "no status\nno health"},
		"an empty status":      {interpret.CustomOperations{Reflect: reflects(map[string]any{}, nil)}, []string{`health String "Healthy"`}, ""},
		"an operation of hubs": {interpret.CustomOperations{Revise: func(object map[string]any, _ int32) (map[string]any, error) { return object, nil }}, []string{`status JsonRaw "{\"replicas\":1}"`, `health String "Healthy"`}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			said := feedback.ReportedStateOf(build.ParseObject(t, `{apiVersion: example.com/v1, kind: Thing, status: {replicas: 1}}`), interpret.Chain{customs(c.custom)})
			if diff := cmp.Diff(c.want, short(t, said.Values)); diff != "" {
				t.Error(diff)
			}
			if got := fmt.Sprint(said.Failed); c.message == "" && said.Failed != nil || c.message != "" && got != c.message {
				t.Errorf("the error is %v; want %q", said.Failed, c.message)
			}
			if want := strings.Contains(c.message, "no status"); said.Unreflected != want {
				t.Errorf("no status is known: %t, want %t", said.Unreflected, want)
			}
		})
	}
}
