// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package expect

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
)

// NextEvent expects the next event of a watch to be of a type, waits for it, and returns its object.
func NextEvent(t testing.TB, watcher watch.Interface, want watch.EventType) runtime.Object {
	t.Helper()
	select {
	case event := <-watcher.ResultChan():
		if event.Type != want {
			t.Fatalf("watch: got event %s, want %s: %v", event.Type, want, event.Object)
		}
		return event.Object
	case <-time.After(Patience):
		t.Fatalf("watch: no event %s within %s", want, Patience)
		return nil
	}
}
