// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"fmt"
	"os"
	"sync"
	"testing"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// Shared is an API server for all tests of a package, which each leave it as they
// found it. The first test that needs it starts it.
type Shared struct {
	options []func(*envtest.Environment)

	once        sync.Once
	environment *envtest.Environment
	config      *rest.Config
	err         error
}

// NewShared returns an API server that is changed by the options.
func NewShared(options ...func(*envtest.Environment)) *Shared { return &Shared{options: options} }

// Config returns the configuration of clients of the API server.
func (s *Shared) Config(t testing.TB) *rest.Config {
	t.Helper()
	Need(t)
	s.once.Do(func() { s.environment, s.config, s.err = start(s.options) })
	if s.err != nil {
		t.Fatalf("starting an API server: %v", s.err)
	}
	return rest.CopyConfig(s.config)
}

// Etcd returns the address of what the API server stores in, which serves anybody.
func (s *Shared) Etcd(t testing.TB) string {
	t.Helper()
	s.Config(t)
	return s.environment.ControlPlane.Etcd.URL.String()
}

// Main runs the tests of the package and stops the API server. It is what TestMain
// does, and returns the exit code.
func (s *Shared) Main(m *testing.M) int {
	code := m.Run()
	if s.environment == nil {
		return code
	}
	if err := s.environment.Stop(); err != nil {
		fmt.Fprintf(os.Stderr, "stopping the API server: %v\n", err)
		return 1
	}
	return code
}
