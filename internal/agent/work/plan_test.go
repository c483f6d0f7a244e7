// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// objectWrites counts the writes of ConfigMaps.
type objectWrites struct {
	http.RoundTripper
	count *atomic.Int32
}

func (w *objectWrites) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method == http.MethodPatch && strings.Contains(request.URL.Path, "/configmaps/") {
		w.count.Add(1)
	}
	return w.RoundTripper.RoundTrip(request)
}

func TestAWorkThatChangesWritesWhatChanged(t *testing.T) {
	t.Parallel()
	const changes = 5
	s := takeScene(t)
	var writes atomic.Int32
	s.start(agentOptions{wrap: func(rt http.RoundTripper) http.RoundTripper { return &objectWrites{RoundTripper: rt, count: &writes} }})
	s.create(s.work("w", s.configMap("a", "0"), s.configMap("b", "0"), s.configMap("c", "0")))
	s.condition("w", "Applied", metav1.ConditionTrue)
	before := writes.Load()
	for i := range changes { // each time the plan before is forgotten as soon as the pass has ended
		value := fmt.Sprint(i + 1)
		s.change("w", func(w *workv1.ManifestWork) { w.Spec.Workload.Manifests[1].Raw = []byte(s.configMap("b", value)) })
		s.has("b", value)
		s.eventually("the change is reported", func() error {
			work, err := s.get("w")
			if err == nil && !isApplied(work) {
				err = errors.New("it is not")
			}
			return err
		})
	}
	if n := writes.Load() - before; n != changes {
		t.Errorf("%d objects were written for %d that changed", n, changes)
	}
}

func TestAChangeIsMendedAfterThePlanWasForgotten(t *testing.T) {
	t.Parallel()
	s := takeScene(t)
	s.start(agentOptions{})
	s.create(s.work("w", s.configMap("a", "0"), s.configMap("b", "0")))
	s.condition("w", "Applied", metav1.ConditionTrue)
	for range 3 {
		theirs := client.RawPatch(types.MergePatchType, []byte(`{"data":{"key":"theirs"}}`))
		if err := s.client.Patch(t.Context(), s.has("a", "0"), theirs); err != nil {
			t.Fatal(err)
		}
		s.has("a", "0")
		if err := s.client.Delete(t.Context(), s.has("b", "0")); err != nil {
			t.Fatal(err)
		}
		s.has("b", "0")
	}
}
