// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"context"
	"crypto/x509"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	fleetv1alpha1 "github.com/capstan-io/capstan/apis/fleet/v1alpha1"
	"github.com/capstan-io/capstan/internal/server/certs"
	"github.com/capstan-io/capstan/operators/controlplane/manifests"
	"github.com/capstan-io/capstan/operators/controlplane/rotation"
)

const (
	// actionRotate is what events of rotations say that the operator was doing.
	actionRotate = "Rotate"

	// publishedAuthorities is the ConfigMap in namespace kube-system of the hub from
	// which aggregated API servers learn whom to trust. The API servers only ever add
	// to it.
	publishedAuthorities = "extension-apiserver-authentication"
)

// rotationPhases has the phase that says how far authorities and keys are replaced.
type rotationPhases struct{ *hostCluster }

// authorityOfSubject returns the authority that the subject of a rotation is; of keys, the
// subject itself.
func authorityOfSubject(subject string) string {
	switch subject {
	case rotation.EtcdAuthority:
		return manifests.EtcdAuthority
	case rotation.FrontProxyAuthority:
		return manifests.FrontProxyAuthority
	case rotation.ClientAuthority:
		return manifests.ClientAuthority
	case rotation.ServingAuthority:
		return manifests.ServingAuthority
	default:
		return subject
	}
}

// publishedKey is where an authority is published to aggregated API servers; empty
// if it is not.
func publishedKey(authority string) string {
	switch authority {
	case manifests.FrontProxyAuthority:
		return "requestheader-client-ca-file"
	case manifests.ClientAuthority:
		return "client-ca-file"
	default:
		return ""
	}
}

// requestedReplacement says what the rotation of the authority asks of its signer.
func requestedReplacement(p *controlPlanePass, authority string) certs.Replacement {
	for _, state := range p.Object.Status.Rotations {
		if authorityOfSubject(state.Name) != authority {
			continue
		}
		asked := certs.Replacement{Token: state.Token}
		switch state.Stage {
		case rotation.Trust:
			asked.Step = certs.Trust
		case rotation.Sign, rotation.Rewrite, rotation.Wait:
			asked.Step = certs.Sign
		case rotation.Drop:
			asked.Step = certs.Drop
		}
		return asked
	}
	return certs.Replacement{}
}

// advanceRotations finds out how far the rotation is that is under way, and writes down
// its next stage, or the first one of another rotation. The phases of the next
// walk act upon that. It comes after all pods are as wanted.
func (r *rotationPhases) advanceRotations(ctx context.Context, p *controlPlanePass) error {
	cp := p.Object
	now := r.Clock.Now()
	subjects := rotation.Subjects(cp.Spec.Rotation)
	if cp.Status.Version == "" {
		cp.Status.Rotations = rotation.InitialRotations(now, subjects, cp.Status.Rotations)
	}
	var facts rotation.StageFacts
	if active := rotation.ActiveRotation(cp.Status.Rotations); active != nil {
		var err error
		if facts, err = r.rotationFacts(ctx, p, *active); err != nil {
			return err
		}
	}
	cp.Status.Rotations = rotation.AdvanceRotations(now, subjects, cp.Status.Rotations, facts)
	p.facts.Rotating = describeActiveRotation(cp.Status.Rotations)
	switch {
	case facts.Others:
		p.DueIn(brokenRetry)
	case p.facts.Rotating != "":
		p.DueIn(waitRetry)
	}
	if due := rotation.NextWaitEndTime(subjects, cp.Status.Rotations); !due.IsZero() {
		p.DueBy(due)
	}
	return nil
}

// rotationFacts finds out what the stage of a rotation waits for.
func (r *rotationPhases) rotationFacts(ctx context.Context, p *controlPlanePass, state rotation.State) (rotation.StageFacts, error) {
	subject := authorityOfSubject(state.Name)
	if p.replaced[subject] != state.Token {
		return rotation.StageFacts{Lost: true}, nil
	}
	pods, err := r.listOutdatedPods(ctx, p)
	if err != nil {
		return rotation.StageFacts{}, err
	}
	if len(pods) > 0 {
		return rotation.StageFacts{Left: "waiting for pods that run with what was before: " + strings.Join(pods, ", ")}, nil
	}
	shown := publishedKey(subject) != ""
	switch {
	case state.Stage == rotation.Rewrite:
		return r.rewriteHubSecrets(ctx, p, subject)
	case state.Stage == rotation.Trust && subject == manifests.ServingAuthority:
		return r.followerTrustFacts(ctx, p)
	case state.Stage == rotation.Trust && shown:
		return r.checkAuthorityPublished(ctx, p, subject)
	case state.Stage == rotation.Drop && shown:
		return rotation.StageFacts{}, r.unpublishAuthority(ctx, p, subject)
	default:
		return rotation.StageFacts{}, nil
	}
}

