// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package hubfile

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/capstan-io/capstan/internal/cluster/fleet"
)

// part notes the connections that it gets.
type part struct{ engaged chan *fleet.Connection }

func (p *part) Name() string { return "test" }
func (p *part) Engage(_ context.Context, c *fleet.Connection) error {
	p.engaged <- c
	return nil
}

func (p *part) expect(t *testing.T, name, hub string) {
	t.Helper()
	select {
	case c := <-p.engaged:
		if string(c.Name) != name || c.HubHost != hub || c.AgentID != "id" {
			t.Errorf("connected as %q (agent %q) to %q, want %q to %q", c.Name, c.AgentID, c.HubHost, name, hub)
		}
	case <-time.After(time.Minute):
		t.Fatalf("nothing was connected to %s", hub)
	}
}

// files are the files of a hub credential.
type files struct {
	t   *testing.T
	dir string
}

func (f files) write(name string, content []byte) {
	f.t.Helper()
	if err := os.WriteFile(filepath.Join(f.dir, name), content, 0o600); err != nil {
		f.t.Fatal(err)
	}
}

func (f files) kubeconfig(server string) {
	f.write("kubeconfig", fmt.Appendf(nil, `apiVersion: v1
kind: Config
clusters: [{name: hub, cluster: {server: %q, insecure-skip-tls-verify: true}}]
users: [{name: me, user: {client-certificate: tls.crt, client-key: tls.key}}]
contexts: [{name: c, context: {cluster: hub, user: me}}]
current-context: c
`, server))
}

// certificate writes a new certificate that ends at the time.
func (f files) certificate(end time.Time) {
	f.t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		f.t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "me"}, NotBefore: end.Add(-time.Hour), NotAfter: end,
	}
	cert, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		f.t.Fatal(err)
	}
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		f.t.Fatal(err)
	}
	f.write("tls.crt", pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert}))
	f.write("tls.key", pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}))
}

// scene is a KubeconfigFollower with its files.
type scene struct {
	*testing.T
	files
	part     *part
	registry *fleet.Registry
	follower *KubeconfigFollower
	log      *logged
}

// logged keeps the lines of a log.
type logged struct {
	mu    sync.Mutex
	lines []string
}

func (l *logged) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(strings.Join(l.lines, "\n"), text)
}

func newScene(t *testing.T, clk clock.Clock) *scene {
	t.Helper()
	s := &scene{T: t, files: files{t: t, dir: t.TempDir()}, log: &logged{}}
	s.part = &part{engaged: make(chan *fleet.Connection, 100)}
	s.registry = fleet.NewRegistry(fleet.RegistryOptions{Parts: []fleet.Part{s.part}})
	s.follower = NewKubeconfigFollower(FollowerOptions{
		File: filepath.Join(s.dir, "kubeconfig"), AgentID: "id", Member: &rest.Config{Host: "https://member.invalid"},
		Registry: s.registry, Clock: clk, Log: funcr.New(func(_, line string) {
			s.log.mu.Lock()
			defer s.log.mu.Unlock()
			s.log.lines = append(s.log.lines, line)
		}, funcr.Options{}),
	})
	return s
}

// connected is a scene whose KubeconfigFollower runs with a credential for the hub.
func connected(t *testing.T, h *hub) *scene {
	t.Helper()
	s := newScene(t, clock.RealClock{})
	s.kubeconfig(h.URL)
	s.certificate(time.Now().Add(time.Hour))
	s.write(clusterNameFile, []byte(h.cluster))
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() {
		if err := s.follower.RunFollower(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		cancel()
		running.Wait()
		s.registry.Close()
	})
	return s
}

func (s *scene) eventually(what string, condition func() bool) {
	s.Helper()
	for end := time.Now().Add(time.Minute); !condition(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			s.Fatalf("waited in vain for %s; the log is %q", what, s.log.lines)
		}
	}
}

func (s *scene) disengaged(why string) {
	s.Helper()
	s.eventually("the connection to end", func() bool { return len(s.registry.EngagedClusters()) == 0 })
	s.eventually("a word about it", func() bool { return s.log.count(why) == 1 })
}

func TestTheHubsAcceptanceIsFollowed(t *testing.T) {
	h := newHub(t, "c1")
	s := connected(t, h)
	s.part.expect(t, "c1", h.URL)

	h.change(func() { h.accepts, h.works = false, false })
	s.disengaged("does not accept")

	h.change(func() { h.accepts = true })
	h.change(func() { h.works = true })
	s.part.expect(t, "c1", h.URL)

	h.change(func() { h.exists = false })
	s.disengaged("does not exist")
	h.change(func() { h.exists = true })
	s.part.expect(t, "c1", h.URL)
	// The log follows the parts.
	s.eventually("three lines that say that works are taken", func() bool { return s.log.count("are taken from the hub") == 3 })
}

