// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/cli/backup"
	"github.com/capstan-io/capstan/internal/cli/backup/attach"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/operators/controlplane/manifests"
)

// fieldOwner owns what the command applies on the host.
const fieldOwner = client.FieldOwner("capstan")

// replaceEtcdData replaces the data of each member of etcd, none of which runs.
func (w *restoreRun) replaceEtcdData(ctx context.Context, next string) error {
	how, err := w.restoration(ctx)
	if err != nil {
		return err
	}
	claims := manifests.DataClaims(w.plane)
	for n := range w.plane.Spec.Etcd.Managed.Replicas {
		claim := &corev1.PersistentVolumeClaim{}
		err := w.host.Get(ctx, client.ObjectKey{Namespace: w.plane.Namespace, Name: w.plane.DataClaim(n)}, claim)
		if apierrors.IsNotFound(err) {
			err = w.host.Apply(ctx, claims[n], fieldOwner)
		}
		if err != nil {
			return fmt.Errorf("look after the volume of member %d of etcd: %w", n, err)
		}
		if err := w.replaceMemberData(ctx, n, how, next); err != nil {
			return err
		}
	}
	return nil
}

// restoration tells the pods what they get, and what they are made of.
func (w *restoreRun) restoration(ctx context.Context) (manifests.Restoration, error) {
	operator := &appsv1.Deployment{}
	key := client.ObjectKey{Namespace: operatorv1.DefaultOperatorNamespace, Name: fleetv1alpha1.ControlPlaneOperator}
	if err := w.host.Get(ctx, key, operator); err != nil {
		return manifests.Restoration{}, fmt.Errorf("look for the image of the operator: %w", err)
	}
	hash := sha256.New()
	size, err := io.Copy(hash, w.from.EtcdSnapshot())
	if err != nil {
		return manifests.Restoration{}, fmt.Errorf("read the snapshot: %w", err)
	}
	return manifests.Restoration{
		Image: operator.Spec.Template.Spec.Containers[0].Image, Size: size, SHA256: hex.EncodeToString(hash.Sum(nil)),
		Bump: w.versions.Until - w.versions.After, Again: w.again,
	}, nil
}

// replaceMemberData replaces the data of one member, by a pod that has its volume.
func (w *restoreRun) replaceMemberData(ctx context.Context, n int32, how manifests.Restoration, next string) error {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.plane.Namespace, Name: w.plane.RestorePodName(n)}}
	if err := w.deletePodAndWait(ctx, pod); err != nil { // one of a restore before
		return err
	}
	if err := w.host.Apply(ctx, manifests.RestorePod(w.plane, n, how), fieldOwner); err != nil {
		return fmt.Errorf("create the Pod %q: %w", client.ObjectKeyFromObject(pod), err)
	}
	err := w.waits.PollUntil(ctx, fmt.Sprintf("the Pod %q", pod.Name), next, w.looksAt(pod, func() bool {
		for _, status := range pod.Status.InitContainerStatuses {
			if status.Name == manifests.ReceiveContainer {
				return status.State.Running != nil
			}
		}
		return false
	}))
	if err != nil {
		return err
	}
	config, err := w.session.LoadRESTConfig()
	if err != nil {
		return err
	}
	var said bytes.Buffer
	snapshot := backup.NewProgressReader(w.from.EtcdSnapshot(), how.Size, func(percent int64) {
		w.steps.ShowWaiting("member %d: %d %% of %s sent", n, percent, backup.Mebibytes(how.Size))
	})
	target := attach.Target{Pod: client.ObjectKeyFromObject(pod), Container: manifests.ReceiveContainer}
	if err := attach.SendStdin(ctx, config, target, snapshot, &said); err != nil {
		return exit.Next(fmt.Errorf("send the snapshot to the Pod %q: %w %s", target.Pod, err, strings.TrimSpace(said.String())), "%s", next)
	}
	err = w.waits.PollUntil(ctx, fmt.Sprintf("the Pod %q", pod.Name), next, w.looksAt(pod, func() bool { return pod.Status.Phase == corev1.PodSucceeded }))
	if err != nil {
		return err
	}
	return w.deletePodAndWait(ctx, pod)
}

// looksAt reads the pod, and ends the wait if it failed.
func (w *restoreRun) looksAt(pod *corev1.Pod, done func() bool) func(context.Context) (bool, string, error) {
	return func(ctx context.Context) (bool, string, error) {
		if err := w.host.Get(ctx, client.ObjectKeyFromObject(pod), pod); err != nil {
			return false, "", fmt.Errorf("read the Pod %q: %w", client.ObjectKeyFromObject(pod), err)
		}
		for _, status := range append(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses...) {
			switch {
			case status.State.Terminated != nil && status.State.Terminated.ExitCode != 0:
				return false, fmt.Sprintf("its container %s failed: %s", status.Name, strings.TrimSpace(status.State.Terminated.Message)), nil
			case status.State.Waiting != nil && status.State.Waiting.Message != "":
				return false, fmt.Sprintf("its container %s: %s", status.Name, status.State.Waiting.Message), nil
			}
		}
		return done(), "its container has not ended or begun yet: phase " + string(pod.Status.Phase), nil
	}
}

// deletePodAndWait deletes a pod, and waits until it is gone.
func (w *restoreRun) deletePodAndWait(ctx context.Context, pod *corev1.Pod) error {
	if err := client.IgnoreNotFound(w.host.Delete(ctx, pod)); err != nil {
		return fmt.Errorf("delete the Pod %q: %w", client.ObjectKeyFromObject(pod), err)
	}
	pod.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Pod")) // which reading it has taken away
	return w.waits.AwaitGone(ctx, pod)
}
