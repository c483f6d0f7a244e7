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

// reporter writes where the handshake is into a ConfigMap, when it changes.
type reporter struct {
	home      client.Client
	namespace string
	clock     clock.Clock
	loop      *fleet.Loop

	mu    sync.Mutex
	want  report
	since time.Time

	written *corev1.ConfigMap // as the server has it; only the loop uses it
}

type report struct{ Reason, Message string }

func newReporter(home client.Client, namespace string, clk clock.Clock) *reporter {
	r := &reporter{home: home, namespace: namespace, clock: clk}
	r.loop = fleet.NewLoop(r.write)
	r.loop.Clock = clk
	r.loop.RetryMin = reportAfter
	return r
}

func (r *reporter) run(ctx context.Context) { r.loop.Start(ctx) }

// set says where the handshake is.
func (r *reporter) set(reason, message string) {
	r.mu.Lock()
	changed := r.want != report{reason, message}
	if changed {
		r.want, r.since = report{reason, message}, r.clock.Now()
	}
	r.mu.Unlock()
	if changed {
		r.loop.Kick()
	}
}

func (r *reporter) current() (reason, message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.want.Reason, r.want.Message
}

// write writes what was set, once it has lasted.
func (r *reporter) write(ctx context.Context) (time.Duration, error) {
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
		return 0, r.create(ctx, data)
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

func (r *reporter) create(ctx context.Context, data map[string]string) error {
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
