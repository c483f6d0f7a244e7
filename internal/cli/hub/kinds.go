// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package hub

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/restmapper"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capstan-io/capstan/internal/cli/exit"
)

// Kinds are the kinds that the hub serves, whatever they are.
type Kinds struct {
	// Client reads objects of all of them.
	Client client.Client

	mapper meta.RESTMapper
}

// ConnectAny returns the kinds that the hub serves. The hub is asked for them
// when they are needed first.
func (s *Session) ConnectAny() (*Kinds, error) {
	config, err := s.LoadRESTConfig()
	if err != nil {
		return nil, err
	}
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	served, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("prepare the connection to %s: %w", s.DescribeTarget(), err)
	}
	cached := memory.NewMemCacheClient(served)
	mapper := restmapper.NewShortcutExpander(restmapper.NewDeferredDiscoveryRESTMapper(cached), cached, nil)
	c, err := client.New(config, client.Options{Scheme: scheme, Mapper: mapper})
	if err != nil {
		return nil, fmt.Errorf("prepare the connection to %s: %w", s.DescribeTarget(), err)
	}
	return &Kinds{Client: c, mapper: mapper}, nil
}

// FindMapping returns the kind that a user calls by a name as kubectl takes it, such as
// deployment, deploy, Deployment, deployments.apps or deployments.v1.apps.
func (k *Kinds) FindMapping(name string) (*meta.RESTMapping, error) {
	full, partial := schema.ParseResourceArg(strings.ToLower(name))
	var found []schema.GroupVersionResource
	var err error
	if partial.Resource == "" {
		return nil, notServed(name)
	}
	if full != nil {
		found, err = k.mapper.ResourcesFor(*full)
	}
	if len(found) == 0 {
		found, err = k.mapper.ResourcesFor(partial.WithVersion(""))
	}
	if meta.IsNoMatchError(err) || err == nil && len(found) == 0 {
		return nil, notServed(name)
	}
	if ambiguous := (*meta.AmbiguousResourceError)(nil); err != nil && !errors.As(err, &ambiguous) {
		return nil, err
	}
	resource, err := singleResource(name, partial.Group, found)
	if err != nil {
		return nil, err
	}
	kinds, err := k.mapper.KindsFor(resource)
	if err != nil {
		return nil, err
	}
	// Without a group they are of all groups.
	at := max(0, slices.IndexFunc(kinds, func(kind schema.GroupVersionKind) bool { return kind.Group == resource.Group }))
	kind := kinds[at]
	if full != nil && full.Version == kind.Version {
		return k.mapper.RESTMapping(kind.GroupKind(), kind.Version)
	}
	return k.mapper.RESTMapping(kind.GroupKind())
}

func notServed(name string) error {
	return exit.Next(fmt.Errorf("the hub serves no kind %q", name), "\"kubectl api-resources\" lists those that it serves.")
}

// singleResource returns the resource that is meant, if that is clear. The one of
// Kubernetes itself needs no group.
func singleResource(name, group string, found []schema.GroupVersionResource) (schema.GroupVersionResource, error) {
	var all []string
	for _, resource := range found {
		if resource.Group == "" {
			return resource, nil
		}
		if text := resource.GroupResource().String(); !slices.Contains(all, text) {
			all = append(all, text)
		}
	}
	if len(all) == 1 || group != "" {
		return found[0], nil
	}
	slices.Sort(all)
	return schema.GroupVersionResource{}, exit.Next(fmt.Errorf("%q may be any of %s", name, strings.Join(all, ", ")), "Name one of them with its group.")
}
