// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package features is the one table of feature gates: which gates exist, for
// which component, and their defaults. Operators validate against it,
// components parse their flag with it.
package features

import (
	"fmt"
	"maps"
	"slices"
	"sort"
	"strconv"
	"strings"
)

// Component is a part of Capstan that has feature gates of its own.
type Component string

// The components, named after the field of ClusterManager or Klusterlet that
// sets their gates.
const (
	HubRegistration   Component = "ClusterManager.spec.registrationConfiguration"
	HubWork           Component = "ClusterManager.spec.workConfiguration"
	HubAddOnManager   Component = "ClusterManager.spec.addOnManagerConfiguration"
	HubPlacement      Component = "ClusterManager.spec.placementConfiguration"
	AgentRegistration Component = "Klusterlet.spec.registrationConfiguration"
	AgentWork         Component = "Klusterlet.spec.workConfiguration"
)

// Gate is the name of a feature gate.
type Gate string

// The gates. What each does stands in the table of docs/reference/gates.md.
const (
	DefaultClusterSet              Gate = "DefaultClusterSet"
	ManagedClusterAutoApproval     Gate = "ManagedClusterAutoApproval"
	ResourceCleanup                Gate = "ResourceCleanup"
	ClusterProfile                 Gate = "ClusterProfile"
	ClusterImporter                Gate = "ClusterImporter"
	V1beta1CSRAPICompatibility     Gate = "V1beta1CSRAPICompatibility"
	NetworkPolicies                Gate = "NetworkPolicies"
	StrictBootstrap                Gate = "StrictBootstrap"
	UniqueClusterIdentity          Gate = "UniqueClusterIdentity"
	AggregatedAPI                  Gate = "AggregatedAPI"
	NilExecutorValidating          Gate = "NilExecutorValidating"
	ManifestWorkReplicaSet         Gate = "ManifestWorkReplicaSet"
	CleanUpCompletedManifestWork   Gate = "CleanUpCompletedManifestWork"
	CloudEventsDrivers             Gate = "CloudEventsDrivers"
	AddonManagement                Gate = "AddonManagement"
	PlacementDebugServer           Gate = "PlacementDebugServer"
	SIGPlacementDecision           Gate = "SIGPlacementDecision"
	Propagation                    Gate = "Propagation"
	PropagationAuthorization       Gate = "PropagationAuthorization"
	NamespaceSyncAll               Gate = "NamespaceSyncAll"
	PriorityBasedScheduling        Gate = "PriorityBasedScheduling"
	PropagationPolicyPreemption    Gate = "PropagationPolicyPreemption"
	WorkloadAffinity               Gate = "WorkloadAffinity"
	MultiplePodTemplatesScheduling Gate = "MultiplePodTemplatesScheduling"
	KarmadaEvents                  Gate = "KarmadaEvents"
	ClusterClaim                   Gate = "ClusterClaim"
	ClusterProperty                Gate = "ClusterProperty"
	MultipleHubs                   Gate = "MultipleHubs"
	ExecutorValidatingCaches       Gate = "ExecutorValidatingCaches"
	RawFeedbackJSONString          Gate = "RawFeedbackJsonString"
	ReportHealth                   Gate = "ReportHealth"
)

// definition is what the table says of a gate of a component.
type definition struct {
	enabled bool
	// operatorOnly says that the operator acts on the gate and the component
	// must not get it as a flag.
	operatorOnly bool
	// planned says that the gate does nothing yet. It is known, so that manifests
	// for OCM can have it, and whoever turns it on is told.
	planned bool
}

// gateDefinitions returns the gates of a component, or nil for an unknown one.
func gateDefinitions(component Component) map[Gate]definition {
	switch component {
	case HubRegistration:
		return map[Gate]definition{
			DefaultClusterSet:          {enabled: true},
			ManagedClusterAutoApproval: {},
			ResourceCleanup:            {enabled: true},
			ClusterProfile:             {planned: true},
			ClusterImporter:            {planned: true},
			V1beta1CSRAPICompatibility: {planned: true},
			NetworkPolicies:            {operatorOnly: true},
			StrictBootstrap:            {operatorOnly: true},
			UniqueClusterIdentity:      {},
			AggregatedAPI:              {},
		}
	case HubWork:
		return map[Gate]definition{
			NilExecutorValidating:        {},
			ManifestWorkReplicaSet:       {},
			CleanUpCompletedManifestWork: {},
			CloudEventsDrivers:           {planned: true},
		}
	case HubAddOnManager:
		return map[Gate]definition{AddonManagement: {enabled: true, planned: true}}
	case HubPlacement:
		return map[Gate]definition{
			PlacementDebugServer:           {operatorOnly: true},
			SIGPlacementDecision:           {planned: true},
			Propagation:                    {operatorOnly: true},
			PropagationAuthorization:       {operatorOnly: true},
			NamespaceSyncAll:               {},
			PriorityBasedScheduling:        {enabled: true},
			PropagationPolicyPreemption:    {},
			WorkloadAffinity:               {},
			MultiplePodTemplatesScheduling: {},
			KarmadaEvents:                  {},
		}
	case AgentRegistration:
		return map[Gate]definition{
			AddonManagement:            {enabled: true, planned: true},
			ClusterClaim:               {enabled: true},
			ClusterProperty:            {},
			MultipleHubs:               {planned: true},
			V1beta1CSRAPICompatibility: {planned: true},
			NetworkPolicies:            {operatorOnly: true},
		}
	case AgentWork:
		return map[Gate]definition{ExecutorValidatingCaches: {}, RawFeedbackJSONString: {}, ReportHealth: {}}
	default:
		return nil
	}
}

