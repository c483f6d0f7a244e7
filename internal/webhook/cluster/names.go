// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	"github.com/capstan-io/capstan/internal/propagation/reserved"
)

// checkClusterName returns what is wrong with a cluster's name. The hub makes a
// namespace of this name and lets the cluster's agent write Leases and
// ManifestWorks there. In a namespace that Kubernetes or Capstan itself works
// in, those Leases would be the elections and heartbeats of others, so such
// names are refused however the request came.
func checkClusterName(name string) error {
	if problems := validation.IsDNS1123Label(name); len(problems) > 0 {
		return fmt.Errorf("the cluster name %q is not a valid name for its namespace on the hub: %s; register the cluster under another name",
			name, strings.Join(problems, "; "))
	}
	owner := reserved.OwnerOfNamespace(name)
	switch {
	case name == corev1.NamespaceDefault:
		owner = reserved.Kubernetes
	case owner == reserved.Nobody, owner == reserved.OpenShift: // checkNamespace looks whether OpenShift is there
		return nil
	}
	return fmt.Errorf("the cluster name %q is reserved: the namespace of this name on the hub is for %s, and the cluster's agent would get permissions there; register the cluster under another name",
		name, owner)
}

// checkNamespace returns what is wrong with giving the namespace that the hub
// has already, nil if there is none, to the cluster. A warning is for a
// namespace that somebody else made: that may be the preparation for the
// cluster, or a namespace in which the cluster's agent has no business.
func checkNamespace(cluster string, namespace *corev1.Namespace) (warning string, err error) {
	if namespace == nil || namespace.Labels[clusterv1.LabelClusterName] == cluster {
		return "", nil
	}
	if reserved.OwnerOfNamespace(cluster) == reserved.OpenShift {
		return "", fmt.Errorf("the cluster name %q is also a namespace that OpenShift uses on the hub, and the cluster's agent would get permissions there; register the cluster under another name, or label the namespace %s=%s if it was created for the cluster",
			cluster, clusterv1.LabelClusterName, cluster)
	}
	return fmt.Sprintf("the hub already has a namespace %q; once the cluster is accepted, its agent may write Leases, ManifestWorks and Events there, policies send nothing more from it, and what they have sent is taken back. Do not accept it unless the namespace was created for it",
		cluster), nil
}

// checkNotTerminating returns why a cluster cannot be accepted while its
// namespace goes away.
func checkNotTerminating(cluster string, namespace *corev1.Namespace) error {
	if namespace == nil || (namespace.Status.Phase != corev1.NamespaceTerminating && namespace.DeletionTimestamp.IsZero()) {
		return nil
	}
	return fmt.Errorf("the cluster %q cannot be accepted while its namespace is being deleted; wait until 'kubectl get namespace %s' finds nothing",
		cluster, cluster)
}
