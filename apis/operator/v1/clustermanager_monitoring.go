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
	// ReasonPodMonitorUndefined (False): the cluster does not have the kind, which comes
	// with the Prometheus operator.
	ReasonPodMonitorUndefined = "PodMonitorUndefined"
	// ReasonPodMonitorsForbidden (False): the role of the operator does not allow them.
	ReasonPodMonitorsForbidden = "PodMonitorsForbidden"
	// ReasonMonitoringUnknown (False): the annotation has a value that this operator does
	// not know.
	ReasonMonitoringUnknown = "MonitoringUnknown"
)
