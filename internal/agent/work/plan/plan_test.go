// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package plan

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/kube/apply"
	"github.com/capstan-io/capstan/internal/kube/apply/ignore"
)

// writtenPlan returns the plan of two ConfigMaps, both of which were written.
func writtenPlan() *Plan {
	work := &workv1.ManifestWork{}
	work.UID, work.Generation = "uid", 1
	for _, name := range []string{"a", "b"} {
		raw := fmt.Appendf(nil, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"namespace":"n"}}`, name)
		work.Spec.Workload.Manifests = append(work.Spec.Workload.Manifests, workv1.Manifest{RawExtension: runtime.RawExtension{Raw: raw}})
	}
	p := FromManifests(work, nil)
	for _, it := range p.Items {
		it.Desired.resolveResource(apply.Resource{
			GroupVersionResource: schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}, Namespaced: true,
		}, nil)
		it.History.Past = apply.LastWrite{Hash: it.Desired.Hash, Mark: apply.Fingerprint{UID: "uid", ResourceVersion: it.Desired.Manifest.Name}}
	}
	return p
}

func TestAPlanMadeAnewKnowsWhatWasWritten(t *testing.T) {
	before := writtenPlan()
	work := &workv1.ManifestWork{}
	work.UID, work.Generation = "uid", 2
	if after := FromManifests(work, before.CompactPlan(time.Unix(1700000000, 0))); len(after.written) != 2 || after.written[before.Items[1].Desired.Hash] != before.Items[1].History.Past {
		t.Errorf("it knows %v", after.written)
	}
	work.UID = "another"
	if after := FromManifests(work, before.CompactPlan(time.Unix(1700000000, 0))); len(after.written) != 0 {
		t.Errorf("another work of the name knows %v", after.written)
	}
}

func TestAPlanIsForgottenOnlyIfNothingIsToBeRemembered(t *testing.T) {
	now := time.Unix(1700000000, 0)
	for name, test := range map[string]struct {
		reason string
		change func(*Plan)
		kept   bool
	}{
		"settled":     {"all is written, and that is what is remembered", func(*Plan) {}, false},
		"unresolved":  {"its kind may come", func(p *Plan) { p.Items[1].Desired.Resolved = false }, true},
		"refused":     {"the refusal is reported", func(p *Plan) { p.Items[1].Desired.Refused = errors.New("no") }, true},
		"failed":      {"it is tried again", func(p *Plan) { p.Items[1].Outcome.Problem.Trouble = apply.TroublePassing }, true},
		"never read":  {"nothing was written yet", func(p *Plan) { p.Items[1].History.Past = apply.LastWrite{} }, true},
		"changed":     {"what was written is another manifest", func(p *Plan) { p.Items[1].History.Past.Hash[0]++ }, true},
		"comes again": {"it is looked at in its own time", func(p *Plan) { p.Items[1].Outcome.Again = time.Second }, true},
		"undeclared":  {"what was left out is reported", func(p *Plan) { p.Items[1].History.Undeclared = &UndeclaredFields{} }, true},
		"ignores":     {"expressions take long to compile", func(p *Plan) { p.Items[1].Desired.Ignored = &ignore.CompiledFields{} }, true},
		"observed":    {"what was found is not anywhere else", func(p *Plan) { p.Items[1].Observation = &Observation{} }, true},
		"corrected":   {"more corrections are slowed down", func(p *Plan) { p.Items[1].History.Damper = p.Items[1].History.Damper.AfterCorrection(now) }, true},
		"corrected long ago": {"nobody works against us any more", func(p *Plan) {
			p.Items[1].History.Damper = p.Items[1].History.Damper.AfterCorrection(now.Add(-time.Hour))
		}, false},
		"limited":   {"what the hub refused is not tried all the time", func(p *Plan) { p.StatusLimit = &StatusLimit{} }, true},
		"completes": {"rules take long to compile", func(p *Plan) { p.completes = true }, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := writtenPlan()
			test.change(p)
			if kept := p.CompactPlan(now) == p; kept != test.kept {
				t.Errorf("the plan is kept: %v; want %v, as %s", kept, test.kept, test.reason)
			}
		})
	}
}
