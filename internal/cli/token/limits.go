// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package token

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
)

// allowsJoin reports whether a cluster can ask to join with the token.
func (c *createCommand) allowsJoin() bool {
	return slices.Contains(c.groups, clusterv1.GroupBootstrappers) && slices.Contains(c.usages, authentication)
}

// describeLimits says what one can do with the token: which clusters may ask to join,
// until when, who lets them in, and how many may wait for that.
func (c *createCommand) describeLimits(ctx context.Context, hub client.Client) string {
	who := "Any cluster"
	they := "it"
	switch {
	case c.hasExactNames() && len(c.names) == 1:
		who = "Cluster " + c.names[0]
	case len(c.names) > 0:
		who = "Clusters " + strings.Join(c.names, ", ")
		they = "them"
	}
	until := "forever"
	accepts := "an administrator accepts " + they
	if c.ttl > 0 {
		until = "until " + c.session.Clock.Now().Add(c.ttl).UTC().Format(time.RFC3339)
	}
	if c.autoAccept {
		accepts = "the hub accepts " + they + " automatically"
	}
	text := fmt.Sprintf("%s may ask to join with this token %s; %s.", who, until, accepts)
	may := "may wait for acceptance at a time"
	if c.autoAccept {
		may = "may join with it" // those that wait count, too
	}
	limit, known := unacceptedLimit(ctx, hub)
	switch {
	case limit == 0 || c.hasExactNames() && len(c.names) <= limit:
	case known:
		text += fmt.Sprintf(" Up to %d clusters %s.", limit, may)
	default:
		text += fmt.Sprintf(" Unless the hub has another limit, up to %d clusters %s.", limit, may)
	}
	return text
}

// hasExactNames reports whether the token is for clusters of certain names only.
func (c *createCommand) hasExactNames() bool {
	return len(c.names) > 0 && !slices.ContainsFunc(c.names, func(name string) bool { return strings.Contains(name, "*") })
}

// unacceptedLimit returns how many clusters may wait for acceptance that come
// with one token, 0 for any number. It is not known of a hub that is installed
// from elsewhere, or whose ClusterManager the user may not read; the default is
// likely then. One that is wrong there is not in force either.
func unacceptedLimit(ctx context.Context, hub client.Client) (limit int, known bool) {
	list := &operatorv1.ClusterManagerList{}
	if err := hub.List(ctx, list); err != nil {
		return operatorv1.MaxUnacceptedClustersDefault, false
	}
	for i := range list.Items {
		if list.Items[i].Spec.DeployOption.Mode == operatorv1.InstallModeHosted {
			continue // the hub is another cluster
		}
		if limit, err := list.Items[i].MaxUnacceptedClusters(); err == nil {
			return limit, true
		}
	}
	return operatorv1.MaxUnacceptedClustersDefault, false
}
