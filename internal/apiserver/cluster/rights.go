// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster

import (
	"context"
	"fmt"
	"maps"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/endpoints/request"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/apis/karmada/cluster/v1alpha1"
	"github.com/capstan-io/capstan/internal/apiserver/cluster/translate"
	"github.com/capstan-io/capstan/internal/kube/access"
)

// requesterRights decides whether the user may do by way of a Cluster what the account of
// this program can do: to be allowed to write Clusters is not enough for it.
type requesterRights struct{ reviewer access.Reviewer }

// checkCreate requires the right to accept the cluster, besides those for what the
// Cluster says. Before is what was there of it.
func (r requesterRights) checkCreate(ctx context.Context, before, cluster *v1alpha1.Cluster, connection *fleetv1alpha1.ClusterConnection) error {
	accept := authorizationv1.ResourceAttributes{
		Group: clusterv1.RegisterGroup, Resource: "managedclusters", Subresource: "accept", Verb: "update", Name: cluster.Name,
	}
	if err := r.requireRight(ctx, cluster.Name, "a Cluster that is created is accepted by the hub, which", accept); err != nil {
		return err
	}
	if set := cluster.Labels[clusterv1.LabelClusterSet]; set != clusterv1.DefaultClusterSet && set == before.Labels[clusterv1.LabelClusterSet] {
		// Whoever may ask to join can name any set, so that it is this user who chooses it.
		before = &v1alpha1.Cluster{}
	}
	if err := r.checkJoin(ctx, before, cluster); err != nil {
		return err
	}
	return r.checkConnect(ctx, &v1alpha1.Cluster{}, cluster, connection)
}

// checkUpdate requires the rights for what changes.
func (r requesterRights) checkUpdate(ctx context.Context, before, after *v1alpha1.Cluster, connection *fleetv1alpha1.ClusterConnection) error {
	if err := r.checkJoin(ctx, before, after); err != nil {
		return err
	}
	return r.checkConnect(ctx, before, after, connection)
}

// checkJoin requires the right to join both sets between which a cluster moves.
func (r requesterRights) checkJoin(ctx context.Context, before, after *v1alpha1.Cluster) error {
	from := before.Labels[clusterv1.LabelClusterSet]
	to := after.Labels[clusterv1.LabelClusterSet]
	if from == to {
		return nil
	}
	for _, set := range []string{from, to} {
		if set == "" {
			continue
		}
		what := authorizationv1.ResourceAttributes{
			Group: clusterv1.GroupName, Resource: "managedclustersets", Subresource: "join", Verb: "create", Name: set,
		}
		if err := r.requireRight(ctx, after.Name, fmt.Sprintf("adding the cluster to the set %q or removing it (label %s)", set, clusterv1.LabelClusterSet), what); err != nil {
			return err
		}
	}
	return nil
}

// checkConnect requires the right to read each Secret that the change would send
// somewhere else, or would begin to use: otherwise whoever may write Clusters
// could have any token sent to a server of theirs.
func (r requesterRights) checkConnect(ctx context.Context, before, after *v1alpha1.Cluster, connection *fleetv1alpha1.ClusterConnection) error {
	moved := movesCredentials(&before.Spec, &after.Spec)
	for _, s := range []struct {
		field         string
		before, after *v1alpha1.LocalSecretReference
		// used is the Secret in the namespace of the cluster that is sent already.
		used string
	}{
		{"secretRef", before.Spec.SecretRef, sentSecretRef(after), translate.LocalSecret(connection)},
		{"impersonatorSecretRef", before.Spec.ImpersonatorSecretRef, after.Spec.ImpersonatorSecretRef, localName(connection.Spec.ImpersonatorSecretRef)},
	} {
		if s.after == nil {
			continue
		}
		if s.before == nil || *s.before != *s.after {
			if err := r.checkRead(ctx, after.Name, "spec."+s.field+" refers to a Secret, which", *s.after); err != nil {
				return err
			}
		} else if moved && s.used != "" {
			used := v1alpha1.LocalSecretReference{Namespace: after.Name, Name: s.used}
			if err := r.checkRead(ctx, after.Name, "changing how the hub connects to the cluster sends it a credential, which", used); err != nil {
				return err
			}
		}
	}
	return nil
}

// sentSecretRef returns the Secret that is sent to a cluster: without a reference, that of
// a Push cluster is the default.
func sentSecretRef(cluster *v1alpha1.Cluster) *v1alpha1.LocalSecretReference {
	if cluster.Spec.SecretRef == nil && cluster.Spec.SyncMode == v1alpha1.Push {
		return &v1alpha1.LocalSecretReference{Namespace: cluster.Name, Name: fleetv1alpha1.DefaultSecretName}
	}
	return cluster.Spec.SecretRef
}

func localName(ref *fleetv1alpha1.SecretReference) string {
	if ref == nil {
		return ""
	}
	return ref.Name
}

// movesCredentials reports whether credentials would go somewhere else, or to somebody in
// between.
func movesCredentials(before, after *v1alpha1.ClusterSpec) bool {
	return before.APIEndpoint != after.APIEndpoint || before.ProxyURL != after.ProxyURL ||
		!maps.Equal(before.ProxyHeader, after.ProxyHeader) || before.InsecureSkipTLSVerification != after.InsecureSkipTLSVerification
}

func (r requesterRights) checkRead(ctx context.Context, cluster, why string, secret v1alpha1.LocalSecretReference) error {
	return r.requireRight(ctx, cluster, why, authorizationv1.ResourceAttributes{
		Resource: "secrets", Verb: "get", Namespace: secret.Namespace, Name: secret.Name,
	})
}

// requireRight refuses the request unless its user has a right.
func (r requesterRights) requireRight(ctx context.Context, cluster, why string, what authorizationv1.ResourceAttributes) error {
	requester, ok := request.UserFrom(ctx)
	if !ok {
		return apierrors.NewInternalError(fmt.Errorf("the request for Cluster %q has no user", cluster))
	}
	user := authenticationv1.UserInfo{Username: requester.GetName(), UID: requester.GetUID(), Groups: requester.GetGroups()}
	for key, values := range requester.GetExtra() {
		if user.Extra == nil {
			user.Extra = map[string]authenticationv1.ExtraValue{}
		}
		user.Extra[key] = values
	}
	may, reason, err := r.reviewer.IsAllowed(ctx, user, what)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	if may {
		return nil
	}
	if reason != "" {
		reason = " (" + reason + ")"
	}
	return forbiddenError(cluster, fmt.Errorf("%s requires a permission that user %q does not have: %s%s", why, user.Username, access.DescribePermission(what), reason))
}
