// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package references

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capstan-io/capstan/internal/interpret"
	"github.com/capstan-io/capstan/internal/propagation/reserved"
)

// rootCertificates is the name of the ConfigMap that each namespace of a cluster
// has, with the certificates by which that cluster is known.
const rootCertificates = "kube-root-ca.crt"

// DirectReferences returns what an object needs itself, of a namespace and of kinds that may
// be sent. An error is that of a customization.
func DirectReferences(chain interpret.Chain, object *unstructured.Unstructured, namespace string) ([]Reference, error) {
	dependencies, err := chain.GetDependencies(object)
	if err != nil {
		return nil, err
	}
	var all []Reference
	for _, on := range dependencies {
		reference := Reference{APIVersion: on.APIVersion, Kind: on.Kind, Namespace: on.Namespace, Name: on.Name, LabelSelector: on.Selector}
		own := on.Kind == "ConfigMap" && on.Name == rootCertificates // the cluster's
		if on.Namespace == namespace && !own && reserved.KindReservedReason(reference.GroupVersionKind().GroupKind()) == "" {
			all = append(all, reference)
		}
	}
	return all, nil
}
