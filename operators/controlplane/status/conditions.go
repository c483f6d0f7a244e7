// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package status

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/operator/install"
)

// expiresSoon is when a certificate that was not renewed is worth a report: it is
// renewed with six days left.
const expiresSoon = 72 * time.Hour

// ControlPlaneFacts are what a walk has found out.
type ControlPlaneFacts struct {
	// Outcome is how it ended.
	Outcome install.PassOutcome
	// Etcd is nil if it is external. EtcdProblem is why etcd cannot be used although
	// its pods are ready or nobody knows, with its reason in EtcdReason.
	Etcd                    *WorkloadStatus
	EtcdReason, EtcdProblem string
	// APIServer and ControllerManager are nil until they were read.
	APIServer, ControllerManager *WorkloadStatus
	// Certificates are those of the status.
	Certificates []fleetv1alpha1.ControlPlaneCertificate
	// Upgrading says from which version to which; empty if it is not.
	Upgrading string
	// Rotating says what is being replaced, and what that waits for; empty if nothing.
	Rotating string
	// Kubeconfig reports whether the Secret has a kubeconfig that works.
	Kubeconfig bool
	// Where names the Secret.
	Where string
	Now   time.Time
}

// DeriveConditions returns what the facts mean.
func DeriveConditions(f ControlPlaneFacts) []metav1.Condition {
	etcd := etcdReady(f)
	server := workloadReady(fleetv1alpha1.ControlPlaneConditionAPIServerReady, f.APIServer, 1)
	manager := workloadReady(fleetv1alpha1.ControlPlaneConditionControllerManagerReady, f.ControllerManager, 1)
	list := []metav1.Condition{
		certificatesCondition(f), etcd, server, manager, kubeconfigCondition(f),
		availableCondition(etcd, server, manager), progressingCondition(f), degradedCondition(f),
	}
	return list
}

func newCondition(kind string, ok bool, reason, message string) metav1.Condition {
	c := metav1.Condition{Type: kind, Status: metav1.ConditionFalse, Reason: reason, Message: message}
	if ok {
		c.Status = metav1.ConditionTrue
	}
	return c
}

func workloadReady(kind string, w *WorkloadStatus, enough int32) metav1.Condition {
	switch {
	case w == nil:
		return newCondition(kind, false, fleetv1alpha1.ControlPlaneReasonInstalling, "not installed yet")
	case w.Ready >= enough:
		return newCondition(kind, true, fleetv1alpha1.ControlPlaneReasonAsExpected, fmt.Sprintf("%d of %d pods are ready", w.Ready, w.Wanted))
	default:
		return newCondition(kind, false, cmp.Or(w.Reason, fleetv1alpha1.ControlPlaneReasonPodsNotReady), w.String())
	}
}

func etcdReady(f ControlPlaneFacts) metav1.Condition {
	const kind = fleetv1alpha1.ControlPlaneConditionEtcdReady
	switch {
	case f.EtcdProblem != "":
		return newCondition(kind, false, f.EtcdReason, f.EtcdProblem)
	case f.Etcd != nil:
		return workloadReady(kind, f.Etcd, f.Etcd.Wanted/2+1)
	case f.APIServer != nil && f.APIServer.Ready > 0:
		return newCondition(kind, true, fleetv1alpha1.ControlPlaneReasonAsExpected, "the API server stores its objects in it")
	default:
		return newCondition(kind, false, fleetv1alpha1.ControlPlaneReasonInstalling, "not used yet")
	}
}

func kubeconfigCondition(f ControlPlaneFacts) metav1.Condition {
	const kind = fleetv1alpha1.ControlPlaneConditionKubeconfigReady
	if f.Kubeconfig {
		return newCondition(kind, true, fleetv1alpha1.ControlPlaneReasonAsExpected, fmt.Sprintf("Secret %q has the kubeconfig", f.Where))
	}
	reason := fleetv1alpha1.ControlPlaneReasonInstalling
	message := fmt.Sprintf("Secret %q has not been written yet", f.Where)
	if f.Outcome.Phase == PhaseKubeconfig && f.Outcome.Message != "" {
		reason = f.Outcome.Reason
		message = f.Outcome.Message
	}
	return newCondition(kind, false, reason, message)
}

// PhaseKubeconfig is the name of the phase that writes the kubeconfig.
const PhaseKubeconfig = "kubeconfig"

