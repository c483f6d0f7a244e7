// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Command client lets the hub connect to a cluster, and prints what it finds there.
// It is the example of docs/clients.md.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/clientcmd"

	apply "github.com/capstan-io/capstan/apis/fleet/client/applyconfiguration/fleet/v1alpha1"
	fleet "github.com/capstan-io/capstan/apis/fleet/client/versioned"
	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
)

func run(ctx context.Context, kubeconfig, cluster string) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	client, err := fleet.NewForConfig(config)
	if err != nil {
		return err
	}
	connections := client.FleetV1alpha1().ClusterConnections()

	// Server-side apply: what the configuration does not name stays as it is.
	wanted := apply.ClusterConnection(cluster).
		WithSpec(apply.ClusterConnectionSpec().WithProvider("example").WithRegion("north").WithZones("north-1", "north-2"))
	applied, err := connections.Apply(ctx, wanted, metav1.ApplyOptions{FieldManager: "example"})
	if err != nil {
		return err
	}
	fmt.Println(applied.Name, "is in", applied.Spec.Region)

	list, err := connections.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	fmt.Println("there are", len(list.Items), "connections")

	// A watch without a resource version begins with what there is.
	changes, err := connections.Watch(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + cluster})
	if err != nil {
		return err
	}
	defer changes.Stop()
	for change := range changes.ResultChan() {
		connection, ok := change.Object.(*fleetv1alpha1.ClusterConnection)
		if !ok || change.Type == watch.Deleted {
			return fmt.Errorf("the connection of cluster %s has gone", cluster)
		}
		if meta.IsStatusConditionTrue(connection.Status.Conditions, fleetv1alpha1.ClusterConnectionConditionConnected) {
			fmt.Println(cluster, "has Kubernetes", connection.Status.KubernetesVersion)
			return nil
		}
	}
	return errors.New("the watch has ended")
}

func main() {
	if len(os.Args) != 3 {
		log.Fatal("usage: client KUBECONFIG CLUSTER")
	}
	if err := run(context.Background(), os.Args[1], os.Args[2]); err != nil {
		log.Fatal(err)
	}
}
