// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1beta2 "github.com/capstan-io/capstan/apis/cluster/v1beta2"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/cli/backup"
	"github.com/capstan-io/capstan/internal/cli/backup/portforward"
	"github.com/capstan-io/capstan/internal/server/certs"
	"github.com/capstan-io/capstan/operators/controlplane/manifests"
)

const (
	// user is who capstan is to the hub that it restores.
	user = "capstan-restore"
	// access is how long its certificate is valid.
	access = time.Hour
	// globalSet has what the hub gives to clusters that it accepts later.
	globalSet = "global"
	// pageSize is how many objects are listed at once.
	pageSize = 500
	// lookTimeout is how long a hub may take to say what it has before it is stopped.
	lookTimeout = 30 * time.Second
)

func managedClusters() schema.GroupVersionResource {
	return clusterv1.GroupVersion.WithResource("managedclusters")
}

func managedClusterSets() schema.GroupVersionResource {
	return clusterv1beta2.GroupVersion.WithResource("managedclustersets")
}

// atHub calls do with a client of the hub's API server, which it reaches by a
// port-forward, as an administrator: whoever may read the keys of the hub is one.
func (w *restoreRun) atHub(ctx context.Context, do func(context.Context, metadata.Interface) error) error {
	pod, err := backup.ReadyPod(ctx, w.host, w.plane, manifests.APIServer)
	if err != nil {
		return err
	}
	host, err := w.session.LoadRESTConfig()
	if err != nil {
		return err
	}
	connection, err := portforward.ForwardPort(ctx, host, pod, fleetv1alpha1.ControlPlanePort)
	if err != nil {
		return fmt.Errorf("connect to the hub in Pod %q: %w", pod, err)
	}
	defer connection.HangUp()
	clients := w.from.Secrets[w.plane.ResourceName(manifests.ClientAuthority)]
	serving := w.from.Secrets[w.plane.ResourceName(manifests.ServingAuthority)]
	signer, err := certs.ParsePair(clients.Data[corev1.TLSCertKey], clients.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return fmt.Errorf("the Secret %q of the backup has no usable authority: %w", clients.Name, err)
	}
	leaf, err := certs.NewLeaf(signer, certs.Leaf{User: user, Groups: []string{"system:masters"}, Lifetime: access}, time.Now())
	if err != nil {
		return fmt.Errorf("make a certificate for the hub: %w", err)
	}
	hub, err := metadata.NewForConfig(&rest.Config{
		Host: "https://" + net.JoinHostPort("localhost", strconv.Itoa(int(fleetv1alpha1.ControlPlanePort))), QPS: -1,
		Dial:            func(ctx context.Context, _, _ string) (net.Conn, error) { return connection.Dial(ctx) },
		TLSClientConfig: rest.TLSClientConfig{CAData: authorityBundle(serving), CertData: leaf.CertPEM, KeyData: leaf.KeyPEM},
	})
	if err != nil {
		return fmt.Errorf("prepare the connection to the hub: %w", err)
	}
	return do(ctx, hub)
}

// authorityBundle returns all authorities in a Secret: while one is being rotated, there is
// another one beside it.
func authorityBundle(secret *corev1.Secret) []byte {
	var all []byte
	for _, data := range secret.Data {
		if found := certs.ParseBundle(data); len(found) > 0 {
			all = append(all, certs.EncodeBundle(found)...)
		}
	}
	return all
}

// readCurrentWorks reads what the hub has, if it can be asked: then the summary can tell what
// has become of it.
func (w *restoreRun) readCurrentWorks(ctx context.Context) error {
	asked, cancel := context.WithTimeout(ctx, lookTimeout)
	defer cancel()
	err := w.atHub(asked, func(ctx context.Context, hub metadata.Interface) (err error) {
		w.before, err = listWorkVersions(ctx, hub)
		return err
	})
	if err != nil {
		w.before = nil
		w.steps.ShowWaiting("it cannot be reached: %v", err)
	}
	return ctx.Err()
}

// publishRestoredRange tells all clusters what the hub has forgotten, and notes what it has.
func (w *restoreRun) publishRestoredRange(ctx context.Context, next string) error {
	return w.waits.PollUntil(ctx, "the hub to take what its clusters are told", next, func(ctx context.Context) (done bool, why string, err error) {
		err = w.atHub(ctx, func(ctx context.Context, hub metadata.Interface) error {
			if err := w.annotateClusters(ctx, hub); err != nil {
				return err
			}
			w.after, err = listWorkVersions(ctx, hub)
			return err
		})
		if err != nil {
			return false, err.Error(), nil // the API server may just have begun
		}
		return true, "", nil
	})
}

// annotateClusters writes the range to all ManagedClusters, and to the set from which the hub
// gives it to clusters that it has forgotten.
func (w *restoreRun) annotateClusters(ctx context.Context, hub metadata.Interface) error {
	patch, err := restoredRangePatch(new(w.versions.String()))
	if err != nil {
		return err
	}
	_, err = forEachObject(ctx, hub, managedClusters(), func(cluster *metav1.PartialObjectMetadata) error {
		_, err := hub.Resource(managedClusters()).Patch(ctx, cluster.Name, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: user})
		return err
	})
	if err != nil {
		return err
	}
	_, err = hub.Resource(managedClusterSets()).Patch(ctx, globalSet, types.MergePatchType, patch, metav1.PatchOptions{FieldManager: user})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("annotate ManagedClusterSet %q: %w", globalSet, err)
	}
	return nil
}

// restoredRangePatch is a patch that sets the range, or takes it away.
func restoredRangePatch(value *string) ([]byte, error) {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"annotations": map[string]any{fleetv1alpha1.AnnotationRestored: value}}})
	if err != nil {
		return nil, fmt.Errorf("prepare the annotation: %w", err)
	}
	return patch, nil
}

// listWorkVersions returns the works of a hub; nil if it does not know what works are.
func listWorkVersions(ctx context.Context, hub metadata.Interface) (workVersions, error) {
	found := workVersions{}
	known, err := forEachObject(ctx, hub, workv1.GroupVersion.WithResource("manifestworks"), func(w *metav1.PartialObjectMetadata) error {
		found[w.Namespace+"/"+w.Name] = workVersion{uid: string(w.UID), version: w.ResourceVersion}
		return nil
	})
	if !known {
		return nil, err
	}
	return found, err
}

// forEachObject calls do with all objects of a resource. An API server has none that does not
// know it; while it has not read its definitions yet, it answers otherwise.
func forEachObject(
	ctx context.Context, hub metadata.Interface, of schema.GroupVersionResource, do func(*metav1.PartialObjectMetadata) error,
) (known bool, err error) {
	for options := (metav1.ListOptions{Limit: pageSize}); ; {
		page, err := hub.Resource(of).List(ctx, options)
		if apierrors.IsNotFound(err) {
			return false, nil
		}
		if err != nil {
			return false, fmt.Errorf("list the %s of the hub: %w", of.Resource, err)
		}
		for i := range page.Items {
			if err := do(&page.Items[i]); err != nil {
				return false, fmt.Errorf("%s %q: %w", of.Resource, page.Items[i].Name, err)
			}
		}
		if options.Continue = page.Continue; options.Continue == "" {
			return true, nil
		}
	}
}
