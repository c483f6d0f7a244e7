// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package fleet

import (
	"context"
	"fmt"
	"os"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	clusterv1 "github.com/capstan-io/capstan/apis/cluster/v1"
	clusterv1beta1 "github.com/capstan-io/capstan/apis/cluster/v1beta1"
	clusterv1beta2 "github.com/capstan-io/capstan/apis/cluster/v1beta2"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	policyv1alpha1 "github.com/capstan-io/capstan/apis/karmada/policy/v1alpha1"
	workv1alpha2 "github.com/capstan-io/capstan/apis/karmada/work/v1alpha2"
	workv1 "github.com/capstan-io/capstan/apis/work/v1"
	workv1alpha1 "github.com/capstan-io/capstan/apis/work/v1alpha1"
)

// Cluster is a cluster of the lab, seen by its administrator. Its clients have
// no limit of their own.
type Cluster struct {
	Name string
	// Kubeconfig is a file.
	Kubeconfig string
	Config     *rest.Config
	Client     client.WithWatch
	Kubernetes kubernetes.Interface
}

// NewCluster writes the kubeconfig to the file and makes clients for it.
func NewCluster(name, file, kubeconfig string) (*Cluster, error) {
	if err := os.WriteFile(file, []byte(kubeconfig), 0o600); err != nil {
		return nil, fmt.Errorf("writing the kubeconfig of %s: %w", name, err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig of %s: %w", name, err)
	}
	config.QPS, config.Burst = -1, 0
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		clientgoscheme.AddToScheme, apiextensionsv1.AddToScheme, clusterv1.AddToScheme, clusterv1beta1.AddToScheme, clusterv1beta2.AddToScheme,
		workv1.AddToScheme, workv1alpha1.AddToScheme, fleetv1alpha1.AddToScheme, policyv1alpha1.AddToScheme, workv1alpha2.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, fmt.Errorf("making a scheme: %w", err)
		}
	}
	c := &Cluster{Name: name, Kubeconfig: file, Config: config}
	if c.Kubernetes, err = kubernetes.NewForConfig(config); err != nil {
		return nil, fmt.Errorf("making a client of %s: %w", name, err)
	}
	if c.Client, err = client.NewWithWatch(config, client.Options{Scheme: scheme}); err != nil {
		return nil, fmt.Errorf("making a client of %s: %w", name, err)
	}
	return c, nil
}

// Define creates the definitions and waits until they are served.
func (c *Cluster) Define(ctx context.Context, crds []*apiextensionsv1.CustomResourceDefinition) error {
	for _, crd := range crds {
		if err := c.Client.Create(ctx, crd); err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating CRD %s in %s: %w", crd.Name, c.Name, err)
		}
	}
	for _, crd := range crds {
		if err := Poll(ctx, func(ctx context.Context) (bool, error) {
			if err := c.Client.Get(ctx, client.ObjectKeyFromObject(crd), crd); err != nil {
				return false, err
			}
			for _, condition := range crd.Status.Conditions {
				if condition.Type == apiextensionsv1.Established && condition.Status == apiextensionsv1.ConditionTrue {
					return true, nil
				}
			}
			return false, nil
		}); err != nil {
			return fmt.Errorf("waiting for CRD %s in %s: %w", crd.Name, c.Name, err)
		}
	}
	return nil
}

// pollInterval is how often Poll asks.
const pollInterval = 50 * time.Millisecond

// Poll calls done until it returns true or an error, or ctx ends.
func Poll(ctx context.Context, done func(context.Context) (bool, error)) error {
	for {
		ok, err := done(ctx)
		if ok || err != nil {
			return err
		}
		if err := Pause(ctx, pollInterval); err != nil {
			return err
		}
	}
}

// Pause waits.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
