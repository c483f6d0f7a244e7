// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package forgotten

import (
	"context"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
)

// askInterval is the least time between two questions: a member may have records without
// number, about each of which the hub would be asked.
const askInterval = 250 * time.Millisecond

// hubQuestions asks the hub what it forgot. An answer is for all who wanted to know before the
// question was sent, so that it is never older than the wish to know. The zero value
// has not asked.
type hubQuestions struct {
	mu sync.Mutex
	// next is the question that is not sent yet, nil if nobody waits for one.
	next *hubQuestion
	// sent is when the latest one was.
	sent time.Time
}

// hubQuestion is a question of several, with the answer once done is closed.
type hubQuestion struct {
	done chan struct{}
	said restoreVerdict
	err  error
}

// askHub returns what ask does, which is called for all who wait.
func (q *hubQuestions) askHub(ctx context.Context, ask func(context.Context) (restoreVerdict, error)) (restoreVerdict, error) {
	question, wait, first := q.joinNext()
	if !first {
		select {
		case <-question.done:
			return question.said, question.err
		case <-ctx.Done():
			return restoreVerdict{}, context.Cause(ctx)
		}
	}
	question.err = context.Canceled // unless there is an answer
	defer close(question.done)
	if wait > 0 {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	q.beginNext()
	if err := context.Cause(ctx); err != nil {
		return restoreVerdict{}, err
	}
	question.said, question.err = ask(ctx)
	return question.said, question.err
}

// joinNext returns the next question, and whether the caller has to send it, after a while.
func (q *hubQuestions) joinNext() (question *hubQuestion, wait time.Duration, first bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.next != nil {
		return q.next, 0, false
	}
	q.next = &hubQuestion{done: make(chan struct{})}
	return q.next, askInterval - time.Since(q.sent), true
}

// beginNext says that the question is sent: who wants to know from now on waits for another.
func (q *hubQuestions) beginNext() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.next = nil
	q.sent = time.Now()
}

// readVerdict reads what the hub says that it forgot, and not from the cache.
func (k *MissingWorksKeeper) readVerdict(ctx context.Context) (restoreVerdict, error) {
	mc := &metav1.PartialObjectMetadata{}
	mc.SetGroupVersionKind(clusterv1.GroupVersion.WithKind("ManagedCluster"))
	err := k.Connection.Hub.GetAPIReader().Get(ctx, client.ObjectKey{Name: string(k.Connection.Name)}, mc)
	return verdictOf(mc), err //nolint:wrapcheck // by KeepsRecord
}