// GateSet says of each gate of one component whether it is on. It does not change
// after it was made.
type GateSet struct {
	component Component
	changed   map[Gate]bool
}

// ResolveGates returns the set of a component with the given gates changed from
// their defaults. The names that the component does not have are returned,
// sorted, and are not in the set.
func ResolveGates(component Component, changed map[string]bool) (set GateSet, unknown []string) {
	known := gateDefinitions(component)
	set = GateSet{component: component, changed: map[Gate]bool{}}
	for name, on := range changed {
		if _, ok := known[Gate(name)]; !ok {
			unknown = append(unknown, name)
			continue
		}
		set.changed[Gate(name)] = on
	}
	sort.Strings(unknown)
	return set, unknown
}

// ParseFlags returns the set of a component for flags of the form Name=true. All
// errors in them are returned at once, with the names that are possible. A gate
// that does nothing yet cannot be turned on.
func ParseFlags(component Component, flags []string) (GateSet, error) {
	changed := map[string]bool{}
	for _, flag := range flags {
		name, value, ok := strings.Cut(strings.TrimSpace(flag), "=")
		on, err := strconv.ParseBool(value)
		if !ok || err != nil {
			return GateSet{}, fmt.Errorf("feature gate %q: want NAME=true or NAME=false", flag)
		}
		changed[name] = on
	}
	set, unknown := ResolveGates(component, changed)
	if len(unknown) > 0 {
		return GateSet{}, fmt.Errorf("unknown feature gates %q; known feature gates: %q", unknown, GateNames(component))
	}
	if planned := set.PlannedGates(); len(planned) > 0 {
		return GateSet{}, fmt.Errorf("feature gates %q are not implemented in this release: remove them", planned)
	}
	return set, nil
}

// PlannedGates returns, sorted, the gates that were turned on and do nothing yet. A
// gate that is on by default is not among them: nobody asked for it.
func (s GateSet) PlannedGates() []string {
	known := gateDefinitions(s.component)
	var names []string
	for gate, on := range s.changed {
		if d := known[gate]; d.planned && on && !d.enabled {
			names = append(names, string(gate))
		}
	}
	slices.Sort(names)
	return names
}

// ValidMessage is the message of an operator about gates that all exist. It names those
// that were turned on and do nothing yet.
func ValidMessage(sets ...GateSet) string {
	var planned []string
	for _, set := range sets {
		for _, name := range set.PlannedGates() {
			planned = append(planned, fmt.Sprintf("%s of %s", name, set.component))
		}
	}
	if len(planned) == 0 {
		return "all feature gates exist"
	}
	slices.Sort(planned)
	return "all feature gates exist; not yet implemented and without effect: " + strings.Join(planned, ", ")
}

// Enabled reports whether the gate is on. One that does nothing yet is off.
func (s GateSet) Enabled(gate Gate) bool {
	d := gateDefinitions(s.component)[gate]
	if d.planned {
		return false
	}
	if on, ok := s.changed[gate]; ok {
		return on
	}
	return d.enabled
}

// WithoutGate returns the set with the gate turned off.
func (s GateSet) WithoutGate(gate Gate) GateSet {
	changed := maps.Clone(s.changed)
	if changed == nil {
		changed = map[Gate]bool{}
	}
	changed[gate] = false
	return GateSet{component: s.component, changed: changed}
}

// ChangedFlags returns, sorted, NAME=true or NAME=false for each gate that is not as
// by default and that the component itself acts on.
func (s GateSet) ChangedFlags() []string {
	known := gateDefinitions(s.component)
	var flags []string
	for gate, on := range s.changed {
		if d := known[gate]; !d.operatorOnly && !d.planned && on != d.enabled {
			flags = append(flags, fmt.Sprintf("%s=%t", gate, on))
		}
	}
	sort.Strings(flags)
	return flags
}

// GateNames returns the sorted names of all gates of a component.
func GateNames(component Component) []string {
	var names []string
	for gate := range gateDefinitions(component) {
		names = append(names, string(gate))
	}
	slices.Sort(names)
	return names
}
