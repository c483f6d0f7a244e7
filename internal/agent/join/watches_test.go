// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"context"
	"sync"
	"testing"

	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiwatch "k8s.io/apimachinery/pkg/watch"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-io/capstan/internal/kube/watch"
)

// hubThat is a hub of which an agent watches one object from a version that it knows.
type hubThat struct {
	client.WithWatch

	refuses bool
	watched chan struct{}
}

func (h hubThat) Watch(context.Context, client.ObjectList, ...client.ListOption) (apiwatch.Interface, error) {
	defer func() { h.watched <- struct{}{} }()
	if h.refuses {
		return nil, apierrors.NewUnauthorized("expired")
	}
	return apiwatch.NewFake(), nil
}

func (h hubThat) List(context.Context, client.ObjectList, ...client.ListOption) error {
	return apierrors.NewUnauthorized("expired")
}

// TestAFailureEndsWithItsWatch: a credential that is refused is replaced by a good one,
// by which nothing new is seen. That the first was refused must not be held against it,
// whenever it is noticed.
func TestAFailureEndsWithItsWatch(t *testing.T) {
	t.Parallel()
	for _, slot := range []string{slotCSR, slotCluster} {
		t.Run(slot, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancel(t.Context())
			group := &sync.WaitGroup{}
			defer group.Wait()
			defer cancel()
			told := make(chan struct{}, 1)
			in := &inbox{kick: func() {
				select {
				case told <- struct{}{}:
				default:
				}
			}}
			w := &joinWatches{options: MachineOptions{Clock: clock.RealClock{}}, inbox: in, group: group, running: map[string]*runningWatch{}}
			follow := func(key string, hub client.WithWatch) {
				csr := &certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{Name: "csr"}}
				source := watch.SingleSource(hub, csr, &certificatesv1.CertificateSigningRequestList{}, "7")
				ensureWatch(ctx, w, slot, key, source, func(in *incomingFacts, _ *certificatesv1.CertificateSigningRequest, err error) {
					in.csrProblem, in.bootstrapErr, in.hubErr = &err, &err, &err
				})
			}
			good := hubThat{watched: make(chan struct{}, 100)}
			follow("refused", hubThat{refuses: true, watched: make(chan struct{}, 100)})
			<-told
			follow("good", good)
			<-good.watched
			seen := in.takeIncoming()
			if slot == slotCSR && seen.csrProblem != nil {
				t.Errorf("the failure of the first is held against the second: %v", *seen.csrProblem)
			}
			if slot == slotCluster && (seen.bootstrapErr != nil || seen.hubErr != nil) {
				t.Errorf("the failure of the first is held against the second: %v, %v", seen.bootstrapErr, seen.hubErr)
			}
		})
	}
}
