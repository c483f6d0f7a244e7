// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	metadatafake "k8s.io/client-go/metadata/fake"
	clienttesting "k8s.io/client-go/testing"
	clocktesting "k8s.io/utils/clock/testing"

	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/kube/apply"
)

func account(namespace, name string) *workv1.ManifestWorkExecutor {
	return &workv1.ManifestWorkExecutor{Subject: workv1.ManifestWorkExecutorSubject{
		Type:           workv1.ExecutorSubjectTypeServiceAccount,
		ServiceAccount: &workv1.ManifestWorkSubjectServiceAccount{Namespace: namespace, Name: name},
	}}
}

func TestSubjectIsOneServiceAccount(t *testing.T) {
	cases := map[string]struct {
		reason   string
		executor *workv1.ManifestWorkExecutor
		user     string
		err      string
	}{
		"a namespace and a name":        {executor: account("team", "robot.v1"), user: "system:serviceaccount:team:robot.v1"},
		"no type":                       {executor: &workv1.ManifestWorkExecutor{}, err: `subject.type is "", want ServiceAccount`},
		"no account":                    {executor: &workv1.ManifestWorkExecutor{Subject: workv1.ManifestWorkExecutorSubject{Type: "ServiceAccount"}}, err: "subject.serviceAccount is missing"},
		"no namespace":                  {reason: "there is no default", executor: account("", "robot"), err: `namespace ""`},
		"no name":                       {executor: account("team", ""), err: `name ""`},
		"a namespace that leads up":     {executor: account("..", "robot"), err: `namespace ".."`},
		"a colon in the namespace":      {reason: "it would be account b:robot of namespace a", executor: account("a:b", "robot"), err: `namespace "a:b"`},
		"a colon in the name":           {executor: account("team", "a:b"), err: `name "a:b"`},
		"a name with a path":            {executor: account("team", "../kube-system/x"), err: "name"},
		"a line break in the namespace": {reason: "it would end the header that names the user", executor: account("team\n", "robot"), err: "namespace"},
		"a dot in the namespace":        {reason: "namespaces are labels", executor: account("a.b", "robot"), err: "namespace"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			subject, err := SubjectOf(tc.executor)
			if tc.err == "" {
				if err != nil || subject.UserName() != tc.user {
					t.Fatalf("%s\ngot %q, %v", tc.reason, subject.UserName(), err)
				}
				return
			}
			if !errors.Is(err, ErrSubject) || !strings.Contains(err.Error(), tc.err) {
				t.Errorf("%s\ngot %+v, %v; want %q", tc.reason, subject, err, tc.err)
			}
		})
	}
}

func TestServerAsksForTheWholeIdentity(t *testing.T) {
	cases := map[string]struct {
		status authorizationv1.SubjectAccessReviewStatus
		err    error
		want   bool
	}{
		"allowed":                     {status: authorizationv1.SubjectAccessReviewStatus{Allowed: true}, want: true},
		"not allowed":                 {},
		"a denial wins":               {status: authorizationv1.SubjectAccessReviewStatus{Allowed: true, Denied: true}},
		"an error is no permission":   {status: authorizationv1.SubjectAccessReviewStatus{Allowed: true}, err: errors.New("timeout")},
		"half an answer is no answer": {status: authorizationv1.SubjectAccessReviewStatus{EvaluationError: "a role is broken"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			clients := fake.NewClientset()
			var asked authorizationv1.SubjectAccessReviewSpec
			clients.PrependReactor("create", "subjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
				create, _ := action.(clienttesting.CreateAction)
				review, _ := create.GetObject().(*authorizationv1.SubjectAccessReview)
				asked = review.Spec
				review.Status = tc.status
				return true, review, tc.err
			})
			s := &apiReviewer{reviews: clients.AuthorizationV1().SubjectAccessReviews(), slots: make(chan struct{}, 1)}
			may, err := s.May(t.Context(), Subject{"team", "robot"}, Access{Verb: "patch", Group: "apps", Resource: "deployments", Namespace: "web", Name: "front"})
			if may != tc.want || (err != nil) != (tc.err != nil) {
				t.Errorf("got %t, %v", may, err)
			}
			want := authorizationv1.SubjectAccessReviewSpec{
				User:   "system:serviceaccount:team:robot",
				Groups: []string{"system:serviceaccounts", "system:serviceaccounts:team", "system:authenticated"},
				ResourceAttributes: &authorizationv1.ResourceAttributes{
					Verb: "patch", Group: "apps", Resource: "deployments", Namespace: "web", Name: "front",
				},
			}
			if diff := cmp.Diff(want, asked); diff != "" {
				t.Errorf("question (-want +got):\n%s", diff)
			}
		})
	}
}

