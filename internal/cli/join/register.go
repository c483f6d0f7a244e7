// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package join

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/member"
	"github.com/capstan-io/capstan/internal/operator/render"
)

// registerCluster writes the three objects of a Push cluster on the hub. The
// ClusterConnection comes before the acceptance, so that the hub never takes the
// cluster for one with an agent of its own; and where the cluster has a
// namespace already, the credential comes first of all, so that a cluster which
// changes from Pull to Push is without an agent for a moment only.
func (j *joinRun) registerCluster(ctx, patience context.Context) error {
	ready, _, err := j.namespaceReady(ctx)
	if err != nil {
		return err
	}
	if ready {
		if err := j.storeCredential(ctx); err != nil {
			return err
		}
	}
	if err := errors.Join(j.applyConnection(ctx, j.hub), j.acceptCluster(ctx, j.hub)); err != nil {
		return err
	}
	if ready {
		return nil
	}
	if err := j.awaitNamespace(ctx, patience); err != nil {
		return err
	}
	return j.storeCredential(ctx)
}

// applyConnection writes the ClusterConnection.
func (j *joinRun) applyConnection(ctx context.Context, c client.Client) error {
	connection := &fleetv1alpha1.ClusterConnection{
		ObjectMeta: metav1.ObjectMeta{Name: j.name},
		Spec: fleetv1alpha1.ClusterConnectionSpec{
			SyncMode: fleetv1alpha1.SyncModePush, APIEndpoint: j.route.endpoint, ProxyURL: j.route.proxy, InsecureSkipTLSVerification: j.route.insecure,
			Provider: j.place.provider, Region: j.place.region, Zones: j.place.zones,
		},
	}
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(connection)
	if err != nil {
		return fmt.Errorf("encode the ClusterConnection %q: %w", j.name, err)
	}
	unstructured.RemoveNestedField(content, "status")
	unstructured.RemoveNestedField(content, "metadata", "creationTimestamp")
	object := &unstructured.Unstructured{Object: content}
	object.SetGroupVersionKind(fleetv1alpha1.GroupVersion.WithKind("ClusterConnection"))
	err = c.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(member.FieldOwner), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("write how the hub reaches the cluster (ClusterConnection %q): %w", j.name, err)
	}
	return nil
}

// acceptCluster makes the ManagedCluster, or accepts the one that is there.
func (j *joinRun) acceptCluster(ctx context.Context, c client.Client) error {
	if j.plan.cluster != nil && j.plan.cluster.Spec.HubAcceptsClient {
		return nil
	}
	cluster := &clusterv1.ManagedCluster{
		ObjectMeta: metav1.ObjectMeta{Name: j.name, Annotations: map[string]string{clusterv1.AnnotationClusterUID: j.identity.UID}},
		Spec:       clusterv1.ManagedClusterSpec{HubAcceptsClient: true},
	}
	var err error
	if j.plan.cluster == nil {
		err = c.Create(ctx, cluster, client.FieldOwner(member.FieldOwner))
	} else {
		err = c.Patch(ctx, cluster, client.RawPatch("application/merge-patch+json", []byte(`{"spec":{"hubAcceptsClient":true}}`)))
	}
	if err != nil {
		return fmt.Errorf("accept cluster %q: %w", j.name, err)
	}
	return nil
}

// storeCredential writes the Secret with the token.
func (j *joinRun) storeCredential(ctx context.Context) error {
	m := render.ResourceMeta{Namespace: j.name, Name: fleetv1alpha1.DefaultSecretName, Labels: map[string]string{clusterv1.LabelClusterName: j.name}}
	data := map[string][]byte{fleetv1alpha1.SecretKeyToken: []byte(j.token)}
	if len(j.route.ca) > 0 {
		data[fleetv1alpha1.SecretKeyCABundle] = j.route.ca
	}
	err := j.hub.Apply(ctx, render.SecretOfType(m, corev1.SecretTypeOpaque, data), client.FieldOwner(member.FieldOwner), client.ForceOwnership)
	if err != nil {
		return fmt.Errorf("write the credential for the cluster (Secret %q): %w", j.name+"/"+m.Name, err)
	}
	return nil
}

// namespaceReady reports whether the hub has the namespace of the cluster, or what
// the hub says about the cluster instead.
func (j *joinRun) namespaceReady(ctx context.Context) (ready bool, says string, err error) {
	cluster := &clusterv1.ManagedCluster{}
	err = j.hub.Get(ctx, client.ObjectKey{Name: j.name}, cluster)
	if apierrors.IsNotFound(err) {
		return false, "there is no such cluster", nil
	}
	if err != nil {
		return false, "", fmt.Errorf("see whether the hub accepts cluster %q: %w", j.name, err)
	}
	accepted := meta.FindStatusCondition(cluster.Status.Conditions, clusterv1.ManagedClusterConditionHubAccepted)
	if accepted == nil {
		return false, "the hub has not acted on it yet", nil
	}
	return cluster.Spec.HubAcceptsClient && accepted.Status == metav1.ConditionTrue, accepted.Message, nil
}

func (j *joinRun) awaitNamespace(ctx, patience context.Context) error {
	for {
		ready, says, err := j.namespaceReady(ctx)
		if err != nil || ready {
			return err
		}
		j.steps.ShowWaiting("%s", says)
		if pausePoll(patience) != nil {
			return exit.WaitedTooShort(ctx, exit.Next(fmt.Errorf("the hub does not give cluster %q a namespace: %s", j.name, says),
				"Look at its controllers: \"kubectl get pods -n open-cluster-management-hub\" and \"kubectl describe clustermanager\"."))
		}
	}
}
