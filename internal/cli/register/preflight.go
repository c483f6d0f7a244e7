// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package register

import (
	"context"
	"fmt"
	"strings"

	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	authorizationclient "k8s.io/client-go/kubernetes/typed/authorization/v1"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/cli/discovery"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/install"
	klusterlet "github.com/capstan-io/capstan/operators/klusterlet/manifests"
)

// joinFacts is what the checks found out, and what the installation needs.
type joinFacts struct {
	// name is that of the member on the hub.
	name string
	hub  *discovery.Hub
	// asks is the hub, asked with the token.
	asks client.Client
	// hubURL is how agents that the cluster had before know the hub; empty if it
	// had none.
	hubURL string
	// endpoint is the address of the member that the hub shows; empty for none.
	endpoint string
}

// preflight checks all that can be known before anything is changed.
func (r *registerCommand) preflight(ctx context.Context) (*joinFacts, error) {
	who, err := r.member.Identify(ctx)
	if err != nil {
		return nil, err
	}
	name, err := memberName(r.name, r.member.ClusterName())
	if err != nil {
		return nil, err
	}
	if err := r.member.ExplainError(r.checkInstallRights(ctx)); err != nil {
		return nil, err
	}
	pins, err := discovery.ParsePins(r.hashes)
	if err != nil {
		return nil, exit.UsageError("--discovery-token-ca-cert-hash: %w", err)
	}
	found, err := discovery.DiscoverHub(ctx, discovery.Request{Address: r.address, Token: r.token, Pins: pins})
	if err != nil {
		return nil, err
	}
	for _, hash := range found.Unpinned {
		fmt.Fprintf(r.session.ErrOut, "Warning: the hub has a further CA, %s, which is not trusted, as its hash is not given\n", hash)
	}
	members, err := r.listMemberships(ctx)
	if err != nil {
		return nil, r.member.ExplainError(err)
	}
	if err := checkMember(members, membership{klusterlet: install.KlusterletName, cluster: name, hub: found.Server}); err != nil {
		return nil, err
	}
	j := &joinFacts{name: name, hub: found}
	var remark string
	if j.endpoint, remark = memberEndpoint(r.endpoint, r.member.Config.Host); remark != "" {
		fmt.Fprintln(r.session.ErrOut, remark)
	}
	if j.asks, err = r.askHub(ctx, j); err != nil {
		return nil, err
	}
	return j, r.checkHub(ctx, j, who.UID)
}

// requiredRights are the rights in the member without which there is no use in beginning.
func requiredRights(namespace string) []authorizationv1.ResourceAttributes {
	const rbac = "rbac.authorization.k8s.io"
	return []authorizationv1.ResourceAttributes{
		{Verb: "create", Resource: "namespaces"},
		{Verb: "create", Resource: "secrets", Namespace: namespace},
		{Verb: "create", Resource: "serviceaccounts", Namespace: operatorv1.DefaultOperatorNamespace},
		{Verb: "create", Group: "apps", Resource: "deployments", Namespace: operatorv1.DefaultOperatorNamespace},
		{Verb: "create", Group: rbac, Resource: "clusterroles"},
		{Verb: "create", Group: rbac, Resource: "clusterrolebindings"},
		{Verb: "create", Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"},
		{Verb: "create", Group: operatorv1.GroupVersion.Group, Resource: "klusterlets"},
	}
}

// checkInstallRights returns which of the rights in the member the user lacks.
func (r *registerCommand) checkInstallRights(ctx context.Context) error {
	reviews, err := authorizationclient.NewForConfig(r.member.Config)
	if err != nil {
		return fmt.Errorf("prepare the connection to %s: %w", r.member.DescribeTarget(), err)
	}
	var missing []string
	for _, need := range requiredRights(r.namespace) {
		review := &authorizationv1.SelfSubjectAccessReview{Spec: authorizationv1.SelfSubjectAccessReviewSpec{ResourceAttributes: &need}}
		answer, err := reviews.SelfSubjectAccessReviews().Create(ctx, review, metav1.CreateOptions{})
		if err != nil {
			return fmt.Errorf("ask %s what you may do there: %w", r.member.DescribeTarget(), err)
		}
		if !answer.Status.Allowed {
			missing = append(missing, need.Verb+" "+strings.Trim(need.Resource+"."+need.Group, "."))
		}
	}
	if len(missing) == 0 {
		return nil
	}
	return exit.Next(fmt.Errorf("you may not install the agent on %s: you lack the rights to %s", r.member.DescribeTarget(), strings.Join(missing, ", ")),
		"Use a kubeconfig of the member that has them; the role cluster-admin does.")
}

// membership is what a Klusterlet makes the cluster.
type membership struct {
	klusterlet, cluster string
	// hub is the URL of the hub, or empty if it is not known.
	hub      string
	deleting bool
}

// listMemberships returns what the cluster is a member of already. Agents that it hosts
// for other clusters do not count.
func (r *registerCommand) listMemberships(ctx context.Context) ([]membership, error) {
	list := &operatorv1.KlusterletList{}
	if err := r.client.List(ctx, list); apierrors.IsNotFound(err) {
		return nil, nil // the kind is not there either
	} else if err != nil {
		return nil, fmt.Errorf("list Klusterlets: %w", err)
	}
	var members []membership
	for i := range list.Items {
		k := &list.Items[i]
		if klusterlet.IsHostedMode(k) {
			continue
		}
		server, err := hubOf(ctx, r.client, klusterlet.AgentNamespace(k))
		if err != nil {
			return nil, err
		}
		members = append(members, membership{
			klusterlet: k.Name, cluster: k.Spec.ClusterName, hub: server, deleting: !k.DeletionTimestamp.IsZero(),
		})
	}
	return members, nil
}

// hubOf returns the hub that the agents in a namespace register with, or nothing
// if that is not known.
func hubOf(ctx context.Context, c client.Client, namespace string) (string, error) {
	secret := &corev1.Secret{}
	err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: operatorv1.BootstrapHubKubeConfigSecret}, secret)
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("read which hub the cluster is a member of: %w", err)
	}
	if config, err := clientcmd.RESTConfigFromKubeConfig(secret.Data[operatorv1.KubeConfigKey]); err == nil {
		return config.Host, nil
	}
	return "", nil // it cannot be used, so it makes the cluster a member of nothing
}

// checkMember returns why the cluster cannot become the member that is wanted.
// If it is that already, or half of it, the installation goes on from there.
func checkMember(members []membership, wanted membership) error {
	for _, m := range members {
		switch {
		case m.deleting:
			return exit.Next(fmt.Errorf("the cluster is about to leave its hub: Klusterlet %q is being deleted", m.klusterlet), "Wait until it is gone.")
		case m.klusterlet == wanted.klusterlet && m.cluster == wanted.cluster && (m.hub == wanted.hub || m.hub == ""):
		default:
			where := m.hub
			if where == "" {
				where = "an unknown address"
			}
			return exit.Next(fmt.Errorf("the cluster is already a member: %q of the hub at %s (Klusterlet %q)", m.cluster, where, m.klusterlet),
				"A cluster has one hub. To remove it from that hub: capstan unregister %s", m.cluster)
		}
	}
	return nil
}
