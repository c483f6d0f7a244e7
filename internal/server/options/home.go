// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"fmt"

	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
)

// HomeOptions says on which cluster a component of a hub runs.
type HomeOptions struct {
	// Hosted is set if that is another one than the hub. Defaults to false.
	Hosted bool
}

// AddFlags adds the flags to the set.
func (o *HomeOptions) AddFlags(fs *pflag.FlagSet) {
	fs.BoolVar(&o.Hosted, "hosted", o.Hosted,
		"the pod runs on another cluster than the hub of --kubeconfig: its Lease is there, and who may read its metrics is asked there")
}

// HomeConfig returns the configuration of a client for the cluster that the
// component runs on: that of the hub unless it is hosted.
func (o *HomeOptions) HomeConfig(hub *rest.Config) (*rest.Config, error) {
	if !o.Hosted {
		return hub, nil
	}
	config, err := rest.InClusterConfig()
	if err != nil {
		return nil, fmt.Errorf("using the credentials of the pod (outside of one, leave --hosted out): %w", err)
	}
	return LimitRequests(config, 0, 0), nil
}
