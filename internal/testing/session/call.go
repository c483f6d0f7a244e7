// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package session

import (
	"testing"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/capstan-io/capstan/config"
	"github.com/capstan-io/capstan/internal/testing/env"
)

// StartMember starts an API server with the definitions of a member.
func StartMember(t testing.TB, servers *env.Servers) (*envtest.Environment, *rest.Config) {
	t.Helper()
	definitions, err := config.SpokeCRDs()
	if err != nil {
		t.Fatal(err)
	}
	return servers.Start(t, func(e *envtest.Environment) { e.CRDs = definitions })
}
