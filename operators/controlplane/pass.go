// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	operatorv1 "github.com/capstan-io/capstan/apis/operator/v1"
	"github.com/capstan-io/capstan/internal/kube/conditions"
	"github.com/capstan-io/capstan/internal/operator/install"
	"github.com/capstan-io/capstan/internal/server/certs"
	"github.com/capstan-io/capstan/operators/controlplane/manifests"
	"github.com/capstan-io/capstan/operators/controlplane/rotation"
	"github.com/capstan-io/capstan/operators/controlplane/status"
)

// controlPlanePass is one walk and what its phases leave for each other.
type controlPlanePass struct {
	*install.ReconcilePass[*fleetv1alpha1.ControlPlane]
	// plane is what manifests are made of.
	plane manifests.Plane
	// pods are those of the control plane when the walk began, by component.
	pods map[string][]corev1.Pod
	// bundles verify what each authority has signed.
	bundles map[string][]byte
	// signers are the authorities, and replaced tells for which rotation each of them,
	// and the keys by the name of their rotation, were made, if for any.
	signers  map[string]*certs.CertificatePair
	replaced map[string]string
	// admin is the certificate of the kubeconfig.
	admin *certs.CertificatePair
	// tokenKey is the private key that signs tokens of ServiceAccounts.
	tokenKey []byte
	// served reports whether the API servers have a certificate for the endpoint.
	served bool
	facts  status.ControlPlaneFacts
}

func newControlPlanePass(base *install.ReconcilePass[*fleetv1alpha1.ControlPlane]) *controlPlanePass {
	cp := base.Object
	p := &controlPlanePass{
		ReconcilePass: base, pods: map[string][]corev1.Pod{}, bundles: map[string][]byte{},
		signers: map[string]*certs.CertificatePair{}, replaced: map[string]string{},
	}
	p.plane = manifests.Plane{Name: cp.Name, Namespace: cp.Namespace, Spec: *cp.Spec.DeepCopy(), Hashes: map[string]string{}}
	namespace, name := p.plane.KubeconfigSecret()
	p.facts.Where = namespace + "/" + name
	p.facts.Certificates = cp.Status.Certificates
	if isUpgrading(cp) {
		p.facts.Upgrading = fmt.Sprintf("from %s to %s", cp.Status.Version, cp.Spec.Version)
	}
	p.facts.Rotating = describeActiveRotation(cp.Status.Rotations)
	p.facts.Kubeconfig = meta.IsStatusConditionTrue(cp.Status.Conditions, fleetv1alpha1.ControlPlaneConditionKubeconfigReady)
	p.DueIn(resync)
	return p
}

func isUpgrading(cp *fleetv1alpha1.ControlPlane) bool {
	return cp.Status.Version != "" && cp.Status.Version != cp.Spec.Version
}

// rotationStage is how far the rotation of the subject was when the walk began; empty if
// there was none.
func (p *controlPlanePass) rotationStage(subject string) fleetv1alpha1.RotationStage {
	if state := rotation.FindRotation(p.Object.Status.Rotations, subject); state != nil {
		return state.Stage
	}
	return ""
}

// setCondition sets a condition of the ControlPlane.
func (p *controlPlanePass) setCondition(condition metav1.Condition) {
	conditions.SetCondition(&p.Object.Status.Conditions, p.Object.Generation, condition)
}

// reportInstallOutcome writes what a walk found into the status, in memory.
func (h *hostCluster) reportInstallOutcome(p *controlPlanePass, o install.PassOutcome) {
	p.facts.Outcome, p.facts.Now = o, h.Clock.Now()
	for _, condition := range status.DeriveConditions(p.facts) {
		p.setCondition(condition)
	}
	p.Object.Status.Certificates = p.facts.Certificates
	if p.served {
		p.Object.Status.Endpoint = p.plane.Endpoint.URL()
	}
	if o.GenerationObserved() || o.Result == install.Waiting {
		p.Object.Status.ObservedGeneration = p.Object.Generation
	}
	if o.Result == install.Done {
		p.Object.Status.Version = p.Object.Spec.Version
	}
}

// reportRemoval says what a removal waits for, and that data are kept.
func reportRemoval(p *controlPlanePass, o install.PassOutcome) {
	if retainsData(p.Object) {
		p.setCondition(metav1.Condition{
			Type: fleetv1alpha1.ControlPlaneConditionDataRetained, Status: metav1.ConditionTrue,
			Reason: fleetv1alpha1.ControlPlaneReasonRetained, Message: describeRetainedData(p),
		})
	}
	p.setCondition(metav1.Condition{
		Type: fleetv1alpha1.ControlPlaneConditionAvailable, Status: metav1.ConditionFalse,
		Reason: fleetv1alpha1.ControlPlaneReasonRemoving, Message: "the control plane is being removed",
	})
	p.setCondition(metav1.Condition{
		Type: fleetv1alpha1.ControlPlaneConditionProgressing, Status: metav1.ConditionTrue,
		Reason: fleetv1alpha1.ControlPlaneReasonRemoving, Message: o.Message,
	})
}

// explainMissingPermissions makes phases tell what to do if the operator lacks permissions in a
// namespace. It tries again, as nobody tells it that they were granted.
func explainMissingPermissions(phases ...install.Phase[*controlPlanePass]) []install.Phase[*controlPlanePass] {
	for n := range phases {
		run := phases[n].Run
		phases[n].Run = func(ctx context.Context, p *controlPlanePass) error {
			err := run(ctx, p)
			if err == nil || !apierrors.IsForbidden(err) || !strings.Contains(err.Error(), `User "`) {
				return err
			}
			return install.UnreachableError{
				Reason: fleetv1alpha1.ControlPlaneReasonMissingPermissions, After: brokenRetry,
				Message: fmt.Sprintf("%v; grant the operator its permissions: %s", err, grantCommands(p)),
			}
		}
	}
	return phases
}

// grantCommands are the commands that give the operator what it needs.
func grantCommands(p *controlPlanePass) string {
	command := func(name, namespace, role string) string {
		return fmt.Sprintf("kubectl create rolebinding %s -n %s --clusterrole=%s --serviceaccount=%s:%s",
			name, namespace, role, operatorv1.DefaultOperatorNamespace, fleetv1alpha1.ControlPlaneOperator)
	}
	commands := command("control-plane", p.plane.Namespace, fleetv1alpha1.ControlPlaneNamespaceRole)
	if namespace, _ := p.plane.KubeconfigSecret(); namespace != p.plane.Namespace {
		commands += "; " + command("control-plane-kubeconfig", namespace, fleetv1alpha1.ControlPlaneKubeconfigRole)
	}
	return commands
}
