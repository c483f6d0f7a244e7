// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1

// ConditionMonitored of ClusterManager and Klusterlet reports whether there are the
// PodMonitors that the annotation fleet.capstan.io/monitoring asks for. It is there
// only with the annotation.
const ConditionMonitored = "Monitored"

// Reasons of Monitored.
const (
	// ReasonPodMonitorsApplied (True): they are there.
	ReasonPodMonitorsApplied = "PodMonitorsApplied"
	// ReasonPodMonitorsPending (False): they are about to be made.
	ReasonPodMonitorsPending = "PodMonitorsPending"
	// ReasonPodMonitorUndefined (False): the cluster does not have the kind, which comes
	// with the Prometheus operator.
	ReasonPodMonitorUndefined = "PodMonitorUndefined"
	// ReasonPodMonitorsForbidden (False): the role of the operator does not allow them.
	ReasonPodMonitorsForbidden = "PodMonitorsForbidden"
	// ReasonPodMonitorsFailed (False): they could not be made, or not be removed; the
	// message has the error. Everything else works.
	ReasonPodMonitorsFailed = "PodMonitorsFailed"
	// ReasonMonitoringUnknown (False): the annotation has a value that this operator does
	// not know; PodMonitors of before are gone.
	ReasonMonitoringUnknown = "MonitoringUnknown"
)
