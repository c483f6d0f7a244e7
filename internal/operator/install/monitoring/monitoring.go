// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package monitoring is how operators make the PodMonitors that an object asks for, as
// long as the cluster has the kind, and remove them.
//
// What is in one is for package podmonitor, and which there are for the operators.
package monitoring

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/kube/conditions"
	"github.com/capstan-io/capstan/internal/operator/install"
	"github.com/capstan-io/capstan/internal/operator/install/definitions"
	"github.com/capstan-io/capstan/internal/operator/podmonitor"
	"github.com/capstan-io/capstan/internal/operator/render"
)

const (
	// definition is that of PodMonitors.
	definition = "podmonitors.monitoring.coreos.com"
	// recheck is how soon it is looked again whether there is the definition, or the
	// right, or whether a failure has passed: nothing tells.
	recheck = time.Minute
	// soon is when the PodMonitors are made after the status says that they will be.
	soon = time.Second
)

// PodMonitorRequest is what an object asks for. Its condition Monitored says that there may be
// PodMonitors of it, so they are made only once that is stored.
type PodMonitorRequest struct {
	// Object has the annotation; Conditions are those in its status, in memory.
	Object     client.Object
	Conditions *[]metav1.Condition
	Monitors   []render.Object
	// Others returns the PodMonitors of the other objects that ask, as AsksForMonitors tells: those
	// stay when they are no longer this object's.
	Others func(context.Context) ([]render.Object, error)
	// Apply applies and records objects that are read by their names.
	Apply func(context.Context, *install.Target, ...render.Object) error
}

// AsksForMonitors reports whether an object asks for PodMonitors, and removes them when it does not
// any more.
func AsksForMonitors(object client.Object, list []metav1.Condition) bool {
	return object.GetDeletionTimestamp().IsZero() &&
		object.GetAnnotations()[fleetv1alpha1.AnnotationMonitoring] == fleetv1alpha1.MonitoringPodMonitor &&
		meta.FindStatusCondition(list, operatorv1.ConditionMonitored) != nil
}

// ReconcileMonitors makes the PodMonitors, or removes those of an object that does not ask for them
// any more, and says in condition Monitored what came of it, failures, too: they are no
// reason to leave out what is installed after them. It returns when to look again; 0 is
// any time.
func (r PodMonitorRequest) ReconcileMonitors(ctx context.Context, on *install.Target) (again time.Duration) {
	asked, there := r.Object.GetAnnotations()[fleetv1alpha1.AnnotationMonitoring]
	var err error
	switch {
	case !there:
		err = r.RemoveMonitors(ctx, on)
	case asked != fleetv1alpha1.MonitoringPodMonitor:
		if err = r.deleteMonitors(ctx, on); err == nil {
			r.reportNotMonitored(operatorv1.ReasonMonitoringUnknown, fmt.Sprintf("annotation %s is %q; there is %q",
				fleetv1alpha1.AnnotationMonitoring, asked, fleetv1alpha1.MonitoringPodMonitor))
		}
	default:
		again, err = r.ensureMonitors(ctx, on)
	}
	if err != nil {
		r.reportNotMonitored(operatorv1.ReasonPodMonitorsFailed, err.Error())
		return recheck
	}
	return again
}

// ensureMonitors makes the PodMonitors.
func (r PodMonitorRequest) ensureMonitors(ctx context.Context, on *install.Target) (again time.Duration, err error) {
	defined, err := isDefined(ctx, on)
	switch {
	case apierrors.IsForbidden(err):
		return r.reportForbidden(err), nil
	case err != nil:
		return 0, err
	case !defined:
		r.reportNotMonitored(operatorv1.ReasonPodMonitorUndefined, "there is no CustomResourceDefinition "+definition+"; install the Prometheus operator, or remove the annotation")
		return recheck, nil
	case meta.FindStatusCondition(*r.Conditions, operatorv1.ConditionMonitored) == nil:
		r.reportNotMonitored(operatorv1.ReasonPodMonitorsPending, "the PodMonitors are about to be created")
		return soon, nil
	}
	err = r.Apply(ctx, on, r.Monitors...)
	switch {
	case meta.IsNoMatchError(err): // the definition came this moment
		r.reportNotMonitored(operatorv1.ReasonPodMonitorUndefined, "the API server does not serve PodMonitors yet")
		return recheck, nil
	case apierrors.IsForbidden(err):
		return r.reportForbidden(err), nil
	case err != nil:
		return 0, fmt.Errorf("applying PodMonitors: %w", err)
	}
	conditions.SetCondition(r.Conditions, r.Object.GetGeneration(), metav1.Condition{
		Type: operatorv1.ConditionMonitored, Status: metav1.ConditionTrue, Reason: operatorv1.ReasonPodMonitorsApplied,
		Message: fmt.Sprintf("Prometheus authenticates with the token in Secret %q in each PodMonitor's namespace", fleetv1alpha1.MonitoringTokenSecret),
	})
	return 0, nil
}

// RemoveMonitors removes the PodMonitors of an object that asked for them.
func (r PodMonitorRequest) RemoveMonitors(ctx context.Context, on *install.Target) error {
	if err := r.deleteMonitors(ctx, on); err != nil {
		return err
	}
	meta.RemoveStatusCondition(r.Conditions, operatorv1.ConditionMonitored)
	return nil
}

// deleteMonitors deletes the PodMonitors that nobody else asks for.
func (r PodMonitorRequest) deleteMonitors(ctx context.Context, on *install.Target) error {
	if meta.FindStatusCondition(*r.Conditions, operatorv1.ConditionMonitored) == nil {
		return nil // it never did, and nobody is asked about that
	}
	others, err := r.Others(ctx)
	if err != nil {
		return err
	}
	kept := map[client.ObjectKey]bool{}
	for _, monitor := range others {
		key, err := monitorKey(monitor)
		if err != nil {
			return err
		}
		kept[key] = true
	}
	for _, monitor := range r.Monitors {
		key, err := monitorKey(monitor)
		if err != nil {
			return err
		}
		if kept[key] {
			continue
		}
		if err := on.Named.RemoveLabelled(ctx, podmonitor.MonitorLabels(), monitor); err != nil && !meta.IsNoMatchError(err) {
			return fmt.Errorf("removing PodMonitors: %w", err)
		}
	}
	return nil
}

func monitorKey(monitor render.Object) (client.ObjectKey, error) {
	u, err := render.ToUnstructured(monitor)
	if err != nil {
		return client.ObjectKey{}, err
	}
	return client.ObjectKeyFromObject(u), nil
}

// reportForbidden says that the operator may not make them.
func (r PodMonitorRequest) reportForbidden(err error) (again time.Duration) {
	r.reportNotMonitored(operatorv1.ReasonPodMonitorsForbidden, "the role of the operator does not allow PodMonitors: "+err.Error())
	return recheck
}

// reportNotMonitored reports why the PodMonitors are not as the object asks.
func (r PodMonitorRequest) reportNotMonitored(reason, message string) {
	conditions.SetCondition(r.Conditions, r.Object.GetGeneration(), metav1.Condition{
		Type: operatorv1.ConditionMonitored, Status: metav1.ConditionFalse, Reason: reason, Message: message,
	})
}

// isDefined reports whether the cluster has the kind.
func isDefined(ctx context.Context, on *install.Target) (bool, error) {
	found := definitions.DefinitionMetadata()
	err := on.Live.Get(ctx, client.ObjectKey{Name: definition}, found)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading CustomResourceDefinition %q: %w", definition, err)
	}
	return true, nil
}
