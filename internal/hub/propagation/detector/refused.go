// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package detector

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	"github.com/capstan-io/capstan/internal/hub/propagation/templates"
	"github.com/capstan-io/capstan/internal/kube/events"
	"github.com/capstan-io/capstan/internal/propagation/claims"
)

// Why the hub does not let a policy claim an object.
const (
	refusedForbidden = "Forbidden"
	refusedInvalid   = "Invalid"
	refusedNotFound  = "NotFound"
	refusedByWebhook = "Webhook"
	refusedOtherwise = "Other"
)

// NewRefusalCounter returns the metric of claims that the hub refuses.
func NewRefusalCounter() *prometheus.CounterVec {
	counts := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "capstan_propagation_claims_refused_total",
		Help: "Number of times that the hub did not let a policy claim an object, by reason: Forbidden, Invalid, NotFound (about an object that is there), Webhook (one denied it, or could not be called), Other.",
	}, []string{"reason"})
	for _, reason := range []string{refusedForbidden, refusedInvalid, refusedNotFound, refusedByWebhook, refusedOtherwise} {
		counts.WithLabelValues(reason) // or else the first one would be no increase
	}
	return counts
}

// claimRefusals tells of claims that the hub refuses, and counts them.
type claimRefusals struct {
	objects templates.HubObjects
	events  *events.Recorder
	counts  *prometheus.CounterVec
}

// reportRefusedClaim tells of a claim that the hub refuses, by the admission of whoever runs it, say. It
// returns the error of the claim: that the object is not found only if it is gone.
func (r claimRefusals) reportRefusedClaim(
	ctx context.Context, key templates.Key, template *metav1.PartialObjectMetadata, policy policyv1alpha1.Policy, err error,
) error {
	reason, err := r.judgeRefusal(ctx, key, template, err)
	if reason == "" {
		return err
	}
	r.counts.WithLabelValues(reason).Inc()
	// Related to the policy, it is not counted as one with what else keeps policies from being applied.
	r.events.Eventf(template, policy, corev1.EventTypeWarning, claims.EventFailed, action,
		"policy %q: the hub does not let it claim the object: %v", policy.GetName(), err)
	return fmt.Errorf("policy %q may not claim the object: %w", policy.GetName(), err)
}

// judgeRefusal returns why the hub does not let an object be marked, and what of it is an error: not
// found is one that is gone, and a conflict one that another writer has changed. What a webhook
// calls so is neither: the one would be dropped, and the other tried again without a pause. The
// reason is "" if the error is no word about the marks; see refusal.
func (r claimRefusals) judgeRefusal(ctx context.Context, key templates.Key, template *metav1.PartialObjectMetadata, err error) (reason string, judged error) {
	reason = refusalReason(err)
	if reason == "" {
		return "", err
	}
	if apierrors.IsNotFound(err) {
		switch object, failed := r.objects.Get(ctx, key); {
		case failed != nil:
			return "", failed
		case object.GetUID() != template.UID:
			return "", err // it comes again as its watch tells more
		}
	}
	return reason, errors.New(err.Error()) // without what else it is
}

// refusalReason returns why the hub refuses a claim. It is "" for an error that is no word about
// the claim: another writer came in between, the API server has no time or cannot be reached,
// or this process ends.
func refusalReason(err error) string {
	var answer apierrors.APIStatus
	switch {
	case !errors.As(err, &answer):
		return ""
	case byWebhook(answer.Status().Message):
		return refusedByWebhook
	case apierrors.IsForbidden(err):
		return refusedForbidden
	case apierrors.IsInvalid(err):
		return refusedInvalid
	case apierrors.IsNotFound(err):
		return refusedNotFound
	case apierrors.IsConflict(err), isTransientError(err):
		return ""
	}
	return refusedOtherwise
}

// byWebhook reports whether a message of an API server is about a webhook that denies a write,
// with whatever code, or that cannot be called.
func byWebhook(message string) bool {
	return strings.HasPrefix(message, "admission webhook ") || strings.Contains(message, "failed calling webhook ")
}

// isTransientError reports whether an error is about the API server, or what is in front of it, and
// not about what it was asked for.
func isTransientError(err error) bool {
	return apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) || apierrors.IsTooManyRequests(err) || apierrors.IsServiceUnavailable(err) ||
		apierrors.IsUnauthorized(err) || apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}
