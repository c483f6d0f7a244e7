// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAConfigurationIsReadStrictly(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.yaml")
	content := "clusters:\n- name: hub\n- name: member1\n  nodeless: true\n  signingDuration: 3m\n"
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	config, err := ReadConfig(path)
	if err != nil {
		t.Fatal(err)
	}
	want := Config{Clusters: []Cluster{
		{Name: "hub"},
		{Name: "member1", Nodeless: true, SigningDuration: metav1.Duration{Duration: 3 * time.Minute}},
	}}
	if !reflect.DeepEqual(config, want) {
		t.Errorf("got %v, want %v", config, want)
	}

	if err := os.WriteFile(path, []byte("clusters:\n- title: hub\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadConfig(path); err == nil {
		t.Error("an unknown field is accepted")
	}
}

func TestNamesOfClustersAreChecked(t *testing.T) {
	for name, test := range map[string]struct {
		names []string
		valid bool
	}{
		"none":     {nil, true},
		"some":     {[]string{"hub", "member-1"}, true},
		"twice":    {[]string{"hub", "hub"}, false},
		"empty":    {[]string{""}, false},
		"no label": {[]string{"_etcd"}, false},
		"a path":   {[]string{"../hub"}, false},
		"too long": {[]string{strings.Repeat("a", MaxNameLength+1)}, false},
	} {
		t.Run(name, func(t *testing.T) {
			var config Config
			for _, name := range test.names {
				config.Clusters = append(config.Clusters, Cluster{Name: name})
			}
			if err := config.Validate(); (err == nil) != test.valid {
				t.Errorf("valid is %t, want %t (%v)", err == nil, test.valid, err)
			}
		})
	}
}

func TestTheDefaultConfigurationIsValid(t *testing.T) {
	if err := DefaultConfig().Validate(); err != nil {
		t.Error(err)
	}
}
