// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package allowance

import (
	"fmt"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
)

// writtenBy returns how many MiB a tenant has written, in a time and by so many programs, who changes all
// works as often as each of them lets him. Each sees what the others write, as their caches show it.
func writtenBy(programs int, during time.Duration) (written int, message string) {
	clk := clocktesting.NewFakePassiveClock(time.Unix(1_000_000, 0))
	all := make([]*Allowance, programs)
	works := make([][]*workv1.ManifestWork, programs)
	for n := range all {
		all[n] = NewAllowance(clk, DefaultShared, int64(programs))
		works[n] = make([]*workv1.ManifestWork, 300/programs)
	}
	begun := clk.Now()
	for look := 0; clk.Now().Sub(begun) < during; look++ {
		for n, a := range all {
			wanted := many("shop", fmt.Sprint("web", n), len(works[n]), megabyte-look%2)
			var writes []WorkWrite
			for i := range wanted {
				wanted[i].ResourceVersion = fmt.Sprint(look)
				writes = append(writes, WriteOf(wanted[i], works[n][i]))
			}
			held := a.AdmitWrites(WorkOwner{Namespace: "shop"}, writes)
			for i := range wanted {
				if held.Clusters[wanted[i].Namespace] != nil {
					continue
				}
				for _, other := range all {
					other.ObserveWork(works[n][i], wanted[i])
				}
				works[n][i] = wanted[i]
				written++
			}
			if held.AnyHeld() {
				message = held.ConditionMessage()
			}
		}
		clk.SetTime(clk.Now().Add(5 * time.Second))
	}
	return written, message
}

// TestTwoProgramsWriteNoMoreThanOne has a tenant use bindings and replica sets, which two programs keep.
func TestTwoProgramsWriteNoMoreThanOne(t *testing.T) {
	const during = 10 * time.Minute // for which etcd stores what was overwritten
	one, whole := writtenBy(1, during)
	two, half := writtenBy(2, during)
	most := int(burstBytes(DefaultShared)+int64(during.Seconds())*bytesPerSecond(DefaultShared)) / megabyte
	if two > most+2 || one > most+1 || one < most*9/10 || two < one*9/10 {
		t.Errorf("two programs write %d MiB in %s, and one alone %d, want %d at most", two, during, one, most)
	}
	if !strings.Contains(whole, "After 256 MiB at once it is 1024 KiB in a second") || !strings.Contains(half, "After 128 MiB at once it is 512 KiB in a second") {
		t.Errorf("one alone says %q, and one of two %q", whole, half)
	}
}
