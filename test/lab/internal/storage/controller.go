// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	storagelisters "k8s.io/client-go/listers/storage/v1"
	"k8s.io/client-go/tools/cache"
)

// retryInterval is the time after which what failed is tried again.
const retryInterval = time.Second

// controller keeps a volume, and the directory it is in, for every claim that
// asks for one.
type controller struct {
	place   place
	client  kubernetes.Interface
	claims  corelisters.PersistentVolumeClaimLister
	volumes corelisters.PersistentVolumeLister
	classes storagelisters.StorageClassLister
}

// Run provides the claims of a cluster with directories below dir, which is on
// its only node, until the context ends.
func Run(ctx context.Context, client kubernetes.Interface, node, dir string) error {
	factory := informers.NewSharedInformerFactory(client, 0)
	claims := factory.Core().V1().PersistentVolumeClaims()
	volumes := factory.Core().V1().PersistentVolumes()
	classes := factory.Storage().V1().StorageClasses()
	c := controller{
		place:   place{node: node, dir: dir},
		client:  client,
		claims:  claims.Lister(),
		volumes: volumes.Lister(),
		classes: classes.Lister(),
	}
	changed := make(chan struct{}, 1)
	for _, informer := range []cache.SharedIndexInformer{claims.Informer(), volumes.Informer(), classes.Informer()} {
		if err := notify(informer, changed); err != nil {
			return err
		}
	}
	factory.Start(ctx.Done())
	factory.WaitForCacheSync(ctx.Done())
	for {
		var retry <-chan time.Time
		if err := c.reconcile(ctx); err != nil {
			log.Print(err)
			retry = time.After(retryInterval)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		case <-retry:
		}
	}
}

// notify makes an informer tell that something has changed.
func notify(informer cache.SharedIndexInformer, changed chan<- struct{}) error {
	tell := func() {
		select {
		case changed <- struct{}{}:
		default: // Somebody has told already.
		}
	}
	_, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { tell() },
		UpdateFunc: func(any, any) { tell() },
		DeleteFunc: func(any) { tell() },
	})
	if err != nil {
		return fmt.Errorf("watch: %w", err)
	}
	return nil
}

// reconcile makes the volumes that claims wait for, and removes those that
// nobody claims any more. There are few, so it looks at all of them.
func (c controller) reconcile(ctx context.Context) error {
	claims, err := c.claims.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("list claims: %w", err)
	}
	volumes, err := c.volumes.List(labels.Everything())
	if err != nil {
		return fmt.Errorf("list volumes: %w", err)
	}
	var errs []error
	for _, claim := range claims {
		if lacksVolume(claim) {
			errs = append(errs, c.provide(ctx, claim))
		}
	}
	for _, volume := range volumes {
		if isAbandoned(volume) {
			errs = append(errs, c.remove(ctx, volume))
		}
	}
	return errors.Join(errs...)
}

// provide makes the volume of a claim.
func (c controller) provide(ctx context.Context, claim *corev1.PersistentVolumeClaim) error {
	class, err := c.classes.Get(className(claim))
	if err != nil {
		return fmt.Errorf("claim %s/%s: find storage class: %w", claim.Namespace, claim.Name, err)
	}
	reclaim := corev1.PersistentVolumeReclaimDelete
	if class.ReclaimPolicy != nil {
		reclaim = *class.ReclaimPolicy
	}
	volume := c.place.volumeFor(claim, reclaim)
	if err := os.MkdirAll(c.place.path(volume.Name), 0o755); err != nil {
		return fmt.Errorf("claim %s/%s: make directory: %w", claim.Namespace, claim.Name, err)
	}
	_, err = c.client.CoreV1().PersistentVolumes().Create(ctx, volume, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("claim %s/%s: create volume: %w", claim.Namespace, claim.Name, err)
	}
	return nil
}

// remove removes a volume: its directory first, so that one that is interrupted
// is found again.
func (c controller) remove(ctx context.Context, volume *corev1.PersistentVolume) error {
	if err := os.RemoveAll(c.place.path(volume.Name)); err != nil {
		return fmt.Errorf("volume %s: remove directory: %w", volume.Name, err)
	}
	err := c.client.CoreV1().PersistentVolumes().Delete(ctx, volume.Name, metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("volume %s: delete: %w", volume.Name, err)
	}
	return nil
}
