// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package forgotten

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/cluster/fleet"
)

// askedHub is a hub that counts the questions, and takes its time to answer.
type askedHub struct {
	cluster.Cluster
	client.Reader

	mu         sync.Mutex
	asked      int
	annotation string
	err        error
}

func (h *askedHub) GetAPIReader() client.Reader { return h }

// Get implements client.Reader. The answer is that of when it was asked.
func (h *askedHub) Get(_ context.Context, _ client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	h.mu.Lock()
	h.asked++
	if h.annotation != "" {
		object.SetAnnotations(map[string]string{fleetv1alpha1.AnnotationRestored: h.annotation})
	}
	err := h.err
	h.mu.Unlock()
	time.Sleep(10 * time.Millisecond)
	return err
}

func (h *askedHub) becomes(annotation string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.annotation, h.err = annotation, err
}

func newAskingKeeper() (*askedHub, *MissingWorksKeeper) {
	hub := &askedHub{}
	return hub, &MissingWorksKeeper{KeeperOptions: KeeperOptions{Connection: &fleet.Connection{Name: "m", Hub: hub}}}
}

func recordOf(work int) *workv1.AppliedManifestWork {
	return &workv1.AppliedManifestWork{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("r", work)}}
}

// TestRecordsWithoutNumberAskTheHubSeldom: each pass of a record of a member's invention wants
// to know of the hub whether it stays.
func TestRecordsWithoutNumberAskTheHubSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub, keeper := newAskingKeeper()
		start := time.Now()
		var workers sync.WaitGroup
		for worker := range 8 {
			workers.Go(func() {
				for range 40 {
					if kept, err := keeper.KeepsRecord(t.Context(), recordOf(worker)); kept || err != nil {
						t.Errorf("a record is kept: %t, %v", kept, err)
					}
				}
			})
		}
		workers.Wait()
		if most := int(time.Since(start)/askInterval) + 1; hub.asked > most {
			t.Errorf("the hub was asked %d times in %s, want %d at most", hub.asked, time.Since(start), most)
		}
	})
}

// TestAnAnswerIsNotOlderThanTheQuestion: a hub that was restored a moment ago says something else.
func TestAnAnswerIsNotOlderThanTheQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub, keeper := newAskingKeeper()
		var waiting sync.WaitGroup
		waiting.Go(func() {
			if kept, err := keeper.KeepsRecord(t.Context(), recordOf(0)); kept || err != nil {
				t.Errorf("before it was restored: %t, %v", kept, err)
			}
		})
		synctest.Wait() // the question is on its way
		hub.becomes("1-1000", nil)
		for i := range 2 {
			waiting.Go(func() {
				if kept, err := keeper.KeepsRecord(t.Context(), recordOf(i)); !kept || err != nil {
					t.Errorf("the answer is that of before: %t, %v", kept, err)
				}
			})
		}
		waiting.Wait()
		if hub.asked != 2 {
			t.Errorf("the hub was asked %d times, want twice", hub.asked)
		}
	})
}

func TestWhoseQuestionFailsKeepsWhatThereIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		hub, keeper := newAskingKeeper()
		down := errors.New("down")
		hub.becomes("", down)
		if kept, err := keeper.KeepsRecord(t.Context(), recordOf(0)); !kept || !errors.Is(err, down) {
			t.Errorf("the hub is down: %t, %v", kept, err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var waiting sync.WaitGroup
		for i := range 2 {
			waiting.Go(func() {
				if kept, err := keeper.KeepsRecord(ctx, recordOf(i)); !kept || !errors.Is(err, context.Canceled) {
					t.Errorf("nobody waits any more: %t, %v", kept, err)
				}
			})
		}
		synctest.Wait()
		cancel()
		waiting.Wait()
		hub.becomes("", nil)
		if kept, err := keeper.KeepsRecord(t.Context(), recordOf(0)); kept || err != nil {
			t.Errorf("the hub is there again: %t, %v", kept, err)
		}
	})
}
