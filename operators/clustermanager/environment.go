// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package clustermanager

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/operator/install"
	"github.com/capstan-io/capstan/internal/server/options"
)

const (
	// replicasHA is the number of replicas on a cluster whose control plane has
	// more than one node.
	replicasHA = 3

	// TLSProfile is the ConfigMap in the operator's namespace with the TLS
	// settings of all components, and its keys.
	TLSProfile             = "ocm-tls-profile"
	tlsProfileMinVersion   = "minTLSVersion"
	tlsProfileCipherSuites = "cipherSuites"
)

// hubPreparation has the phases that find out what is to be installed, and where.
type hubPreparation struct{ *operatorClusters }

// gatherEnvironment gathers what beside the spec decides what is installed.
func (w *hubPreparation) gatherEnvironment(ctx context.Context, p *clusterManagerPass) error {
	p.hub.Name = p.Object.Name
	p.hub.Spec = p.Object.Spec
	replicas, err := w.resolveReplicas(ctx, p)
	if err != nil {
		return err
	}
	flags, err := w.tlsFlags(ctx)
	if err != nil {
		return err
	}
	p.hub.OperatorNamespace = w.Options.Namespace
	p.hub.OwnImage = w.Options.Image
	p.hub.Replicas = replicas
	p.hub.ProxyEnv = w.Options.ProxyEnv
	p.hub.TLSFlags = flags
	if w.Options.SyncLabels {
		p.hub.Labels = maps.Clone(p.Object.Labels)
	}
	return nil
}

// resolveReplicas returns how many replicas each component has: in mode Hosted one, as
// the nodes of the operator's cluster say nothing about the hub.
func (w *hubPreparation) resolveReplicas(ctx context.Context, p *clusterManagerPass) (int32, error) {
	if p.hub.IsHosted() {
		return 1, nil
	}
	if w.Options.Replicas > 0 {
		return w.Options.Replicas, nil
	}
	nodes := &metav1.PartialObjectMetadataList{}
	nodes.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("NodeList"))
	// More than one is all we want to know.
	err := w.Reader.List(ctx, nodes, client.MatchingLabelsSelector{Selector: w.Options.ControlPlane}, client.Limit(2))
	if err != nil {
		return 0, fmt.Errorf("counting the control-plane nodes: %w", err)
	}
	if len(nodes.Items) > 1 {
		return replicasHA, nil
	}
	return 1, nil
}

// tlsFlags returns the flags for the TLS profile, if there is one.
func (w *hubPreparation) tlsFlags(ctx context.Context) ([]string, error) {
	profile := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: w.Options.Namespace, Name: TLSProfile}
	err := w.Client.Get(ctx, key, profile)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("reading the ConfigMap %q: %w", key, err)
	}
	return parseTLSProfile(profile.Data)
}

// parseTLSProfile returns the flags for the data of a profile, and a mistake if
// components would not start with them.
func parseTLSProfile(data map[string]string) ([]string, error) {
	server := options.ServerOptions{TLSMinVersion: strings.TrimSpace(data[tlsProfileMinVersion])}
	for _, suite := range strings.Split(data[tlsProfileCipherSuites], ",") {
		if suite = strings.TrimSpace(suite); suite != "" {
			server.TLSCipherSuites = append(server.TLSCipherSuites, suite)
		}
	}
	if _, err := server.TLSConfigurer(); err != nil {
		return nil, install.MistakeError{
			Reason:  operatorv1.ClusterManagerReasonRuntimeResourceApplyFailed,
			Message: fmt.Sprintf("ConfigMap %q is not a usable TLS profile: %v", TLSProfile, err),
		}
	}
	var flags []string
	if server.TLSMinVersion != "" {
		flags = append(flags, "--tls-min-version="+server.TLSMinVersion)
	}
	if len(server.TLSCipherSuites) > 0 {
		slices.Sort(server.TLSCipherSuites)
		flags = append(flags, "--tls-cipher-suites="+strings.Join(server.TLSCipherSuites, ","))
	}
	return flags, nil
}
