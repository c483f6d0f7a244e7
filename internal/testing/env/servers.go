// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package env

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/capstan-io/capstan/internal/testing/timing"
)

// Servers are the API servers of a package's tests. A server that a test is done with
// is put back to what it stored when it had started, and the next test gets it. To a
// test that is a new server: it has an address of its own, nothing is stored but what
// the options ask for, and whatever an earlier test has left running does not reach it.
//
// What only a start can change lasts: the server's certificates and authorities, and
// the UIDs of its system namespaces.
type Servers struct {
	mu   sync.Mutex
	idle []*testServer
	// fixtures wait for another test, shared ones are what tests have together.
	fixtures, shared []*fixture
	// holders are who has how many servers: lives of fixtures, and tests by their names.
	holders map[any]int
	// ending says that all tests have run.
	ending bool
}

// idleMax is how many servers wait for another test: no test takes more at a time.
const idleMax = 4

// testServer is an API server that serves one test at a time.
type testServer struct {
	// flavour says what it was started with.
	flavour     string
	environment *envtest.Environment
	config      *rest.Config
	start       baseline
	resets      atomic.Int64
}

// NewServers returns the API servers of a package. None is started yet.
func NewServers() *Servers { return &Servers{holders: map[any]int{}} }

// RunTests runs the tests of the package and stops the API servers. It is what TestMain
// does, and returns the exit code.
func (s *Servers) RunTests(m *testing.M) int {
	code := m.Run()
	if !s.endFixtures() {
		code = max(code, 1)
	}
	for _, idle := range s.idle {
		if err := stopServer("TestMain", idle.environment); err != nil {
			fmt.Fprintf(os.Stderr, "stopping the API server: %v\n", err)
			code = max(code, 1)
		}
	}
	return code
}

// Start gives the test an API server, changed by the options, which may not depend
// on the test: flags with files of the test, and webhooks, are for the function Start.
// When the test ends, so does its way to the server. A fixture that waits ends if no test has
// a server: tests that run one after the other do not start one for each kind of fixtures.
func (s *Servers) Start(t testing.TB, options ...func(*envtest.Environment)) (*envtest.Environment, *rest.Config) {
	t.Helper()
	Need(t)
	wanted := newEnvironment(options)
	flavour, err := flavourOf(wanted)
	if err != nil {
		t.Fatal(err)
	}
	holder := holderOf(t)
	got := s.takeIdle(flavour)
	if got == nil {
		got = s.takeFromFixture(holder, flavour)
	}
	if got == nil {
		got = &testServer{flavour: flavour}
		if got.environment, got.config, err = startServer(t.Name(), wanted); err != nil {
			t.Fatalf("starting an API server: %v", err)
		}
		if got.start, err = got.awaitBaseline(t.Context()); err != nil {
			err = errors.Join(err, stopServer(t.Name(), got.environment))
			t.Fatalf("waiting for what an API server makes when it starts: %v", err)
		}
	}
	way, err := openFront(t.Context(), net.JoinHostPort(got.secureAddress().Address, got.secureAddress().Port))
	if err != nil {
		err = errors.Join(err, stopServer(t.Name(), got.environment))
		t.Fatalf("opening a way to the API server: %v", err)
	}
	s.holdServer(holder, flavour)
	t.Cleanup(func() {
		way.closeAll()
		s.dropServer(holder)
		s.giveBack(t, got)
	})
	return got.behindFront(way)
}

// holderOf returns who has a server that a test or the builder of a fixture starts.
func holderOf(t testing.TB) any {
	if life, ok := t.(*fixtureLife); ok {
		return life
	}
	return t.Name()
}

// holdServer notes that somebody has a server of the flavour.
func (s *Servers) holdServer(holder any, flavour string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holders[holder]++
	if life, ok := holder.(*fixtureLife); ok {
		life.flavours = append(life.flavours, flavour)
	}
}

