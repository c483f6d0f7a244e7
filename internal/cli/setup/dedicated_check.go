// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package setup

import (
	"context"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/cli/exit"
	"github.com/capstan-io/capstan/internal/cli/install"
	"github.com/capstan-io/capstan/internal/server/version"
)

// hostState is what of a dedicated hub is on its host.
type hostState struct {
	// hub and controlPlane are the operators.
	hub, controlPlane operatorSituation
	// live is the control plane, nil if there is none.
	live *fleetv1alpha1.ControlPlane
}

// survey finds out what of the hub is on the host.
func (d *dedicatedHub) survey(ctx context.Context, c client.Reader) (h hostState, err error) {
	if h.hub, err = readSituation(ctx, c, install.ClusterManagerOperator()); err != nil {
		return h, err
	}
	if h.controlPlane, err = readSituation(ctx, c, install.ControlPlaneOperator()); err != nil {
		return h, err
	}
	live := &fleetv1alpha1.ControlPlane{}
	switch err := c.Get(ctx, d.controlPlaneKey(), live); {
	case err == nil:
		h.live = live
	case !apierrors.IsNotFound(err):
		return h, fmt.Errorf("read ControlPlane %q: %w", d.controlPlaneKey(), err)
	}
	return h, nil
}

// hubEndpoint is where the hub is reached; empty if that is not known yet.
func (h hostState) hubEndpoint() string {
	if h.live == nil {
		return ""
	}
	return h.live.Status.Endpoint
}

// checkHost returns why the hub cannot be made on the host as it is.
func (d *dedicatedHub) checkHost(ctx context.Context, c client.Reader, h hostState, force bool) error {
	for _, operator := range []operatorSituation{h.hub, h.controlPlane} {
		if err := operator.checkForeign(force); err != nil {
			return err
		}
	}
	if h.hub.deployment != nil {
		if err := h.hub.sameRelease(version.SemanticVersion()); err != nil {
			return err
		}
	}
	if err := d.nameFree(h); err != nil {
		return err
	}
	if d.version != "" && h.live != nil {
		if err := versionPossible(h.live, d.version); err != nil {
			return err
		}
	}
	for namespace, operator := range map[string]install.Operator{d.name: h.hub.operator, d.controlPlaneKey().Namespace: h.controlPlane.operator} {
		if err := d.namespaceFree(ctx, c, namespace, operator); err != nil {
			return err
		}
	}
	if err := d.portFree(ctx, c); err != nil {
		return err
	}
	if len(d.endpoints) > 0 {
		return d.credentialUsable(ctx, c)
	}
	if h.live != nil {
		return nil
	}
	return d.storageThere(ctx, c)
}

// nameFree looks for objects of the name of the hub that are none of it.
func (d *dedicatedHub) nameFree(h hostState) error {
	removed := func(what string) error {
		return exit.Next(fmt.Errorf("the hub is being removed: %s %q is being deleted", what, d.name),
			"\"capstan clean --dedicated --name %s\" waits for that to finish, and shows what it is waiting for.", d.name)
	}
	if h.live != nil && !h.live.DeletionTimestamp.IsZero() {
		return removed("ControlPlane")
	}
	for i := range h.hub.hubs {
		cm := &h.hub.hubs[i]
		switch {
		case cm.Name != d.name:
		case !cm.DeletionTimestamp.IsZero():
			return removed("ClusterManager")
		case cm.Spec.DeployOption.Mode != operatorv1.InstallModeHosted:
			return exit.Next(fmt.Errorf("the host already has a ClusterManager %q, which makes the host itself a hub", d.name), "Choose another name with --%s.", flagName)
		}
	}
	return nil
}

// namespaceFree looks whether a namespace is somebody else's.
func (d *dedicatedHub) namespaceFree(ctx context.Context, c client.Reader, name string, operator install.Operator) error {
	namespace := &corev1.Namespace{}
	if err := c.Get(ctx, client.ObjectKey{Name: name}, namespace); apierrors.IsNotFound(err) {
		return nil
	} else if err != nil {
		return fmt.Errorf("read the namespace %q: %w", name, err)
	}
	switch by := namespace.Labels[operatorv1.LabelOperatedBy]; {
	case !namespace.DeletionTimestamp.IsZero():
		return exit.Next(fmt.Errorf("the namespace %q is being deleted", name), "Run the same command again when it is gone.")
	case by == operator.DeploymentKey().Name:
		return nil
	case by == "" && name == d.controlPlaneKey().Namespace && len(d.endpoints) > 0:
		return nil // Somebody had to put the credential for etcd there.
	default:
		return exit.Next(fmt.Errorf("namespace %q already exists, and is not that of a dedicated hub", name), "Choose another name with --%s.", flagName)
	}
}

