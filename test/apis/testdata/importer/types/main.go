// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Command types prints a ManifestWork, for whoever reads it from standard output.
package main

import (
	"encoding/json"
	"log"
	"os"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	aboutv1alpha1 "github.com/capstan-io/capstan/apis/about/v1alpha1"
	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1alpha1 "github.com/capstan-io/capstan/apis/cluster/v1alpha1"
	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	clusterv1beta2 "github.com/capstan-io/capstan/apis/cluster/v1beta2"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	karmadaapps "github.com/capstan-io/capstan/apis/karmada/apps/v1alpha1"
	karmadacluster "github.com/capstan-io/capstan/apis/karmada/cluster/v1alpha1"
	karmadaconfig "github.com/capstan-io/capstan/apis/karmada/config/v1alpha1"
	karmadapolicy "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	karmadaworkv1alpha1 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha1"
	karmadaworkv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	workv1alpha1 "github.com/capstan-io/capstan/apis/work/v1alpha1"
)

// all returns a scheme that knows every kind.
func all() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	builder := runtime.NewSchemeBuilder(
		aboutv1alpha1.AddToScheme, clusterv1.AddToScheme, clusterv1alpha1.AddToScheme, clusterv1beta1.AddToScheme,
		clusterv1beta2.AddToScheme, fleetv1alpha1.AddToScheme, karmadaapps.AddToScheme, karmadacluster.AddToScheme,
		karmadaconfig.AddToScheme, karmadapolicy.AddToScheme, karmadaworkv1alpha1.AddToScheme,
		karmadaworkv1alpha2.AddToScheme, operatorv1.AddToScheme, workv1.AddToScheme, workv1alpha1.AddToScheme,
	)
	return scheme, builder.AddToScheme(scheme)
}

// greeting is a work with a ConfigMap.
func greeting(cluster string) (*workv1.ManifestWork, error) {
	manifest, err := json.Marshal(&corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Name: "greeting", Namespace: "default"},
		Data:       map[string]string{"text": "hello"},
	})
	if err != nil {
		return nil, err
	}
	return &workv1.ManifestWork{
		ObjectMeta: metav1.ObjectMeta{Name: "greeting", Namespace: cluster},
		Spec: workv1.ManifestWorkSpec{Workload: workv1.ManifestsTemplate{
			Manifests: []workv1.Manifest{{RawExtension: runtime.RawExtension{Raw: manifest}}},
		}},
	}, nil
}

func main() {
	scheme, err := all()
	if err != nil {
		log.Fatal(err)
	}
	work, err := greeting("cluster1")
	if err != nil {
		log.Fatal(err)
	}
	kinds, _, err := scheme.ObjectKinds(work)
	if err != nil {
		log.Fatal(err)
	}
	work.SetGroupVersionKind(kinds[0])
	if err := json.NewEncoder(os.Stdout).Encode(work); err != nil {
		log.Fatal(err)
	}
}
