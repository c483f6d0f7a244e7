// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"fmt"
	"net/netip"
	"reflect"
	"testing"
)

func TestAdd(t *testing.T) {
	var s state
	for _, names := range [][]string{{"a", "b"}, {"b", "c"}} {
		var clusters []Cluster
		for _, name := range names {
			clusters = append(clusters, Cluster{Name: name})
		}
		if err := s.add(clusters); err != nil {
			t.Fatal(err)
		}
	}
	for i, name := range []string{"a", "b", "c"} {
		if got, found := s.find(name); !found || got.Index != i+1 {
			t.Errorf("%s has index %d", name, got.Index)
		}
	}
	if err := s.add([]Cluster{{Name: "a", Nodeless: true}}); err == nil {
		t.Error("a cluster lost its node")
	}
}

func TestAddTooMany(t *testing.T) {
	var s state
	for i := range maxClusters {
		if err := s.add([]Cluster{{Name: fmt.Sprint(i)}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.add([]Cluster{{Name: "last"}}); err == nil {
		t.Error("there is room for one more")
	}
}

func TestSaveAndLoad(t *testing.T) {
	l := &Lab{dir: t.TempDir()}
	if err := l.load(); err != nil || !l.IsEmpty() {
		t.Fatalf("a lab without state has %v (%v)", l.state, err)
	}
	l.state.Subnet = netip.MustParsePrefix("172.30.1.0/24")
	if err := l.state.add([]Cluster{{Name: "a"}, {Name: "b", Nodeless: true}}); err != nil {
		t.Fatal(err)
	}
	if err := l.save(); err != nil {
		t.Fatal(err)
	}
	loaded := &Lab{dir: l.dir}
	if err := loaded.load(); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(loaded.state, l.state) {
		t.Errorf("saved %v, loaded %v", l.state, loaded.state)
	}
}
