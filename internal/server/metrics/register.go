// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package metrics

import (
	"errors"
	"fmt"

	"github.com/prometheus/client_golang/prometheus"
)

// RegisterCollectors adds metrics to the registry. A nil registry takes none.
func RegisterCollectors(registry prometheus.Registerer, collectors ...prometheus.Collector) error {
	if registry == nil {
		return nil
	}
	var errs []error
	for _, c := range collectors {
		if err := registry.Register(c); err != nil {
			errs = append(errs, fmt.Errorf("registering metrics: %w", err))
		}
	}
	return errors.Join(errs...)
}
