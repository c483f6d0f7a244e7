// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// TestAMemberDoesNotHaveTheHubWriteWithoutEnd has somebody in the cluster change objects of works again and
// again, of which each report is written whole on the hub.
func TestAMemberDoesNotHaveTheHubWriteWithoutEnd(t *testing.T) {
	t.Parallel()
	for name, config := range map[string]workv1.ManifestConfigOption{
		"fields":     {FeedbackRules: wellKnown()},
		"conditions": {ConditionRules: []workv1.ConditionRule{celRule("Odd", `int(object.?status.replicas.orValue(0)) % 2 == 1`)}},
	} {
		t.Run(name, func(t *testing.T) {
			s := takeScene(t)
			const changes, bytes = 101, 300 << 10
			var onHub atomic.Int64
			options := seldom()
			options.wrap = func(rt http.RoundTripper) http.RoundTripper {
				return roundTripper(func(r *http.Request) (*http.Response, error) {
					if r.Method == http.MethodPatch && strings.HasSuffix(r.URL.Path, "/manifestworks/w/status") {
						onHub.Add(1)
					}
					return rt.RoundTrip(r)
				})
			}
			a := s.start(options)
			s.create(asks(s.work("w", s.triple("d"), s.configMap("large", strings.Repeat("x", bytes))), deploymentKind, config))
			s.sums("w", "Applied", "True")
			s.status(deploymentKind, "d", `{"replicas":2}`)
			shown := func(w *workv1.ManifestWork) string { return values(w, 0) + message(w, 0, "Odd") }
			wants := func(replicas int) string {
				if len(config.FeedbackRules) > 0 {
					return fmt.Sprintf(`Replicas={"integer":%d}`, replicas)
				}
				return map[bool]string{true: "True", false: "False"}[replicas%2 == 1] + " ConditionRuleEvaluated"
			}
			s.shows("w", "a single change is reported", wants(2), shown)
			onHub.Store(0)
			start := time.Now()
			for i := range changes {
				s.status(deploymentKind, "d", fmt.Sprintf(`{"replicas":%d}`, i+1))
			}
			s.within(5*patience, "the last state is reported", func() error {
				work, err := s.get("w")
				if err == nil && !strings.Contains(shown(work), wants(changes)) {
					err = fmt.Errorf("reported is %s", shown(work))
				}
				return err
			})
			// About 16 KiB in a second, after some at once.
			if writes, most := onHub.Load(), 4+int64(time.Since(start)/(15*time.Second)); writes > most {
				t.Errorf("%d changes made %d writes of %d KiB to the hub, want at most %d", changes, writes, bytes>>10, most)
			}
			if delayed := gather(t, a.part)["capstan_work_reports_delayed_total"]; delayed == 0 {
				t.Error("no report was delayed")
			}
			s.change("w", func(w *workv1.ManifestWork) { w.Spec.Workload.Manifests = w.Spec.Workload.Manifests[:1] })
			s.condition("w", "Applied", metav1.ConditionTrue) // of the new generation
		})
	}
}