// listOutdatedPods returns the pods that began with something else than what is wanted
// now, also those that terminate: they may serve a little longer.
func (r *rotationPhases) listOutdatedPods(ctx context.Context, p *controlPlanePass) ([]string, error) {
	list := &corev1.PodList{}
	if err := r.Live.List(ctx, list, client.InNamespace(p.plane.Namespace), client.MatchingLabels(p.plane.Labels())); err != nil {
		return nil, fmt.Errorf("listing the pods in namespace %q: %w", p.plane.Namespace, err)
	}
	var names []string
	for _, pod := range list.Items {
		wanted := p.plane.Hashes[pod.Labels[fleetv1alpha1.LabelControlPlaneComponent]]
		if pod.Annotations[manifests.HashAnnotation] != wanted {
			names = append(names, pod.Name)
		}
	}
	slices.Sort(names)
	return names, nil
}

// checkAuthorityPublished finds out whether aggregated API servers are told of the authority.
func (r *rotationPhases) checkAuthorityPublished(ctx context.Context, p *controlPlanePass, authority string) (rotation.StageFacts, error) {
	_, config, err := r.publishedConfig(ctx, p)
	if err != nil {
		return rotation.StageFacts{}, err
	}
	there := certs.ParseBundle([]byte(config.Data[publishedKey(authority)]))
	for _, cert := range certs.ParseBundle(p.bundles[authority]) {
		if !slices.ContainsFunc(there, cert.Equal) {
			return rotation.StageFacts{Left: fmt.Sprintf("waiting for the API servers to publish it in ConfigMap %s/%s of the hub",
				metav1.NamespaceSystem, publishedAuthorities)}, nil
		}
	}
	return rotation.StageFacts{}, nil
}

// unpublishAuthority takes what is no longer trusted out of what aggregated API servers are
// told: the API servers themselves would leave it there until it expires.
func (r *rotationPhases) unpublishAuthority(ctx context.Context, p *controlPlanePass, authority string) error {
	there, config, err := r.publishedConfig(ctx, p)
	if err != nil {
		return err
	}
	trusted := certs.ParseBundle(p.bundles[authority])
	before := certs.ParseBundle([]byte(config.Data[publishedKey(authority)]))
	after := slices.DeleteFunc(slices.Clone(before), func(cert *x509.Certificate) bool {
		return certs.IsSignerOfSecret(cert, p.plane.Namespace, p.plane.ResourceName(authority)) && !slices.ContainsFunc(trusted, cert.Equal)
	})
	if len(after) == len(before) {
		return nil
	}
	config.Data[publishedKey(authority)] = string(certs.EncodeBundle(after))
	err = there.Update(ctx, config, client.FieldOwner(FieldOwner))
	if err == nil || apierrors.IsConflict(err) {
		return err // an API server writes it as well, and then the walk begins anew
	}
	return r.notReachable(p, fmt.Errorf("writing the ConfigMap %q: %w", client.ObjectKeyFromObject(config), err))
}

// publishedConfig reads the ConfigMap for aggregated API servers. One that is
// missing is empty: the API servers make it anew.
func (r *rotationPhases) publishedConfig(ctx context.Context, p *controlPlanePass) (client.Client, *corev1.ConfigMap, error) {
	there, err := r.hubs.clientForPass(p)
	if err != nil {
		return nil, nil, r.notReachable(p, err)
	}
	config := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: metav1.NamespaceSystem, Name: publishedAuthorities}
	if err := there.Get(ctx, key, config); err != nil && !apierrors.IsNotFound(err) {
		return nil, nil, r.notReachable(p, fmt.Errorf("reading the ConfigMap %q: %w", key, err))
	}
	return there, config, nil
}

// describeActiveRotation says which rotation is under way, and what it waits for; empty if none
// is.
func describeActiveRotation(states []rotation.State) string {
	active := rotation.ActiveRotation(states)
	if active == nil {
		return ""
	}
	text := fmt.Sprintf("rotating %s, stage %s", active.Name, active.Stage)
	if active.Message != "" {
		text += ": " + active.Message
	}
	return text
}

// announceRotations records an event for each stage that a walk has written down.
func (c *Controller) announceRotations(p *controlPlanePass) {
	for _, state := range p.Object.Status.Rotations {
		before := rotation.FindRotation(p.Before.Status.Rotations, state.Name)
		if before != nil && before.Stage == state.Stage && before.Token == state.Token || before == nil && state.Stage == rotation.Complete {
			continue
		}
		reason := fleetv1alpha1.ControlPlaneReasonRotating
		text := fmt.Sprintf("%s: stage %s begins", state.Name, state.Stage)
		switch state.Stage {
		case rotation.Wait:
			text += ": " + state.Message
		case rotation.Complete:
			reason, text = fleetv1alpha1.ControlPlaneReasonRotated, fmt.Sprintf("%s: only the new one is in use", state.Name)
		}
		c.Events.Eventf(p.Object, nil, corev1.EventTypeNormal, reason, actionRotate, "%s", text)
	}
}
