// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"sync"
	"testing"

	"github.com/go-logr/logr"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/capstan-io/capstan/internal/testing/env"
	"github.com/capstan-io/capstan/test/integration/conformance/installation"
	"github.com/capstan-io/capstan/test/integration/conformance/promises"
)

func TestConformance(t *testing.T) {
	env.Need(t)
	ctrl.SetLogger(logr.Discard())
	at := newSetting(t)
	results := promises.NewTable(installation.JoinModes(), promises.Cases())
	var (
		columns sync.WaitGroup
		ready   = make(chan struct{})
		theHub  *installation.Hub
	)
	for _, m := range installation.JoinModes() {
		columns.Go(func() {
			t.Run(string(m), func(t *testing.T) {
				c := installation.StartMember(t, at, m)
				<-ready
				if c.Hub = theHub; c.Hub == nil {
					t.Fatal("there is no hub")
				}
				if c.Pods == nil {
					c.Pods = c.Hub.Pods
				}
				promises.RunColumn(t, c, results, promises.Cases())
			})
		})
	}
	defer func() {
		columns.Wait()
		t.Logf("%d promises, kept in %d modes:\n%s", len(results.Cases), len(results.Modes), results)
		if err := results.Err(); err != nil {
			t.Error(err)
		}
	}()
	func() {
		defer close(ready)
		theHub = installation.StartHub(t, at)
	}()
}
