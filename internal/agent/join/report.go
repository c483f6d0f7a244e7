// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/cluster/fleet"
)

// reportAfter is how long the handshake has to be at the same step before it
// is written: where all goes well, only the last step is.
const reportAfter = time.Second

// joinReporter writes where the handshake is into a ConfigMap, when it changes.
type joinReporter struct {
	home      client.Client
	namespace string
	clock     clock.Clock
	loop      *fleet.Loop

	mu    sync.Mutex
	want  joinReport
	since time.Time

	written *corev1.ConfigMap // as the server has it; only the loop uses it
}

type joinReport struct{ Reason, Message string }

func newReporter(home client.Client, namespace string, clk clock.Clock) *joinReporter {
	r := &joinReporter{home: home, namespace: namespace, clock: clk}
	r.loop = fleet.NewLoop(r.writeStep)
	r.loop.Clock = clk
	r.loop.RetryMin = reportAfter
	return r
}

func (r *joinReporter) runReporter(ctx context.Context) { r.loop.Start(ctx) }

// setJoinStep says where the handshake is.
func (r *joinReporter) setJoinStep(reason, message string) {
	r.mu.Lock()
	changed := r.want != joinReport{reason, message}
	if changed {
		r.want, r.since = joinReport{reason, message}, r.clock.Now()
	}
	r.mu.Unlock()
	if changed {
		r.loop.Kick()
	}
}

func (r *joinReporter) currentStep() (reason, message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.want.Reason, r.want.Message
}

// writeStep writes what was set, once it has lasted.
func (r *joinReporter) writeStep(ctx context.Context) (time.Duration, error) {
	r.mu.Lock()
	want := r.want
	lasted := r.clock.Since(r.since)
	r.mu.Unlock()
	if want.Reason == "" {
		return 0, nil
	}
	if lasted < reportAfter && want.Reason != operatorv1.JoinReasonJoined {
		return reportAfter - lasted, nil
	}
	if r.written == nil {
		live := &corev1.ConfigMap{}
		err := r.home.Get(ctx, client.ObjectKey{Namespace: r.namespace, Name: operatorv1.JoinStatusConfigMap}, live)
		switch {
		case err == nil:
			r.written = live
		case !apierrors.IsNotFound(err):
			return 0, fmt.Errorf("reading ConfigMap %s/%s: %w", r.namespace, operatorv1.JoinStatusConfigMap, err)
		}
	}
	data := map[string]string{operatorv1.JoinStatusReasonKey: want.Reason, operatorv1.JoinStatusMessageKey: want.Message}
	if r.written == nil {
		return 0, r.createConfigMap(ctx, data)
	}
	if r.written.Data[operatorv1.JoinStatusReasonKey] == want.Reason && r.written.Data[operatorv1.JoinStatusMessageKey] == want.Message {
		return 0, nil
	}
	update := r.written.DeepCopy()
	update.Data = data
	r.written = nil // read it again after an error
	if err := r.home.Update(ctx, update); err != nil {
		return 0, fmt.Errorf("updating ConfigMap %s/%s: %w", r.namespace, operatorv1.JoinStatusConfigMap, err)
	}
	r.written = update
	return 0, nil
}

func (r *joinReporter) createConfigMap(ctx context.Context, data map[string]string) error {
	created := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: operatorv1.JoinStatusConfigMap},
		Data:       data,
	}
	if err := r.home.Create(ctx, created); err != nil {
		return fmt.Errorf("creating ConfigMap %s/%s: %w", r.namespace, operatorv1.JoinStatusConfigMap, err)
	}
	r.written = created
	return nil
}
