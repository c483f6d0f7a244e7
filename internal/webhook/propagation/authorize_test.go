// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package propagation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"
	sigsyaml "sigs.k8s.io/yaml"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/internal/kube/access"
)

// served is what the hub of the test serves.
func served(_ context.Context, groupVersion string) (*metav1.APIResourceList, error) {
	switch groupVersion {
	case "apps/v1":
		return &metav1.APIResourceList{APIResources: []metav1.APIResource{
			{Name: "deployments/scale", Kind: "Deployment", Namespaced: true}, {Name: "deployments", Kind: "Deployment", Namespaced: true},
		}}, nil
	case "v1":
		return &metav1.APIResourceList{APIResources: []metav1.APIResource{{Name: "secrets", Kind: "Secret", Namespaced: true}, {Name: "nodes", Kind: "Node"}}}, nil
	case "broken.example.com/v1":
		return nil, errors.New("no answer")
	default:
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "apis"}, groupVersion)
	}
}

func TestPoliciesSendWhatTheirAuthorMayRead(t *testing.T) {
	for name, c := range map[string]struct {
		namespace, spec string
		// asked are all questions, in their order, if none is refused.
		asked []string
		// refused is the question that is refused.
		refused string
		// wantError is a part of the answer.
		wantError string
		kind      func(error) bool
	}{
		"one object": {
			namespace: "shop", spec: "resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: web}]",
			asked: []string{`get deployments.apps "web" in namespace "shop"`},
		},
		"all of a kind": {
			namespace: "shop", spec: "resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, labelSelector: {matchLabels: {a: b}}}]",
			asked: []string{`list deployments.apps in namespace "shop"`},
		},
		"what it refers to": {
			namespace: "shop", spec: "resourceSelectors: [{apiVersion: apps/v1, kind: Deployment, name: a}, {apiVersion: apps/v1, kind: Deployment, name: b}]\npropagateDeps: true",
			asked: []string{
				`get deployments.apps "a" in namespace "shop"`, `list configmaps in namespace "shop"`, `list secrets in namespace "shop"`,
				`get deployments.apps "b" in namespace "shop"`,
			},
		},
		"all namespaces": {
			spec:  "resourceSelectors: [{apiVersion: v1, kind: Secret}, {apiVersion: v1, kind: Secret, namespace: shop, name: a}, {apiVersion: v1, kind: Node}]\npropagateDeps: true",
			asked: []string{`list secrets in all namespaces`, `list configmaps in all namespaces`, `get secrets "a" in namespace "shop"`, `list configmaps in namespace "shop"`, `list secrets in namespace "shop"`, `list nodes in all namespaces`},
		},
		"another namespace": {
			namespace: "shop", spec: "resourceSelectors: [{apiVersion: v1, kind: Secret, namespace: kube-system}]",
			asked: []string{`list secrets in namespace "shop"`},
		},
		"a Secret that the author may not read": {
			namespace: "shop", spec: "resourceSelectors: [{apiVersion: v1, kind: Secret, name: key}]", refused: `get secrets "key" in namespace "shop"`,
			wantError: `user "eve" may not get secrets "key" in namespace "shop" (no)`, kind: apierrors.IsForbidden,
		},
		"Secrets that a Deployment refers to": {
			namespace: "shop", spec: "resourceSelectors: [{apiVersion: apps/v1, kind: Deployment}]\npropagateDeps: true", refused: `list secrets in namespace "shop"`,
			wantError: `may not list secrets in namespace "shop" (no), and a policy sends to clusters only what its author may read`, kind: apierrors.IsForbidden,
		},
		"a kind of later": {
			namespace: "shop", spec: "resourceSelectors: [{apiVersion: example.com/v1, kind: Later}]",
			wantError: "spec.resourceSelectors[0]: the hub does not serve kind Later of example.com/v1", kind: apierrors.IsForbidden,
		},
		"a kind that is misspelled": {
			namespace: "shop", spec: "resourceSelectors: [{apiVersion: v1, kind: Secrets}]", wantError: "create its definition first", kind: apierrors.IsForbidden,
		},
		"no answer about kinds": {
			namespace: "shop", spec: "resourceSelectors: [{apiVersion: broken.example.com/v1, kind: A}]", wantError: "no answer",
			kind: apierrors.IsInternalError,
		},
	} {
		t.Run(name, func(t *testing.T) {
			var asked []string
			author := &policyAuthorizer{resources: served, access: access.ReviewerFunc(func(_ context.Context, _ authenticationv1.UserInfo, what authorizationv1.ResourceAttributes) (bool, string, error) {
				asked = append(asked, describePermission(what))
				return describePermission(what) != c.refused, "no", nil
			})}
			spec := &policyv1alpha1.PropagationSpec{}
			if err := sigsyaml.UnmarshalStrict([]byte(c.spec), spec); err != nil {
				t.Fatal(err)
			}
			ctx := admission.NewContextWithRequest(t.Context(), admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
				UserInfo: authenticationv1.UserInfo{Username: "eve"},
			}})
			err := author.authorizePolicy(ctx, propagationPolicies, "a", c.namespace, spec)
			if c.wantError == "" {
				if err != nil || !slices.Equal(asked, c.asked) {
					t.Errorf("asked %q, want %q: %v", asked, c.asked, err)
				}
				return
			}
			if !c.kind(err) || !strings.Contains(err.Error(), c.wantError) {
				t.Errorf("got %v, want a refusal with %q", err, c.wantError)
			}
		})
	}
}