// law is a Reviewer that allows what is in it, and notes what it is asked.
type law struct {
	mu      sync.Mutex
	allowed map[Access]bool
	asked   []Access
	err     error
	during  func() // called while a question is under way
}

func (l *law) May(_ context.Context, _ Subject, access Access) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked = append(l.asked, access)
	if l.during != nil {
		l.during()
	}
	return l.allowed[access], l.err
}

func session(l Reviewer, clock *clocktesting.FakePassiveClock, accounts ...runtime.Object) *ReviewSession {
	scheme := metadatafake.NewTestScheme()
	_ = metav1.AddMetaToScheme(scheme)
	g := &PermissionGuard{reviewer: l, clock: clock, own: metadatafake.NewSimpleMetadataClient(scheme, accounts...)}
	return g.NewSession(Subject{"team", "robot"})
}

func TestSessionAsksForAllNamesFirst(t *testing.T) {
	get := Access{Verb: "get", Resource: "configmaps", Namespace: "web"}
	getA := Access{Verb: "get", Resource: "configmaps", Namespace: "web", Name: "a"}
	create := Access{Verb: "create", Resource: "configmaps", Namespace: "web"}
	createA := Access{Verb: "create", Resource: "configmaps", Namespace: "web", Name: "a"}
	cases := map[string]struct {
		reason  string
		allowed []Access
		err     error
		denied  []string
		asked   int
		wantErr bool
	}{
		"all names are enough for one":   {allowed: []Access{get, create}, asked: 2},
		"one name is enough, too":        {allowed: []Access{getA, createA}, asked: 4},
		"another name is not":            {allowed: []Access{get, {Verb: "create", Resource: "configmaps", Namespace: "web", Name: "b"}}, denied: []string{"create"}, asked: 3},
		"another namespace is not":       {allowed: []Access{get, {Verb: "create", Resource: "configmaps", Namespace: "other"}}, denied: []string{"create"}, asked: 3},
		"another group is not":           {allowed: []Access{get, {Verb: "create", Group: "x", Resource: "configmaps", Namespace: "web"}}, denied: []string{"create"}, asked: 3},
		"verbs stay in order":            {denied: []string{"get", "create"}, asked: 4},
		"what cannot be known is not so": {allowed: []Access{get, create}, err: errors.New("timeout"), wantErr: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			l := &law{allowed: map[Access]bool{}, err: tc.err}
			for _, access := range tc.allowed {
				l.allowed[access] = true
			}
			s := session(l, clocktesting.NewFakePassiveClock(time.Unix(1, 0)))
			err := s.CheckVerbs(t.Context(), apply.ObjectRef{Resource: "configmaps", Namespace: "web", Name: "a"}, []string{"get", "create"})
			if tc.wantErr {
				if denied := (*DeniedError)(nil); err == nil || errors.As(err, &denied) {
					t.Errorf("got %v", err)
				}
				return
			}
			var got []string
			if denied := (*DeniedError)(nil); errors.As(err, &denied) {
				got = denied.Verbs
			}
			if diff := cmp.Diff(tc.denied, got); diff != "" || len(l.asked) != tc.asked {
				t.Errorf("%s\nasked %v; denied (-want +got):\n%s", tc.reason, l.asked, diff)
			}
		})
	}
}

