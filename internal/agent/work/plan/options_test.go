// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/clock"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha1 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/interpret/shipped"
	"github.com/capstan-io/capstan/internal/interpret/users"
	"github.com/capstan-io/capstan/internal/kube/apply"
	"github.com/capstan-io/capstan/internal/manifestwork/rules"
	"github.com/capstan-io/capstan/internal/testing/expect"
	"github.com/capstan-io/capstan/internal/untrusted/decoding"
)

func TestOptionsAreReadFromTheWork(t *testing.T) {
	bound := WorkOptions{
		State: true, Completes: true, Yields: true, Retains: true, Interpreted: true,
		NamespacesFollow: true, SuspendedReports: true, ProblemAlone: true,
	}
	healthy := bound
	healthy.Health = true
	for name, tc := range map[string]struct {
		labels, annotations map[string]string
		all                 HealthOptions
		want                WorkOptions
	}{
		"a work of OCM":                          {},
		"a work of OCM that asks for health":     {annotations: map[string]string{workv1.AnnotationReportHealth: "true"}, want: WorkOptions{Health: true}},
		"a work of OCM that does not":            {annotations: map[string]string{workv1.AnnotationReportHealth: "false"}},
		"a work of OCM whose agent reports all":  {all: HealthOptions{Health: true}, want: WorkOptions{Health: true}},
		"a work of a binding":                    {labels: map[string]string{workv1alpha1.LabelPermanentID: "id"}, want: bound},
		"a work of a binding with no ID":         {labels: map[string]string{workv1alpha1.LabelPermanentID: ""}, want: bound},
		"a work of a binding, health of all too": {labels: map[string]string{workv1alpha1.LabelPermanentID: "id"}, all: HealthOptions{Health: true}, want: healthy},
	} {
		t.Run(name, func(t *testing.T) {
			work := &workv1.ManifestWork{}
			work.Labels, work.Annotations = tc.labels, tc.annotations
			if got := ReadWorkOptions(work, tc.all); got != tc.want {
				t.Errorf("it has %+v, want %+v", got, tc.want)
			}
		})
	}
}

// An option that no work sets would be one that nobody can have.
func TestEveryOptionCanBeHad(t *testing.T) {
	work := &workv1.ManifestWork{}
	work.Labels = map[string]string{workv1alpha1.LabelPermanentID: "id"}
	options := reflect.ValueOf(ReadWorkOptions(work, HealthOptions{Health: true}))
	for field, value := range options.Fields() {
		if !value.Bool() {
			t.Errorf("no work has %s", field.Name)
		}
	}
}

// TestRetainedFieldsAreFoundWhenThereIsRoom has others decode as much as there is room for.
func TestRetainedFieldsAreFoundWhenThereIsRoom(t *testing.T) {
	raw := `{"apiVersion":"v1","kind":"Service","metadata":{"name":"a","namespace":"n"},"spec":{"clusterIP":"10.0.0.1","ports":[` +
		strings.Repeat("{},", 8000) + `{}]}}`
	work := &workv1.ManifestWork{}
	work.Labels = map[string]string{workv1alpha1.LabelPermanentID: "id"}
	work.Spec.Workload.Manifests = []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: []byte(raw)}}}
	memory := decoding.NewMemory(clock.RealClock{})
	finder := KindFinder{
		Find: func(schema.GroupVersionKind) (apply.Resource, error) {
			return apply.Resource{GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "services"}, Namespaced: true}, nil
		},
		Rules: &rules.RuleSetCache{}, Kinds: shipped.BuiltinChain(), Manifests: memory,
		Said: func(schema.GroupVersionKind) users.KindRevision { return users.KindRevision{} },
	}
	var ends []func()
	for i := range 2 {
		ctx, end := memory.BeginReservation(t.Context(), fmt.Sprint("others ", i))
		expect.NoError(t, decoding.TakeMemory(ctx, 192<<20))
		ends = append(ends, end)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	p, _ := ForManifestWork(work, nil, HealthOptions{})
	if err := p.ResolveItems(ended, p.Items, work, finder); !errors.Is(err, context.Canceled) || p.Items[0].IsResolved() {
		t.Errorf("got %v, want that it waits for room, and then finds them", err)
	}
	for _, end := range ends {
		end()
	}
	if err := p.ResolveItems(t.Context(), p.Items, work, finder); err != nil || len(p.Items[0].Desired.Retained) == 0 {
		t.Errorf("when there is room, %v is retained: %v", p.Items[0].Desired.Retained, err)
	}
}

func TestContentIsOfWhoSendsIt(t *testing.T) {
	work := &workv1.ManifestWork{}
	work.Namespace, work.Name = "cluster1", "w"
	if got := ContentOwner(work); got != "cluster cluster1" || WorkOwner(work) != "" {
		t.Errorf("a work of nobody in particular is of %q", got)
	}
	owners := map[string]bool{}
	for _, namespace := range []string{"shop", "bank"} {
		for _, cluster := range []string{"cluster1", "cluster2"} {
			work.Namespace = cluster
			work.Labels = map[string]string{workv1alpha1.LabelPermanentID: "id"}
			work.Annotations = map[string]string{workv1alpha2.AnnotationResourceBindingNamespace: namespace, workv1alpha2.AnnotationResourceBindingName: "b"}
			owners[ContentOwner(work)] = WorkOwner(work) != ""
		}
	}
	if len(owners) != 2 {
		t.Errorf("works of two namespaces in two clusters are of %v", owners)
	}
}

// TestFewOfTheAnnotationsAreRead has a manifest with more annotations than an API server takes.
func TestFewOfTheAnnotationsAreRead(t *testing.T) {
	for resolution, yields := range map[string]bool{policyv1alpha1.ConflictResolutionOverwrite: false, policyv1alpha1.ConflictResolutionAbort: true, "": true} {
		raw := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","annotations":{%s%q:%q}}}`,
			strings.Repeat(`"a":"",`, 100_000), policyv1alpha1.AnnotationConflictResolution, resolution)
		var d DesiredObject
		if allocated := testing.AllocsPerRun(1, func() { d = DesiredObject{}; d.parseManifest(0, raw, WorkOptions{Yields: true}) }); allocated > 1000 {
			t.Errorf("it allocates %.0f times", allocated)
		}
		if d.Refused != nil || d.Yields != yields {
			t.Errorf("with %q it yields: %t, %v", resolution, d.Yields, d.Refused)
		}
	}
}
