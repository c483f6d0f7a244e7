// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package feedback_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/manifestwork/feedback"
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
			values, messages := feedback.State(object(t, c.object), kinds())
			if diff := cmp.Diff(c.want, short(t, values)); diff != "" {
				t.Error(diff)
			}
			if got := strings.Join(messages, "; "); (got == "") != (c.message == "") || !strings.Contains(got, c.message) {
				t.Errorf("the message is %q; want %q", got, c.message)
			}
		})
	}
}