// portFree looks whether another Service has the port. Who may not see all
// Services learns it from the operator.
func (d *dedicatedHub) portFree(ctx context.Context, c client.Reader) error {
	if d.nodePort == 0 {
		return nil
	}
	services := &corev1.ServiceList{}
	if err := c.List(ctx, services); apierrors.IsForbidden(err) {
		return nil
	} else if err != nil {
		return fmt.Errorf("list the Services: %w", err)
	}
	for i := range services.Items {
		service := &services.Items[i]
		if service.Namespace == d.controlPlaneKey().Namespace && service.Labels[fleetv1alpha1.LabelControlPlane] == d.name {
			continue
		}
		for _, port := range service.Spec.Ports {
			if port.NodePort == d.nodePort {
				return exit.Next(fmt.Errorf("--%s: port %d is taken by Service %q", flagNodePort, d.nodePort, client.ObjectKeyFromObject(service)),
					"Choose another one, or leave the choice to Kubernetes.")
			}
		}
	}
	return nil
}

// storageThere looks for the StorageClass of etcd.
func (d *dedicatedHub) storageThere(ctx context.Context, c client.Reader) error {
	classes := &storagev1.StorageClassList{}
	if err := c.List(ctx, classes); apierrors.IsForbidden(err) {
		return nil
	} else if err != nil {
		return fmt.Errorf("list the StorageClasses: %w", err)
	}
	names := make([]string, 0, len(classes.Items))
	for i := range classes.Items {
		class := &classes.Items[i]
		isDefault := class.Annotations[defaultClass] == "true"
		if class.Name == d.storageClass || d.storageClass == "" && isDefault {
			return nil
		}
		names = append(names, class.Name)
	}
	what := "there is no default StorageClass"
	if d.storageClass != "" {
		what = fmt.Sprintf("there is no StorageClass %q", d.storageClass)
	}
	if len(names) == 0 {
		return exit.Next(fmt.Errorf("%s, and no other one: the host has no storage for etcd", what),
			"Install a provisioner of volumes, or store the hub in an etcd elsewhere with --%s.", flagEtcd)
	}
	return exit.Next(fmt.Errorf("%s; there is: %s", what, strings.Join(names, ", ")), "Choose one of them with --%s.", flagStorageClass)
}

// defaultClass is on the StorageClass of claims that name none.
const defaultClass = "storageclass.kubernetes.io/is-default-class"

// credentialUsable looks at the credential for an etcd elsewhere.
func (d *dedicatedHub) credentialUsable(ctx context.Context, c client.Reader) error {
	key := client.ObjectKey{Namespace: d.controlPlaneKey().Namespace, Name: d.etcdSecret}
	next := fmt.Sprintf("Create it, and run the same command again:\n"+
		"  kubectl create namespace %[1]s\n"+
		"  kubectl -n %[1]s create secret generic %[2]s --from-file=ca.crt --from-file=tls.crt --from-file=tls.key", key.Namespace, key.Name)
	secret := &corev1.Secret{}
	if err := c.Get(ctx, key, secret); apierrors.IsNotFound(err) {
		return exit.Next(fmt.Errorf("there is no Secret %q with the credential for etcd", key), "%s", next)
	} else if err != nil {
		return fmt.Errorf("read the Secret %q: %w", key, err)
	}
	for _, file := range []string{corev1.ServiceAccountRootCAKey, corev1.TLSCertKey, corev1.TLSPrivateKeyKey} {
		if len(secret.Data[file]) == 0 {
			return exit.Next(fmt.Errorf("the Secret %q with the credential for etcd has no key %s", key, file), "%s", next)
		}
	}
	expires := certificateExpiry(secret.Data[corev1.TLSCertKey])
	switch {
	case expires.IsZero():
		return exit.Next(fmt.Errorf("the Secret %q has no certificate in key %s", key, corev1.TLSCertKey), "%s", next)
	case expires.Before(time.Now()):
		return exit.Next(fmt.Errorf("the certificate for etcd in the Secret %q has expired at %s", key, expires.Format(time.RFC3339)), "Put a new one there.")
	}
	return nil
}
