// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package succession lets an agent continue where another agent of the same
// cluster left off, so that a cluster can move from Pull to Push and back
// without disturbing its workloads.
//
// What an agent applies is marked with the hub's URL as that agent knows it, and
// with the agent's ID. Agents inside and outside of a cluster may know the hub
// by different URLs. So the first one writes its URL down, in the ManagedCluster,
// and those who come after it go by that. docs/adr/0009 tells more.
package succession

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/cluster/fleet"
)

// TakeOverConnection makes a connection that is not engaged yet one that goes on where the
// agent before left off, and writes down that it does, on the member first: as
// long as the hub names the agent before, it is known who that was.
func TakeOverConnection(ctx context.Context, c *fleet.Connection) error {
	ownURL := c.HubHost
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		mc := &clusterv1.ManagedCluster{}
		if err := c.Hub.GetAPIReader().Get(ctx, client.ObjectKey{Name: string(c.Name)}, mc); err != nil {
			return fmt.Errorf("reading which agent served ManagedCluster %q before: %w", c.Name, err)
		}
		c.HubHost, c.Predecessor = inheritHubURL(mc, ownURL, c.AgentID)
		if err := markMember(ctx, c); err != nil {
			return err
		}
		if !signCluster(mc, c.HubHost, c.AgentID) {
			return nil
		}
		err := c.Hub.GetClient().Update(ctx, mc)
		if apierrors.IsForbidden(err) {
			return nil // a hub that does not let us write this down does without
		}
		if err != nil {
			return fmt.Errorf("recording which agent serves ManagedCluster %q: %w", c.Name, err)
		}
		return nil
	})
}

// inheritHubURL returns the URL of the hub to go by, and the ID of the agent that
// worked for the cluster before; empty if that was this one, or none. A cluster
// that has never joined has had no agent: what is noted there is from whoever made
// the object, as each holder of a bootstrap token may, and could be the URL and the
// agent of another hub, whose records on the member would be taken over.
func inheritHubURL(mc *clusterv1.ManagedCluster, url, agent string) (hubURL, predecessor string) {
	if !meta.IsStatusConditionTrue(mc.Status.Conditions, clusterv1.ManagedClusterConditionJoined) {
		return url, ""
	}
	if before := mc.Annotations[fleetv1alpha1.AnnotationHubURL]; before != "" {
		url = before
	}
	if before := mc.Annotations[fleetv1alpha1.AnnotationAgentID]; before != agent {
		predecessor = before
	}
	return url, predecessor
}

// signCluster notes the agent and reports whether that is news.
func signCluster(mc *clusterv1.ManagedCluster, url, agent string) bool {
	if mc.Annotations[fleetv1alpha1.AnnotationHubURL] == url && mc.Annotations[fleetv1alpha1.AnnotationAgentID] == agent {
		return false
	}
	metav1.SetMetaDataAnnotation(&mc.ObjectMeta, fleetv1alpha1.AnnotationHubURL, url)
	metav1.SetMetaDataAnnotation(&mc.ObjectMeta, fleetv1alpha1.AnnotationAgentID, agent)
	return true
}

// HasSuccessor reports whether an agent of another ID works for the cluster now.
func HasSuccessor(mc *clusterv1.ManagedCluster, agent string) bool {
	now := mc.Annotations[fleetv1alpha1.AnnotationAgentID]
	return now != "" && now != agent
}
