// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Identity returns who the hub holds the cluster for, or "" if it does not know
// yet. It does not believe what the agent of a Pull cluster says.
func (c *ClusterConnection) Identity() string {
	if known := c.Annotations[AnnotationClusterID]; known != "" || c.Spec.SyncMode != SyncModePush {
		return known
	}
	return c.Status.ID
}
