// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	clienttesting "k8s.io/client-go/testing"
	clientevents "k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/internal/hub/propagation/templates"
	"github.com/capstan-io/capstan/internal/kube/events"
	"github.com/capstan-io/capstan/internal/propagation/claims"
)

// claimScene is a hub that answers the claim of ConfigMap shop/settings with an error, and
// has an object of this UID then, or none.
type claimScene struct {
	*testing.T
	controller *DetectionController
	told       *clientevents.FakeRecorder
}

var claimedResource = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}

func newClaimScene(t *testing.T, answer error, uid types.UID, unreadable error) claimScene {
	t.Helper()
	scheme := runtime.NewScheme()
	if err := corev1.AddToScheme(scheme); err != nil {
		t.Fatal(err)
	}
	var has []runtime.Object
	if uid != "" {
		has = append(has, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "settings", UID: uid}})
	}
	hub := dynamicfake.NewSimpleDynamicClient(scheme, has...)
	hub.PrependReactor("patch", claimedResource.Resource, func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, answer })
	if unreadable != nil {
		hub.PrependReactor("get", claimedResource.Resource, func(clienttesting.Action) (bool, runtime.Object, error) { return true, nil, unreadable })
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("ConfigMap"), meta.RESTScopeNamespace)
	told := clientevents.NewFakeRecorder(10)
	objects := templates.HubObjects{Client: hub, Mapper: mapper, Contents: templates.NewContentCache(clock.RealClock{})}
	return claimScene{t, &DetectionController{DetectionDeps: DetectionDeps{Objects: objects}, refusals: claimRefusals{objects, events.NewRecorder(told), NewRefusalCounter()}}, told}
}

// counted returns the reasons that were counted.
func (s claimScene) counted() (reasons []string) {
	s.Helper()
	registry := prometheus.NewPedanticRegistry()
	if err := registry.Register(s.controller.refusals.counts); err != nil {
		s.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil || len(families) != 1 {
		s.Fatalf("there are %d metrics: %v", len(families), err)
	}
	for _, metric := range families[0].GetMetric() {
		if metric.GetCounter().GetValue() > 0 {
			reasons = append(reasons, metric.GetLabel()[0].GetValue())
		}
	}
	return reasons
}

// status is what an API server answers with the code of somebody else.
func status(code int32, message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: code, Message: message}}
}

func TestRefusedClaims(t *testing.T) {
	resource := claimedResource.GroupResource()
	const denied = `admission webhook "owners.example.com" denied the request: ask them`
	notFound := apierrors.NewNotFound(resource, "settings")
	for name, test := range map[string]struct {
		answer     error
		has        types.UID // of the object, if it is there
		unreadable error
		reason     string // as which it counts and is told, if it is a refusal
		gone       bool   // the error is that there is no object
	}{
		"forbidden":                        {answer: apierrors.NewForbidden(resource, "settings", errors.New("no")), has: "u", reason: "Forbidden"},
		"invalid":                          {answer: apierrors.NewInvalid(schema.GroupKind{Kind: "ConfigMap"}, "settings", nil), has: "u", reason: "Invalid"},
		"a bad request":                    {answer: apierrors.NewBadRequest("no"), has: "u", reason: "Other"},
		"an internal error":                {answer: apierrors.NewInternalError(errors.New("conversion")), has: "u", reason: "Other"},
		"not found, and it is there":       {answer: notFound, has: "u", reason: "NotFound"},
		"not found, and gone":              {answer: notFound, gone: true},
		"not found, and another one":       {answer: notFound, has: "v", gone: true},
		"not found, and nobody knows":      {answer: notFound, unreadable: errors.New("not now")},
		"a webhook denies it":              {answer: status(http.StatusForbidden, denied), has: "u", reason: "Webhook"},
		"a webhook calls it not found":     {answer: status(http.StatusNotFound, denied), has: "u", reason: "Webhook"},
		"a webhook calls it a conflict":    {answer: status(http.StatusConflict, denied), has: "u", reason: "Webhook"},
		"a webhook calls it a bad request": {answer: status(http.StatusBadRequest, denied), has: "u", reason: "Webhook"},
		"a webhook has no time":            {answer: status(http.StatusServiceUnavailable, denied), has: "u", reason: "Webhook"},
		"a webhook is down": {
			answer: apierrors.NewInternalError(errors.New(`failed calling webhook "owners.example.com": connection refused`)), has: "u", reason: "Webhook",
		},
		"a conflict":             {answer: apierrors.NewConflict(resource, "settings", errors.New("another writer")), has: "u"},
		"the server is slow":     {answer: apierrors.NewTimeoutError("not yet", 1), has: "u"},
		"the server is busy":     {answer: apierrors.NewTooManyRequests("later", 1), has: "u"},
		"the server is starting": {answer: apierrors.NewServiceUnavailable("not yet"), has: "u"},
		"a proxy has no server": {
			answer: apierrors.NewGenericServerResponse(http.StatusBadGateway, "patch", resource, "settings", "", 0, true), has: "u",
		},
		"nobody answers":   {answer: &url.Error{Op: "Patch", URL: "https://hub", Err: errors.New("connection refused")}, has: "u"},
		"the process ends": {answer: context.Canceled, has: "u"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newClaimScene(t, test.answer, test.has, test.unreadable)
			key := templates.Key{Kind: corev1.SchemeGroupVersion.WithKind("ConfigMap"), Name: types.NamespacedName{Namespace: "shop", Name: "settings"}}
			template := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "settings", UID: "u"}}
			policy := &policyv1alpha1.PropagationPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "own"}}
			_, err := s.controller.claimObject(t.Context(), key, template, policy, "")
			if err == nil || apierrors.IsNotFound(err) != test.gone {
				t.Errorf("the error is %v; want that the object is gone: %t", err, test.gone)
			}
			if test.reason != "" && apierrors.IsConflict(err) {
				t.Errorf("%v would be tried again without a pause", err)
			}
			var want []string
			if test.reason != "" {
				want = []string{test.reason}
			}
			if diff := cmp.Diff(want, s.counted()); diff != "" {
				t.Errorf("counted (-want +got):\n%s", diff)
			}
			if len(s.told.Events) != len(want) {
				t.Fatalf("%d Events, want %d", len(s.told.Events), len(want))
			}
			if len(want) > 0 {
				if text := <-s.told.Events; !strings.Contains(text, "ApplyPolicyFailed") || !strings.Contains(text, test.answer.Error()) {
					t.Errorf("the Event says %q, want %q", text, test.answer)
				}
			}
		})
	}
}

