// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package work

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/rest"
	clientrest "k8s.io/client-go/rest"
	"k8s.io/utils/clock"

	"github.com/capstan-io/capstan/apis/karmada/work/v1alpha1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	"github.com/capstan-io/capstan/internal/apiserver/stored"
)

var (
	_ rest.Storage              = &Storage{}
	_ rest.Scoper               = &Storage{}
	_ rest.Getter               = &Storage{}
	_ rest.Lister               = &Storage{}
	_ rest.Watcher              = &Storage{}
	_ rest.Patcher              = &Storage{}
	_ rest.SingularNameProvider = &Storage{}
	_ rest.ShortNamesProvider   = &Storage{}
	_ rest.CategoriesProvider   = &Storage{}
)

// AddWorksToScheme makes Works known as what is served and as what requests are
// decoded into: both are the same type.
func AddWorksToScheme(scheme *runtime.Scheme) error {
	internal := schema.GroupVersion{Group: v1alpha1.GroupName, Version: runtime.APIVersionInternal}
	scheme.AddKnownTypes(internal, &v1alpha1.Work{}, &v1alpha1.WorkList{})
	return v1alpha1.AddToScheme(scheme)
}

// Storage serves works.
type Storage struct {
	workSuspender
	workPrinter
}

// NewStorage returns the storage of works, which are ManifestWorks of the hub.
func NewStorage(hub *clientrest.Config, clock clock.PassiveClock) (*Storage, error) {
	scheme := runtime.NewScheme()
	if err := workv1.AddToScheme(scheme); err != nil {
		return nil, fmt.Errorf("set up the types of the hub: %w", err)
	}
	client, err := stored.NewHubClient(hub, workv1.GroupVersion, scheme)
	if err != nil {
		return nil, err
	}
	parameters := runtime.NewParameterCodec(scheme)
	read := workReader{in: func(namespace string) manifestWorks {
		return stored.NewHubResource[workv1.ManifestWork](client, parameters, "manifestworks", namespace)
	}}
	return &Storage{workSuspender: workSuspender{read}, workPrinter: workPrinter{clock: clock}}, nil
}

// New implements rest.Storage.
func (s *Storage) New() runtime.Object { return &v1alpha1.Work{} }

// NewList implements rest.Lister.
func (s *Storage) NewList() runtime.Object { return &v1alpha1.WorkList{} }

// Destroy implements rest.Storage.
func (s *Storage) Destroy() {}

// NamespaceScoped implements rest.Scoper.
func (s *Storage) NamespaceScoped() bool { return true }

// GetSingularName implements rest.SingularNameProvider.
func (s *Storage) GetSingularName() string { return "work" }

// ShortNames implements rest.ShortNamesProvider.
func (s *Storage) ShortNames() []string { return []string{"wk"} }

// Categories implements rest.CategoriesProvider.
func (s *Storage) Categories() []string { return []string{"karmada-io"} }
