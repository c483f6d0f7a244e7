// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"fmt"
	"net/netip"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestClustersKeepTheirIndex(t *testing.T) {
	var s State
	for _, names := range [][]string{{"a", "b"}, {"b", "c"}} {
		var clusters []Cluster
		for _, name := range names {
			clusters = append(clusters, Cluster{Name: name})
		}
		if err := s.Add(clusters); err != nil {
			t.Fatal(err)
		}
	}
	for i, name := range []string{"a", "b", "c"} {
		if got, found := s.Find(name); !found || got.Index != i+1 {
			t.Errorf("%s has index %d", name, got.Index)
		}
	}
}

func TestClustersWithoutANodeHaveOneDisk(t *testing.T) {
	synced := Cluster{Name: "synced", Nodeless: true, Fsync: true}
	for name, test := range map[string]struct {
		reason string
		next   Cluster
		valid  bool
	}{
		"alike":       {"they share an etcd", Cluster{Name: "b", Nodeless: true, Fsync: true}, true},
		"otherwise":   {"one etcd cannot do both", Cluster{Name: "b", Nodeless: true}, false},
		"with a node": {"it has an etcd of its own", Cluster{Name: "b"}, true},
	} {
		t.Run(name, func(t *testing.T) {
			var s State
			if err := s.Add([]Cluster{synced}); err != nil {
				t.Fatal(err)
			}
			if err := s.Add([]Cluster{test.next}); (err == nil) != test.valid {
				t.Errorf("%s: valid is %t, want %t (%v)", test.reason, err == nil, test.valid, err)
			}
		})
	}
}

func TestClustersStayWhatTheyWereMade(t *testing.T) {
	short, long := metav1.Duration{Duration: time.Minute}, metav1.Duration{Duration: time.Hour}
	for name, test := range map[string]struct {
		reason string
		again  Cluster
		valid  bool
	}{
		"the same":           {"up is called twice", Cluster{Name: "a", SigningDuration: short}, true},
		"nothing asked for":  {"up --name starts what there is", Cluster{Name: "a"}, true},
		"without a node":     {"its objects are in another etcd", Cluster{Name: "a", Nodeless: true}, false},
		"with fsync":         {"its etcd runs already", Cluster{Name: "a", Fsync: true}, false},
		"another duration":   {"its controllers run already", Cluster{Name: "a", SigningDuration: long}, false},
		"of another cluster": {"clusters differ", Cluster{Name: "b", Nodeless: true, SigningDuration: long}, true},
	} {
		t.Run(name, func(t *testing.T) {
			var s State
			if err := s.Add([]Cluster{{Name: "a", SigningDuration: short}}); err != nil {
				t.Fatal(err)
			}
			if err := s.Add([]Cluster{test.again}); (err == nil) != test.valid {
				t.Errorf("%s: valid is %t, want %t (%v)", test.reason, err == nil, test.valid, err)
			}
			if kept, _ := s.Find("a"); kept.SigningDuration != short {
				t.Errorf("the signing duration became %s", kept.SigningDuration.Duration)
			}
		})
	}
}

func TestThereIsRoomForALimitedNumber(t *testing.T) {
	var s State
	for i := range MaxClusters {
		if err := s.Add([]Cluster{{Name: fmt.Sprint(i)}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Add([]Cluster{{Name: "last"}}); err == nil {
		t.Error("there is room for one more")
	}
}

func TestWhatIsSavedIsLoaded(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lab.json")
	s, err := Load(file)
	if err != nil || len(s.Clusters) > 0 {
		t.Fatalf("a lab without state has %v (%v)", s, err)
	}
	s.Subnet = netip.MustParsePrefix("172.30.1.0/24")
	if err := s.Add([]Cluster{{Name: "a", SigningDuration: metav1.Duration{Duration: time.Minute}}, {Name: "b", Nodeless: true}}); err != nil {
		t.Fatal(err)
	}
	if err := s.Save(file); err != nil {
		t.Fatal(err)
	}
	loaded, err := Load(file)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(loaded, s) {
		t.Errorf("saved %v, loaded %v", s, loaded)
	}
}
