// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package selfconflict

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/kube/conditions"
	"github.com/capstan-io/capstan/internal/server/metrics"
)

const (
	// reportEvery is how often the conditions are compared with what is held back.
	reportEvery = 10 * time.Second
	// fieldOwner owns the conditions.
	fieldOwner = "self-conflict"
	// namedMax is how many objects a message names.
	namedMax = 3
)

// ReportedKind is a kind whose objects have the condition.
type ReportedKind interface {
	reportConflicts(context.Context, *conflictReporter, []Conflict) error
}

// ReportOnKind says that the objects of a kind have the condition, which the cache has as they are
// in kind. Its conditions are those that an object has. Of returns which objects of the
// kind answer for what was written: none if those of another kind do.
func ReportOnKind[O client.Object](
	kind O, conditions func(O) []metav1.Condition, of func(context.Context, WrittenObject) ([]types.NamespacedName, error),
) ReportedKind {
	return conditionHolder[O]{kind: kind, conditions: conditions, of: of}
}

// conditionHolder is what ReportOnKind returns.
type conditionHolder[O client.Object] struct {
	kind       O
	conditions func(O) []metav1.Condition
	of         func(context.Context, WrittenObject) ([]types.NamespacedName, error)
}

// SetupReporter registers the metric of the damper and, where the manager leads, keeps the
// conditions of the kinds. A condition that an earlier process has left goes, too.
func (d *Damper) SetupReporter(mgr ctrl.Manager, registry prometheus.Registerer, kinds ...ReportedKind) error {
	gauge := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "capstan_self_conflicts", Help: "Number of objects that the component keeps writing because something reverts them, and therefore writes less and less often.",
	}, func() float64 { return float64(len(d.HeldConflicts())) })
	registered := &prometheus.AlreadyRegisteredError{}
	if err := metrics.RegisterCollectors(registry, gauge); err != nil && !errors.As(err, registered) { // there is one manager in a process, but in tests
		return err //nolint:wrapcheck // it says what failed
	}
	if len(kinds) == 0 {
		return nil
	}
	if err := mgr.Add(&conflictReporter{client: mgr.GetClient(), cache: mgr.GetCache(), damper: d, kinds: kinds}); err != nil {
		return fmt.Errorf("adding the reporter of self-conflicts: %w", err)
	}
	return nil
}

// conflictReporter keeps the conditions.
type conflictReporter struct {
	client client.Client
	cache  cache.Cache
	damper *Damper
	kinds  []ReportedKind
}

// Start implements manager.Runnable.
func (r *conflictReporter) Start(ctx context.Context) error {
	ticker := r.damper.clock.NewTicker(reportEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C():
			if err := r.updateConditions(ctx); err != nil && ctx.Err() == nil {
				logr.FromContextOrDiscard(ctx).Error(err, "Conditions SelfConflict are not up to date, and are written again soon")
			}
		}
	}
}

// NeedLeaderElection implements manager.LeaderElectionRunnable.
func (r *conflictReporter) NeedLeaderElection() bool { return true }

// updateConditions writes the conditions that have changed. What is fought over may be the status
// that has them: the report of it would never have its turn.
func (r *conflictReporter) updateConditions(ctx context.Context) error {
	ctx = context.WithValue(ctx, undampedWrites{}, true)
	var errs []error
	conflicts := r.damper.HeldConflicts()
	for _, kind := range r.kinds {
		errs = append(errs, kind.reportConflicts(ctx, r, conflicts))
	}
	return errors.Join(errs...)
}

// reportConflicts implements ReportedKind.
func (h conditionHolder[O]) reportConflicts(ctx context.Context, r *conflictReporter, conflicts []Conflict) error {
	held := map[types.NamespacedName][]Conflict{}
	errs := []error{}
	for _, conflict := range conflicts {
		names, err := h.of(ctx, conflict.WrittenObject)
		errs = append(errs, err)
		for _, name := range names {
			held[name] = append(held[name], conflict)
		}
	}
	errs = append(errs, metrics.EachCached(ctx, r.cache, h.kind, func(object O) {
		var want []metav1.Condition
		if of := held[client.ObjectKeyFromObject(object)]; len(of) > 0 {
			want = []metav1.Condition{conflictCondition(of, object.GetGeneration())}
		}
		has := meta.FindStatusCondition(h.conditions(object), fleetv1alpha1.ConditionSelfConflict)
		if has == nil && want == nil || has != nil && want != nil && has.Message == want[0].Message {
			return
		}
		err := conditions.ApplyStatus(ctx, r.client, object, fieldOwner, want, nil)
		errs = append(errs, client.IgnoreNotFound(err))
	}))
	return errors.Join(errs...)
}

// conflictCondition says which objects are held back, and since when.
func conflictCondition(of []Conflict, generation int64) metav1.Condition {
	names := make([]string, 0, namedMax)
	for _, conflict := range of[:min(len(of), namedMax)] {
		names = append(names, fmt.Sprintf("%s (since %s)", conflict.WrittenObject, conflict.Since.UTC().Format(time.RFC3339)))
	}
	if more := len(of) - namedMax; more > 0 {
		names = append(names, fmt.Sprintf("%d more", more))
	}
	return metav1.Condition{
		Type: fleetv1alpha1.ConditionSelfConflict, Status: metav1.ConditionTrue, Reason: fleetv1alpha1.ReasonWrittenWithoutEnd,
		ObservedGeneration: generation, LastTransitionTime: metav1.NewTime(slices.MinFunc(of, func(a, b Conflict) int { return a.Since.Compare(b.Since) }).Since),
		Message: "Something keeps reverting what the hub writes to these objects, so that they are written less and less often: " +
			strings.Join(names, ", ") + ". Their metadata.managedFields show who else writes them.",
	}
}
