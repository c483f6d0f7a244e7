// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"errors"
	"fmt"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	apiopenapi "k8s.io/apiserver/pkg/endpoints/openapi"
	"k8s.io/apiserver/pkg/registry/rest"
	genericserver "k8s.io/apiserver/pkg/server"
	clientrest "k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	clusterv1alpha1 "github.com/capstan-io/capstan/apis/karmada/cluster/v1alpha1"
	workv1alpha1 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha1"
	"github.com/capstan-io/capstan/internal/apiserver/cluster"
	"github.com/capstan-io/capstan/internal/apiserver/openapi"
	"github.com/capstan-io/capstan/internal/apiserver/work"
	"github.com/capstan-io/capstan/internal/server/version"
)

// ServerConfig is what a server needs, but for what follows from the rest.
type ServerConfig struct {
	Generic *genericserver.Config
	// Hub is the API server whose objects are served.
	Hub    *clientrest.Config
	Scheme *runtime.Scheme
	Codecs serializer.CodecFactory
	Clock  clock.Clock

	bodies *bodyChecker
}

// CompletedConfig is the whole configuration of a server.
type CompletedConfig struct {
	*ServerConfig
	generic genericserver.CompletedConfig
}

// Complete fills in what follows from the rest.
func (c *ServerConfig) Complete() CompletedConfig {
	return CompletedConfig{ServerConfig: c, generic: c.Generic.Complete(nil)}
}

// AggregatedAPIServer is the aggregated API server.
type AggregatedAPIServer struct {
	generic  *genericserver.GenericAPIServer
	clusters *cluster.Storage
}

// NewServer returns the server.
func (c CompletedConfig) NewServer() (*AggregatedAPIServer, error) {
	generic, err := c.generic.New("capstan-apiserver", genericserver.NewEmptyDelegate())
	if err != nil {
		return nil, fmt.Errorf("set up the server: %w", err)
	}
	clusters, status, err := cluster.NewStorage(cluster.StorageOptions{Hub: c.Hub, Scheme: c.Scheme, Clock: c.Clock})
	if err != nil {
		return nil, err
	}
	works, err := work.NewStorage(c.Hub, c.Clock)
	if err != nil {
		return nil, err
	}
	for version, resources := range map[schema.GroupVersion]map[string]rest.Storage{
		clusterv1alpha1.GroupVersion: {"clusters": clusters, "clusters/status": status},
		workv1alpha1.GroupVersion:    {"works": works},
	} {
		group := genericserver.NewDefaultAPIGroupInfo(version.Group, c.Scheme, runtime.NewParameterCodec(c.Scheme), c.Codecs)
		group.NegotiatedSerializer = c.bodies.checkDecodedCodecs(group.NegotiatedSerializer)
		group.VersionedResourcesStorageMap[version.Version] = resources
		if err := generic.InstallAPIGroup(&group); err != nil {
			return nil, fmt.Errorf("serve %s: %w", version, err)
		}
	}
	return &AggregatedAPIServer{generic: generic, clusters: clusters}, nil
}

// RunAPIServer serves until ctx ends, and until the requests that are on their way then
// are answered.
func (s *AggregatedAPIServer) RunAPIServer(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	var copying sync.WaitGroup
	copying.Go(func() { s.clusters.CopyAwaitedSecrets(ctx) })
	defer copying.Wait()
	defer stop()
	if err := s.generic.PrepareRun().RunWithContext(ctx); err != nil {
		return fmt.Errorf("serve the Cluster API: %w", err)
	}
	return nil
}

// newScheme returns the types that are served.
func newScheme() (*runtime.Scheme, serializer.CodecFactory, error) {
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, metav1.Unversioned)
	if err := errors.Join(
		cluster.AddClustersToScheme(scheme), scheme.SetVersionPriority(clusterv1alpha1.GroupVersion),
		work.AddWorksToScheme(scheme), scheme.SetVersionPriority(workv1alpha1.GroupVersion),
	); err != nil {
		return nil, serializer.CodecFactory{}, fmt.Errorf("set up the types that are served: %w", err)
	}
	return scheme, serializer.NewCodecFactory(scheme, serializer.WithStreamingCollectionEncodingToJSON()), nil
}

// configureOpenAPI sets how the server describes what it serves.
func configureOpenAPI(c *genericserver.Config, scheme *runtime.Scheme) {
	namer := apiopenapi.NewDefinitionNamer(scheme)
	c.OpenAPIConfig = genericserver.DefaultOpenAPIConfig(openapi.ServedDefinitions, namer)
	c.OpenAPIConfig.Info.Title, c.OpenAPIConfig.Info.Version = "Capstan", version.SemanticVersion()
	c.OpenAPIV3Config = genericserver.DefaultOpenAPIV3Config(openapi.ServedDefinitions, namer)
	c.OpenAPIV3Config.Info.Title, c.OpenAPIV3Config.Info.Version = "Capstan", version.SemanticVersion()
}
