// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/spf13/pflag"
	genericserver "k8s.io/apiserver/pkg/server"
	serveroptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/apiserver/pkg/util/compatibility"
	"k8s.io/utils/clock"

	"github.com/capstan-io/capstan/internal/server/httpserver"
	"github.com/capstan-io/capstan/internal/server/options"
)

const (
	// defaultPort is where the Service finds the server.
	defaultPort = 8443
	// defaultRequestsPerUser is how many requests one user may have under way.
	defaultRequestsPerUser = 200
	// streamsPerConnection is how many requests the hub's API server may send over
	// one connection: it sends all requests of all users over few.
	streamsPerConnection = 1000
	// connectionsMax is how many connections clients may have together. The hub's API
	// servers, kubelets and those that read metrics need a few each.
	connectionsMax = 256
	// shutdownDelay is how long the server goes on after it was told to stop: the
	// hub needs a moment to hear that it is not ready.
	shutdownDelay = 5 * time.Second
)

// ServerOptions are the flags of the server.
type ServerOptions struct {
	// Hub is the API server that is asked for everything.
	Hub options.ClientOptions
	// Serving is where the server listens, and its certificate, whose files are
	// read again when they change.
	Serving        *serveroptions.SecureServingOptionsWithLoopback
	Authentication *serveroptions.DelegatingAuthenticationOptions
	Authorization  *serveroptions.DelegatingAuthorizationOptions
	// RequestsPerUser is how many requests one user may have under way at a time.
	// Watches are counted apart. 0 is no limit.
	RequestsPerUser int
	// ShutdownDelay is how long the server goes on after it was told to stop.
	ShutdownDelay time.Duration
}

// NewServerOptions returns the defaults.
func NewServerOptions() *ServerOptions {
	serving := serveroptions.NewSecureServingOptions().WithLoopback()
	serving.BindPort = defaultPort
	serving.ServerCert.CertDirectory = "" // one that is made for itself stays in memory
	serving.HTTP2MaxStreamsPerConnection = streamsPerConnection
	return &ServerOptions{
		Serving:         serving,
		Authentication:  serveroptions.NewDelegatingAuthenticationOptions(),
		Authorization:   serveroptions.NewDelegatingAuthorizationOptions().WithAlwaysAllowPaths(probePaths()...),
		RequestsPerUser: defaultRequestsPerUser,
		ShutdownDelay:   shutdownDelay,
	}
}

// AddFlags adds the flags to the set.
func (o *ServerOptions) AddFlags(fs *pflag.FlagSet) {
	o.Hub.AddFlags(fs)
	o.Serving.AddFlags(fs)
	fs.IntVar(&o.RequestsPerUser, "max-requests-per-user", o.RequestsPerUser,
		"requests that one user may have under way at a time, and as many watches; more are answered with 429; 0 is no limit")
	fs.DurationVar(&o.ShutdownDelay, "shutdown-delay-duration", o.ShutdownDelay, "time for which requests are still answered after the process was told to stop")
}

// Validate returns everything that is wrong with the options.
func (o *ServerOptions) Validate() error {
	var limit error
	if o.RequestsPerUser < 0 {
		limit = fmt.Errorf("--max-requests-per-user: %d is not a number of requests; 0 is no limit", o.RequestsPerUser)
	}
	return errors.Join(errors.Join(o.Serving.Validate()...), limit)
}

// ServerConfig returns the configuration of a server: it reads the certificate, and
// from the hub how requests are authenticated.
func (o *ServerOptions) ServerConfig() (*ServerConfig, error) {
	if err := o.Serving.MaybeDefaultWithSelfSignedCerts("localhost", nil, []net.IP{net.IPv4(127, 0, 0, 1)}); err != nil {
		return nil, fmt.Errorf("make a certificate: %w", err)
	}
	hub, err := o.Hub.ClientConfig()
	if err != nil {
		return nil, err
	}
	hub.DisableCompression = true // the hub is near, and compressing costs more than it saves
	scheme, codecs, err := newScheme()
	if err != nil {
		return nil, err
	}
	bodies, err := newBodyChecker(scheme)
	if err != nil {
		return nil, err
	}
	generic := genericserver.NewConfig(codecs)
	generic.EffectiveVersion = compatibility.DefaultBuildEffectiveVersion()
	generic.EnableProfiling = false
	generic.ShutdownDelayDuration = o.ShutdownDelay
	if err := o.Serving.ApplyTo(&generic.SecureServing, &generic.LoopbackClientConfig); err != nil {
		return nil, fmt.Errorf("set up the port %d: %w", o.Serving.BindPort, err)
	}
	if serving := generic.SecureServing; serving != nil { // nil with --secure-port=0
		serving.Listener = httpserver.BoundConnections(serving.Listener, connectionsMax)
	}
	configureOpenAPI(generic, scheme)
	o.Authentication.RemoteKubeConfigFile, o.Authorization.RemoteKubeConfigFile = o.Hub.Kubeconfig, o.Hub.Kubeconfig
	if err := o.Authentication.ApplyTo(&generic.Authentication, generic.SecureServing, generic.OpenAPIConfig); err != nil {
		return nil, fmt.Errorf("set up authentication by the hub: %w", err)
	}
	generic.Authentication.Authenticator = refuseAnonymous(generic.Authentication.Authenticator)
	if err := o.Authorization.ApplyTo(&generic.Authorization); err != nil {
		return nil, fmt.Errorf("set up authorization by the hub: %w", err)
	}
	generic.BuildHandlerChainFunc = limitedHandlerChain(newUserRequestLimiter(o.RequestsPerUser), bodies)
	return &ServerConfig{Generic: generic, Hub: hub, Scheme: scheme, Codecs: codecs, Clock: clock.RealClock{}, bodies: bodies}, nil
}
