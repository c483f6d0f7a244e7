// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"context"
	"testing"
)

// counted is what was counted last.
type counted struct{ code, method, host string }

func (c *counted) Increment(_ context.Context, code, method, host string) {
	*c = counted{code, method, host}
}

func TestRequestsToManyHostsAreCountedTogether(t *testing.T) {
	latest := &counted{}
	hosts := HostCounter{Next: latest, Named: map[string]bool{"hub:6443": true}}
	for host, want := range map[string]string{"hub:6443": "hub:6443", "member1:6443": "others", "hub": "others"} {
		hosts.Increment(t.Context(), "200", "GET", host)
		if *latest != (counted{"200", "GET", want}) {
			t.Errorf("a request to %s is counted as %+v, want host %s", host, *latest, want)
		}
	}
}