// TestRefusedReleases has no policy select an object any more that one has claimed.
func TestRefusedReleases(t *testing.T) {
	resource := claimedResource.GroupResource()
	const denied = `admission webhook "owners.example.com" denied the request: ask them`
	notFound := apierrors.NewNotFound(resource, "settings")
	for name, test := range map[string]struct {
		answer     error
		has        types.UID // of the object, if it is there
		unreadable error
		done       bool // there is nothing left to do
		conflict   bool // another writer came in between
	}{
		"not found, and gone":           {answer: notFound, done: true},
		"not found, and another one":    {answer: notFound, has: "v", done: true},
		"not found, and it is there":    {answer: notFound, has: "u"},
		"not found, and nobody knows":   {answer: notFound, unreadable: errors.New("not now")},
		"a webhook calls it not found":  {answer: status(http.StatusNotFound, denied), has: "u"},
		"a webhook calls it a conflict": {answer: status(http.StatusConflict, denied), has: "u"},
		"a conflict":                    {answer: apierrors.NewConflict(resource, "settings", errors.New("another writer")), has: "u", conflict: true},
		"forbidden":                     {answer: apierrors.NewForbidden(resource, "settings", errors.New("no")), has: "u"},
		"nobody answers":                {answer: &url.Error{Op: "Patch", URL: "https://hub", Err: errors.New("connection refused")}, has: "u"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newClaimScene(t, test.answer, test.has, test.unreadable)
			key := templates.Key{Kind: corev1.SchemeGroupVersion.WithKind("ConfigMap"), Name: types.NamespacedName{Namespace: "shop", Name: "settings"}}
			policy := &policyv1alpha1.PropagationPolicy{ObjectMeta: metav1.ObjectMeta{
				Namespace: "shop", Name: "own", Labels: map[string]string{policyv1alpha1.LabelPropagationPolicyID: "id"},
			}}
			marks := claims.MarksForPolicy(policy)
			template := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
				Namespace: "shop", Name: "settings", UID: "u", Labels: marks.Labels, Annotations: marks.Annotations,
			}}
			err := s.controller.unclaimObject(t.Context(), key, template)
			if (err == nil) != test.done || apierrors.IsNotFound(err) || apierrors.IsConflict(err) != test.conflict {
				t.Errorf("the error is %v", err)
			}
			if len(s.counted()) > 0 || len(s.told.Events) > 0 {
				t.Errorf("no policy claims it, and %v is counted and told", s.counted())
			}
		})
	}
}
