// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package passes

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
)

// patience only decides how long a failure takes.
const patience = time.Minute

// TestOnlyAPassThatBeganLaterCounts has a pass under way when the test asks, and
// another one after it, however they end.
func TestOnlyAPassThatBeganLaterCounts(t *testing.T) {
	for end, result := range map[string]struct {
		reconcile.Result
		error
	}{
		"well": {}, "to be done again": {Result: reconcile.Result{RequeueAfter: time.Hour}}, "with an error": {error: errors.New("no")},
	} {
		t.Run(end, func(t *testing.T) {
			p, began, ends, events := NewPasses(), make(chan struct{}), make(chan struct{}), make(chan event.GenericEvent)
			start(t, p, func(ctx context.Context) (reconcile.Result, error) {
				select {
				case began <- struct{}{}:
					<-ends
				case <-ctx.Done(): // the test is over
				}
				return result.Result, result.error
			}, events)
			a, b := types.NamespacedName{Namespace: "shop", Name: "a"}, types.NamespacedName{Namespace: "shop", Name: "b"}
			events <- about(a)
			<-began
			events <- about(a) // while it is reconciled: another pass has to follow
			missing := p.MissingSince("test", a, b)
			ends <- struct{}{}
			<-began
			if got := missing(); !slices.Equal(got, []types.NamespacedName{a, b}) {
				t.Errorf("a pass that was under way counts, or one that has not ended: missing are %v", got)
			}
			ends <- struct{}{}
			for until := time.Now().Add(patience); !slices.Equal(missing(), []types.NamespacedName{b}); time.Sleep(time.Millisecond) {
				select {
				case <-began: // what failed comes again by itself
					ends <- struct{}{}
				default:
				}
				if time.Now().After(until) {
					t.Fatalf("missing are %v after two passes over a, want b only", missing())
				}
			}
		})
	}
}

// TestWhatIsPutOffIsToldUntilItIsDone has a pass that asks for another one, which asks for none.
func TestWhatIsPutOffIsToldUntilItIsDone(t *testing.T) {
	p, goesOn, events := NewPasses(), make(chan time.Duration), make(chan event.GenericEvent)
	start(t, p, func(ctx context.Context) (reconcile.Result, error) {
		select {
		case after := <-goesOn:
			return reconcile.Result{RequeueAfter: after}, nil
		case <-ctx.Done(): // the test is over
			return reconcile.Result{}, nil
		}
	}, events)
	for _, pass := range []struct {
		after time.Duration
		want  []string
	}{{time.Minute, []string{"test shop/a"}}, {time.Hour, nil}, {time.Minute, []string{"test shop/a"}}, {0, nil}} {
		a := types.NamespacedName{Namespace: "shop", Name: "a"}
		missing := p.MissingSince("test", a)
		events <- about(a)
		goesOn <- pass.after
		for until := time.Now().Add(patience); len(missing()) > 0; time.Sleep(time.Millisecond) {
			if time.Now().After(until) {
				t.Fatal("the pass has not ended")
			}
		}
		if got := p.PutOff(2 * time.Minute); !slices.Equal(got, pass.want) {
			t.Errorf("after a pass that asks for another one in %v, put off are %v, want %v", pass.after, got, pass.want)
		}
	}
}

// start runs a controller named test.
func start(t *testing.T, p *Passes, pass func(context.Context) (reconcile.Result, error), events chan event.GenericEvent) {
	t.Helper()
	c, err := controller.NewUnmanaged("test", controller.Options{
		SkipNameValidation: new(true),
		Reconciler:         reconcile.Func(func(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) { return pass(ctx) }),
		LogConstructor: func(r *reconcile.Request) logr.Logger {
			log := p.NewLogger().WithValues("controller", "test")
			if r != nil {
				log = log.WithValues("namespace", r.Namespace, "name", r.Name)
			}
			return log
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Watch(source.Channel(events, &handler.EnqueueRequestForObject{})); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.Start(t.Context()) }()
	t.Cleanup(func() {
		if err := <-ended; err != nil {
			t.Errorf("the controller: %v", err)
		}
	})
}

func about(name types.NamespacedName) event.GenericEvent {
	return event.GenericEvent{Object: &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: name.Namespace, Name: name.Name}}}
}
