// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package harness

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/config"
	"github.com/prometheus/common/model"
	"github.com/prometheus/common/promslog"
	promconfig "github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/discovery/targetgroup"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/scrape"
	"github.com/prometheus/prometheus/tsdb"
	"golang.org/x/sys/unix"

	"github.com/capstan-io/capstan/test/peers/prometheus/stories"
)

const (
	scrapeInterval = 5 * time.Second
	// RateInterval is what Grafana makes of that for $__rate_interval.
	RateInterval = "1m"
	// faster is how much shorter than in the rule file the time is after which an
	// alert fires.
	faster = 20
)

// Server is a Prometheus in this process, made of the parts of the real one.
type Server struct {
	db     *tsdb.DB
	engine *promql.Engine
	rules  *rules.Manager
}

// NewServer stores what it scrapes and evaluates the rules until the test ends.
func NewServer(t testing.TB) *Server {
	t.Helper()
	db, err := tsdb.Open(t.TempDir(), promslog.NewNopLogger(), nil, tsdb.DefaultOptions(), nil)
	if err != nil {
		t.Fatal(err)
	}
	s := &Server{db: db, engine: promql.NewEngine(promql.EngineOpts{
		MaxSamples: 5_000_000, Timeout: time.Minute, EnableAtModifier: true, EnableNegativeOffset: true, Parser: stories.PromQL(),
	})}
	s.rules = rules.NewManager(&rules.ManagerOptions{
		QueryFunc: rules.EngineQueryFunc(s.engine, db), AppendableV2: db, Queryable: db, Context: t.Context(), Parser: stories.PromQL(),
		NotifyFunc: func(context.Context, string, ...*rules.Alert) {},
	})
	if err := s.rules.Update(scrapeInterval, []string{fasterRules(t)}, labels.EmptyLabels(), "", nil); err != nil {
		t.Fatal(err)
	}
	go s.rules.Run()
	t.Cleanup(func() {
		s.rules.Stop()
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// fasterRules is the path of the rules with times that a test can wait for.
func fasterRules(t testing.TB) string {
	t.Helper()
	content, err := os.ReadFile(stories.RuleFile)
	if err != nil {
		t.Fatal(err)
	}
	shortened := regexp.MustCompile(`(?m)^    for: (\S+)$`).ReplaceAllFunc(content, func(line []byte) []byte {
		full, err := model.ParseDuration(string(line[len("    for: "):]))
		if err != nil {
			t.Fatal(err)
		}
		return fmt.Appendf(nil, "    for: %s", model.Duration(time.Duration(full)/faster))
	})
	path := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(path, shortened, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// ScrapeCluster reads the components of a cluster until the test ends.
func (s *Server) ScrapeCluster(t testing.TB, l *Lab, cluster string) {
	t.Helper()
	settings, err := promconfig.Load(fmt.Sprintf(`
global: {scrape_interval: %[1]s, scrape_timeout: %[1]s}
scrape_configs:
- job_name: capstan
  scheme: https
  authorization: {credentials: %[2]q}
  tls_config: {insecure_skip_verify: true}
`, scrapeInterval, l.RequestToken(t, cluster)), promslog.NewNopLogger())
	if err != nil {
		t.Fatal(err)
	}
	manager, err := scrape.NewManager(&scrape.Options{
		DiscoveryReloadInterval: model.Duration(scrapeInterval),
		HTTPClientOptions:       []config.HTTPClientOption{config.WithDialContextFunc(within(l.NetworkOf(t, cluster)))},
	}, promslog.NewNopLogger(), nil, nil, s.db, prometheus.NewRegistry())
	if err != nil {
		t.Fatal(err)
	}
	if err := manager.ApplyConfig(settings); err != nil {
		t.Fatal(err)
	}
	found := make(chan map[string][]*targetgroup.Group)
	go discover(t.Context(), l, cluster, found)
	go func() { _ = manager.Run(found) }()
	t.Cleanup(manager.Stop)
}

// discover sends the targets of a cluster until ctx ends. While the cluster does not
// answer, they stay as they are, as those of a Prometheus do.
func discover(ctx context.Context, l *Lab, cluster string, found chan<- map[string][]*targetgroup.Group) {
	for {
		if group, err := l.FindTargets(ctx, cluster); err == nil {
			select {
			case found <- map[string][]*targetgroup.Group{"capstan": {group}}:
			case <-ctx.Done():
				return
			}
		}
		select {
		case <-time.After(scrapeInterval):
		case <-ctx.Done():
			return
		}
	}
}

// within dials as a process in a network namespace does.
func within(network string) config.DialContextFunc {
	return func(ctx context.Context, protocol, address string) (net.Conn, error) {
		type result struct {
			conn net.Conn
			err  error
		}
		dialed := make(chan result, 1)
		go func() {
			runtime.LockOSThread() // and never unlocked: the thread ends with the goroutine
			conn, err := dialIn(ctx, network, protocol, address)
			dialed <- result{conn, err}
		}()
		r := <-dialed
		return r.conn, r.err
	}
}

func dialIn(ctx context.Context, network, protocol, address string) (net.Conn, error) {
	namespace, err := os.Open("/run/netns/" + network)
	if err != nil {
		return nil, fmt.Errorf("opening the network of the cluster: %w", err)
	}
	defer func() { _ = namespace.Close() }()
	if err := unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET); err != nil {
		return nil, fmt.Errorf("entering network %s: %w", network, err)
	}
	return (&net.Dialer{Timeout: scrapeInterval}).DialContext(ctx, protocol, address)
}

// RunQuery evaluates an expression now.
func (s *Server) RunQuery(ctx context.Context, expr string) (promql.Vector, error) {
	query, err := s.engine.NewInstantQuery(ctx, s.db, nil, expr, time.Now())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", expr, err)
	}
	defer query.Close()
	result := query.Exec(ctx)
	if result.Err != nil {
		return nil, fmt.Errorf("%s: %w", expr, result.Err)
	}
	switch value := result.Value.(type) {
	case promql.Vector:
		return append(promql.Vector{}, value...), nil
	case promql.Scalar:
		return promql.Vector{{F: value.V}}, nil
	default:
		return nil, fmt.Errorf("%s: the result is a %T", expr, value)
	}
}

// FiringAlerts returns the alerts of a rule that fire.
func (s *Server) FiringAlerts(name string) []*rules.Alert {
	var firing []*rules.Alert
	for _, rule := range s.rules.AlertingRules() {
		for _, alert := range rule.ActiveAlerts() {
			if rule.Name() == name && alert.State == rules.StateFiring {
				firing = append(firing, alert)
			}
		}
	}
	return firing
}

// ResolvedAt is when the last alert of a rule that has fired ended.
func (s *Server) ResolvedAt(name string) time.Time {
	var latest time.Time
	for _, rule := range s.rules.AlertingRules() {
		if rule.Name() != name {
			continue
		}
		rule.ForEachActiveAlert(func(alert *rules.Alert) {
			if alert.ResolvedAt.After(latest) {
				latest = alert.ResolvedAt
			}
		})
	}
	return latest
}

// FiredAlerts are the names of the rules of which an alert fires, or has ended lately.
func (s *Server) FiredAlerts() []string {
	var names []string
	for _, rule := range s.rules.AlertingRules() {
		if len(s.FiringAlerts(rule.Name())) > 0 || !s.ResolvedAt(rule.Name()).IsZero() {
			names = append(names, rule.Name())
		}
	}
	return names
}
