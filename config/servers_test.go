// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package config

import (
	"os"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/capstan-io/capstan/internal/testing/env"
)

// servers are the API servers of the tests of this package.
var servers = env.NewServers()

func TestMain(m *testing.M) { os.Exit(servers.Main(m)) }

// allKinds has an API server serve all kinds, so that the tests can share one.
func allKinds(e *envtest.Environment) { e.CRDDirectoryPaths = []string{"crd"} }
