// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"strings"
	"testing"

	"k8s.io/client-go/rest"
)

func TestHomeIsTheHubUnlessHosted(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	hub := &rest.Config{Host: "https://hub"}
	if got, err := (&HomeOptions{}).HomeConfig(hub); err != nil || got != hub {
		t.Errorf("got %v and error %v, want the hub itself", got, err)
	}
	if _, err := (&HomeOptions{Hosted: true}).HomeConfig(hub); err == nil || !strings.Contains(err.Error(), "--hosted") {
		t.Errorf("outside of a pod: got error %v, want one that names --hosted", err)
	}
}
