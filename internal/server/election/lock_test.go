// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package election

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"

	"github.com/capstan-io/capstan/internal/server/options"
	"github.com/capstan-io/capstan/internal/testing/expect"
)

const (
	namespace = "home"
	leaseName = "lock"
)

// script is a clock on which waiting takes no time, and something happens
// meanwhile.
type script struct {
	*clocktesting.FakeClock
	meanwhile func(elapsed time.Duration)
	begin     time.Time
}

func newScript(meanwhile func(time.Duration)) *script {
	begin := time.Unix(1_700_000_000, 0)
	return &script{FakeClock: clocktesting.NewFakeClock(begin), meanwhile: meanwhile, begin: begin}
}

func (s *script) After(d time.Duration) <-chan time.Time {
	s.Step(d)
	s.meanwhile(s.Now().Sub(s.begin))
	passed := make(chan time.Time, 1)
	passed <- s.Now()
	return passed
}

func pod(name, uid string, change ...func(*corev1.Pod)) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: types.UID(uid)}}
	for _, c := range change {
		c(p)
	}
	return p
}

func lease(holder string, renewed time.Time) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: leaseName},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To(holder), LeaseDurationSeconds: ptr.To[int32](137), RenewTime: ptr.To(metav1.NewMicroTime(renewed)),
		},
	}
}

// candidate returns the Lock of pod "b".
func candidate(t *testing.T, clients *fake.Clientset, clock *script) *Lock {
	t.Helper()
	lock, err := newLock(clients, LockOptions{
		Namespace: namespace, Name: leaseName, Times: options.DefaultLeaderElection(),
		Pod: CandidatePod{Namespace: namespace, Name: "b", UID: "b1"}, Clock: clock,
	})
	expect.NoError(t, err)
	return lock
}

func TestWhoWaitsSeesWhetherTheLeaderCanBeReplaced(t *testing.T) {
	forbidden := func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Resource: "pods"}, "a", nil)
	}
	failing := func(clienttesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewInternalError(context.DeadlineExceeded)
	}
	for name, test := range map[string]struct {
		reason string
		holder string
		pods   []runtime.Object
		answer clienttesting.ReactionFunc
		// meanwhile happens every time that the candidate waits.
		meanwhile func(t *testing.T, clients *fake.Clientset, elapsed time.Duration)
		want      string
		// after is how long the candidate has to wait: at least, and less than.
		after, before time.Duration
	}{
		"Free": {
			reason: "nobody leads", holder: "", before: time.Second,
		},
		"OwnPod": {
			reason: "the container before this one led", holder: "pod/b/b1", want: "pod/b/b1", before: time.Second,
		},
		"Gone": {
			reason: "the leader's pod was deleted without a word", holder: "pod/a/a1", before: time.Second,
		},
		"Recreated": {
			reason: "a pod of the same name is another one", holder: "pod/a/a1", pods: []runtime.Object{pod("a", "a2")}, before: time.Second,
		},
		"Evicted": {
			reason: "a pod that has failed does not come back", holder: "pod/a/a1",
			pods:   []runtime.Object{pod("a", "a1", func(p *corev1.Pod) { p.Status.Phase = corev1.PodFailed })},
			before: time.Second,
		},
		"GoneWhileWaiting": {
			reason: "the leader's pod is deleted after a while", holder: "pod/a/a1", pods: []runtime.Object{pod("a", "a1")},
			meanwhile: func(t *testing.T, clients *fake.Clientset, elapsed time.Duration) {
				if elapsed >= 20*time.Second {
					_ = clients.CoreV1().Pods(namespace).Delete(t.Context(), "a", metav1.DeleteOptions{})
				}
			},
			after: 20 * time.Second, before: 20*time.Second + 2*lookPeriod,
		},
		"GivenUp": {
			reason: "a leader that ends gives up its Lease before its pod is gone", holder: "pod/a/a1",
			pods: []runtime.Object{pod("a", "a1", func(p *corev1.Pod) { p.DeletionTimestamp = ptr.To(metav1.Unix(1_700_000_000, 0)) })},
			meanwhile: func(t *testing.T, clients *fake.Clientset, elapsed time.Duration) {
				if elapsed >= 4*time.Second {
					update(t, clients, lease("", time.Unix(1_700_000_000, 0).Add(elapsed)))
				}
			},
			after: 4 * time.Second, before: 4*time.Second + 2*lookPeriod,
		},
		"HangsAndLives": {
			reason: "a leader that stopped renewing is replaced when its Lease has run out", holder: "pod/a/a1",
			pods:  []runtime.Object{pod("a", "a1")},
			after: 137 * time.Second, before: 137*time.Second + 2*lookPeriod,
		},
		"Alive": {
			reason: "a leader that renews is left alone for ever (here an hour, then it goes)", holder: "pod/a/a1",
			pods: []runtime.Object{pod("a", "a1")},
			meanwhile: func(t *testing.T, clients *fake.Clientset, elapsed time.Duration) {
				if elapsed >= time.Hour {
					_ = clients.CoreV1().Pods(namespace).Delete(t.Context(), "a", metav1.DeleteOptions{})
				}
				if elapsed%(26*time.Second) == 0 {
					update(t, clients, lease("pod/a/a1", time.Unix(1_700_000_000, 0).Add(elapsed)))
				}
			},
			after: time.Hour, before: time.Hour + 2*lookPeriod,
		},
		"APIServerFails": {
			reason: "a pod that cannot be asked for is not taken for gone", holder: "pod/a/a1", answer: failing,
			after: 137 * time.Second, before: 137*time.Second + 2*lookPeriod,
		},
		"Forbidden": {
			reason: "without the right to look the election is the plain one", holder: "pod/a/a1", answer: forbidden,
			want: "pod/a/a1", before: time.Second,
		},
		"NoPod": {
			reason: "a leader outside of a pod has none that could be gone", holder: "a_5f9a5bba-3d2c-4f23-9d6c-df4ad8a0a1b0",
			want: "a_5f9a5bba-3d2c-4f23-9d6c-df4ad8a0a1b0", before: time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			begin := time.Unix(1_700_000_000, 0)
			clients := fake.NewClientset(append(test.pods, lease(test.holder, begin))...)
			if test.answer != nil {
				clients.PrependReactor("get", "pods", test.answer)
			}
			clock := newScript(func(elapsed time.Duration) {
				if test.meanwhile != nil {
					test.meanwhile(t, clients, elapsed)
				}
			})
			record, _, err := candidate(t, clients, clock).Get(t.Context())
			expect.NoError(t, err)
			if diff := cmp.Diff(test.want, record.HolderIdentity); diff != "" {
				t.Errorf("%s (-want +got):\n%s", test.reason, diff)
			}
			if waited := clock.Now().Sub(begin); waited < test.after || waited >= test.before {
				t.Errorf("%s: waited %s, want at least %s and less than %s", test.reason, waited, test.after, test.before)
			}
		})
	}
}