// TestAuthorsOfLongPoliciesAreAskedAboutBriefly counts what the API server is asked for a policy of as many selectors as
// there may be.
func TestAuthorsOfLongPoliciesAreAskedAboutBriefly(t *testing.T) {
	const selectors = 256
	for name, c := range map[string]struct {
		kinds   []string
		ends    bool // the request ends with the first question
		lists   int
		reviews int
	}{
		"one kind":                    {kinds: []string{"Deployment"}, lists: 1, reviews: 1},
		"nobody waits for the answer": {kinds: []string{"Deployment"}, ends: true, lists: 1, reviews: 0},
		"two kinds of one group":      {kinds: []string{"Secret", "Node"}, lists: 1, reviews: 2},
		"kinds of different groups":   {kinds: []string{"Secret", "Deployment", "Node"}, lists: 2, reviews: 3},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, end := context.WithCancel(admission.NewContextWithRequest(t.Context(), admission.Request{}))
			defer end()
			lists, reviews := 0, 0
			author := &policyAuthorizer{
				resources: func(ctx context.Context, groupVersion string) (*metav1.APIResourceList, error) {
					if lists++; c.ends {
						end()
					}
					if err := ctx.Err(); err != nil {
						return nil, err
					}
					return served(ctx, groupVersion)
				},
				access: access.ReviewerFunc(func(ctx context.Context, _ authenticationv1.UserInfo, _ authorizationv1.ResourceAttributes) (bool, string, error) {
					reviews++
					return true, "", ctx.Err()
				}),
			}
			spec := &policyv1alpha1.PropagationSpec{}
			for n := range selectors {
				kind := c.kinds[n%len(c.kinds)]
				version := "v1"
				if kind == "Deployment" {
					version = "apps/v1"
				}
				spec.ResourceSelectors = append(spec.ResourceSelectors, policyv1alpha1.ResourceSelector{APIVersion: version, Kind: kind, Name: fmt.Sprint("a-", n)})
			}
			if err := author.authorizePolicy(ctx, propagationPolicies, "a", "shop", spec); c.ends != (err != nil) {
				t.Error(err)
			}
			if lists != c.lists || reviews != c.reviews {
				t.Errorf("the API server is asked %d times what it serves and %d times about the author, want %d and %d", lists, reviews, c.lists, c.reviews)
			}
		})
	}
}

// TestFewNamesAreAskedAboutEach has an author who may get objects by their names alone.
func TestFewNamesAreAskedAboutEach(t *testing.T) {
	for names, want := range map[int]string{namesMax: "get", namesMax + 1: "list"} {
		spec := &policyv1alpha1.PropagationSpec{}
		for n := range names {
			spec.ResourceSelectors = append(spec.ResourceSelectors, policyv1alpha1.ResourceSelector{APIVersion: "v1", Kind: "Secret", Name: fmt.Sprint("a-", n)})
		}
		spec.ResourceSelectors = append(spec.ResourceSelectors, policyv1alpha1.ResourceSelector{APIVersion: "v1", Kind: "Node", Name: "a"})
		questions, err := (&policyAuthorizer{resources: served}).requiredReads(t.Context(), "shop", spec)
		if err != nil {
			t.Fatal(err)
		}
		number := map[string]int{"get": namesMax, "list": 1}[want]
		if len(questions) != number+1 || questions[0].Verb != want || questions[number].Name != "a" {
			t.Errorf("of %d names, %d questions are asked, the first of which is to %s", names, len(questions), describePermission(questions[0]))
		}
	}
}
