// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
)

func TestReviewerAsksForTheWholeIdentity(t *testing.T) {
	user := authenticationv1.UserInfo{
		Username: "anna", UID: "1", Groups: []string{"admins"},
		Extra: map[string]authenticationv1.ExtraValue{"scopes": {"all"}},
	}
	what := authorizationv1.ResourceAttributes{
		Group: "g.io", Resource: "things", Subresource: "accept", Verb: "update", Name: "t1", Namespace: "ns",
	}
	cases := map[string]struct {
		reason  string
		status  authorizationv1.SubjectAccessReviewStatus
		err     error
		want    bool
		wantErr string
	}{
		"an allowed user may":    {status: authorizationv1.SubjectAccessReviewStatus{Allowed: true}, want: true},
		"others may not":         {status: authorizationv1.SubjectAccessReviewStatus{Reason: "no role"}},
		"a denied user may not":  {reason: "an explicit denial wins", status: authorizationv1.SubjectAccessReviewStatus{Allowed: true, Denied: true}},
		"a failure is not a yes": {err: errors.New("etcd is away"), wantErr: `reviewing whether "anna" may update things/accept.g.io "t1" in namespace "ns": etcd is away`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			clients := fake.NewClientset()
			var got authorizationv1.SubjectAccessReviewSpec
			clients.PrependReactor("create", "subjectaccessreviews", func(action clienttesting.Action) (bool, runtime.Object, error) {
				got = action.(clienttesting.CreateAction).GetObject().(*authorizationv1.SubjectAccessReview).Spec
				return true, &authorizationv1.SubjectAccessReview{Status: tc.status}, tc.err
			})
			may, reason, err := NewAccessReviewer(clients.AuthorizationV1().SubjectAccessReviews()).IsAllowed(t.Context(), user, what)
			if may != tc.want || (err == nil && reason != tc.status.Reason) {
				t.Errorf("%s\ngot %t %q, want %t %q", tc.reason, may, reason, tc.want, tc.status.Reason)
			}
			if message := messageOf(err); message != tc.wantErr {
				t.Errorf("got error %q, want %q", message, tc.wantErr)
			}
			want := authorizationv1.SubjectAccessReviewSpec{
				User: "anna", UID: "1", Groups: []string{"admins"}, ResourceAttributes: &what,
				Extra: map[string]authorizationv1.ExtraValue{"scopes": {"all"}},
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("review (-want +got):\n%s", diff)
			}
		})
	}
}

func messageOf(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
