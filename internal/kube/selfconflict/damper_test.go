// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package selfconflict

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"
	testingclock "k8s.io/utils/clock/testing"
)

// web and other are objects, and webStatus is what web reports.
var (
	web       = objectPart{WrittenObject: WrittenObject{GroupResource: schema.GroupResource{Group: "apps", Resource: "deployments"}, Namespace: "shop", Name: "web"}}
	webStatus = objectPart{WrittenObject: web.WrittenObject, subresource: "status"}
	other     = objectPart{WrittenObject: WrittenObject{GroupResource: schema.GroupResource{Resource: "namespaces"}, Name: "shop"}}
)

// passed writes a part as often as it is let, once a step, and returns how often that was.
func passed(d *Damper, clk *testingclock.FakeClock, p objectPart, steps int, step time.Duration) (count int) {
	for range steps {
		if d.admitWrite(p) == 0 {
			count++
		}
		clk.Step(step)
	}
	return count
}

func TestWhatIsWrittenTooOftenIsHeldBack(t *testing.T) {
	clk := testingclock.NewFakeClock(time.Unix(0, 0))
	d := NewDamper(Limits{}, clk)
	const step = 10 * time.Millisecond
	minute := int(time.Minute / step)
	if got, want := passed(d, clk, web, WritesDefault, step), WritesDefault; got != want {
		t.Errorf("of the first writes of a minute %d pass, want %d", got, want)
	}
	if wait := d.admitWrite(web); wait <= 0 || wait > time.Second {
		t.Errorf("the next write waits for %s, want up to a second", wait)
	}
	if d.admitWrite(webStatus) != 0 || d.admitWrite(other) != 0 {
		t.Error("writes to something else wait, too")
	}
	if got := d.HeldConflicts(); len(got) > 0 {
		t.Errorf("it is reported at once: %v", got)
	}
	for i, most := range []int{61, 31, 16, 8, 5, 2, 2, 2} {
		if got := passed(d, clk, web, minute, step); got < 1 || got > most {
			t.Errorf("in minute %d of being held back %d writes pass, want 1 to %d", i+1, got, most)
		}
	}
	want := []Conflict{{WrittenObject: web.WrittenObject, Since: time.Unix(0, 0).Add(time.Duration(WritesDefault) * step)}}
	if diff := cmp.Diff(want, d.HeldConflicts()); diff != "" {
		t.Errorf("conflicts (-want +got):\n%s", diff)
	}
}

func TestWhatCalmsDownIsForgotten(t *testing.T) {
	clk := testingclock.NewFakeClock(time.Unix(0, 0))
	d := NewDamper(Limits{Writes: 10, Window: 10 * time.Second}, clk)
	passed(d, clk, web, 2000, 10*time.Millisecond)
	if got := d.HeldConflicts(); len(got) != 1 {
		t.Fatalf("conflicts: %v, want one", got)
	}
	clk.Step(20 * time.Second)
	if got := d.HeldConflicts(); len(got) > 0 {
		t.Errorf("it is still reported: %v", got)
	}
	if got := passed(d, clk, web, 10, 0); got != 10 {
		t.Errorf("%d of 10 writes pass, want all", got)
	}
	clk.Step(20 * time.Second)
	if d.admitWrite(other) != 0 || len(d.parts) != 1 {
		t.Errorf("%d parts are remembered, want that which was just written", len(d.parts))
	}
}

func TestWhatIsWrittenNowAndThenPasses(t *testing.T) {
	clk := testingclock.NewFakeClock(time.Unix(0, 0))
	d := NewDamper(Limits{}, clk)
	if got := passed(d, clk, web, 1000, 2*time.Second); got != 1000 {
		t.Errorf("%d of 1000 writes pass that come every other second, want all", got)
	}
}
