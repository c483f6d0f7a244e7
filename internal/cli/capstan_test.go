// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package cli_test

import (
	"testing"

	"github.com/capstan-io/capstan/internal/testing/placer"
	"github.com/capstan-io/capstan/internal/testing/playedhub"
)

// TestCapstan runs all tests that need an API server on one: first while it is
// some cluster, and then as a hub.
func TestCapstan(t *testing.T) {
	w := playedhub.NewPlayedHub(t, servers)
	t.Run("a mistake is explained with the next step", func(t *testing.T) { testMistakes(t, w) })
	w.BecomeHub(t)
	placer.StartPlacement(t, w.AdminConfig)
	t.Run("sessions", func(t *testing.T) { testSessions(t, w) })
	for name, test := range map[string]func(*testing.T, *playedhub.PlayedHub){
		"commands are completed": testCompletion,
		"what keeps a cluster from joining is told before anything is made": testJoinMistakes,
		"a name that no cluster can have is refused at once":                testJoinOfANoName,
		"the kubeconfig of a token is that of somebody who may ask to join": testTokenKubeconfig,
		"a wait that is interrupted says so":                                testInterruption,
		"a watch shows what changes until it is interrupted":                testWatch,
		"a cluster registers with a token and leaves again":                 testRegister,
		"what clusters say moves no cursor":                                 testEscapes,
	} {
		t.Run(name, func(t *testing.T) {
			defer w.ClearHub(t)
			t.Setenv("KUBECONFIG", w.Kubeconfig)
			test(t, w)
		})
	}
	t.Run("doctor", func(t *testing.T) { testDoctor(t, w) })
}
