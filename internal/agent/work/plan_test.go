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
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/apply"
	"github.com/capstan-io/capstan/internal/apply/ignore"
)

// writtenPlan returns the plan of two ConfigMaps, both of which were written.
func writtenPlan() *plan {
	work := &workv1.ManifestWork{}
	work.UID, work.Generation = "uid", 1
	for _, name := range []string{"a", "b"} {
		raw := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"namespace":"n"}}`, name)
		work.Spec.Workload.Manifests = append(work.Spec.Workload.Manifests, workv1.Manifest{RawExtension: runtime.RawExtension{Raw: raw}})
	}
	p := newPlan(work, nil)
	for _, it := range p.items {
		it.resolve(apply.Resource{
			GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, Namespaced: true,
		}, nil)
		it.past = apply.Past{Hash: it.hash, Mark: apply.Mark{UID: "uid", ResourceVersion: it.manifest.Name}}
	}
	return p
}

func TestAPlanMadeAnewKnowsWhatWasWritten(t *testing.T) {
	before := writtenPlan()
	work := &workv1.ManifestWork{}
	work.UID, work.Generation = "uid", 2
	if after := newPlan(work, before.rest(time.Unix(1700000000, 0))); len(after.written) != 2 || after.written[before.items[1].hash] != before.items[1].past {
		t.Errorf("it knows %v", after.written)
	}
	work.UID = "another"
	if after := newPlan(work, before.rest(time.Unix(1700000000, 0))); len(after.written) != 0 {
		t.Errorf("another work of the name knows %v", after.written)
	}
}

func TestAPlanIsForgottenOnlyIfNothingIsToBeRemembered(t *testing.T) {
	now := time.Unix(1700000000, 0)
	for name, test := range map[string]struct {
		reason string
		change func(*plan)
		kept   bool
	}{
		"settled":     {"all is written, and that is what is remembered", func(*plan) {}, false},
		"unresolved":  {"its kind may come", func(p *plan) { p.items[1].resolved = false }, true},
		"refused":     {"the refusal is reported", func(p *plan) { p.items[1].refused = errors.New("no") }, true},
		"failed":      {"it is tried again", func(p *plan) { p.items[1].outcome.problem.Trouble = apply.TroublePassing }, true},
		"never read":  {"nothing was written yet", func(p *plan) { p.items[1].past = apply.Past{} }, true},
		"changed":     {"what was written is another manifest", func(p *plan) { p.items[1].past.Hash[0]++ }, true},
		"comes again": {"it is looked at in its own time", func(p *plan) { p.items[1].outcome.again = time.Second }, true},
		"ignores":     {"expressions take long to compile", func(p *plan) { p.items[1].ignored = &ignore.Fields{} }, true},
		"observed":    {"what was found is not anywhere else", func(p *plan) { p.items[1].observation = &observation{} }, true},
		"corrected":   {"more corrections are slowed down", func(p *plan) { p.items[1].damper = p.items[1].damper.Corrected(now) }, true},
		"corrected long ago": {"nobody works against us any more", func(p *plan) {
			p.items[1].damper = p.items[1].damper.Corrected(now.Add(-time.Hour))
		}, false},
		"cramped":   {"what the hub refused is not tried all the time", func(p *plan) { p.cramped = &cramped{} }, true},
		"completes": {"rules take long to compile", func(p *plan) { p.completes = true }, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := writtenPlan()
			test.change(p)
			if kept := p.rest(now) == p; kept != test.kept {
				t.Errorf("the plan is kept: %v; want %v, as %s", kept, test.kept, test.reason)
			}
		})
	}
}

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
	const changes = 5
	s := newLab(t).scene(t, "writes-what-changed")
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
	s := newLab(t).scene(t, "mended-without-plan")
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
