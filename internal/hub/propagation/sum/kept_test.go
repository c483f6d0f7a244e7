// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package sum

import (
	"fmt"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

func TestKept(t *testing.T) {
	now := time.Unix(1000, 0)
	deleted := func(cluster string, before time.Duration) workv1.ManifestWork {
		at := metav1.NewTime(now.Add(-before))
		return workv1.ManifestWork{ObjectMeta: metav1.ObjectMeta{Namespace: cluster, DeletionTimestamp: &at}}
	}
	var many []workv1.ManifestWork
	for i := range 7 {
		many = append(many, deleted(fmt.Sprintf("c%d", 7-i), time.Minute))
	}
	for name, c := range map[string]struct {
		works []workv1.ManifestWork
		want  string
		again time.Duration
	}{
		"none":                          {},
		"not deleted yet":               {works: []workv1.ManifestWork{{}}},
		"the agents are about it":       {works: []workv1.ManifestWork{deleted("a", time.Second), deleted("b", 10*time.Second)}, again: 20 * time.Second},
		"one keeps it":                  {works: []workv1.ManifestWork{deleted("a", time.Second), deleted("b", 30*time.Second)}, want: "These clusters have not released it for more than 30s: b.", again: 29 * time.Second},
		"many keep it":                  {works: many, want: "These clusters have not released it for more than 30s: c1, c2, c3, c4, c5 and 2 more."},
		"the clock of the hub was back": {works: []workv1.ManifestWork{deleted("a", -time.Minute)}, again: 90 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			kept, again := KeptCondition(c.works, now)
			if again != c.again || (kept == nil) != (c.want == "") || kept != nil && !strings.Contains(kept.Message, c.want) {
				t.Errorf("got %v, again in %s; want %q, again in %s", kept, again, c.want, c.again)
			}
		})
	}
}
