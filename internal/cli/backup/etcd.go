// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package backup

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/server/certs"
	"github.com/capstan-io/capstan/operators/controlplane/manifests"
)

const (
	// etcdHost is a name that the certificate of each member is for.
	etcdHost = "localhost"
	// etcdUser is who capstan is to etcd, where all clients may do everything.
	etcdUser = "capstan-backup"
	// etcdAccess is how long its certificate is valid: connections begin with it, and
	// go on when it has expired.
	etcdAccess = 10 * time.Minute
)

// ReadyPod returns a ready pod of a component. A member of etcd that is ready has a
// majority.
func ReadyPod(ctx context.Context, host client.Reader, plane manifests.Plane, component string) (client.ObjectKey, error) {
	pods := &corev1.PodList{}
	err := host.List(ctx, pods, client.InNamespace(plane.Namespace), client.MatchingLabels(plane.PodLabels(component)))
	if err != nil {
		return client.ObjectKey{}, fmt.Errorf("list the pods of %s in namespace %q: %w", component, plane.Namespace, err)
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		ready := slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue
		})
		if ready && pod.DeletionTimestamp.IsZero() {
			return client.ObjectKeyFromObject(pod), nil
		}
	}
	return client.ObjectKey{}, exit.Next(fmt.Errorf("no pod of the %s of the hub %q is ready, of %d pods", component, plane.Name, len(pods.Items)),
		"\"kubectl -n %s describe controlplane %s\" says why.", plane.Namespace, plane.Name)
}

// etcdIdentity makes a certificate for etcd, in memory, with the key of etcd's
// authority: whoever may read that may do so anyway.
func (c ArchiveContents) etcdIdentity(now time.Time) (*tls.Config, error) {
	name := c.PlaneNames().ResourceName(manifests.EtcdAuthority)
	data := c.Secrets[name].Data
	authority, err := certs.ParsePair(data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return nil, fmt.Errorf("the Secret %q has no usable authority: %w", name, err)
	}
	leaf, err := certs.NewLeaf(authority, certs.Leaf{User: etcdUser, Lifetime: etcdAccess}, now)
	if err != nil {
		return nil, fmt.Errorf("make a certificate for etcd: %w", err)
	}
	certificate, err := tls.X509KeyPair(leaf.CertPEM, leaf.KeyPEM)
	if err != nil {
		return nil, fmt.Errorf("make a certificate for etcd: %w", err)
	}
	// While the authority is being rotated, members may have a certificate of the
	// one before, which is in the same Secret.
	roots := x509.NewCertPool()
	for _, pem := range data {
		for _, known := range certs.ParseBundle(pem) {
			roots.AddCert(known)
		}
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12, ServerName: etcdHost, RootCAs: roots, Certificates: []tls.Certificate{certificate},
	}, nil
}
