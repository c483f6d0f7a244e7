// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/capstan-io/capstan/internal/kube/apply"
	"github.com/capstan-io/capstan/internal/server/taskgroup"
)

// answerLife is for how long an answer is good in a session. A session with
// many objects of a type asks once for all of them, and does not go on for
// long with what has been taken away since.
const answerLife = 5 * time.Second

// ToRead are the permissions that an executor has to have on an object that is
// only read.
func ToRead() []string { return []string{"get"} }

// ToCreate are those for an object that is only created, and owned if it is
// there. They do not depend on whether the object exists, as that can change
// until it is written. What the agent writes it will delete one day, when the
// executor may be gone: so this is asked for beforehand.
func ToCreate() []string { return []string{"get", "create", "patch", "delete"} }

// ToApply are those for an object that is kept as the manifest says.
func ToApply() []string { return []string{"get", "create", "update", "patch", "delete"} }

// ReviewObject is what the agent creates to know what an executor may do.
func ReviewObject() apply.ObjectRef {
	return apply.ObjectRef{Group: "authorization.k8s.io", Resource: "subjectaccessreviews"}
}

// ReviewSession asks what one subject may do, for one pass over one work. It is
// safe for concurrent use.
type ReviewSession struct {
	guard   *PermissionGuard
	subject Subject

	mu      sync.Mutex
	answers map[Access]*reviewAnswer
}

// reviewAnswer is what came of a question; who asks it closes done.
type reviewAnswer struct {
	done chan struct{}
	at   time.Time
	may  bool
	err  error
}

// Subject returns whose permissions these are.
func (s *ReviewSession) Subject() Subject { return s.subject }

// CheckVerbs returns nil if the subject may do all that the verbs say to the
// object. The error is a *DeniedError if it may not.
func (s *ReviewSession) CheckVerbs(ctx context.Context, object apply.ObjectRef, verbs []string) error {
	may := make([]bool, len(verbs))
	group, asking := taskgroup.WithContext(ctx)
	for i, verb := range verbs {
		group.Go(func() (err error) {
			may[i], err = s.mayAccess(asking, verb, object)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return err
	}
	denied := &DeniedError{Subject: s.subject, Object: object, Needs: verbs}
	for i, verb := range verbs {
		if !may[i] {
			denied.Verbs = append(denied.Verbs, verb)
		}
	}
	if len(denied.Verbs) == 0 {
		return nil
	}
	denied.Missing = s.guard.isAccountMissing(ctx, s.subject)
	return denied
}

// mayAccess asks for all objects of the type in the namespace first, which is what
// most roles allow, and for the one object if that is refused.
func (s *ReviewSession) mayAccess(ctx context.Context, verb string, object apply.ObjectRef) (bool, error) {
	access := Access{Verb: verb, Group: object.Group, Resource: object.Resource, Namespace: object.Namespace}
	may, err := s.reviewOnce(ctx, access)
	if may || err != nil {
		return may, err
	}
	access.Name = object.Name
	return s.reviewOnce(ctx, access)
}

// reviewOnce asks once, however many want to know.
func (s *ReviewSession) reviewOnce(ctx context.Context, access Access) (bool, error) {
	s.mu.Lock()
	a, known := s.answers[access]
	if known && a.isStaleAnswer(s.guard.clock) {
		known = false
	}
	if !known {
		a = &reviewAnswer{done: make(chan struct{}), at: s.guard.clock.Now()}
		s.answers[access] = a
	}
	s.mu.Unlock()
	if !known {
		a.may, a.err = s.guard.reviewer.May(ctx, s.subject, access)
		close(a.done)
		return a.may, a.err
	}
	select {
	case <-a.done:
		return a.may, a.err
	case <-ctx.Done():
		return false, ctx.Err()
	}
}

// isStaleAnswer reports whether to ask again: an answer that is on its way is waited for.
func (a *reviewAnswer) isStaleAnswer(clock clock.PassiveClock) bool {
	select {
	case <-a.done:
		return a.err != nil || clock.Since(a.at) >= answerLife
	default:
		return false
	}
}
