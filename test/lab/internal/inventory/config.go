// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package inventory says which clusters a lab is to have, and remembers which it
// has.
package inventory

import (
	"fmt"
	"os"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"
)

// MaxNameLength keeps what is named after a cluster within the limits of the
// kernel.
const MaxNameLength = 40

// Config says which clusters a lab has.
type Config struct {
	Clusters []Cluster `json:"clusters"`
}

// Cluster says what a cluster is like.
type Cluster struct {
	Name string `json:"name"`
	// Nodeless makes a cluster of an API server and controllers only, which
	// keeps objects but runs no pods.
	Nodeless bool `json:"nodeless,omitempty"`
	// Fsync lets the cluster's etcd wait for the disk, as it does in production.
	// Clusters without a node share an etcd, so all of them have it or none.
	Fsync bool `json:"fsync,omitempty"`
	// SigningDuration is how long the certificates last at most that the
	// cluster signs on request, such as "10m". It is Kubernetes' own default,
	// one year, if zero.
	SigningDuration metav1.Duration `json:"signingDuration,omitzero"`
}

// DefaultConfig is what a lab is made of if nothing else is asked for.
func DefaultConfig() Config {
	return Config{Clusters: []Cluster{{Name: "hub"}, {Name: "member1"}}}
}

// ReadConfig reads a configuration from a YAML file.
func ReadConfig(path string) (Config, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return Config{}, fmt.Errorf("read configuration: %w", err)
	}
	var config Config
	if err := yaml.UnmarshalStrict(content, &config); err != nil {
		return Config{}, fmt.Errorf("read configuration from %s: %w", path, err)
	}
	return config, nil
}

// Validate tells what is wrong with the configuration.
func (c Config) Validate() error {
	seen := map[string]bool{}
	for _, cluster := range c.Clusters {
		if problems := validation.IsDNS1123Label(cluster.Name); len(problems) > 0 {
			return fmt.Errorf("cluster name %q: %s", cluster.Name, strings.Join(problems, "; "))
		}
		if len(cluster.Name) > MaxNameLength {
			return fmt.Errorf("cluster name %q is longer than %d characters", cluster.Name, MaxNameLength)
		}
		if seen[cluster.Name] {
			return fmt.Errorf("cluster name %q is given twice", cluster.Name)
		}
		seen[cluster.Name] = true
		if cluster.SigningDuration.Duration < 0 {
			return fmt.Errorf("cluster %q: the signing duration %s is negative", cluster.Name, cluster.SigningDuration.Duration)
		}
	}
	return nil
}