func update(t *testing.T, clients *fake.Clientset, lease *coordinationv1.Lease) {
	t.Helper()
	if _, err := clients.CoordinationV1().Leases(namespace).Update(t.Context(), lease, metav1.UpdateOptions{}); err != nil {
		t.Error(err)
	}
}

func TestWhoWaitsWritesNothing(t *testing.T) {
	clients := fake.NewClientset(lease("pod/a/a1", time.Unix(1_700_000_000, 0)), pod("a", "a1"))
	clock := newScript(func(time.Duration) {})
	if _, _, err := candidate(t, clients, clock).Get(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, action := range clients.Actions() {
		if action.GetVerb() != "get" {
			t.Errorf("%s %s: waiting must cost the server no writes", action.GetVerb(), action.GetResource().Resource)
		}
	}
}

func TestWhoWaitsEndsWithTheProcess(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	clients := fake.NewClientset(lease("pod/a/a1", time.Unix(1_700_000_000, 0)), pod("a", "a1"))
	clock := newScript(func(time.Duration) { cancel() })
	record, _, err := candidate(t, clients, clock).Get(ctx)
	if err != nil || record.HolderIdentity != "pod/a/a1" {
		t.Errorf("a process that ends must leave the Lease with its holder, got %+v, %v", record, err)
	}
}

func TestIdentitiesTellPodsFromOthers(t *testing.T) {
	t.Setenv("POD_NAMESPACE", "home")
	t.Setenv("POD_NAME", "a")
	t.Setenv("POD_UID", "")
	if got := OwnPod(); got != (CandidatePod{}) {
		t.Errorf("a process that does not know its UID cannot be found, got %+v", got)
	}
	t.Setenv("POD_UID", "a1")
	own := OwnPod()
	got, ok := parseIdentity(own.candidateIdentity())
	if diff := cmp.Diff(CandidatePod{Name: "a", UID: "a1"}, got); diff != "" || !ok {
		t.Errorf("an identity must be read as it was written (-want +got):\n%s", diff)
	}
	for _, identity := range []string{"", "a_1", "pod/a", "pod//x", "pod/a/", "node/a/b", "pod/a/b/c"} {
		if _, ok := parseIdentity(identity); ok {
			t.Errorf("%q is not the identity of a pod", identity)
		}
	}
	clients := fake.NewClientset()
	for name, p := range map[string]CandidatePod{"NoPod": {}, "AnotherNamespace": {Namespace: "other", Name: "a", UID: "a1"}} {
		lock, err := newLock(clients, LockOptions{Namespace: namespace, Name: leaseName, Pod: p})
		expect.NoError(t, err)
		if _, isPod := parseIdentity(lock.Identity()); isPod || lock.waits {
			t.Errorf("%s: a candidate whose pod nobody can look for must not say that it is one: %s", name, lock.Identity())
		}
	}
}
