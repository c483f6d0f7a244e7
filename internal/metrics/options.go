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
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/capstan-io/capstan/internal/certs"
	"github.com/capstan-io/capstan/internal/guard"
	"github.com/capstan-io/capstan/internal/version"
)

// disabled is what controller-runtime takes for "no metrics server".
const disabled = "0"

// Options returns the options of a metrics server on the port that serves
// those who may get /metrics, over HTTPS with a certificate it signs itself:
// it is made when somebody connects first, so that it costs a component's
// start nothing. Port 0 turns the server off. The function setTLS, which may
// be nil, sets versions and cipher suites.
func Options(port int, setTLS func(*tls.Config)) metricsserver.Options {
	if port == 0 {
		return metricsserver.Options{BindAddress: disabled}
	}
	certificate := certs.NewSelfSigned("capstan-metrics", clock.RealClock{})
	options := metricsserver.Options{
		BindAddress:   ":" + strconv.Itoa(port),
		SecureServing: true,
		// A metric whose values cannot be found leaves the others as they are.
		HandlerOpts: []func(*promhttp.HandlerOpts){func(o *promhttp.HandlerOpts) { o.ErrorHandling = promhttp.ContinueOnError }},
		TLSOpts:     []func(*tls.Config){func(c *tls.Config) { c.GetCertificate = certificate.Get }},
		FilterProvider: func(config *rest.Config, httpClient *http.Client) (metricsserver.Filter, error) {
			reviews, err := guard.New(config, httpClient)
			if err != nil {
				return nil, err
			}
			return protect(reviews), nil
		},
	}
	if setTLS != nil {
		options.TLSOpts = append(options.TLSOpts, setTLS)
	}
	return options
}

// AskedOf returns the options with another cluster, that of the config, to ask
// who may read the metrics than the one that the component works on.
func AskedOf(options metricsserver.Options, config *rest.Config) metricsserver.Options {
	filter := options.FilterProvider
	if filter == nil {
		return options
	}
	options.FilterProvider = func(*rest.Config, *http.Client) (metricsserver.Filter, error) {
		httpClient, err := rest.HTTPClientFor(config)
		if err != nil {
			return nil, fmt.Errorf("making the client of the metrics server: %w", err)
		}
		return filter(config, httpClient)
	}
	return options
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
			"version":    version.Get(),
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
