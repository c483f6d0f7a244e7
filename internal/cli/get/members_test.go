// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package get

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clocktesting "k8s.io/utils/clock/testing"
	sigsyaml "sigs.k8s.io/yaml"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/cli/hub"
)

// workReporting is a work of a cluster whose agent reports the text as the status.
func workReporting(cluster, status string) *workv1.ManifestWork {
	manifest := runtime.RawExtension{Raw: []byte(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"shop","name":"web"}}`)}
	work := &workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: cluster, Name: "web"}}
	work.Spec.Workload.Manifests = []workv1.Manifest{{RawExtension: manifest}}
	work.Status.ResourceStatus.Manifests = []workv1.ManifestCondition{{StatusFeedback: workv1.StatusFeedbackResult{
		Values: []workv1.FeedbackValue{{Name: "status", FieldValue: workv1.FieldValue{Type: workv1.ValueTypeJSONRaw, JSONRaw: &status}}},
	}}}
	return work
}

func TestWhatOneClusterReportsKeepsNobodyFromReadingTheOthers(t *testing.T) {
	reported := map[string]string{
		"text":      `{"replicas":`,
		"deep":      `{"a":` + strings.Repeat("[", 9_999) + strings.Repeat("]", 9_999) + `}`,
		"nothing":   "",
		"surrogate": `{"a":"\ud83d\ude00\ud83d"}`,
		"twice":     `{"a":1,"a":2}`,
		"large":     `{"a":1e999}`,
	}
	const good = "good"
	deployments := &meta.RESTMapping{GroupVersionKind: schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}}
	for format, decode := range map[string]func([]byte, any) error{
		"json": json.Unmarshal,
		"yaml": func(text []byte, into any) error { return sigsyaml.Unmarshal(text, into) },
	} {
		for name, status := range reported {
			t.Run(format+" "+name, func(t *testing.T) {
				var printed bytes.Buffer
				session := hub.NewSession(genericiooptions.IOStreams{Out: &printed, ErrOut: &bytes.Buffer{}}, clocktesting.NewFakePassiveClock(metav1.Now().Time))
				r := &objectReading{objectsCommand: &objectsCommand{session: session, scope: scopeMembers, output: format, mapping: deployments, labels: labels.Everything()}}
				for _, work := range []*workv1.ManifestWork{workReporting("bad", status), workReporting(good, `{"replicas":2}`)} {
					if err := r.addWorkRows(work); err != nil {
						t.Fatal(err)
					}
				}
				if err := r.reportRows(r); err != nil {
					t.Fatalf("what one cluster reports ends the command: %v", err)
				}
				var read struct {
					Items []struct {
						Cluster, Reason string
						Status          any
					}
				}
				if err := decode(printed.Bytes(), &read); err != nil || len(read.Items) != 2 {
					t.Fatalf("got %d items, %v:\n%.1000s", len(read.Items), err, printed.String())
				}
				bad, other := read.Items[0], read.Items[1]
				if diff := cmp.Diff(map[string]any{"replicas": float64(2)}, other.Status); diff != "" || other.Cluster != good || other.Reason != "" {
					t.Errorf("the other cluster has %q (-want +got): %s", other.Reason, diff)
				}
				if bad.Status == nil && !strings.Contains(bad.Reason, "status is omitted") {
					t.Errorf("nobody says why the status is not there: %+v", bad)
				}
			})
		}
	}
}
