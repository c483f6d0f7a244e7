// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package options has the flags that several components share. A component
// takes those it has a use for; flags of one component alone stand with its
// command.
package options

import (
	"crypto/tls"
	"fmt"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/flowcontrol"
)

// ClientOptions says how a component reaches its own API server.
type ClientOptions struct {
	// Kubeconfig is a file. Defaults to "", the credentials of the pod.
	Kubeconfig string
	// QPS and Burst limit the client's requests. Zero, the default, is no limit:
	// the server's priority and fairness decides, and concurrency is bounded.
	QPS   float32
	Burst int
}

// AddFlags adds the flags to the set.
func (o *ClientOptions) AddFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.Kubeconfig, "kubeconfig", o.Kubeconfig, "kubeconfig file; the credentials of the pod if empty")
	fs.Float32Var(&o.QPS, "kube-api-qps", o.QPS, "requests per second to the API server; 0 is no limit")
	fs.IntVar(&o.Burst, "kube-api-burst", o.Burst, "requests above the limit of --kube-api-qps for a moment")
}

// ClientConfig returns the configuration of a client.
func (o *ClientOptions) ClientConfig() (*rest.Config, error) {
	if o.Kubeconfig == "" {
		config, err := rest.InClusterConfig()
		if err != nil {
			return nil, fmt.Errorf("using the credentials of the pod (outside of one, give a file with --kubeconfig): %w", err)
		}
		return LimitRequests(config, o.QPS, o.Burst), nil
	}
	config, err := clientcmd.BuildConfigFromFlags("", o.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("loading the kubeconfig %q: %w", o.Kubeconfig, err)
	}
	return LimitRequests(config, o.QPS, o.Burst), nil
}

// LimitRequests sets the client-side request limit of the config: none if qps is zero.
// All clients that are made of the config, and of copies of it, share the limit.
// A burst of zero is as much as qps.
func LimitRequests(config *rest.Config, qps float32, burst int) *rest.Config {
	if qps <= 0 {
		config.QPS = -1
		config.Burst = 0
		config.RateLimiter = nil // client-go takes 0 for "5 per second"
		return config
	}
	if burst <= 0 {
		burst = int(max(qps, 1))
	}
	config.QPS = qps
	config.Burst = burst
	config.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(qps, burst)
	return config
}

// LeaderElection says how the replicas of a component agree on which one works.
type LeaderElection struct {
	Disabled      bool
	LeaseDuration time.Duration
	RenewDeadline time.Duration
	RetryPeriod   time.Duration
}

// DefaultLeaderElection has times that survive a minute without the API server
// and cost two writes a minute.
func DefaultLeaderElection() LeaderElection {
	return LeaderElection{
		LeaseDuration: 137 * time.Second, RenewDeadline: 107 * time.Second, RetryPeriod: 26 * time.Second,
	}
}

// AddFlags adds the flags to the set.
func (o *LeaderElection) AddFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&o.Disabled, "disable-leader-election", o.Disabled, "work without an election; for a single replica")
	fs.DurationVar(&o.LeaseDuration, "leader-election-lease-duration", o.LeaseDuration, "time after which a silent leader is replaced")
	fs.DurationVar(&o.RenewDeadline, "leader-election-renew-deadline", o.RenewDeadline, "time after which a leader that cannot renew gives up")
	fs.DurationVar(&o.RetryPeriod, "leader-election-retry-period", o.RetryPeriod, "time between attempts to become or stay leader")
}

// ServerOptions says where a component serves its health and metrics, and with which
// TLS settings it serves at all.
type ServerOptions struct {
	// HealthProbePort serves /healthz and /readyz over HTTP. Defaults to 8000; 0
	// turns them off.
	HealthProbePort int
	// SecureHealthProbePort serves the same over HTTPS. Defaults to 0, which
	// turns it off.
	SecureHealthProbePort int
	// MetricsPort serves /metrics over HTTPS to those who may read it. Defaults
	// to 8080; 0 turns it off.
	MetricsPort int
	// TLSMinVersion is VersionTLS12 or VersionTLS13. Defaults to VersionTLS12.
	TLSMinVersion string
	// TLSCipherSuites are Go's names of suites for TLS 1.2. Defaults to Go's choice.
	TLSCipherSuites []string
}

// DefaultServer returns the defaults.
func DefaultServer() ServerOptions {
	return ServerOptions{HealthProbePort: 8000, MetricsPort: 8080, TLSMinVersion: "VersionTLS12"}
}

// AddFlags adds the flags to the set.
func (o *ServerOptions) AddFlags(fs *pflag.FlagSet) {
	fs.IntVar(&o.HealthProbePort, "health-probe-port", o.HealthProbePort, "port of /healthz and /readyz (HTTP); 0 turns them off")
	fs.IntVar(&o.MetricsPort, "metrics-port", o.MetricsPort, "port of /metrics (HTTPS); 0 turns it off")
	fs.StringVar(&o.TLSMinVersion, "tls-min-version", o.TLSMinVersion, "VersionTLS12 or VersionTLS13")
	fs.StringSliceVar(&o.TLSCipherSuites, "tls-cipher-suites", o.TLSCipherSuites, "cipher suites for TLS 1.2, by Go's names")
}

// AddSecureHealthFlag adds the flag of components that serve their health over
// HTTPS as well.
func (o *ServerOptions) AddSecureHealthFlag(fs *pflag.FlagSet) {
	fs.IntVar(&o.SecureHealthProbePort, "secure-health-probe-port", o.SecureHealthProbePort,
		"port of /healthz and /readyz (HTTPS, self-signed); 0 turns it off")
}

// TLSConfigurer returns a function that puts the TLS settings into a server's config.
func (o *ServerOptions) TLSConfigurer() (func(*tls.Config), error) {
	var version uint16
	switch o.TLSMinVersion {
	case "", "VersionTLS12":
		version = tls.VersionTLS12
	case "VersionTLS13":
		version = tls.VersionTLS13
	default:
		return nil, fmt.Errorf("--tls-min-version %q: want VersionTLS12 or VersionTLS13", o.TLSMinVersion)
	}
	ids := map[string]uint16{}
	for _, suite := range tls.CipherSuites() {
		ids[suite.Name] = suite.ID
	}
	var suites []uint16
	for _, name := range o.TLSCipherSuites {
		id, ok := ids[name]
		if !ok {
			return nil, fmt.Errorf("--tls-cipher-suites: %q is unknown or not secure", name)
		}
		suites = append(suites, id)
	}
	return func(c *tls.Config) {
		c.MinVersion = version
		c.CipherSuites = suites
	}, nil
}
