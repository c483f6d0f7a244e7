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

// IsDelicate reports whether the API server, or an admission check that comes
// with the kind, asks for more of who writes an object than the permission to
// write it: for the permissions that it grants, for what a policy reads, for
// the signer of a certificate, or to name an executor where the member is a hub
// itself.
func IsDelicate(object apply.ObjectRef) bool {
	switch object.Group {
	case "rbac.authorization.k8s.io", "admissionregistration.k8s.io", "certificates.k8s.io":
		return true
	default:
		return object.Group == hubGroups || strings.HasSuffix(object.Group, "."+hubGroups)
	}
}

// hubGroups is what the names of the API groups of a hub end with.
const hubGroups = "open-cluster-management.io"

// RehearseApply sends the body that is about to be applied as the subject, so that
// nothing is stored. It returns nil at once for objects that are not delicate.
// The error is a *RefusedError if the subject may not write the body.
func (s *ReviewSession) RehearseApply(ctx context.Context, version string, object apply.ObjectRef, body []byte, as apply.FieldWriter) error {
	// With force, as it is for the real write to find conflicts.
	force := true
	options := metav1.PatchOptions{FieldManager: as.Manager, Force: &force}
	return s.rehearseDraft(ctx, version, object, writeDraft{patch: types.ApplyPatchType, body: body, options: options})
}

// RehearseReplacement is RehearseApply for a JSON patch of an object that is there.
func (s *ReviewSession) RehearseReplacement(ctx context.Context, version string, object apply.ObjectRef, body []byte, as apply.FieldWriter) error {
	options := metav1.PatchOptions{FieldManager: as.Manager}
	return s.rehearseDraft(ctx, version, object, writeDraft{patch: types.JSONPatchType, body: body, options: options})
}

// writeDraft is a write that is rehearsed.
type writeDraft struct {
	patch   types.PatchType
	body    []byte
	options metav1.PatchOptions
}

func (s *ReviewSession) rehearseDraft(ctx context.Context, version string, object apply.ObjectRef, write writeDraft) error {
	if !IsDelicate(object) {
		return nil
	}
	if object.Group == "certificates.k8s.io" && object.Resource == "certificatesigningrequests" {
		return &RefusedError{
			Subject: s.subject, Object: object,
			Answer: "a CertificateSigningRequest is issued to the user who creates it, which would be the agent",
		}
	}
	stage, err := s.guard.impersonateSubject(s.subject)
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
	return s.classifyRefusal(object, err)
}

// classifyRefusal tells an answer that is about the subject from others.
func (s *ReviewSession) classifyRefusal(object apply.ObjectRef, err error) error {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Code != http.StatusForbidden ||
		apierrors.HasStatusCause(err, "NamespaceTerminating") {
		return fmt.Errorf("trying as %q to write %s: %w", s.subject.UserName(), object, err)
	}
	if strings.Contains(status.Status().Message, "cannot impersonate") {
		return &PowerlessError{Subject: s.subject, Object: object}
	}
	return &RefusedError{Subject: s.subject, Object: object, Answer: oneLine(status.Status().Message)}
}

// impersonateSubject returns a client that acts as the subject, over the connections of the
// agent's own.
func (g *PermissionGuard) impersonateSubject(subject Subject) (metadata.Interface, error) {
	client := *g.client
	client.Transport = transport.NewImpersonatingRoundTripper(
		transport.ImpersonationConfig{UserName: subject.UserName()}, g.client.Transport)
	stage, err := metadata.NewForConfigAndClient(g.config, &client)
	if err != nil {
		return nil, fmt.Errorf("making a client that acts as %q: %w", subject.UserName(), err)
	}
	return stage, nil
}