// dropServer notes that somebody is done with a server.
func (s *Servers) dropServer(holder any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holders[holder]--
	if s.holders[holder] == 0 {
		delete(s.holders, holder)
	}
}

// takeFromFixture ends the fixture that has waited longest of those with a server of the
// flavour, and returns that. While another test has a server there may soon be a use for the
// fixture, so it ends none.
func (s *Servers) takeFromFixture(holder any, flavour string) *testServer {
	ended := s.takeWaiting(holder, flavour)
	if ended == nil {
		return nil
	}
	ended.life.endLife()
	return s.takeIdle(flavour)
}

func (s *Servers) takeWaiting(holder any, flavour string) *fixture {
	s.mu.Lock()
	defer s.mu.Unlock()
	idle := map[any]bool{holder: true}
	for _, one := range slices.Concat(s.fixtures, s.shared) {
		idle[one.life] = true
	}
	for other := range s.holders {
		if !idle[other] {
			return nil
		}
	}
	for i, one := range s.fixtures {
		if slices.Contains(one.life.flavours, flavour) {
			s.fixtures = append(s.fixtures[:i:i], s.fixtures[i+1:]...)
			return one
		}
	}
	return nil
}

// takeIdle returns an idle server of the flavour, if there is one.
func (s *Servers) takeIdle(flavour string) *testServer {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, idle := range s.idle {
		if idle.flavour == flavour {
			s.idle = append(s.idle[:i:i], s.idle[i+1:]...)
			return idle
		}
	}
	return nil
}

// giveBack puts a server back to what it was, for the next test. One that it can't be
// done with is stopped, as is that of a test that failed: nobody knows how it is.
func (s *Servers) giveBack(t testing.TB, used *testServer) {
	t.Helper()
	if !t.Failed() && !s.isEnding() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), serverPatience)
		defer cancel()
		begun := time.Now()
		err := used.resetStore(ctx)
		timing.RecordStep(t.Name(), timing.Reset, begun)
		if err == nil {
			s.mu.Lock()
			s.idle = append(s.idle, used)
			used = nil
			if len(s.idle) > idleMax {
				used = s.idle[0]
				s.idle = s.idle[1:]
			}
			s.mu.Unlock()
		} else {
			t.Logf("the API server is stopped, as it can't be put back to what it was: %v", err)
		}
	}
	if used == nil {
		return
	}
	if err := stopServer(t.Name(), used.environment); err != nil {
		t.Errorf("stopping the API server: %v", err)
	}
}

// isEnding reports whether no other test comes.
func (s *Servers) isEnding() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.ending
}

func (s *testServer) secureAddress() envtest.ListenAddr {
	return s.environment.ControlPlane.APIServer.ListenAddr
}

// behindFront returns the server as a test sees it that reaches it by a front.
func (s *testServer) behindFront(way *testFront) (*envtest.Environment, *rest.Config) {
	host := func(text string) string {
		return strings.ReplaceAll(text, ":"+s.secureAddress().Port, ":"+way.listenPort())
	}
	environment, apiServer := *s.environment, *s.environment.ControlPlane.APIServer
	apiServer.Port = way.listenPort()
	environment.ControlPlane.APIServer = &apiServer
	environment.KubeConfig = []byte(host(string(environment.KubeConfig)))
	config := rest.CopyConfig(s.config)
	config.Host = host(config.Host)
	environment.Config = config
	return &environment, rest.CopyConfig(config)
}

// flavourOf returns what tells apart servers that cannot stand in for each other.
func flavourOf(environment *envtest.Environment) (string, error) {
	text, err := json.Marshal(map[string]any{
		"flags":       environment.ControlPlane.GetAPIServer().Configure().AsStrings(nil),
		"definitions": []any{environment.CRDs, environment.CRDInstallOptions.CRDs},
		"paths":       []any{environment.CRDDirectoryPaths, environment.CRDInstallOptions.Paths},
	})
	if err != nil {
		return "", fmt.Errorf("describing an API server: %w", err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), nil
}
