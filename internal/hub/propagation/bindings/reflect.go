// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package bindings

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-io/capstan/internal/hub/propagation/sum"
	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/kube/conflict"
)

// refusalMax is how many bytes of the API server's reason a refusal has.
const refusalMax = 512

// reflectResult is what came of writing the status of an object.
type reflectResult struct {
	// again is when to try again; 0 if there is no need.
	again time.Duration
	// refusal says that the API server does not take the status, and never will: it is
	// tried again when a cluster reports something else.
	refusal string
	// failed is what may be over when it is tried again.
	failed error
}

// reflectStatus writes what became of the object in the clusters to its own status,
// unless a controller of a shared hub does that, or has it wait as the status of the binding does.
func (p *bindingPass) reflectStatus(ctx context.Context) reflectResult {
	c, object := p.by, p.object
	if c.Hub.OwnsKind(p.key.Kind.GroupKind()) {
		return reflectResult{}
	}
	status, ok, problem := c.Chain.AggregateStatus(object, sum.ForTemplate(p.items))
	if problem != nil { // another customization brings the binding back
		c.Events.Eventf(object, nil, corev1.EventTypeWarning, "AggregateStatusFailed", action, "%s", interpret.ErrorSentences(problem))
		return reflectResult{again: interpret.RetryDelayOf(problem)}
	}
	if !ok {
		return reflectResult{}
	}
	change := sum.StatusDifference(object, status)
	if len(change) == 0 {
		return reflectResult{}
	}
	if p.reportWait > 0 {
		return reflectResult{again: p.reportWait}
	}
	refused, err := p.setStatus(ctx, change)
	if err == nil && refused == nil {
		return reflectResult{}
	}
	if later, waits := conflict.RetryAfter(err); waits && refused == nil {
		return reflectResult{again: later}
	}
	c.Events.Eventf(object, nil, corev1.EventTypeWarning, "AggregateStatusFailed", action, "%v", errors.Join(refused, err))
	return reflectResult{refusal: refusalMessage(refused), failed: err}
}

// setStatus changes the status of an object. What a cluster reports may be nothing that
// the API server takes; then the fields that this names are left out, so that they do not
// keep the others from being written. Refused says what it does not take.
func (p *bindingPass) setStatus(ctx context.Context, change map[string]any) (refused, err error) {
	err = p.patchObjectStatus(ctx, change)
	if !apierrors.IsInvalid(err) && !apierrors.IsBadRequest(err) {
		return nil, client.IgnoreNotFound(err)
	}
	refused = err
	rest := acceptedFields(change, err)
	if len(rest) == 0 || len(rest) == len(change) {
		return refused, nil
	}
	err = p.patchObjectStatus(ctx, rest)
	if apierrors.IsInvalid(err) {
		return refused, nil
	}
	return refused, client.IgnoreNotFound(err)
}

// patchObjectStatus writes fields of the status of the object, which etcd stores whole.
func (p *bindingPass) patchObjectStatus(ctx context.Context, change map[string]any) error {
	written, err := p.by.Objects.SetStatus(ctx, p.key, p.object.GetUID(), change)
	if err == nil {
		p.by.Store.Meter.CountObjectWrite(ctx, client.ObjectKeyFromObject(p.binding), written)
	}
	return err //nolint:wrapcheck // it names the object
}

// acceptedFields returns the fields of a status that an error of the API server does not name.
func acceptedFields(change map[string]any, err error) map[string]any {
	rest := maps.Clone(change)
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) || status.Status().Details == nil {
		return rest
	}
	for _, cause := range status.Status().Details.Causes {
		if path, is := strings.CutPrefix(cause.Field, "status."); is {
			delete(rest, path[:strings.IndexFunc(path+".", func(r rune) bool { return r == '.' || r == '[' })])
		}
	}
	return rest
}

// refusalMessage tells of an error of the API server as a sentence, "" if there is none.
func refusalMessage(refused error) string {
	if refused == nil {
		return ""
	}
	text := refused.Error()
	if len(text) > refusalMax {
		text = strings.ToValidUTF8(text[:refusalMax], "") + "..."
	}
	return fmt.Sprintf("The hub rejects the status that clusters report for the object: %s", text)
}
