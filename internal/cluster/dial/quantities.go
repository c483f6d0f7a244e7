// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package dial

import (
	"errors"
	"fmt"
	"slices"
	"sync"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"

	aboutv1alpha1 "github.com/capstan-io/capstan/apis/about/v1alpha1"
	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1alpha1 "github.com/capstan-io/capstan/apis/cluster/v1alpha1"
	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	clusterv1beta2 "github.com/capstan-io/capstan/apis/cluster/v1beta2"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	karmadaappsv1alpha1 "github.com/capstan-io/capstan/apis/karmada/apps/v1alpha1"
	karmadaclusterv1alpha1 "github.com/capstan-io/capstan/apis/karmada/cluster/v1alpha1"
	karmadaconfigv1alpha1 "github.com/capstan-io/capstan/apis/karmada/config/v1alpha1"
	karmadapolicyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	karmadaworkv1alpha1 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha1"
	karmadaworkv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	workv1alpha1 "github.com/capstan-io/capstan/apis/work/v1alpha1"
	"github.com/capstan-io/capstan/internal/untrusted/quantity"
)

// places are where an answer may have quantities: whoever reads one parses it, and
// 1e-2000000000 takes hours. A client reads an answer as the kind that it says it is, also
// if the answer is an error, and its scheme has more kinds than it asks for. So these are
// the places of all kinds that a client here can know. They are also those of what tells
// objects and their versions apart, in objects, items and events of any kind: whatever a client
// keeps of an object, it keeps these.
var places = sync.OnceValues(func() (*quantity.Places, error) {
	kinds := runtime.NewScheme()
	err := errors.Join(
		clientgoscheme.AddToScheme(kinds), apiextensionsv1.AddToScheme(kinds), aboutv1alpha1.AddToScheme(kinds),
		clusterv1.AddToScheme(kinds), clusterv1alpha1.AddToScheme(kinds), clusterv1beta1.AddToScheme(kinds), clusterv1beta2.AddToScheme(kinds),
		fleetv1alpha1.AddToScheme(kinds), operatorv1.AddToScheme(kinds), workv1.AddToScheme(kinds), workv1alpha1.AddToScheme(kinds),
		karmadaappsv1alpha1.AddToScheme(kinds), karmadaclusterv1alpha1.AddToScheme(kinds), karmadaconfigv1alpha1.AddToScheme(kinds),
		karmadapolicyv1alpha1.AddToScheme(kinds), karmadaworkv1alpha1.AddToScheme(kinds), karmadaworkv1alpha2.AddToScheme(kinds),
	)
	if err != nil {
		return nil, fmt.Errorf("registering the kinds that answers may have: %w", err)
	}
	all, err := quantity.PlacesOf(kinds)
	if err != nil {
		return nil, fmt.Errorf("finding the quantities in answers: %w", err)
	}
	for _, object := range [][]string{nil, {"items", "[]"}, {"object"}} {
		for _, field := range [][]string{
			{"kind"}, {"apiVersion"}, {"metadata", "namespace"}, {"metadata", "name"}, {"metadata", "uid"}, {"metadata", "resourceVersion"},
		} {
			all.BoundTexts(identityBytesMax, slices.Concat(object, field)...)
		}
	}
	return all, nil
})
