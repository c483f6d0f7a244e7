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
	"github.com/capstan-io/capstan/internal/conditions"
	"github.com/capstan-io/capstan/internal/install"
	"github.com/capstan-io/capstan/internal/install/definitions"
	"github.com/capstan-io/capstan/internal/render"
)

const (
	// definition is that of PodMonitors.
	definition = "podmonitors.monitoring.coreos.com"
	// recheck is how soon it is looked again whether there is the definition, or the
	// right: nothing tells.
	recheck = time.Minute
)

// Request is what an object asks for.
type Request struct {
	// Object has the annotation; Conditions are those in its status, in memory.
	Object     client.Object
	Conditions *[]metav1.Condition
	// Owner are labels by which PodMonitors are the object's.
	Owner    map[string]string
	Monitors []render.Object
	// Apply applies and records objects that are read by their names.
	Apply func(context.Context, *install.Target, ...render.Object) error
}

// Run makes the PodMonitors, or removes those of an object that does not ask for them
// any more, and says in condition Monitored what came of it. It returns when to look
// again; 0 is any time.
func (r Request) Run(ctx context.Context, on *install.Target) (again time.Duration, err error) {
	asked, there := r.Object.GetAnnotations()[fleetv1alpha1.AnnotationMonitoring]
	switch {
	case !there:
		return 0, r.Remove(ctx, on)
	case asked != fleetv1alpha1.MonitoringPodMonitor:
		r.say(operatorv1.ReasonMonitoringUnknown, fmt.Sprintf("annotation %s is %q; there is %q",
			fleetv1alpha1.AnnotationMonitoring, asked, fleetv1alpha1.MonitoringPodMonitor))
		return 0, nil
	}
	defined, err := isDefined(ctx, on)
	if err == nil && !defined {
		r.say(operatorv1.ReasonPodMonitorUndefined, "there is no CustomResourceDefinition "+definition+"; install the Prometheus operator, or remove the annotation")
		return recheck, nil
	}
	if err == nil {
		err = r.Apply(ctx, on, r.Monitors...)
	}
	switch {
	case meta.IsNoMatchError(err): // the definition came this moment
		return recheck, nil
	case apierrors.IsForbidden(err):
		r.say(operatorv1.ReasonPodMonitorsForbidden, "the role of the operator does not allow PodMonitors: "+err.Error())
		return recheck, nil
	case err != nil:
		return 0, fmt.Errorf("applying PodMonitors: %w", err)
	}
	conditions.Set(r.Conditions, r.Object.GetGeneration(), metav1.Condition{
		Type: operatorv1.ConditionMonitored, Status: metav1.ConditionTrue, Reason: operatorv1.ReasonPodMonitorsApplied,
		Message: fmt.Sprintf("Prometheus reads with the token in the Secret %q beside each PodMonitor", fleetv1alpha1.MonitoringTokenSecret),
	})
	return 0, nil
}

// Remove removes the PodMonitors of an object that asked for them.
func (r Request) Remove(ctx context.Context, on *install.Target) error {
	if meta.FindStatusCondition(*r.Conditions, operatorv1.ConditionMonitored) == nil {
		return nil // it never did, and nobody is asked about that
	}
	err := on.Named.Remove(ctx, r.Owner, r.Monitors...)
	if err != nil && !meta.IsNoMatchError(err) {
		return fmt.Errorf("removing PodMonitors: %w", err)
	}
	meta.RemoveStatusCondition(r.Conditions, operatorv1.ConditionMonitored)
	return nil
}

// say reports why there are no PodMonitors.
func (r Request) say(reason, message string) {
	conditions.Set(r.Conditions, r.Object.GetGeneration(), metav1.Condition{
		Type: operatorv1.ConditionMonitored, Status: metav1.ConditionFalse, Reason: reason, Message: message,
	})
}

// isDefined tells whether the cluster has the kind.
func isDefined(ctx context.Context, on *install.Target) (bool, error) {
	found := definitions.Metadata()
	err := on.Live.Get(ctx, client.ObjectKey{Name: definition}, found)
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("reading CustomResourceDefinition %q: %w", definition, err)
	}
	return true, nil
}
