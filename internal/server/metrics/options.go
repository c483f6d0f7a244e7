// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/client-go/rest"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	controllermetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"github.com/capstan-io/capstan/internal/server/certs"
	"github.com/capstan-io/capstan/internal/server/guard"
	"github.com/capstan-io/capstan/internal/server/httpserver"
	"github.com/capstan-io/capstan/internal/server/version"
)

const path = "/metrics"

// NewMetricsServer returns a server on the port for those who may get /metrics, over HTTPS with a
// certificate it signs itself: it is made when somebody connects first, so that it costs a
// component's start nothing. The cluster of the config knows who may read. Port 0 turns the
// server off, which is nil then. The function setTLS, which may be nil, sets versions and
// cipher suites.
func NewMetricsServer(port int, setTLS func(*tls.Config), config *rest.Config) (*manager.Server, error) {
	if port == 0 {
		return nil, nil
	}
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, fmt.Errorf("making the client of the metrics server: %w", err)
	}
	reviews, err := guard.NewAccessGuard(config, httpClient)
	if err != nil {
		return nil, err
	}
	serving := &tls.Config{MinVersion: tls.VersionTLS12}
	if setTLS != nil {
		setTLS(serving)
	}
	serving.GetCertificate = certs.NewSelfSigned("capstan-metrics", clock.RealClock{}).GetCertificate
	mux := http.NewServeMux()
	// A metric whose values cannot be found leaves the others as they are.
	all := promhttp.HandlerFor(controllermetrics.Registry, promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError})
	mux.Handle(path, protectHandler(reviews, log.Log.WithName("metrics"), all))
	server, err := httpserver.NewListeningServer(httpserver.ListenOptions{Name: "metrics", Handler: mux, Address: ":" + strconv.Itoa(port), TLS: serving})
	if err != nil {
		return nil, fmt.Errorf("serving metrics on --metrics-port %d (0 turns them off): %w", port, err)
	}
	return server, nil
}

// RegisterBuildInfo adds the gauge capstan_build_info, which is always 1 and
// tells the version of the component in its labels, to the registry. A
// registry that has it already is left as it is.
func RegisterBuildInfo(registry prometheus.Registerer, component string) error {
	gauge := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "capstan_build_info",
		Help: "Always 1; the labels tell which component of which release this is.",
		ConstLabels: prometheus.Labels{
			"component":  component,
			"version":    version.SemanticVersion(),
			"go_version": runtime.Version(),
		},
	})
	gauge.Set(1)
	err := registry.Register(gauge)
	if errors.As(err, &prometheus.AlreadyRegisteredError{}) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("registering the metric capstan_build_info of %q: %w", component, err)
	}
	return nil
}
