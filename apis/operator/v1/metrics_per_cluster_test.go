// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

import "testing"

func TestMetricsPerClusterTakesBooleansOnly(t *testing.T) {
	for value, want := range map[string]bool{"true": true, "True": true, "1": true, "false": false, "0": false} {
		cm := &ClusterManager{}
		cm.Annotations = map[string]string{AnnotationMetricsPerCluster: value}
		if got, err := cm.MetricsPerCluster(); got != want || err != nil {
			t.Errorf("%q: got %t, %v, want %t", value, got, err, want)
		}
	}
	for _, value := range []string{"yes", ""} {
		cm := &ClusterManager{}
		cm.Annotations = map[string]string{AnnotationMetricsPerCluster: value}
		if got, err := cm.MetricsPerCluster(); got || err == nil {
			t.Errorf("%q: got %t without an error", value, got)
		}
	}
	if got, err := (&ClusterManager{}).MetricsPerCluster(); got || err != nil {
		t.Errorf("without the annotation: got %t, %v", got, err)
	}
}
