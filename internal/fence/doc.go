// Copyright The Capstan Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fence bars the operators' accounts from what RBAC cannot: it limits
// the creation of Secrets and Deployments neither to namespaces nor to kinds of
// Secrets and ServiceAccounts, so that who has the token of an operator could
// get the token of any ServiceAccount.
//
// A fence is a ValidatingAdmissionPolicy with its binding. It comes with the
// manifests of the operator; where these cannot have it, the operator makes it
// itself. It may read it then, but neither change nor delete it: who can move a
// fence has none. So the name has a version, and another fence another name.
//
// It is no replacement for RBAC: it bars writes only, and only those that need
// not be possible for an operator to do its work. Webhook configurations are
// not among them, as Kubernetes asks no policy about those.
package fence
