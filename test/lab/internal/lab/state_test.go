// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package lab

import (
	"fmt"
	"net/netip"
	"reflect"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestClustersKeepTheirIndex(t *testing.T) {
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
		"another duration":   {"its controllers run already", Cluster{Name: "a", SigningDuration: long}, false},
		"of another cluster": {"clusters differ", Cluster{Name: "b", Nodeless: true, SigningDuration: long}, true},
	} {
		t.Run(name, func(t *testing.T) {
			var s state
			if err := s.add([]Cluster{{Name: "a", SigningDuration: short}}); err != nil {
				t.Fatal(err)
			}
			if err := s.add([]Cluster{test.again}); (err == nil) != test.valid {
				t.Errorf("%s: valid is %t, want %t (%v)", test.reason, err == nil, test.valid, err)
			}
			if kept, _ := s.find("a"); kept.SigningDuration != short {
				t.Errorf("the signing duration became %s", kept.SigningDuration.Duration)
			}
		})
	}
}

func TestThereIsRoomForALimitedNumber(t *testing.T) {
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

func TestWhatIsSavedIsLoaded(t *testing.T) {
	l := &Lab{dir: t.TempDir()}
	if err := l.load(); err != nil || !l.IsEmpty() {
		t.Fatalf("a lab without state has %v (%v)", l.state, err)
	}
	l.state.Subnet = netip.MustParsePrefix("172.30.1.0/24")
	if err := l.state.add([]Cluster{{Name: "a", SigningDuration: metav1.Duration{Duration: time.Minute}}, {Name: "b", Nodeless: true}}); err != nil {
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
