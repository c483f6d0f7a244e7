// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

package executor

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/transport"

	"github.com/capstan-io/capstan/internal/kube/apply"
)

// Delicate tells whether the API server, or an admission check that comes
// with the kind, asks for more of who writes an object than the permission to
// write it: for the permissions that it grants, for what a policy reads, for
// the signer of a certificate, or to name an executor where the member is a hub
// itself.
func Delicate(object apply.Object) bool {
	switch object.Group {
	case "rbac.authorization.k8s.io", "admissionregistration.k8s.io", "certificates.k8s.io":
		return true
	default:
		return object.Group == hubGroups || strings.HasSuffix(object.Group, "."+hubGroups)
	}
}

// hubGroups is what the names of the API groups of a hub end with.
const hubGroups = "open-cluster-management.io"

// Rehearse sends the body that is about to be applied as the subject, so that
// nothing is stored. It returns nil at once for objects that are not delicate.
// The error is a *RefusedError if the subject may not write the body.
func (s *Session) Rehearse(ctx context.Context, version string, object apply.Object, body []byte, as apply.As) error {
	// With force, as it is for the real write to find conflicts.
	force := true
	options := metav1.PatchOptions{FieldManager: as.Manager, Force: &force}
	return s.rehearse(ctx, version, object, draft{patch: types.ApplyPatchType, body: body, options: options})
}

// RehearseReplacement is Rehearse for a JSON patch of an object that is there.
func (s *Session) RehearseReplacement(ctx context.Context, version string, object apply.Object, body []byte, as apply.As) error {
	options := metav1.PatchOptions{FieldManager: as.Manager}
	return s.rehearse(ctx, version, object, draft{patch: types.JSONPatchType, body: body, options: options})
}

// draft is a write that is rehearsed.
type draft struct {
	patch   types.PatchType
	body    []byte
	options metav1.PatchOptions
}

func (s *Session) rehearse(ctx context.Context, version string, object apply.Object, write draft) error {
	if !Delicate(object) {
		return nil
	}
	if object.Group == "certificates.k8s.io" && object.Resource == "certificatesigningrequests" {
		return &RefusedError{
			Subject: s.subject, Object: object,
			Answer: "a CertificateSigningRequest is issued to the user who creates it, which would be the agent",
		}
	}
	stage, err := s.guard.as(s.subject)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, apply.CallTimeout)
	defer cancel()
	resource := schema.GroupVersionResource{Group: object.Group, Version: version, Resource: object.Resource}
	var target metadata.ResourceInterface = stage.Resource(resource)
	if object.Namespace != "" {
		target = stage.Resource(resource).Namespace(object.Namespace)
	}
	write.options.DryRun = []string{metav1.DryRunAll}
	if _, err = target.Patch(ctx, object.Name, write.patch, write.body, write.options); err == nil {
		return nil
	}
	return s.refusal(object, err)
}

// refusal tells an answer that is about the subject from others.
func (s *Session) refusal(object apply.Object, err error) error {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Code != http.StatusForbidden ||
		apierrors.HasStatusCause(err, "NamespaceTerminating") {
		return fmt.Errorf("trying as %q to write %s: %w", s.subject.User(), object, err)
	}
	if strings.Contains(status.Status().Message, "cannot impersonate") {
		return &PowerlessError{Subject: s.subject, Object: object}
	}
	return &RefusedError{Subject: s.subject, Object: object, Answer: oneLine(status.Status().Message)}
}

// as returns a client that acts as the subject, over the connections of the
// agent's own.
func (g *Guard) as(subject Subject) (metadata.Interface, error) {
	client := *g.client
	client.Transport = transport.NewImpersonatingRoundTripper(
		transport.ImpersonationConfig{UserName: subject.User()}, g.client.Transport)
	stage, err := metadata.NewForConfigAndClient(g.config, &client)
	if err != nil {
		return nil, fmt.Errorf("making a client that acts as %q: %w", subject.User(), err)
	}
	return stage, nil
}