func TestAClusterThatWasNeverAcceptedIsNotEngaged(t *testing.T) {
	h := newHub(t, "c1")
	h.accepts = false
	s := connected(t, h)
	s.eventually("a word about it", func() bool { return s.log.count("does not accept") == 1 })
	if len(s.part.engaged) != 0 {
		t.Error("it was engaged")
	}
}

func TestAHubThatTellsNothingIsAskedRarely(t *testing.T) {
	h := newHub(t, "c1")
	h.readable = false
	s := connected(t, h)
	s.eventually("a word about it", func() bool { return s.log.count("the agent may not read ManagedCluster") == 1 })
	before := h.asked()
	time.Sleep(time.Second)
	if asked := h.asked() - before; asked > 10 {
		t.Errorf("%d requests in a second, want at most 10", asked)
	}
	if len(s.part.engaged) != 0 {
		t.Error("it was engaged")
	}
	h.change(func() { h.readable = true })
	s.certificate(time.Now().Add(2 * time.Hour))
	s.part.expect(t, "c1", h.URL)

	h.change(func() { h.readable = false })
	h.CloseClientConnections()
	s.eventually("the connection to end", func() bool { return len(s.registry.EngagedClusters()) == 0 })
}

func TestNothingIsLeftOfConnectionsThatEnded(t *testing.T) {
	h := newHub(t, "c1")
	s := connected(t, h)
	s.part.expect(t, "c1", h.URL)
	again := func(times int) {
		for range times {
			h.change(func() { h.accepts = false })
			s.eventually("the connection to end", func() bool { return len(s.registry.EngagedClusters()) == 0 })
			h.change(func() { h.accepts = true })
			s.part.expect(t, "c1", h.URL)
		}
	}
	const times = 20
	again(2) // so that the client has opened what it keeps open
	before := runtime.NumGoroutine()
	again(times)
	// One of each would be twenty; a few more or less are requests under way.
	s.eventually("the goroutines of old connections to end", func() bool { return runtime.NumGoroutine() <= before+times/2 })
}

func TestTheFilesAreFollowed(t *testing.T) {
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	one, two := newHub(t, "c1"), newHub(t, "c1")
	f := newScene(t, clocktesting.NewFakeClock(now))
	defer f.registry.Close()
	defer f.follower.closeConnection()
	look := func(problem string) {
		t.Helper()
		err := f.follower.reloadFiles(t.Context())
		if problem == "" && err != nil || problem != "" && (err == nil || !strings.Contains(err.Error(), problem)) {
			t.Fatalf("got the problem %v, want %q", err, problem)
		}
	}
	expect := func(name, hub string) {
		t.Helper()
		f.eventually("a connection", func() bool { f.follower.runRound(t.Context()); return len(f.part.engaged) > 0 })
		f.part.expect(t, name, hub)
	}
	look("does not exist")
	f.write("kubeconfig", []byte("nonsense: ["))
	look("not a valid kubeconfig")
	f.kubeconfig(one.URL)
	look("tls.crt")
	f.certificate(now.Add(-time.Minute))
	look("cluster-name")
	f.write(clusterNameFile, []byte("c1\n"))
	look("expired at 2025-12-31T23:59:00Z")
	f.certificate(now.Add(time.Hour))
	look("")
	expect("c1", one.URL)

	look("")
	f.certificate(now.Add(2 * time.Hour))
	look("")
	f.write("tls.key", []byte("half written"))
	look("do not match")
	f.follower.runRound(t.Context())
	if got := f.registry.EngagedClusters(); len(got) != 1 || len(f.part.engaged) != 0 {
		t.Errorf("a renewed or broken certificate replaced the connection: %v", got)
	}

	f.certificate(now.Add(2 * time.Hour))
	f.kubeconfig(two.URL)
	look("")
	expect("c1", two.URL)
	two.change(func() { two.cluster = "c2" })
	f.write(clusterNameFile, []byte("c2"))
	look("")
	expect("c2", two.URL)
	if got := f.registry.EngagedClusters(); len(got) != 1 || got[0] != "c2" {
		t.Errorf("connected are %v, want only c2", got)
	}
}
