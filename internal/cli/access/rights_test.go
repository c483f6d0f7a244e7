// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package access

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

func TestARightInWords(t *testing.T) {
	for want, right := range map[string]authorizationv1.ResourceAttributes{
		"create namespaces":                            {Verb: "create", Resource: "namespaces"},
		"get deployments.apps":                         {Verb: "get", Resource: "deployments", Group: "apps"},
		`get secrets "token" in namespace "shop"`:      {Verb: "get", Resource: "secrets", Name: "token", Namespace: "shop"},
		`list pods in namespace "shop"`:                {Verb: "list", Resource: "pods", Namespace: "shop"},
		"patch deployments/scale.apps":                 {Verb: "patch", Resource: "deployments", Subresource: "scale", Group: "apps"},
		"update nodes/status":                          {Verb: "update", Resource: "nodes", Subresource: "status"},
		"* *.*":                                        {Verb: "*", Resource: "*", Group: "*"},
		`use signers.certificates.k8s.io "a.io/\"x\""`: {Verb: "use", Resource: "signers", Group: "certificates.k8s.io", Name: `a.io/"x"`},
	} {
		if got := DescribeRight(right); got != want {
			t.Errorf("%+v is %q, want %q", right, got, want)
		}
	}
}

func TestOnlyRightsThatAreNotGivenAreMissing(t *testing.T) {
	scheme := runtime.NewScheme()
	if err := authorizationv1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	right := func(verb, resource string) authorizationv1.ResourceAttributes {
		return authorizationv1.ResourceAttributes{Verb: verb, Resource: resource}
	}
	unreachable := errors.New("unreachable")
	// A user may read, but nobody can find out about secrets.
	c := fake.NewClientBuilder().WithScheme(scheme).WithInterceptorFuncs(interceptor.Funcs{
		Create: func(_ context.Context, _ client.WithWatch, object client.Object, _ ...client.CreateOption) error {
			review := object.(*authorizationv1.SelfSubjectAccessReview)
			if review.Spec.ResourceAttributes.Resource == "secrets" {
				return unreachable
			}
			review.Status.Allowed = review.Spec.ResourceAttributes.Verb == "get"
			return nil
		},
	}).Build()
	cases := map[string]struct {
		rights, want []authorizationv1.ResourceAttributes
		wrong        string
	}{
		"none is asked about":      {nil, nil, ""},
		"all are given":            {[]authorizationv1.ResourceAttributes{right("get", "pods"), right("get", "nodes")}, nil, ""},
		"those that are not given": {[]authorizationv1.ResourceAttributes{right("create", "pods"), right("get", "pods"), right("delete", "pods")}, []authorizationv1.ResourceAttributes{right("create", "pods"), right("delete", "pods")}, ""},
		"nobody can find out":      {[]authorizationv1.ResourceAttributes{right("create", "pods"), right("get", "secrets")}, nil, "get secrets"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := MissingRights(t.Context(), c, tc.rights...)
			if (err != nil) != (tc.wrong != "") || err != nil && (!errors.Is(err, unreachable) || !strings.Contains(err.Error(), tc.wrong)) {
				t.Errorf("error %v, want one about %q", err, tc.wrong)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("missing rights, -want +got:\n%s", diff)
			}
		})
	}
}
