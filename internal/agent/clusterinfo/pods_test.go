// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clusterinfo

import (
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/capstan-io/capstan/internal/agent/clusterinfo/requests"
)

func podOf(uid, node string) *requests.PodRequest {
	pod := &corev1.Pod{Spec: corev1.PodSpec{NodeName: node}}
	pod.UID = types.UID(uid)
	return new(requests.ResourceNames).PodRequestOf(pod)
}

// counted returns how many pods are reported, -1 if that is not known.
func counted(taken *requests.SumsSnapshot) int64 {
	if taken == nil {
		return -1
	}
	n := taken.Placed.ResourceQuantities()["pods"]
	return n.Value()
}

func TestABusyClusterIsReportedOnceInAWhile(t *testing.T) {
	kicks, now := 0, time.Unix(1000, 0)
	p := &podRequests{kick: func() { kicks++ }}
	expect := func(when string, want int64, wantAgain time.Duration, wantKicks int) {
		t.Helper()
		taken, again := p.takeSums(now)
		if got := counted(taken); got != want || again != wantAgain || kicks != wantKicks {
			t.Errorf("%s: %d pods are told, again after %s, and the loop was kicked %d times; want %d, %s, %d",
				when, got, again, kicks, want, wantAgain, wantKicks)
		}
	}
	expect("before they are listed", -1, 0, 0)
	p.Replace([]*requests.PodRequest{podOf("a", "n")}, "1")
	expect("when they are listed", 1, 0, 1)
	p.Update(podOf("a", "n"))
	expect("after an update that changes no sum", 1, 0, 1)
	now = now.Add(10 * time.Second)
	p.Update(podOf("b", "n"))
	p.Update(podOf("c", "n"))
	expect("after changes that come soon", 1, podsPause-10*time.Second, 2)
	now = now.Add(podsPause)
	expect("later", 3, 0, 2)
	p.Failed(errors.New("the server is away"))
	expect("while the server is away", 3, 0, 2)
	p.Failed(apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "", errors.New("no")))
	if expect("when they are forbidden", -1, 0, 3); !p.isForbidden() {
		t.Error("it is not told that they are forbidden")
	}
	p.Replace([]*requests.PodRequest{podOf("a", "n"), podOf("b", "n")}, "2")
	if expect("when they are allowed again", 2, 0, 4); p.isForbidden() {
		t.Error("it is still told that they are forbidden")
	}
}
