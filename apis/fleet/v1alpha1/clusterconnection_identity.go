// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1

// Identity returns the cluster ID as the hub has verified it, or "" if it is
// not known yet. It does not trust what the agent of a Pull cluster reports.
func (c *ClusterConnection) Identity() string {
	if known := c.Annotations[AnnotationClusterID]; known != "" || c.Spec.SyncMode != SyncModePush {
		return known
	}
	return c.Status.ID
}
