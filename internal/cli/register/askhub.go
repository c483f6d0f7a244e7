// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package register

import (
	"context"
	"errors"
	"fmt"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	certificatesv1 "k8s.io/api/certificates/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/hub"
	"github.com/capstan-io/capstan/internal/cluster/view"
	"github.com/capstan-io/capstan/internal/registration/boundtoken"
	"github.com/capstan-io/capstan/internal/server/version"
)

// requestTimeout bounds each request to the hub.
const requestTimeout = 30 * time.Second

// errUnknownToken is that a hub does not take a token, or not any more.
var errUnknownToken = errors.New("the hub rejects the token")

// askHub returns a client for the hub that has the token, once the hub takes
// it for what it is needed for.
func (r *registerCommand) askHub(ctx context.Context, j *joinFacts) (client.Client, error) {
	config := &rest.Config{
		Host: j.hub.Server, BearerToken: r.token, TLSClientConfig: rest.TLSClientConfig{CAData: j.hub.CA},
		Timeout: requestTimeout, UserAgent: "capstan/" + version.SemanticVersion(),
	}
	asks, err := newHubClient(config)
	if err != nil {
		return nil, err
	}
	self := &authenticationv1.SelfSubjectReview{}
	if err := asks.Create(ctx, self); apierrors.IsUnauthorized(err) {
		return nil, exit.Next(fmt.Errorf("%w: it has expired, is not for authentication, or the API server of the hub has no --enable-bootstrap-token-auth", errUnknownToken),
			"On the hub, \"capstan token list\" lists the tokens, and \"capstan token create --print-register-command\" makes a new one.")
	} else if err != nil {
		return nil, fmt.Errorf("ask the hub at %s who the token is for: %w", r.address, err)
	}
	if bounds := boundtoken.BoundsOf(self.Status.UserInfo.Username, self.Status.UserInfo.Groups); !bounds.AllowsCluster(j.name) {
		return nil, exit.Next(fmt.Errorf("the token is not valid for a cluster named %q; it is bound to: %s", j.name, bounds),
			"Give the cluster such a name with --cluster-name, or get another token.")
	}
	for _, need := range []authorizationv1.ResourceAttributes{
		{Verb: "create", Group: certificatesv1.GroupName, Resource: "certificatesigningrequests"},
		{Verb: "create", Group: clusterv1.GroupName, Resource: "managedclusters"},
	} {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &need}}
		if err := asks.Create(ctx, review); err != nil {
			return nil, fmt.Errorf("ask the hub at %s what the token is for: %w", r.address, err)
		}
		if !review.Status.Allowed {
			return nil, exit.Next(fmt.Errorf("the token does not give permission to %s %s on the hub at %s: it is a token for something else, or this is not a Capstan hub", need.Verb, need.Resource, r.address),
				"On the hub, \"capstan token create --print-register-command\" creates one for this.")
		}
	}
	return asks, nil
}

func newHubClient(config *rest.Config) (client.Client, error) {
	scheme := runtime.NewScheme()
	mapper := meta.NewDefaultRESTMapper(nil)
	metav1.AddToGroupVersion(scheme, schema.GroupVersion{Version: "v1"})
	if err := errors.Join(authenticationv1.AddToScheme(scheme), authorizationv1.AddToScheme(scheme), clusterv1.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("register API types: %w", err)
	}
	mapper.Add(authenticationv1.SchemeGroupVersion.WithKind("SelfSubjectReview"), meta.RESTScopeRoot)
	mapper.Add(authorizationv1.SchemeGroupVersion.WithKind("SelfSubjectAccessReview"), meta.RESTScopeRoot)
	mapper.Add(clusterv1.GroupVersion.WithKind("ManagedCluster"), meta.RESTScopeRoot)
	c, err := client.New(config, client.Options{Scheme: scheme, Mapper: mapper})
	if err != nil {
		return nil, fmt.Errorf("prepare the connection to %s: %w", config.Host, err)
	}
	return c, nil
}

// checkHub returns why the hub has no place for the cluster.
func (r *registerCommand) checkHub(ctx context.Context, j *joinFacts, uid string) error {
	cluster := &clusterv1.ManagedCluster{}
	err := j.asks.Get(ctx, client.ObjectKey{Name: j.name}, cluster)
	switch {
	case err == nil:
		if err := checkName(cluster, uid); err != nil {
			return err
		}
		j.hubURL = cluster.Annotations[fleetv1alpha1.AnnotationHubURL]
	case apierrors.IsNotFound(err) && !hub.IsKindServed(err):
		return &exit.Error{
			Err:  fmt.Errorf("%s is not a Capstan hub: it does not serve the kinds of one", r.address),
			Next: "Is it the address of the hub? If the hub is still being installed, wait until its ClusterManager is Applied.", Code: exit.NoHub,
		}
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("ask the hub at %s for cluster %q: %w", r.address, j.name, err)
	}
	all := &clusterv1.ManagedClusterList{}
	if err := j.asks.List(ctx, all); apierrors.IsForbidden(err) {
		return nil // a hub of the strict kind; there, its own checks have to do
	} else if err != nil {
		return fmt.Errorf("ask the hub at %s for its clusters: %w", r.address, err)
	}
	for i := range all.Items {
		other := view.FromCluster(&all.Items[i], nil)
		switch {
		case other.Name == j.name || other.Claimed != uid:
		case !other.OwnsNamespace(): // whoever may ask to join can say that
			fmt.Fprintf(r.session.ErrOut, "Warning: %q, which the hub has not accepted, claims to be this cluster. If that is not you, tell an administrator of the hub.\n", other.Name)
		default:
			return exit.Next(fmt.Errorf("the hub already knows this cluster as %q", other.Name),
				"Give it this name with --cluster-name, or remove it first: capstan unregister %s", other.Name)
		}
	}
	return nil
}

// checkName returns why the name is not free for the cluster with the UID.
func checkName(cluster *clusterv1.ManagedCluster, uid string) error {
	known := view.FromCluster(cluster, nil).Claimed
	switch {
	case !cluster.DeletionTimestamp.IsZero():
		return exit.Next(fmt.Errorf("the hub is removing a cluster named %q", cluster.Name), "Wait until it is gone, or choose another name with --cluster-name.")
	case known != "" && known != uid:
		return exit.Next(fmt.Errorf("the name %q is taken on the hub: another cluster uses it", cluster.Name), "Choose another one with --cluster-name.")
	}
	return nil
}

// bootstrapKubeconfig returns what the agent asks the hub with.
func (r *registerCommand) bootstrapKubeconfig(j *joinFacts) ([]byte, error) {
	c := clientcmdapi.NewConfig()
	c.Clusters["hub"] = &clientcmdapi.Cluster{Server: j.hub.Server, CertificateAuthorityData: j.hub.CA}
	c.AuthInfos["bootstrap"] = &clientcmdapi.AuthInfo{Token: r.token}
	c.Contexts["bootstrap"] = &clientcmdapi.Context{Cluster: "hub", AuthInfo: "bootstrap"}
	c.CurrentContext = "bootstrap"
	text, err := clientcmd.Write(*c)
	if err != nil {
		return nil, fmt.Errorf("write the kubeconfig of the hub: %w", err)
	}
	return text, nil
}
