// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package restore

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/server/certs"
)

func (w *restoreRun) controlPlaneKey() client.ObjectKey {
	return client.ObjectKey{Namespace: w.plane.Namespace, Name: w.plane.Name}
}

// annotate changes annotations of the ControlPlane; one without a value goes.
func (w *restoreRun) annotate(ctx context.Context, annotations map[string]string) error {
	cp := &fleetv1alpha1.ControlPlane{}
	if err := w.host.Get(ctx, w.controlPlaneKey(), cp); err != nil {
		return fmt.Errorf("read ControlPlane %q: %w", w.controlPlaneKey(), err)
	}
	before := cp.DeepCopy()
	if cp.Annotations == nil {
		cp.Annotations = map[string]string{}
	}
	maps.Copy(cp.Annotations, annotations)
	maps.DeleteFunc(cp.Annotations, func(_, value string) bool { return value == "" })
	if err := w.host.Patch(ctx, cp, client.MergeFrom(before)); err != nil {
		return fmt.Errorf("annotate ControlPlane %q: %w", w.controlPlaneKey(), err)
	}
	return nil
}

// holdControlPlane has the operator run so much of the control plane and no more. The range is
// noted first: a restore after this one has to leave it out, too.
func (w *restoreRun) holdControlPlane(ctx context.Context, how, next string) error {
	err := w.annotate(ctx, map[string]string{
		fleetv1alpha1.AnnotationHold: how, fleetv1alpha1.AnnotationRestored: w.versions.String(),
	})
	if err != nil {
		return err
	}
	return w.waits.PollUntil(ctx, "the control plane", next, func(ctx context.Context) (done bool, why string, err error) {
		cp := &fleetv1alpha1.ControlPlane{}
		if err := w.host.Get(ctx, w.controlPlaneKey(), cp); err != nil {
			return false, "", fmt.Errorf("read ControlPlane %q: %w", w.controlPlaneKey(), err)
		}
		held := meta.FindStatusCondition(cp.Status.Conditions, fleetv1alpha1.ControlPlaneConditionHeld)
		if held == nil || held.Reason != how {
			if degraded := meta.FindStatusCondition(cp.Status.Conditions, fleetv1alpha1.ControlPlaneConditionDegraded); degraded != nil && degraded.Status == metav1.ConditionTrue {
				return false, degraded.Message, nil
			}
			return false, "its operator has not started on it yet", nil
		}
		return held.Status == metav1.ConditionTrue, held.Message, nil
	})
}

// releaseControlPlane has the operator run all of it again, and waits for that.
func (w *restoreRun) releaseControlPlane(ctx context.Context) error {
	if err := w.annotate(ctx, map[string]string{fleetv1alpha1.AnnotationHold: ""}); err != nil {
		return err
	}
	return w.waits.AwaitControlPlane(ctx, w.controlPlaneKey())
}

// secretsToWrite returns the Secrets of the backup that have to be written: those that are
// missing, and with replace those that are others.
func (w *restoreRun) secretsToWrite(ctx context.Context, replace bool) ([]client.Object, error) {
	var wanted []client.Object
	var others []string
	for _, name := range slices.Sorted(maps.Keys(w.from.Secrets)) {
		secret := w.from.Secrets[name]
		live := &corev1.Secret{}
		err := w.host.Get(ctx, client.ObjectKeyFromObject(secret), live)
		switch {
		case apierrors.IsNotFound(err):
			wanted = append(wanted, secret)
		case err != nil:
			return nil, fmt.Errorf("read the Secret %q: %w", client.ObjectKeyFromObject(secret), err)
		case !maps.EqualFunc(secret.Data, live.Data, bytes.Equal):
			live.Data = secret.Data
			wanted, others = append(wanted, live), append(others, name)
		}
	}
	if len(others) > 0 && !replace {
		return nil, exit.Next(fmt.Errorf("the keys of the hub differ from those of the backup: Secrets %s in namespace %q", strings.Join(others, ", "), w.plane.Namespace),
			"They were rotated since, or this is another hub of that name. The backup can only be read with its own keys: --%s restores them. "+
				"Members that trust only newer authorities then need a new bootstrap kubeconfig.", flagReplaceKeys)
	}
	return wanted, nil
}

// writeSecrets creates or updates the Secrets, and removes what other authorities have
// signed: the operator would keep it as long as its bundle verifies it.
func (w *restoreRun) writeSecrets(ctx context.Context, keys []client.Object) error {
	for _, secret := range keys {
		do := w.host.Update
		if secret.GetResourceVersion() == "" {
			do = func(ctx context.Context, object client.Object, _ ...client.UpdateOption) error {
				return client.IgnoreAlreadyExists(w.host.Create(ctx, object))
			}
		}
		if err := do(ctx, secret); err != nil {
			return fmt.Errorf("write the Secret %q: %w", client.ObjectKeyFromObject(secret), err)
		}
	}
	for authority, leaves := range w.plane.Authorities() {
		if err := w.reissueCertificates(ctx, authority, leaves); err != nil {
			return err
		}
	}
	return nil
}

// reissueCertificates has the operator make all certificates of an authority and its bundle anew
// if one of them is of another authority than that of the backup.
func (w *restoreRun) reissueCertificates(ctx context.Context, authority string, leaves []certs.Leaf) error {
	name := w.plane.ResourceName(authority)
	kept, ok := w.from.Secrets[name]
	if !ok {
		return nil
	}
	signer, err := certs.ParsePair(kept.Data[corev1.TLSCertKey], kept.Data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return fmt.Errorf("the Secret %q of the backup has no usable authority: %w", name, err)
	}
	stale := []client.Object{&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.plane.Namespace, Name: name}}}
	foreign := false
	for _, leaf := range leaves {
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: w.plane.Namespace, Name: leaf.Secret}}
		if err := w.host.Get(ctx, client.ObjectKeyFromObject(secret), secret); client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("read the Secret %q: %w", client.ObjectKeyFromObject(secret), err)
		}
		stale = append(stale, secret)
		for _, certificate := range certs.ParseBundle(secret.Data[corev1.TLSCertKey]) {
			foreign = foreign || certificate.CheckSignatureFrom(signer.Certificate) != nil
		}
	}
	if !foreign {
		return nil
	}
	for _, object := range stale {
		if err := client.IgnoreNotFound(w.host.Delete(ctx, object)); err != nil {
			return fmt.Errorf("remove %q, which is of another authority: %w", client.ObjectKeyFromObject(object), err)
		}
	}
	return nil
}
