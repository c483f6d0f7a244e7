// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package reserved defines what of a hub is never sent to clusters by a policy: the
// kinds that the fleet itself is made of, records that change all the time, what every
// cluster makes for itself, and kinds that would allow privilege escalation. It
// is the one list of the namespaces that belong to the fleet and to Kubernetes, which
// no cluster may be named after either.
package reserved

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Why a group or kind is reserved, as the end of a sentence.
const (
	fleet    = "the fleet itself is made of it"
	record   = "it is a record that the hub keeps for itself"
	identity = "it leads to credentials of the hub"
	gate     = "it decides what the hub's API server serves and admits"
	machine  = "it is a machine of the hub"
)

func groupReasons() map[string]string {
	return map[string]string{
		"fleet.capstan.io":                    fleet,
		"addon.open-cluster-management.io":    fleet,
		"cluster.open-cluster-management.io":  fleet,
		"operator.open-cluster-management.io": fleet,
		"work.open-cluster-management.io":     fleet,
		"connect.capstan.io":                  fleet,
		"apps.karmada.io":                     fleet,
		"autoscaling.karmada.io":              fleet,
		"cluster.karmada.io":                  fleet,
		"config.karmada.io":                   fleet,
		"networking.karmada.io":               fleet,
		"policy.karmada.io":                   fleet,
		"remedy.karmada.io":                   fleet,
		"search.karmada.io":                   fleet,
		"work.karmada.io":                     fleet,
		"coordination.k8s.io":                 record,
		"events.k8s.io":                       record,
		"authentication.k8s.io":               identity,
		"authorization.k8s.io":                identity,
		"certificates.k8s.io":                 identity,
		"admissionregistration.k8s.io":        gate,
		"apiregistration.k8s.io":              gate,
	}
}

// coreKind of the core group.
type coreKind struct{ name, resource, why string }

func coreKinds() []coreKind {
	return []coreKind{{"Event", "events", record}, {"Node", "nodes", machine}}
}

// machineBoundKinds are the kinds of further groups whose objects are about the hub's own
// machines.
func machineBoundKinds() map[schema.GroupKind]string {
	return map[schema.GroupKind]string{
		{Group: "resource.k8s.io", Kind: "ResourceSlice"}:     machine,
		{Group: "storage.k8s.io", Kind: "CSINode"}:            machine,
		{Group: "storage.k8s.io", Kind: "CSIStorageCapacity"}: machine,
		{Group: "storage.k8s.io", Kind: "VolumeAttachment"}:   machine,
	}
}

// KindReservedReason tells why objects of a kind are never sent to clusters; "" is that they
// may be.
func KindReservedReason(of schema.GroupKind) string {
	if why := machineBoundKinds()[of]; why != "" {
		return why
	}
	if of.Group != "" {
		return groupReasons()[of.Group]
	}
	for _, k := range coreKinds() {
		if k.name == of.Kind {
			return k.why
		}
	}
	return ""
}

// AllReservedGroups are the API groups of which no kind is sent, sorted.
func AllReservedGroups() []string { return slices.Sorted(maps.Keys(groupReasons())) }

// CoreResources are the resources of the core group that are not sent.
func CoreResources() []string {
	var resources []string
	for _, k := range coreKinds() {
		resources = append(resources, k.resource)
	}
	return resources
}
