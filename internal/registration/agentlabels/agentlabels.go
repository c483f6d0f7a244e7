// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package agentlabels decides which labels of its ManagedCluster an agent may change once
// the hub has accepted the cluster. Policies, Placements and cluster sets choose clusters
// by labels, so a cluster that chose its own would choose what it is sent.
//
// An administrator allows keys in spec.agentLabels of a ClusterConnection, or for all
// clusters in the annotation fleet.capstan.io/agent-labels of the ClusterManager. The
// hub notes on each ManagedCluster what holds for it. There the agent reads it, and the
// admission policy capstan-guard-managedclusters, which repeats AllowsKey in CEL.
package agentlabels

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
)

const (
	// every allows all keys, and as the name after a prefix all keys with that prefix.
	every     = "*"
	separator = ","
)

// AllowedKeys are the keys that an agent may change: each is a key, "example.com/*" for all
// keys with that prefix, or "*" for all. None allows nothing.
type AllowedKeys []string

// ParseAllowedKeys returns the keys of a list that is separated by commas, with or without spaces.
func ParseAllowedKeys(text string) (AllowedKeys, error) {
	var allowed AllowedKeys
	for _, key := range strings.Split(text, separator) {
		if key = strings.TrimSpace(key); key == "" {
			continue
		}
		if err := checkLabelKey(key); err != nil {
			return nil, err
		}
		allowed = append(allowed, key)
	}
	return allowed, nil
}

func checkLabelKey(key string) error {
	sample := key
	if prefix, found := strings.CutSuffix(key, "/"+every); found {
		sample = prefix + "/name"
	}
	if problems := validation.IsQualifiedName(sample); key != every && len(problems) > 0 {
		return fmt.Errorf("%q is neither the key of a label, such as example.com/env, nor example.com/* for all with a prefix, nor * for all: %s",
			key, strings.Join(problems, "; "))
	}
	return nil
}

// String returns the list that ParseAllowedKeys reads.
func (a AllowedKeys) String() string { return strings.Join(a, separator) }

// AllowsKey reports whether an agent may change the label. The one of the cluster set is for
// whoever may move clusters between sets, and none of its agents may.
func (a AllowedKeys) AllowsKey(key string) bool {
	return key != clusterv1.LabelClusterSet && slices.ContainsFunc(a, func(one string) bool {
		prefix, all := strings.CutSuffix(one, "/"+every)
		return one == key || one == every || all && strings.HasPrefix(key, prefix+"/")
	})
}

// AnnotateCluster writes on a ManagedCluster what its agent may change.
func (a AllowedKeys) AnnotateCluster(on *clusterv1.ManagedCluster) {
	metav1.SetMetaDataAnnotation(&on.ObjectMeta, fleetv1alpha1.AnnotationAgentLabels, a.String())
}

// AllowedOf returns what the hub has noted on a ManagedCluster. A hub that notes nothing, such
// as one of another make, leaves all labels to the agent.
func AllowedOf(mc *clusterv1.ManagedCluster) AllowedKeys {
	noted, limited := mc.Annotations[fleetv1alpha1.AnnotationAgentLabels]
	if !limited {
		return AllowedKeys{every}
	}
	return slices.DeleteFunc(strings.Split(noted, separator), func(key string) bool { return key == "" })
}
