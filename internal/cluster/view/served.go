// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package view

import (
	"strings"
	"unique"

	"k8s.io/apimachinery/pkg/api/meta"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
)

// ServedKinds is the kinds that a cluster serves. The clusters of one version serve
// the same kinds, and share one list of them; such values are equal. The zero
// value is that of a cluster that nobody has asked.
type ServedKinds struct {
	// kinds are lines such as "apps/v1 Deployment", with a line break before and
	// after each.
	kinds unique.Handle[string]
	// complete says that no kind is missing.
	complete bool
}

const (
	// kindSeparator is before and after each kind of a list.
	kindSeparator = "\n"
	// kindsBytesMax is how long a list is at most, which is more than any cluster needs. An
	// agent writes each group and version once, and here it stands beside each of its
	// kinds: one of 200 KiB with five thousand kinds would fill any memory.
	kindsBytesMax = 512 << 10
)

// ServedBy returns the kinds that a ClusterConnection lists, up to kindsBytesMax.
func ServedBy(connection *fleetv1alpha1.ClusterConnection) ServedKinds {
	if connection == nil || len(connection.Status.APIEnablements) == 0 {
		return ServedKinds{}
	}
	var kinds strings.Builder
	kinds.WriteString(kindSeparator)
	for _, served := range connection.Status.APIEnablements {
		for _, resource := range served.Resources {
			if kinds.Len()+len(served.GroupVersion)+len(resource.Kind)+len(" "+kindSeparator) > kindsBytesMax {
				return ServedKinds{kinds: unique.Make(kinds.String())}
			}
			kinds.WriteString(served.GroupVersion + " " + resource.Kind + kindSeparator)
		}
	}
	return ServedKinds{
		kinds:    unique.Make(kinds.String()),
		complete: meta.IsStatusConditionTrue(connection.Status.Conditions, fleetv1alpha1.ClusterConnectionConditionCompleteAPIEnablements),
	}
}

// LacksKind reports whether the cluster is known not to serve a kind. A list that is
// missing or not complete tells that of no kind.
func (s ServedKinds) LacksKind(apiVersion, kind string) bool {
	return s.complete && !strings.Contains(s.kinds.Value(), kindSeparator+apiVersion+" "+kind+kindSeparator)
}
