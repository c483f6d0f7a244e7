// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"testing"

	"github.com/capstan-io/capstan/internal/testing/env"
	"github.com/capstan-io/capstan/internal/testing/joining"
)

// hubs is the hub of all tests: each has clusters of its own in it.
var hubs = env.NewFixtures(servers, func(t testing.TB) *joining.Hub {
	t.Helper()
	return joining.StartHub(t, servers, "../../config/crd")
})

// hub is the hub as a test uses it.
type hub struct{ *joining.Hub }

func newHub(t *testing.T) hub {
	t.Helper()
	return hub{hubs.ShareFixture(t).WithTest(t)}
}