func TestSessionAsksOnceUntilAnswersAreOld(t *testing.T) {
	access := Access{Verb: "get", Resource: "configmaps", Namespace: "web"}
	l := &law{allowed: map[Access]bool{access: true}}
	clock := clocktesting.NewFakePassiveClock(time.Unix(1, 0))
	s := session(l, clock)
	var group sync.WaitGroup
	for range 50 {
		group.Go(func() {
			if err := s.CheckVerbs(t.Context(), apply.ObjectRef{Resource: "configmaps", Namespace: "web", Name: "a"}, []string{"get"}); err != nil {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if len(l.asked) != 1 {
		t.Errorf("asked %d times", len(l.asked))
	}
	l.allowed[access] = false
	clock.SetTime(clock.Now().Add(answerLife))
	if err := s.CheckVerbs(t.Context(), apply.ObjectRef{Resource: "configmaps", Namespace: "web", Name: "a"}, []string{"get"}); err == nil {
		t.Error("an old answer is used")
	}
}

func TestSessionAsksAgainAfterAnError(t *testing.T) {
	access := Access{Verb: "get", Resource: "nodes"}
	l := &law{allowed: map[Access]bool{access: true}, err: errors.New("timeout")}
	s := session(l, clocktesting.NewFakePassiveClock(time.Unix(1, 0)))
	node := apply.ObjectRef{Resource: "nodes", Name: "a"}
	if err := s.CheckVerbs(t.Context(), node, []string{"get"}); err == nil {
		t.Fatal("no error")
	}
	l.err = nil
	if err := s.CheckVerbs(t.Context(), node, []string{"get"}); err != nil {
		t.Error(err)
	}
}

func TestMessagesSayWhatToDo(t *testing.T) {
	subject := Subject{"team", "robot"}
	cases := map[string]struct {
		err  error
		want string
	}{
		"in a namespace": {
			err: &DeniedError{
				Subject: subject, Object: apply.ObjectRef{Group: "apps", Resource: "deployments", Namespace: "web", Name: "front"},
				Verbs: []string{"create", "patch"}, Needs: ToApply(),
			},
			want: `The executor system:serviceaccount:team:robot may not create, patch deployments.apps web/front. Create a Role in namespace "web" on the managed cluster with a rule for apiGroups ["apps"], resources ["deployments"], verbs [get create update patch delete], and a RoleBinding of it to the ServiceAccount team/robot.`,
		},
		"in no namespace": {
			err: &DeniedError{
				Subject: subject, Object: apply.ObjectRef{Resource: "namespaces", Name: "web"}, Missing: true,
				Verbs: []string{"get"}, Needs: ToRead(),
			},
			want: `The executor system:serviceaccount:team:robot may not get namespaces web, and there is no such ServiceAccount on the managed cluster. Create a ClusterRole on the managed cluster with a rule for apiGroups [""], resources ["namespaces"], verbs [get], and a ClusterRoleBinding of it to the ServiceAccount team/robot.`,
		},
		"refused by a check of the server": {
			err:  &RefusedError{Subject: subject, Object: apply.ObjectRef{Group: "work.open-cluster-management.io", Resource: "manifestworks", Namespace: "c1", Name: "w"}, Answer: oneLine("no\n\tway")},
			want: `The executor system:serviceaccount:team:robot may not write manifestworks.work.open-cluster-management.io c1/w with this content. The API server says: no way`,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, tc.err.Error()); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if long := oneLine(strings.Repeat("ä", quotedBytesMax)); len(long) > quotedBytesMax+4 || !strings.HasSuffix(long, "ä ...") {
		t.Errorf("a long answer is cut to %d bytes", len(long))
	}
}

func TestDelicateObjectsAreRehearsed(t *testing.T) {
	for group, want := range map[string]bool{
		"rbac.authorization.k8s.io": true, "admissionregistration.k8s.io": true, "certificates.k8s.io": true,
		"work.open-cluster-management.io": true, "open-cluster-management.io": true,
		"": false, "apps": false, "evil-open-cluster-management.io": false, "rbac.authorization.k8s.io.example.com": false,
	} {
		if got := IsDelicate(apply.ObjectRef{Group: group, Resource: "things"}); got != want {
			t.Errorf("%q: %t", group, got)
		}
	}
}