// certificatesCondition reports on all of them, the one that expires first by name.
func certificatesCondition(f ControlPlaneFacts) metav1.Condition {
	const kind = fleetv1alpha1.ControlPlaneConditionCertificatesValid
	if len(f.Certificates) == 0 {
		return newCondition(kind, false, fleetv1alpha1.ControlPlaneReasonInstalling, "there are no certificates yet")
	}
	first := slices.MinFunc(f.Certificates, func(a, b fleetv1alpha1.ControlPlaneCertificate) int {
		return a.Expires.Compare(b.Expires.Time)
	})
	at := first.Expires.UTC().Format(time.RFC3339)
	switch left := first.Expires.Sub(f.Now); {
	case left <= 0:
		return newCondition(kind, false, fleetv1alpha1.ControlPlaneReasonExpiresSoon, fmt.Sprintf("the certificate in Secret %q expired at %s", first.Name, at))
	case left <= expiresSoon:
		return newCondition(kind, false, fleetv1alpha1.ControlPlaneReasonExpiresSoon, fmt.Sprintf("the certificate in Secret %q expires at %s", first.Name, at))
	default:
		return newCondition(kind, true, fleetv1alpha1.ControlPlaneReasonAsExpected, "all certificates are valid")
	}
}

func availableCondition(parts ...metav1.Condition) metav1.Condition {
	const kind = fleetv1alpha1.ControlPlaneConditionAvailable
	for _, part := range parts {
		if part.Status != metav1.ConditionTrue {
			return newCondition(kind, false, part.Reason, strings.TrimSuffix(part.Type, "Ready")+": "+part.Message)
		}
	}
	return newCondition(kind, true, fleetv1alpha1.ControlPlaneReasonAsExpected, "the API server serves, and its controllers run")
}

func progressingCondition(f ControlPlaneFacts) metav1.Condition {
	const kind = fleetv1alpha1.ControlPlaneConditionProgressing
	reason := fleetv1alpha1.ControlPlaneReasonInstalling
	switch {
	case f.Upgrading != "":
		reason = fleetv1alpha1.ControlPlaneReasonUpgrading
	case f.Rotating != "":
		reason = fleetv1alpha1.ControlPlaneReasonRotating
	}
	if f.Outcome.Result == install.Waiting {
		return newCondition(kind, true, reason, cmp.Or(f.Outcome.Message, "waiting"))
	}
	for _, w := range []*WorkloadStatus{f.Etcd, f.APIServer, f.ControllerManager} {
		if w != nil && !w.AllPodsCurrent() {
			return newCondition(kind, true, reason, w.String())
		}
	}
	if f.Outcome.Result != install.Done {
		return newCondition(kind, false, f.Outcome.Reason, "stopped: condition Degraded says why")
	}
	if f.Rotating != "" {
		return newCondition(kind, true, reason, f.Rotating)
	}
	return newCondition(kind, false, fleetv1alpha1.ControlPlaneReasonAsExpected, "everything is as the spec describes")
}

func degradedCondition(f ControlPlaneFacts) metav1.Condition {
	const kind = fleetv1alpha1.ControlPlaneConditionDegraded
	switch f.Outcome.Result {
	case install.Mistake, install.Unreachable, install.Failed:
		return newCondition(kind, true, cmp.Or(f.Outcome.Reason, fleetv1alpha1.ControlPlaneReasonApplyFailed), f.Outcome.Message)
	case install.Waiting:
		// What is waited for may be long in coming: then it has a reason of its own.
		if f.Outcome.Reason != "" && f.Outcome.Reason != fleetv1alpha1.ControlPlaneReasonInstalling {
			return newCondition(kind, true, f.Outcome.Reason, f.Outcome.Message)
		}
	}
	for _, w := range []*WorkloadStatus{f.Etcd, f.APIServer, f.ControllerManager} {
		switch {
		case w == nil || w.AllPodsCurrent():
		case w.Reason != "":
			return newCondition(kind, true, w.Reason, w.String())
		case w.Settled && f.Outcome.Result == install.Done && w.Ready < w.Wanted:
			return newCondition(kind, true, fleetv1alpha1.ControlPlaneReasonPodsNotReady, w.String())
		}
	}
	return newCondition(kind, false, fleetv1alpha1.ControlPlaneReasonAsExpected, "nothing is wrong")
}
